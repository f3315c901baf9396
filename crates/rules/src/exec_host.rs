//! Decides where `exec` runs, and under which policy if that is a host.
//!
//! Takes what config, session, message and the call itself wish for, what the approvals file says,
//! whether elevated is in force and whether the session has a sandbox; returns an [`ExecDecision`]
//! in which every value names who set it.
//!
//! ```text
//! base  = message, else session, else the agent's config, else the global config, else built in
//! call  = the stricter of base and request
//! host  = the stricter of call and approvals file          (gateway and node only)
//! ```
//!
//! Nobody reaches the host by leaving something out: an unset host is the sandbox if the session
//! must be in one, and otherwise the gateway with the whole approval path. A request can tighten and
//! never loosen. An approvals file that could not be read refuses every host.

mod base;
pub mod source;
pub mod values;

pub use base::{Unreadable, Wishes};
pub use source::{Chosen, Source};
pub use values::{Ask, ExecHost, HostWish, Security};

use std::fmt;

use crate::approval::file::{FilePolicy, FileRefused};
use crate::config::Config;
use crate::elevated::level::Elevation;
use crate::ids::AgentId;
use base::Base;

/// Whether the session has a sandbox to run in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionSandbox {
    /// [`crate::session::decide`] says it must be in one.
    Required,
    /// Its tools run on the host.
    None,
}

/// Everything the decision rests on.
#[derive(Debug, Clone, Copy)]
pub struct Situation<'a> {
    pub config: &'a Config,
    pub agent: &'a AgentId,
    pub sandbox: SessionSandbox,
    /// What the message before this call set (`/exec …`).
    pub message: Wishes,
    /// What the session's record holds.
    pub session: Wishes,
    /// The call's own parameters.
    pub request: Wishes,
    pub elevation: &'a Elevation,
    /// What the approvals file says to this agent, or why it says nothing that can be trusted.
    pub approvals: Result<&'a FilePolicy, &'a FileRefused>,
}

/// Where a command goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExecDecision {
    /// Into the session's sandbox.
    Sandbox(SandboxExec),
    /// To the gateway's machine, through [`crate::approval::decide`].
    Gateway(HostExec),
    Refused(ExecRefusal),
}

/// A command that stays inside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxExec {
    why: HostReason,
}

/// A command that goes to a host, with the policy in force there. Made by [`decide`] only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostExec {
    why: HostReason,
    security: Chosen<Security>,
    ask: Chosen<Ask>,
    ask_fallback: Chosen<Security>,
    prompts: Prompts,
    warnings: Vec<Warning>,
}

/// Why a host was chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostReason {
    /// Somebody named it.
    Named(Source),
    /// Nobody did, and the session has a sandbox.
    HasSandbox,
    /// Nobody did, and the session has none.
    HasNoSandbox,
    /// A person let the session out.
    Elevated,
}

/// Whether suspicious text is asked about when policy would just run it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prompts {
    Ask,
    /// Elevated `full`, and config and approvals file say `full` and `off` by themselves.
    Skip,
}

/// Why a command runs nowhere.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExecRefusal {
    #[error("nothing may run: host={host} security=deny (set by {by})")]
    Denied { host: ExecHost, by: Source },
    #[error(
        "the call asks for host={asked}, but host={base} is in force (set by {by}); leave \
         the parameter out, or change that setting"
    )]
    OtherHost { asked: HostWish, base: HostWish, by: Source },
    #[error(
        "the call asks for host={asked}, but this session runs in a sandbox; only `tools.exec.host` \
         or `/elevated` lead out of it"
    )]
    LeavesSandbox { asked: HostWish },
    #[error(
        "host=sandbox is asked for (by {by}), but this session has no sandbox; set \
         `agents.defaults.sandbox.mode`, or leave the host unset"
    )]
    NoSandbox { by: Source },
    #[error("host=node is chosen (by {by}), and this build has no nodes; use sandbox or gateway")]
    Node { by: Source },
    #[error("the approvals file cannot be used, so nothing runs on host={host}: {problem}")]
    Approvals { host: ExecHost, problem: FileRefused },
    #[error("`{}` says `{}`, which is none of {}; nothing runs until it is mended", .0.key, .0.text, .0.known)]
    Unreadable(Unreadable),
}

/// What a person should know about a policy that is nevertheless in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Warning {
    /// The session or message is laxer than the config it replaces.
    Loosened { what: &'static str, from: String, to: String, by: Source },
    /// File tools stay in the sandbox, exec does not.
    OutsideSandbox { by: Source },
    /// Somebody asked for a host that elevated overrides.
    Overridden { wish: HostWish, by: Source },
}

/// Decides where a command goes.
#[must_use]
pub fn decide(situation: &Situation<'_>) -> ExecDecision {
    let base = match Base::read(situation) {
        Ok(base) => base,
        Err(unreadable) => return ExecDecision::Refused(ExecRefusal::Unreadable(unreadable)),
    };
    let (host, why) = match choose_host(situation, &base) {
        Ok(chosen) => chosen,
        Err(refusal) => return ExecDecision::Refused(refusal),
    };
    if host == ExecHost::Sandbox {
        return ExecDecision::Sandbox(SandboxExec { why });
    }
    let file = match situation.approvals {
        Ok(file) => file,
        Err(problem) => {
            let problem = problem.clone();
            return ExecDecision::Refused(ExecRefusal::Approvals { host, problem });
        }
    };
    let exec = combine(situation, base, file, why);
    if exec.security.value == Security::Deny {
        let by = exec.security.source;
        return ExecDecision::Refused(ExecRefusal::Denied { host, by });
    }
    match host {
        ExecHost::Gateway => ExecDecision::Gateway(exec),
        // Decided like any host, so that the policy is known; then there is nothing to run it on.
        ExecHost::Node | ExecHost::Sandbox => {
            let by = match exec.why {
                HostReason::Named(by) => by,
                HostReason::HasSandbox | HostReason::HasNoSandbox | HostReason::Elevated => {
                    Source::BuiltIn("tools.exec.host")
                }
            };
            ExecDecision::Refused(ExecRefusal::Node { by })
        }
    }
}

/// Picks the host, and says who picked it.
fn choose_host(
    situation: &Situation<'_>,
    base: &Base,
) -> Result<(ExecHost, HostReason), ExecRefusal> {
    match situation.elevation {
        Elevation::Ask { .. } | Elevation::Full { .. } => {
            return Ok((ExecHost::Gateway, HostReason::Elevated));
        }
        Elevation::Off => {}
    }
    let asked = situation.request.host.filter(|asked| *asked != base.host.value);
    if let Some(asked) = asked {
        match (base.host.value, asked, situation.sandbox) {
            // Asking for `auto` is asking for nothing.
            (_, HostWish::Auto, _) => {}
            (HostWish::Auto, HostWish::Gateway | HostWish::Node, SessionSandbox::Required) => {
                return Err(ExecRefusal::LeavesSandbox { asked });
            }
            (HostWish::Auto, _, _) => return named(asked, Source::Request, situation.sandbox),
            (HostWish::Sandbox | HostWish::Gateway | HostWish::Node, _, _) => {
                let by = base.host.source.clone();
                return Err(ExecRefusal::OtherHost { asked, base: base.host.value, by });
            }
        }
    }
    named(base.host.value, base.host.source.clone(), situation.sandbox)
}

fn named(
    wish: HostWish,
    source: Source,
    sandbox: SessionSandbox,
) -> Result<(ExecHost, HostReason), ExecRefusal> {
    match (wish, sandbox) {
        (HostWish::Auto, SessionSandbox::Required) => {
            Ok((ExecHost::Sandbox, HostReason::HasSandbox))
        }
        (HostWish::Auto, SessionSandbox::None) => Ok((ExecHost::Gateway, HostReason::HasNoSandbox)),
        (HostWish::Sandbox, SessionSandbox::Required) => {
            Ok((ExecHost::Sandbox, HostReason::Named(source)))
        }
        (HostWish::Sandbox, SessionSandbox::None) => Err(ExecRefusal::NoSandbox { by: source }),
        (HostWish::Gateway, SessionSandbox::Required | SessionSandbox::None) => {
            Ok((ExecHost::Gateway, HostReason::Named(source)))
        }
        (HostWish::Node, SessionSandbox::Required | SessionSandbox::None) => {
            Ok((ExecHost::Node, HostReason::Named(source)))
        }
    }
}

/// The policy of a host: the stricter of base, request and approvals file.
fn combine(situation: &Situation<'_>, base: Base, file: &FilePolicy, why: HostReason) -> HostExec {
    let Base { host, security, ask, mut warnings } = base;
    match &why {
        HostReason::Named(by) if situation.sandbox == SessionSandbox::Required => {
            warnings.push(Warning::OutsideSandbox { by: by.clone() });
        }
        HostReason::Elevated if host.value != HostWish::Auto && host.value != HostWish::Gateway => {
            warnings.push(Warning::Overridden { wish: host.value, by: host.source });
        }
        HostReason::Named(_)
        | HostReason::Elevated
        | HostReason::HasSandbox
        | HostReason::HasNoSandbox => {}
    }
    // Before the built-in value of `ask` comes the file's own default, which may be laxer.
    let ask = match (&ask.source, &file.default_ask) {
        (Source::BuiltIn(_), Some(default)) => default.clone(),
        _ => ask,
    };
    let request = situation.request;
    let wished = |value| Chosen::new(value, Source::Request);
    let security = security.stricter_security(request.security.map(wished));
    let security = security.stricter_security(file.security.clone());
    let wished = |value| Chosen::new(value, Source::Request);
    let ask = ask.stricter_ask(request.ask.map(wished));
    let ask = ask.stricter_ask(file.ask.clone());
    let none = Chosen::new(Security::Deny, Source::BuiltIn("askFallback"));
    let ask_fallback = file.ask_fallback.clone().unwrap_or(none);
    // Silence may not allow more than the policy itself would.
    let ask_fallback = ask_fallback.stricter_security(Some(security.clone()));
    let is_open = security.value == Security::Full && ask.value == Ask::Off;
    let prompts = match situation.elevation {
        Elevation::Full { .. } if is_open => Prompts::Skip,
        Elevation::Full { .. } | Elevation::Ask { .. } | Elevation::Off => Prompts::Ask,
    };
    HostExec { why, security, ask, ask_fallback, prompts, warnings }
}

impl SandboxExec {
    pub const fn why(&self) -> &HostReason {
        &self.why
    }
}

impl HostExec {
    pub const fn why(&self) -> &HostReason {
        &self.why
    }

    pub const fn security(&self) -> &Chosen<Security> {
        &self.security
    }

    pub const fn ask(&self) -> &Chosen<Ask> {
        &self.ask
    }

    /// What silence means when a person was asked; never more than [`HostExec::security`].
    pub const fn ask_fallback(&self) -> &Chosen<Security> {
        &self.ask_fallback
    }

    pub const fn prompts(&self) -> Prompts {
        self.prompts
    }

    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }
}

impl fmt::Display for HostReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(source) => write!(f, "set by {source}"),
            Self::HasSandbox => f.write_str("no host is set, and the session has a sandbox"),
            Self::HasNoSandbox => f.write_str("no host is set, and the session has no sandbox"),
            Self::Elevated => f.write_str("elevated is in force"),
        }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Loosened { what, from, to, by } => {
                write!(f, "{by} loosens `{what}` from `{from}` to `{to}`")
            }
            Self::OutsideSandbox { by } => write!(
                f,
                "exec leaves the sandbox (host set by {by}) while the file tools stay inside"
            ),
            Self::Overridden { wish, by } => {
                write!(f, "elevated runs on the gateway although host={wish} is set by {by}")
            }
        }
    }
}

#[cfg(test)]
mod tests;
