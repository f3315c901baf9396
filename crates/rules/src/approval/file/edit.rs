//! Changes to the allowlists. Each says whether it changed anything, so that a file is only written
//! when there is something to write.

use super::entry::{self, Binding};
use super::{AgentKey, ApprovalsFile, ExtendText as _, NewId, member};
use crate::command::{ContentHash, Remembered};
use crate::config::tree::{Node, Object, Value};
use crate::ids::trim;

/// Whether an edit changed the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Change {
    Changed,
    Unchanged,
}

/// An entry to add.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewEntry {
    pattern: String,
    binding: Binding,
    pin: Option<ContentHash>,
    /// The command it was made for, if it was made for one.
    command: Option<String>,
}

/// One use of an entry, to be remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Use<'a> {
    /// The pattern that matched.
    pub pattern: &'a str,
    pub command: &'a str,
    pub resolved_path: Option<&'a str>,
    pub now_ms: u64,
}

impl NewEntry {
    /// A pattern that a person wrote, pinned if the file it names could be changed by an agent.
    pub fn pattern(pattern: &str, pin: Option<ContentHash>) -> Self {
        let pattern = trim(pattern).to_owned();
        Self { pattern, binding: Binding::Pattern, pin, command: None }
    }

    /// What [`crate::approval::always`] lets be remembered: one executable, one argument list, one
    /// directory.
    pub(in crate::approval) fn remembered(remembered: Remembered, cwd: &str) -> Self {
        let Remembered { path, argv, pin, binding: _ } = remembered;
        Self::exact(path, argv, cwd.to_owned(), pin)
    }

    pub(in crate::approval) fn exact(
        executable: String,
        argv: Vec<String>,
        cwd: String,
        pin: ContentHash,
    ) -> Self {
        let pattern = entry::bound_pattern(&executable, &argv, &cwd);
        let command = argv.join(" ");
        let binding = Binding::Exact { executable, argv, cwd };
        Self { pattern, binding, pin: Some(pin), command: Some(command) }
    }

    pub fn as_pattern(&self) -> &str {
        &self.pattern
    }

    pub const fn binding(&self) -> &Binding {
        &self.binding
    }

    pub const fn pin(&self) -> Option<ContentHash> {
        self.pin
    }
}

impl ApprovalsFile {
    /// Appends an entry to an agent's own list. A blank pattern and one that is there already
    /// (letter by letter, with the same pin) change nothing.
    pub fn add(
        &mut self,
        agent: &AgentKey,
        new: NewEntry,
        now_ms: u64,
        new_id: NewId<'_>,
    ) -> Change {
        let NewEntry { pattern, binding, pin, command } = new;
        let own = self.entries(agent);
        let is_there = own
            .iter()
            .any(|entry| entry.pattern == pattern && entry.binding == binding && entry.pin == pin);
        if pattern.is_empty() || is_there {
            return Change::Unchanged;
        }
        // A renewed pin replaces the old one: two entries for one path would leave the old content allowed.
        if pin.is_some() || matches!(binding, Binding::Exact { .. }) {
            let _ = self.remove(agent, &pattern);
        }
        let mut entry = Object::default();
        entry.insert(member("id", Value::String(new_id())));
        entry.insert(member("pattern", Value::String(pattern)));
        if matches!(binding, Binding::Exact { .. }) {
            entry.insert(member("source", Value::String(entry::ALLOW_ALWAYS.to_owned())));
        }
        if let Some(own) = entry::own_node(&binding, pin) {
            entry.insert(member(entry::OWN, own));
        }
        entry.insert(member("lastUsedAt", number(now_ms)));
        if let Some(command) = command {
            entry.insert(member("lastUsedCommand", Value::String(command)));
        }
        push(&mut self.root, agent, Node::synthetic(Value::Object(entry)));
        *self = Self::of_root(std::mem::take(&mut self.root));
        Change::Changed
    }

    /// Removes the entries with this pattern from an agent's own list; an agent about whom nothing
    /// is left to say goes too.
    pub fn remove(&mut self, agent: &AgentKey, pattern: &str) -> Change {
        let pattern = trim(pattern).to_owned();
        let has_pattern =
            |node: &Node| node.get("pattern").and_then(Node::as_str).map(trim) == Some(&pattern);
        self.retain(agent, |node| !has_pattern(node))
    }

    fn retain(&mut self, agent: &AgentKey, keep: impl Fn(&Node) -> bool) -> Change {
        let Some(Node { value: Value::Object(agents), .. }) = self.root.get_mut("agents") else {
            return Change::Unchanged;
        };
        let Some(Node { value: Value::Object(own), .. }) = agents.get_mut(agent.as_str()) else {
            return Change::Unchanged;
        };
        let Some(Node { value: Value::Array(list), .. }) = own.get_mut("allowlist") else {
            return Change::Unchanged;
        };
        let before = list.len();
        list.retain(keep);
        if list.len() == before {
            return Change::Unchanged;
        }
        if list.is_empty() {
            own.remove("allowlist");
            if own.is_empty() {
                agents.remove(agent.as_str());
            }
        }
        *self = Self::of_root(std::mem::take(&mut self.root));
        Change::Changed
    }

    /// Remembers that an entry was used: in the agent's own list and in everybody's, wherever the
    /// pattern stands.
    pub fn record_use(&mut self, agent: &AgentKey, used: &Use<'_>) -> Change {
        let mut change = Change::Unchanged;
        for key in [agent.clone(), AgentKey::every()] {
            let Some(list) = self.existing_list_mut(&key) else { continue };
            for node in list {
                let Value::Object(entry) = &mut node.value else { continue };
                if entry.get("pattern").and_then(Node::as_str).map(trim) != Some(used.pattern) {
                    continue;
                }
                entry.insert(member("lastUsedAt", number(used.now_ms)));
                let command = Value::String(used.command.to_owned());
                entry.insert(member("lastUsedCommand", command));
                // Where it led last time must not stand for where it led now.
                entry.remove("lastResolvedPath");
                entry.extend_text("lastResolvedPath", used.resolved_path.map(str::to_owned));
                change = Change::Changed;
            }
        }
        change
    }

    /// Takes over what we bound an entry to in `current` (its content, its words, its directory) where this file has the same
    /// pattern of the same agent without it: a page that knows patterns only, and writes them back, must not widen them.
    pub fn keep_bindings_of(&mut self, current: &Self) {
        let keys: Vec<AgentKey> = self.entries.keys().map(|key| AgentKey(key.clone())).collect();
        for key in keys {
            let before = current.existing_list(&key);
            let Some(list) = self.existing_list_mut(&key) else { continue };
            for node in list {
                let Value::Object(entry) = &mut node.value else { continue };
                let pattern = entry.get("pattern").and_then(Node::as_str).map(trim);
                let is_same =
                    |old: &&Node| old.get("pattern").and_then(Node::as_str).map(trim) == pattern;
                let mut same = before.iter().filter(is_same).peekable();
                let Some(first) = same.peek().copied() else { continue };
                // Where one of them was without, the person meant that one.
                if entry.contains(entry::OWN) || !same.all(|old| old.get(entry::OWN).is_some()) {
                    continue;
                }
                for kept in ["source", entry::OWN] {
                    if let Some(value) = first.get(kept) {
                        entry.insert(member(kept, value.value.clone()));
                    }
                }
            }
        }
        *self = Self::of_root(std::mem::take(&mut self.root));
    }

    fn existing_list(&self, agent: &AgentKey) -> &[Node] {
        let own = self.agents().and_then(|agents| agents.get(agent.as_str()));
        own.and_then(|own| own.get("allowlist")).and_then(Node::as_array).unwrap_or_default()
    }

    fn existing_list_mut(&mut self, agent: &AgentKey) -> Option<&mut Vec<Node>> {
        let Value::Object(agents) = &mut self.root.get_mut("agents")?.value else { return None };
        let Value::Object(own) = &mut agents.get_mut(agent.as_str())?.value else { return None };
        match &mut own.get_mut("allowlist")?.value {
            Value::Array(list) => Some(list),
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Object(_) => None,
        }
    }
}

/// A whole number of milliseconds; what JavaScript cannot hold exactly is two hundred thousand years
/// away.
#[expect(clippy::cast_precision_loss, reason = "milliseconds stay far below 2^53")]
fn number(milliseconds: u64) -> Value {
    Value::Number(milliseconds as f64)
}

/// Appends to an agent's list; block and list are made if they are not there.
fn push(root: &mut Object, agent: &AgentKey, entry: Node) {
    let mut agents = take_object(root, "agents");
    let mut own = take_object(&mut agents, agent.as_str());
    let mut list = match own.remove("allowlist").map(|member| member.node.value) {
        Some(Value::Array(list)) => list,
        Some(
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_),
        )
        | None => Vec::new(),
    };
    list.push(entry);
    own.insert(member("allowlist", Value::Array(list)));
    put(&mut agents, agent.as_str(), Value::Object(own));
    put(root, "agents", Value::Object(agents));
}

/// Takes a block's content and leaves an empty one in its place, so that the order of keys stays.
fn take_object(parent: &mut Object, key: &str) -> Object {
    match parent.get_mut(key).map(|node| &mut node.value) {
        Some(Value::Object(object)) => std::mem::take(object),
        Some(_) | None => Object::default(),
    }
}

fn put(parent: &mut Object, key: &str, value: Value) {
    parent.insert(member(key, value));
}
