//! Changes one value of a JSON5 text and keeps everything else: comments, order, quotes, blanks.
//!
//! In a list a key is the item's place, counted from 0; the place after the last adds an item.
//!
//! A text that is plain JSON stays plain JSON: other programs read the same file, and not all of them know JSON5.
//!
//! The text is the truth; the tree only says which bytes to replace. What comes out is read again
//! before it is handed back, so an edit can never produce a file that does not load.

use super::json5::{self, ParseError};
use super::tree::{FileId, Node, Object, Span, Value};

/// Why an edit was refused. The text is never changed then.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    #[error("the text is not valid JSON5: {0}")]
    Broken(#[source] ParseError),
    #[error("the new value is not valid JSON5: {0}")]
    BadValue(#[source] ParseError),
    #[error("`{key}` is no object, so nothing can be set below it")]
    NotAnObject { key: String },
    #[error("an edit needs at least one key")]
    NoKey,
}

/// How new keys are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keys {
    /// As the text writes its own: bare, where that is allowed, only if its first key is bare.
    AsThere,
    /// Always in quotes, for readers that take comments but nothing else of JSON5.
    Quoted,
}

/// Sets the value at `keys` to the JSON5 text `value`, making missing objects on the way.
pub fn set(text: &str, keys: &[&str], value: &str) -> Result<String, EditError> {
    set_with(text, keys, value, Keys::AsThere)
}

/// The same, with new keys written as `style` says.
pub fn set_with(text: &str, keys: &[&str], value: &str, style: Keys) -> Result<String, EditError> {
    json5::parse(value, FileId(0)).map_err(EditError::BadValue)?;
    let parsed = json5::parse(text, FileId(0)).map_err(EditError::Broken)?;
    let Some((last, parents)) = keys.split_last() else { return Err(EditError::NoKey) };
    let (node, depth) = descend(&parsed.root, parents);
    if depth == parents.len()
        && let Some(old) = child(node, last)
    {
        return checked(replace(text, old, value));
    }
    let quote: fn(&str) -> String = match style {
        Keys::AsThere if has_bare_keys(text, &parsed.root) => bare,
        Keys::AsThere | Keys::Quoted => super::print::quoted,
    };
    // The first missing key gets an object with the rest of the path inside.
    let mut value = value.to_owned();
    for key in keys[depth + 1..].iter().rev() {
        value = format!("{{ {}: {value} }}", quote(key));
    }
    match &node.value {
        Value::Object(object) => checked(insert(text, node, object, (&quote(keys[depth]), &value))),
        Value::Array(items) if keys[depth].parse() == Ok(items.len()) => {
            checked(append(text, node, items, &value))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Err(EditError::NotAnObject { key: keys[..depth].join(".") })
        }
    }
}

/// The member or item that a key names.
fn child<'a>(node: &'a Node, key: &str) -> Option<&'a Node> {
    match node.as_array() {
        Some(items) => items.get(key.parse::<usize>().ok()?),
        None => node.get(key),
    }
}

/// Removes the member at `keys`; a key that is not there is no error.
pub fn remove(text: &str, keys: &[&str]) -> Result<String, EditError> {
    let parsed = json5::parse(text, FileId(0)).map_err(EditError::Broken)?;
    let Some((last, parents)) = keys.split_last() else { return Err(EditError::NoKey) };
    let (node, depth) = descend(&parsed.root, parents);
    let object = node.as_object().filter(|_| depth == parents.len());
    let members = object.map(Object::members).unwrap_or_default();
    let Some(member) = members.iter().find(|member| member.key == *last) else {
        return Ok(text.to_owned());
    };
    let (mut start, mut end) = (member.key_span.start as usize, member.node.span.end as usize);
    // The comma goes with the member: the one after it, or for the last member the one before.
    let after = blank_length(&text[end..]);
    if text[end + after..].starts_with(',') {
        end += after + 1;
        // Whatever blank led to the next member stays; a line that is empty now goes.
        let line_start = text[..start].rfind('\n').map_or(0, |position| position + 1);
        if text[line_start..start].trim().is_empty() && text[end..].starts_with('\n') {
            (start, end) = (line_start, end + 1);
        }
        return checked(format!("{}{}", &text[..start], &text[end..]));
    }
    let ends = members.iter().map(|other| other.node.span.end as usize);
    let Some(before) = ends.filter(|end| *end <= start).max() else {
        return checked(format!("{}{}", &text[..start], &text[end..]));
    };
    let comma = before + blank_length(&text[before..]);
    let between = text[comma..start].strip_prefix(',').unwrap_or_default();
    // What else stood between the two stays; blanks alone go.
    let between = if between.trim().is_empty() { "" } else { between };
    checked(format!("{}{between}{}", &text[..comma], &text[end..]))
}

/// Follows keys as far as objects have them; gives the last one and how many were followed.
fn descend<'a>(root: &'a Node, keys: &[&str]) -> (&'a Node, usize) {
    let mut node = root;
    for (depth, key) in keys.iter().enumerate() {
        match child(node, key) {
            Some(next) => node = next,
            None => return (node, depth),
        }
    }
    (node, keys.len())
}

fn replace(text: &str, old: &Node, value: &str) -> String {
    let (start, end) = (old.span.start as usize, old.span.end as usize);
    format!("{}{value}{}", &text[..start], &text[end..])
}

/// Adds a member after the last one, on a line of its own if the object's members have theirs.
fn insert(text: &str, node: &Node, object: &Object, (key, value): (&str, &str)) -> String {
    let member = format!("{key}: {value}");
    // Members are listed in JavaScript's order; the one written last is the one that ends last.
    let Some(last) = object.members().iter().max_by_key(|member| member.node.span.end) else {
        let inside = node.span.start as usize + 1;
        return format!("{}{member}{}", &text[..inside], &text[inside..]);
    };
    let span = Span { start: last.key_span.start, end: last.node.span.end };
    add_after(text, span, &member)
}

/// Adds an item to a list.
fn append(text: &str, node: &Node, items: &[Node], item: &str) -> String {
    if let Some(last) = items.last() {
        return add_after(text, last.span, item);
    }
    let inside = node.span.start as usize + 1;
    format!("{}{item}{}", &text[..inside], &text[inside..])
}

/// Adds a part behind the last one, which stands at `last`.
fn add_after(text: &str, last: Span, member: &str) -> String {
    let (start, end) = (last.start as usize, last.end as usize);
    let line_start = text[..start].rfind('\n').map_or(0, |position| position + 1);
    let indent = &text[line_start..start];
    let has_own_line = line_start > 0 && indent.trim().is_empty();
    let separator = if has_own_line { format!(",\n{indent}") } else { ", ".to_owned() };
    let after = blank_length(&text[end..]);
    if text[end + after..].starts_with(',') {
        // There is a trailing comma already: go behind it and leave one behind us.
        let comma = end + after + 1;
        let lead = separator.trim_start_matches(',');
        let lead = if lead.is_empty() { " " } else { lead };
        return format!("{}{lead}{member},{}", &text[..comma], &text[comma..]);
    }
    format!("{}{separator}{member}{}", &text[..end], &text[end..])
}

/// The length of blanks and comments at the start of a text.
fn blank_length(text: &str) -> usize {
    let mut rest = text;
    loop {
        let trimmed = rest.trim_start();
        let comment = match trimmed.as_bytes() {
            [b'/', b'/', ..] => trimmed.find('\n').unwrap_or(trimmed.len()),
            [b'/', b'*', ..] => trimmed.find("*/").map_or(trimmed.len(), |end| end + 2),
            _ => return text.len() - trimmed.len(),
        };
        rest = &trimmed[comment..];
    }
}

/// Whether a text writes its keys without quotes. One that has none yet is JSON.
fn has_bare_keys(text: &str, root: &Node) -> bool {
    let members = root.as_object().map(Object::members).unwrap_or_default();
    let first = members.iter().map(|member| member.key_span.start as usize).min();
    first.is_some_and(|start| !text[start..].starts_with(['"', '\'']))
}

/// A key as it may stand in JSON5: bare if it is a plain word.
fn bare(key: &str) -> String {
    let is_plain = key.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_' || c == '$')
        && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'$');
    if is_plain { key.to_owned() } else { super::print::quoted(key) }
}

/// Hands a text back only if it still loads.
fn checked(text: String) -> Result<String, EditError> {
    json5::parse(&text, FileId(0)).map_err(EditError::Broken)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_set(text: &str, keys: &[&str], value: &str, expected: &str) {
        assert_eq!(set(text, keys, value).as_deref(), Ok(expected));
    }

    #[test]
    fn setting_keeps_comments_and_layout() {
        check_set("{a: 1 /* one */, b: 2}", &["a"], "'x'", "{a: 'x' /* one */, b: 2}");
        check_set("{}", &["a"], "1", "{\"a\": 1}");
        check_set("{a: 1}", &["b"], "2", "{a: 1, b: 2}");
        check_set("{a: 1,}", &["b"], "2", "{a: 1, b: 2,}");
        check_set("{\n  a: 1, // one\n}\n", &["b"], "2", "{\n  a: 1,\n  b: 2, // one\n}\n");
        check_set("{\n  a: 1\n}\n", &["b", "c-d"], "2", "{\n  a: 1,\n  b: { \"c-d\": 2 }\n}\n");
        check_set("{a: {b: 1}}", &["a", "b"], "[]", "{a: {b: []}}");
    }

    #[test]
    fn items_are_reached_by_their_place() {
        check_set(
            "{a: [{b: 1}, /* two */ 2]}",
            &["a", "0", "b"],
            "3",
            "{a: [{b: 3}, /* two */ 2]}",
        );
        check_set("{a: [{b: 1}]}", &["a", "0", "c"], "3", "{a: [{b: 1, c: 3}]}");
        check_set("{a: []}", &["a", "0"], "1", "{a: [1]}");
        check_set("{a: [\n  1, // one\n]}", &["a", "1"], "2", "{a: [\n  1,\n  2, // one\n]}");
        check_set("{a: [1]}", &["a", "1", "b"], "2", "{a: [1, { b: 2 }]}");
        assert_eq!(
            remove("{a: [{b: 1, c: 2}]}", &["a", "0", "b"]).as_deref(),
            Ok("{a: [{ c: 2}]}")
        );
        for place in ["2", "-1", "x"] {
            assert_eq!(
                set("{a: [1]}", &["a", place], "2"),
                Err(EditError::NotAnObject { key: "a".to_owned() })
            );
        }
    }

    #[test]
    fn new_keys_are_quoted_for_those_who_need_it() {
        let set = |text: &str, keys: &[&str]| set_with(text, keys, "1", Keys::Quoted).unwrap();
        assert_eq!(set("{}", &["a"]), "{\"a\": 1}");
        assert_eq!(
            set("{\"a\": {}} // x", &["a", "b", "c"]),
            "{\"a\": {\"b\": { \"c\": 1 }}} // x"
        );
    }

    #[test]
    fn removing_takes_the_comma_along() {
        assert_eq!(remove("{a: 1, b: 2}", &["a"]).as_deref(), Ok("{ b: 2}"));
        assert_eq!(remove("{\n  a: 1,\n  b: 2,\n}", &["a"]).as_deref(), Ok("{\n  b: 2,\n}"));
        assert_eq!(remove("{a: 1, b: 2}", &["b"]).as_deref(), Ok("{a: 1}"));
        assert_eq!(
            remove("{\n  a: 1, // one\n  b: 2 // two\n}", &["b"]).as_deref(),
            Ok("{\n  a: 1 // one\n   // two\n}")
        );
        assert_eq!(remove("{b: 2}", &["b"]).as_deref(), Ok("{}"));
        assert_eq!(remove("{a: 1}", &["x"]).as_deref(), Ok("{a: 1}"));
    }

    #[test]
    fn what_was_plain_json_stays_plain_json() {
        let text = "{\n  \"a\": {\n    \"b\": 1,\n    \"c\": 2\n  },\n  \"d\": [{ \"e\": 1 }]\n}\n";
        let is_json = |text: &str| serde_json::from_str::<serde_json::Value>(text).is_ok();
        for keys in
            [&["a", "b"] as &[&str], &["a", "n"], &["n", "m", "l"], &["d", "0", "n"], &["d", "1"]]
        {
            let set = set(text, keys, "{ \"x\": 1 }").unwrap();
            assert!(is_json(&set), "{keys:?}: {set}");
            let removed = remove(&set, keys).unwrap();
            assert!(is_json(&removed), "{keys:?}: {removed}");
        }
        for keys in [&["a"] as &[&str], &["d"], &["a", "b"], &["a", "c"], &["d", "0", "e"]] {
            let removed = remove(text, keys).unwrap();
            assert!(is_json(&removed), "{keys:?}: {removed}");
        }
    }

    #[test]
    fn what_would_not_load_is_refused() {
        assert!(matches!(set("{", &["a"], "1"), Err(EditError::Broken(_))));
        assert!(matches!(set("{}", &["a"], "}"), Err(EditError::BadValue(_))));
        assert_eq!(
            set("{a: 1}", &["a", "b"], "1"),
            Err(EditError::NotAnObject { key: "a".to_owned() })
        );
    }
}
