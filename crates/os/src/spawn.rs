//! Starts a program from a prepared plan, as cheaply as the kernel can.
//!
//! The child shares our memory until it has become the new program, as with `vfork` and glibc's
//! `posix_spawn`: the cost does not grow with our size. Everything it needs is prepared before it is
//! born; in the child there are only system calls, in the order of [`Step`], and a failure is left
//! in the shared memory (no pipe, no descriptor). Works in processes with threads. The calling
//! thread waits until the program has started or failed.

use std::ffi::CString;
use std::fmt;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};

use crate::events::SignalsBlocked;
use crate::landlock::Ruleset;
use crate::process::{Child, Identity, Signal};
use crate::rlimits::{Limit, Resource};
use crate::seccomp::Program;
use crate::syscall::errno;

mod child;

use child::Prepared;

/// What the child does between birth and exec, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Step {
    /// Making the process itself.
    Clone,
    /// All signals to their default action.
    Signals,
    /// Signal at the death of the parent.
    DeathSignal,
    /// New session.
    Session,
    /// Descriptors to their numbers.
    Descriptors,
    /// Controlling terminal.
    Terminal,
    /// Working directory.
    Directory,
    /// Resource limits.
    Limits,
    /// Groups, group, user.
    Identity,
    /// No-new-privs.
    NoNewPrivs,
    /// Landlock: after what it would refuse, before the filter that need not allow it.
    Landlock,
    /// Every other descriptor marked to be closed.
    Close,
    /// Seccomp, last, so that it need not allow the steps before.
    Seccomp,
    /// The program itself.
    Exec,
}

impl Step {
    /// What the step does, in words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Clone => "making a process",
            Self::Signals => "resetting signals",
            Self::DeathSignal => "tying it to its parent",
            Self::Session => "starting a session",
            Self::Descriptors => "placing its descriptors",
            Self::Terminal => "taking the terminal",
            Self::Directory => "entering the working directory",
            Self::Limits => "setting resource limits",
            Self::Identity => "changing user and groups",
            Self::NoNewPrivs => "setting no-new-privs",
            Self::Landlock => "applying Landlock",
            Self::Close => "closing other descriptors",
            Self::Seccomp => "installing the seccomp filter",
            Self::Exec => "executing it",
        }
    }
}

/// A program could not be started. Nothing is left of it.
#[derive(Debug, thiserror::Error)]
#[error("cannot start the program: {} failed", step.name())]
pub struct SpawnError {
    /// Where it failed.
    pub step: Step,
    /// Why.
    #[source]
    pub cause: io::Error,
}

/// The program to become.
#[derive(Debug)]
pub enum Image<'a> {
    /// Paths tried in turn, as a search through `PATH` does: the next one after `ENOENT`, `ENOTDIR`
    /// and `EACCES`.
    Paths(Vec<CString>),
    /// An open file or memfd; a binary, not a script.
    File(BorrowedFd<'a>),
}

/// A terminal for the new session, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Session {
    /// Stay in ours.
    Inherit,
    /// A session of its own.
    New,
    /// The same, and descriptor 0 becomes its terminal.
    NewWithTerminal,
}

/// What becomes of signals that are ignored here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Actions {
    /// Set to their defaults, each one.
    Reset,
    /// None is ignored: the caller has seen to it before. Sixty calls less.
    AreDefault,
}

/// Everything about a start. Begins locked: no descriptor and no environment but what is given.
pub struct Plan<'a> {
    image: Image<'a>,
    argv: Vec<CString>,
    environment: Vec<CString>,
    descriptors: Vec<(i32, BorrowedFd<'a>)>,
    directory: Option<BorrowedFd<'a>>,
    session: Session,
    actions: Actions,
    death_signal: Option<Signal>,
    limits: Vec<(Resource, Limit)>,
    identity: Option<Identity>,
    no_new_privs: bool,
    landlock: Option<&'a Ruleset>,
    seccomp: Option<&'a Program>,
    apart: bool,
}

impl<'a> Plan<'a> {
    /// Runs `image` with `argv` and `environment` (`NAME=value`).
    pub fn new(image: Image<'a>, argv: Vec<CString>, environment: Vec<CString>) -> Self {
        Self {
            image,
            argv,
            environment,
            descriptors: Vec::new(),
            directory: None,
            session: Session::Inherit,
            actions: Actions::Reset,
            death_signal: None,
            limits: Vec::new(),
            identity: None,
            no_new_privs: false,
            landlock: None,
            seccomp: None,
            apart: false,
        }
    }

    /// Gives `source` to the program as `number`. Every number not given is closed.
    #[must_use]
    pub fn descriptor(mut self, number: i32, source: BorrowedFd<'a>) -> Self {
        self.descriptors.push((number, source));
        self
    }

    /// Starts in an open directory.
    #[must_use]
    pub fn directory(mut self, directory: BorrowedFd<'a>) -> Self {
        self.directory = Some(directory);
        self
    }

    /// Session and terminal.
    #[must_use]
    pub fn session(mut self, session: Session) -> Self {
        self.session = session;
        self
    }

    /// What the caller knows of its own signals. Handlers end with an exec; only what is ignored would stay so.
    #[must_use]
    pub fn actions(mut self, actions: Actions) -> Self {
        self.actions = actions;
        self
    }

    /// Sent to the program when the thread that started it ends.
    #[must_use]
    pub fn death_signal(mut self, signal: Signal) -> Self {
        self.death_signal = Some(signal);
        self
    }

    /// Adds a resource limit.
    #[must_use]
    pub fn limit(mut self, resource: Resource, limit: Limit) -> Self {
        self.limits.push((resource, limit));
        self
    }

    /// Changes user and groups.
    #[must_use]
    pub fn identity(mut self, identity: Identity) -> Self {
        self.identity = Some(identity);
        self
    }

    /// No-new-privs.
    #[must_use]
    pub fn no_new_privs(mut self) -> Self {
        self.no_new_privs = true;
        self
    }

    /// Confines the program; implies no-new-privs.
    #[must_use]
    pub fn landlock(mut self, ruleset: &'a Ruleset) -> Self {
        self.landlock = Some(ruleset);
        self.no_new_privs()
    }

    /// Filters its system calls; implies no-new-privs. The filter must allow `execve` (or
    /// `execveat` for [`Image::File`]).
    #[must_use]
    pub fn seccomp(mut self, program: &'a Program) -> Self {
        self.seccomp = Some(program);
        self.no_new_privs()
    }

    /// Lets the caller go on beside the program, on another processor, if there is one. Otherwise the
    /// kernel often wakes the caller where the program already runs and leaves it waiting there, a
    /// millisecond and more, while the next processor is idle.
    #[must_use]
    pub fn apart(mut self) -> Self {
        self.apart = true;
        self
    }

    /// Starts it. The plan can be used again.
    ///
    /// # Errors
    /// At the step that failed. `EAGAIN` at [`Step::Clone`] means that no more processes may be
    /// made here.
    pub fn spawn(&self) -> Result<Child, SpawnError> {
        let at_clone = |cause| SpawnError { step: Step::Clone, cause };
        let prepared = self.prepare().map_err(at_clone)?;
        // No handler of ours may run in the child, which shares our memory.
        let blocked = SignalsBlocked::all().map_err(at_clone)?;
        let child = child::start(&prepared);
        prepared.come_back();
        drop(blocked);
        let child = child.map_err(at_clone)?;
        match prepared.outcome() {
            Ok(()) => Ok(child),
            Err((step, number)) => {
                let reaped = child.wait();
                // Killed before it said why: say how.
                let cause = if number == 0 {
                    io::Error::other(format!("it ended early: {reaped:?}"))
                } else {
                    errno(number)
                };
                Err(SpawnError { step, cause })
            }
        }
    }

    /// Takes every step but the last in this very process, which stays what it is: what a program would
    /// be held by can be looked at from inside before there is one. Every descriptor that the plan does
    /// not give is closed, whoever owns it: meant for a fork that ends with
    /// [`exit_now`](crate::process::exit_now).
    ///
    /// # Errors
    /// At the step that failed; those before it stay taken.
    pub fn stay(&self) -> Result<(), SpawnError> {
        let prepared = self.prepare().map_err(|cause| SpawnError { step: Step::Clone, cause })?;
        prepared.stay().map_err(|(step, number)| SpawnError { step, cause: errno(number) })
    }

    fn prepare(&self) -> io::Result<Prepared<'_>> {
        let mut taken: Vec<i32> = self.descriptors.iter().map(|(number, _)| *number).collect();
        taken.sort_unstable();
        let is_twice = taken.windows(2).any(|pair| matches!(pair, [a, b] if a == b));
        let highest = taken.last().copied().unwrap_or(-1);
        if is_twice || taken.first().is_some_and(|lowest| *lowest < 0) || highest == i32::MAX {
            return Err(errno(libc::EINVAL));
        }
        if self.identity.as_ref().is_some_and(|ids| ids.uid == u32::MAX || ids.gid == u32::MAX) {
            return Err(errno(libc::EINVAL));
        }
        let numbers = self.descriptors.iter().map(|(number, from)| (*number, from.as_raw_fd()));
        Ok(Prepared::new(self, numbers.collect(), gaps(&taken), highest + 1))
    }
}

/// Arguments and environment stay out: they may hold secrets.
impl fmt::Debug for Plan<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plan")
            .field("image", &self.image)
            .field("descriptors", &self.descriptors)
            .field("session", &self.session)
            .finish_non_exhaustive()
    }
}

/// The ranges of numbers that are not `taken` (sorted), up to the highest there can be.
fn gaps(taken: &[i32]) -> Vec<(u32, u32)> {
    let mut gaps = Vec::new();
    let mut next = 0;
    for number in taken.iter().map(|number| number.unsigned_abs()) {
        if next < number {
            gaps.push((next, number - 1));
        }
        next = number + 1;
    }
    gaps.push((next, u32::MAX));
    gaps
}

#[cfg(test)]
mod tests;
