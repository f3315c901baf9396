//! `tools.catalog` and `tools.effective`: which tools there are, and which of them a session gets.

use clawpen_engine::call::Who;
use clawpen_engine::config_file::Sound;
use clawpen_engine::session_entries::Sessions;
use clawpen_rules::ids::AgentId;
use clawpen_rules::models::ModelRef;
use clawpen_rules::session::Session;
use clawpen_rules::session::key::SessionKey;
use clawpen_rules::tool_policy::catalogue::{CATALOGUE, Profile, ToolSection};
use clawpen_wire::gateway::ErrorShape;
use serde_json::{Value, json};

use super::{agents, optional, sessions, text};
use crate::shared::{Shared, unavailable};

/// The sections with their titles, in the order in which they are shown.
const SECTIONS: &[(ToolSection, &str, &str)] = &[
    (ToolSection::Fs, "fs", "Files"),
    (ToolSection::Runtime, "runtime", "Runtime"),
    (ToolSection::Web, "web", "Web"),
    (ToolSection::Memory, "memory", "Memory"),
    (ToolSection::Sessions, "sessions", "Sessions"),
    (ToolSection::Ui, "ui", "UI"),
    (ToolSection::Messaging, "messaging", "Messaging"),
    (ToolSection::Automation, "automation", "Automation"),
    (ToolSection::Nodes, "nodes", "Nodes"),
    (ToolSection::Agents, "agents", "Agents"),
    (ToolSection::Media, "media", "Media"),
];

const PROFILES: &[(Profile, &str)] = &[
    (Profile::Minimal, "Minimal"),
    (Profile::Coding, "Coding"),
    (Profile::Messaging, "Messaging"),
    (Profile::Full, "Full"),
];

/// Every tool that a policy can name, by section.
pub(crate) fn catalog(shared: &Shared, params: &Value) -> Result<Value, ErrorShape> {
    let sound = shared.sound()?;
    let agent = agent(&sound, optional(params, "agentId"))?;
    let groups = SECTIONS.iter().map(|(section, id, label)| {
        let tools = CATALOGUE.iter().filter(|tool| tool.section == *section).map(|tool| {
            let profiles: Vec<&str> = tool.profiles.iter().map(|one| one.as_str()).collect();
            json!({
                "id": tool.name,
                "label": tool.name,
                "description": purpose(tool.name),
                "source": "core",
                "defaultProfiles": profiles,
            })
        });
        let tools: Vec<Value> = tools.collect();
        json!({ "id": id, "label": label, "source": "core", "tools": tools })
    });
    let groups: Vec<Value> = groups.collect();
    let profiles: Vec<Value> = PROFILES
        .iter()
        .map(|(profile, label)| json!({ "id": profile.as_str(), "label": label }))
        .collect();
    Ok(json!({ "agentId": agent.as_str(), "profiles": profiles, "groups": groups }))
}

/// The tools that a model would be offered in a session now.
pub(crate) fn effective(shared: &Shared, params: &Value) -> Result<Value, ErrorShape> {
    let sound = shared.sound()?;
    let config = &sound.store.loaded.config;
    let key = text(params, "sessionKey");
    let unknown = || ErrorShape::invalid(format!("unknown session key \"{key}\""));
    SessionKey::parse(key).ok_or_else(unknown)?;
    let session = Session::resolve(config, key);
    if let Some(wanted) = optional(params, "agentId")
        && AgentId::normalize(wanted) != *session.agent()
    {
        let what =
            format!("agent id \"{wanted}\" does not match session agent \"{}\"", session.agent());
        return Err(ErrorShape::invalid(what));
    }
    let path = sound.store.locations.session_store(config, session.agent());
    let entries = Sessions::at(&path).read().map_err(|error| unavailable(&error))?;
    let entry = entries.get(session.store_key().as_str()).ok_or_else(unknown)?;
    let own = sessions::model_of(&sound, session.agent(), entry);
    let own = own.and_then(|model| ModelRef::parse(&model.id()));
    let who = Who { session: Some(key.to_owned()), ..Who::default() };
    let offered = shared.runner.offered(&who, own.as_ref()).map_err(|e| unavailable(&e))?;
    let tools: Vec<Value> = offered
        .into_iter()
        .map(|tool| {
            json!({
                "id": tool.name,
                "label": label(tool.name),
                "description": first_sentence(tool.description),
                "rawDescription": tool.description,
                "source": "core",
            })
        })
        .collect();
    let profile = config
        .agent(session.agent())
        .and_then(|at| {
            at.path(&["tools", "profile"]).and_then(|at| at.node.as_str().map(str::to_owned))
        })
        .or_else(|| config.at(&["tools", "profile"])?.node.as_str().map(str::to_owned));
    Ok(json!({
        "agentId": session.agent().as_str(),
        "profile": profile.unwrap_or_else(|| "full".to_owned()),
        "groups": [{ "id": "core", "label": "Built-in tools", "source": "core", "tools": tools }],
    }))
}

/// The agent that is meant; one that nobody knows is an error.
pub(crate) fn agent(sound: &Sound, wanted: Option<&str>) -> Result<AgentId, ErrorShape> {
    let Some(wanted) = wanted else { return Ok(sound.store.loaded.config.default_agent()) };
    let id = AgentId::normalize(wanted);
    if agents::all(sound).contains(&id) {
        Ok(id)
    } else {
        Err(ErrorShape::invalid(format!("unknown agent id \"{wanted}\"")))
    }
}

/// `apply_patch` as `Apply Patch`.
fn label(name: &str) -> String {
    let word = |word: &str| {
        let mut letters = word.chars();
        let first = letters.next().map(|letter| letter.to_uppercase().to_string());
        first.unwrap_or_default() + letters.as_str()
    };
    name.split('_').map(word).collect::<Vec<_>>().join(" ")
}

fn first_sentence(text: &str) -> &str {
    let end = text.find(". ").map_or(text.len(), |at| at + 1);
    text.get(..end).unwrap_or(text)
}

/// What a tool is for, in a few words.
fn purpose(name: &str) -> &'static str {
    match name {
        "read" => "Shows what a file holds",
        "write" => "Makes a file or replaces it",
        "edit" => "Changes a part of a file",
        "apply_patch" => "Changes several files at once",
        "exec" => "Runs a command",
        "process" => "Follows commands in the background",
        "code_execution" => "Runs an analysis on a remote machine",
        "web_search" => "Looks something up on the web",
        "web_fetch" => "Gets a page of the web",
        "x_search" => "Looks through posts on X",
        "memory_search" => "Finds memories by their meaning",
        "memory_get" => "Shows a memory file",
        "sessions_list" => "Shows the sessions",
        "sessions_history" => "Shows what was said in a session",
        "sessions_send" => "Says something in another session",
        "sessions_spawn" => "Starts an agent below this one",
        "sessions_yield" => "Ends the turn to wait for agents below",
        "subagents" => "Steers the agents below this one",
        "session_status" => "Shows how a session is",
        "browser" => "Steers a web browser",
        "canvas" => "Steers a canvas",
        "message" => "Sends a message to a chat",
        "cron" => "Plans jobs for later",
        "gateway" => "Steers the gateway",
        "nodes" => "Shows nodes and devices",
        "agents_list" => "Shows the agents",
        "image" => "Says what is in an image",
        "image_generate" => "Makes an image",
        "tts" => "Turns text into speech",
        _ => "A tool",
    }
}
