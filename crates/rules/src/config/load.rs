//! The load pipeline: from files and variables to a checked [`Config`].
//!
//! The order matters and is the reference's: read, include, the config's own variables, references,
//! shared directories, schema, forced values, home directories. All problems are collected before
//! anything is refused, so one run shows everything there is to mend.

use super::include::{self, ConfigFiles};
use super::json5;
use super::locate::{Locations, Variables as _, expand_tilde};
use super::schema::{self, Issue, Problem};
use super::tree::{FileId, Node, Object, Place, Value, join_key};
use super::variables::{Environment, Source, VariableWarning};
use super::{Config, own};
use crate::host_files::{EntryKind, FactError, real_path};
use crate::ids::AgentId;
use crate::posix;

/// A config that loaded, and what is worth saying about it.
#[derive(Debug, Clone)]
pub struct Loaded {
    pub config: Config,
    pub own: own::OwnConfig,
    pub warnings: Vec<Warning>,
    /// The file was not there: every value is built in.
    pub is_missing: bool,
}

/// Something that does not stop the load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Warning {
    Variable(VariableWarning),
    /// `session.mainKey` is not honoured, as in the reference.
    MainKeyIgnored {
        place: Place,
    },
    /// The key stands twice in one object; the later value counts.
    RepeatedKey {
        key: String,
        place: Place,
    },
    /// More than one agent is marked as the default; the first counts.
    SeveralDefaults {
        agents: Vec<String>,
    },
    /// A `.env` file is there and cannot be read; what it sets is missing.
    Unreadable {
        why: String,
    },
    /// `OPENCLAW_CONFIG_PATH` names a file that is not there.
    NamedConfigMissing {
        path: String,
    },
    /// Both forms of the agent list are there; `agents.entries` counts.
    ListIgnored {
        place: Place,
    },
}

/// Why a config could not be loaded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    #[error("cannot read `{path}`: {why}")]
    Unreadable { path: String, why: String },
    #[error("the config is not valid")]
    Invalid(Invalid),
}

/// Everything that is wrong with a config.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invalid {
    /// The root config.
    pub file: String,
    /// Every file read; a [`Finding::place`] refers to these.
    pub files: Vec<String>,
    pub findings: Vec<Finding>,
    /// References that led to nothing may be the cause, so they are named too.
    pub warnings: Vec<Warning>,
}

/// One problem, as text with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Dotted key path; empty for the root.
    pub key: String,
    pub message: String,
    pub place: Option<Place>,
    /// What to write instead, where that can be guessed.
    pub hint: Option<String>,
    /// The values that the key takes, if it takes only a few.
    pub allowed: &'static [&'static str],
}

/// More repeated keys than this are not worth a line each.
const MAX_REPEATED_SHOWN: usize = 20;

/// Reads the `.env` files, the working directory's last and weakest.
pub fn read_variables(
    environment: &mut Environment,
    locations: &Locations,
    current_dir: &str,
    files: &impl ConfigFiles,
) -> Vec<Warning> {
    let state = posix::join(&locations.state_dir, ".env");
    let project = posix::join(current_dir, ".env");
    let mut warnings = Vec::new();
    let mut add = |path: &str, source| match read(path, files) {
        Ok(None) => {}
        Ok(Some(text)) => {
            let refused = environment.add_file(&text, path, source);
            warnings.extend(refused.into_iter().map(Warning::Variable));
        }
        Err(error) => warnings.push(Warning::Unreadable { why: error.to_string() }),
    };
    add(&state, Source::StateFile);
    if project != state {
        add(&project, Source::WorkingDirectory);
    }
    warnings
}

/// Loads the config of `locations`.
pub fn load(
    locations: &Locations,
    environment: &mut Environment,
    files: &impl ConfigFiles,
) -> Result<Loaded, LoadError> {
    let Some(text) = read(&locations.config, files)? else {
        let own = own::load(&locations.own_config, files)?;
        let is_named =
            environment.get("OPENCLAW_CONFIG_PATH").is_some_and(|path| !path.trim().is_empty());
        let missing = Warning::NamedConfigMissing { path: locations.config.clone() };
        let warnings = if is_named { vec![missing] } else { Vec::new() };
        return Ok(Loaded { config: Config::empty(), own, warnings, is_missing: true });
    };
    let roots = include::extra_roots(environment.get("OPENCLAW_INCLUDE_ROOTS"), &locations.home);
    let invalid = |finding: Finding, files: Vec<String>| {
        let file = locations.config.clone();
        LoadError::Invalid(Invalid { file, files, findings: vec![finding], warnings: Vec::new() })
    };
    let parsed = json5::parse(&text, FileId(0)).map_err(|error| {
        invalid(parse_finding(&error, FileId(0)), vec![locations.config.clone()])
    })?;
    let included = include::resolve(parsed, &locations.config, &roots, files).map_err(|issue| {
        let finding = Finding {
            key: String::new(),
            message: issue.error.to_string(),
            place: Some(issue.place),
            hint: None,
            allowed: &[],
        };
        invalid(finding, issue.files)
    })?;
    let repeated = included.repeated.into_iter().take(MAX_REPEATED_SHOWN);
    let mut warnings: Vec<Warning> =
        repeated.map(|found| Warning::RepeatedKey { key: found.key, place: found.place }).collect();
    let mut config = Config::from_tree(included.root, included.files);
    environment.add_config(&config.root);
    warnings.extend(environment.substitute(&mut config.root).into_iter().map(Warning::Variable));
    let mut issues = schema::check(&config.root);
    if issues.is_empty() {
        issues.extend(shared_directories(&config, locations, files)?);
    }
    if !issues.is_empty() {
        let findings = issues.into_iter().map(finding).collect();
        let (file, files) = (locations.config.clone(), config.files);
        return Err(LoadError::Invalid(Invalid { file, files, findings, warnings }));
    }
    force_main_key(&mut config.root, &mut warnings);
    warn_about_agents(&config.root, &mut warnings);
    expand_homes(&mut config.root, "", &locations.home);
    let own = own::load(&locations.own_config, files)?;
    Ok(Loaded { config, own, warnings, is_missing: false })
}

/// The text of a config file; `None` if there is none.
pub(super) fn read(path: &str, files: &impl ConfigFiles) -> Result<Option<String>, LoadError> {
    let unreadable = |error: FactError| LoadError::Unreadable {
        path: path.to_owned(),
        why: error.problem.to_string(),
    };
    let real = real_path(files, path).map_err(unreadable)?;
    if files.entry(&real).map_err(unreadable)?.is_some() {
        return files.read(&real).map(Some).map_err(unreadable);
    }
    // A link that leads nowhere is no missing file: whoever put it there meant something to be
    // read, such as a volume that is not mounted now.
    for place in ancestors(path) {
        let entry = files.entry(place).map_err(unreadable)?;
        let is_link = entry.is_some_and(|entry| matches!(entry.kind, EntryKind::Symlink { .. }));
        if is_link {
            let target = real_path(files, place).map_err(unreadable)?;
            if files.entry(&target).map_err(unreadable)?.is_none() {
                let why = format!("`{place}` is a link to `{target}`, which is not there");
                return Err(LoadError::Unreadable { path: path.to_owned(), why });
            }
        }
    }
    Ok(None)
}

/// The path and every directory above it, except the root.
fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |path| Some(posix::parent(path)))
        .take_while(|path| *path != "/")
}

pub(super) fn parse_finding(error: &json5::ParseError, file: FileId) -> Finding {
    Finding {
        key: String::new(),
        message: format!("not valid JSON5: {error}"),
        place: Some(Place { file, line: error.line, column: error.column }),
        hint: None,
        allowed: &[],
    }
}

pub(super) fn finding(issue: Issue) -> Finding {
    let (place, hint) = match &issue.problem {
        Problem::UnknownKeys(keys) => (
            keys.first().map_or(issue.place, |key| key.place),
            keys.iter().find_map(|key| {
                key.nearest.map(|nearest| format!("`{}` may be meant to be `{nearest}`", key.name))
            }),
        ),
        Problem::NotOneOf { allowed, found } => (
            issue.place,
            schema::nearest(found.trim_matches('"').trim(), allowed.iter().copied())
                .map(|nearest| format!("`{nearest}` may be meant")),
        ),
        _ => (issue.place, None),
    };
    let allowed: &[&str] = match &issue.problem {
        Problem::NotOneOf { allowed, .. } => allowed,
        Problem::WrongType { wanted: "boolean", .. } => &["true", "false"],
        _ => &[],
    };
    let message = issue.problem.to_string();
    Finding { key: issue.key, message, place: Some(place), hint, allowed }
}

/// Agents whose `agentDir` is the same place would overwrite each other's state.
fn shared_directories(
    config: &Config,
    locations: &Locations,
    files: &impl ConfigFiles,
) -> Result<Vec<Issue>, LoadError> {
    let mut seen: Vec<(String, Vec<AgentId>, Place)> = Vec::new();
    for (id, entry) in config.agents() {
        let named = entry.node.get("agentDir").and_then(Node::as_str).map(str::trim);
        let Some(named) = named.filter(|dir| !dir.is_empty()) else { continue };
        let dir = posix::resolve(&locations.state_dir, &expand_tilde(named, &locations.home));
        let dir = real_path(files, &dir).map_err(|error| LoadError::Unreadable {
            path: error.path.clone(),
            why: error.problem.to_string(),
        })?;
        match seen.iter_mut().find(|(other, _, _)| *other == dir) {
            Some((_, agents, _)) if !agents.contains(&id) => agents.push(id),
            Some(_) => {}
            None => seen.push((dir, vec![id], entry.node.place)),
        }
    }
    let shared = seen.into_iter().filter(|(_, agents, _)| agents.len() > 1);
    let issues = shared.map(|(directory, agents, place)| Issue {
        key: join_key("agents", "list"),
        place,
        problem: Problem::SharedAgentDirectory {
            directory,
            agents: agents.iter().map(ToString::to_string).collect(),
        },
    });
    Ok(issues.collect())
}

/// The main session is always called `main`, whatever the config says: other parts rely on it.
fn force_main_key(root: &mut Node, warnings: &mut Vec<Warning>) {
    let Value::Object(object) = &mut root.value else { return };
    let Some(key) = object.get_mut("session").and_then(|session| match &mut session.value {
        Value::Object(session) => session.get_mut("mainKey"),
        _ => None,
    }) else {
        return;
    };
    let written = key.as_str().map(str::trim).unwrap_or_default();
    if !written.is_empty() && written != "main" {
        warnings.push(Warning::MainKeyIgnored { place: key.place });
    }
    key.value = Value::String("main".to_owned());
}

fn warn_about_agents(root: &Node, warnings: &mut Vec<Warning>) {
    let agents = root.get("agents").and_then(Node::as_object);
    let list = agents.and_then(|agents| agents.get("list"));
    let has_entries = agents.is_some_and(|agents| agents.contains("entries"));
    if has_entries && let Some(list) = list {
        warnings.push(Warning::ListIgnored { place: list.place });
    }
    let marked: Vec<String> = list
        .and_then(Node::as_array)
        .unwrap_or_default()
        .iter()
        .filter(|entry| entry.get("default").and_then(Node::as_bool).unwrap_or(false))
        .filter_map(|entry| entry.get("id").and_then(Node::as_str).map(str::to_owned))
        .collect();
    if marked.len() > 1 {
        warnings.push(Warning::SeveralDefaults { agents: marked });
    }
}

/// Replaces a leading `~` in values whose key says that they are paths. Binds and profiles are not
/// among them: a `~` there is refused instead.
fn expand_homes(node: &mut Node, key: &str, home: &str) {
    match &mut node.value {
        Value::String(text) => {
            if names_path(key) && text.starts_with('~') {
                *text = expand_tilde(text, home);
            }
        }
        Value::Array(items) => {
            let is_list_of_paths = matches!(key, "paths" | "pathPrepend");
            for item in items {
                let key = if is_list_of_paths && item.as_str().is_some() { "path" } else { "" };
                expand_homes(item, key, home);
            }
        }
        Value::Object(object) => expand_members(object, home),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn expand_members(object: &mut Object, home: &str) {
    for member in object.members_mut() {
        expand_homes(&mut member.node, &member.key, home);
    }
}

fn names_path(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    // A security profile is a name as often as a file; it is taken as written.
    !key.ends_with("profile")
        && ["dir", "path", "paths", "file", "root", "workspace"]
            .iter()
            .any(|end| key.ends_with(end))
}

#[cfg(test)]
mod tests;
