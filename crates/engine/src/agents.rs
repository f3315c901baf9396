//! Makes, changes and removes agents: their config entry, their workspace, their state.
//!
//! What may be an agent is decided in `rules::agents`; this makes it so. Nothing is written to the
//! config before the directories are there; what is removed goes to the trash beside the state.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use clawpen_rules::agents::{self as rule, AgentRefusal};
use clawpen_rules::config::Config;
use clawpen_rules::config::locate::{Locations, expand_tilde};
use clawpen_rules::config::patch::member;
use clawpen_rules::config::tree::{Node, Object, Value};
use clawpen_rules::ids::AgentId;
use clawpen_rules::posix;
use clawpen_rules::timestamp::Timestamp;

use crate::config_file::{self, Base, Sound, WriteError};
use crate::config_store::Surroundings;
use crate::state_file::{StateFileError, failed};

pub mod files;
mod templates;

/// An agent was not made, changed or removed.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    #[error(transparent)]
    Refused(#[from] AgentRefusal),
    #[error(transparent)]
    File(#[from] StateFileError),
    #[error(transparent)]
    Config(Box<WriteError<AgentRefusal>>),
}

impl From<WriteError<AgentRefusal>> for AgentError {
    fn from(error: WriteError<AgentRefusal>) -> Self {
        match error {
            WriteError::Asker(refusal) => Self::Refused(refusal),
            other => Self::Config(Box::new(other)),
        }
    }
}

/// What a new agent should be.
#[derive(Debug, Clone, Copy)]
pub struct NewAgent<'a> {
    pub name: &'a str,
    pub workspace: &'a str,
    pub emoji: Option<&'a str>,
    pub avatar: Option<&'a str>,
}

/// An agent that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Made {
    pub id: AgentId,
    pub workspace: String,
}

/// Makes an agent.
pub fn create(
    around: &Surroundings,
    sound: &Sound,
    wanted: NewAgent<'_>,
    now: Timestamp,
) -> Result<Made, AgentError> {
    let (config, locations) = (&sound.store.loaded.config, &sound.store.locations);
    let id = rule::decide_create(config, wanted.name)?;
    let workspace = place(locations, wanted.workspace)?;
    if is_on(config, &["agents", "defaults", "skipBootstrap"]) {
        make_directory(Path::new(&workspace), 0o755)?;
    } else {
        bootstrap(Path::new(&workspace), now)?;
    }
    let sessions = sessions_directory(locations, &id);
    make_directory(&sessions, 0o700)?;
    introduce(Path::new(&workspace), &wanted)?;
    let entry = object(vec![
        ("id", text(id.as_str())),
        ("name", text(wanted.name.trim())),
        ("workspace", text(&workspace)),
        ("agentDir", text(&posix::join(&locations.state_dir, &format!("agents/{id}/agent")))),
    ]);
    config_file::write(around, Base::Now, now, |old| {
        // Somebody may have made it meanwhile.
        rule::decide_create(&old.store.loaded.config, wanted.name)?;
        let default = old.store.loaded.config.default_agent();
        Ok(with_list(&old.shown, |list| {
            if list.is_empty() {
                list.push(object(vec![("id", text(default.as_str()))]));
            }
            list.push(entry.clone());
        }))
    })?;
    Ok(Made { id, workspace })
}

/// What is new about an agent; `None` stays as it is, and so does what is blank.
#[derive(Debug, Clone, Copy, Default)]
pub struct Changes<'a> {
    pub name: Option<&'a str>,
    pub workspace: Option<&'a str>,
    pub model: Option<&'a str>,
    pub avatar: Option<&'a str>,
}

impl Changes<'_> {
    fn said(self) -> Self {
        Self {
            name: self.name.filter(|text| !text.trim().is_empty()),
            workspace: self.workspace.filter(|text| !text.trim().is_empty()),
            model: self.model.filter(|text| !text.trim().is_empty()),
            avatar: self.avatar.filter(|text| !text.trim().is_empty()),
        }
    }
}

/// Changes an agent that the config lists.
pub fn update(
    around: &Surroundings,
    sound: &Sound,
    (id, changes): (&str, Changes<'_>),
    now: Timestamp,
) -> Result<AgentId, AgentError> {
    let (config, locations) = (&sound.store.loaded.config, &sound.store.locations);
    let id = rule::listed(config, id)?;
    let changes = changes.said();
    let workspace = changes.workspace.map(|path| place(locations, path)).transpose()?;
    if let Some(workspace) = &workspace {
        bootstrap(Path::new(workspace), now)?;
    }
    config_file::write(around, Base::Now, now, |old| {
        rule::listed(&old.store.loaded.config, id.as_str())?;
        Ok(with_list(&old.shown, |list| {
            let entry = list.iter_mut().find(|entry| is_entry_of(entry, &id));
            if let Some(Value::Object(entry)) = entry.map(|entry| &mut entry.value) {
                let workspace = workspace.as_deref();
                for (key, value) in
                    [("name", changes.name), ("workspace", workspace), ("model", changes.model)]
                {
                    if let Some(value) = value {
                        entry.insert(member(key, text(value.trim())));
                    }
                }
            }
        }))
    })?;
    if let Some(avatar) = changes.avatar.map(one_line).filter(|avatar| !avatar.is_empty()) {
        let workspace = match workspace {
            Some(workspace) => workspace,
            None => locations.agent_workspace(config, &id).value,
        };
        append(Path::new(&workspace), &format!("\n- Avatar: {avatar}\n"))?;
    }
    Ok(id)
}

/// What becomes of an agent's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Files {
    Trash,
    Keep,
}

/// Removes an agent; says how many bindings went with it.
pub fn delete(
    around: &Surroundings,
    sound: &Sound,
    (id, files): (&str, Files),
    now: Timestamp,
) -> Result<(AgentId, usize), AgentError> {
    let (config, locations) = (&sound.store.loaded.config, &sound.store.locations);
    let id = rule::decide_delete(config, id)?;
    let workspace = locations.agent_workspace(config, &id).value;
    let is_shared = rule::all(config, &[])
        .iter()
        .any(|other| *other != id && locations.agent_workspace(config, other).value == workspace);
    let mut removed = 0;
    config_file::write(around, Base::Now, now, |old| {
        rule::decide_delete(&old.store.loaded.config, id.as_str())?;
        let mut new = with_list(&old.shown, |list| list.retain(|entry| !is_entry_of(entry, &id)));
        removed = forget(&mut new, &id);
        Ok(new)
    })?;
    if files == Files::Trash {
        let trash = Path::new(&locations.state_dir).join("trash");
        let state = Path::new(&locations.state_dir).join("agents").join(id.as_str());
        // A workspace that others use too, or that is no agent's own place, stays.
        if !is_shared && place(locations, &workspace).is_ok() {
            move_aside(Path::new(&workspace), &trash, now)?;
        }
        move_aside(&state, &trash, now)?;
    }
    Ok((id, removed))
}

/// Takes an agent out of the bindings and out of what agents may say to each other.
fn forget(config: &mut Node, id: &AgentId) -> usize {
    let Value::Object(root) = &mut config.value else { return 0 };
    let mut removed = 0;
    if let Some(Value::Array(bindings)) = root.get_mut("bindings").map(|node| &mut node.value) {
        let before = bindings.len();
        bindings.retain(|binding| {
            let agent = binding.get("agentId").and_then(Node::as_str);
            agent.is_none_or(|agent| AgentId::normalize(agent) != *id)
        });
        removed = before - bindings.len();
    }
    // A list with nothing in it says no more than none.
    let is_empty = |node: &Node| node.as_array().is_some_and(<[Node]>::is_empty);
    if root.get("bindings").is_some_and(is_empty) {
        root.remove("bindings");
    }
    if let Some(agents) =
        part(root, "agents").filter(|agents| agents.get("list").is_some_and(is_empty))
    {
        agents.remove("list");
    }
    let allow = part(root, "tools").and_then(|tools| part(tools, "agentToAgent"));
    let allow = allow.and_then(|talk| talk.get_mut("allow")).map(|node| &mut node.value);
    if let Some(Value::Array(allow)) = allow {
        allow.retain(|agent| agent.as_str() != Some(id.as_str()));
    }
    removed
}

fn part<'a>(object: &'a mut Object, key: &str) -> Option<&'a mut Object> {
    match &mut object.get_mut(key)?.value {
        Value::Object(object) => Some(object),
        _ => None,
    }
}

/// The directories under the state that agents have left.
pub fn found(state_dir: &str) -> Vec<AgentId> {
    let Ok(entries) = fs::read_dir(Path::new(state_dir).join("agents")) else { return Vec::new() };
    let names = entries.filter_map(|entry| {
        let entry = entry.ok()?;
        let name = entry.file_name().into_string().ok()?;
        (entry.file_type().ok()?.is_dir() && AgentId::is_valid(&name)).then_some(name)
    });
    names.take(1000).map(|name| AgentId::normalize(&name)).collect()
}

fn is_on(config: &Config, keys: &[&str]) -> bool {
    config.at(keys).is_some_and(|at| at.node.as_bool() == Some(true))
}

fn is_entry_of(entry: &Node, id: &AgentId) -> bool {
    let written = entry.get("id").and_then(Node::as_str);
    written.is_some_and(|written| AgentId::normalize(written) == *id)
}

/// Where a new workspace is to be. The state directory itself, a home or the root is nobody's
/// workspace: an agent that may write there owns everything.
fn place(locations: &Locations, written: &str) -> Result<String, AgentRefusal> {
    let written = written.trim();
    let path = expand_tilde(written, &locations.home);
    if !path.starts_with('/') {
        return Err(AgentRefusal::Workspace { found: written.to_owned() });
    }
    let path = posix::resolve("/", &path);
    let why = if path == "/" {
        Some("it is the root of the file system")
    } else if path == locations.home {
        Some("it is your home directory")
    } else if is_within(&locations.state_dir, &path) {
        Some("the state and the config are in it")
    } else {
        None
    };
    match why {
        Some(why) => Err(AgentRefusal::Place { found: path, why }),
        None => Ok(path),
    }
}

fn is_within(inner: &str, outer: &str) -> bool {
    Path::new(inner).starts_with(outer)
}

fn sessions_directory(locations: &Locations, id: &AgentId) -> PathBuf {
    Path::new(&locations.state_dir).join("agents").join(id.as_str()).join("sessions")
}

fn make_directory(path: &Path, mode: u32) -> Result<(), StateFileError> {
    DirBuilder::new().recursive(true).mode(mode).create(path).map_err(failed("create", path))
}

/// Makes a workspace with the files that an agent finds in it. What is there stays.
pub fn bootstrap(workspace: &Path, now: Timestamp) -> Result<(), StateFileError> {
    make_directory(workspace, 0o755)?;
    let state = workspace.join(".openclaw").join("workspace-state.json");
    let is_fresh = ["IDENTITY.md", "USER.md", "MEMORY.md", "memory", ".git"]
        .iter()
        .all(|name| fs::symlink_metadata(workspace.join(name)).is_err())
        && fs::symlink_metadata(&state).is_err();
    for (name, content) in templates::ALWAYS {
        write_new(&workspace.join(name), content)?;
    }
    if is_fresh {
        write_new(&workspace.join("BOOTSTRAP.md"), templates::BOOTSTRAP)?;
        make_directory(&workspace.join(".openclaw"), 0o755)?;
        let seeded = serde_json::json!({ "version": 1, "bootstrapSeededAt": now.to_string() });
        write_new(&state, &format!("{seeded:#}\n"))?;
    }
    Ok(())
}

/// Writes a file that must not be there yet; one that is stays.
fn write_new(path: &Path, content: &str) -> Result<(), StateFileError> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o644).open(path);
    match file {
        Ok(mut file) => file.write_all(content.as_bytes()).map_err(failed("write", path)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(failed("create", path)(error)),
    }
}

/// Writes who the agent is at the end of `IDENTITY.md`.
fn introduce(workspace: &Path, wanted: &NewAgent<'_>) -> Result<(), StateFileError> {
    let mut lines = format!("\n- Name: {}\n", one_line(wanted.name));
    for (key, value) in [("Emoji", wanted.emoji), ("Avatar", wanted.avatar)] {
        if let Some(value) = value.map(one_line).filter(|value| !value.is_empty()) {
            lines = format!("{lines}- {key}: {value}\n");
        }
    }
    append(workspace, &lines)
}

fn append(workspace: &Path, lines: &str) -> Result<(), StateFileError> {
    files::append(workspace, "IDENTITY.md", lines)
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Moves a directory into the trash; one that is not there is gone already.
fn move_aside(path: &Path, trash: &Path, now: Timestamp) -> Result<(), StateFileError> {
    if fs::symlink_metadata(path).is_err() {
        return Ok(());
    }
    make_directory(trash, 0o700)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let aside = trash.join(format!("{name}-{}", now.to_string().replace(':', "-")));
    fs::rename(path, &aside).map_err(failed("move to the trash", path))
}

/// The config with another list of agents.
fn with_list(config: &Node, change: impl FnOnce(&mut Vec<Node>)) -> Node {
    let mut config = config.clone();
    let Value::Object(root) = &mut config.value else { return config };
    if root.get("agents").is_none() {
        root.insert(member("agents", object(Vec::new())));
    }
    let Some(Value::Object(agents)) = root.get_mut("agents").map(|node| &mut node.value) else {
        return config;
    };
    if agents.get("list").is_none() {
        agents.insert(member("list", Node::synthetic(Value::Array(Vec::new()))));
    }
    if let Some(Value::Array(list)) = agents.get_mut("list").map(|node| &mut node.value) {
        change(list);
    }
    config
}

fn text(text: &str) -> Node {
    Node::synthetic(Value::String(text.to_owned()))
}

fn object(members: Vec<(&str, Node)>) -> Node {
    let members = members.into_iter().map(|(key, node)| member(key, node));
    Node::synthetic(Value::Object(Object::from_members(members.collect())))
}

#[cfg(test)]
mod tests;
