//! The ways to make a sandbox. The set is closed: an enum, not a trait object.
//!
//! A backend makes, proves and removes sandboxes. Running commands and moving files is not its
//! business: once connected, every sandbox speaks the supervisor's protocol.

pub mod docker;
pub mod native;

use std::io;
use std::path::Path;

use clawpen_rules::backend::Backend;
use clawpen_rules::container::{ContainerSpec, Network, RootFilesystem};
use clawpen_rules::facts::{
    self as rules_facts, Asked, Below, CgroupLimits, Interfaces, LandlockAsked, Line, Mismatch,
    MountAsked, MountsAsked, Observed,
};
use clawpen_rules::mounts::Access;
use clawpen_rules::native::{NativePen, PenUser};
use clawpen_wire::pen::Lifetime;

use self::docker::{Container, DockerBackend, DockerFailure};
use crate::channel::{CallError, Channel, ConnectError};
use crate::facts::{self, ObserveError};
use crate::supervisor_image;

/// What to make, decided.
#[derive(Debug, Clone, PartialEq)]
pub enum Plan {
    Native(Box<NativePlan>),
    Docker(Box<ContainerSpec>),
}

/// A native pen and what must be in force besides the floor.
#[derive(Debug, Clone, PartialEq)]
pub struct NativePlan {
    pub pen: NativePen,
    pub require: Vec<native::Requirement>,
}

/// What a sandbox is called, and where we keep things.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    pub name: &'a str,
    pub state_dir: &'a str,
}

/// Connections to container engines, made when first needed.
#[derive(Debug, Default)]
pub struct Engines {
    docker: std::cell::OnceCell<DockerBackend>,
}

/// There is no sandbox.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Native(#[from] native::StartError),
    #[error("cannot start the container `{name}`")]
    Docker {
        name: String,
        #[source]
        cause: ContainerFailure,
    },
}

/// Why there is no container.
#[derive(Debug, thiserror::Error)]
pub enum ContainerFailure {
    #[error(transparent)]
    Engine(#[from] DockerFailure),
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("the supervisor did not report what is in force")]
    Report(#[source] CallError),
    #[error("what is in force cannot be observed")]
    Observe(#[from] ObserveError),
    #[error("the container is not what was asked for: {}", native::list(.0))]
    Facts(Vec<Mismatch>),
}

/// A running sandbox whose facts hold. Dropping it ends it, unless it was made to stay.
#[derive(Debug)]
pub enum Sandbox<'e> {
    Native(Box<native::Pen>),
    Docker(Box<Contained<'e>>),
}

/// A container with its connection.
#[derive(Debug)]
pub struct Contained<'e> {
    // First, so that process 1 ends by itself before the engine is asked to remove it.
    channel: Channel,
    container: Container<'e>,
    facts: Vec<Line>,
}

impl Engines {
    fn docker(&self, state_dir: &str) -> Result<&DockerBackend, DockerFailure> {
        if let Some(known) = self.docker.get() {
            return Ok(known);
        }
        let socket = docker::locate(|name| std::env::var(name).ok())?;
        let home = Path::new(state_dir).join("clawpen/docker");
        let made = DockerBackend::connect(&socket, &home, supervisor_image::IMAGE)?;
        Ok(self.docker.get_or_init(|| made))
    }

    /// Makes a sandbox and proves it. On failure nothing of it is left.
    pub fn start(
        &self,
        plan: &Plan,
        place: Place<'_>,
        lifetime: Lifetime,
    ) -> Result<Sandbox<'_>, StartError> {
        match plan {
            Plan::Native(plan) => {
                let request = native::Request {
                    pen: &plan.pen,
                    name: place.name,
                    state_dir: place.state_dir,
                    lifetime,
                    require: &plan.require,
                };
                Ok(Sandbox::Native(Box::new(native::Pen::start(&request)?)))
            }
            Plan::Docker(spec) => {
                let contained = self.contain(spec, place, lifetime);
                let contained = contained.map_err(|cause| StartError::Docker {
                    name: place.name.to_owned(),
                    cause,
                })?;
                Ok(Sandbox::Docker(Box::new(contained)))
            }
        }
    }

    fn contain(
        &self,
        spec: &ContainerSpec,
        place: Place<'_>,
        lifetime: Lifetime,
    ) -> Result<Contained<'_>, ContainerFailure> {
        let (container, stream) = self.docker(place.state_dir)?.create(spec, lifetime)?;
        let mut channel = Channel::connect(stream, container.first_process())?;
        let asked = asked_of_container(spec, container.ids());
        let outside = match facts::outside(container.first_process(), None) {
            Ok(outside) => Some(outside),
            // The engine's processes are root's; who may use the engine need not be root.
            Err(ObserveError::Read { cause, .. }) if cause.kind() == io::ErrorKind::PermissionDenied => None,
            Err(error) => return Err(error.into()),
        };
        let report = channel.facts().map_err(ContainerFailure::Report)?;
        let observed = Observed {
            host_namespaces: facts::own_namespaces()?,
            outside,
            inside: facts::inside(&report)?,
        };
        let facts = rules_facts::decide(&asked, &observed).map_err(ContainerFailure::Facts)?;
        channel.seal().map_err(ContainerFailure::Report)?;
        Ok(Contained { channel, container, facts })
    }
}

/// What must be found in a container, from the spec it was made of.
fn asked_of_container(spec: &ContainerSpec, ids: Option<(u32, u32)>) -> Asked {
    let (uid, gid) = ids.unwrap_or_default();
    let flag = |access| match access {
        Access::ReadOnly => "ro",
        Access::ReadWrite => "rw",
    };
    let mount = |target: &str, flag| MountAsked {
        target: target.to_owned(),
        flags: vec![flag],
        below: Below::Submounts,
    };
    let root = match spec.root() {
        RootFilesystem::ReadOnly => "ro",
        RootFilesystem::Writable => "rw",
    };
    let mut mounts =
        vec![MountAsked { target: "/".to_owned(), flags: vec![root], below: Below::Nothing }];
    mounts.extend(spec.mounts().iter().map(|own| mount(&own.target, flag(own.access))));
    mounts.extend(spec.binds().iter().map(|bind| mount(bind.target(), flag(bind.access()))));
    Asked {
        backend: Backend::Docker,
        user: PenUser { uid, gid },
        ids: None,
        namespaces: vec!["pid", "mnt", "net", "ipc", "uts"],
        mounts: MountsAsked::AtLeast(mounts),
        interfaces: match spec.network() {
            Network::None => Interfaces::LoopbackOnly,
            Network::EngineDefault | Network::Named(_) | Network::Joined(_) => Interfaces::Given,
        },
        rlimits: Vec::new(),
        cgroup: CgroupLimits::default(),
        landlock: LandlockAsked::IfPresent,
    }
}

impl Sandbox<'_> {
    /// The connection to process 1.
    pub fn channel(&mut self) -> Result<&mut Channel, CallError> {
        match self {
            Self::Native(pen) => pen.channel(),
            Self::Docker(contained) => Ok(&mut contained.channel),
        }
    }

    /// What was asked and what was found, before the first command.
    pub fn facts(&self) -> &[Line] {
        match self {
            Self::Native(pen) => pen.facts(),
            Self::Docker(contained) => &contained.facts,
        }
    }

    /// Process 1, as the host numbers it.
    pub fn first_process(&self) -> u32 {
        match self {
            Self::Native(pen) => pen.pid(),
            Self::Docker(contained) => contained.container.first_process(),
        }
    }

    pub const fn backend(&self) -> Backend {
        match self {
            Self::Native(_) => Backend::Native,
            Self::Docker(_) => Backend::Docker,
        }
    }

    /// Ends it and waits until nothing of it is left.
    pub fn remove(self) -> Result<(), RemoveError> {
        match self {
            Self::Native(pen) => pen.remove().map_err(RemoveError::Native),
            Self::Docker(contained) => {
                let Contained { channel, container, facts: _ } = *contained;
                drop(channel);
                container.remove().map_err(RemoveError::Docker)
            }
        }
    }
}

/// A sandbox that may still be there.
#[derive(Debug, thiserror::Error)]
pub enum RemoveError {
    #[error("cannot remove the pen")]
    Native(#[source] io::Error),
    #[error("cannot remove the container")]
    Docker(#[source] DockerFailure),
}
