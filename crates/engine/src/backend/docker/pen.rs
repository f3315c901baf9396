//! A container that is proven: asked and observed agree, then it is sealed, then it is set up.
//!
//! What the engine says of it was compared before; here the kernel is asked, from outside as far as
//! this user may look, and from inside by the supervisor. A fact that does not hold removes it.

use std::io;
use std::time::Duration;

use clawpen_rules::backend::Backend;
use clawpen_rules::container::engine_limits::{EngineLimits, EngineUlimit};
use clawpen_rules::container::{ContainerSpec, Network, RootFilesystem};
use clawpen_rules::facts::{
    self as rules_facts, Asked, Below, CgroupLimits, Interfaces, LandlockAsked, Line, MountAsked,
    MountsAsked, Observed, Outside,
};
use clawpen_rules::mounts::Access;
use clawpen_rules::native::{Bound, PenUser, Rlimit, RlimitKind};
use clawpen_rules::posix;
use clawpen_wire::pen::Lifetime;
use clawpen_wire::supervisor::End;

use super::engine::Make;
use super::failure::DockerFailure;
use super::request::SUPERVISOR;
use super::{Container, DockerBackend, cgroup};
use crate::channel::{CallError, Captured, Channel, Command};
use crate::facts::{self, ObserveError};

/// The namespaces that a container has of its own. A user namespace is the engine's to give.
const NAMESPACES: [&str; 6] = ["pid", "mnt", "net", "ipc", "uts", "cgroup"];
/// Podman is asked for a cgroup namespace too, and gives one only where cgroups have version 2. Without
/// it the names of groups are seen, and no more: they cannot be written.
const NAMESPACES_OF_PODMAN: [&str; 5] = ["pid", "mnt", "net", "ipc", "uts"];
/// The setup command may install things.
const SETUP_PATIENCE: Duration = Duration::from_secs(10 * 60);
/// What is shown of a failed setup command.
const SHOWN: usize = 2000;

/// There is no container.
#[derive(Debug, thiserror::Error)]
#[error("cannot start the container `{name}`")]
pub struct StartError {
    pub name: String,
    #[source]
    pub cause: DockerFailure,
}

/// A running container whose facts hold. Dropping it removes it, unless its lifetime says otherwise.
#[derive(Debug)]
pub struct Pen {
    // First, so that the connection closes before the container goes.
    channel: Option<Channel>,
    container: Option<Container>,
    pid: u32,
    facts: Vec<Line>,
    lifetime: Lifetime,
}

impl Pen {
    /// Makes a container and proves it.
    pub fn start(
        engine: &DockerBackend,
        spec: &ContainerSpec,
        lifetime: Lifetime,
    ) -> Result<Self, StartError> {
        let name = spec.identity().name.as_str().to_owned();
        start(engine, spec, lifetime).map_err(|cause| StartError { name, cause })
    }

    /// The connection to the container's supervisor.
    pub fn channel(&mut self) -> Result<&mut Channel, CallError> {
        self.channel.as_mut().ok_or(CallError::Closed)
    }

    /// What was asked and what was found, before the first command.
    pub fn facts(&self) -> &[Line] {
        &self.facts
    }

    /// The container's first process, as this machine numbers it.
    pub const fn pid(&self) -> u32 {
        self.pid
    }

    /// Kills and removes the container.
    pub fn remove(mut self) -> Result<(), DockerFailure> {
        drop(self.channel.take());
        match self.container.take() {
            Some(container) => container.remove(),
            None => Ok(()),
        }
    }
}

impl Drop for Pen {
    fn drop(&mut self) {
        match self.lifetime {
            Lifetime::UntilDisconnect => {}
            Lifetime::Persistent => {
                if let Some(container) = self.container.take() {
                    container.keep();
                }
            }
        }
    }
}

/// The straight line: make, connect, observe, compare, seal, set up.
fn start(
    engine: &DockerBackend,
    spec: &ContainerSpec,
    lifetime: Lifetime,
) -> Result<Pen, DockerFailure> {
    let (container, stream) = engine.create(spec, lifetime)?;
    let pid = container.first_process();
    let mut channel = Channel::connect(stream, pid)?;
    let outside = outside(pid)?;
    let report = channel.facts().map_err(DockerFailure::Report)?;
    let observed = Observed {
        host_namespaces: facts::own_namespaces()?,
        outside,
        inside: facts::inside(&report)?,
    };
    let asked = Asked {
        namespaces: match engine.make() {
            Make::Docker => NAMESPACES.to_vec(),
            Make::Podman => NAMESPACES_OF_PODMAN.to_vec(),
        },
        ..asked(spec, container.user)?
    };
    let facts = rules_facts::decide(&asked, &observed).map_err(DockerFailure::Facts)?;
    channel.seal().map_err(DockerFailure::Report)?;
    if let Some(script) = spec.setup() {
        set_up(&mut channel, script)?;
    }
    Ok(Pen { channel: Some(channel), container: Some(container), pid, facts, lifetime })
}

/// Process 1 from outside; `None` where it belongs to another user and we are not root. What only
/// the host can see does not hold then, and what was asked of it refuses the start.
fn outside(pid: u32) -> Result<Option<Outside>, DockerFailure> {
    match facts::outside(pid, cgroup::limits(pid).ok()) {
        Err(ObserveError::Read { cause, .. })
            if cause.kind() == io::ErrorKind::PermissionDenied =>
        {
            Ok(None)
        }
        found => Ok(Some(found?)),
    }
}

/// The facts that a spec asks for.
fn asked(spec: &ContainerSpec, (uid, gid): (u32, u32)) -> Result<Asked, DockerFailure> {
    let limits = EngineLimits::read(spec.limits()).map_err(DockerFailure::Limit)?;
    let positive = |number: Option<i64>| {
        number.and_then(|number| u64::try_from(number).ok()).filter(|number| *number > 0)
    };
    Ok(Asked {
        backend: Backend::Docker,
        user: PenUser { uid, gid },
        ids: None,
        namespaces: NAMESPACES.to_vec(),
        mounts: MountsAsked::AtLeast(mounts(spec)),
        interfaces: match spec.network() {
            Network::None => Interfaces::LoopbackOnly,
            Network::EngineDefault | Network::Named(_) | Network::Joined(_) => Interfaces::Given,
        },
        rlimits: limits.ulimits.iter().filter_map(rlimit).collect(),
        cgroup: CgroupLimits {
            memory: positive(limits.memory),
            pids: positive(limits.pids),
            cpu_millis: positive(limits.nano_cpus).map(|nanos| nanos / 1_000_000),
        },
        landlock: match spec.root() {
            RootFilesystem::ReadOnly => LandlockAsked::IfPresent,
            RootFilesystem::Writable => LandlockAsked::OpenEverywhere,
        },
    })
}

fn mounts(spec: &ContainerSpec) -> Vec<MountAsked> {
    let mount = |target: &str, flags: &[&'static str]| MountAsked {
        target: posix::normalize(target),
        flags: flags.to_vec(),
        below: Below::Nothing,
    };
    let access = |access| match access {
        Access::ReadOnly => &["ro"][..],
        Access::ReadWrite => &["rw"][..],
    };
    let root = match spec.root() {
        RootFilesystem::ReadOnly => "ro",
        RootFilesystem::Writable => "rw",
    };
    let mut mounts = vec![mount("/", &[root]), mount(SUPERVISOR, &["ro"])];
    let own = spec.mounts().iter().map(|own| mount(&own.target, access(own.access)));
    mounts.extend(own);
    mounts.extend(spec.binds().iter().map(|bind| mount(bind.target(), access(bind.access()))));
    let tmpfs = spec.tmpfs().iter().map(|entry| {
        let path = entry.split(':').next().unwrap_or(entry);
        mount(path, &["nosuid", "nodev"])
    });
    mounts.extend(tmpfs);
    mounts
}

fn rlimit(limit: &EngineUlimit) -> Option<Rlimit> {
    let kind = RlimitKind::ALL.into_iter().find(|kind| kind.as_str() == limit.name)?;
    let bound = |number: i64| u64::try_from(number).map_or(Bound::Unlimited, Bound::At);
    Some(Rlimit { kind, soft: bound(limit.soft), hard: bound(limit.hard) })
}

/// Runs the setup command; what it wrote is shown if it fails.
fn set_up(channel: &mut Channel, script: &str) -> Result<(), DockerFailure> {
    let mut command = Command::new(["/bin/sh", "-lc", script]);
    command.timeout = Some(SETUP_PATIENCE);
    let mut output = Captured::new(SHOWN);
    let exited = channel.exec(&command, &mut output).map_err(DockerFailure::Setup)?;
    let how = match (exited.timed_out, exited.end) {
        (false, End::Code(0)) => return Ok(()),
        (true, _) => "it took longer than ten minutes".to_owned(),
        (false, End::Code(code)) => format!("it ended with code {code}"),
        (false, End::Signal(signal)) => format!("signal {signal} killed it"),
    };
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(DockerFailure::SetupFailed(if said.is_empty() { how } else { format!("{how}: {said}") }))
}
