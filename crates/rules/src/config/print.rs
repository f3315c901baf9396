//! Prints a tree as JSON: for `config show` and `config schema`.
//!
//! Numbers and strings look as JavaScript prints them, except that characters which steer a terminal
//! are escaped. What looks like a secret is never printed: [`secrets`] says what does.

pub mod secrets;

use super::tree::{Node, Value};
use crate::js_number;
use secrets::Sight;

/// How secrets are treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Secrets {
    /// What may be a secret becomes `"***"`.
    Hide,
    /// The tree holds none, such as the schema.
    None,
}

/// The tree as JSON, indented by two blanks.
pub fn json(node: &Node, secrets: Secrets) -> String {
    json_seen(
        node,
        match secrets {
            Secrets::Hide => Sight::Open,
            Secrets::None => Sight::Everything,
        },
    )
}

/// A part of a tree as JSON; `sight` is what may be seen of it.
pub fn json_seen(node: &Node, sight: Sight) -> String {
    let mut text = String::new();
    write(node, sight, 0, &mut text);
    text
}

fn write(node: &Node, sight: Sight, depth: usize, text: &mut String) {
    match &node.value {
        Value::Null => text.push_str("null"),
        Value::Bool(value) => text.push_str(if *value { "true" } else { "false" }),
        Value::Number(number) => text.push_str(&match sight {
            Sight::Hidden => quoted(secrets::HIDDEN),
            // JSON has no NaN and no Infinity.
            Sight::Open | Sight::Everything if !number.is_finite() => "null".to_owned(),
            Sight::Open | Sight::Everything => js_number::format(*number),
        }),
        Value::String(value) => text.push_str(&match sight {
            Sight::Hidden => quoted(secrets::HIDDEN),
            Sight::Open => quoted(&secrets::without_url_password(value)),
            Sight::Everything => quoted(value),
        }),
        Value::Array(items) if items.is_empty() => text.push_str("[]"),
        Value::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                line(index, depth + 1, text);
                write(item, sight, depth + 1, text);
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
                write(&member.node, sight.below(&member.key, &member.node), depth + 1, text);
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

/// A string as `JSON.stringify` writes it, with [`steers_text`] characters escaped too.
pub fn quoted(text: &str) -> String {
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
            c if steers_text(c) => escape(c, &mut quoted),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// A text that is already JSON, with [`steers_text`] characters escaped. They can only stand inside
/// strings there, except for line ends, which stay.
pub fn harmless_json(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        if c != '\n' && steers_text(c) {
            escape(c, &mut text);
        } else {
            text.push(c);
        }
    }
    text
}

/// Says whether a character steers a terminal, changes the direction of a text or hides in it: none
/// of these is ever printed as it is.
pub fn steers_text(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

/// `\uXXXX`, twice for what UTF-16 writes in two units.
fn escape(c: char, text: &mut String) {
    use std::fmt::Write as _;
    for unit in c.encode_utf16(&mut [0; 2]) {
        // Writing to a String cannot fail.
        let _ = write!(text, "\\u{unit:04x}");
    }
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

    #[test]
    fn characters_that_steer_a_terminal_are_escaped_and_mean_the_same() {
        let text = "a\u{7f}\u{9b}2J\u{202e}\u{2066}\u{200b}\u{e0041}\u{1b}é\n";
        let escaped = "\"a\\u007f\\u009b2J\\u202e\\u2066\\u200b\\udb40\\udc41\\u001bé\\n\"";
        assert_eq!(quoted(text), escaped);
        let json = "{\n  \"k\": \"\u{9b}é\"\n}";
        assert_eq!(harmless_json(json), "{\n  \"k\": \"\\u009bé\"\n}");
    }
}
