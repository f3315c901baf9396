//! Shows what is wrong with a config, or worth knowing about it.

use clawpen_engine::config_store::{LoadFailure, StoreError};
use clawpen_rules::config::load::{Finding, Invalid, LoadError, Warning};
use clawpen_rules::config::locate::{Locations, shorten_home};
use clawpen_rules::config::tree::Place;
use clawpen_rules::config::variables::VariableWarning;
use serde_json::{Value, json};

use crate::output::safe;

/// Everything a person needs to mend a config that did not load.
pub(crate) fn failure(error: &StoreError) -> String {
    match error {
        StoreError::Load(failure) => match failure.as_ref() {
            LoadFailure { locations, error: LoadError::Invalid(invalid) } => {
                invalid_text(invalid, locations)
            }
            LoadFailure { error: LoadError::Unreadable { .. }, .. } => chain(error),
        },
        other => chain(other),
    }
}

/// An error with its causes, on one line each.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = format!("error: {}", safe(&error.to_string()));
    let mut cause = error.source();
    while let Some(error) = cause {
        let line = safe(&error.to_string());
        // A transparent error repeats its cause.
        if !text.ends_with(&line) {
            text.push_str("\n  because: ");
            text.push_str(&line);
        }
        cause = error.source();
    }
    text
}

fn invalid_text(invalid: &Invalid, locations: &Locations) -> String {
    use std::fmt::Write as _;
    let file = safe(&shorten_home(&invalid.file, &locations.home));
    let mut text = format!("config not valid: {file}\n");
    for finding in &invalid.findings {
        let key = if finding.key.is_empty() { "<root>" } else { &finding.key };
        // Writing to a String cannot fail.
        let _ = write!(text, "\n  - {}: {}", safe(key), safe(&finding.message));
        if let Some(place) = finding.place {
            let _ = write!(text, "\n      at {}", place_text(place, &invalid.files, locations));
        }
        if let Some(hint) = &finding.hint {
            let _ = write!(text, "\n      hint: {}", safe(hint));
        }
    }
    for warning in &invalid.warnings {
        let _ = write!(text, "\n\n  note: {}", warning_text(warning, &invalid.files, locations));
    }
    text.push_str("\n\nmend the file, then check it with `clawpen config validate`");
    text
}

/// `~/file:line:column`.
pub(crate) fn place_text(place: Place, files: &[String], locations: &Locations) -> String {
    let file = files.get(usize::from(place.file.0)).map_or("", String::as_str);
    format!("{}:{}:{}", safe(&shorten_home(file, &locations.home)), place.line, place.column)
}

/// The same as JSON, for `config validate --json`.
pub(crate) fn invalid_json(invalid: &Invalid) -> Value {
    let finding = |finding: &Finding| {
        let file = finding.place.and_then(|place| invalid.files.get(usize::from(place.file.0)));
        json!({
            "key": finding.key,
            "message": finding.message,
            "file": file,
            "line": finding.place.map(|place| place.line),
            "column": finding.place.map(|place| place.column),
            "hint": finding.hint,
        })
    };
    json!({
        "valid": false,
        "file": invalid.file,
        "problems": invalid.findings.iter().map(finding).collect::<Vec<_>>(),
    })
}

/// A warning in words.
pub(crate) fn warning_text(warning: &Warning, files: &[String], locations: &Locations) -> String {
    let at = |place: &Place| place_text(*place, files, locations);
    match warning {
        Warning::Variable(VariableWarning::Missing { name, key, place }) => format!(
            "{} refers to ${{{}}}, which is not set; the text stays as it is ({})",
            safe(key),
            safe(name),
            at(place)
        ),
        Warning::Variable(VariableWarning::Untrusted { name, key, place }) => format!(
            "{} refers to ${{{}}}, which only the working directory's .env sets; that file has no say \
             here, set it in the environment or in the state directory's .env ({})",
            safe(key),
            safe(name),
            at(place)
        ),
        Warning::Variable(VariableWarning::Refused { name, file }) => format!(
            "{} sets {}, which could take over programs on this machine; it was not taken",
            safe(&shorten_home(file, &locations.home)),
            safe(name)
        ),
        Warning::MainKeyIgnored { place } => format!(
            "session.mainKey has no effect: the main session is always called \"main\" ({})",
            at(place)
        ),
        Warning::RepeatedKey { key, place } => {
            format!(
                "the key `{}` stands twice in one object; the later one counts ({})",
                safe(key),
                at(place)
            )
        }
        Warning::SeveralDefaults { agents } => format!(
            "several agents are marked default ({}); the first counts",
            safe(&agents.join(", "))
        ),
        Warning::Unreadable { why } => format!("{}; what it sets is missing", safe(why)),
        Warning::NamedConfigMissing { path } => {
            format!(
                "OPENCLAW_CONFIG_PATH names {}, which is not there; built-in values apply",
                safe(path)
            )
        }
        Warning::ListIgnored { place } => {
            format!("agents.entries is there, so agents.list is not read ({})", at(place))
        }
    }
}
