//! The config: read, checked, and asked about one agent.
//!
//! ```text
//! text ──json5──► tree ──include──► one tree ──environment──► legacy ──► schema ──► Config
//!                                                                                     │
//!                                                        resolve (built-in < defaults < agent)
//! ```
//!
//! [`Config`] is the tree after the load pipeline; every value in it still knows its file and line.

pub mod defaults;
pub mod edit;
pub mod fingerprint;
pub mod include;
pub mod json;
pub mod json5;
pub mod load;
pub mod locate;
pub mod own;
pub mod patch;
pub mod print;
pub mod redact;
pub mod resolve;
pub mod sandbox;
pub mod schema;
pub mod setting;
pub mod shown;
pub mod starter;
pub mod tree;
pub mod variables;

use crate::ids::AgentId;
use tree::{At, Node, Object, Value};

/// A loaded config.
#[derive(Debug, Clone)]
pub struct Config {
    root: Node,
    /// The files it was read from; [`tree::FileId`] is an index into this.
    files: Vec<String>,
}

impl Config {
    /// No file at all: every value is the built-in one.
    pub fn empty() -> Self {
        Self::from_tree(Node::synthetic(Value::Object(Object::default())), Vec::new())
    }

    /// Wraps a tree that went through the load pipeline.
    pub fn from_tree(root: Node, files: Vec<String>) -> Self {
        Self { root, files }
    }

    pub fn root(&self) -> At<'_> {
        At::root(&self.root)
    }

    pub fn files(&self) -> &[String] {
        &self.files
    }

    /// The value at a key path, if written.
    pub fn at(&self, keys: &[&str]) -> Option<At<'_>> {
        self.root().path(keys)
    }

    /// The agents' own entries with their ids, in order: `agents.entries` if it is there, else
    /// `agents.list`.
    pub fn agents(&self) -> Vec<(AgentId, At<'_>)> {
        if let Some(entries) = self.at(&["agents", "entries"]) {
            return entries
                .members()
                .into_iter()
                .map(|(id, entry)| (AgentId::normalize(id), entry))
                .collect();
        }
        let Some(list) = self.at(&["agents", "list"]) else { return Vec::new() };
        list.items()
            .into_iter()
            .filter_map(|entry| {
                let id = AgentId::normalize(entry.node.get("id")?.as_str()?);
                Some((id, entry))
            })
            .collect()
    }

    /// The entry of one agent; with duplicates the first counts.
    pub fn agent(&self, id: &AgentId) -> Option<At<'_>> {
        self.agents().into_iter().find(|(other, _)| other == id).map(|(_, entry)| entry)
    }

    /// The agent marked `default: true`, else the first entry, else `main`.
    pub fn default_agent(&self) -> AgentId {
        let agents = self.agents();
        let marked = agents
            .iter()
            .find(|(_, entry)| entry.node.get("default").and_then(Node::as_bool).unwrap_or(false));
        marked.or_else(|| agents.first()).map_or_else(AgentId::main, |(id, _)| id.clone())
    }
}
