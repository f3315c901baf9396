//! `config.*`: the user's config, without its secrets.

mod lookup;

use std::time::Instant;

use clawpen_engine::config_file::{self, Base, Sound, WriteError};
use clawpen_rules::approval::file::SetRefusal;
use clawpen_rules::config::load::Finding;
use clawpen_rules::config::redact::{self, NothingToRestore, SENTINEL, Sources};
use clawpen_rules::config::schema::{json as schema_json, keys};
use clawpen_rules::config::tree::{FileId, Node, Value as Tree};
use clawpen_rules::config::{edit, json5, patch as merge};
use clawpen_wire::gateway::{COMPATIBLE_RELEASE, ErrorShape};
use serde_json::{Value, json};

use super::{optional, text};
use crate::dispatch::Caller;
use crate::shared::{Shared, unavailable};
use crate::tree_json::to_json;

pub(crate) use lookup::lookup;

/// How many problems are named in a message.
const SHOWN_ISSUES: usize = 3;
/// How many values that a key takes are named beside a problem.
const SHOWN_VALUES: usize = 12;

pub(crate) fn get(shared: &Shared) -> Result<Value, ErrorShape> {
    let view = shared.view()?;
    let mut answer = json!({
        "path": view.path,
        "exists": view.text.is_some(),
        "raw": Value::Null,
        "parsed": Value::Null,
        "resolved": {},
        "valid": view.state.is_ok(),
        "config": {},
        "hash": view.hash.as_str(),
        "issues": [],
        "warnings": [],
        "legacyIssues": [],
    });
    match &view.state {
        Ok(sound) => {
            answer["raw"] = json!(redacted_text(view.text.as_deref(), sound));
            answer["parsed"] = to_json(&redact::redact(&sound.written));
            answer["resolved"] = to_json(&redact::redact(&sound.resolved));
            answer["config"] = to_json(&redact::redact(&sound.shown));
        }
        Err(findings) => answer["issues"] = issues(findings),
    }
    Ok(answer)
}

/// The file's text without its secrets: each is replaced where it stands, so comments and order stay.
/// A text in which that cannot be done is written anew.
fn redacted_text(text: Option<&str>, sound: &Sound) -> Option<String> {
    let text = text?;
    let hidden = redact::redact(&sound.written);
    let mut shown = text.to_owned();
    for change in merge::edits(&sound.written, &hidden, None) {
        let keys: Vec<&str> = change.path.iter().map(String::as_str).collect();
        let value = change.value.map(|_| format!("\"{SENTINEL}\"")).unwrap_or_default();
        match edit::set(&shown, &keys, &value) {
            Ok(edited) => shown = edited,
            Err(_) => return Some(rendered(&hidden)),
        }
    }
    // A key that stands twice hides its first value from the tree, not from a reader.
    let is_same = json5::parse(&shown, FileId(0))
        .is_ok_and(|parsed| parsed.repeated.is_empty() && merge::is_same(&parsed.root, &hidden));
    // Comments may repeat a secret.
    let is_clean = !repeats_secret(&shown, &sound.written, &hidden);
    Some(if is_same && is_clean { shown } else { rendered(&hidden) })
}

fn rendered(node: &Node) -> String {
    format!("{:#}\n", to_json(node))
}

/// Says whether a text still holds one of the values that were hidden.
fn repeats_secret(text: &str, written: &Node, hidden: &Node) -> bool {
    match (&written.value, &hidden.value) {
        (Tree::String(secret), Tree::String(shown)) => {
            shown == SENTINEL && secret.len() >= 4 && text.contains(secret.as_str())
        }
        (Tree::Array(written), Tree::Array(hidden)) => {
            written.iter().zip(hidden).any(|(one, other)| repeats_secret(text, one, other))
        }
        (Tree::Object(written), Tree::Object(hidden)) => written.members().iter().any(|member| {
            let other = hidden.get(&member.key);
            other.is_some_and(|other| repeats_secret(text, &member.node, other))
        }),
        (_, _) => false,
    }
}

pub(crate) fn set(shared: &Shared, params: &Value) -> Result<Value, ErrorShape> {
    let config = replace(shared, params)?;
    Ok(json!({ "ok": true, "path": shared.locations.config, "config": config }))
}

pub(crate) fn apply(shared: &Shared, params: &Value) -> Result<Value, ErrorShape> {
    let config = replace(shared, params)?;
    Ok(applied(shared, ("config.apply", "config-apply"), params, config))
}

pub(crate) fn patch(shared: &Shared, params: &Value) -> Result<Value, ErrorShape> {
    let raw = text(params, "raw");
    let config = write(shared, params, |old| {
        let patch = parse(raw)?;
        if patch.as_object().is_none() {
            return Err(ErrorShape::invalid("config.patch raw must be an object"));
        }
        let mut new = old.shown.clone();
        merge::merge(&mut new, &patch);
        restore(new, old)
    })?;
    Ok(applied(shared, ("config.patch", "config-patch"), params, config))
}

fn replace(shared: &Shared, params: &Value) -> Result<Value, ErrorShape> {
    let raw = text(params, "raw");
    write(shared, params, |old| {
        let new = parse(raw)?;
        if new.as_object().is_none() {
            let message = format!("needs type object, found {}", new.value.kind());
            let details = json!({ "issues": [{ "path": "", "message": message }] });
            let error = ErrorShape::invalid(format!("invalid config: <root>: {message}"));
            return Err(error.with_details(details));
        }
        restore(new, old)
    })
}

/// Changes the file; gives the config as it was meant, without its secrets. Who wrote it last, and when, is what the
/// client said about it: that this write is noted in the file is seen when it is read again.
fn write(
    shared: &Shared,
    params: &Value,
    plan: impl FnOnce(&Sound) -> Result<Node, ErrorShape>,
) -> Result<Value, ErrorShape> {
    let base = Base::Seen(optional(params, "baseHash"));
    let mut meta = None;
    let plan = |old: &Sound| {
        let wanted = plan(old).map_err(Plan)?;
        meta = wanted.get("meta").map(to_json);
        Ok(wanted)
    };
    let sound =
        config_file::write(&shared.around, base, Shared::now(), plan).map_err(write_error)?;
    let mut config = to_json(&redact::redact(&sound.shown));
    if let Some(config) = config.as_object_mut() {
        config.remove("meta");
        config.extend(meta.map(|meta| ("meta".to_owned(), meta)));
    }
    Ok(config)
}

/// What a plan says instead of a config.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.message)]
pub(crate) struct Plan(ErrorShape);

pub(crate) fn write_error(error: WriteError<Plan>) -> ErrorShape {
    match error {
        WriteError::Asker(Plan(error)) => error,
        WriteError::Stale(SetRefusal::BaseMissing) => {
            ErrorShape::invalid("config base hash required; re-run config.get and retry")
        }
        WriteError::Stale(SetRefusal::Changed) => {
            ErrorShape::invalid("config changed since last load; re-run config.get and retry")
        }
        WriteError::NowInvalid(_) => ErrorShape::invalid("invalid config; fix before patching"),
        WriteError::Invalid(findings) => invalid(&findings),
        error @ (WriteError::Elsewhere { .. } | WriteError::Edit(_)) => {
            ErrorShape::invalid(error.to_string())
        }
        error @ (WriteError::Store(_) | WriteError::File(_)) => unavailable(&error),
    }
}

fn invalid(findings: &[Finding]) -> ErrorShape {
    let parts = findings.iter().take(SHOWN_ISSUES).map(|finding| {
        let key = if finding.key.is_empty() { "<root>" } else { &finding.key };
        format!("{key}: {}", finding.message)
    });
    let mut what = format!("invalid config: {}", parts.collect::<Vec<_>>().join("; "));
    let more = findings.len().saturating_sub(SHOWN_ISSUES);
    if more > 0 {
        what = format!("{what} (+{more} more issues)");
    }
    ErrorShape::invalid(what).with_details(json!({ "issues": issues(findings) }))
}

fn issues(findings: &[Finding]) -> Value {
    let issues = findings.iter().map(|finding| {
        let mut issue = json!({ "path": finding.key, "message": finding.message });
        if !finding.allowed.is_empty() {
            let (shown, hidden) = finding.allowed.split_at(finding.allowed.len().min(SHOWN_VALUES));
            issue["allowedValues"] = json!(shown);
            issue["allowedValuesHiddenCount"] = json!(hidden.len());
        }
        issue
    });
    Value::Array(issues.collect())
}

fn parse(raw: &str) -> Result<Node, ErrorShape> {
    let parsed = json5::parse(raw, FileId(0)).map_err(|error| {
        let (line, column) = (error.line, error.column);
        ErrorShape::invalid(format!("SyntaxError: JSON5: {error} at {line}:{column}"))
    })?;
    Ok(parsed.root)
}

fn restore(mut new: Node, old: &Sound) -> Result<Node, ErrorShape> {
    let sources = Sources { written: Some(&old.written), shown: Some(&old.shown) };
    let restored: Result<(), NothingToRestore> = redact::restore(&mut new, sources);
    restored.map_err(|refused| ErrorShape::invalid(refused.to_string()))?;
    Ok(new)
}

/// Changes are read at the next call, so nothing restarts; the answer keeps the shape that clients know.
fn applied(shared: &Shared, (method, kind): (&str, &str), params: &Value, config: Value) -> Value {
    let path = &shared.locations.config;
    let mut payload = json!({
        "kind": kind,
        "status": "ok",
        "ts": Shared::now().as_millis(),
        "doctorHint": "Run: clawpen doctor",
        "stats": { "mode": method, "root": path },
    });
    for (from, to) in [("sessionKey", "sessionKey"), ("note", "message")] {
        if let Some(value) = optional(params, from).map(str::trim).filter(|text| !text.is_empty()) {
            payload[to] = json!(value);
        }
    }
    json!({
        "ok": true,
        "path": path,
        "config": config,
        "restart": {
            "ok": true,
            "pid": std::process::id(),
            "signal": "none",
            "delayMs": 0,
            "reason": method,
            "mode": "none",
            "coalesced": true,
            "cooldownMsApplied": 0,
        },
        "sentinel": { "path": Value::Null, "payload": payload },
    })
}

pub(crate) fn take_write(shared: &Shared, caller: &Caller, method: &str) -> Result<(), ErrorShape> {
    let name = caller.device.clone().unwrap_or_else(|| caller.connection.clone());
    shared.take_write(method, (name, caller.address), Instant::now())
}

/// The schema of the config: the table that also checks it.
pub(crate) fn schema() -> Value {
    let document = schema_json::document(&keys::ROOT, "OpenClaw config");
    json!({
        "schema": to_json(&document),
        "uiHints": {},
        "version": COMPATIBLE_RELEASE,
        "generatedAt": "2026-03-28T00:00:00.000Z",
    })
}

#[cfg(test)]
mod tests;
