//! The tool policy of sandboxed sessions: `tools.sandbox.tools` and the agent's own.
//!
//! Each of the three lists comes from the agent if it writes one, else from the global section;
//! they are never merged across the two. What `explain` prints and what the evaluator enforces is
//! this one value.

use std::collections::HashSet;

use super::catalogue::CHANNELS;
use super::list::{self, List, Named, Side, Written};
use super::name::Subject;
use super::section::{Section, union};
use super::warning::{Problem, Warning};
use crate::config::Config;
use crate::config::setting::{Layer, Origin};
use crate::ids::AgentId;

/// What a sandboxed session may use when no list says otherwise.
const DEFAULT_ALLOW: &[&str] = &[
    "exec",
    "process",
    "read",
    "write",
    "edit",
    "apply_patch",
    "image",
    "sessions_list",
    "sessions_history",
    "sessions_send",
    "sessions_spawn",
    "sessions_yield",
    "subagents",
    "session_status",
];

/// What it may not: these reach the host, other devices or the gateway itself. The channels' own
/// tools are added to it.
const DEFAULT_DENY: &[&str] = &["browser", "canvas", "nodes", "cron", "gateway"];

/// Comes with every allow list that does not mention it, because the model needs it to look at
/// files it was sent.
const ALWAYS_OFFERED: &str = "image";

const GLOBAL: &[&str] = &["tools", "sandbox", "tools"];

/// The resolved policy, with where each list comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxPolicy {
    /// Expanded names and patterns; empty means everything that is not denied. A name comes once
    /// for every entry that stands for it.
    pub allow: Vec<Named>,
    pub deny: Vec<Named>,
    pub allow_source: ListSource,
    pub deny_source: ListSource,
    /// The key that one more entry must go to, so that a tool is let in.
    pub(super) add_key: String,
    pub(super) warnings: Vec<Warning>,
}

/// Which scope a list comes from, and the key to change it, in the reference's spelling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListSource {
    pub scope: SourceScope,
    pub key: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceScope {
    Agent,
    Global,
    Default,
}

impl SourceScope {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Global => "global",
            Self::Default => "default",
        }
    }
}

const AGENT_ALLOW: &str = "agents.list[].tools.sandbox.tools.allow";
const AGENT_ALSO_ALLOW: &str = "agents.list[].tools.sandbox.tools.alsoAllow";
const AGENT_DENY: &str = "agents.list[].tools.sandbox.tools.deny";
const GLOBAL_ALLOW: &str = "tools.sandbox.tools.allow";
const GLOBAL_ALSO_ALLOW: &str = "tools.sandbox.tools.alsoAllow";
const GLOBAL_DENY: &str = "tools.sandbox.tools.deny";

impl SandboxPolicy {
    /// Resolves the policy for the sessions of one agent.
    pub fn resolve(config: &Config, agent: &AgentId) -> Self {
        let global = config.at(GLOBAL).map(|at| Section::read(Layer::Defaults, &at));
        let agent = config
            .agent(agent)
            .and_then(|entry| entry.path(&["tools", "sandbox", "tools"]))
            .map(|at| Section::read(Layer::Agent, &at));
        let scopes =
            Scopes { agent: agent.unwrap_or_default(), global: global.unwrap_or_default() };
        scopes.resolve()
    }

    /// The allow list without repeats, as `explain` prints it.
    pub fn allow_names(&self) -> Vec<&str> {
        distinct(&self.allow)
    }

    /// The deny list without repeats.
    pub fn deny_names(&self) -> Vec<&str> {
        distinct(&self.deny)
    }

    /// Where the allow list is written; a built-in one names the key that would replace it.
    pub(super) fn allow_origin(&self) -> Origin {
        let written = self.allow.iter().map(|named| &named.written.origin);
        let mut written = written.filter(|origin| origin.place.is_some());
        written.next().cloned().unwrap_or_else(|| Origin::built_in(self.allow_source.key))
    }
}

fn distinct(list: &[Named]) -> Vec<&str> {
    let mut seen = HashSet::new();
    let names = list.iter().map(|named| named.name.as_str());
    names.filter(|name| seen.insert(*name)).collect()
}

/// The section of the agent and the global one; an absent section has no lists.
struct Scopes {
    agent: Section,
    global: Section,
}

impl Scopes {
    fn resolve(&self) -> SandboxPolicy {
        let allow = self.agent.allow.as_ref().or(self.global.allow.as_ref());
        let also_allow = self.agent.also_allow.as_ref().or(self.global.also_allow.as_ref());
        let extra = also_allow.map_or(&[] as &[Written], Vec::as_slice);
        let explicit = union(allow.map_or(&[], Vec::as_slice), extra);
        let allowed = match allow.map(Vec::as_slice) {
            Some([]) => Vec::new(),
            Some(allow) => union(allow, extra),
            None => union(&Written::built_in(DEFAULT_ALLOW, GLOBAL_ALLOW), extra),
        };
        let mut warnings = Vec::new();
        let denied = match self.agent.deny.as_ref().or(self.global.deny.as_ref()) {
            Some(deny) => deny.clone(),
            None => default_denies(&explicit, &mut warnings),
        };
        let mut allow = list::expand_written(&allowed);
        let deny = list::expand_written(&denied);
        let names_image = |list: &[Named]| list.iter().any(|named| named.name == ALWAYS_OFFERED);
        if !allow.is_empty() && !names_image(&allow) && !names_image(&deny) {
            let written = Written::built_in(&[ALWAYS_OFFERED], GLOBAL_DENY);
            allow.extend(list::expand_written(&written));
        }
        SandboxPolicy {
            allow,
            deny,
            allow_source: self.allow_source(),
            deny_source: self.deny_source(),
            add_key: self.add_key(),
            warnings,
        }
    }

    fn allow_source(&self) -> ListSource {
        let candidates = [
            (self.agent.allow.is_some(), SourceScope::Agent, AGENT_ALLOW),
            (self.agent.also_allow.is_some(), SourceScope::Agent, AGENT_ALSO_ALLOW),
            (self.global.allow.is_some(), SourceScope::Global, GLOBAL_ALLOW),
            (self.global.also_allow.is_some(), SourceScope::Global, GLOBAL_ALSO_ALLOW),
            (true, SourceScope::Default, GLOBAL_ALLOW),
        ];
        first_source(&candidates)
    }

    fn deny_source(&self) -> ListSource {
        let candidates = [
            (self.agent.deny.is_some(), SourceScope::Agent, AGENT_DENY),
            (self.global.deny.is_some(), SourceScope::Global, GLOBAL_DENY),
            (true, SourceScope::Default, GLOBAL_DENY),
        ];
        first_source(&candidates)
    }

    /// Where one more entry lets a tool in without shutting another out: the allow list in force if
    /// it has entries, else `alsoAllow`, in a scope that may have one (a scope with allow entries
    /// may not) and that does not hide the `alsoAllow` in force.
    fn add_key(&self) -> String {
        let in_force = if self.agent.allow.is_some() {
            Some(&self.agent)
        } else {
            self.global.allow.is_some().then_some(&self.global)
        };
        if let Some(scope) = in_force.filter(|scope| scope.has_allow_entries()) {
            return format!("{}.allow", scope.key);
        }
        let extra = [&self.agent, &self.global];
        let extra = extra.into_iter().find(|scope| scope.also_allow.is_some());
        let extra = extra.filter(|scope| !scope.has_allow_entries());
        match extra.or(in_force) {
            Some(scope) => format!("{}.alsoAllow", scope.key),
            None => GLOBAL_ALSO_ALLOW.to_owned(),
        }
    }
}

fn first_source(candidates: &[(bool, SourceScope, &'static str)]) -> ListSource {
    let found = candidates.iter().find(|(is_written, _, _)| *is_written);
    found.map_or(ListSource { scope: SourceScope::Default, key: GLOBAL_ALLOW }, |source| {
        ListSource { scope: source.1, key: source.2 }
    })
}

/// The default denies, less what an explicit allow entry names.
fn default_denies(explicit: &[Written], warnings: &mut Vec<Warning>) -> Vec<Written> {
    let names: Vec<&str> = DEFAULT_DENY.iter().chain(CHANNELS).copied().collect();
    let allowed = List::compile(Side::Allow, explicit);
    for entry in allowed.entries().iter().filter(|entry| entry.is_pattern()) {
        let lifts = |name: &&&str| entry.matches(Subject::core(name));
        let lifted: Vec<String> = names.iter().filter(lifts).map(|&name| name.to_owned()).collect();
        if !lifted.is_empty() {
            warnings.push(Warning {
                origin: entry.origin.clone(),
                entry: entry.text.clone(),
                problem: Problem::LiftsDefaultDenies { lifted },
            });
        }
    }
    let is_kept = |name: &&str| allowed.matching(Subject::core(name)).is_none();
    let kept: Vec<&str> = names.iter().copied().filter(is_kept).collect();
    Written::built_in(&kept, GLOBAL_DENY)
}
