//! The commands: those that run, and those background ones whose output is still kept.
//!
//! ```text
//! starting ──started──► running ──shim gone, tree gone──► draining ──all output sent──► over
//!     └────failed──────────────────────────────────────────────────────────────────────► over
//! ```
//!
//! *Over* removes a foreground command; a background one stays, with its output, until it is forgotten or
//! room is needed.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::time::{Duration, Instant};

use clawpen_os::events::{self, Epoll, Interest};
use clawpen_os::process::{self, Child, Pid, Signal};
use clawpen_os::tree;
use clawpen_wire::supervisor::{End, Exited, ProcessEntry, ProcessId, ProcessState, Stream, Usage};

use crate::confine::Prepared;
use crate::exec::Ends;
use crate::facts::View;
use crate::serve::watch::{ConnectionId, Token, Watched};
use crate::shim::{self, Ending, Start};

pub(crate) mod ring;

use ring::Ring;

/// Input that waits until the command reads.
pub(crate) const INPUT_WAITING: usize = 256 * 1024;
/// After a kill, how long the shim has to report before it is killed too.
const SHIM_GRACE: Duration = Duration::from_millis(200);
/// Rounds of looking for new descendants while a tree is being stopped.
const STOP_ROUNDS: usize = 64;

/// Who gets a command's output.
#[derive(Debug)]
pub(crate) enum Owner {
    /// A channel, as far as it has given credit.
    Stream { connection: ConnectionId, channel: u32, credit: u32 },
    /// Nobody in particular; the newest part is kept.
    Background(Ring),
    /// The inside report for a channel.
    Observer { connection: ConnectionId, channel: u32, report: Vec<u8>, view: Option<Box<View>> },
    /// The connection is gone and the command is being killed.
    Nobody,
}

/// Input on its way into the command.
#[derive(Debug)]
pub(crate) struct Input {
    pipe: Watched,
    waiting: VecDeque<u8>,
    ends: bool,
    is_terminal: bool,
    /// Bytes taken since the last credit was given.
    pub(crate) taken: u32,
}

/// One command.
#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) id: ProcessId,
    pub(crate) owner: Owner,
    pub(crate) name: OsString,
    pub(crate) label: OsString,
    pub(crate) shim: Option<Child>,
    /// What its shim was told, until that has taken it or is to be killed.
    pub(crate) order: Option<Prepared>,
    pub(crate) pid: u32,
    main: Option<OwnedFd>,
    pub(crate) status: Option<Watched>,
    pub(crate) input: Option<Input>,
    pub(crate) stdout: Option<Watched>,
    pub(crate) stderr: Option<Watched>,
    /// Bytes read of both streams.
    pub(crate) written: u64,
    started: Instant,
    /// When the next of time-out, kill after grace, kill of the shim is due.
    pub(crate) due: Option<(Instant, Due)>,
    grace: Duration,
    pending: Option<Signal>,
    timed_out: bool,
    said: Option<(End, Usage)>,
    /// The shim has ended; whether it left no orphan.
    pub(crate) gone: Option<Tree>,
    pub(crate) exited: Option<Exited>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tree {
    /// Nothing is left of it.
    Gone,
    /// Its orphans are being killed.
    Orphans,
}

/// What is to happen when the time has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    TimeOut,
    KillTree,
    KillShim,
}

/// How a command is to run, apart from what it is.
#[derive(Debug)]
pub(crate) struct Terms {
    pub(crate) owner: Owner,
    pub(crate) timeout: Option<Duration>,
    pub(crate) grace: Duration,
}

impl Command {
    pub(crate) fn new(id: ProcessId, argv: &[OsString], ends: Ends, terms: Terms) -> Self {
        let is_terminal = ends.is_terminal;
        let input = ends.input.map(|fd| Input {
            pipe: Watched::new(fd, Token::Stdin(id)),
            waiting: VecDeque::new(),
            ends: false,
            is_terminal,
            taken: 0,
        });
        Self {
            id,
            owner: terms.owner,
            name: argv.first().cloned().unwrap_or_default(),
            label: label(argv),
            shim: None,
            order: None,
            pid: 0,
            main: None,
            status: None,
            input,
            stdout: Some(Watched::new(ends.output, Token::Stdout(id))),
            stderr: ends.error.map(|fd| Watched::new(fd, Token::Stderr(id))),
            written: 0,
            started: Instant::now(),
            due: terms.timeout.map(|timeout| (Instant::now() + timeout, Due::TimeOut)),
            grace: terms.grace,
            pending: None,
            timed_out: false,
            said: None,
            gone: None,
            exited: None,
        }
    }

    pub(crate) fn is_running(&self) -> bool {
        self.exited.is_none()
    }

    /// Whether its shim has told that it runs, or can no longer tell.
    pub(crate) fn is_told(&self) -> bool {
        self.pid != 0 || self.shim.is_none()
    }

    /// Its shim says that it runs.
    pub(crate) fn has_started(&mut self, Start { pid, pidfd }: Start) {
        self.runs_as(pid);
        if let Some(signal) = self.pending.take() {
            let _ = process::pidfd_signal(pidfd.as_fd(), signal);
        }
        self.main = Some(pidfd);
    }

    /// Its shim has taken it, and this is its number.
    pub(crate) fn runs_as(&mut self, pid: u32) {
        self.order = None;
        self.pid = pid;
    }

    /// Its shim says that it is over.
    pub(crate) fn has_ended(&mut self, Ending { end, usage, clean }: &Ending) {
        self.said = Some((*end, *usage));
        if *clean {
            self.gone = Some(Tree::Gone);
            // Whether it was in time is settled, however long its output is not taken.
            self.due = None;
        }
    }

    /// The shim was reaped: it is gone, and without a last word its tree is not.
    pub(crate) fn shim_ended(&mut self) {
        self.shim = None;
        self.order = None;
        self.gone = Some(self.gone.unwrap_or(Tree::Orphans));
    }

    /// Signals the first process.
    pub(crate) fn signal(&mut self, signal: Signal) {
        match &self.main {
            // It may have ended; the shim will say so.
            Some(main) => drop(process::pidfd_signal(main.as_fd(), signal)),
            None if signal == Signal::KILL => self.kill_shim(),
            None if self.is_called_off() => {}
            None => self.pending = Some(signal),
        }
    }

    /// Signals every descendant.
    pub(crate) fn signal_tree(&mut self, signal: Signal) {
        if signal == Signal::KILL {
            return self.kill_tree();
        }
        if self.main.is_none() {
            return self.signal(signal);
        }
        for pid in self
            .shim
            .as_ref()
            .and_then(|shim| tree::descendants_of(shim.pid()).ok())
            .unwrap_or_default()
        {
            let _ = process::kill(pid, signal);
        }
    }

    /// Kills every descendant. The shim is left to reap them and to report; if it does not soon, because
    /// the command has stopped it, it is killed too and process 1 inherits what is left.
    pub(crate) fn kill_tree(&mut self) {
        let Some(shim) = self.shim.as_ref().map(Child::pid).filter(|_| self.main.is_some()) else {
            return self.kill_shim();
        };
        stop_and_kill(|| tree::descendants_of(shim).unwrap_or_default());
        self.due = Some((Instant::now() + SHIM_GRACE, Due::KillShim));
    }

    pub(crate) fn kill_shim(&mut self) {
        self.due = None;
        self.order = None;
        match &self.shim {
            Some(shim) => drop(shim.signal(Signal::KILL)),
            // It still waits for its start, in this same turn.
            None if self.gone.is_none() => self.pending = Some(Signal::KILL),
            None => {}
        }
    }

    /// Whether it was killed before it was started.
    pub(crate) fn is_called_off(&self) -> bool {
        self.shim.is_none() && self.pending == Some(Signal::KILL)
    }

    /// Does what is due.
    pub(crate) fn come_due(&mut self, due: Due) {
        self.due = None;
        match due {
            Due::TimeOut => {
                self.timed_out = true;
                if self.grace.is_zero() {
                    self.kill_tree();
                } else {
                    self.signal_tree(Signal::TERM);
                    self.due = Some((Instant::now() + self.grace, Due::KillTree));
                }
            }
            Due::KillTree => self.kill_tree(),
            Due::KillShim => {
                if let Some(shim) = &self.shim {
                    let pid = shim.pid();
                    self.kill_shim();
                    stop_and_kill(|| tree::descendants_of(pid).unwrap_or_default());
                }
            }
        }
    }

    /// How it ended. A command whose shim left no word was killed with it.
    pub(crate) fn outcome(&self) -> Exited {
        let (end, usage) = self.said.unwrap_or((End::Signal(Signal::KILL.get()), Usage::default()));
        let usage = Usage { wall_us: shim::micros(self.started.elapsed()), ..usage };
        Exited { end, timed_out: self.timed_out, usage }
    }

    pub(crate) fn entry(&self) -> ProcessEntry {
        ProcessEntry {
            process: self.id,
            pid: self.pid,
            command: self.label.clone(),
            background: matches!(self.owner, Owner::Background(_)),
            written: self.written,
            kept_from: match &self.owner {
                Owner::Background(ring) => ring.start(),
                _ => self.written,
            },
            age_us: shim::micros(self.started.elapsed()),
            state: self.exited.map_or(ProcessState::Running, ProcessState::Exited),
        }
    }

    /// One of the two output streams.
    pub(crate) fn output(&mut self, stream: Stream) -> &mut Option<Watched> {
        match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        }
    }

    /// Closes every stream.
    pub(crate) fn close_streams(&mut self, epoll: &Epoll) {
        let input = self.input.take().map(|input| input.pipe);
        for stream in [input, self.stdout.take(), self.stderr.take(), self.status.take()]
            .into_iter()
            .flatten()
        {
            stream.close(epoll);
        }
    }

    /// The terminal, if it has one.
    pub(crate) fn terminal(&self) -> Option<&Watched> {
        self.input.as_ref().filter(|input| input.is_terminal).map(|input| &input.pipe)
    }

    /// How much more input it takes; `None` if it takes none at all.
    pub(crate) fn input_room(&self) -> Option<usize> {
        let input = self.input.as_ref().filter(|input| !input.ends)?;
        Some(INPUT_WAITING.saturating_sub(input.waiting.len()))
    }

    /// Queues input; `false` if the host sends more than it may.
    pub(crate) fn feed(&mut self, bytes: &[u8], epoll: &Epoll) -> bool {
        let Some(input) = &mut self.input else { return true };
        if input.ends {
            return true;
        }
        if input.waiting.len() + bytes.len() > INPUT_WAITING {
            return false;
        }
        input.waiting.extend(bytes);
        self.push_input(epoll);
        true
    }

    pub(crate) fn end_input(&mut self, epoll: &Epoll) {
        let Some(input) = &mut self.input else { return };
        input.ends = true;
        if input.is_terminal {
            // Ctrl-D: what a terminal takes for the end. It stays open, as its output does.
            input.waiting.push_back(4);
        }
        self.push_input(epoll);
    }

    /// Writes what the command takes.
    pub(crate) fn push_input(&mut self, epoll: &Epoll) {
        let Some(input) = &mut self.input else { return };
        let closed = loop {
            let (front, _) = input.waiting.as_slices();
            if front.is_empty() {
                break false;
            }
            match events::write(input.pipe.as_fd(), front) {
                Ok(count) => {
                    input.waiting.drain(..count);
                    input.taken =
                        input.taken.saturating_add(u32::try_from(count).unwrap_or(u32::MAX));
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break false,
                // The command has closed its input, which is its right: the rest is dropped.
                Err(_) => break true,
            }
        };
        let done = input.ends && input.waiting.is_empty() && !input.is_terminal;
        if closed || done {
            if let Some(input) = self.input.take() {
                input.pipe.close(epoll);
            }
            return;
        }
        let interest = if input.waiting.is_empty() { Interest::None } else { Interest::Write };
        let _ = input.pipe.watch(epoll, interest);
    }
}

/// Stops everything that `look` finds until it finds nothing new, then kills it all: what is stopped cannot
/// fork away from under the walk.
pub(crate) fn stop_and_kill(look: impl Fn() -> Vec<Pid>) {
    let mut stopped = std::collections::BTreeSet::new();
    for _ in 0..STOP_ROUNDS {
        let before = stopped.len();
        for pid in look() {
            if stopped.insert(pid) {
                let _ = process::kill(pid, Signal::STOP);
            }
        }
        if stopped.len() == before {
            break;
        }
    }
    for pid in stopped {
        let _ = process::kill(pid, Signal::KILL);
    }
}

/// The start of the command line, for people.
fn label(argv: &[OsString]) -> OsString {
    let mut label = Vec::new();
    for word in argv {
        if !label.is_empty() {
            label.push(b' ');
        }
        label.extend_from_slice(word.as_bytes());
        if label.len() > 256 {
            label.truncate(256);
            break;
        }
    }
    OsString::from_vec(label)
}
