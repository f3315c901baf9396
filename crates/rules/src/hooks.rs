//! The webhooks of the gateway (`hooks`): which paths there are, what a call becomes, and in which session it runs.
//!
//! ```text
//! config ─► Hooks, or why the gateway must not start
//! path ─► route: elsewhere, nothing, or a name ─► mapping by path and source ─► template: text out of the payload
//! agent and key of a call ─► session: agent:<id>:<key>, or why not
//! ```
//!
//! Whoever calls a hook knows one token and nothing else: he speaks for no person, reaches no session that a person
//! talks in, and what he sends is material for a model, never an order. Nothing is compared, read or run here.

mod mapping;
pub mod session;
pub mod template;

use std::collections::BTreeSet;
use std::fmt;

use crate::config::Config;
use crate::config::tree::{At, Node};
use crate::ids::AgentId;
use crate::js_number;
pub use mapping::{Action, Content, Mapping, Mode};

/// The path, if the config names no other.
const DEFAULT_PATH: &str = "/hooks";
const DEFAULT_BYTES: usize = 256 * 1024;
/// What one request may carry over HTTP.
const MOST_BYTES: usize = 2 * 1024 * 1024;
/// What every generated session begins with.
pub const PREFIX: &str = "hook:";
/// First words of paths that the gateway itself answers.
const TAKEN: &[&str] = &[
    "health", "healthz", "ready", "readyz", "metrics", "tools", "sessions", "v1", "api", "avatar",
    "mcp",
];

/// The hooks of a gateway.
#[derive(Clone, PartialEq, Eq)]
pub struct Hooks {
    /// Begins with a stroke and does not end with one.
    pub path: String,
    pub token: String,
    pub most_bytes: usize,
    pub agents: Agents,
    pub default_session: Option<String>,
    pub request_keys: RequestKeys,
    /// In lower case; none means that any key will do.
    pub prefixes: Option<Vec<String>>,
    pub mappings: Vec<Mapping>,
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hooks").field("path", &self.path).finish_non_exhaustive()
    }
}

/// Which agents hooks may run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Agents {
    Any,
    Only(BTreeSet<String>),
}

/// Whether a call may name its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestKeys {
    Refused,
    /// `hooks.allowRequestSessionKey`.
    Taken,
}

/// Why the gateway does not start with these hooks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HooksRefused {
    #[error(
        "`hooks.enabled` is true, and `hooks.token` is missing; write a token that nothing else uses"
    )]
    NoToken,
    #[error(
        "`hooks.token` is the gateway's own secret; whoever calls a hook would hold it: write another"
    )]
    TokenIsGateways,
    #[error("`hooks.path` is `{path}`, {why}; write one like `/hooks`")]
    Path { path: String, why: &'static str },
    #[error("`{key}` is not part of this build; take it out, or switch `hooks.enabled` off")]
    NotBuilt { key: String },
    #[error("`{key}`: {why}")]
    Wrong { key: String, why: &'static str },
    #[error("`hooks.maxBodyBytes` is more than the {MOST_BYTES} bytes that a request may have")]
    TooMuch,
    #[error("`hooks.defaultSessionKey` begins with none of `hooks.allowedSessionKeyPrefixes`")]
    DefaultSession,
    #[error(
        "`hooks.allowedSessionKeyPrefixes` must hold `{PREFIX}` as long as `hooks.defaultSessionKey` is not set"
    )]
    NoHookPrefix,
}

/// Reads the hooks of a config; `None` if they are off.
pub fn resolve(config: &Config) -> Result<Option<Hooks>, HooksRefused> {
    let Some(at) = config.at(&["hooks"]) else { return Ok(None) };
    if at.node.get("enabled").and_then(Node::as_bool) != Some(true) {
        return Ok(None);
    }
    for key in ["transformsDir", "gmail"] {
        if let Some(at) = at.get(key) {
            return Err(HooksRefused::NotBuilt { key: at.key });
        }
    }
    let token = text(&at, "token").ok_or(HooksRefused::NoToken)?;
    let prefixes = prefixes(&at);
    let default_session = text(&at, "defaultSessionKey");
    if let Some(prefixes) = &prefixes {
        match &default_session {
            Some(key) if !begins(key, prefixes) => return Err(HooksRefused::DefaultSession),
            None if !begins(PREFIX, prefixes) => return Err(HooksRefused::NoHookPrefix),
            Some(_) | None => {}
        }
    }
    let takes_keys = at.node.get("allowRequestSessionKey").and_then(Node::as_bool) == Some(true);
    Ok(Some(Hooks {
        path: path(&at)?,
        token,
        most_bytes: most_bytes(&at)?,
        agents: agents(&at),
        default_session,
        request_keys: if takes_keys { RequestKeys::Taken } else { RequestKeys::Refused },
        prefixes,
        mappings: mapping::read(&at)?,
    }))
}

/// A text that is not blank.
fn text(at: &At<'_>, key: &str) -> Option<String> {
    let text = at.node.get(key)?.as_str()?.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

fn path(at: &At<'_>) -> Result<String, HooksRefused> {
    let written = text(at, "path").unwrap_or_else(|| DEFAULT_PATH.to_owned());
    let path = format!("/{}", written.trim_matches('/'));
    let refused = |why| Err(HooksRefused::Path { path: written.clone(), why });
    if path == "/" {
        return refused("which is the gateway's own page");
    }
    // What is written and what is asked for must be the same letters.
    if !path.split('/').skip(1).all(is_plain) {
        return refused("which is no plain path");
    }
    let first = path.split('/').nth(1).unwrap_or_default();
    if TAKEN.contains(&first) || first.starts_with("__openclaw") {
        return refused("which the gateway answers itself");
    }
    Ok(path)
}

/// A part of a path that means itself and nothing else.
fn is_plain(part: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || "-_.~".contains(c);
    !part.is_empty() && !matches!(part, "." | "..") && part.chars().all(is_letter)
}

fn most_bytes(at: &At<'_>) -> Result<usize, HooksRefused> {
    let written = at.node.get("maxBodyBytes").and_then(Node::as_number);
    match written.filter(|number| *number > 0.0) {
        None => Ok(DEFAULT_BYTES),
        Some(number) => {
            let whole: Option<usize> = js_number::whole(number);
            whole.filter(|bytes| *bytes <= MOST_BYTES).ok_or(HooksRefused::TooMuch)
        }
    }
}

fn agents(at: &At<'_>) -> Agents {
    let Some(list) = at.get("allowedAgentIds").and_then(|at| at.strings()) else {
        return Agents::Any;
    };
    if list.iter().any(|id| id.trim() == "*") {
        return Agents::Any;
    }
    let named = list.iter().filter(|id| !id.trim().is_empty());
    Agents::Only(named.map(|id| AgentId::normalize(id).as_str().to_owned()).collect())
}

fn prefixes(at: &At<'_>) -> Option<Vec<String>> {
    let list = at.get("allowedSessionKeyPrefixes").and_then(|at| at.strings())?;
    let list = list.iter().map(|prefix| prefix.trim().to_lowercase());
    let list: Vec<String> = list.filter(|prefix| !prefix.is_empty()).collect();
    (!list.is_empty()).then_some(list)
}

fn begins(key: &str, prefixes: &[String]) -> bool {
    let key = key.trim().to_lowercase();
    prefixes.iter().any(|prefix| key.starts_with(prefix.as_str()))
}

/// Where a path leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route<'a> {
    /// It is no hook's.
    Elsewhere,
    /// A hook's, and no hook has such a name.
    Nothing,
    Wake,
    Agent,
    Mapped(&'a str),
}

impl Hooks {
    /// Says where a path leads, as it came: nothing is decoded and nothing is put right.
    pub fn route<'a>(&self, path: &'a str) -> Route<'a> {
        let Some(rest) = path.strip_prefix(self.path.as_str()) else { return Route::Elsewhere };
        let name = match rest.strip_prefix('/') {
            Some(name) => name,
            None if rest.is_empty() => return Route::Nothing,
            None => return Route::Elsewhere,
        };
        match name {
            "wake" => Route::Wake,
            "agent" => Route::Agent,
            name if name.split('/').all(is_plain) => Route::Mapped(name),
            _ => Route::Nothing,
        }
    }

    /// The first mapping for a name and for what the payload calls its source.
    pub fn mapping(&self, name: &str, source: Option<&str>) -> Option<&Mapping> {
        self.mappings.iter().find(|mapping| mapping.matches(name, source))
    }
}

#[cfg(test)]
mod tests;
