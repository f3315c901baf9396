//! Decides what may become an agent, which of them may go, and which of their files clients may touch.

use crate::config::Config;
use crate::config::tree::Node;
use crate::ids::AgentId;

/// The files of a workspace that clients may read and write, in the order they are listed.
pub const FILES: &[&str] = &[
    "AGENTS.md",
    "SOUL.md",
    "TOOLS.md",
    "IDENTITY.md",
    "USER.md",
    "HEARTBEAT.md",
    "BOOTSTRAP.md",
    "MEMORY.md",
    "memory.md",
];

/// Why an agent cannot be made, changed or removed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AgentRefusal {
    #[error("\"{id}\" is reserved")]
    Reserved { id: AgentId },
    #[error("agent \"{id}\" already exists")]
    Exists { id: AgentId },
    #[error("agent \"{id}\" not found")]
    NotFound { id: AgentId },
    #[error("\"{id}\" cannot be deleted")]
    Stays { id: AgentId },
    #[error("unknown agent id")]
    Unknown,
    #[error("the config lists its agents in `agents.entries`; change them there")]
    OtherForm,
    #[error("unsupported file \"{name}\"")]
    File { name: String },
    #[error("the workspace must be an absolute path or start with `~`; found \"{found}\"")]
    Workspace { found: String },
    #[error(
        "the workspace \"{found}\" cannot be an agent's own: {why}; choose a directory for this agent"
    )]
    Place { found: String, why: &'static str },
}

/// Decides whether an agent of this name can be made, and what its id is.
pub fn decide_create(config: &Config, name: &str) -> Result<AgentId, AgentRefusal> {
    let id = AgentId::normalize(name);
    if id == AgentId::main() {
        return Err(AgentRefusal::Reserved { id });
    }
    check_form(config)?;
    if config.agent(&id).is_some() {
        return Err(AgentRefusal::Exists { id });
    }
    Ok(id)
}

/// Only the older form of the list is written: a second list beside the newer one would be ignored.
fn check_form(config: &Config) -> Result<(), AgentRefusal> {
    match config.at(&["agents", "entries"]) {
        Some(_) => Err(AgentRefusal::OtherForm),
        None => Ok(()),
    }
}

/// Finds an agent that the config lists and that can be changed.
pub fn listed(config: &Config, id: &str) -> Result<AgentId, AgentRefusal> {
    check_form(config)?;
    let id = AgentId::normalize(id);
    if config.agent(&id).is_some() { Ok(id) } else { Err(AgentRefusal::NotFound { id }) }
}

/// Decides whether an agent can be removed.
pub fn decide_delete(config: &Config, id: &str) -> Result<AgentId, AgentRefusal> {
    if AgentId::normalize(id) == AgentId::main() {
        return Err(AgentRefusal::Stays { id: AgentId::main() });
    }
    listed(config, id)
}

/// Every agent there is: the default one first, the others by id. Without a list in the config it is
/// the default agent and those that have left state (`found`).
pub fn all(config: &Config, found: &[AgentId]) -> Vec<AgentId> {
    let default = config.default_agent();
    let mut ids: Vec<AgentId> = config.agents().into_iter().map(|(id, _)| id).collect();
    if ids.is_empty() {
        ids.extend(found.iter().cloned());
    }
    ids.retain(|id| *id != default);
    ids.sort_by_key(in_a_list);
    ids.dedup();
    ids.insert(0, default);
    ids
}

/// Every agent there is, in the order in which the config lists them.
pub fn as_listed(config: &Config, found: &[AgentId]) -> Vec<AgentId> {
    let mut ids: Vec<AgentId> = Vec::new();
    for (id, _) in config.agents() {
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    if ids.is_empty() { all(config, found) } else { ids }
}

/// An id as lists of people sort it: signs come before digits and letters.
fn in_a_list(id: &AgentId) -> Vec<u8> {
    let place = |byte: u8| match byte {
        b'_' => 0,
        b'-' => 1,
        other => other,
    };
    id.as_str().bytes().map(place).collect()
}

/// The name that the config gives an agent.
pub fn name(config: &Config, id: &AgentId) -> Option<String> {
    let entry = config.agent(id)?;
    let name = entry.node.get("name").and_then(Node::as_str)?.trim();
    (!name.is_empty()).then(|| name.to_owned())
}

/// Decides whether clients may touch a file of a workspace. By its exact name: no path gets through.
pub fn decide_file(name: &str) -> Result<&'static str, AgentRefusal> {
    let name = name.trim();
    let known = FILES.iter().find(|known| **known == name).copied();
    known.ok_or_else(|| AgentRefusal::File { name: name.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{json5, tree::FileId};

    fn config(text: &str) -> Config {
        Config::from_tree(json5::parse(text, FileId(0)).unwrap().root, Vec::new())
    }

    #[test]
    fn a_new_agent_needs_a_name_of_its_own() {
        let config = config("{agents: {list: [{id: 'main'}, {id: 'bot'}]}}");
        let ask = |name: &str| decide_create(&config, name).map_err(|refusal| refusal.to_string());
        assert_eq!(ask("Research Bot 7!").unwrap().as_str(), "research-bot-7");
        assert_eq!(ask("Main"), Err("\"main\" is reserved".to_owned()));
        assert_eq!(ask("研究"), Err("\"main\" is reserved".to_owned()));
        assert_eq!(ask(" BOT "), Err("agent \"bot\" already exists".to_owned()));
        let gone = decide_delete(&config, "main").map_err(|refusal| refusal.to_string());
        assert_eq!(gone, Err("\"main\" cannot be deleted".to_owned()));
        assert_eq!(decide_delete(&config, "bot").unwrap().as_str(), "bot");
    }

    #[test]
    fn agents_in_the_newer_form_are_not_changed_here() {
        let config = config("{agents: {entries: {bot: {}}}}");
        assert_eq!(decide_create(&config, "new"), Err(AgentRefusal::OtherForm));
        assert_eq!(listed(&config, "bot"), Err(AgentRefusal::OtherForm));
    }

    #[test]
    fn the_default_agent_comes_first() {
        let ids = |text: &str| -> Vec<String> {
            let left = [AgentId::normalize("old"), AgentId::main()];
            all(&config(text), &left).iter().map(ToString::to_string).collect()
        };
        assert_eq!(ids("{}"), ["main", "old"]);
        assert_eq!(ids("{agents: {list: [{id: 'b'}, {id: 'a', default: true}]}}"), ["a", "b"]);
        let listed = config("{agents: {list: [{id: 'b'}, {id: 'a', default: true}, {id: 'b'}]}}");
        assert_eq!(as_listed(&listed, &[]), ["b", "a"].map(AgentId::normalize));
        let many =
            "{agents: {list: [{id: 'z'}, {id: 'b1'}, {id: 'b-1'}, {id: 'b_1'}, {id: 'ba'}]}}";
        assert_eq!(ids(many), ["z", "b_1", "b-1", "b1", "ba"]);
    }

    #[test]
    fn files_go_by_their_exact_names() {
        assert_eq!(decide_file(" SOUL.md "), Ok("SOUL.md"));
        for name in ["../SOUL.md", "soul.md", "", "/etc/passwd", "SOUL.md/../x"] {
            assert!(decide_file(name).is_err(), "{name}");
        }
    }
}
