//! `clawpen config`: where the config is, whether it is sound, what it says.

use clawpen_engine::config_store::{self, StoreError};
use clawpen_engine::explain;
use clawpen_rules::config::load::LoadError;
use clawpen_rules::config::print::secrets::Sight;
use clawpen_rules::config::print::{self, Secrets};
use clawpen_rules::config::schema::{json as json_schema, keys};
use serde_json::json;

use super::CommandError;
use crate::args::{Format, SchemaArgs};
use crate::config_report::{invalid_json, warning_text};
use crate::exit::Outcome;
use crate::output::{Output, safe};

/// Prints the places, whether or not anything is there.
pub(crate) fn path(format: Format, output: &Output) -> Result<Outcome, CommandError> {
    let places = config_store::locations()?;
    let is_there = |path: &str| std::path::Path::new(path).exists();
    match format {
        Format::Json => output.json(&json!({
            "config": places.config,
            "configExists": is_there(&places.config),
            "ownConfig": places.own_config,
            "ownConfigExists": is_there(&places.own_config),
            "stateDir": places.state_dir,
            "home": places.home,
        }))?,
        Format::Text => {
            let mark =
                |path: &str| if is_there(path) { "" } else { "  (not there: built-in values)" };
            output.text(&format!(
                "config:  {}{}\nclawpen: {}{}\nstate:   {}\n",
                safe(&places.config),
                mark(&places.config),
                safe(&places.own_config),
                mark(&places.own_config),
                safe(&places.state_dir),
            ))?;
        }
    }
    Ok(Outcome::Done)
}

/// Checks the config; a config that is not sound is an error.
pub(crate) fn validate(format: Format, output: &Output) -> Result<Outcome, CommandError> {
    let store = match config_store::open() {
        Ok(store) => store,
        Err(error) => {
            if let (Format::Json, StoreError::Load(failure)) = (format, &error)
                && let LoadError::Invalid(invalid) = &failure.error
            {
                output.json(&invalid_json(invalid))?;
                return Err(CommandError::AlreadyShown);
            }
            return Err(error.into());
        }
    };
    let files = store.loaded.config.files();
    let mut warnings: Vec<String> = store
        .warnings()
        .iter()
        .map(|warning| warning_text(warning, files, &store.locations))
        .collect();
    warnings.extend(explain::policy_warnings(&store).iter().map(|warning| safe(warning)));
    match format {
        Format::Json => output.json(&json!({
            "valid": true,
            "file": store.locations.config,
            "exists": !store.loaded.is_missing,
            "files": files,
            "warnings": warnings,
        }))?,
        Format::Text => {
            for warning in &warnings {
                output.note(&format!("warning: {warning}"));
            }
            let state =
                if store.loaded.is_missing { "not there; built-in values apply" } else { "valid" };
            output.text(&format!("{}: {state}\n", safe(&store.locations.config)))?;
        }
    }
    Ok(Outcome::Done)
}

/// Prints the JSON Schema for an editor.
pub(crate) fn schema(args: &SchemaArgs, output: &Output) -> Result<Outcome, CommandError> {
    let (schema, title) =
        if args.own { (&keys::OWN, "clawpen.json") } else { (&keys::ROOT, "openclaw.json") };
    let mut text = print::json(&json_schema::document(schema, title), Secrets::None);
    text.push('\n');
    output.text(&text)?;
    Ok(Outcome::Done)
}

/// Prints the config as it is in force before defaults, or one value of it.
pub(crate) fn show(key: Option<&str>, output: &Output) -> Result<Outcome, CommandError> {
    let store = config_store::open()?;
    let mut at = store.loaded.config.root();
    let mut sight = Sight::Open;
    for part in key.into_iter().flat_map(|key| key.split('.')) {
        let next = at.get(part).or_else(|| {
            let index: usize = part.parse().ok()?;
            at.items().into_iter().nth(index)
        });
        let Some(next) = next else {
            let key = safe(key.unwrap_or_default());
            let what = format!(
                "nothing is written at `{key}`; `sandbox explain` shows the built-in values"
            );
            return Err(CommandError::Question { what });
        };
        // The way to a value says what of it may be seen.
        sight = sight.below(part, next.node);
        at = next;
    }
    let mut text = print::json_seen(at.node, sight);
    text.push('\n');
    output.text(&text)?;
    Ok(Outcome::Done)
}
