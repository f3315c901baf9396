//! The tools by which an agent sees, starts and talks to other sessions: what they take, and whom they reach.
//!
//! A session of an agent acts in a sandbox, so by default it reaches only itself and what it started. Only the config
//! opens more, never a model, and never another agent's sessions.

use super::schema::{Kind, Parameter, Schema};
use crate::config::Config;
use crate::config::tree::Node;
use crate::ids::AgentId;

/// A tool about sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionTool {
    List,
    History,
    Send,
    Spawn,
    Status,
    Subagents,
    Agents,
}

impl SessionTool {
    pub const ALL: [Self; 7] = [
        Self::List,
        Self::History,
        Self::Send,
        Self::Spawn,
        Self::Status,
        Self::Subagents,
        Self::Agents,
    ];

    /// As policy knows it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::List => "sessions_list",
            Self::History => "sessions_history",
            Self::Send => "sessions_send",
            Self::Spawn => "sessions_spawn",
            Self::Status => "session_status",
            Self::Subagents => "subagents",
            Self::Agents => "agents_list",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.as_str() == name)
    }

    pub const fn schema(self) -> &'static Schema {
        match self {
            Self::List => &LIST,
            Self::History => &HISTORY,
            Self::Send => &SEND,
            Self::Spawn => &SPAWN,
            Self::Status => &STATUS,
            Self::Subagents => &SUBAGENTS,
            Self::Agents => &AGENTS,
        }
    }
}

const KEY: Parameter =
    Parameter::required("sessionKey", Kind::Word, "The session, as `sessions_list` names it");

const LIST: Schema = Schema {
    name: "sessions_list",
    description: "Lists the sessions that this one may see: itself and those it started.",
    parameters: &[
        Parameter::optional("limit", Kind::Whole { least: 1 }, "Sessions at most (50)"),
        Parameter::optional(
            "activeMinutes",
            Kind::Whole { least: 1 },
            "Only those used within so many minutes",
        ),
        Parameter::optional(
            "messageLimit",
            Kind::Whole { least: 0 },
            "Show so many of the last messages of each (0, at most 20)",
        ),
    ],
};
const HISTORY: Schema = Schema {
    name: "sessions_history",
    description: "Shows what was said in a session.",
    parameters: &[
        KEY,
        Parameter::optional(
            "limit",
            Kind::Whole { least: 1 },
            "Messages at most, the newest ones (50)",
        ),
        Parameter::optional("includeTools", Kind::Switch, "Tool results too"),
    ],
};
const SEND: Schema = Schema {
    name: "sessions_send",
    description: "Sends a message to another session and waits for its answer.",
    parameters: &[
        KEY,
        Parameter::required("message", Kind::Text, "The message"),
        Parameter::optional(
            "timeoutSeconds",
            Kind::Whole { least: 0 },
            "How long to wait (30); 0 does not wait",
        ),
    ],
};
const SPAWN: Schema = Schema {
    name: "sessions_spawn",
    description: "Starts a sub-agent on a task, in a sandboxed session of its own. Its result comes back as a message.",
    parameters: &[
        Parameter::required("task", Kind::Text, "What to do"),
        Parameter::optional("label", Kind::Word, "A short name for it"),
        Parameter::optional("agentId", Kind::Word, "Another agent, if the config allows it"),
        Parameter::optional("model", Kind::Word, "Another model, as provider/model"),
        Parameter::optional("runTimeoutSeconds", Kind::Whole { least: 1 }, "How long it may take"),
    ],
};
const STATUS: Schema = Schema {
    name: "session_status",
    description: "Says which model, sandbox and limits a session has, and how many tokens it used.",
    parameters: &[Parameter::optional(
        "sessionKey",
        Kind::Word,
        "Another session; this one, if left out",
    )],
};
const SUBAGENTS: Schema = Schema {
    name: "subagents",
    description: "Lists the sub-agents of this session, ends one, or gives one new directions.",
    parameters: &[
        Parameter::optional(
            "action",
            Kind::Choice(&["list", "kill", "steer"]),
            "What to do (list)",
        ),
        Parameter::optional("target", Kind::Word, "Its session key or label, or `all` for kill"),
        Parameter::optional("message", Kind::Text, "For steer: the new directions"),
    ],
};

const AGENTS: Schema = Schema {
    name: "agents_list",
    description: "Lists the agents that `sessions_spawn` may start from this session.",
    parameters: &[],
};

/// An agent that a session may start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Startable {
    pub id: AgentId,
    pub name: Option<String>,
    /// It has an entry in the config; without one it cannot be started.
    pub is_configured: bool,
}

/// The agents that sessions of `own` may start, itself first; and whether the config says that any may be.
pub fn startable(config: &Config, own: &AgentId) -> (Vec<Startable>, bool) {
    let allowed = config.agent(own).and_then(|at| at.path(&["subagents", "allowAgents"]));
    let allowed = allowed.and_then(|at| at.strings()).unwrap_or_default();
    let is_any = allowed.iter().any(|entry| entry.trim() == "*");
    let known = config.agents();
    let mut others: Vec<AgentId> = if is_any {
        known.iter().map(|(id, _)| id.clone()).collect()
    } else {
        let named = allowed.iter().filter(|entry| !entry.trim().is_empty());
        named.map(|entry| AgentId::normalize(entry)).collect()
    };
    others.retain(|id| id != own);
    others.sort_unstable_by(|a, b| a.as_str().cmp(b.as_str()));
    others.dedup();
    let shown = |id: AgentId| {
        let entry = known.iter().find(|(known, _)| *known == id).map(|(_, at)| at);
        let name = entry.and_then(|at| at.node.get("name")?.as_str().map(str::trim));
        Startable {
            name: name.filter(|name| !name.is_empty()).map(str::to_owned),
            is_configured: entry.is_some(),
            id,
        }
    };
    (std::iter::once(own.clone()).chain(others).map(shown).collect(), is_any)
}

/// A session that is to be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reached<'a> {
    pub agent: &'a AgentId,
    pub kinship: Kinship,
}

/// How a session stands to the one that reaches for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kinship {
    Itself,
    /// Started by it, or by one that it started.
    Descendant,
    Stranger,
}

/// Whether a session is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach {
    Open,
    Closed(&'static str),
}

/// Decides whether a session of `own` reaches another.
#[must_use]
pub fn decide(config: &Config, own: &AgentId, other: Reached<'_>) -> Reach {
    match other.kinship {
        Kinship::Itself | Kinship::Descendant => return Reach::Open,
        Kinship::Stranger => {}
    }
    if other.agent != own {
        return Reach::Closed("it belongs to another agent, and no session reaches those");
    }
    let text = |keys: &[&str]| config.at(keys).and_then(|at| at.node.as_str().map(str::to_owned));
    let entry = config.agent(own).and_then(|at| at.path(&["sandbox", "sessionToolsVisibility"]));
    let sandboxed = entry.and_then(|at| at.node.as_str().map(str::to_owned));
    let sandboxed =
        sandboxed.or_else(|| text(&["agents", "defaults", "sandbox", "sessionToolsVisibility"]));
    let general = text(&["tools", "sessions", "visibility"]);
    let is_open =
        sandboxed.as_deref() == Some("all") && matches!(general.as_deref(), Some("agent" | "all"));
    if is_open {
        Reach::Open
    } else {
        Reach::Closed(
            "this session did not start it; `tools.sessions.visibility: \"agent\"` with \
             `agents.defaults.sandbox.sessionToolsVisibility: \"all\"` would open it",
        )
    }
}

/// What limits sub-agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpawnLimits {
    pub depth: u64,
    pub children: u64,
    pub at_once: u64,
}

impl SpawnLimits {
    pub fn resolve(config: &Config) -> Self {
        let number = |key: &str, built_in: u64, most: u64| {
            let written = config.at(&["agents", "defaults", "subagents", key]);
            let written = written.and_then(|at| at.node.as_number()).filter(|n| *n >= 1.0);
            // Whoever writes more than any machine carries gets what one carries.
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "at least 1, and capped"
            )]
            written.map_or(built_in, |number| number.min(1e6) as u64).min(most)
        };
        Self {
            depth: number("maxSpawnDepth", 1, 5),
            children: number("maxChildrenPerAgent", 5, 20),
            at_once: number("maxConcurrent", 8, 64),
        }
    }
}

/// Why a sub-agent is not started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpawnRefused {
    #[error(
        "this session is {depth} levels deep, and `agents.defaults.subagents.maxSpawnDepth` is {most}"
    )]
    TooDeep { depth: u64, most: u64 },
    #[error(
        "{count} sub-agents of this session are at work, and `agents.defaults.subagents.maxChildrenPerAgent` is {most}"
    )]
    TooMany { count: u64, most: u64 },
    #[error("agent `{agent}` is not in `agents.list[].subagents.allowAgents` of agent `{own}`")]
    OtherAgent { own: AgentId, agent: AgentId },
    #[error("there is no agent `{agent}`")]
    NoAgent { agent: AgentId },
}

/// Decides whether a session of `own`, `depth` levels deep with `children` at work, may start one of `agent`.
pub fn decide_spawn(
    config: &Config,
    (own, agent): (&AgentId, &AgentId),
    depth: u64,
    children: u64,
) -> Result<(), SpawnRefused> {
    let limits = SpawnLimits::resolve(config);
    if depth >= limits.depth {
        return Err(SpawnRefused::TooDeep { depth, most: limits.depth });
    }
    if children >= limits.children {
        return Err(SpawnRefused::TooMany { count: children, most: limits.children });
    }
    if agent == own {
        return Ok(());
    }
    let allowed = config.agent(own).and_then(|at| at.path(&["subagents", "allowAgents"]));
    let allowed = allowed.and_then(|at| at.strings()).unwrap_or_default();
    let is_named =
        allowed.iter().any(|entry| entry.trim() == "*" || AgentId::normalize(entry) == *agent);
    if !is_named {
        return Err(SpawnRefused::OtherAgent { own: own.clone(), agent: agent.clone() });
    }
    match config.agent(agent).map(|at| at.node).map(Node::as_object) {
        Some(_) => Ok(()),
        None => Err(SpawnRefused::NoAgent { agent: agent.clone() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::json5;
    use crate::config::tree::FileId;

    fn config(text: &str) -> Config {
        Config::from_tree(json5::parse(text, FileId(0)).unwrap().root, Vec::new())
    }

    #[test]
    fn a_session_reaches_itself_and_what_it_started() {
        let main = AgentId::main();
        let other = AgentId::normalize("other");
        let open = r#"{ tools: { sessions: { visibility: "agent" } }, agents: { defaults: { sandbox: { sessionToolsVisibility: "all" } } } }"#;
        for (text, agent, kinship, expected) in [
            ("{}", &main, Kinship::Itself, true),
            ("{}", &other, Kinship::Descendant, true),
            ("{}", &main, Kinship::Stranger, false),
            (r#"{ tools: { sessions: { visibility: "all" } } }"#, &main, Kinship::Stranger, false),
            (open, &main, Kinship::Stranger, true),
            (open, &other, Kinship::Stranger, false),
        ] {
            let found = decide(&config(text), &main, Reached { agent, kinship });
            assert_eq!(found == Reach::Open, expected, "{text} {kinship:?}");
        }
    }

    #[test]
    fn sub_agents_are_few_and_shallow_and_of_the_same_agent() {
        let main = AgentId::main();
        let two = AgentId::normalize("two");
        let text = r#"{ agents: { list: [{ id: "main", subagents: { allowAgents: ["Two", "gone"] } }, { id: "two" }] } }"#;
        let config = config(text);
        let check = |agent: &AgentId, depth, children| {
            decide_spawn(&config, (&main, agent), depth, children)
        };
        assert_eq!(check(&main, 0, 0), Ok(()));
        assert_eq!(check(&two, 0, 4), Ok(()));
        assert_eq!(check(&main, 1, 0), Err(SpawnRefused::TooDeep { depth: 1, most: 1 }));
        assert_eq!(check(&main, 0, 5), Err(SpawnRefused::TooMany { count: 5, most: 5 }));
        let gone = AgentId::normalize("gone");
        assert_eq!(check(&gone, 0, 0), Err(SpawnRefused::NoAgent { agent: gone.clone() }));
        let three = AgentId::normalize("three");
        assert_eq!(
            check(&three, 0, 0),
            Err(SpawnRefused::OtherAgent { own: main.clone(), agent: three.clone() })
        );
    }

    #[test]
    fn a_session_may_start_its_own_agent_and_those_that_are_named() {
        let own = AgentId::main();
        let shown = |text: &str| {
            let (agents, is_any) = startable(&config(text), &own);
            let rows: Vec<String> = agents
                .into_iter()
                .map(|agent| format!("{} {:?} {}", agent.id, agent.name, agent.is_configured))
                .collect();
            (rows.join(", "), is_any)
        };
        let list = |allow: &str| {
            format!(
                "{{ agents: {{ list: [{{ id: 'b', name: ' B ' }}, {{ id: 'main', subagents: {{ allowAgents: {allow} }} }}, \
                 {{ id: 'a' }}] }} }}"
            )
        };
        assert_eq!(shown("{}"), ("main None false".to_owned(), false));
        assert_eq!(shown(&list("[]")), ("main None true".to_owned(), false));
        let expected = "main None true, b Some(\"B\") true, gone None false";
        assert_eq!(shown(&list("['gone', 'B', 'b', ' ']")), (expected.to_owned(), false));
        let expected = "main None true, a None true, b Some(\"B\") true";
        assert_eq!(shown(&list("['*']")), (expected.to_owned(), true));
    }

    #[test]
    fn every_tool_is_found_by_its_name() {
        for tool in SessionTool::ALL {
            assert_eq!(SessionTool::parse(tool.as_str()), Some(tool));
            assert_eq!(tool.schema().name, tool.as_str());
            assert!(crate::tool_policy::catalogue::find(tool.as_str()).is_some());
        }
    }
}
