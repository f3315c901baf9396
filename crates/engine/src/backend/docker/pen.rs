//! A container that is proven: asked and observed agree, then it is sealed, then it is set up.
//!
//! What the engine says of it was compared before; here the kernel is asked, from outside as far as
//! this user may look, and from inside by the supervisor. A fact that does not hold removes it.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use clawpen_rules::backend::Backend;
use clawpen_rules::container::engine_limits::{EngineLimits, EngineUlimit};
use clawpen_rules::container::{ContainerSpec, Network, RootFilesystem};
use clawpen_rules::facts::{
    self as rules_facts, Asked, Below, CgroupLimits, GroupsAsked, Inside, Interfaces,
    LandlockAsked, Line, MountAsked, MountsAsked, Observed, Outside, Seen,
};
use clawpen_rules::mounts::Access;
use clawpen_rules::native::{Bound, PenUser, Rlimit, RlimitKind};
use clawpen_rules::posix;
use clawpen_wire::pen::Lifetime;
use clawpen_wire::supervisor::End;

use super::engine::Make;
use super::failure::DockerFailure;
use super::find::{self, Restarted};
use super::inspection::Difference;
use super::request::{self, SUPERVISOR};
use super::sources::Sources;
use super::{Container, DockerBackend, Order, cgroup};
use crate::backend::Witness;
use crate::channel::{CallError, Captured, Channel, Command, ConnectError};
use crate::facts::{self, ObserveError};
use crate::faults;
use crate::registry::DockerIdentity;

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
        let name = spec.identity().name.as_str();
        Self::make(engine, &Order { spec, name, lifetime, about: "" }, &mut |_| Ok(()))
    }

    /// The same under any name; `witness` writes down a container that is to stay.
    pub fn make(
        engine: &DockerBackend,
        order: &Order<'_>,
        witness: Witness<'_>,
    ) -> Result<Self, StartError> {
        let name = order.name.to_owned();
        start(engine, order, witness).map_err(|cause| StartError { name, cause })
    }

    /// Connects to a container that was written down and proven, without a word to the engine. The
    /// value leaves it running. `None`: it does not run, is not that one, or is not proven.
    pub fn find(home: &Path, identity: &DockerIdentity) -> Result<Option<Self>, ConnectError> {
        let Some((pid, stream)) = find::by_note(home, &identity.container_id) else {
            return Ok(None);
        };
        let channel = Channel::connect_to_identify(stream, pid)?;
        // A note is written after the seal. One beside an open supervisor is not ours.
        Ok(channel.welcome().sealed.then(|| Self::found(channel, pid)))
    }

    pub(in crate::backend) const fn was_found(&self) -> bool {
        self.container.is_none()
    }

    fn found(channel: Channel, pid: u32) -> Self {
        let lifetime = Lifetime::Persistent;
        Self { channel: Some(channel), container: None, pid, facts: Vec::new(), lifetime }
    }

    /// Starts a container that stopped and proves it again; one that runs unproven is killed first.
    /// `None` if it has to be replaced. Its setup command has run when it was made.
    pub fn restart(
        engine: &DockerBackend,
        id: &str,
        spec: &ContainerSpec,
    ) -> Result<Option<Self>, StartError> {
        let name = spec.identity().name.as_str().to_owned();
        let failed = |cause| StartError { name: name.clone(), cause };
        let proven = match engine.restart(id, spec) {
            Ok(Restarted::HasToBeReplaced) => return Ok(None),
            Ok(Restarted::Runs(container, stream)) => {
                prove(engine, spec, (*container, stream), Lifetime::Persistent)
            }
            Err(cause) => Err(cause),
        };
        match proven {
            // Nobody asked for what differs, so nobody says that its contents may go.
            Err(DockerFailure::Differs(found)) if found.iter().all(Difference::is_unasked) => {
                Err(failed(DockerFailure::DiffersKept(found)))
            }
            // It is not what was asked for, so it goes.
            Err(cause @ (DockerFailure::Facts(_) | DockerFailure::Differs(_))) => {
                engine.remove(id).map_err(failed)?;
                Err(failed(cause))
            }
            Err(cause) => Err(failed(cause)),
            Ok(mut pen) => {
                if let Some(container) = &mut pen.container {
                    container.place.let_go();
                }
                Ok(Some(pen))
            }
        }
    }

    /// Looks at a container of `spec` again, from inside and as far as possible from outside.
    pub fn look_again(
        &mut self,
        engine: &DockerBackend,
        spec: &ContainerSpec,
        id: &str,
    ) -> Result<Vec<Line>, DockerFailure> {
        if !self.facts.is_empty() {
            return Ok(self.facts.clone());
        }
        let user = engine.user_of(id)?;
        let pid = self.pid;
        let sources = Sources::look(spec)?;
        let channel = self.channel().map_err(DockerFailure::Report)?;
        let observed = Observed {
            host_namespaces: facts::own_namespaces()?,
            outside: outside(pid)?,
            cgroup: cgroup::limits(pid).ok(),
            inside: inside(channel, &sources)?,
        };
        let asked = asked(spec, user, engine, &sources)?;
        self.facts = rules_facts::compare(&asked, &observed);
        Ok(self.facts.clone())
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
    order: &Order<'_>,
    witness: Witness<'_>,
) -> Result<Pen, DockerFailure> {
    let made = engine.make(order, witness)?;
    let mut pen = prove(engine, order.spec, made, order.lifetime)?;
    if let Some(script) = order.spec.setup() {
        let lifetime = std::mem::replace(&mut pen.lifetime, Lifetime::UntilDisconnect);
        let channel = pen.channel().map_err(DockerFailure::Setup)?;
        set_up(channel, script)?;
        faults::reached("docker.set-up");
        pen.lifetime = lifetime;
    }
    if let (Lifetime::Persistent, Some(container)) = (pen.lifetime, &mut pen.container) {
        container.place.note(order.about)?;
        container.place.let_go();
    }
    Ok(pen)
}

/// From a container that runs to one whose facts hold.
fn prove(
    engine: &DockerBackend,
    spec: &ContainerSpec,
    (mut container, stream): (Container, UnixStream),
    lifetime: Lifetime,
) -> Result<Pen, DockerFailure> {
    let pid = container.first_process();
    let mut channel = Channel::connect_to_identify(stream, pid)?;
    let outside = outside(pid)?;
    // As the host numbers him: an engine may map its containers' users.
    let user = outside.as_ref().map_or(container.user.0, |seen| {
        let [real, ..] = seen.status.uids;
        real
    });
    let sources = std::mem::take(&mut container.sources);
    let observed = Observed {
        host_namespaces: facts::own_namespaces()?,
        outside,
        // Who may not look at the process may still read its groups.
        cgroup: cgroup::limits(pid).ok(),
        inside: inside(&mut channel, &sources)?,
    };
    let asked = asked(spec, container.user, engine, &sources)?;
    let mut facts = rules_facts::decide(&asked, &observed).map_err(DockerFailure::Facts)?;
    faults::reached("docker.proven");
    channel.seal().map_err(DockerFailure::Report)?;
    let owner = Owner { inside: container.user.0, outside: user };
    facts.push(sealed(&mut channel, pid, owner)?);
    // Whoever finds the note takes the container for proven and closed.
    match lifetime {
        Lifetime::UntilDisconnect => {}
        Lifetime::Persistent => engine.note(&container)?,
    }
    faults::reached("docker.sealed");
    Ok(Pen { channel: Some(channel), container: Some(container), pid, facts, lifetime })
}

/// Whose process 1 is, as the container and as the host number him.
#[derive(Debug, Clone, Copy)]
struct Owner {
    inside: u32,
    outside: u32,
}

/// Whether process 1 has closed itself. What is closed belongs to root of its user namespace, so that of a
/// process that is root's anyway nothing can be seen from outside: it is asked itself.
fn sealed(channel: &mut Channel, pid: u32, owner: Owner) -> Result<Line, DockerFailure> {
    let (memory, from) = if owner.inside == 0 || owner.outside == 0 {
        let report = channel.facts().map_err(DockerFailure::Report)?;
        (facts::inside(&report)?.supervisor.memory, Seen::Inside)
    } else {
        (facts::memory(pid, owner.outside)?, Seen::Outside)
    };
    let line = rules_facts::decide_sealed(memory, from);
    line.map_err(|mismatch| DockerFailure::Facts(vec![mismatch]))
}

/// Process 1 from outside; `None` where it belongs to another user and we are not root. What only
/// the host can see does not hold then, and what was asked of it refuses the start.
fn outside(pid: u32) -> Result<Option<Outside>, DockerFailure> {
    match facts::outside(pid) {
        Err(ObserveError::Read { cause, .. })
            if cause.kind() == io::ErrorKind::PermissionDenied =>
        {
            Ok(None)
        }
        found => Ok(Some(found?)),
    }
}

/// The supervisor's report, with the files that are really mounted.
fn inside(channel: &mut Channel, sources: &Sources) -> Result<Inside, DockerFailure> {
    let report = channel.facts().map_err(DockerFailure::Report)?;
    let mut inside = facts::inside(&report)?;
    let targets = sources.targets();
    let found = channel.identify(targets.clone()).map_err(DockerFailure::Report)?;
    facts::identify(&mut inside, &targets, &found);
    Ok(inside)
}

/// The facts that a spec asks for.
fn asked(
    spec: &ContainerSpec,
    (uid, gid): (u32, u32),
    engine: &DockerBackend,
    sources: &Sources,
) -> Result<Asked, DockerFailure> {
    let limits = EngineLimits::read(spec.limits()).map_err(DockerFailure::Limit)?;
    let positive = |number: Option<i64>| {
        number.and_then(|number| u64::try_from(number).ok()).filter(|number| *number > 0)
    };
    Ok(Asked {
        backend: Backend::Docker,
        user: PenUser { uid, gid },
        outside_uid: request::outside_user(spec, engine.engine.about()),
        groups: GroupsAsked::Given,
        ids: None,
        namespaces: match engine.maker() {
            Make::Docker => NAMESPACES.to_vec(),
            Make::Podman => NAMESPACES_OF_PODMAN.to_vec(),
        },
        mounts: MountsAsked::AtLeast(mounts(spec, sources, engine.maker())),
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

fn mounts(spec: &ContainerSpec, sources: &Sources, maker: Make) -> Vec<MountAsked> {
    let mount = |target: &str, flags: &[&'static str]| {
        let target = posix::normalize(target);
        let source = sources.at(&target);
        MountAsked { target, flags: flags.to_vec(), below: Below::Nothing, source }
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
    match maker {
        Make::Docker => {}
        // Its inspection does not tell which paths are closed.
        Make::Podman => mounts.push(mount("/proc/sys", &["ro"])),
    }
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
    Err(DockerFailure::SetupFailed { how, said })
}
