//! What a command gives up before it starts, and in which order.
//!
//! ```text
//! in the shim, once                            what is dear to make and is inherited for good
//!   the limit of processes                     what counts is the limit of the one who forks
//!   no-new-privs                               the two below need it
//!   Landlock
//!   seccomp                                    last: the shim needs nothing that a command does not
//! in the command's process
//!   session, descriptors, terminal, directory
//!   the other resource limits                  not for the shim, which must live to report
//!   every other descriptor closed              nothing of process 1 is left in the child
//! execve
//! ```
//!
//! The second part's order is kept by `clawpen_os::spawn`; here stands what goes into it. Ids, capabilities
//! and no-new-privs were settled once, for process 1 itself, and are inherited. Made once at the start,
//! because the spec does not change and a rule set can be applied any number of times.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;

use clawpen_os::beneath::{self, Open};
use clawpen_os::landlock::{self, Access, Ruleset, Scope, TcpPorts};
use clawpen_os::process::{self, Signal};
use clawpen_os::rlimits::{self, Limit, Resource};
use clawpen_os::seccomp::{self, Program};
use clawpen_os::spawn::{Actions, Image, Plan, Session};
use clawpen_wire::pen::{LandlockAccess, LandlockPlan, ResourceLimit, ServePlan};

use crate::facts::Probe;
use crate::faults;
use crate::report::{Failure, Step as _};

/// `RLIMIT_*` as the kernel numbers them on every architecture that we build for.
const RESOURCES: [Resource; 16] = [
    Resource::Cpu,
    Resource::FileSize,
    Resource::Data,
    Resource::Stack,
    Resource::Core,
    Resource::ResidentSet,
    Resource::Processes,
    Resource::OpenFiles,
    Resource::LockedMemory,
    Resource::AddressSpace,
    Resource::Locks,
    Resource::PendingSignals,
    Resource::MessageQueue,
    Resource::Nice,
    Resource::RealTimePriority,
    Resource::RealTimeTime,
];

/// Everything that a command is held by, ready to be put on.
#[derive(Debug)]
pub(crate) struct Confinement {
    limits: Vec<(Resource, Limit)>,
    landlock: Option<Ruleset>,
    seccomp: Program,
}

/// A command with all that it is given.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) program: Executable,
    pub(crate) argv: Vec<CString>,
    pub(crate) environment: Vec<CString>,
    pub(crate) directory: OwnedFd,
    pub(crate) session: Session,
    /// Standard input, output and error.
    pub(crate) streams: [OwnedFd; 3],
    pub(crate) telling: Telling,
}

/// When it is told that a command runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Telling {
    /// As soon as it does: somebody waits for that word, or types.
    AtOnce,
    /// With its end, if that comes soon.
    Gathered,
}

/// What is started.
#[derive(Debug)]
pub(crate) enum Executable {
    /// The places where a command may be, in order.
    Places(Vec<CString>),
    /// A program that is no file of the sandbox (`serve/programs.rs`).
    Held(OwnedFd),
    /// No program: the process looks at itself (`facts.rs`).
    Observer(Probe),
}

impl Confinement {
    pub(crate) fn prepare(plan: &ServePlan) -> Result<Self, Failure> {
        let mut limits = plan.rlimits.iter().map(limit).collect::<Result<Vec<_>, _>>()?;
        leave_room_for_signals(&mut limits)?;
        take_no_cores(&mut limits)?;
        leave_room_for_descriptors(&mut limits)?;
        let landlock = if faults::is_off("landlock") { None } else { ruleset(&plan.landlock)? };
        let seccomp = Program::from_bytes(&plan.seccomp).step("read the seccomp program")?;
        Ok(Self { limits, landlock, seccomp })
    }

    /// Confines the calling process, a shim, and with it everything that it will ever start.
    pub(crate) fn put_on(&self) -> io::Result<()> {
        self.limit_processes()?;
        let has_filter = !faults::is_off("seccomp");
        // Process 1 has set it for itself as well. The two below need it, whatever a test leaves out.
        if self.landlock.is_some() || has_filter || !faults::is_off("no-new-privs") {
            process::set_no_new_privs()?;
        }
        if let Some(ruleset) = &self.landlock {
            ruleset.restrict_self()?;
        }
        if has_filter {
            seccomp::install(&self.seccomp)?;
        }
        Ok(())
    }

    /// Puts the limit of processes on the caller, a shim: what counts is the limit of the one who forks. With
    /// it a full pen starts no command more, and says so.
    fn limit_processes(&self) -> io::Result<()> {
        self.process_limit().map_or(Ok(()), |limit| rlimits::set(Resource::Processes, limit))
    }

    /// The one limit that shims have too.
    pub(crate) fn process_limit(&self) -> Option<Limit> {
        let is_that = |(resource, _): &&(Resource, Limit)| *resource == Resource::Processes;
        let found = self.limits.iter().find(is_that).map(|(_, limit)| *limit);
        found.filter(|_| !faults::is_off("rlimits"))
    }

    /// The start of `prepared` by a shim that is confined already.
    pub(crate) fn plan<'a>(&'a self, prepared: &'a Prepared) -> Plan<'a> {
        let image = match &prepared.program {
            Executable::Places(places) => Image::Paths(places.clone()),
            Executable::Held(program) => Image::File(program.as_fd()),
            Executable::Observer(_) => Image::Paths(Vec::new()),
        };
        let argv = prepared.argv.clone();
        let mut plan = Plan::new(image, argv, prepared.environment.clone())
            .directory(prepared.directory.as_fd())
            .session(prepared.session)
            .actions(Actions::AreDefault)
            // The shim is what makes the tree reachable. Whoever kills it must not escape by that.
            .death_signal(Signal::KILL);
        for (number, stream) in (0..).zip(&prepared.streams) {
            plan = plan.descriptor(number, stream.as_fd());
        }
        if faults::is_off("descriptors") {
            plan = plan.descriptor(7, prepared.directory.as_fd());
        }
        if !faults::is_off("rlimits") {
            for &(resource, limit) in &self.limits {
                plan = plan.limit(resource, limit);
            }
        }
        plan
    }
}

/// Commands may fill half of the room that process 1 has for pending signals. All of one user share what is
/// filled: in a full one the kernel would no longer note who sends, and a signal from inside would look as
/// if it came from the host.
fn leave_room_for_signals(limits: &mut Vec<(Resource, Limit)>) -> Result<(), Failure> {
    let own = rlimits::get(Resource::PendingSignals).step("read a limit")?.soft;
    let Some(half) = own.map(|own| own / 2) else { return Ok(()) };
    let lower = |asked: Option<u64>| Some(asked.map_or(half, |asked| asked.min(half)));
    let room = limits.iter_mut().find(|(resource, _)| *resource == Resource::PendingSignals);
    match room {
        Some((_, limit)) => {
            *limit = Limit { soft: lower(limit.soft), hard: lower(limit.hard) };
        }
        None => {
            limits.push((Resource::PendingSignals, Limit { soft: Some(half), hard: Some(half) }));
        }
    }
    Ok(())
}

/// Commands may open half of what process 1 and its shims may, which take all they can get: descriptors on their
/// way through sockets are counted per user, against the limit of whoever sends. If commands had the same limit
/// as the shims, one could fill it, and no shim could hand anything over any more, in no pen of that user. A plan
/// that names the limit has its way.
fn leave_room_for_descriptors(limits: &mut Vec<(Resource, Limit)>) -> Result<(), Failure> {
    let Limit { soft, hard } = rlimits::get(Resource::OpenFiles).step("read a limit")?;
    let is_named = limits.iter().any(|(resource, _)| *resource == Resource::OpenFiles);
    let Some(half) = hard.map(|hard| hard / 2).filter(|_| !is_named) else { return Ok(()) };
    rlimits::set(Resource::OpenFiles, Limit { soft: hard, hard }).step("raise a limit")?;
    let soft = Some(soft.map_or(half, |soft| soft.min(half)));
    limits.push((Resource::OpenFiles, Limit { soft, hard: Some(half) }));
    Ok(())
}

/// One byte: no core file can be written, and unlike zero it also keeps the kernel from starting a program
/// of the host, as its root, that takes one. A plan that names the limit has its way.
fn take_no_cores(limits: &mut Vec<(Resource, Limit)>) -> Result<(), Failure> {
    let own = rlimits::get(Resource::Core).step("read a limit")?.hard;
    let is_named = limits.iter().any(|(resource, _)| *resource == Resource::Core);
    if !is_named && own.is_none_or(|own| own >= 1) && !faults::is_off("limit:4") {
        limits.push((Resource::Core, Limit { soft: Some(1), hard: Some(1) }));
    }
    Ok(())
}

fn limit(limit: &ResourceLimit) -> Result<(Resource, Limit), Failure> {
    let resource = usize::try_from(limit.resource).ok().and_then(|number| RESOURCES.get(number));
    let resource = resource
        .ok_or_else(|| Failure::new(format!("there is no resource limit {}", limit.resource)))?;
    let finite = |value| (value != u64::MAX).then_some(value);
    Ok((*resource, Limit { soft: finite(limit.soft), hard: finite(limit.hard) }))
}

fn ruleset(plan: &LandlockPlan) -> Result<Option<Ruleset>, Failure> {
    let abi = landlock::abi().step("ask for Landlock")?.unwrap_or(0);
    if abi < plan.lowest_abi {
        return Err(Failure::new(format!(
            "the kernel offers Landlock {abi}, and the pen spec asks for {}",
            plan.lowest_abi
        )));
    }
    let root = beneath::open_root(Path::new("/")).step("open the root")?;
    let mut opened = Vec::new();
    for rule in &plan.rules {
        match beneath::open(root.as_fd(), &rule.path, Open::HandleFollow) {
            Ok(path) => opened.push((path, access(rule.access))),
            Err(error) if rule.optional && error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                return Err(error)
                    .step_with(|| format!("open `{}` for Landlock", rule.path.display()));
            }
        }
    }
    let request = landlock::Request {
        paths: opened.iter().map(|(path, access)| (path.as_fd(), *access)).collect(),
        tcp: if plan.tcp { None } else { Some(TcpPorts::default()) },
        // Each command is a Landlock domain of its own, so a closed scope would also keep commands of
        // one pen from signalling each other. The pid and network namespaces draw that line around the
        // whole pen.
        scope: Scope::Open,
    };
    Ruleset::build(&request).step("build the Landlock rules")
}

fn access(access: LandlockAccess) -> Access {
    match access {
        LandlockAccess::Read => Access::READ,
        LandlockAccess::ReadExecute => Access::READ | Access::EXECUTE,
        LandlockAccess::ReadWriteFiles => {
            Access::READ | Access::WRITE_EXISTING | Access::IOCTL_DEVICE
        }
        LandlockAccess::ReadWrite => Access::READ | Access::WRITE | Access::IOCTL_DEVICE,
        LandlockAccess::Full => {
            Access::READ | Access::WRITE | Access::EXECUTE | Access::IOCTL_DEVICE
        }
    }
}
