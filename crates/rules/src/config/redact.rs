//! Hides the secrets of a config that a client may see, and puts them back into what it returns.
//!
//! A secret becomes [`SENTINEL`]. A client that edits the config and sends it back leaves the sentinel
//! where it was; [`restore`] replaces it by what the file says there now. A sentinel where there is
//! nothing to put back is an error, so that it can never become a password that everybody knows.

use super::tree::{Node, Object, Value, join_key};

/// What stands in place of a secret.
pub const SENTINEL: &str = "__OPENCLAW_REDACTED__";

/// A sentinel that stands for nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Sentinel value \"{SENTINEL}\" in key {key} is not valid as real data")]
pub struct NothingToRestore {
    pub key: String,
}

/// The tree without its secrets.
#[must_use]
pub fn redact(node: &Node) -> Node {
    let mut hidden = node.clone();
    hide(&mut hidden, "", Below::Plain);
    hidden
}

/// Says whether a text hides anything: if its tree does.
pub fn has_secrets(node: &Node) -> bool {
    redact(node) != *node
}

/// Whether a value stands below names that anybody may choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Below {
    Plain,
    FreeNames,
}

fn hide(node: &mut Node, path: &str, below: Below) {
    let is_secret = (is_secret_path(path) || below == Below::FreeNames) && !is_reference(node);
    match &mut node.value {
        Value::String(text) => {
            if (is_secret && !is_placeholder(text)) || names_user(path, text) {
                SENTINEL.clone_into(text);
            }
        }
        Value::Array(items) => {
            for item in items {
                hide(item, path, below);
            }
        }
        Value::Object(object) => {
            for member in object.members_mut() {
                let path = join_key(path, &member.key);
                let is_free = matches!(member.key.as_str(), "env" | "vars" | "headers");
                let below = if is_free { Below::FreeNames } else { below };
                if !is_reference(&member.node) {
                    hide(&mut member.node, &path, below);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Keys that end like a secret and are none.
const HARMLESS: &[&str] = &[
    "maxtokens",
    "maxoutputtokens",
    "maxinputtokens",
    "maxcompletiontokens",
    "contexttokens",
    "totaltokens",
    "tokencount",
    "tokenlimit",
    "tokenbudget",
    "passwordfile",
];

fn is_secret_path(path: &str) -> bool {
    let path = path.to_ascii_lowercase();
    if HARMLESS.iter().any(|end| path.ends_with(end)) {
        return false;
    }
    let has_key = |start: &str| {
        path.match_indices(start).any(|(at, _)| {
            let rest = path.get(at + start.len()..).unwrap_or_default();
            rest.starts_with("key") || rest.get(1..).is_some_and(|rest| rest.starts_with("key"))
        })
    };
    path.ends_with("token")
        || path.contains("password")
        || path.contains("secret")
        || path.ends_with("serviceaccount")
        || path.ends_with("serviceaccountref")
        || has_key("api")
        || has_key("encrypt")
}

/// `${NAME}` says where a secret is, not what it is.
fn is_placeholder(text: &str) -> bool {
    text.strip_prefix("${")
        .and_then(|rest| rest.strip_suffix('}'))
        .is_some_and(|name| name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'))
}

/// `{source, id}` says where a secret is kept.
fn is_reference(node: &Node) -> bool {
    let is_text = |key: &str| node.get(key).is_some_and(|part| part.as_str().is_some());
    is_text("source") && is_text("id")
}

/// An address that carries a user or a password.
fn names_user(path: &str, text: &str) -> bool {
    let is_address = path.ends_with("baseUrl") || path.ends_with("httpUrl");
    let authority = text.split_once("://").map(|(_, rest)| rest.split(['/', '?', '#']).next());
    is_address && authority.flatten().is_some_and(|authority| authority.contains('@'))
}

/// Where to take a value from that a client did not see.
#[derive(Debug, Clone, Copy)]
pub struct Sources<'a> {
    /// The config as it is written, references unresolved.
    pub written: Option<&'a Node>,
    /// The config as it was shown, references and defaults filled in.
    pub shown: Option<&'a Node>,
}

impl<'a> Sources<'a> {
    fn member(self, key: &str) -> Self {
        Self {
            written: self.written.and_then(|node| node.get(key)),
            shown: self.shown.and_then(|node| node.get(key)),
        }
    }

    fn item(self, index: usize, item: &Node) -> Self {
        let at = |node: Option<&'a Node>| node.and_then(|node| aligned(node, index, item));
        Self { written: at(self.written), shown: at(self.shown) }
    }
}

/// The item of an old list that an item of a new one continues: the one with the same id, or, where
/// items have none, the one at the same place. By place alone a secret would move to another owner as
/// soon as an item before it is removed.
pub(super) fn aligned<'a>(old: &'a Node, index: usize, item: &Node) -> Option<&'a Node> {
    let items = old.as_array()?;
    match item.get("id").and_then(Node::as_str) {
        Some(id) => items.iter().find(|old| old.get("id").and_then(Node::as_str) == Some(id)),
        None => items.get(index).filter(|old| old.get("id").is_none()),
    }
}

/// Puts back what [`redact`] hid.
pub fn restore(node: &mut Node, sources: Sources<'_>) -> Result<(), NothingToRestore> {
    restore_at(node, sources, "")
}

fn restore_at(node: &mut Node, sources: Sources<'_>, path: &str) -> Result<(), NothingToRestore> {
    match &mut node.value {
        Value::String(text) if text == SENTINEL => {
            let real = |node: &&Node| node.as_str().is_some_and(|text| text != SENTINEL);
            let source = sources.written.filter(real).or(sources.shown.filter(real));
            let source = source.ok_or_else(|| NothingToRestore { key: path.to_owned() })?;
            node.value = source.value.clone();
            Ok(())
        }
        // Somebody glued it to other text: nothing could be put back there.
        Value::String(text) if text.contains(SENTINEL) => {
            Err(NothingToRestore { key: path.to_owned() })
        }
        Value::Array(items) => items.iter_mut().enumerate().try_for_each(|(index, item)| {
            let sources = sources.item(index, item);
            restore_at(item, sources, &join_key(path, &index.to_string()))
        }),
        Value::Object(object) => restore_members(object, sources, path),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
    }
}

fn restore_members(
    object: &mut Object,
    sources: Sources<'_>,
    path: &str,
) -> Result<(), NothingToRestore> {
    object.members_mut().iter_mut().try_for_each(|member| {
        let sources = sources.member(&member.key);
        restore_at(&mut member.node, sources, &join_key(path, &member.key))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::print::{Secrets, json};
    use crate::config::{json5, tree::FileId};

    fn tree(text: &str) -> Node {
        json5::parse(text, FileId(0)).unwrap().root
    }

    fn compact(node: &Node) -> String {
        json(node, Secrets::None).split_whitespace().collect()
    }

    #[track_caller]
    fn hides(text: &str) {
        assert!(!compact(&redact(&tree(text))).contains("\"x\""), "{text}");
    }

    #[track_caller]
    fn shows(text: &str) {
        assert_eq!(compact(&redact(&tree(text))), compact(&tree(text)));
    }

    #[test]
    fn secrets_are_hidden_by_the_names_of_their_keys() {
        for key in ["token", "botToken", "password", "clientSecret", "apiKey", "api_key", "API-KEY"]
        {
            hides(&format!("{{a: {{'{key}': 'x'}}}}"));
            hides(&format!("{{a: [{{'{key}': 'x'}}]}}"));
            hides(&format!("{{a: {{'{key}': ['x']}}}}"));
        }
        hides("{secrets: {any: 'x'}}");
        hides("{sandbox: {docker: {env: {PLAIN: 'x', deep: {a: 'x'}}}}}");
        hides("{request: {headers: {'X-Any': 'x'}}}");
        for text in [
            "{maxTokens: 5, tokenLimit: 'x', passwordFile: 'x', mode: 'token'}",
            "{token: '${TOKEN}', auth: {password: {source: 'env', id: 'x'}}}",
            "{baseUrl: 'http://h/a@b'}",
        ] {
            shows(text);
        }
        let shown = compact(&redact(&tree("{p: {baseUrl: 'https://u:x@h/'}}")));
        assert!(shown.contains(SENTINEL), "{shown}");
    }

    #[test]
    fn what_was_hidden_comes_back() {
        let written =
            tree("{a: {token: '${T}'}, p: [{id: 'one', apiKey: 'k1'}, {id: 'two', apiKey: 'k2'}]}");
        let shown =
            tree("{a: {token: 'real'}, p: [{id: 'one', apiKey: 'k1'}, {id: 'two', apiKey: 'k2'}]}");
        let sources = Sources { written: Some(&written), shown: Some(&shown) };
        let mut back = redact(&shown);
        restore(&mut back, sources).unwrap();
        assert_eq!(compact(&back), compact(&written));
        // The first item is gone: the second keeps its own key.
        let mut shorter = tree(&format!("{{p: [{{id: 'two', apiKey: '{SENTINEL}'}}]}}"));
        restore(&mut shorter, sources).unwrap();
        assert_eq!(compact(&shorter), "{\"p\":[{\"id\":\"two\",\"apiKey\":\"k2\"}]}");
    }

    #[test]
    fn a_sentinel_never_becomes_a_value() {
        let old = tree("{a: {token: 'real'}, list: ['x']}");
        let sources = Sources { written: Some(&old), shown: Some(&old) };
        for (text, key) in [
            (format!("{{b: {{token: '{SENTINEL}'}}}}"), "b.token"),
            (format!("{{a: {{password: '{SENTINEL}'}}}}"), "a.password"),
            (format!("{{a: {{token: 'y{SENTINEL}'}}}}"), "a.token"),
            (format!("{{list: ['x', '{SENTINEL}']}}"), "list.1"),
        ] {
            let refused = restore(&mut tree(&text), sources);
            assert_eq!(refused, Err(NothingToRestore { key: key.to_owned() }), "{text}");
        }
    }
}
