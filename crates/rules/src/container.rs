//! What a container is made of: a spec that starts locked down and says every door it opens.
//!
//! ```text
//! locked_down(identity, layout, image) ──configured(docker config)──► build(bind rules) ─► spec
//! ```
//!
//! [`ContainerSpec`] is made by [`ContainerBuilder::build`] only, which checks the whole: whatever
//! reaches an engine went through it. [`ContainerSpec::docker_args`] shows the spec as arguments of
//! `docker create`; [`ContainerSpec::open_doors`] lists what it gives up compared with a locked
//! container. One command in a container is in [`exec`]. Nothing here talks to an engine.

mod build;
mod docker_args;
pub mod engine_limits;
pub mod exec;
mod limits;
mod refused;
mod shape;
pub mod workdir;

pub use build::{ContainerBuilder, DirectoryOrigins};
pub use refused::{ContainerRefused, SpecProblem};
pub use shape::ShapeProblem;

use std::fmt;

use crate::backend::Backend;
use crate::config::fingerprint::Fingerprint;
use crate::config::setting::Setting;
use crate::environment::{BlockReason, Environment, Remark};
use crate::mounts::CheckedBind;
use crate::scope::{ContainerName, ScopeKey};
use crate::workspace::{Layout, WorkspaceMount};

/// Which container it is: its name, and what its labels say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    pub name: ContainerName,
    /// Stands in a label verbatim: it is how a container finds its way back to its sessions.
    pub scope: ScopeKey,
    pub created_at_ms: u64,
    /// A container without one never matches any config.
    pub fingerprint: Option<Fingerprint>,
}

/// A checked container, ready to be made.
#[derive(Debug, Clone, PartialEq)]
pub struct ContainerSpec {
    identity: Identity,
    /// Besides the labels of the identity.
    labels: Vec<(String, String)>,
    image: String,
    root: RootFilesystem,
    /// `path[:options]`.
    tmpfs: Vec<String>,
    network: Network,
    /// `user[:group]`; without one the image decides.
    user: Option<String>,
    env: Environment,
    kept_out: Vec<(String, BlockReason)>,
    env_remarks: Vec<(String, Remark)>,
    cap_drop: Vec<String>,
    seccomp: Option<String>,
    apparmor: Option<String>,
    dns: Vec<String>,
    extra_hosts: Vec<String>,
    limits: Limits,
    workdir: String,
    mounts: Vec<WorkspaceMount>,
    workspace_label: WorkspaceLabel,
    /// The source of each of them without links, as it was decided on.
    workspaces: Vec<String>,
    binds: Vec<CheckedBind>,
    /// Run once, after the first start.
    setup: Option<String>,
    /// Of the container, published on the loopback address.
    ports: Vec<u16>,
}

/// Whether the image's own files can be written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RootFilesystem {
    ReadOnly,
    Writable,
}

/// Whether the engine labels the workspace for `SELinux`. On a machine without it a label means nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WorkspaceLabel {
    /// Its owner has labelled it, or nobody needs to.
    #[default]
    None,
    /// Every container may use it.
    Shared,
    /// This container alone: another one that mounts the same files is shut out.
    Private,
}

impl WorkspaceLabel {
    pub const ALL: [Self; 3] = [Self::None, Self::Shared, Self::Private];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Shared => "shared",
            Self::Private => "private",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.as_str() == text)
    }

    /// The option of a mount that asks for it.
    pub const fn option(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Shared => Some("z"),
            Self::Private => Some("Z"),
        }
    }
}

/// What the container is connected to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Network {
    None,
    /// The config says nothing on purpose (`""`): the engine's own choice, a bridge to the world.
    EngineDefault,
    Named(String),
    /// The network of another container.
    Joined(String),
}

/// How much of the machine the container may use, as the engine is told.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Limits {
    pub pids: Option<String>,
    pub memory: Option<String>,
    pub memory_swap: Option<String>,
    pub cpus: Option<String>,
    pub gpus: Option<String>,
    /// Name and `soft[:hard]`.
    pub ulimits: Vec<(String, String)>,
}

/// Something that a locked-down container would not allow. The config asked for it, so it is no
/// refusal; `explain` shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpenDoor {
    WritableRoot,
    EngineNetwork,
    Network(String),
    JoinedNetwork(String),
    /// Root in the container. Without capabilities it still owns what root owns on the host.
    Root {
        user: String,
    },
    /// No user is set: the image decides, and most images say root.
    ImageUser,
    /// Not all capabilities are dropped.
    Capabilities {
        dropped: Vec<String>,
    },
    ProgramsInTmpfs(String),
    Gpus(String),
}

impl ContainerSpec {
    /// Starts with everything shut: read-only root, no network, no capability, no tmpfs, no
    /// variable, and only the layout's own mounts.
    pub fn locked_down(
        identity: Identity,
        layout: &Layout,
        image: Setting<String>,
    ) -> ContainerBuilder<'_> {
        ContainerBuilder::new(identity, layout, image)
    }

    pub const fn identity(&self) -> &Identity {
        &self.identity
    }

    pub fn image(&self) -> &str {
        &self.image
    }

    /// Every label, in the order of `docker create`.
    pub fn labels(&self) -> Vec<(&str, String)> {
        let Identity { name: _, scope, created_at_ms, fingerprint } = &self.identity;
        let mut labels = vec![
            ("openclaw.sandbox", "1".to_owned()),
            ("openclaw.sessionKey", scope.to_string()),
            ("openclaw.createdAtMs", created_at_ms.to_string()),
        ];
        let hash = fingerprint.as_ref().map(ToString::to_string);
        labels.extend(hash.map(|hash| ("openclaw.configHash", hash)));
        labels.extend(self.labels.iter().map(|(name, value)| (name.as_str(), value.clone())));
        labels
    }

    pub const fn root(&self) -> RootFilesystem {
        self.root
    }

    /// Entries `path[:options]`.
    pub fn tmpfs(&self) -> &[String] {
        &self.tmpfs
    }

    pub fn cap_drop(&self) -> &[String] {
        &self.cap_drop
    }

    /// The engine's own filter: a file on this machine, or a name the engine knows.
    pub fn seccomp(&self) -> Option<&str> {
        self.seccomp.as_deref()
    }

    pub fn apparmor(&self) -> Option<&str> {
        self.apparmor.as_deref()
    }

    pub fn dns(&self) -> &[String] {
        &self.dns
    }

    pub fn extra_hosts(&self) -> &[String] {
        &self.extra_hosts
    }

    pub const fn limits(&self) -> &Limits {
        &self.limits
    }

    pub fn workdir(&self) -> &str {
        &self.workdir
    }

    /// What runs once, after the first start.
    pub fn setup(&self) -> Option<&str> {
        self.setup.as_deref()
    }

    /// The container's ports that are published, each on some free port of the host's loopback address.
    pub fn ports(&self) -> &[u16] {
        &self.ports
    }

    pub const fn network(&self) -> &Network {
        &self.network
    }

    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    pub const fn env(&self) -> &Environment {
        &self.env
    }

    /// The configured variables that stay outside, with the reasons.
    pub fn kept_out(&self) -> &[(String, BlockReason)] {
        &self.kept_out
    }

    /// What is odd about variables that go in.
    pub fn env_remarks(&self) -> &[(String, Remark)] {
        &self.env_remarks
    }

    pub fn mounts(&self) -> &[WorkspaceMount] {
        &self.mounts
    }

    pub const fn workspace_label(&self) -> WorkspaceLabel {
        self.workspace_label
    }

    /// The configured binds.
    pub fn binds(&self) -> &[CheckedBind] {
        &self.binds
    }

    /// What of the host is inside, workspaces first: where, and the path that was decided on. No part
    /// of it was a link then, so one that is a link now was changed since.
    pub fn checked_sources(&self) -> impl Iterator<Item = (&str, &str)> {
        let workspaces = self.mounts.iter().zip(&self.workspaces);
        let workspaces = workspaces.map(|(mount, real)| (mount.target.as_str(), real.as_str()));
        workspaces.chain(self.binds.iter().map(|bind| (bind.target(), bind.real_source())))
    }

    /// What this sandbox is allowed beyond a locked-down one, on its backend.
    pub fn open_doors(&self, backend: Backend) -> Vec<OpenDoor> {
        let mut doors = self.open_doors_of_a_container();
        match backend {
            // Whatever number its user has inside, on the host it is an ordinary one of its own.
            Backend::Native => {
                doors.retain(|door| !matches!(door, OpenDoor::Root { .. } | OpenDoor::ImageUser));
            }
            Backend::Docker | Backend::Ssh | Backend::OpenShell | Backend::Kubernetes => {}
        }
        doors
    }

    fn open_doors_of_a_container(&self) -> Vec<OpenDoor> {
        let mut doors = Vec::new();
        match self.root {
            RootFilesystem::ReadOnly => {}
            RootFilesystem::Writable => doors.push(OpenDoor::WritableRoot),
        }
        match &self.network {
            Network::None => {}
            Network::EngineDefault => doors.push(OpenDoor::EngineNetwork),
            Network::Named(name) => doors.push(OpenDoor::Network(name.clone())),
            Network::Joined(name) => doors.push(OpenDoor::JoinedNetwork(name.clone())),
        }
        match &self.user {
            None => doors.push(OpenDoor::ImageUser),
            Some(user) if is_root(user) => doors.push(OpenDoor::Root { user: user.clone() }),
            Some(_) => {}
        }
        if !self.cap_drop.iter().any(|name| name.eq_ignore_ascii_case("ALL")) {
            doors.push(OpenDoor::Capabilities { dropped: self.cap_drop.clone() });
        }
        let running = self.tmpfs.iter().filter(|entry| shape::tmpfs_runs_programs(entry));
        doors.extend(running.cloned().map(OpenDoor::ProgramsInTmpfs));
        doors.extend(self.limits.gpus.clone().map(OpenDoor::Gpus));
        doors
    }
}

/// Says whether `user[:group]` is root, by name or by any way to write zero.
fn is_root(user: &str) -> bool {
    let name = user.split(':').next().unwrap_or(user);
    name == "root" || (!name.is_empty() && name.bytes().all(|byte| byte == b'0'))
}

impl fmt::Display for OpenDoor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WritableRoot => f.write_str("the image's own files are writable"),
            Self::EngineNetwork => f.write_str(
                "the network is the engine's default one: it reaches what this machine reaches, and \
                 this build does not filter that",
            ),
            Self::Network(name) => write!(
                f,
                "it is on the network `{name}`: it reaches what is reached from there, and this build \
                 does not filter that"
            ),
            Self::JoinedNetwork(name) => write!(f, "it shares the network of container `{name}`"),
            Self::Root { user } => write!(f, "its commands run as root (`{user}`)"),
            Self::ImageUser => f.write_str("its commands run as whatever user the image names"),
            Self::Capabilities { dropped } if dropped.is_empty() => {
                f.write_str("it keeps the engine's default capabilities")
            }
            Self::Capabilities { dropped } => {
                write!(f, "it keeps all default capabilities but {}", dropped.join(", "))
            }
            Self::ProgramsInTmpfs(entry) => write!(f, "programs may run from tmpfs `{entry}`"),
            Self::Gpus(gpus) => write!(f, "it reaches the machine's GPUs (`{gpus}`)"),
        }
    }
}

#[cfg(test)]
mod tests;
