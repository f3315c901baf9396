//! Compares a recorded frame with ours: keys and values exactly, except for what is new in every run.

use std::collections::HashMap;

use clawpen_rules::config::{json5, tree::FileId};
use serde_json::Value;

use crate::compat::gateway_frames::ANYTHING;
use crate::facts;

/// Numbers and texts that tell of a moment or a size.
const VOLATILE: &[&str] = &[
    "ts",
    "updatedAt",
    "updatedAtMs",
    "createdAtMs",
    "approvedAtMs",
    "issuedAtMs",
    "expiresAtMs",
    "age",
    "durationMs",
    "uptimeMs",
    "size",
    "presence",
    "health",
    "pid",
    "retryAfterMs",
    "lastTouchedAt",
    "timestamp",
    "cursor",
    "startedAt",
    "endedAt",
    "runtimeMs",
    "acceptedAt",
    "startDate",
    "endDate",
];

/// What a recorded id or hash is called in this run.
#[derive(Debug, Default)]
pub(super) struct Known {
    names: HashMap<String, String>,
}

impl Known {
    /// A recorded frame with this run's ids and hashes.
    pub(super) fn translate(&self, value: &Value) -> Value {
        match value {
            Value::String(text) if is_start_of_uuid(text) => {
                let known =
                    self.names.iter().find(|(old, _)| is_uuid(old) && old.starts_with(text));
                let start = known.and_then(|(_, new)| new.get(..text.len()));
                Value::String(start.unwrap_or(text).to_owned())
            }
            Value::String(text) => {
                let known = self.names.iter().filter(|(old, _)| text.contains(old.as_str()));
                let text = known.fold(text.clone(), |text, (old, new)| text.replace(old, new));
                Value::String(text)
            }
            Value::Array(items) => items.iter().map(|item| self.translate(item)).collect(),
            Value::Object(members) => Value::Object(
                members.iter().map(|(key, value)| (key.clone(), self.translate(value))).collect(),
            ),
            other => other.clone(),
        }
    }

    /// The first difference. A frame with a key too many, or with a `null` at its top, is one.
    pub(super) fn difference(&mut self, expected: &Value, given: &Value) -> Option<String> {
        if let (Some(wanted), Some(found)) = (expected.as_object(), given.as_object()) {
            let is_odd = |(key, value): &(&String, &Value)| {
                !wanted.contains_key(*key) || (value.is_null() && *key != "payload")
            };
            if let Some((key, value)) =
                found.iter().find(is_odd).filter(|_| wanted.contains_key("type"))
            {
                return Some(format!("the frame's key `{key}` ({value}) is one too many"));
            }
        }
        self.at(expected, given, "")
    }

    fn at(&mut self, expected: &Value, given: &Value, at: &str) -> Option<String> {
        let key = at.rsplit('.').next().unwrap_or_default().to_owned();
        match (expected, given) {
            (Value::String(text), Value::Null) if text == "<OPTIONAL>" => None,
            (Value::String(text), _) if is_whole_placeholder(text) && !given.is_null() => None,
            (Value::String(wanted), Value::String(found)) if key == "raw" => {
                let read =
                    |text: &str| json5::parse(text, FileId(0)).ok().map(|parsed| parsed.root);
                let same = match (read(wanted), read(found)) {
                    (Some(wanted), Some(found)) => {
                        clawpen_rules::config::patch::is_same(&wanted, &found)
                    }
                    _ => false,
                };
                (!same).then(|| format!("{at}:\n  expected {wanted}\n  given    {found}"))
            }
            (Value::String(_), Value::String(_)) | (Value::Number(_), Value::Number(_))
                if VOLATILE.contains(&key.as_str()) || is_number_of_a_frame(at) =>
            {
                None
            }
            (Value::String(wanted), Value::String(found))
                if matches!(key.as_str(), "message" | "errorMessage" | "error") =>
            {
                facts::missing(wanted, found).map(|why| format!("{at}: {why}"))
            }
            (Value::String(wanted), Value::String(found)) => {
                let same = self.is_same_text(wanted, found);
                (!same).then(|| format!("{at}:\n  expected {wanted}\n  given    {found}"))
            }
            (Value::Object(wanted), Value::Object(found)) => {
                let mut keys: Vec<&String> = wanted.keys().chain(found.keys()).collect();
                keys.sort();
                keys.dedup();
                keys.into_iter().find_map(|key| {
                    let path = if at.is_empty() { key.clone() } else { format!("{at}.{key}") };
                    let wanted = wanted.get(key).unwrap_or(&Value::Null);
                    self.at(wanted, found.get(key).unwrap_or(&Value::Null), &path)
                })
            }
            (Value::Array(wanted), Value::Array(found)) => self.lists(wanted, found, at),
            (Value::Number(wanted), Value::Number(found)) if wanted.as_f64() == found.as_f64() => {
                None
            }
            (wanted, found) if wanted == found => None,
            (wanted, found) => Some(format!("{at}:\n  expected {wanted}\n  given    {found}")),
        }
    }

    fn lists(&mut self, wanted: &[Value], found: &[Value], at: &str) -> Option<String> {
        let cut = wanted.iter().position(|item| item["__truncated__"].is_number());
        let recorded = &wanted[..cut.unwrap_or(wanted.len())];
        let is_short = match cut {
            Some(cut) => found.len() < cut,
            None => found.len() != wanted.len(),
        };
        if is_short {
            return Some(format!(
                "{at}: {} items instead of {}\n  expected {}\n  given    {}",
                found.len(),
                wanted.len(),
                Value::Array(wanted.to_vec()),
                Value::Array(found.to_vec())
            ));
        }
        recorded
            .iter()
            .zip(found)
            .enumerate()
            .find_map(|(index, (wanted, found))| self.at(wanted, found, &format!("{at}.{index}")))
    }

    /// Texts that are the same once ids and hashes have this run's names and placeholders fit.
    fn is_same_text(&mut self, wanted: &str, found: &str) -> bool {
        let (wanted, found) = (&without_time(wanted), &without_time(found));
        // Two ids of transcript lines, or of approvals as prompts show them.
        if wanted == found || (is_start_of_uuid(wanted) && is_start_of_uuid(found)) {
            return true;
        }
        for (old, new) in names(wanted).into_iter().zip(names(found)) {
            self.names.entry(old).or_insert(new);
        }
        let Value::String(wanted) = self.translate(&Value::String(wanted.clone())) else {
            return false;
        };
        fits(&wanted, found)
    }
}

/// Says whether this counts frames of a gateway, or messages of a talk that began before the recording. The numbers of
/// a run's events are compared.
fn is_number_of_a_frame(at: &str) -> bool {
    at == "seq" || at.ends_with("__openclaw.seq")
}

/// A text without the moment that stands at its end, as in names of files that were put aside.
fn without_time(text: &str) -> String {
    let end = text.len().saturating_sub("2026-11-15T18-15-04.303Z".len());
    match text.get(end..) {
        Some(time) if time.starts_with("20") && time.get(10..14).is_some_and(is_hour) => {
            text.get(..end).unwrap_or_default().to_owned()
        }
        _ => text.to_owned(),
    }
}

fn is_hour(text: &str) -> bool {
    text.starts_with('T') && text.ends_with('-')
}

/// The ids and hashes in a text, in order.
fn names(text: &str) -> Vec<String> {
    let is_part = |c: char| c.is_ascii_hexdigit() || c == '-';
    let words = text.split(|c: char| !is_part(c));
    words.filter(|word| is_uuid(word) || is_hash(word)).map(str::to_owned).collect()
}

fn is_uuid(text: &str) -> bool {
    let parts: Vec<usize> = text.split('-').map(str::len).collect();
    parts == [8, 4, 4, 4, 12]
}

/// The first part of an id, as prompts show it.
fn is_start_of_uuid(text: &str) -> bool {
    text.len() == 8 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn is_hash(text: &str) -> bool {
    text.len() == 64 && !text.contains('-')
}

fn is_whole_placeholder(text: &str) -> bool {
    let inner = text.strip_prefix('<').and_then(|text| text.strip_suffix('>'));
    text == ANYTHING
        || inner.is_some_and(|inner| {
            inner.starts_with(|c: char| c.is_ascii_uppercase()) && !inner.contains('<')
        })
}

/// Says whether a text fits a recorded one in which `<NAME>` stands for anything.
fn fits(wanted: &str, found: &str) -> bool {
    let mut rest = found;
    let mut pieces = pieces(wanted).into_iter().peekable();
    let mut is_first = true;
    while let Some(piece) = pieces.next() {
        let is_last = pieces.peek().is_none();
        let next = if is_first {
            rest.strip_prefix(piece.as_str())
        } else if is_last {
            return rest.ends_with(piece.as_str());
        } else {
            rest.find(piece.as_str()).map(|at| &rest[at + piece.len()..])
        };
        match next {
            Some(next) => rest = next,
            None => return false,
        }
        is_first = false;
    }
    rest.is_empty()
}

/// The parts of a text between placeholders.
fn pieces(text: &str) -> Vec<String> {
    let mut pieces = vec![String::new()];
    let mut rest = text;
    while let Some(start) = rest.find('<') {
        let end = rest[start..].find('>').map(|end| start + end);
        let (before, after) = rest.split_at(start);
        let is_name = after[1..].starts_with(|c: char| c.is_ascii_uppercase());
        if let Some(last) = pieces.last_mut() {
            last.push_str(before);
        }
        if let Some(end) = end.filter(|_| is_name) {
            pieces.push(String::new());
            rest = &rest[end + 1..];
        } else {
            if let Some(last) = pieces.last_mut() {
                last.push('<');
            }
            rest = &after[1..];
        }
    }
    if let Some(last) = pieces.last_mut() {
        last.push_str(rest);
    }
    pieces
}

/// A raw frame; one that the recording cut off is as long as it must have been.
pub(super) fn untruncated(text: &str) -> String {
    match text.strip_suffix('…') {
        Some(start) => format!("{start}{}", "x".repeat(70_000)),
        None => text.to_owned(),
    }
}
