//! The process between process 1 and one command: parent of all that the command leaves behind.
//!
//! It is a subreaper, so whatever the command starts stays below it, however it detaches. When the
//! command's first process has ended, the shim ends the rest, says how it went, and ends. It is confined
//! as its command is (`confine.rs`), runs as the same user, and may be stopped or killed by it at any moment:
//! process 1 relies on it for nothing but the report. If it goes missing, its orphans become children of
//! process 1, which kills them.
//!
//! One stands by ahead of time, because what is dear (the fork, the filter) does not depend on the command. One
//! whose command has left nothing behind stands by for the next:
//!
//! ```text
//! standing by ◄─┬──────┐    any number of times: an observer is forked, looks at itself and ends
//!      │ observe ┘      │
//!      ▼ order          │    (orders.rs; one that was made for its command starts here)
//! started <pid> + pidfd │   the command runs
//! failed <step> <errno> │   it does not; nothing was started, and the shim ends
//! ended <how> <usage> ──┘   the first process has ended and the tree is gone; if not quite, the shim ends
//! ```
//!
//! A command that is over soon is told of in one message, started and ended: each word wakes process 1 and the host,
//! and the kernel likes to have them wait for the command's own processor, or the command for them.
//!
//! Nothing of a command stays in its shim: its descriptors are closed, its processes are reaped, its usage was
//! told. What commands can do to a shim from outside is the same whether it has served or not (`serve/standby.rs`).

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::time::Duration;

use clawpen_os::events;
use clawpen_os::namespaces::Namespaces;
use clawpen_os::process::{self, Dumpable, ExitStatus, Forked, Pid, Reaped, Signal, Usage};
use clawpen_os::sockets;
use clawpen_os::spawn::{SpawnError, Step};
use clawpen_os::tree;
use clawpen_wire::supervisor::{End, Usage as WireUsage};

use crate::confine::{Confinement, Executable, Prepared, Telling};
use crate::facts::{self, Probe};

pub(crate) mod orders;

use orders::Orders;

/// How long the shim tries to end what the command left; process 1 takes over after it.
const TREE_LIMIT: Duration = Duration::from_secs(5);
/// How long the word that a command runs may wait for the word that it is over.
const SOON: Duration = Duration::from_millis(2);
/// `EMFILE`.
const TOO_MANY_FILES: i32 = 24;
/// Longer than any message.
const MESSAGE: usize = 64;

/// What a shim says.
#[derive(Debug)]
pub(crate) enum Said {
    Started(Start),
    Failed {
        step: Step,
        errno: i32,
    },
    /// Nothing, and it never will: it was killed before it had its order. Nothing has run.
    NotTaken,
    Ended(Ending),
    /// Both at once. No handle comes with it: nobody is left to be signalled.
    RanThrough {
        pid: u32,
        ending: Ending,
    },
}

/// A command runs.
#[derive(Debug)]
pub(crate) struct Start {
    pub(crate) pid: u32,
    pub(crate) pidfd: OwnedFd,
}

/// Its first process has ended.
#[derive(Debug)]
pub(crate) struct Ending {
    pub(crate) end: End,
    pub(crate) usage: WireUsage,
    /// Whether nothing is left of its tree.
    pub(crate) clean: bool,
}

/// What a shim is made for.
#[derive(Debug)]
pub(crate) enum Task {
    /// This command.
    Run(Box<Prepared>),
    /// Whatever comes over the status socket.
    StandBy,
}

/// The life of a shim. Never returns to what process 1 was doing.
pub(crate) fn run(task: Task, confinement: &Confinement, status: OwnedFd) -> ! {
    let told = live(task, confinement, status.as_fd());
    process::exit_now(u8::from(told.is_err()))
}

fn live(task: Task, confinement: &Confinement, status: BorrowedFd<'_>) -> io::Result<()> {
    // Process 1 may still be open to the host's look. No command looks into what will be its parent.
    process::set_dumpable(Dumpable::No)?;
    process::set_child_subreaper()?;
    // Process 1 has all others at their defaults.
    events::heed_broken_pipes()?;
    if let Err(error) = confinement.put_on() {
        // Without its confinement nothing starts, ever.
        return fail(status, &SpawnError { step: Step::Seccomp, cause: error });
    }
    let mut orders = Orders::new(status);
    let mut next = match task {
        Task::Run(prepared) => Some(*prepared),
        Task::StandBy => None,
    };
    loop {
        let prepared = match next.take() {
            Some(prepared) => prepared,
            None => match stand_by(&mut orders, confinement)? {
                Some(prepared) => prepared,
                // Process 1 has no use for it any more.
                None => return Ok(()),
            },
        };
        match watch(prepared, confinement, status)? {
            Left::Nothing => {}
            Left::Something => return Ok(()),
        }
    }
}

/// Waits for a command; `None` if there will be none.
fn stand_by(orders: &mut Orders<'_>, confinement: &Confinement) -> io::Result<Option<Prepared>> {
    while let Some(prepared) = orders.take()? {
        match prepared.program {
            Executable::Places(_) | Executable::Held(_) => return Ok(Some(prepared)),
            Executable::Observer(probe) => observe(&prepared, confinement, probe),
        }
    }
    Ok(None)
}

/// Forks a process that is held by all that a command is held by, and looks at itself. Its report goes to
/// process 1; whatever goes wrong shows there as a report that is not whole.
fn observe(prepared: &Prepared, confinement: &Confinement, probe: Probe) {
    match process::clone3(Namespaces::NONE, None) {
        Ok(Forked::Parent(child)) => drop(child.wait()),
        Ok(Forked::Child) => {
            let is_held = confinement.plan(prepared).stay().is_ok();
            let done = is_held && facts::observe(probe).is_ok();
            process::exit_now(u8::from(!done))
        }
        Err(_) => {}
    }
}

fn fail(status: BorrowedFd<'_>, SpawnError { step, cause }: &SpawnError) -> io::Result<()> {
    let mut message = vec![b'f', step_number(*step)];
    message.extend_from_slice(&cause.raw_os_error().unwrap_or_default().to_le_bytes());
    sockets::send(status, &message, &[]).map(drop)
}

/// Runs one command to its end. Says what is left of it, or [`Left::Something`] if it could not be started.
fn watch(
    prepared: Prepared,
    confinement: &Confinement,
    status: BorrowedFd<'_>,
) -> io::Result<Left> {
    let started = confinement.plan(&prepared).spawn();
    let telling = prepared.telling;
    // The command's ends of its pipes: while we held one, no reader would see its end.
    drop(prepared);
    let child = match started {
        Ok(child) => child,
        Err(error) => return fail(status, &error).map(|()| Left::Something),
    };
    let mut total = Total::default();
    let soon = match telling {
        Telling::AtOnce => Duration::ZERO,
        Telling::Gathered => SOON,
    };
    // However this ends: what counts is who is there to be reaped.
    drop(events::poll(&[(child.pidfd(), events::Interest::Read)], Some(soon)));
    let (early, left) = reap(child.pid(), &mut total)?;
    let pid = child.pid().get().to_le_bytes();
    if let Some(main) = early.filter(|_| left == Left::Nothing) {
        let message = [&b"r"[..], &pid, &total.message(main, Left::Nothing)].concat();
        sockets::send(status, &message, &[])?;
        return Ok(Left::Nothing);
    }
    if let Err(cause) = sockets::send(status, &[&b"s"[..], &pid].concat(), &[child.pidfd()]) {
        // Nobody could signal it. The kernel refuses when too many descriptors of this user are on their
        // way, which may be the doing of others.
        let _ = child.signal(Signal::KILL);
        return fail(status, &SpawnError { step: Step::Clone, cause }).map(|()| Left::Something);
    }

    let main = early.map_or_else(|| wait_for(child.pid(), &mut total), Ok)?;
    // Nearly every command leaves nothing; looking for more than that costs a walk through `/proc`.
    let is_gone = reap(child.pid(), &mut total)?.1 == Left::Nothing
        || tree::kill_descendants(TREE_LIMIT, &mut |ended| total.add(&ended.usage)).is_ok();
    let left = if is_gone { Left::Nothing } else { Left::Something };
    sockets::send(status, &total.message(main, left), &[])?;
    Ok(left)
}

/// Reaps what has ended by now. Gives how the first process ended, if it has, and what is left.
fn reap(main: Pid, total: &mut Total) -> io::Result<(Option<ExitStatus>, Left)> {
    let mut status = None;
    loop {
        match process::reap_any()? {
            Reaped::Ended(ended) => {
                total.add(&ended.usage);
                status = status.or_else(|| (ended.pid == main).then_some(ended.status));
            }
            Reaped::NoneEnded => return Ok((status, Left::Something)),
            Reaped::NoChildren => return Ok((status, Left::Nothing)),
        }
    }
}

fn wait_for(main: Pid, total: &mut Total) -> io::Result<ExitStatus> {
    loop {
        let ended = process::wait_any()?.ok_or(io::ErrorKind::NotFound)?;
        total.add(&ended.usage);
        if ended.pid == main {
            return Ok(ended.status);
        }
    }
}

/// What a shim could not end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Left {
    Nothing,
    Something,
}

/// What the whole tree used. Each reaped process already carries what it has reaped itself.
#[derive(Debug, Default)]
struct Total {
    user: Duration,
    system: Duration,
    peak_bytes: u64,
}

impl Total {
    fn add(&mut self, usage: &Usage) {
        self.user += usage.user;
        self.system += usage.system;
        self.peak_bytes = self.peak_bytes.max(usage.peak_memory_bytes);
    }

    fn message(&self, main: ExitStatus, tree: Left) -> Vec<u8> {
        let (kind, code) = match main {
            ExitStatus::Code(code) => (b'c', i32::from(code)),
            ExitStatus::Signal(signal) => (b's', signal.get()),
        };
        let mut message = vec![b'e', kind, u8::from(tree == Left::Nothing)];
        message.extend_from_slice(&code.to_le_bytes());
        for number in [micros(self.user), micros(self.system), self.peak_bytes / 1024] {
            message.extend_from_slice(&number.to_le_bytes());
        }
        message
    }
}

pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Whether the shim could still say something.
pub(crate) fn is_connected(status: BorrowedFd<'_>) -> bool {
    let look = events::poll(&[(status, events::Interest::None)], Some(Duration::ZERO));
    look.is_ok_and(|events| events.iter().all(|event| !event.hung_up))
}

/// The next thing a shim said; `None` if there is nothing (yet, or any more).
pub(crate) fn hear(status: BorrowedFd<'_>) -> Option<Said> {
    let mut buffer = [0_u8; MESSAGE];
    let mut received = sockets::receive(status, &mut buffer, 1);
    if received.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::ConnectionReset) {
        // The kernel tells first, and once, that the other side closed with something unread: its order.
        // What it said before is still there.
        received = sockets::receive(status, &mut buffer, 1);
        if received.as_ref().is_ok_and(|message| message.bytes == 0) {
            return Some(Said::NotTaken);
        }
    }
    let message = match received {
        Ok(message) => message,
        // There was no number left for the handle: a command that cannot be signalled is none.
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            return Some(Said::Failed { step: Step::Clone, errno: TOO_MANY_FILES });
        }
        Err(_) => return None,
    };
    let text = buffer.get(..message.bytes)?;
    match text.split_first()? {
        (b's', rest) => {
            let pid = u32::from_le_bytes(*rest.first_chunk()?);
            let pidfd = message.descriptors.into_iter().next()?;
            Some(Said::Started(Start { pid, pidfd }))
        }
        (b'r', rest) => {
            let (pid, rest) = rest.split_first_chunk()?;
            let ending = parse_end(rest.strip_prefix(b"e")?)?;
            Some(Said::RanThrough { pid: u32::from_le_bytes(*pid), ending })
        }
        (b'f', rest) => {
            let (step, rest) = rest.split_first()?;
            Some(Said::Failed {
                step: step_of(*step),
                errno: i32::from_le_bytes(*rest.first_chunk()?),
            })
        }
        (b'e', rest) => parse_end(rest).map(Said::Ended),
        _ => None,
    }
}

fn parse_end(text: &[u8]) -> Option<Ending> {
    let (&[kind, clean], rest) = text.split_first_chunk()?;
    let (code, rest) = rest.split_first_chunk()?;
    let code = i32::from_le_bytes(*code);
    let mut numbers = rest
        .chunks_exact(8)
        .filter_map(|bytes| bytes.first_chunk())
        .copied()
        .map(u64::from_le_bytes);
    let usage = WireUsage {
        user_us: numbers.next()?,
        system_us: numbers.next()?,
        max_rss_kib: numbers.next()?,
        wall_us: 0,
    };
    let end = if kind == b'c' { End::Code(code) } else { End::Signal(code) };
    Some(Ending { end, usage, clean: clean == 1 })
}

/// The steps that are told apart by what the host is told; all others are protections.
fn step_number(step: Step) -> u8 {
    match step {
        Step::Clone => 1,
        Step::Directory => 2,
        Step::Exec => 3,
        Step::Landlock => 4,
        Step::Seccomp => 5,
        Step::Limits => 6,
        Step::Terminal => 7,
        _ => 0,
    }
}

fn step_of(number: u8) -> Step {
    match number {
        1 => Step::Clone,
        2 => Step::Directory,
        3 => Step::Exec,
        4 => Step::Landlock,
        5 => Step::Seccomp,
        6 => Step::Limits,
        7 => Step::Terminal,
        _ => Step::NoNewPrivs,
    }
}
