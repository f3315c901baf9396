//! `config.*`: the user's config, without its secrets.

use std::time::Instant;

use clawpen_engine::config_file::{self, Base, Sound, WriteError};
use clawpen_rules::approval::file::SetRefusal;
use clawpen_rules::config::load::Finding;
use clawpen_rules::config::redact::{self, NothingToRestore, SENTINEL, Sources};
use clawpen_rules::config::schema::{
    Field, ObjectSchema, Others, Presence, Range, Schema, json as schema_json, keys,
};
use clawpen_rules::config::tree::{FileId, Node, Value as Tree};
use clawpen_rules::config::{edit, json5, patch as merge};
use clawpen_wire::gateway::{COMPATIBLE_RELEASE, ErrorShape};
use serde_json::{Value, json};

use super::{optional, text};
use crate::dispatch::Caller;
use crate::shared::{Shared, unavailable};
use crate::tree_json::to_json;

/// How many problems are named in a message.
const SHOWN_ISSUES: usize = 3;

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
    let sound = replace(shared, params)?;
    Ok(json!({ "ok": true, "path": shared.locations.config, "config": shown(&sound) }))
}

pub(crate) fn apply(shared: &Shared, params: &Value) -> Result<Value, ErrorShape> {
    let sound = replace(shared, params)?;
    Ok(applied(shared, ("config.apply", "config-apply"), params, &sound))
}

pub(crate) fn patch(shared: &Shared, params: &Value) -> Result<Value, ErrorShape> {
    let raw = text(params, "raw");
    let sound = write(shared, params, |old| {
        let patch = parse(raw)?;
        if patch.as_object().is_none() {
            return Err(ErrorShape::invalid("config.patch raw must be an object"));
        }
        let mut new = old.shown.clone();
        merge::merge(&mut new, &patch);
        restore(new, old)
    })?;
    Ok(applied(shared, ("config.patch", "config-patch"), params, &sound))
}

fn replace(shared: &Shared, params: &Value) -> Result<Sound, ErrorShape> {
    let raw = text(params, "raw");
    write(shared, params, |old| {
        let new = parse(raw)?;
        if new.as_object().is_none() {
            return Err(ErrorShape::invalid("invalid config: <root>: needs type object"));
        }
        restore(new, old)
    })
}

fn write(
    shared: &Shared,
    params: &Value,
    plan: impl FnOnce(&Sound) -> Result<Node, ErrorShape>,
) -> Result<Sound, ErrorShape> {
    let base = Base::Seen(optional(params, "baseHash"));
    let plan = |old: &Sound| plan(old).map_err(Plan);
    config_file::write(&shared.around, base, Shared::now(), plan).map_err(write_error)
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
    let issues =
        findings.iter().map(|finding| json!({ "path": finding.key, "message": finding.message }));
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

fn shown(sound: &Sound) -> Value {
    to_json(&redact::redact(&sound.shown))
}

/// Changes are read at the next call, so nothing restarts; the answer keeps the shape that clients know.
fn applied(shared: &Shared, (method, kind): (&str, &str), params: &Value, sound: &Sound) -> Value {
    let path = &shared.locations.config;
    let mut payload = json!({
        "kind": kind,
        "status": "ok",
        "ts": Shared::now().as_millis(),
        "doctorHint": "Run: clawpen doctor",
        "stats": { "mode": method, "root": path },
    });
    for (from, to) in [("sessionKey", "sessionKey"), ("note", "message")] {
        if let Some(value) = optional(params, from) {
            payload[to] = json!(value);
        }
    }
    json!({
        "ok": true,
        "path": path,
        "config": shown(sound),
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

/// One key of the schema and what stands below it.
pub(crate) fn lookup(params: &Value) -> Result<Value, ErrorShape> {
    let path = text(params, "path").trim().trim_matches('.');
    let found = path.split('.').try_fold(&keys::ROOT, step);
    let found = found.ok_or_else(|| ErrorShape::invalid("config schema path not found"))?;
    let mut schema = json!({});
    if let Some(kind) = kind(found) {
        schema["type"] = json!(kind);
    }
    let object = as_object(found);
    if object.is_some_and(|object| object.others == Others::Refuse) {
        schema["additionalProperties"] = json!(false);
    }
    let fields = object.map(|object| object.fields).unwrap_or_default();
    let children: Vec<Value> = fields.iter().map(|field| child(path, field)).collect();
    Ok(json!({ "path": path, "schema": schema, "children": children }))
}

/// What a key leads to: a member, any key of a map, or an item of a list.
fn step(schema: &'static Schema, key: &str) -> Option<&'static Schema> {
    match schema {
        Schema::Object(object) => {
            object.fields.iter().find(|field| field.name == key).map(|field| &field.schema)
        }
        Schema::Map(item) => Some(item),
        Schema::List(item) if key == "*" || key.parse::<usize>().is_ok() => Some(item),
        Schema::Either(shapes) => shapes.iter().find_map(|shape| step(shape, key)),
        Schema::Any
        | Schema::Bool
        | Schema::Text { .. }
        | Schema::Number(_)
        | Schema::Words(_)
        | Schema::List(_) => None,
    }
}

fn child(path: &str, field: &'static Field) -> Value {
    let mut child = json!({ "key": field.name, "path": format!("{path}.{}", field.name) });
    if let Some(kind) = kind(&field.schema) {
        child["type"] = json!(kind);
    }
    child["required"] = json!(field.presence == Presence::Required);
    child["hasChildren"] =
        json!(matches!(field.schema, Schema::Object(_) | Schema::Map(_) | Schema::List(_)));
    child
}

fn as_object(schema: &'static Schema) -> Option<&'static ObjectSchema> {
    match schema {
        Schema::Object(object) => Some(object),
        _ => None,
    }
}

/// The type of a value; words and alternatives have none of their own.
fn kind(schema: &Schema) -> Option<&'static str> {
    match schema {
        Schema::Bool => Some("boolean"),
        Schema::Text { .. } => Some("string"),
        Schema::Number(Range::PositiveInteger | Range::NotNegativeInteger) => Some("integer"),
        Schema::Number(Range::Any | Range::Positive | Range::NotNegative) => Some("number"),
        Schema::List(_) => Some("array"),
        Schema::Map(_) | Schema::Object(_) => Some("object"),
        Schema::Any | Schema::Words(_) | Schema::Either(_) => None,
    }
}

#[cfg(test)]
mod tests;
