//! Keep, keep stale, replace or create a sandbox.
//!
//! Takes what was found ([`Seen`]: the container and its registry entry), what the config asks for
//! now ([`Wanted`]) and the time; gives a [`Reuse`] with its reason. Starts and removes nothing.
//!
//! ```text
//! registry unreadable ──► Refuse             container absent ──► Create
//! fingerprint as wanted ──► Keep (running) or Start (stopped)
//! fingerprint differs ──► not hot: Replace    hot: KeepStale, or Refuse if its mounts differ
//! other backend       ──► not hot: Replace    hot: Refuse
//! other protocol      ──► not in use: Replace    in use: Refuse
//! ```
//!
//! A running sandbox is hot while somebody uses it, for [`HOT_WINDOW`] after, and when nobody can
//! tell: replacing it would cut work off. So a doubt never removes anything.

#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Duration;

use crate::config::fingerprint::Fingerprint;
use crate::ids::AgentId;
use crate::timestamp::Timestamp;

/// How long after its last use a sandbox still counts as in use. The moment it has fully passed,
/// the sandbox is cold.
pub const HOT_WINDOW: Duration = Duration::from_secs(300);

/// What is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// `None`: the backend said that there is none. A backend that could not say is an error of
    /// the caller's, not an absent container.
    pub container: Option<Container>,
    pub registry: Registry,
    pub activity: Activity,
}

/// A container of the wanted name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Container {
    pub state: State,
    /// The fingerprint on its label, as it stands there.
    pub label: Option<String>,
    pub mounts: Mounts,
    pub reach: Reach,
}

/// Whether we can speak with what is there, and whether it is the right kind of thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    Usable,
    /// The config names another backend now.
    OtherBackend,
    /// Its supervisor is of a release that we no longer understand.
    OtherProtocol,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Running,
    Stopped,
}

/// The mounts of a container against the wanted ones: sources, targets, modes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mounts {
    Same,
    Differ,
}

/// What our registry says about the container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Registry {
    NoEntry,
    Entry {
        last_used: Option<Timestamp>,
        /// Written by the reference for containers that carry no label.
        fingerprint: Option<String>,
    },
    /// The file is there and makes no sense. It is left alone.
    Unreadable {
        file: String,
    },
}

/// Whether a call is running in the sandbox right now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activity {
    InUse,
    Quiet,
}

/// What the config asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The container's name.
    pub name: String,
    pub fingerprint: Fingerprint,
    /// How a user would renew it by hand.
    pub recreate: Recreate,
}

/// `clawpen sandbox recreate`, aimed at one sandbox. Prints as the command to type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recreate {
    pub kind: SandboxKind,
    pub target: RecreateTarget,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SandboxKind {
    Shell,
    Browser,
}

/// Which sandboxes a recreate reaches; one for each scope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecreateTarget {
    /// The scope key of one session.
    Session(String),
    Agent(AgentId),
    /// The shared sandbox belongs to nobody, so only "all" reaches it.
    All,
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reuse {
    /// There is none.
    Create,
    /// It runs and is as wanted.
    Keep,
    /// It is as wanted, but stopped.
    Start,
    /// It is not as wanted, but in use: go on with it and tell the user.
    KeepStale(Stale),
    /// It is not as wanted and nobody uses it: remove it, then create.
    Replace(ReplaceReason),
    /// Neither using it nor replacing it is safe. Nothing is touched.
    Refuse(RefuseReason),
}

/// A sandbox with an old config that is in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stale {
    pub name: String,
    /// The fingerprint it runs with; `None` if nobody knows.
    pub fingerprint: Option<String>,
    pub recreate: Recreate,
}

/// Why a sandbox is replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplaceReason {
    pub difference: Difference,
    pub cold: Cold,
}

/// How its config differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Difference {
    Changed,
    /// Neither label nor registry say what it was made from.
    Unknown,
}

/// Why nobody misses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cold {
    Stopped,
    Idle(Duration),
    /// No call is in flight, and none could be made.
    OutOfReach,
}

/// Why a sandbox may not be used as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RefuseReason {
    /// In use, with other directories mounted than the config allows now.
    MountsDiffer(Stale),
    /// In use, on another backend than the config names now.
    OtherBackend(Stale),
    /// In use, by another release whose supervisor we do not understand.
    OtherProtocol(Stale),
    /// Whatever is made now could not be written down, and would be lost.
    RegistryUnreadable { file: String },
}

/// Decides what to do with the sandbox that is there, if any.
#[must_use]
pub fn decide(seen: &Seen, wanted: &Wanted, now: Timestamp) -> Reuse {
    let (last_used, registered) = match &seen.registry {
        Registry::NoEntry => (None, None),
        Registry::Entry { last_used, fingerprint } => (*last_used, fingerprint.as_ref()),
        Registry::Unreadable { file } => {
            return Reuse::Refuse(RefuseReason::RegistryUnreadable { file: file.clone() });
        }
    };
    let Some(container) = &seen.container else { return Reuse::Create };
    let current = container.label.as_ref().or(registered);
    let difference = match current {
        None => Difference::Unknown,
        Some(current) if current != wanted.fingerprint.as_str() => Difference::Changed,
        Some(_) if container.reach != Reach::Usable => Difference::Changed,
        Some(_) => {
            return match container.state {
                State::Running => Reuse::Keep,
                State::Stopped => Reuse::Start,
            };
        }
    };
    if let Some(cold) = cold(container, seen.activity, last_used, now) {
        return Reuse::Replace(ReplaceReason { difference, cold });
    }
    let stale = Stale {
        name: wanted.name.clone(),
        fingerprint: current.cloned(),
        recreate: wanted.recreate.clone(),
    };
    match (container.reach, container.mounts) {
        (Reach::Usable, Mounts::Same) => Reuse::KeepStale(stale),
        (Reach::Usable, Mounts::Differ) => Reuse::Refuse(RefuseReason::MountsDiffer(stale)),
        (Reach::OtherBackend, _) => Reuse::Refuse(RefuseReason::OtherBackend(stale)),
        (Reach::OtherProtocol, _) => Reuse::Refuse(RefuseReason::OtherProtocol(stale)),
    }
}

/// Why nobody would miss the container; `None` if somebody might.
fn cold(
    container: &Container,
    activity: Activity,
    last_used: Option<Timestamp>,
    now: Timestamp,
) -> Option<Cold> {
    match (container.state, activity) {
        (State::Stopped, Activity::InUse | Activity::Quiet) => Some(Cold::Stopped),
        (State::Running, Activity::InUse) => None,
        (State::Running, Activity::Quiet) if container.reach == Reach::OtherProtocol => {
            Some(Cold::OutOfReach)
        }
        (State::Running, Activity::Quiet) => {
            let idle = now.since(last_used?);
            (idle >= HOT_WINDOW).then_some(Cold::Idle(idle))
        }
    }
}

impl Reuse {
    /// Says whether a container is made. Its age and its image then start anew in the registry:
    /// kept ones would have it pruned for the age of the container before it.
    pub const fn makes_container(&self) -> bool {
        match self {
            Self::Create | Self::Replace(_) => true,
            Self::Keep | Self::Start | Self::KeepStale(_) | Self::Refuse(_) => false,
        }
    }
}

impl fmt::Display for Recreate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("clawpen sandbox recreate")?;
        match self.kind {
            SandboxKind::Shell => {}
            SandboxKind::Browser => f.write_str(" --browser")?,
        }
        match &self.target {
            RecreateTarget::Session(key) => write!(f, " --session {}", shell_word(key)),
            RecreateTarget::Agent(agent) => write!(f, " --agent {agent}"),
            RecreateTarget::All => f.write_str(" --all"),
        }
    }
}

/// `text` as one word of a shell line: a session key holds whatever a chat network calls its rooms.
fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-:.,/@%+=".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

impl fmt::Display for Stale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "sandbox `{}` is in use and keeps its old config; to renew it now, run `{}`",
            self.name, self.recreate
        )
    }
}

impl fmt::Display for ReplaceReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.difference {
            Difference::Changed => "its config changed",
            Difference::Unknown => "nothing says which config it was made from",
        })?;
        match self.cold {
            Cold::Stopped => f.write_str(" and it is stopped"),
            Cold::Idle(idle) => write!(f, " and it has been idle for {} s", idle.as_secs()),
            Cold::OutOfReach => f.write_str(" and no call could be made in it any more"),
        }
    }
}

impl fmt::Display for RefuseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MountsDiffer(stale) => write!(
                f,
                "sandbox `{}` is in use with other directories mounted than its config names now; \
                 run `{}` to replace it",
                stale.name, stale.recreate
            ),
            Self::OtherBackend(stale) => write!(
                f,
                "sandbox `{}` is in use on another backend than its config names now; run `{}` to \
                 replace it",
                stale.name, stale.recreate
            ),
            Self::OtherProtocol(stale) => write!(
                f,
                "sandbox `{}` is in use by another release of clawpen, whose supervisor this one \
                 does not understand; run `{}` to replace it",
                stale.name, stale.recreate
            ),
            Self::RegistryUnreadable { file } => write!(
                f,
                "the sandbox registry `{file}` is damaged, so a new sandbox could not be written \
                 down; repair the file or move it away"
            ),
        }
    }
}
