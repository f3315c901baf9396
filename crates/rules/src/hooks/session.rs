//! In which session a hook runs.
//!
//! A session that a caller names is one of its own: never a main session, where a person talks, and never one that the
//! gateway keeps for sub-agents, jobs or other programs. Only what stands in the config itself may name those.

use super::{Agents, Hooks, PREFIX, RequestKeys, begins};
use crate::command::is_format;
use crate::config::Config;
use crate::ids::AgentId;
use crate::session::Session;
use crate::session::key::SessionKey;

/// Characters of a key.
const LONGEST: usize = 256;

/// What a call asks for.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    pub agent: Option<&'a str>,
    pub key: Option<(&'a str, KeyFrom)>,
    /// A name that nothing else has, for a session of this call only.
    pub fresh: &'a str,
}

/// Who chose a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyFrom {
    /// The caller.
    Request,
    /// A template with a place in it: the caller, within what the config left open.
    Template,
    /// Whoever wrote the config.
    Config,
}

/// Where a hook runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookSession {
    pub agent: AgentId,
    /// As the store has it: `agent:<id>:<key>`.
    pub key: String,
    named: Named,
}

/// What a session's name says about whose it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Named {
    /// The config chose it, or it begins with [`PREFIX`]: it is there for hooks.
    ForHooks,
    /// The caller chose it, and somebody else may have it.
    ByCaller,
}

/// What the labels begin with of sessions that a hook has begun.
pub const LABEL: &str = "Hook: ";

impl HookSession {
    /// Decides whether a session may be spoken in that is there already, by its label. One that no hook has begun is
    /// somebody's, with what was said there and with whatever limits its owner has set for himself.
    pub fn decide_stored(&self, label: Option<&str>) -> Result<(), SessionRefused> {
        match self.named {
            Named::ForHooks => Ok(()),
            Named::ByCaller if label.is_some_and(|label| label.starts_with(LABEL)) => Ok(()),
            Named::ByCaller => Err(SessionRefused::Taken),
        }
    }
}

/// Why it does not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SessionRefused {
    #[error("there is no agent `{agent}`")]
    NoAgent { agent: AgentId },
    #[error("agentId `{agent}` is not allowed by hooks.allowedAgentIds")]
    AgentNotAllowed { agent: AgentId },
    #[error("sessionKey belongs to the agent `{of}`, and agentId is `{agent}`")]
    OtherAgent { of: AgentId, agent: AgentId },
    #[error(
        "sessionKey is not taken from a request; hooks.allowRequestSessionKey: true would take it"
    )]
    KeyNotTaken,
    #[error("sessionKey must begin with one of: {}", .prefixes.join(", "))]
    Prefix { prefixes: Vec<String> },
    #[error("sessionKey is no session's name")]
    BadKey,
    #[error(
        "sessionKey names a session that no hook may speak in; hooks run in sessions of their own"
    )]
    Reserved,
    #[error(
        "sessionKey names a session that no hook has begun; one that begins with {PREFIX} is always for hooks"
    )]
    Taken,
}

impl Hooks {
    /// Decides in which session a call runs.
    pub fn decide_session(
        &self,
        config: &Config,
        wanted: &Wanted<'_>,
    ) -> Result<HookSession, SessionRefused> {
        let named = wanted.agent.map(str::trim).filter(|id| !id.is_empty());
        let named = named.map(AgentId::normalize);
        let (key, from) = self.key(wanted)?;
        let agent = named.clone().unwrap_or_else(|| config.default_agent());
        let session = Session::of_agent(config, &key, agent);
        let stored = session.store_key();
        if let Some(agent) = named.filter(|agent| agent != session.agent()) {
            return Err(SessionRefused::OtherAgent { of: session.agent().clone(), agent });
        }
        // The run looks the session up by this key alone: it must mean the same there.
        let again = Session::resolve(config, stored.as_str());
        if again.agent() != session.agent() || again.store_key() != stored {
            return Err(SessionRefused::BadKey);
        }
        let agent = session.agent().clone();
        self.check_agent(config, &agent)?;
        match from {
            KeyFrom::Request | KeyFrom::Template => check_own(config, &agent, &stored)?,
            KeyFrom::Config => {}
        }
        let is_hooks = stored.split().is_some_and(|parts| parts.rest.starts_with(PREFIX));
        let named = match from {
            KeyFrom::Request | KeyFrom::Template if !is_hooks => Named::ByCaller,
            KeyFrom::Request | KeyFrom::Template | KeyFrom::Config => Named::ForHooks,
        };
        Ok(HookSession { agent, key: stored.as_str().to_owned(), named })
    }

    /// Decides whether a call wakes the default agent: it runs then as it would by `/agent`.
    pub fn decide_wake(&self, config: &Config) -> Result<(), SessionRefused> {
        self.check_agent(config, &config.default_agent())
    }

    /// The key that is meant, and who chose it.
    fn key(&self, wanted: &Wanted<'_>) -> Result<(String, KeyFrom), SessionRefused> {
        let given = wanted.key.map(|(key, from)| (key.trim(), from));
        let Some((key, from)) = given.filter(|(key, _)| !key.is_empty()) else {
            let own = || format!("{PREFIX}{}", wanted.fresh);
            return Ok((self.default_session.clone().unwrap_or_else(own), KeyFrom::Config));
        };
        if from == KeyFrom::Request && self.request_keys == RequestKeys::Refused {
            return Err(SessionRefused::KeyNotTaken);
        }
        if let Some(prefixes) = self.prefixes.as_ref().filter(|prefixes| !begins(key, prefixes)) {
            return Err(SessionRefused::Prefix { prefixes: prefixes.clone() });
        }
        // What is not seen would make a key look like another one.
        let is_letter = |c: char| !c.is_control() && !c.is_whitespace() && !is_format(c);
        if key.chars().count() > LONGEST || !key.chars().all(is_letter) {
            return Err(SessionRefused::BadKey);
        }
        // What only looks as if it named its agent could be read as another's.
        let is_scoped = key.to_lowercase().starts_with("agent:");
        let parsed = SessionKey::parse(key).ok_or(SessionRefused::BadKey)?;
        if is_scoped && parsed.split().is_none() {
            return Err(SessionRefused::BadKey);
        }
        Ok((key.to_owned(), from))
    }

    fn check_agent(&self, config: &Config, agent: &AgentId) -> Result<(), SessionRefused> {
        let is_known =
            config.default_agent() == *agent || config.agents().iter().any(|(id, _)| id == agent);
        if !is_known {
            return Err(SessionRefused::NoAgent { agent: agent.clone() });
        }
        match &self.agents {
            Agents::Only(ids) if !ids.contains(agent.as_str()) => {
                Err(SessionRefused::AgentNotAllowed { agent: agent.clone() })
            }
            Agents::Only(_) | Agents::Any => Ok(()),
        }
    }
}

/// A session that a caller may choose is nobody else's.
fn check_own(config: &Config, agent: &AgentId, key: &SessionKey) -> Result<(), SessionRefused> {
    let main = Session::of_agent(config, "main", agent.clone());
    let rest = key.split().map_or_else(|| key.as_str().to_owned(), |parts| parts.rest);
    let is_main = *key == main.store_key()
        || *key == *main.main_key()
        || matches!(rest.as_str(), "main" | "global" | "unknown");
    let is_kept = key.is_subagent() || key.is_cron() || key.is_acp();
    if is_main || is_kept { Err(SessionRefused::Reserved) } else { Ok(()) }
}
