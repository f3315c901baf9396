//! Decides whether a sender may leave the sandbox with `exec`.
//!
//! Takes the config, the agent, the channel the message came by and what is known of the sender;
//! returns who matched, or the gates that refused, each with the key that opens it. [`report`] says
//! the same without a sender, for `explain`.
//!
//! Only the sender counts, never the recipient. A plain entry matches what the sender cannot change
//! (id, address, number); a display name matches only where the entry says `name:`, `username:` or
//! `tag:`. Elevated opens no tool that policy has closed, and a list that is absent or empty matches
//! nobody.

pub mod channel;
pub mod level;
mod sender;

pub use channel::Channel;
pub use sender::{Identity, Sender};

use crate::config::Config;
use crate::config::tree::{At, Node};
use crate::ids::AgentId;

/// Whether a sender may leave the sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ElevatedVerdict {
    /// By the entry of the innermost list that matched.
    Allowed(Grant),
    /// By these gates, in the order they are passed.
    Refused(Vec<GateFailure>),
}

/// What let a sender through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// The entry as written.
    pub entry: String,
    /// What of the sender it matched. [`Identity::is_mutable`] ones can be taken over by anyone
    /// who changes their name: worth a warning.
    pub identity: Identity,
}

/// Where a gate is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GateScope {
    Global,
    Agent,
}

/// A gate that refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GateFailure {
    /// Switched off.
    Enabled(GateScope),
    /// Nobody can say which channel the message came by.
    Provider,
    /// The list for this channel does not name the sender.
    AllowFrom(GateScope, String),
}

impl GateFailure {
    /// The gate's name.
    pub const fn gate(&self) -> &'static str {
        match self {
            Self::Enabled(_) => "enabled",
            Self::Provider => "provider",
            Self::AllowFrom(..) => "allowFrom",
        }
    }

    /// The key that opens it.
    pub fn key(&self) -> String {
        match self {
            Self::Enabled(scope) => format!("{}.enabled", scope.section()),
            Self::Provider => "ctx.Provider".to_owned(),
            Self::AllowFrom(scope, channel) => format!("{}.allowFrom.{channel}", scope.section()),
        }
    }
}

impl GateScope {
    const fn section(self) -> &'static str {
        match self {
            Self::Global => "tools.elevated",
            Self::Agent => "agents.list[].tools.elevated",
        }
    }
}

impl ElevatedVerdict {
    /// Says whether elevated is switched on at all.
    pub fn is_enabled(&self) -> bool {
        match self {
            Self::Allowed(_) => true,
            Self::Refused(failures) => is_enabled(failures),
        }
    }

    pub fn failures(&self) -> &[GateFailure] {
        match self {
            Self::Allowed(_) => &[],
            Self::Refused(failures) => failures,
        }
    }
}

/// Decides whether `sender`, who wrote over `provider`, may leave the sandbox of `agent`.
#[must_use]
pub fn decide(
    config: &Config,
    agent: &AgentId,
    provider: &str,
    sender: &Sender,
) -> ElevatedVerdict {
    let gates = Gates::read(config, agent);
    let disabled = gates.disabled();
    if !disabled.is_empty() {
        return ElevatedVerdict::Refused(disabled);
    }
    if provider.is_empty() {
        return ElevatedVerdict::Refused(vec![GateFailure::Provider]);
    }
    let refused =
        |scope| ElevatedVerdict::Refused(vec![GateFailure::AllowFrom(scope, provider.to_owned())]);
    let Some(grant) = sender.find(&gates.global_list(provider)) else {
        return refused(GateScope::Global);
    };
    let Some(list) = gates.agent_list(provider) else { return ElevatedVerdict::Allowed(grant) };
    sender.find(&list).map_or_else(|| refused(GateScope::Agent), ElevatedVerdict::Allowed)
}

/// What the config alone says about elevated, before anyone has written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ElevatedReport {
    pub enabled: bool,
    pub channel: Option<Channel>,
    /// Somebody could be let through on this channel.
    pub allowed_by_config: bool,
    /// Everybody is.
    pub always_allowed_by_config: bool,
    /// The lists for this channel, blanks dropped; present only if the channel is known, the
    /// agent's only if it has `allowFrom`.
    pub allow_from_global: Option<Vec<String>>,
    pub allow_from_agent: Option<Vec<String>>,
    pub failures: Vec<GateFailure>,
}

/// Reports the gates without a sender.
#[must_use]
pub fn report(config: &Config, agent: &AgentId, channel: Option<Channel>) -> ElevatedReport {
    let gates = Gates::read(config, agent);
    let mut failures = gates.disabled();
    let enabled = failures.is_empty();
    let Some(channel) = channel else {
        return ElevatedReport {
            enabled,
            channel: None,
            allowed_by_config: false,
            always_allowed_by_config: false,
            allow_from_global: None,
            allow_from_agent: None,
            failures,
        };
    };
    let global = gates.global_list(channel.as_str());
    let agent = gates.agent_list(channel.as_str());
    for (scope, list) in [(GateScope::Global, Some(&global)), (GateScope::Agent, agent.as_ref())] {
        if list.is_some_and(Vec::is_empty) {
            failures.push(GateFailure::AllowFrom(scope, channel.as_str().to_owned()));
        }
    }
    let everyone = |list: &Vec<String>| list.iter().any(|entry| entry == sender::ANYONE);
    ElevatedReport {
        enabled,
        allowed_by_config: failures.is_empty(),
        always_allowed_by_config: enabled
            && everyone(&global)
            && agent.as_ref().is_none_or(everyone),
        allow_from_global: Some(global),
        allow_from_agent: agent,
        failures,
        channel: Some(channel),
    }
}

fn is_enabled(failures: &[GateFailure]) -> bool {
    !failures.iter().any(|failure| match failure {
        GateFailure::Enabled(_) => true,
        GateFailure::Provider | GateFailure::AllowFrom(..) => false,
    })
}

/// The two sections that hold gates.
struct Gates<'a> {
    global: Option<At<'a>>,
    agent: Option<At<'a>>,
}

impl<'a> Gates<'a> {
    fn read(config: &'a Config, agent: &AgentId) -> Self {
        let agent = config.agent(agent);
        Self {
            global: config.at(&["tools", "elevated"]),
            agent: agent.and_then(|entry| entry.path(&["tools", "elevated"])),
        }
    }

    /// The gates that are switched off. Unset counts as on: the lists are what opens elevated.
    fn disabled(&self) -> Vec<GateFailure> {
        [(GateScope::Global, &self.global), (GateScope::Agent, &self.agent)]
            .into_iter()
            .filter(|(_, section)| section.as_ref().is_some_and(is_off))
            .map(|(scope, _)| GateFailure::Enabled(scope))
            .collect()
    }

    fn global_list(&self, channel: &str) -> Vec<String> {
        let lists = self.global.as_ref().and_then(|section| section.get("allowFrom"));
        lists.map(|lists| entries(&lists, channel)).unwrap_or_default()
    }

    /// `None` if the agent leaves the question to the global list.
    fn agent_list(&self, channel: &str) -> Option<Vec<String>> {
        let lists = self.agent.as_ref()?.get("allowFrom")?;
        Some(entries(&lists, channel))
    }
}

/// Anything but a plain `true` switches off: a gate that cannot be read stays shut.
fn is_off(section: &At<'_>) -> bool {
    use crate::config::tree::Value;
    section.node.get("enabled").is_some_and(|node| match &node.value {
        Value::Null | Value::Bool(true) => false,
        Value::Bool(false)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)
        | Value::Object(_) => true,
    })
}

/// The entries of one channel's list, trimmed; blanks are dropped. Ids may be written as numbers.
fn entries(lists: &At<'_>, channel: &str) -> Vec<String> {
    let Some(list) = lists.get(channel) else { return Vec::new() };
    let text = |node: &Node| match node.as_number() {
        Some(number) => Some(number.to_string()),
        None => node.as_str().map(|text| text.trim().to_owned()),
    };
    let items = list.node.as_array().unwrap_or_default();
    items.iter().filter_map(text).filter(|entry| !entry.is_empty()).collect()
}

#[cfg(test)]
mod tests;
