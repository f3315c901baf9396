//! Brings a parsed file into normal form: the shape that is written, compared and asked.

use std::collections::HashSet;

use super::{FileProblem, LEGACY_MAIN, MAIN, NewId, VERSION, member};
use crate::config::tree::{Member, Node, Object, Value};
use crate::ids::trim;

/// The normal form of a version-1 file. Keys that we do not know stay where they are.
pub(super) fn normalise(mut root: Object, new_id: NewId<'_>) -> Result<Object, FileProblem> {
    let socket = socket(take_object(&mut root, "socket", "socket")?)?;
    let defaults = take_object(&mut root, "defaults", "defaults")?;
    let agents = agents(take_object(&mut root, "agents", "agents")?, new_id)?;
    let mut normal = Object::default();
    normal.insert(member("version", Value::Number(VERSION)));
    normal.insert(member("socket", Value::Object(socket)));
    normal.insert(member("defaults", Value::Object(defaults)));
    normal.insert(member("agents", Value::Object(agents)));
    root.remove("version");
    for other in root.into_members() {
        normal.insert(other);
    }
    Ok(normal)
}

/// Takes a block out. Absent and null are an empty one; any other kind would hide a policy.
fn take_object(parent: &mut Object, key: &str, path: &str) -> Result<Object, FileProblem> {
    match parent.remove(key) {
        None => Ok(Object::default()),
        Some(Member { node, .. }) => match node.value {
            Value::Null => Ok(Object::default()),
            Value::Object(object) => Ok(object),
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                Err(malformed(path.to_owned(), &node, "an object"))
            }
        },
    }
}

fn malformed(key: String, node: &Node, wanted: &'static str) -> FileProblem {
    let kind = node.value.kind();
    let (line, column) = (node.place.line, node.place.column);
    FileProblem::Malformed { key, kind, wanted, line, column }
}

/// Path and token without blanks around them; empty ones are absent.
fn socket(mut socket: Object) -> Result<Object, FileProblem> {
    for key in ["path", "token"] {
        let Some(found) = socket.remove(key) else { continue };
        match &found.node.value {
            Value::Null => {}
            Value::String(text) => {
                let text = trim(text).to_owned();
                if !text.is_empty() {
                    socket.insert(member(key, Value::String(text)));
                }
            }
            Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                return Err(malformed(format!("socket.{key}"), &found.node, "a text"));
            }
        }
    }
    Ok(socket)
}

fn agents(agents: Object, new_id: NewId<'_>) -> Result<Object, FileProblem> {
    let mut written = Vec::new();
    let mut legacy = None;
    for mut entry in agents.into_members() {
        let key = entry.key.clone();
        let Value::Object(agent) = &mut entry.node.value else {
            return Err(malformed(format!("agents.{key}"), &entry.node, "an object"));
        };
        coerce_allowlist(agent);
        if key == LEGACY_MAIN {
            legacy = Some(std::mem::take(agent));
        } else {
            written.push(entry);
        }
    }
    let mut agents = Object::from_members(written);
    if let Some(legacy) = legacy {
        let merged = match agents.get_mut(MAIN) {
            Some(Node { value: Value::Object(main), .. }) => merge(std::mem::take(main), legacy),
            Some(_) | None => legacy,
        };
        agents.insert(member(MAIN, Value::Object(merged)));
    }
    for entry in agents.members_mut() {
        if let Some(list) = allowlist_mut(&mut entry.node) {
            for item in list {
                ensure_id(item, new_id);
            }
        }
    }
    Ok(agents)
}

fn allowlist_mut(agent: &mut Node) -> Option<&mut Vec<Node>> {
    let Value::Object(agent) = &mut agent.value else { return None };
    match &mut agent.get_mut("allowlist")?.value {
        Value::Array(items) => Some(items),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
            None
        }
    }
}

/// Bare texts become entries, what has no usable pattern goes. A list that loses everything goes
/// too; an empty list stays.
fn coerce_allowlist(agent: &mut Object) {
    let Some(Member { node, .. }) = agent.remove("allowlist") else { return };
    let Value::Array(items) = node.value else { return };
    let was_empty = items.is_empty();
    let kept: Vec<Node> = items.into_iter().filter_map(coerce).collect();
    if was_empty || !kept.is_empty() {
        agent.insert(member("allowlist", Value::Array(kept)));
    }
}

fn coerce(mut item: Node) -> Option<Node> {
    match &item.value {
        Value::String(text) => {
            let pattern = trim(text).to_owned();
            if pattern.is_empty() {
                return None;
            }
            let mut entry = Object::default();
            entry.insert(member("pattern", Value::String(pattern)));
            item.value = Value::Object(entry);
            Some(item)
        }
        Value::Object(entry) => {
            let pattern = entry.get("pattern").and_then(Node::as_str);
            pattern.is_some_and(|pattern| !trim(pattern).is_empty()).then_some(item)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => None,
    }
}

/// Gives an entry an id unless it has one.
fn ensure_id(item: &mut Node, new_id: NewId<'_>) {
    let Value::Object(entry) = &mut item.value else { return };
    let has_id = match entry.get("id").map(|node| &node.value) {
        None | Some(Value::Null | Value::Bool(false)) => false,
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Number(number)) => *number != 0.0,
        Some(Value::Bool(true) | Value::Array(_) | Value::Object(_)) => true,
    };
    if !has_id {
        entry.insert(member("id", Value::String(new_id())));
    }
}

/// The older entry `default` under `main`: main's own values win, the lists are joined. Of entries
/// with the same pattern (without regard to case) the first stays.
fn merge(main: Object, legacy: Object) -> Object {
    let mut merged = Object::default();
    let mut lists = Vec::new();
    for source in [main, legacy] {
        for found in source.into_members() {
            match (found.key.as_str(), found.node.value) {
                ("allowlist", Value::Array(items)) => lists.extend(items),
                (_, Value::Null) => {}
                (key, value) if !merged.contains(key) => merged.insert(member(key, value)),
                _ => {}
            }
        }
    }
    let mut seen = HashSet::new();
    lists.retain(|item| {
        let pattern = item.get("pattern").and_then(Node::as_str).unwrap_or_default();
        seen.insert(trim(pattern).to_lowercase())
    });
    if !lists.is_empty() {
        merged.insert(member("allowlist", Value::Array(lists)));
    }
    merged
}
