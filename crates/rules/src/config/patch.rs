//! Merges a patch into a config, and finds the edits that turn one config into another.
//!
//! A patch is the reference's: `null` removes, objects merge, lists of objects with ids merge by id,
//! everything else replaces. The edits name single values, so that a file keeps its comments, its
//! order and whatever was not changed.

use super::redact::aligned;
use super::tree::{Member, Node, Object, Place, Span, Value};

/// Keys that would change what an object is in the reference; they are left out.
const NEVER: &[&str] = &["__proto__", "constructor", "prototype"];

/// Merges a patch into a value.
pub fn merge(target: &mut Node, patch: &Node) {
    match (&mut target.value, &patch.value) {
        (Value::Object(target), Value::Object(patch)) => merge_objects(target, patch),
        (Value::Array(target), Value::Array(patch)) if target.iter().all(has_id) => {
            merge_lists(target, patch);
        }
        (_, _) => *target = cleaned(patch),
    }
}

fn merge_objects(target: &mut Object, patch: &Object) {
    for member in patch.members().iter().filter(|member| !NEVER.contains(&member.key.as_str())) {
        match (&member.node.value, target.get_mut(&member.key)) {
            (Value::Null, _) => {
                target.remove(&member.key);
            }
            (_, Some(old)) => merge(old, &member.node),
            (_, None) => target.insert(Member { node: cleaned(&member.node), ..member.clone() }),
        }
    }
}

fn merge_lists(target: &mut Vec<Node>, patch: &[Node]) {
    for item in patch {
        let id = item.get("id").and_then(Node::as_str);
        let old = id.and_then(|id| {
            target.iter_mut().find(|old| old.get("id").and_then(Node::as_str) == Some(id))
        });
        match old {
            Some(old) => merge(old, item),
            None => target.push(cleaned(item)),
        }
    }
}

fn has_id(node: &Node) -> bool {
    node.get("id").is_some_and(|id| id.as_str().is_some())
}

/// A value of a patch as it is stored: nothing that only means "remove".
fn cleaned(node: &Node) -> Node {
    let mut node = node.clone();
    if let Value::Object(object) = &mut node.value {
        let members = std::mem::take(object).into_members();
        let kept = members.into_iter().filter(|member| {
            member.node.value != Value::Null && !NEVER.contains(&member.key.as_str())
        });
        let kept = kept.map(|member| Member { node: cleaned(&member.node), ..member });
        *object = Object::from_members(kept.collect());
    }
    node
}

/// One change to a file: at `path`, whose parts are keys and places in lists.
#[derive(Debug, Clone, PartialEq)]
pub struct Edit {
    pub path: Vec<String>,
    /// `None`: it goes.
    pub value: Option<Node>,
}

/// The edits that make `old` mean what `new` means. `written` is what the file itself says, where
/// references stand for values: what is as written is no change.
pub fn edits(old: &Node, new: &Node, written: Option<&Node>) -> Vec<Edit> {
    let mut found = Vec::new();
    compare(Sides { old: Some(old), new, written }, &mut Vec::new(), &mut found);
    found
}

#[derive(Clone, Copy)]
struct Sides<'a> {
    old: Option<&'a Node>,
    new: &'a Node,
    written: Option<&'a Node>,
}

fn compare(sides: Sides<'_>, path: &mut Vec<String>, found: &mut Vec<Edit>) {
    let Sides { old, new, written } = sides;
    if old.is_some_and(|old| is_same(old, new)) || written.is_some_and(|old| is_same(old, new)) {
        return;
    }
    match (old.map(|old| &old.value), &new.value) {
        (Some(Value::Object(old_object)), Value::Object(new_object)) => {
            for member in old_object.members() {
                if !new_object.contains(&member.key) {
                    path.push(member.key.clone());
                    found.push(Edit { path: path.clone(), value: None });
                    path.pop();
                }
            }
            for member in new_object.members() {
                path.push(member.key.clone());
                let sides = Sides {
                    old: old_object.get(&member.key),
                    new: &member.node,
                    written: written.and_then(|node| node.get(&member.key)),
                };
                compare(sides, path, found);
                path.pop();
            }
        }
        (Some(Value::Array(old_items)), Value::Array(new_items))
            if keeps_places(old_items, new_items) =>
        {
            for (index, item) in new_items.iter().enumerate() {
                path.push(index.to_string());
                let written = written.and_then(Node::as_array).and_then(|items| items.get(index));
                let sides = Sides { old: old_items.get(index), new: item, written };
                compare(sides, path, found);
                path.pop();
            }
        }
        (_, _) => {
            let value = Some(as_written(new, old, written));
            found.push(Edit { path: path.clone(), value });
        }
    }
}

/// Says whether every old item is still where it was, so that the list need not be written anew.
fn keeps_places(old: &[Node], new: &[Node]) -> bool {
    let id = |node: &Node| node.get("id").and_then(Node::as_str).map(str::to_owned);
    old.len() <= new.len() && old.iter().zip(new).all(|(old, new)| id(old) == id(new))
}

/// A value as the file should say it: where it is what a reference stood for, the reference stays.
fn as_written(new: &Node, old: Option<&Node>, written: Option<&Node>) -> Node {
    if let (Some(old), Some(written)) = (old, written)
        && is_same(old, new)
    {
        return written.clone();
    }
    let mut node = new.clone();
    match &mut node.value {
        Value::Object(object) => {
            for member in object.members_mut() {
                let old = old.and_then(|old| old.get(&member.key));
                let written = written.and_then(|written| written.get(&member.key));
                member.node = as_written(&member.node, old, written);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                let old = old.and_then(|old| aligned(old, index, item));
                let written = written.and_then(|written| aligned(written, index, item));
                *item = as_written(item, old, written);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    node
}

/// Says whether two values mean the same, wherever they stand and in whatever order.
pub fn is_same(one: &Node, other: &Node) -> bool {
    match (&one.value, &other.value) {
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.members().iter().all(|member| {
                    other.get(&member.key).is_some_and(|node| is_same(&member.node, node))
                })
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len()
                && one.iter().zip(other).all(|(one, other)| is_same(one, other))
        }
        (one, other) => one == other,
    }
}

/// A member that no file wrote.
pub fn member(key: &str, node: Node) -> Member {
    Member { key: key.to_owned(), key_place: Place::default(), key_span: Span::default(), node }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::print::{Secrets, json};
    use crate::config::{json5, tree::FileId};

    fn tree(text: &str) -> Node {
        json5::parse(text, FileId(0)).unwrap().root
    }

    #[track_caller]
    fn check_merge(target: &str, patch: &str, expected: &str) {
        let mut merged = tree(target);
        merge(&mut merged, &tree(patch));
        assert!(is_same(&merged, &tree(expected)), "{}", json(&merged, Secrets::None));
    }

    #[test]
    fn a_patch_merges_removes_and_replaces() {
        check_merge("{a: {b: 1, c: 2}}", "{a: {b: null, d: 3}}", "{a: {c: 2, d: 3}}");
        check_merge("{a: ['x', 'y']}", "{a: ['z']}", "{a: ['z']}");
        check_merge("{a: 1}", "{a: {b: null, c: {d: null}}}", "{a: {c: {}}}");
        check_merge("{}", "{__proto__: {a: 1}, constructor: 2, b: 3}", "{b: 3}");
        check_merge(
            "{l: [{id: 'a', t: {deny: ['x'], keep: 1}}, {id: 'b'}]}",
            "{l: [{id: 'a', t: {deny: null}}, {id: 'c'}]}",
            "{l: [{id: 'a', t: {keep: 1}}, {id: 'b'}, {id: 'c'}]}",
        );
        check_merge("{l: []}", "{l: [{id: 'a'}]}", "{l: [{id: 'a'}]}");
        check_merge("{l: [{id: 'a'}, 1]}", "{l: [{id: 'b'}]}", "{l: [{id: 'b'}]}");
    }

    #[track_caller]
    fn check_edits(old: &str, new: &str, written: &str, expected: &[(&str, Option<&str>)]) {
        let written = tree(written);
        let found: Vec<(String, Option<String>)> = edits(&tree(old), &tree(new), Some(&written))
            .into_iter()
            .map(|edit| {
                let value = edit.value.map(|node| json(&node, Secrets::None));
                (edit.path.join("."), value.map(|text| text.split_whitespace().collect()))
            })
            .collect();
        let expected: Vec<(String, Option<String>)> = expected
            .iter()
            .map(|(path, value)| ((*path).to_owned(), value.map(str::to_owned)))
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn only_what_changed_is_edited() {
        check_edits("{a: {b: 1}, c: 2}", "{c: 2, a: {b: 1}}", "{}", &[]);
        check_edits("{a: {b: 1}, c: 2}", "{a: {b: 2}}", "{}", &[("c", None), ("a.b", Some("2"))]);
        check_edits(
            "{l: [{id: 'a', n: 1}]}",
            "{l: [{id: 'a', n: 2}, {id: 'b'}]}",
            "{}",
            &[("l.0.n", Some("2")), ("l.1", Some("{\"id\":\"b\"}"))],
        );
        // An item that is gone moves the others: the list is written anew, with its references.
        check_edits(
            "{l: [{id: 'a'}, {id: 'b', k: 'real', n: 1}]}",
            "{l: [{id: 'b', k: 'real', n: 2}]}",
            "{l: [{id: 'a'}, {id: 'b', k: '${K}', n: 1}]}",
            &[("l", Some("[{\"id\":\"b\",\"k\":\"${K}\",\"n\":2}]"))],
        );
        // What the file says is no change, although it means something else.
        check_edits("{k: 'real'}", "{k: '${K}'}", "{k: '${K}'}", &[]);
    }
}
