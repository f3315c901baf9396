//! The keeper of one program: the embedded supervisor in its mode `keep`, between us and what runs.
//!
//! It is the parent of all that the program starts and ends what is left of it, however it detached: when the program
//! has ended, when our end of the socket closes, and so also when this process is killed. A keeper that does not
//! answer is killed with its tree. One that ends in another way than its own was ended by somebody, most likely by the
//! program, which runs as the same user: the run is then lost, and [`super::orphans`] ends what it left.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use clawpen_os::events::{self, Interest};
use clawpen_os::process::{Child, ExitStatus, Signal, kill, kill_group, pidfd_open};
use clawpen_os::sockets;
use clawpen_os::spawn::{Image, Plan, Session, SpawnError, Step};
use clawpen_os::tree::descendants_of;

use super::orphans;
use super::pinned::SCRIPT_DESCRIPTOR;
use crate::supervisor_image;

/// How long killed processes are waited for; one stuck in the kernel does not die.
const LAST_MOMENTS: Duration = Duration::from_secs(6);
const PROGRAM: i32 = 4;
const DOOR: i32 = 5;
const STREAMS: [i32; 3] = [7, 8, 9];
/// Longer than any word of a keeper.
const MESSAGE: usize = 16;

/// A program that is to run. Either `program` is the file, or `path` says where it is.
pub(super) struct Wanted<'a> {
    pub(super) path: Option<CString>,
    pub(super) program: Option<BorrowedFd<'a>>,
    pub(super) script: Option<BorrowedFd<'a>>,
    pub(super) words: Vec<CString>,
    pub(super) environment: &'a [CString],
    pub(super) directory: BorrowedFd<'a>,
    pub(super) streams: [BorrowedFd<'a>; 3],
}

/// A program at work, and its keeper.
pub(super) struct Keeper {
    process: Child,
    /// `None` once we have let go of it.
    door: Option<OwnedFd>,
    is_over: bool,
}

/// Starts a program under a keeper of its own.
pub(super) fn start(wanted: &Wanted<'_>) -> Result<Keeper, SpawnError> {
    let at_clone = |cause| SpawnError { step: Step::Clone, cause };
    let supervisor = supervisor_image::program().map_err(at_clone)?;
    let null = events::open_null().map_err(at_clone)?;
    let (door, theirs) = sockets::pair(sockets::Kind::Messages).map_err(at_clone)?;
    let kind = if wanted.path.is_some() { c"path" } else { c"file" };
    let mut argv: Vec<CString> = [c"clawpen-supervisor", c"keep", kind].map(CString::from).to_vec();
    argv.extend(wanted.path.clone());
    argv.extend(wanted.words.iter().cloned());
    let mut plan = Plan::new(Image::File(supervisor), argv, wanted.environment.to_vec())
        .descriptor(0, null.as_fd())
        .descriptor(1, null.as_fd())
        .descriptor(2, null.as_fd())
        .descriptor(DOOR, theirs.as_fd())
        .directory(wanted.directory)
        .session(Session::New);
    for (number, stream) in STREAMS.into_iter().zip(wanted.streams) {
        plan = plan.descriptor(number, stream);
    }
    if let Some(program) = wanted.program {
        plan = plan.descriptor(PROGRAM, program);
    }
    if let Some(script) = wanted.script {
        plan = plan.descriptor(SCRIPT_DESCRIPTOR, script);
    }
    let process = plan.spawn()?;
    drop(theirs);
    let keeper = Keeper { process, door: Some(door), is_over: false };
    orphans::know(keeper.process.pid());
    keeper.began()?;
    Ok(keeper)
}

impl Keeper {
    /// Waits until the program runs. It takes about a millisecond, and whoever starts a program waits as long.
    fn began(&self) -> Result<(), SpawnError> {
        let died = || io::Error::other("its keeper makes no sense");
        let at_clone = |cause| SpawnError { step: Step::Clone, cause };
        let mut buffer = [0; MESSAGE];
        match self.receive(&mut buffer).map_err(at_clone)? {
            // The second: ended before it could say anything. The program may be quicker than its keeper's word: then the run is
            // lost, which is seen when the keeper's remains are.
            [b'r'] | [] => Ok(()),
            [b'f', rest @ ..] => {
                let number =
                    |at: usize| -> Option<[u8; 4]> { rest.get(at..at + 4)?.try_into().ok() };
                let step = number(0).map(u32::from_le_bytes);
                let step = STEPS.into_iter().find(|known| Some(*known as u32) == step);
                let cause = number(4).map(i32::from_le_bytes);
                Err(SpawnError {
                    step: step.unwrap_or(Step::Exec),
                    cause: cause.map_or_else(died, io::Error::from_raw_os_error),
                })
            }
            _ => Err(at_clone(died())),
        }
    }

    fn receive<'b>(&self, buffer: &'b mut [u8]) -> io::Result<&'b [u8]> {
        let Some(door) = &self.door else { return Ok(&[]) };
        match sockets::receive(door.as_fd(), buffer, 0) {
            Ok(message) => Ok(buffer.get(..message.bytes).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(&[]),
            Err(error) => Err(error),
        }
    }

    /// Readable when the program has ended.
    pub(super) fn said(&self) -> BorrowedFd<'_> {
        self.door.as_ref().map_or_else(|| self.process.pidfd(), |door| door.as_fd())
    }

    /// How the program ended, once [`Keeper::said`] is readable. `None`: the keeper ended without a word.
    pub(super) fn hear(&self) -> io::Result<Option<ExitStatus>> {
        let mut buffer = [0; MESSAGE];
        Ok(match self.receive(&mut buffer)? {
            [b'c', code] => Some(ExitStatus::Code(*code)),
            [b's', number] => Signal::new((*number).into()).map(ExitStatus::Signal),
            _ => None,
        })
    }
}

/// The keepers of a pipeline. What is left when this goes out of scope is ended.
#[derive(Default)]
pub(super) struct Keepers(pub(super) Vec<Keeper>);

/// How keepers ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kept {
    /// In their own way: nothing is left.
    All,
    /// One was ended by somebody. What it kept may be left.
    NotAll,
}

impl Keepers {
    /// Ends what is left, and waits for it.
    pub(super) fn finish(mut self) -> Kept {
        self.end()
    }

    fn end(&mut self) -> Kept {
        // All of them hear it before any is waited for.
        for keeper in &mut self.0 {
            keeper.door = None;
        }
        let end = Instant::now() + LAST_MOMENTS;
        let mut kept = Kept::All;
        for mut keeper in self.0.drain(..) {
            keeper.is_over = true;
            if end_one(&keeper.process, end) == Kept::NotAll {
                kept = Kept::NotAll;
            }
        }
        kept
    }
}

impl Drop for Keepers {
    fn drop(&mut self) {
        if self.end() == Kept::NotAll {
            // Whoever leaves early reports an error of his own.
            let _left = orphans::end();
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.door = None;
        let end = Instant::now() + LAST_MOMENTS;
        if !self.is_over && end_one(&self.process, end) == Kept::NotAll {
            let _left = orphans::end();
        }
        orphans::forget(self.process.pid());
    }
}

/// Waits for a keeper whose socket is closed; kills what can be seen of it if it does not end.
fn end_one(keeper: &Child, end: Instant) -> Kept {
    loop {
        let rest = end.saturating_duration_since(Instant::now());
        match keeper.try_wait() {
            Ok(None) if !rest.is_zero() => {
                let _ended = events::poll(&[(keeper.pidfd(), Interest::Read)], Some(rest));
            }
            Ok(None) => break,
            Ok(Some(ended)) => {
                return match ended.status {
                    ExitStatus::Code(0) => Kept::All,
                    ExitStatus::Code(_) | ExitStatus::Signal(_) => Kept::NotAll,
                };
            }
            // Nobody else reaps it.
            Err(_) => return Kept::NotAll,
        }
    }
    let mut left: Vec<OwnedFd> = Vec::new();
    // Parents are stopped before their children are counted, so that none forks away.
    for signal in [Signal::STOP, Signal::KILL] {
        let tree = descendants_of(keeper.pid()).unwrap_or_default();
        left.extend(tree.iter().filter_map(|pid| pidfd_open(*pid).ok()));
        for pid in tree {
            let _gone = kill(pid, signal);
            let _gone = kill_group(pid, signal);
        }
    }
    let _gone = keeper.signal(Signal::KILL);
    let _reaped = keeper.wait();
    // Killed is not yet gone: whoever is told that it is over must not find it at work.
    let end = Instant::now() + LAST_MOMENTS;
    for process in left {
        let rest = end.saturating_duration_since(Instant::now());
        let _ended = events::poll(&[(process.as_fd(), Interest::Read)], Some(rest));
    }
    Kept::NotAll
}

/// The steps of a start, by their numbers.
const STEPS: [Step; 14] = [
    Step::Clone,
    Step::Signals,
    Step::DeathSignal,
    Step::Session,
    Step::Descriptors,
    Step::Terminal,
    Step::Directory,
    Step::Limits,
    Step::Identity,
    Step::NoNewPrivs,
    Step::Landlock,
    Step::Close,
    Step::Seccomp,
    Step::Exec,
];
