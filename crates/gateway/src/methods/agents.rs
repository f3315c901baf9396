//! `agents.*` and `agent.identity.get`: agents, and the files that clients may touch.

use std::path::Path;

use clawpen_engine::agents::files::{self, FileError, Found};
use clawpen_engine::agents::{self as engine, AgentError, Changes, Files, NewAgent};
use clawpen_engine::config_file::{Sound, WriteError};
use clawpen_rules::agents::{self as rule, AgentRefusal};
use clawpen_rules::config::tree::Node;
use clawpen_rules::ids::AgentId;
use clawpen_rules::session::Session;
use clawpen_wire::gateway::ErrorShape;
use serde_json::{Map, Value, json};

use super::{optional, text};
use crate::shared::{Shared, unavailable};
use crate::tree_json::to_json;

/// Every agent there is, by the config or by what it left.
pub(crate) fn all(sound: &Sound) -> Vec<AgentId> {
    let found = engine::found(&sound.store.locations.state_dir);
    rule::all(&sound.store.loaded.config, &found)
}

/// Every agent there is, and those that are no longer listed and have left state: sessions outlive their agents.
pub(crate) fn with_state(sound: &Sound) -> Vec<AgentId> {
    let mut ids = all(sound);
    for id in engine::found(&sound.store.locations.state_dir) {
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    ids
}

/// Every agent there is, as the config lists them.
pub(crate) fn as_listed(sound: &Sound) -> Vec<AgentId> {
    let found = engine::found(&sound.store.locations.state_dir);
    rule::as_listed(&sound.store.loaded.config, &found)
}

pub(crate) fn list(shared: &Shared) -> Result<Value, ErrorShape> {
    let sound = shared.sound()?;
    let config = &sound.store.loaded.config;
    let agents: Vec<Value> = all(&sound)
        .iter()
        .map(|id| {
            let mut agent = Map::new();
            agent.insert("id".into(), json!(id.as_str()));
            if let Some(name) = rule::name(config, id) {
                agent.insert("name".into(), json!(name));
            }
            let identity = config.agent(id).and_then(|at| at.node.get("identity").cloned());
            if let Some(identity) = identity {
                agent.insert("identity".into(), to_json(&identity));
            }
            Value::Object(agent)
        })
        .collect();
    let scope = config.at(&["session", "scope"]);
    let scope = scope.as_ref().and_then(|at| at.node.as_str()).unwrap_or("per-sender");
    Ok(json!({
        "defaultId": config.default_agent().as_str(),
        "mainKey": "main",
        "scope": scope,
        "agents": agents,
    }))
}

pub(crate) fn create(shared: &Shared, params: &Value) -> Result<Value, ErrorShape> {
    let sound = shared.sound()?;
    let name = text(params, "name").trim();
    let wanted = NewAgent {
        name,
        workspace: text(params, "workspace"),
        emoji: optional(params, "emoji"),
        avatar: optional(params, "avatar"),
    };
    let made = engine::create(&shared.around, &sound, wanted, Shared::now()).map_err(error)?;
    Ok(json!({
        "ok": true,
        "agentId": made.id.as_str(),
        "name": name,
        "workspace": made.workspace,
    }))
}

pub(crate) fn update(shared: &Shared, params: &Value) -> Result<Value, ErrorShape> {
    let sound = shared.sound()?;
    let changes = Changes {
        name: optional(params, "name"),
        workspace: optional(params, "workspace"),
        model: optional(params, "model"),
        avatar: optional(params, "avatar"),
    };
    let what = (text(params, "agentId"), changes);
    let id = engine::update(&shared.around, &sound, what, Shared::now()).map_err(error)?;
    Ok(json!({ "ok": true, "agentId": id.as_str() }))
}

pub(crate) fn delete(shared: &Shared, params: &Value) -> Result<Value, ErrorShape> {
    let sound = shared.sound()?;
    let files = if params["deleteFiles"] == json!(false) { Files::Keep } else { Files::Trash };
    let what = (text(params, "agentId"), files);
    let (id, removed) =
        engine::delete(&shared.around, &sound, what, Shared::now()).map_err(error)?;
    Ok(json!({ "ok": true, "agentId": id.as_str(), "removedBindings": removed }))
}

pub(crate) fn files_list(shared: &Shared, params: &Value) -> Result<Value, ErrorShape> {
    let (id, workspace) = workspace(shared, params)?;
    let mut listed = Vec::new();
    for name in files::names(Path::new(&workspace)) {
        let found = files::read(Path::new(&workspace), name);
        // A file that may not be touched is listed as one that is not there.
        let found = found.ok().flatten();
        listed.push(described(&workspace, name, found.as_ref(), Content::Left));
    }
    Ok(json!({ "agentId": id.as_str(), "workspace": workspace, "files": listed }))
}

pub(crate) fn files_get(shared: &Shared, params: &Value) -> Result<Value, ErrorShape> {
    let (id, workspace) = workspace(shared, params)?;
    let name = rule::decide_file(text(params, "name")).map_err(|e| refused(&e))?;
    let found = files::read(Path::new(&workspace), name).map_err(file_error)?;
    let file = described(&workspace, name, found.as_ref(), Content::Shown);
    Ok(json!({ "agentId": id.as_str(), "workspace": workspace, "file": file }))
}

pub(crate) fn files_set(shared: &Shared, params: &Value) -> Result<Value, ErrorShape> {
    let (id, workspace) = workspace(shared, params)?;
    let name = rule::decide_file(text(params, "name")).map_err(|e| refused(&e))?;
    let path = Path::new(&workspace);
    engine::bootstrap(path, Shared::now()).map_err(|error| unavailable(&error))?;
    files::write(path, name, text(params, "content")).map_err(file_error)?;
    let found = files::read(path, name).map_err(file_error)?;
    let file = described(&workspace, name, found.as_ref(), Content::Shown);
    Ok(json!({ "ok": true, "agentId": id.as_str(), "workspace": workspace, "file": file }))
}

/// Who an agent is.
pub(crate) fn identity(shared: &Shared, params: &Value) -> Result<Value, ErrorShape> {
    let sound = shared.sound()?;
    let config = &sound.store.loaded.config;
    let wrong =
        |what: String| ErrorShape::invalid(format!("invalid agent.identity.get params: {what}"));
    let key = optional(params, "sessionKey").map(str::trim).filter(|key| !key.is_empty());
    if let Some(key) = key.filter(|key| key.starts_with("agent:")) {
        let mut parts = key.splitn(3, ':').skip(1);
        if parts.next().is_none_or(str::is_empty) || parts.next().is_none_or(str::is_empty) {
            return Err(wrong(format!("malformed session key \"{key}\"")));
        }
    }
    let of_key = key.map(|key| Session::resolve(config, key).agent().clone());
    let id = match (optional(params, "agentId").map(AgentId::normalize), of_key) {
        (Some(id), Some(of_key)) if id != of_key => {
            let what = format!("agent \"{id}\" does not match session key agent \"{of_key}\"");
            return Err(wrong(what));
        }
        (Some(id), _) | (None, Some(id)) => id,
        (None, None) => config.default_agent(),
    };
    Ok(Identity::of(&sound, &id).shown(&id))
}

/// What an agent is called and looks like: the config says so, else its file.
pub(crate) struct Identity {
    pub(crate) name: Option<String>,
    pub(crate) emoji: Option<String>,
    /// A picture, by address or by a path in the workspace; or a sign.
    pub(crate) avatar: Option<String>,
}

impl Identity {
    pub(crate) fn of(sound: &Sound, id: &AgentId) -> Self {
        let config = &sound.store.loaded.config;
        let workspace = sound.store.locations.agent_workspace(config, id).value;
        let file = files::read(Path::new(&workspace), "IDENTITY.md").ok().flatten();
        let file = file.map(|found| found.content).unwrap_or_default();
        let of_config = |key: &str| {
            let entry = config.agent(id)?;
            entry.node.get("identity")?.get(key).and_then(Node::as_str).map(str::to_owned)
        };
        let said = |label: &str| of_config(label).or_else(|| line(&file, label));
        Self { name: said("name"), emoji: said("emoji"), avatar: said("avatar") }
    }

    /// As pages name it, and what it looks like there.
    pub(crate) fn for_pages(&self, id: &AgentId) -> (&str, String) {
        let avatar = match self.avatar.as_deref().map(picture) {
            Some(Picture::Address(address)) => Some(address.to_owned()),
            Some(Picture::File(_)) => Some(format!("/avatar/{id}")),
            Some(Picture::Sign(sign)) => Some(sign.to_owned()),
            None => None,
        };
        let avatar = avatar.or_else(|| self.emoji.clone()).unwrap_or_else(|| "A".to_owned());
        (self.name.as_deref().unwrap_or("Assistant"), avatar)
    }

    fn shown(&self, id: &AgentId) -> Value {
        let (name, avatar) = self.for_pages(id);
        let mut shown = json!({ "agentId": id.as_str(), "name": name, "avatar": avatar });
        // A letter is a picture and no emoji.
        if let Some(emoji) = self.emoji.as_ref().filter(|emoji| !emoji.is_ascii()) {
            shown["emoji"] = json!(emoji);
        }
        shown
    }
}

/// What the words about a picture mean.
pub(crate) enum Picture<'a> {
    Address(&'a str),
    /// In the workspace.
    File(&'a str),
    /// A letter or an emoji.
    Sign(&'a str),
}

pub(crate) fn picture(text: &str) -> Picture<'_> {
    let text = text.trim();
    let is_address =
        ["https://", "http://", "data:image/"].iter().any(|start| text.starts_with(start));
    if is_address {
        Picture::Address(text)
    } else if text.contains(['/', '.']) {
        Picture::File(text)
    } else {
        Picture::Sign(text)
    }
}

/// The value of `- Label: value` in a file.
fn line(file: &str, label: &str) -> Option<String> {
    // Whoever is renamed is told so at the end of the file.
    file.lines().rev().find_map(|line| {
        let line = line.trim().trim_start_matches(['-', '*']).trim();
        let (key, value) = line.split_once(':')?;
        let is_it = key.trim_matches('*').trim().eq_ignore_ascii_case(label);
        let value = value.trim_matches('*').trim();
        (is_it && !value.is_empty()).then(|| value.to_owned())
    })
}

/// The agent that is meant and its workspace. An agent that nobody configured has no files.
fn workspace(shared: &Shared, params: &Value) -> Result<(AgentId, String), ErrorShape> {
    let sound = shared.sound()?;
    let id = AgentId::normalize(text(params, "agentId"));
    if !all(&sound).contains(&id) {
        return Err(refused(&AgentRefusal::Unknown));
    }
    let workspace = sound.store.locations.agent_workspace(&sound.store.loaded.config, &id).value;
    Ok((id, workspace))
}

/// Whether a file comes with its text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Content {
    Shown,
    Left,
}

fn described(workspace: &str, name: &str, found: Option<&Found>, content: Content) -> Value {
    let path = Path::new(workspace).join(name).to_string_lossy().into_owned();
    let mut file = json!({ "name": name, "path": path, "missing": found.is_none() });
    if let Some(found) = found {
        file["size"] = json!(found.size);
        file["updatedAtMs"] = json!(found.updated_at_ms);
        if content == Content::Shown {
            file["content"] = json!(found.content);
        }
    }
    file
}

fn refused(refusal: &AgentRefusal) -> ErrorShape {
    ErrorShape::invalid(refusal.to_string())
}

fn file_error(error: FileError) -> ErrorShape {
    match error {
        error @ FileError::Unsafe { .. } => ErrorShape::invalid(error.to_string()),
        FileError::File(error) => unavailable(&error),
    }
}

fn error(error: AgentError) -> ErrorShape {
    match error {
        AgentError::Refused(refusal) => refused(&refusal),
        AgentError::File(error) => unavailable(&error),
        AgentError::Config(error) => match *error {
            error @ (WriteError::Invalid(_) | WriteError::Elsewhere { .. }) => {
                ErrorShape::invalid(error.to_string())
            }
            error => unavailable(&error),
        },
    }
}
