//! The approvals file, `exec-approvals.json`: what it says to an agent, and how it changes.
//!
//! Takes the file's text; gives an [`ApprovalsFile`] in normal form, or a [`FileProblem`]. A text
//! that is no JSON, of another version, or with a policy where none can be is a problem, and a
//! problem refuses every host: a damaged file must never lose a `deny`. Nothing here reads or
//! writes; new ids come in from outside.
//!
//! Unknown keys are kept. Words that are none of ours mean the strictest value, never "as if it were
//! not there".

mod edit;
mod entry;
mod hash;
mod normalise;
mod policy;

pub use edit::{Change, NewEntry, Use};
pub use entry::{Binding, Entry};
pub use hash::{FileHash, SetRefusal, check_base};
pub use policy::{FileDefaults, FilePolicy, FileWarning};

use std::collections::BTreeMap;

use crate::config::json;
use crate::config::json5::ParseError;
use crate::config::print::{self, Secrets};
use crate::config::tree::{FileId, Kind, Member, Node, Object, Place, Span, Value};
use crate::ids::{AgentId, trim};

/// The only version there is.
const VERSION: f64 = 1.0;

/// An approvals file in normal form.
#[derive(Clone, PartialEq)]
pub struct ApprovalsFile {
    root: Object,
    /// The allowlists, read once: a verdict must not parse ten thousand entries.
    entries: BTreeMap<String, Vec<Entry>>,
}

/// Gives a new, unused id for an entry.
pub type NewId<'a> = &'a mut dyn FnMut() -> String;

/// Why a text is no approvals file that we can use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileProblem {
    #[error("no JSON: {0}; mend it, or move it away to start anew")]
    NotJson(ParseError),
    #[error("it holds {kind} where an object should be; mend it, or move it away to start anew")]
    NotAnObject { kind: Kind },
    #[error("`version` is {found} and this build reads version 1; it was left as it is")]
    Version { found: String },
    #[error("`{key}` is {kind} where {wanted} should be (line {line}, column {column})")]
    Malformed { key: String, kind: Kind, wanted: &'static str, line: u32, column: u32 },
}

/// Why the file as a whole cannot be trusted; the place is part of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileRefused {
    #[error("`{path}`: {problem}")]
    Problem { path: String, problem: FileProblem },
    /// It is there and could not be read, or others could have written it.
    #[error("`{path}`: {why}")]
    Untrusted { path: String, why: String },
}

/// The key of an agent in the file: its id as the file spells it, or `*` for all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentKey(String);

impl AgentKey {
    /// One agent's own key.
    pub fn of(agent: &AgentId) -> Self {
        Self(agent.to_string())
    }

    /// The key that speaks of every agent.
    pub fn every() -> Self {
        Self(EVERY.to_owned())
    }

    /// A key as a person writes it. Nothing is the agent `main`. Case counts, as it does in the file.
    pub fn parse(text: &str) -> Self {
        match trim(text) {
            "" => Self(MAIN.to_owned()),
            key => Self(key.to_owned()),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Says whether some agent can have this key; a key that none can have protects nobody.
    pub fn is_reachable(&self) -> bool {
        self.0 == EVERY || AgentId::normalize(&self.0).as_str() == self.0
    }
}

const EVERY: &str = "*";
const MAIN: &str = "main";
/// The older name of `main`.
const LEGACY_MAIN: &str = "default";

impl ApprovalsFile {
    /// What an absent file says.
    pub fn empty() -> Self {
        let mut root = Object::default();
        root.insert(member("version", Value::Number(VERSION)));
        for key in ["socket", "defaults", "agents"] {
            root.insert(member(key, Value::Object(Object::default())));
        }
        Self { root, entries: BTreeMap::new() }
    }

    /// Reads a file's text and brings it into normal form.
    pub fn parse(text: &str, new_id: NewId<'_>) -> Result<Self, FileProblem> {
        let parsed = json::parse(text, FileId(0)).map_err(FileProblem::NotJson)?;
        let kind = parsed.root.value.kind();
        let Value::Object(root) = parsed.root.value else {
            return Err(FileProblem::NotAnObject { kind });
        };
        check_version(&root)?;
        let root = normalise::normalise(root, new_id)?;
        Ok(Self::of_root(root))
    }

    fn of_root(root: Object) -> Self {
        let entries = entry::read_all(&root);
        Self { root, entries }
    }

    /// The text to write: JSON, two blanks, a line end.
    pub fn to_text(&self) -> String {
        let root = Node::synthetic(Value::Object(self.root.clone()));
        print::json(&root, Secrets::None) + "\n"
    }

    /// The file as others may see it: of the socket only its path, never the token.
    #[must_use]
    pub fn redacted(&self) -> Self {
        let mut file = self.clone();
        let path = file.socket("path").map(str::to_owned);
        let mut socket = Object::default();
        socket.extend_text("path", path);
        file.root.insert(member("socket", Value::Object(socket)));
        file
    }

    /// The socket's path as written; `~` is for whoever opens it.
    pub fn socket_path(&self) -> Option<&str> {
        self.socket("path")
    }

    pub fn has_token(&self) -> bool {
        self.token().is_some()
    }

    /// What a client of the socket must know. Not to be printed.
    pub fn token(&self) -> Option<&str> {
        self.socket("token")
    }

    fn socket(&self, key: &str) -> Option<&str> {
        self.root.get("socket")?.get(key)?.as_str()
    }

    fn set_socket(&mut self, key: &str, value: &str) {
        if let Some(Node { value: Value::Object(socket), .. }) = self.root.get_mut("socket") {
            socket.insert(member(key, Value::String(value.to_owned())));
        }
    }

    /// Fills in what the socket lacks. Says whether anything did.
    pub fn fill_socket(&mut self, path: &str, token: &str) -> Change {
        let mut change = Change::Unchanged;
        for (key, value) in [("path", path), ("token", token)] {
            if self.socket(key).is_none() {
                self.set_socket(key, value);
                change = Change::Changed;
            }
        }
        change
    }

    /// Takes the socket's path and token from `current` where this file has none: whoever echoes a
    /// redacted file keeps the token.
    pub fn keep_socket_of(&mut self, current: &Self) {
        for key in ["path", "token"] {
            if self.socket(key).is_none()
                && let Some(value) = current.socket(key)
            {
                self.set_socket(key, value);
            }
        }
    }

    fn agents(&self) -> Option<&Object> {
        self.root.get("agents")?.as_object()
    }

    /// The entries of one key's own list.
    pub fn entries(&self, agent: &AgentKey) -> &[Entry] {
        self.entries.get(agent.as_str()).map(Vec::as_slice).unwrap_or_default()
    }

    /// Every agent key with its own entries, in the order of the keys.
    pub fn all_entries(&self) -> impl Iterator<Item = (&str, &[Entry])> {
        self.entries.iter().map(|(key, entries)| (key.as_str(), entries.as_slice()))
    }
}

/// The token must not get into a log.
impl std::fmt::Debug for ApprovalsFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = self.redacted().to_text();
        f.debug_tuple("ApprovalsFile").field(&text).finish()
    }
}

fn check_version(root: &Object) -> Result<(), FileProblem> {
    let found = match root.get("version").map(|node| &node.value) {
        Some(Value::Number(number)) if (*number - VERSION).abs() < f64::EPSILON => return Ok(()),
        None => "missing".to_owned(),
        Some(value) => print::json(&Node::synthetic(value.clone()), Secrets::None),
    };
    Err(FileProblem::Version { found })
}

/// A member that no file wrote.
fn member(key: &str, value: Value) -> Member {
    Member {
        key: key.to_owned(),
        key_place: Place::default(),
        key_span: Span::default(),
        node: Node::synthetic(value),
    }
}

/// Adding texts that may be absent.
trait ExtendText {
    fn extend_text(&mut self, key: &str, text: Option<String>);
}

impl ExtendText for Object {
    fn extend_text(&mut self, key: &str, text: Option<String>) {
        if let Some(text) = text {
            self.insert(member(key, Value::String(text)));
        }
    }
}

#[cfg(test)]
mod tests;
