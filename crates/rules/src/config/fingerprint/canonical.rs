//! A value in the one form it can be hashed in: JSON without spaces, keys in byte order.
//!
//! Two values that mean the same print the same, wherever and by whom they were written: the order
//! of keys does not show, numbers and strings print as JavaScript's `JSON.stringify` prints them.
//! Lists keep their order, because there it means something.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::config::tree::{Node, Value};
use crate::js_number;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Canonical {
    Null,
    Bool(bool),
    Number(f64),
    Text(String),
    List(Vec<Canonical>),
    /// Sorted bytewise: the same on every machine, whatever its locale.
    Object(BTreeMap<String, Canonical>),
}

impl Canonical {
    /// An object of the members that have a value.
    pub(super) fn object<'a>(
        members: impl IntoIterator<Item = (&'a str, Option<Canonical>)>,
    ) -> Self {
        let present = members.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
        Self::Object(present.collect())
    }

    pub(super) fn to_json(&self) -> String {
        let mut json = String::new();
        self.write(&mut json);
        json
    }

    fn write(&self, json: &mut String) {
        match self {
            Self::Null => json.push_str("null"),
            Self::Bool(true) => json.push_str("true"),
            Self::Bool(false) => json.push_str("false"),
            // JSON has no word for the others.
            Self::Number(number) if !number.is_finite() => json.push_str("null"),
            Self::Number(number) => json.push_str(&js_number::format(*number)),
            Self::Text(text) => write_text(text, json),
            Self::List(items) => {
                json.push('[');
                for (index, item) in items.iter().enumerate() {
                    separate(index, json);
                    item.write(json);
                }
                json.push(']');
            }
            Self::Object(members) => {
                json.push('{');
                for (index, (key, value)) in members.iter().enumerate() {
                    separate(index, json);
                    write_text(key, json);
                    json.push(':');
                    value.write(json);
                }
                json.push('}');
            }
        }
    }
}

fn separate(index: usize, json: &mut String) {
    if index > 0 {
        json.push(',');
    }
}

fn write_text(text: &str, json: &mut String) {
    json.push('"');
    for c in text.chars() {
        match c {
            '"' => json.push_str("\\\""),
            '\\' => json.push_str("\\\\"),
            '\u{8}' => json.push_str("\\b"),
            '\u{c}' => json.push_str("\\f"),
            '\n' => json.push_str("\\n"),
            '\r' => json.push_str("\\r"),
            '\t' => json.push_str("\\t"),
            '\0'..='\u{1f}' => {
                // Writing to a String cannot fail.
                let _ = write!(json, "\\u{:04x}", u32::from(c));
            }
            other => json.push(other),
        }
    }
    json.push('"');
}

impl From<&Node> for Canonical {
    fn from(node: &Node) -> Self {
        match &node.value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(*value),
            Value::Number(number) => Self::Number(*number),
            Value::String(text) => Self::Text(text.clone()),
            Value::Array(items) => Self::List(items.iter().map(Self::from).collect()),
            Value::Object(object) => Self::Object(
                object
                    .members()
                    .iter()
                    .map(|member| (member.key.clone(), Self::from(&member.node)))
                    .collect(),
            ),
        }
    }
}

impl From<&String> for Canonical {
    fn from(text: &String) -> Self {
        Self::Text(text.clone())
    }
}

impl From<&Vec<String>> for Canonical {
    fn from(texts: &Vec<String>) -> Self {
        Self::List(texts.iter().map(Self::from).collect())
    }
}

impl From<&str> for Canonical {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<&bool> for Canonical {
    fn from(value: &bool) -> Self {
        Self::Bool(*value)
    }
}

impl From<&f64> for Canonical {
    fn from(number: &f64) -> Self {
        Self::Number(*number)
    }
}
