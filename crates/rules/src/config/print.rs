//! Prints a tree as JSON: for `config show` and `config schema`.
//!
//! Numbers and strings look as JavaScript prints them. What looks like a secret is never printed.

use super::tree::{Node, Value};
use crate::js_number;

/// How secrets are treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Secrets {
    /// Values of keys that name a secret become `"***"`.
    Hide,
    /// The tree holds none, such as the schema.
    None,
}

/// The tree as JSON, indented by two blanks.
pub fn json(node: &Node, secrets: Secrets) -> String {
    let mut text = String::new();
    write(node, secrets, 0, &mut text);
    text
}

fn write(node: &Node, secrets: Secrets, depth: usize, text: &mut String) {
    match &node.value {
        Value::Null => text.push_str("null"),
        Value::Bool(value) => text.push_str(if *value { "true" } else { "false" }),
        // JSON has no NaN and no Infinity.
        Value::Number(number) if !number.is_finite() => text.push_str("null"),
        Value::Number(number) => text.push_str(&js_number::format(*number)),
        Value::String(value) => text.push_str(&quoted(value)),
        Value::Array(items) if items.is_empty() => text.push_str("[]"),
        Value::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                line(index, depth + 1, text);
                write(item, secrets, depth + 1, text);
            }
            close(depth, ']', text);
        }
        Value::Object(object) if object.is_empty() => text.push_str("{}"),
        Value::Object(object) => {
            text.push('{');
            for (index, member) in object.members().iter().enumerate() {
                line(index, depth + 1, text);
                text.push_str(&quoted(&member.key));
                text.push_str(": ");
                let is_hidden = secrets == Secrets::Hide && holds_secret(&member.key, &member.node);
                if is_hidden {
                    text.push_str("\"***\"");
                } else {
                    write(&member.node, secrets, depth + 1, text);
                }
            }
            close(depth, '}', text);
        }
    }
}

fn line(index: usize, depth: usize, text: &mut String) {
    text.push_str(if index == 0 { "\n" } else { ",\n" });
    text.push_str(&"  ".repeat(depth));
}

fn close(depth: usize, bracket: char, text: &mut String) {
    text.push('\n');
    text.push_str(&"  ".repeat(depth));
    text.push(bracket);
}

/// Says whether a key holds a secret: by its name, and only if a text or number stands there (a
/// reference to a secret is none).
pub fn holds_secret(key: &str, node: &Node) -> bool {
    const ENDS: [&str; 8] = [
        "token",
        "secret",
        "password",
        "apikey",
        "api_key",
        "privatekey",
        "private_key",
        "passphrase",
    ];
    const NAMES: [&str; 3] = ["identitydata", "certificatedata", "authorization"];
    let key = key.to_ascii_lowercase();
    let is_value = matches!(node.value, Value::String(_) | Value::Number(_));
    is_value && (ENDS.iter().any(|end| key.ends_with(end)) || NAMES.contains(&key.as_str()))
}

/// A string as `JSON.stringify` writes it.
pub fn quoted(text: &str) -> String {
    use std::fmt::Write as _;
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            c if c < ' ' => {
                // Writing to a String cannot fail.
                let _ = write!(quoted, "\\u{:04x}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{json5, tree::FileId};

    #[test]
    fn secrets_are_hidden_and_references_are_not() {
        let text = "{gateway: {auth: {token: 'x', password: {source: 'env', id: 'P'}}}, a: [1.5, '\\u0001']}";
        let node = json5::parse(text, FileId(0)).unwrap().root;
        let shown = json(&node, Secrets::Hide);
        assert_eq!(
            shown.split_whitespace().collect::<String>(),
            "{\"gateway\":{\"auth\":{\"token\":\"***\",\"password\":{\"source\":\"env\",\"id\":\"P\"}}},\
             \"a\":[1.5,\"\\u0001\"]}"
        );
    }
}
