//! Starts a program from a prepared plan, as cheaply as the kernel can: the child shares our memory until it
//! has become the new program (as `vfork` and glibc's `posix_spawn` do), so the cost does not grow with our size.
//!
//! All that the child does is prepared before; in the child there are only system calls, in the order of [`Step`].
//! Works in processes with threads. The caller's thread waits until the program has started or failed.

use std::ffi::CString;
use std::io;
use std::os::fd::BorrowedFd;

use crate::landlock::Ruleset;
use crate::process::{Child, Identity, Signal};
use crate::rlimits::{Limit, Resource};
use crate::seccomp::Program;

/// What the child does between birth and exec, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    /// Landlock.
    Landlock,
    /// Every other descriptor closed.
    Close,
    /// Seccomp, last, so that it need not allow the steps before.
    Seccomp,
    /// The program itself.
    Exec,
}

/// A program could not be started.
#[derive(Debug, thiserror::Error)]
#[error("cannot start the program: {step:?} failed")]
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
    /// Paths tried in turn, as a search through `PATH` does.
    Paths(Vec<CString>),
    /// An open file or memfd.
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

/// Everything about a start. Begins locked: no descriptor but 0, 1, 2 as given, no environment.
#[derive(Debug)]
pub struct Plan<'a> {
    _image: Image<'a>,
}

impl<'a> Plan<'a> {
    /// Runs `image` with `argv` and `environment` (`NAME=value`).
    pub fn new(image: Image<'a>, argv: Vec<CString>, environment: Vec<CString>) -> Self {
        todo!()
    }
    /// Gives `source` to the program as `number`. Every number not given is closed.
    #[must_use]
    pub fn descriptor(self, number: i32, source: BorrowedFd<'a>) -> Self {
        todo!()
    }
    /// Starts in an open directory.
    #[must_use]
    pub fn directory(self, directory: BorrowedFd<'a>) -> Self {
        todo!()
    }
    /// Session and terminal.
    #[must_use]
    pub fn session(self, session: Session) -> Self {
        todo!()
    }
    /// Sent to the program when the thread that started it ends.
    #[must_use]
    pub fn death_signal(self, signal: Signal) -> Self {
        todo!()
    }
    /// Adds a resource limit.
    #[must_use]
    pub fn limit(self, resource: Resource, limit: Limit) -> Self {
        todo!()
    }
    /// Changes user and groups.
    #[must_use]
    pub fn identity(self, identity: Identity) -> Self {
        todo!()
    }
    /// No-new-privs.
    #[must_use]
    pub fn no_new_privs(self) -> Self {
        todo!()
    }
    /// Confines the program; implies no-new-privs.
    #[must_use]
    pub fn landlock(self, ruleset: &'a Ruleset) -> Self {
        todo!()
    }
    /// Filters its system calls; implies no-new-privs.
    #[must_use]
    pub fn seccomp(self, program: &'a Program) -> Self {
        todo!()
    }
    /// Starts it. The plan can be used again.
    pub fn spawn(&self) -> Result<Child, SpawnError> {
        todo!()
    }
}
