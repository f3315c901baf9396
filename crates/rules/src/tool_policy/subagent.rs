//! What sub-agents may not use, and what `tools.subagents.tools` changes about it.

use super::list::Written;
use super::name::ToolName;
use super::section::{Section, union};
use crate::config::Config;
use crate::config::setting::{Layer, Origin};

/// Closed to every sub-agent: these change the system, speak for the agent or read its memory.
const ALWAYS_DENIED: &[&str] = &[
    "gateway",
    "agents_list",
    "whatsapp_login",
    "session_status",
    "cron",
    "memory_search",
    "memory_get",
    "sessions_send",
];

/// Closed to those that may not start sub-agents of their own.
const LEAF_DENIED: &[&str] = &["subagents", "sessions_list", "sessions_history", "sessions_spawn"];

const SECTION: &[&str] = &["tools", "subagents", "tools"];
const SECTION_KEY: &str = "tools.subagents.tools";

/// A sub-agent's place in the tree of sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubagentRole {
    /// May start sub-agents of its own.
    Orchestrator,
    /// May not.
    Leaf,
}

/// How many levels below its main session a sub-agent runs; an unknown depth counts as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SpawnDepth(u32);

impl SpawnDepth {
    /// A depth that someone recorded.
    pub const fn recorded(depth: u32) -> Self {
        Self(depth)
    }

    /// The depth of a sub-agent's session key; `None` for the key of another session.
    ///
    /// A key that starts with `subagent:` and names no agent still is a sub-agent's.
    pub fn of_session_key(key: &str) -> Option<Self> {
        let key = key.trim().to_lowercase();
        let rest = match key.strip_prefix("agent:") {
            Some(rest) => rest.split_once(':')?.1,
            None => key.as_str(),
        };
        rest.starts_with("subagent:").then(|| {
            let below = rest.matches(":subagent:").count();
            Self(u32::try_from(below).unwrap_or(u32::MAX).saturating_add(1))
        })
    }
}

impl Default for SpawnDepth {
    fn default() -> Self {
        Self(1)
    }
}

impl SubagentRole {
    /// The role at `depth`, under `agents.defaults.subagents.maxSpawnDepth`.
    pub fn at_depth(config: &Config, depth: SpawnDepth) -> Self {
        let written = config.at(&["agents", "defaults", "subagents", "maxSpawnDepth"]);
        let deepest = written.and_then(|at| at.node.as_number()).unwrap_or(1.0).floor().max(1.0);
        if f64::from(depth.0) < deepest { Self::Orchestrator } else { Self::Leaf }
    }
}

/// The policy of a sub-agent's session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubagentPolicy {
    /// `None` restricts nothing.
    pub allow: Option<Vec<Written>>,
    pub deny: Vec<Written>,
    pub(super) add_key: String,
}

impl SubagentPolicy {
    pub fn resolve(config: &Config, role: SubagentRole) -> Self {
        let section = config.at(SECTION).map(|at| Section::read(Layer::Defaults, &at));
        let section = section.unwrap_or_default();
        let extra = section.also_allow.as_deref().unwrap_or_default();
        let allow = section.allow.as_deref().map(|allow| {
            if section.also_allow.is_some() { union(allow, extra) } else { allow.to_vec() }
        });
        // Only exact names lift a built-in deny: a group or a pattern here says what may be used,
        // not that a sub-agent should steer the gateway.
        let named: Vec<ToolName> = section
            .allow
            .iter()
            .flatten()
            .chain(extra)
            .map(|entry| ToolName::normalize(&entry.text))
            .collect();
        let built_in = match role {
            SubagentRole::Orchestrator => [ALWAYS_DENIED, &[]],
            SubagentRole::Leaf => [ALWAYS_DENIED, LEAF_DENIED],
        };
        let add_to = if section.has_allow_entries() { "allow" } else { "alsoAllow" };
        let add_key = format!("{SECTION_KEY}.{add_to}");
        let kept = built_in.into_iter().flatten().copied();
        let kept = kept.filter(|name| !named.iter().any(|known| known.as_str() == *name));
        let deny = kept
            .map(|name| Written { text: name.to_owned(), origin: Origin::built_in(&add_key) })
            .chain(section.deny.into_iter().flatten())
            .collect();
        Self { allow, deny, add_key }
    }
}
