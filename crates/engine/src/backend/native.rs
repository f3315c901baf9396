//! Native pens: the supervisor binary makes a pen of namespaces and becomes its process 1.
//!
//! ```text
//! spec ─► maker (supervisor binary, from memory) ─► process 1 ─► connect ─► observe ─► seal ─► ready
//!                                                          │                      └ here it may wait (`ahead.rs`)
//!                                                          └ a fact that does not hold kills it here
//! ```
//!
//! Takes a decided [`NativePen`]; gives a [`Pen`] whose facts hold, or nothing: on every failure
//! process 1 is killed and what was made for it is removed. No fork happens in this process.
//!
//! A pen that is to stay is written down by its [`Witness`] after it is proven and before it is
//! sealed. Until the seal process 1 ends with its first connection, so there is no moment in which a
//! pen lives that nobody knows of. [`Pen::find`] comes back to it.

mod ahead;
mod find;
mod plan;
mod run_directory;
mod start;
pub(crate) mod switches;

pub(crate) use ahead::Ahead;
pub(crate) use find::look;
pub use find::{FindError, Found, Survivor, Swept, about, lives, survivors, sweep};

pub(crate) use plan::{helpers, subordinate};

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

use clawpen_os::cgroups::Leaf;
use clawpen_os::events::{self, Interest};
use clawpen_os::process::{self, Signal};
use clawpen_rules::facts::{self as rules_facts, Asked, Holds, Line, Mismatch, Observed, Seen};
use clawpen_rules::native::NativePen;
use clawpen_rules::native::ids::IdsRefused;
use clawpen_wire::pen::Lifetime;

use self::plan::Blueprint;
use self::run_directory::RunDirectory;
use super::{Witness, WitnessError};
use crate::channel::{CallError, Channel, ConnectError};
use crate::facts::{self, ObserveError};
use crate::faults;
use crate::pen_view::ViewError;
use crate::registry::Identity;
use crate::supervisor_image::{Maker, StartPenError};

/// How long the kernel may take to end all processes of a pen.
const TEARDOWN: Duration = Duration::from_secs(5);

/// What to make a pen from.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    pub pen: &'a NativePen,
    /// Always the same for the same sandbox: it chooses the ids.
    pub name: &'a str,
    /// Below it the pen's socket lies: for a moment, or as long as a pen that stays.
    pub state_dir: &'a str,
    /// What a pen that stays tells about itself.
    pub about: &'a str,
    pub lifetime: Lifetime,
    pub require: &'a [Requirement],
}

/// A layer that must be in force although the floor does not ask for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requirement {
    Landlock,
    Cgroup,
    SubordinateIds,
    IdmappedMounts,
}

impl Requirement {
    pub const ALL: [Self; 4] =
        [Self::Landlock, Self::Cgroup, Self::SubordinateIds, Self::IdmappedMounts];

    /// As `native.require` writes it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Landlock => "landlock",
            Self::Cgroup => "cgroup",
            Self::SubordinateIds => "subordinateIds",
            Self::IdmappedMounts => "idmappedMounts",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.as_str() == text)
    }
}

/// There is no pen.
#[derive(Debug, thiserror::Error)]
#[error("cannot start the pen `{name}`")]
pub struct StartError {
    pub name: String,
    #[source]
    pub cause: StartFailure,
}

/// Why not.
#[derive(Debug, thiserror::Error)]
pub enum StartFailure {
    #[error(transparent)]
    Ids(#[from] IdsRefused),
    #[error("`native.require` asks for {}, which this machine does not give us; see `clawpen doctor`", .0.as_str())]
    Required(Requirement),
    #[error(transparent)]
    View(#[from] ViewError),
    #[error("cannot {what}")]
    System {
        what: &'static str,
        #[source]
        cause: io::Error,
    },
    #[error(transparent)]
    Maker(#[from] StartPenError),
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("the supervisor did not report what is in force")]
    Report(#[source] CallError),
    #[error("what is in force cannot be observed")]
    Observe(#[from] ObserveError),
    #[error("the pen is not what was asked for: {}", list(.0))]
    Facts(Vec<Mismatch>),
    #[error("the setup command could not be run")]
    Setup(#[source] CallError),
    #[error("the setup command failed: {how}{}", said_by(.said))]
    SetupFailed { how: String, said: String },
    #[error("the pen cannot be written down, so it was ended")]
    Witness(#[source] WitnessError),
}

/// What a setup command wrote before it failed, to be appended.
pub(super) fn said_by(said: &str) -> String {
    if said.is_empty() { String::new() } else { format!(": {said}") }
}

pub(super) fn list(mismatches: &[Mismatch]) -> String {
    mismatches.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// A running pen. Dropping it ends everything in it, unless its lifetime says otherwise.
#[derive(Debug)]
pub struct Pen {
    channel: Option<Channel>,
    running: Running,
    /// `None` for a pen that was found again: it was proven when it was made.
    asked: Option<Asked>,
    facts: Vec<Line>,
}

/// Process 1 and what was made for it on the host; undone when dropped.
#[derive(Debug)]
struct Running {
    pid: u32,
    pidfd: OwnedFd,
    leaf: Option<Leaf>,
    /// Where it is found again.
    directory: Directory,
    lifetime: Lifetime,
}

/// The pen's own directory on the host.
#[derive(Debug)]
enum Directory {
    /// Nobody is to come back.
    None,
    /// Ours while the pen is being made, and its own afterwards.
    Made(RunDirectory),
    /// Of a pen that was found again.
    Found(PathBuf),
}

impl Pen {
    /// Makes a pen and proves it, or takes one that was made `ahead`. `witness` writes down one that is to
    /// stay.
    pub(crate) fn start(
        request: &Request<'_>,
        ahead: &Ahead,
        witness: Witness<'_>,
    ) -> Result<Self, StartError> {
        start(request, ahead, witness)
            .map_err(|cause| StartError { name: request.name.to_owned(), cause })
    }

    /// Makes and proves pens for `request` until `count` wait.
    pub(crate) fn stock(
        request: &Request<'_>,
        ahead: &Ahead,
        count: usize,
    ) -> Result<(), StartError> {
        let fill = || {
            let blueprint = plan::draw(request)?;
            while ahead.count(request, &blueprint) < count {
                let proven = prove_with(request, &blueprint, ahead.maker()?)?;
                ahead.keep(request, blueprint.clone(), proven);
            }
            Ok(())
        };
        fill().map_err(|cause| StartError { name: request.name.to_owned(), cause })
    }

    /// The connection to process 1.
    pub fn channel(&mut self) -> Result<&mut Channel, CallError> {
        self.channel.as_mut().ok_or(CallError::Closed)
    }

    pub(super) const fn was_found(&self) -> bool {
        self.asked.is_none()
    }

    /// What was asked and what was found, before the first command.
    pub fn facts(&self) -> &[Line] {
        &self.facts
    }

    /// Process 1, as the host numbers it.
    pub const fn pid(&self) -> u32 {
        self.running.pid
    }

    /// Looks again at a pen of `request`: from inside, and from outside as far as this user may look
    /// at a process that is closed to observers.
    pub fn look_again(&mut self, request: &Request<'_>) -> Result<Vec<Line>, StartFailure> {
        let report = self.channel().and_then(Channel::facts).map_err(StartFailure::Report)?;
        let (asked, outside, cgroup) = if let Some(asked) = self.asked.take() {
            (asked, None, None)
        } else {
            let limits = plan::cgroup_limits(self.running.leaf.as_ref(), self.running.pid)?;
            (plan::asked_of(request)?, facts::outside(self.running.pid).ok(), limits)
        };
        let observed = Observed {
            host_namespaces: facts::own_namespaces()?,
            outside,
            cgroup,
            inside: facts::inside(&report)?,
        };
        let mut seen = rules_facts::compare(&asked, &observed);
        // Proven from outside when it was made; a user who is not root can look there no more.
        if observed.outside.is_none() {
            for line in seen.iter_mut().filter(|line| line.outside.is_none()) {
                if line.inside.as_ref() == Some(&line.asked) {
                    line.holds = Holds::Yes;
                }
            }
        }
        self.asked = Some(asked);
        if self.facts.is_empty() {
            self.facts = seen;
            return Ok(self.facts.clone());
        }
        let mut lines = self.facts.clone();
        // Only what could not be seen from inside before is news.
        for line in seen {
            if let Some(known) = lines.iter_mut().find(|known| known.fact == line.fact)
                && known.inside.is_none()
            {
                known.inside = line.inside;
            }
        }
        Ok(lines)
    }

    /// Ends the pen and waits until nothing of it is left.
    pub fn remove(mut self) -> Result<(), io::Error> {
        drop(self.channel.take());
        self.running.end(TEARDOWN)
    }
}

impl Running {
    fn end(&mut self, patience: Duration) -> io::Result<()> {
        match process::pidfd_signal(self.pidfd.as_fd(), Signal::KILL) {
            Ok(()) => {}
            // It has ended by itself.
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
            Err(error) => return Err(error),
        }
        if patience > Duration::ZERO || self.leaf.is_some() {
            let ended = events::poll(&[(self.pidfd.as_fd(), Interest::Read)], Some(TEARDOWN))?;
            if ended.is_empty() {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
        let left = match self.leaf.take() {
            Some(leaf) => leaf.remove(TEARDOWN),
            None => Ok(()),
        };
        let directory = match std::mem::replace(&mut self.directory, Directory::None) {
            Directory::None => Ok(()),
            Directory::Made(mut made) => {
                made.forget();
                Ok(())
            }
            Directory::Found(path) => run_directory::remove(&path, TEARDOWN),
        };
        left.and(directory)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        match self.lifetime {
            // Nobody is left to tell about a failure; what remains is found by the janitor.
            Lifetime::UntilDisconnect => drop(self.end(Duration::ZERO)),
            Lifetime::Persistent => {}
        }
    }
}

/// A pen that is what was asked for. Nothing has run in it, nobody else knows of it, and it ends with its value.
#[derive(Debug)]
struct Proven {
    running: Running,
    channel: Channel,
    directory: Option<RunDirectory>,
    asked: Asked,
    facts: Vec<Line>,
    /// Its user, as the host numbers him.
    user: u32,
}

impl Proven {
    fn process(&self) -> (u32, BorrowedFd<'_>) {
        (self.running.pid, self.running.pidfd.as_fd())
    }
}

/// The straight line: plan, make, connect, observe, compare, write down, seal, set up.
fn start(request: &Request<'_>, ahead: &Ahead, witness: Witness<'_>) -> Result<Pen, StartFailure> {
    // It gets going while we plan, unless there may be no need for one.
    let maker = if ahead.has_pens() { None } else { Some(ahead.maker()?) };
    let blueprint = plan::draw(request)?;
    let proven = match (ahead.take(request, &blueprint), maker) {
        (Some(proven), _) => proven,
        (None, Some(maker)) => prove_with(request, &blueprint, maker)?,
        (None, None) => prove_with(request, &blueprint, ahead.maker()?)?,
    };
    let pen = finish(request, proven, witness)?;
    ahead.given(request.name);
    Ok(pen)
}

/// The same as [`prove`]. A maker that waited may have been ended by somebody; then another makes the pen.
fn prove_with(
    request: &Request<'_>,
    blueprint: &Blueprint,
    maker: Maker,
) -> Result<Proven, StartFailure> {
    match prove(request, blueprint, maker) {
        Err(StartFailure::Maker(StartPenError::Vanished)) => {
            prove(request, blueprint, Maker::start()?)
        }
        proven => proven,
    }
}

/// Makes a pen from its plan and compares it with what was asked for.
fn prove(
    request: &Request<'_>,
    blueprint: &Blueprint,
    maker: Maker,
) -> Result<Proven, StartFailure> {
    let system = |what| move |cause| StartFailure::System { what, cause };
    // Before the control group: a janitor takes groups whose pen has no directory.
    let directory = if blueprint.needs_directory() {
        let made = RunDirectory::make(request.state_dir);
        Some(made.map_err(system("make the pen's own directory"))?)
    } else {
        None
    };
    faults::reached("native.directory");
    let plan::Plan { spec, leaf } = blueprint.furnish(directory.as_ref())?;
    faults::reached("native.planned");
    let made = match &directory {
        Some(directory) => start::make(maker, directory, &spec),
        None => start::make_nameless(maker, &spec),
    };
    let made = match made {
        Ok(made) => made,
        Err(failure) => {
            abandon(leaf, directory);
            return Err(failure);
        }
    };
    // Until it is proven, whatever fails ends it.
    let running = Running {
        pid: made.pid,
        pidfd: made.pidfd,
        leaf,
        directory: Directory::None,
        lifetime: Lifetime::UntilDisconnect,
    };
    faults::reached("native.made");
    let cgroup = plan::cgroup_limits(running.leaf.as_ref(), running.pid)?;
    // While the pen looks at itself, which it was asked for before it was made.
    let (outside, host_namespaces) = (facts::outside(running.pid)?, facts::own_namespaces()?);
    let (channel, report) = made.asked.answers()?;
    let report = report.map_err(StartFailure::Report)?;
    drop(made.apart);
    let inside = facts::inside(&report)?;
    let [user, ..] = outside.status.uids;
    let observed = Observed { host_namespaces, outside: Some(outside), cgroup, inside };
    let asked = blueprint.asked.clone();
    let facts = rules_facts::decide(&asked, &observed).map_err(StartFailure::Facts)?;
    faults::reached("native.proven");
    Ok(Proven { running, channel, directory, asked, facts, user })
}

/// Takes the control group of a pen away that was not made. Where that does not work yet, the directory stays: its
/// note is what a janitor finds the group by.
fn abandon(leaf: Option<Leaf>, directory: Option<RunDirectory>) {
    let is_gone = leaf.is_none_or(|leaf| leaf.remove(TEARDOWN).is_ok());
    if let Some(directory) = directory.filter(|_| !is_gone) {
        directory.leave();
    }
}

/// Gives a proven pen to its owner.
fn finish(
    request: &Request<'_>,
    proven: Proven,
    witness: Witness<'_>,
) -> Result<Pen, StartFailure> {
    let system = |what| move |cause| StartFailure::System { what, cause };
    let Proven { mut running, mut channel, directory, asked, mut facts, user } = proven;
    match request.lifetime {
        // Nobody comes back; but if we are killed, its control group is found by the directory.
        Lifetime::UntilDisconnect => {
            running.directory = directory.map_or(Directory::None, Directory::Made);
        }
        Lifetime::Persistent => {
            let missing = || io::Error::from(io::ErrorKind::NotFound);
            let directory =
                directory.ok_or_else(missing).map_err(system("tell the pen from others"))?;
            let identity = find::identity(running.pid, &directory)
                .map_err(system("tell the pen from others"))?;
            running.directory = Directory::Made(directory);
            witness(&Identity::Native(identity)).map_err(StartFailure::Witness)?;
            faults::reached("native.written");
        }
    }
    channel.seal().map_err(StartFailure::Report)?;
    faults::reached("native.sealed");
    let memory = facts::memory(running.pid, user)?;
    let sealed = rules_facts::decide_sealed(memory, Seen::Outside);
    facts.push(sealed.map_err(|mismatch| StartFailure::Facts(vec![mismatch]))?);
    if let Some(script) = request.pen.setup() {
        start::set_up(&mut channel, script)?;
        faults::reached("native.set-up");
    }
    if let (Directory::Made(directory), Lifetime::Persistent) =
        (&mut running.directory, request.lifetime)
    {
        directory.keep(request.about).map_err(system("note what the pen is"))?;
    }
    // From here on its owner decides how long it lives.
    running.lifetime = request.lifetime;
    Ok(Pen { channel: Some(channel), running, asked: Some(asked), facts })
}
