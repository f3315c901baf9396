//! One entry of an allowlist, as far as a verdict needs it.
//!
//! An entry that a person wrote is a pattern for the executable, with any arguments. An entry that
//! "allow always" made is bound to one executable, one argument list and one directory; its pattern
//! is a bare name that no command can match, so a program that knows nothing of the binding gets no
//! wider permission out of it.

use std::collections::BTreeMap;

use sha2::{Digest as _, Sha256};

use super::member;
use crate::command::{self, ContentHash, Pattern};
use crate::config::tree::{Node, Object, Value};
use crate::ids::trim;

/// Our own keys of an entry stand below this one.
pub(super) const OWN: &str = "clawpen";
/// What `source` says of entries that "allow always" made.
pub(super) const ALLOW_ALWAYS: &str = "allow-always";

/// Keys whose meaning we know, or that cannot narrow an entry. Any other might, in a release that
/// we do not know, so an entry that has one matches nothing.
const KNOWN: [&str; 10] = [
    "id",
    "pattern",
    "lastUsedAt",
    "lastUsedCommand",
    "lastResolvedPath",
    "source",
    "commandText",
    "note",
    "comment",
    OWN,
];

/// One entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Without blanks around it.
    pub pattern: String,
    pub binding: Binding,
    /// What the executable's content must be.
    pub pin: Option<ContentHash>,
}

/// What of a command an entry fixes besides its executable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Binding {
    /// Nothing: a person wrote the pattern.
    Pattern,
    /// Everything: "allow always" said yes to exactly this.
    Exact { executable: String, argv: Vec<String>, cwd: String },
    /// A key that we do not know may narrow it, so it matches nothing.
    NotUnderstood { key: String },
}

/// The pattern of a bound entry: a bare name with a colon and a hash, which neither release of the
/// reference can match against any command.
pub(super) fn bound_pattern(executable: &str, argv: &[String], cwd: &str) -> String {
    let mut hasher = Sha256::new();
    for part in [executable, cwd].into_iter().chain(argv.iter().map(String::as_str)) {
        // With its length before it, no two lists of parts look the same.
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part.as_bytes());
    }
    format!("{ALLOW_ALWAYS}:{}", ContentHash(hasher.finalize().into()))
}

impl Entry {
    /// The entry as the matcher takes it; `None` if it may match nothing.
    pub fn to_trusted(&self, home: Option<&str>) -> Option<command::Entry> {
        let entry = |pattern, binding| command::Entry { pattern, binding, pin: self.pin };
        match &self.binding {
            Binding::Pattern => Some(entry(Pattern::compile(&self.pattern, home), None)),
            Binding::Exact { executable, argv, cwd } => {
                // Should the path hold a `*`, words, directory and content are still exactly these.
                let pattern = Pattern::compile(executable, None);
                Some(entry(pattern, Some(command::Binding::of(argv, cwd))))
            }
            Binding::NotUnderstood { .. } => None,
        }
    }
}

/// The entries of every agent's own list.
pub(super) fn read_all(root: &Object) -> BTreeMap<String, Vec<Entry>> {
    let agents = root.get("agents").and_then(Node::as_object);
    let members = agents.map(Object::members).unwrap_or_default();
    let lists = members.iter().map(|agent| {
        let list = agent.node.get("allowlist").and_then(Node::as_array).unwrap_or_default();
        (agent.key.clone(), list.iter().filter_map(read).collect())
    });
    lists.collect()
}

fn read(node: &Node) -> Option<Entry> {
    let object = node.as_object()?;
    let pattern = trim(object.get("pattern")?.as_str()?).to_owned();
    let own = object.get(OWN);
    let pin =
        own.and_then(|own| own.get("sha256")).and_then(Node::as_str).and_then(ContentHash::parse);
    Some(Entry { binding: binding(object, own, &pattern), pin, pattern })
}

fn binding(object: &Object, own: Option<&Node>, pattern: &str) -> Binding {
    let not_understood = |key: &str| Binding::NotUnderstood { key: key.to_owned() };
    let mut members = object.members().iter();
    if let Some(unknown) = members.find(|member| !KNOWN.contains(&member.key.as_str())) {
        return not_understood(&unknown.key);
    }
    if own.is_some_and(|own| !is_own_understood(own)) {
        return not_understood(OWN);
    }
    let source = object.get("source").and_then(Node::as_str);
    let bound = own.and_then(exact);
    match (source, bound) {
        (Some(ALLOW_ALWAYS), Some(Binding::Exact { executable, argv, cwd }))
            if pattern == bound_pattern(&executable, &argv, &cwd) =>
        {
            Binding::Exact { executable, argv, cwd }
        }
        (Some(ALLOW_ALWAYS), _) => not_understood("source"),
        (_, Some(_)) => not_understood(OWN),
        (_, None) => Binding::Pattern,
    }
}

/// Everything below our own key must be readable: half a binding would be none.
fn is_own_understood(own: &Node) -> bool {
    let Some(object) = own.as_object() else { return false };
    let is_known = |key: &str| matches!(key, "executable" | "argv" | "cwd" | "sha256");
    let has_binding = ["executable", "argv", "cwd"].iter().any(|key| object.contains(key));
    let sha256 = object.get("sha256").map(|node| node.as_str().and_then(ContentHash::parse));
    object.members().iter().all(|member| is_known(&member.key))
        && (!has_binding || exact(own).is_some())
        && sha256 != Some(None)
}

fn exact(own: &Node) -> Option<Binding> {
    let text = |key: &str| own.get(key)?.as_str().map(str::to_owned);
    let argv = own.get("argv")?.as_array()?;
    let argv: Option<Vec<String>> =
        argv.iter().map(|item| item.as_str().map(str::to_owned)).collect();
    Some(Binding::Exact { executable: text("executable")?, argv: argv?, cwd: text("cwd")? })
}

/// Our own part of an entry, for writing.
pub(super) fn own_node(binding: &Binding, pin: Option<ContentHash>) -> Option<Value> {
    let text = |text: &str| Value::String(text.to_owned());
    let mut own = Object::default();
    match binding {
        Binding::Exact { executable, argv, cwd } => {
            let argv = argv.iter().map(|word| Node::synthetic(text(word))).collect();
            own.insert(member("executable", text(executable)));
            own.insert(member("argv", Value::Array(argv)));
            own.insert(member("cwd", text(cwd)));
        }
        Binding::Pattern | Binding::NotUnderstood { .. } => {}
    }
    if let Some(pin) = pin {
        own.insert(member("sha256", Value::String(pin.to_string())));
    }
    (!own.is_empty()).then_some(Value::Object(own))
}
