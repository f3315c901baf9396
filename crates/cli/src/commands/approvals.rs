//! `clawpen approvals`: the file that says what may run on the host without asking, and what waits for
//! a person.

pub(crate) mod pending;
mod screen;
pub(crate) mod watch;

use std::io::Read as _;

use clawpen_engine::approvals_file::{ApprovalsStore, Snapshot, now_ms};
use clawpen_engine::{config_store, exec_question, random};
use clawpen_rules::approval::file::{AgentKey, Change, NewEntry};
use clawpen_rules::config::locate::shorten_home;
use serde_json::{Value, json};

use super::CommandError;
use crate::args::{Format, PatternArgs, SetArgs};
use crate::exit::Outcome;
use crate::output::{Output, safe};

/// A larger text is no approvals file.
const MAX_BYTES: u64 = 8 * 1024 * 1024;

/// Prints the file.
pub(crate) fn get(format: Format, output: &Output) -> Result<Outcome, CommandError> {
    let (store, home) = store()?;
    let snapshot = store.read()?;
    show(&snapshot, &home, format, output)?;
    Ok(Outcome::Done)
}

/// Replaces the file.
pub(crate) fn set(args: &SetArgs, output: &Output) -> Result<Outcome, CommandError> {
    let (store, home) = store()?;
    let text = new_content(args)?;
    let base = match &args.base_hash {
        Some(hash) => hash.clone(),
        None => store.read()?.hash.to_string(),
    };
    let snapshot = store.set(&text, Some(&base))?;
    show(&snapshot, &home, args.format.format(), output)?;
    Ok(Outcome::Done)
}

/// Says whether the file can be used, and what in it has no effect.
pub(crate) fn check(format: Format, output: &Output) -> Result<Outcome, CommandError> {
    let (store, home) = store()?;
    let (exists, problem, warnings) = match store.read() {
        Ok(snapshot) => (snapshot.exists, None, warnings(&snapshot)),
        Err(refused) => (true, Some(refused), Vec::new()),
    };
    let path = store.path().to_string_lossy().into_owned();
    match format {
        Format::Json => output.json(&json!({
            "path": path,
            "exists": exists,
            "usable": problem.is_none(),
            "problem": problem.as_ref().map(ToString::to_string),
            "warnings": warnings,
        }))?,
        Format::Text => {
            let path = safe(&shorten_home(&path, &home));
            let first = match (&problem, exists) {
                (Some(problem), _) => format!("no: {}", safe(&problem.to_string())),
                (None, false) => format!("yes: {path} does not exist, so it says nothing"),
                (None, true) => format!("yes: {path} can be used"),
            };
            let mut lines = vec![first];
            if problem.is_some() {
                lines.push("  effect: nothing runs on the host until it is mended".to_owned());
            }
            lines.extend(warnings.iter().map(|warning| format!("  note: {}", safe(warning))));
            output.lines(&lines)?;
        }
    }
    Ok(if problem.is_none() { Outcome::Done } else { Outcome::Refused })
}

/// Adds a pattern to an agent's list.
pub(crate) fn add(args: &PatternArgs, output: &Output) -> Result<Outcome, CommandError> {
    let pattern = args.pattern.trim();
    if pattern != "*" && !pattern.contains(['/', '~']) {
        let what = format!(
            "the pattern `{}` would match nothing: write the path of the program, such as \
             /usr/bin/{}, or `*` for everything",
            safe(pattern),
            safe(pattern)
        );
        return Err(CommandError::Question { what });
    }
    let agent = key(&args.agent)?;
    let configs = config_store::open()?;
    let pinned = exec_question::pin(&configs, pattern);
    let entry = NewEntry::pattern(pattern, pinned);
    let store = ApprovalsStore::of_home(&configs.locations.home);
    let (snapshot, change) =
        store.edit(|file| file.add(&agent, entry.clone(), now_ms(), &mut random::uuid))?;
    let done = match change {
        Change::Changed => "added",
        Change::Unchanged => "already there",
    };
    let pin = pinned.map(|pin| pin.to_string());
    report(args, &snapshot, done, pin.as_deref(), output)?;
    Ok(Outcome::Done)
}

/// Takes a pattern off an agent's list.
pub(crate) fn remove(args: &PatternArgs, output: &Output) -> Result<Outcome, CommandError> {
    let agent = key(&args.agent)?;
    let (store, _) = store()?;
    let (snapshot, change) = store.edit(|file| file.remove(&agent, &args.pattern))?;
    match change {
        Change::Changed => {
            report(args, &snapshot, "removed", None, output)?;
            Ok(Outcome::Done)
        }
        Change::Unchanged => {
            let what = format!(
                "`{}` is not on the list of `{}`; see `clawpen approvals get`",
                safe(&args.pattern),
                safe(&args.agent)
            );
            Err(CommandError::Question { what })
        }
    }
}

fn key(agent: &str) -> Result<AgentKey, CommandError> {
    let key = AgentKey::parse(agent);
    if key.is_reachable() {
        return Ok(key);
    }
    let what = format!(
        "no agent can be called `{}`: ids are lower case letters, digits, `-` and `_`",
        safe(agent)
    );
    Err(CommandError::Question { what })
}

fn report(
    args: &PatternArgs,
    snapshot: &Snapshot,
    done: &str,
    pin: Option<&str>,
    output: &Output,
) -> Result<(), CommandError> {
    match args.format.format() {
        Format::Json => {
            let mut shown = snapshot_json(snapshot)?;
            shown["clawpen"]["done"] = json!(done);
            shown["clawpen"]["pinned"] = json!(pin);
            output.json(&shown)?;
        }
        Format::Text => {
            let agent = if args.agent.trim() == "*" { "every agent" } else { args.agent.trim() };
            let mut lines =
                vec![format!("{done}: {} for {}", safe(args.pattern.trim()), safe(agent))];
            lines.extend(pin.map(|pin| {
                format!(
                    "  note: an agent can change this file, so it is pinned to its content ({pin})"
                )
            }));
            output.lines(&lines)?;
        }
    }
    Ok(())
}

fn store() -> Result<(ApprovalsStore, String), CommandError> {
    let locations = config_store::locations()?;
    Ok((ApprovalsStore::of_home(&locations.home), locations.home))
}

fn new_content(args: &SetArgs) -> Result<String, CommandError> {
    let name = args.file.as_ref().map_or_else(|| "-".into(), |file| file.to_string_lossy());
    let unreadable = |cause| CommandError::Read { path: name.clone().into_owned(), cause };
    let mut text = String::new();
    match &args.file {
        Some(file) => {
            let file = std::fs::File::open(file).map_err(unreadable)?;
            file.take(MAX_BYTES).read_to_string(&mut text).map_err(unreadable)?;
        }
        None => {
            std::io::stdin().take(MAX_BYTES).read_to_string(&mut text).map_err(unreadable)?;
        }
    }
    Ok(text)
}

fn warnings(snapshot: &Snapshot) -> Vec<String> {
    snapshot.file.warnings().iter().map(ToString::to_string).collect()
}

/// The reference's shape, with our findings under `clawpen`.
fn snapshot_json(snapshot: &Snapshot) -> Result<Value, CommandError> {
    let file: Value =
        serde_json::from_str(&snapshot.file.redacted().to_text()).map_err(std::io::Error::other)?;
    Ok(json!({
        "path": snapshot.path,
        "exists": snapshot.exists,
        "hash": snapshot.hash.as_str(),
        "file": file,
        "clawpen": { "warnings": warnings(snapshot) },
    }))
}

fn show(
    snapshot: &Snapshot,
    home: &str,
    format: Format,
    output: &Output,
) -> Result<(), CommandError> {
    if format == Format::Json {
        return Ok(output.json(&snapshot_json(snapshot)?)?);
    }
    let path = safe(&shorten_home(&snapshot.path, home));
    let state = if snapshot.exists { "" } else { " (does not exist)" };
    let mut lines = vec![format!("{path}{state}"), format!("  hash: {}", snapshot.hash)];
    if let Some(socket) = snapshot.file.socket_path() {
        let token = if snapshot.file.has_token() { "(set)" } else { "(none)" };
        lines.push(format!("  socket: {} token: {token}", safe(socket)));
    }
    let file: Value =
        serde_json::from_str(&snapshot.file.redacted().to_text()).map_err(std::io::Error::other)?;
    lines.push(format!("  defaults: {}", words(&file["defaults"])));
    for (agent, own) in file["agents"].as_object().into_iter().flatten() {
        lines.push(format!("  {}: {}", safe(agent), words(own)));
        for entry in own["allowlist"].as_array().into_iter().flatten() {
            lines.push(format!("    {}", entry_text(entry)));
        }
    }
    lines.extend(warnings(snapshot).iter().map(|warning| format!("  note: {}", safe(warning))));
    Ok(output.lines(&lines)?)
}

/// The policy words of one block.
fn words(block: &Value) -> String {
    let keys = ["security", "ask", "askFallback", "autoAllowSkills"];
    let set = keys.iter().filter(|key| !block[**key].is_null());
    let set: Vec<String> = set
        .map(|key| {
            let value = &block[*key];
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            format!("{key}={}", safe(&text))
        })
        .collect();
    if set.is_empty() { "nothing set".to_owned() } else { set.join(" ") }
}

/// One entry as a person reads it.
fn entry_text(entry: &Value) -> String {
    let own = &entry["clawpen"];
    let mut text = match own["argv"].as_array() {
        Some(argv) => {
            let argv: Vec<&str> = argv.iter().filter_map(Value::as_str).collect();
            let place = |key: &str| safe(own[key].as_str().unwrap_or_default());
            let argv = argv.iter().map(|word| format!("{word:?}")).collect::<Vec<_>>().join(" ");
            format!("exactly {} as {} in {}", place("executable"), safe(&argv), place("cwd"))
        }
        None => safe(entry["pattern"].as_str().unwrap_or_default()),
    };
    if let Some(pin) = own["sha256"].as_str() {
        text = format!("{text} (sha256 {})", safe(pin));
    }
    text
}
