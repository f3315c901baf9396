//! What the file says to one agent: its own entry, else the one for every agent, else the defaults.

use std::fmt;

use super::entry::{Binding, Entry};
use super::{AgentKey, ApprovalsFile};
use crate::config::tree::{Kind, Node, Value};
use crate::exec_host::source::{Chosen, Source};
use crate::exec_host::values::{Ask, Security};

/// What the file says to one agent. `None`: it says nothing about that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePolicy {
    pub security: Option<Chosen<Security>>,
    pub ask: Option<Chosen<Ask>>,
    pub ask_fallback: Option<Chosen<Security>>,
    /// `defaults.ask`: what counts where neither config nor session say anything.
    pub default_ask: Option<Chosen<Ask>>,
    pub auto_allow_skills: Option<Chosen<bool>>,
}

/// `defaults` alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileDefaults {
    pub security: Option<Chosen<Security>>,
    pub ask: Option<Chosen<Ask>>,
    pub ask_fallback: Option<Chosen<Security>>,
    pub auto_allow_skills: Option<Chosen<bool>>,
}

/// What the author of a file should know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileWarning {
    /// A word that is none of ours; the strictest value counts.
    UnknownWord { key: String, found: String, means: &'static str },
    /// No agent can have this key, so what stands there protects nobody.
    Unreachable { key: String },
    /// The entry has a key that may narrow it, so it matches nothing.
    NotUnderstood { agent: String, pattern: String, key: String },
    /// Only `*` and patterns with a slash or a tilde ever match.
    NeverMatches { agent: String, pattern: String },
}

/// One block of the file with its key.
struct Block<'a> {
    key: String,
    node: Option<&'a Node>,
}

impl ApprovalsFile {
    /// What the file says to an agent.
    pub fn policy(&self, agent: &AgentKey) -> FilePolicy {
        let blocks =
            [self.agent_block(agent), self.agent_block(&AgentKey::every()), self.defaults_block()];
        FilePolicy {
            security: pick(&blocks, "security", security),
            ask: pick(&blocks, "ask", ask),
            ask_fallback: pick(&blocks, "askFallback", security),
            default_ask: pick(&[self.defaults_block()], "ask", ask),
            auto_allow_skills: pick(&blocks, "autoAllowSkills", flag),
        }
    }

    /// What stands in `defaults`.
    pub fn defaults(&self) -> FileDefaults {
        let blocks = [self.defaults_block()];
        FileDefaults {
            security: pick(&blocks, "security", security),
            ask: pick(&blocks, "ask", ask),
            ask_fallback: pick(&blocks, "askFallback", security),
            auto_allow_skills: pick(&blocks, "autoAllowSkills", flag),
        }
    }

    /// The allowlist in force for an agent: everybody's entries, then its own.
    pub fn allowlist<'a>(&'a self, agent: &AgentKey) -> impl Iterator<Item = &'a Entry> {
        let every = self.entries(&AgentKey::every());
        let own = if agent.as_str() == super::EVERY { &[] } else { self.entries(agent) };
        every.iter().chain(own)
    }

    /// Everything in the file that does not do what its author may think.
    pub fn warnings(&self) -> Vec<FileWarning> {
        let mut found = Vec::new();
        let mut blocks = vec![self.defaults_block()];
        let members = self.agents().map(crate::config::tree::Object::members).unwrap_or_default();
        for agent in members {
            let key = AgentKey(agent.key.clone());
            if !key.is_reachable() {
                found.push(FileWarning::Unreachable { key: agent.key.clone() });
            }
            blocks.push(self.agent_block(&key));
        }
        for block in &blocks {
            found.extend(unknown_word(block, "security", security, Security::STRICTEST.as_str()));
            found.extend(unknown_word(block, "ask", ask, Ask::STRICTEST.as_str()));
            found.extend(unknown_word(block, "askFallback", security, "deny"));
            found.extend(unknown_word(block, "autoAllowSkills", flag, "false"));
        }
        for (agent, entries) in self.all_entries() {
            found.extend(entries.iter().filter_map(|entry| entry_warning(agent, entry)));
        }
        found
    }

    fn agent_block(&self, agent: &AgentKey) -> Block<'_> {
        let node = self.agents().and_then(|agents| agents.get(agent.as_str()));
        Block { key: format!("agents.{}", agent.as_str()), node }
    }

    fn defaults_block(&self) -> Block<'_> {
        Block { key: "defaults".to_owned(), node: self.root.get("defaults") }
    }
}

/// The value of the first block that says anything. What cannot be read is the strictest value: the
/// reference goes on to the defaults there, which may be laxer than what a slip of the pen hides.
fn pick<T>(blocks: &[Block<'_>], key: &str, read: impl Fn(&Node) -> Read<T>) -> Option<Chosen<T>> {
    blocks.iter().find_map(|block| {
        let value = match read(block.node?.get(key)?) {
            Read::Absent => return None,
            Read::Word(value) | Read::Unknown(value) => value,
        };
        Some(Chosen::new(value, Source::Approvals(format!("{}.{key}", block.key))))
    })
}

/// A value as read.
enum Read<T> {
    /// `null` says nothing.
    Absent,
    Word(T),
    /// None of the words: the strictest value.
    Unknown(T),
}

fn security(node: &Node) -> Read<Security> {
    read_word(node, Security::parse, Security::STRICTEST)
}

fn ask(node: &Node) -> Read<Ask> {
    read_word(node, Ask::parse, Ask::STRICTEST)
}

fn read_word<T>(node: &Node, parse: fn(&str) -> Option<T>, strictest: T) -> Read<T> {
    match &node.value {
        Value::Null => Read::Absent,
        Value::String(text) => parse(text).map_or(Read::Unknown(strictest), Read::Word),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            Read::Unknown(strictest)
        }
    }
}

/// Only a plain `true` opens anything.
fn flag(node: &Node) -> Read<bool> {
    match &node.value {
        Value::Null => Read::Absent,
        Value::Bool(value) => Read::Word(*value),
        Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => {
            Read::Unknown(false)
        }
    }
}

fn unknown_word<T>(
    block: &Block<'_>,
    key: &str,
    read: impl Fn(&Node) -> Read<T>,
    means: &'static str,
) -> Option<FileWarning> {
    let node = block.node?.get(key)?;
    match read(node) {
        Read::Absent | Read::Word(_) => None,
        Read::Unknown(_) => {
            let found = match node.as_str() {
                Some(text) => text.to_owned(),
                None => article(node.value.kind()).to_owned(),
            };
            Some(FileWarning::UnknownWord { key: format!("{}.{key}", block.key), found, means })
        }
    }
}

const fn article(kind: Kind) -> &'static str {
    match kind {
        Kind::Null => "null",
        Kind::Boolean => "a boolean",
        Kind::Number => "a number",
        Kind::String => "a text",
        Kind::Array => "a list",
        Kind::Object => "an object",
    }
}

fn entry_warning(agent: &str, entry: &Entry) -> Option<FileWarning> {
    let (agent, pattern) = (agent.to_owned(), entry.pattern.clone());
    match &entry.binding {
        Binding::NotUnderstood { key } => {
            Some(FileWarning::NotUnderstood { agent, pattern, key: key.clone() })
        }
        Binding::Exact { .. } => None,
        Binding::Pattern if pattern == "*" || pattern.contains(['/', '\\', '~']) => None,
        Binding::Pattern => Some(FileWarning::NeverMatches { agent, pattern }),
    }
}

impl fmt::Display for FileWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownWord { key, found, means } => {
                write!(f, "`{key}` says `{found}`, which is no value of it; `{means}` counts")
            }
            Self::Unreachable { key } => write!(
                f,
                "`agents.{key}` speaks to no agent: ids are lower case letters, digits, `-` and `_`"
            ),
            Self::NotUnderstood { agent, pattern, key } => write!(
                f,
                "the entry `{pattern}` of `agents.{agent}` has `{key}`, which this build cannot \
                 honour; the entry matches nothing"
            ),
            Self::NeverMatches { agent, pattern } => write!(
                f,
                "the entry `{pattern}` of `agents.{agent}` matches nothing: write the path of the \
                 program, or a pattern with a slash"
            ),
        }
    }
}
