//! Says which agent a session belongs to, whether it is that agent's main one, and whether it runs
//! in a sandbox.
//!
//! Takes the config and a session's name; gives a [`Session`], and [`decide`] gives its
//! [`Placement`] with the reason. Doors, `explain` and the engine all ask here, so they cannot
//! disagree.
//!
//! Names are read leniently, but the main session is recognised only in its exact spelling:
//! `agent:main:MAIN` is somebody's session, not the main one. In mode `non-main` the other mistake
//! would run a session on the host that should not be there. For the same reason a call without
//! any session is never the main one.

pub mod key;
pub mod peer;

use std::fmt;

use crate::config::Config;
use crate::config::sandbox::SandboxMode;
use crate::config::tree::Node;
use crate::ids::{AgentId, trim};
use key::SessionKey;

/// A session that the config has been asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    key: Option<SessionKey>,
    canonical: Option<SessionKey>,
    agent: AgentId,
    main: SessionKey,
    main_name: String,
}

/// What the modes tell apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SessionKind {
    Main,
    Other,
}

/// Where a session's tools run, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Placement {
    /// On the host.
    Direct(DirectReason),
    Sandboxed(SandboxedReason),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DirectReason {
    ModeIsOff,
    /// The mode is `non-main` and the session's canonical key is `main`.
    IsMain {
        main: SessionKey,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SandboxedReason {
    ModeIsAll,
    /// The mode is `non-main` and the session's canonical key differs from `main`.
    IsNotMain {
        compared: SessionKey,
        main: SessionKey,
    },
    /// The mode is `non-main` and the call came without a session.
    HasNoSession {
        main: SessionKey,
    },
}

/// Decides whether a session runs in a sandbox.
#[must_use]
pub fn decide(mode: SandboxMode, session: &Session) -> Placement {
    let main = session.main.clone();
    match (mode, session.kind()) {
        (SandboxMode::Off, SessionKind::Main | SessionKind::Other) => {
            Placement::Direct(DirectReason::ModeIsOff)
        }
        (SandboxMode::All, SessionKind::Main | SessionKind::Other) => {
            Placement::Sandboxed(SandboxedReason::ModeIsAll)
        }
        (SandboxMode::NonMain, SessionKind::Main) => {
            Placement::Direct(DirectReason::IsMain { main })
        }
        (SandboxMode::NonMain, SessionKind::Other) => {
            Placement::Sandboxed(match session.canonical.clone() {
                Some(compared) => SandboxedReason::IsNotMain { compared, main },
                None => SandboxedReason::HasNoSession { main },
            })
        }
    }
}

impl Session {
    /// Finds a session by name. A name without an agent belongs to the default agent; a blank one
    /// is a call without a session.
    pub fn resolve(config: &Config, key: &str) -> Self {
        Self::of_agent(config, key, config.default_agent())
    }

    /// Like [`Session::resolve`], but a name without an agent belongs to `agent`.
    pub fn of_agent(config: &Config, key: &str, agent: AgentId) -> Self {
        let key = SessionKey::parse(key);
        let agent = key.as_ref().and_then(SessionKey::agent).unwrap_or(agent);
        let main = main_key(config, &agent);
        let main_name = configured_main_name(config);
        let canonical = key
            .clone()
            .map(|key| if is_main_alias(&key, &agent, &main_name) { main.clone() } else { key });
        Self { key, canonical, agent, main, main_name }
    }

    /// The name as it was given, trimmed; `None` for a call without a session.
    pub fn key(&self) -> Option<&SessionKey> {
        self.key.as_ref()
    }

    /// The name after aliases: every spelling that means the main session gives the main key.
    pub fn canonical_key(&self) -> Option<&SessionKey> {
        self.canonical.as_ref()
    }

    pub fn agent(&self) -> &AgentId {
        &self.agent
    }

    /// The main session that this one is compared with: the agent's, or `global` if all agents
    /// share one.
    pub fn main_key(&self) -> &SessionKey {
        &self.main
    }

    pub fn kind(&self) -> SessionKind {
        if self.canonical.as_ref() == Some(&self.main) {
            SessionKind::Main
        } else {
            SessionKind::Other
        }
    }

    /// The key under which the session's record is stored: lower case, with its agent. A call
    /// without a session is stored with the main one.
    pub fn store_key(&self) -> SessionKey {
        let main = || SessionKey::of_agent(&self.agent, &self.main_name);
        let Some(key) = &self.key else { return main() };
        let lower = key.as_str().to_lowercase();
        if lower == MAIN {
            return main();
        }
        let stored = match key.split() {
            Some(parts) => format!("agent:{}:{}", parts.segment, parts.rest),
            None if lower.starts_with("agent:") => lower,
            None => return SessionKey::of_agent(&self.agent, &lower),
        };
        SessionKey::parse(&stored).unwrap_or_else(main)
    }
}

impl Placement {
    pub const fn is_sandboxed(&self) -> bool {
        match self {
            Self::Direct(_) => false,
            Self::Sandboxed(_) => true,
        }
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Direct(reason) => write!(f, "on the host: {reason}"),
            Self::Sandboxed(reason) => write!(f, "in a sandbox: {reason}"),
        }
    }
}

impl fmt::Display for DirectReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ModeIsOff => f.write_str("mode `off` sandboxes nothing"),
            Self::IsMain { main } => {
                write!(f, "mode `non-main` leaves the main session `{main}` out")
            }
        }
    }
}

impl fmt::Display for SandboxedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ModeIsAll => f.write_str("mode `all` sandboxes every session"),
            Self::IsNotMain { compared, main } => {
                write!(f, "mode `non-main` covers `{compared}`, which is not `{main}`")
            }
            Self::HasNoSession { main } => {
                write!(f, "mode `non-main` leaves only `{main}` out, and no session was named")
            }
        }
    }
}

/// What `explain` was asked about: `--agent` and `--session`, as typed. Blank is the same as absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ExplainFlags<'a> {
    pub agent: Option<&'a str>,
    pub session: Option<&'a str>,
}

/// `--agent` and `--session` name different agents.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`--agent {flag}` and `--session {session}` name different agents: the session belongs to \
     `{owner}`; leave one of them out"
)]
pub struct AgentMismatch {
    pub flag: AgentId,
    pub session: SessionKey,
    pub owner: AgentId,
}

/// Finds the session that `explain` is asked about.
///
/// Without `--session`, or with `main`, it is the agent's main session. `global` is `global`, and a bare
/// name is that session of the agent. A text with a colon is a key as it stands; one without an agent is the
/// default agent's, and becomes its own session of any other agent that is named: two agents never share
/// one by its name. An agent that the config does not list is no error: it runs with the defaults, and that
/// is the answer.
pub fn resolve_for_explain(
    config: &Config,
    flags: ExplainFlags<'_>,
) -> Result<Session, AgentMismatch> {
    let asked = flags.session.and_then(SessionKey::parse);
    let flag = flags.agent.filter(|text| !trim(text).is_empty()).map(AgentId::normalize);
    let named = asked.as_ref().and_then(|key| Some((key.clone(), key.agent()?)));
    let agent = match (flag, named) {
        (Some(flag), Some((session, owner))) if flag != owner => {
            return Err(AgentMismatch { flag, session, owner });
        }
        (Some(agent), _) | (None, Some((_, agent))) => agent,
        (None, None) => config.default_agent(),
    };
    let is_foreign = agent != config.default_agent();
    let key = match asked {
        None => main_key(config, &agent),
        Some(key) if key == SessionKey::global() => key,
        Some(key) if key.as_str().contains(':') && key.agent().is_none() && is_foreign => {
            SessionKey::of_agent(&agent, key.as_str())
        }
        Some(key) if key.as_str().contains(':') => key,
        Some(key) => match key.as_str().to_lowercase().as_str() {
            MAIN => main_key(config, &agent),
            name => SessionKey::of_agent(&agent, name),
        },
    };
    Ok(Session::of_agent(config, key.as_str(), agent))
}

/// The name of the main session, unless `session.mainKey` gives another.
const MAIN: &str = "main";

/// `session.mainKey` in normal form. The loader resets it to `main` and says so; what reaches us
/// otherwise still counts.
fn configured_main_name(config: &Config) -> String {
    let written = config.at(&["session", "mainKey"]);
    main_name(written.as_ref().and_then(|at| at.node.as_str()).unwrap_or_default())
}

fn main_name(written: &str) -> String {
    match trim(written) {
        "" => MAIN.to_owned(),
        name => name.to_lowercase(),
    }
}

/// The main session of an agent.
fn main_key(config: &Config, agent: &AgentId) -> SessionKey {
    let scope = config.at(&["session", "scope"]);
    if scope.as_ref().map(|at| at.node).and_then(Node::as_str) == Some("global") {
        return SessionKey::global();
    }
    SessionKey::of_agent(agent, &configured_main_name(config))
}

/// Says whether a key means the agent's main session. Exact spelling: see the top of this file.
fn is_main_alias(key: &SessionKey, agent: &AgentId, main_name: &str) -> bool {
    let full = |name: &str| SessionKey::of_agent(agent, name);
    [MAIN, main_name].iter().any(|name| key.as_str() == *name || *key == full(name))
}

#[cfg(test)]
mod tests;
