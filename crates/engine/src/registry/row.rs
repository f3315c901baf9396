//! What the registry keeps about one sandbox, as plain values.

use clawpen_rules::backend::Backend;
use clawpen_rules::ids::AgentId;
use clawpen_rules::scope::ScopeKey;
use clawpen_rules::timestamp::Moment;

/// What a sandbox is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    Sandbox,
    Browser,
}

/// How far a sandbox is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// Somebody began to make it; whether anything of it exists is not known.
    Creating,
    /// Made, proven and set up.
    Ready,
    /// Somebody began to take it down.
    Removing,
}

/// Which making of a sandbox is meant. Every [`super::Registry::begin`] gives a new number, so that
/// whoever saw an earlier sandbox of the same name never changes the later one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Generation(pub(super) u64);

impl Generation {
    pub const fn number(self) -> u64 {
        self.0
    }
}

/// The thing itself, so that another one of the same name or number is not taken for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Identity {
    Native(NativeIdentity),
    Docker(DockerIdentity),
}

/// Process 1 of a native pen, as the host sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NativeIdentity {
    pub boot_id: String,
    pub pid: u32,
    /// In clock ticks since boot, as `/proc/<pid>/stat` says.
    pub start_time: u64,
    /// Where its supervisor listens.
    pub socket: String,
}

/// A container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DockerIdentity {
    pub container_id: String,
    /// The engine's socket.
    pub endpoint: String,
    /// Its label that names our state directory.
    pub state_label: String,
}

/// A sandbox that is about to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRow {
    pub name: String,
    pub kind: Kind,
    pub backend: Backend,
    pub scope: ScopeKey,
    /// The session that asked.
    pub session: Option<String>,
    /// `None` for the shared one.
    pub agent: Option<AgentId>,
    /// The image, or the directory of the root file system; blank for the host's own programs.
    pub image: String,
    /// Of the config it is made from.
    pub fingerprint: String,
    /// The host directory that is its workspace.
    pub workspace_dir: String,
}

/// A sandbox that is written down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    pub name: String,
    pub kind: Kind,
    pub backend: Backend,
    pub scope: ScopeKey,
    /// The session that asked last.
    pub session: Option<String>,
    pub agent: Option<AgentId>,
    pub image: String,
    pub fingerprint: String,
    pub workspace_dir: String,
    pub state: State,
    pub generation: Generation,
    /// Known as soon as something exists that must not be lost; `None` before.
    pub identity: Option<Identity>,
    /// The version of the frames its supervisor speaks; zero before it is known.
    pub protocol: u32,
    pub created: Moment,
    pub last_used: Moment,
}

/// A process that uses a sandbox, named so that another one of the same number is not taken for it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Holder {
    pub pid: u32,
    pub start_time: u64,
    pub boot_id: String,
    /// The inode of its pid namespace: numbers of another one mean nothing here.
    pub pid_namespace: u64,
}

/// Whether a holder still runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Liveness {
    Alive,
    Dead,
    /// It lives in another pid namespace. Counts as alive: a doubt never cuts work off.
    Unknown,
}

/// A call in flight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    pub id: LeaseId,
    pub name: String,
    pub holder: Holder,
    /// The call's id, as the audit record will carry it.
    pub call: String,
    pub since: Moment,
}

/// Names one lease; never given twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LeaseId(pub(super) u64);

/// Something found running that the registry has lost: what a rebuild is made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Survivor {
    pub row: NewRow,
    pub identity: Identity,
    pub protocol: u32,
    pub created: Moment,
}

/// A sandbox that the reference made. Listed, and left alone unless it is adopted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Foreign {
    pub name: String,
    pub kind: Kind,
    /// As written; `docker` if nothing is.
    pub backend: String,
    pub label: String,
    /// The scope key, as the reference calls it.
    pub session_key: String,
    pub created: Moment,
    pub last_used: Moment,
    pub image: String,
    pub config_label_kind: String,
    pub config_hash: Option<String>,
    pub cdp_port: Option<u16>,
    pub no_vnc_port: Option<u16>,
    /// The file that names it.
    pub file: String,
}

impl Kind {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sandbox => "sandbox",
            Self::Browser => "browser",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        [Self::Sandbox, Self::Browser].into_iter().find(|kind| kind.as_str() == text)
    }
}

impl State {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Creating => "creating",
            Self::Ready => "ready",
            Self::Removing => "removing",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        let all = [Self::Creating, Self::Ready, Self::Removing];
        all.into_iter().find(|state| state.as_str() == text)
    }
}
