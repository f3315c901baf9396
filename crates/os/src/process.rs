//! Makes, watches, signals and reaps processes; reads and sets what a process is.
//!
//! A process is named by its pidfd wherever one exists, because a number can be reused. Functions
//! that change ids, capabilities or privileges act on the calling thread: the supervisor has only one.

use std::fmt;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use crate::namespaces::Namespaces;

/// A process number as the caller's pid namespace counts; never zero or negative.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pid(std::num::NonZeroI32);

impl Pid {
    /// `None` for zero and negative numbers, which `kill` and friends read as "a group" or "all".
    pub fn new(number: i32) -> Option<Self> { todo!() }
    /// This process.
    pub fn this() -> Self { todo!() }
    /// The parent, or `None` if it lies outside this pid namespace.
    pub fn parent() -> Option<Self> { todo!() }
    /// The number.
    pub fn get(self) -> i32 { todo!() }
}
impl fmt::Display for Pid { fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { todo!() } }

/// A signal that can be sent. Made from a number that the kernel knows (1 to 64).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Signal(i32);

impl Signal {
    /// Hang up, interrupt, kill, … : those that the supervisor names.
    pub const HUP: Self = Self(libc::SIGHUP);
    /// Ctrl-C.
    pub const INT: Self = Self(libc::SIGINT);
    /// Cannot be caught.
    pub const KILL: Self = Self(libc::SIGKILL);
    /// A polite end.
    pub const TERM: Self = Self(libc::SIGTERM);
    /// Freezes; cannot be caught.
    pub const STOP: Self = Self(libc::SIGSTOP);
    /// Ends a freeze.
    pub const CONT: Self = Self(libc::SIGCONT);
    /// A child changed state.
    pub const CHLD: Self = Self(libc::SIGCHLD);
    /// Wrote where nobody reads.
    pub const PIPE: Self = Self(libc::SIGPIPE);
    /// `None` outside 1..=64.
    pub fn new(number: i32) -> Option<Self> { todo!() }
    /// The number.
    pub fn get(self) -> i32 { todo!() }
}

/// A child made by [`clone3`] or [`crate::spawn`]; the descriptor stays valid if the number is reused.
#[derive(Debug)]
pub struct Child { pid: Pid, pidfd: OwnedFd }

impl Child {
    /// Its number in our pid namespace.
    pub fn pid(&self) -> Pid { todo!() }
    /// Becomes readable when the process has ended.
    pub fn pidfd(&self) -> BorrowedFd<'_> { todo!() }
    /// Sends a signal; `Ok` also if it has ended but is not reaped.
    pub fn signal(&self, signal: Signal) -> io::Result<()> { todo!() }
    /// Waits until it ends, reaps it and says how it ended and what it used.
    pub fn wait(&self) -> io::Result<Ended> { todo!() }
    /// Reaps it if it has ended.
    pub fn try_wait(&self) -> io::Result<Option<Ended>> { todo!() }
}

/// Which side of [`clone3`] this is.
#[derive(Debug)]
pub enum Forked {
    /// In the new process.
    Child,
    /// In the old one.
    Parent(Child),
}

/// Forks into new `namespaces` (none: a plain fork), optionally straight into a cgroup v2 directory.
///
/// The child is a copy of the caller and may do all that a program may do, because the caller is checked
/// to have one thread only: an error is returned if it has more. Falls back to `clone` where `clone3` is
/// filtered (Docker's default profile) and no cgroup was asked for.
pub fn clone3(namespaces: Namespaces, cgroup: Option<BorrowedFd<'_>>) -> io::Result<Forked> { todo!() }

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitStatus {
    /// It called exit.
    Code(u8),
    /// A signal ended it.
    Signal(Signal),
}

/// What a process and its reaped descendants used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Time in user mode.
    pub user: Duration,
    /// Time in the kernel.
    pub system: Duration,
    /// The largest resident set of any one of them.
    pub peak_memory_bytes: u64,
}

/// A reaped process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// Its number, free for reuse from now on.
    pub pid: Pid,
    /// How it ended.
    pub status: ExitStatus,
    /// What it used.
    pub usage: Usage,
}

/// What [`reap_any`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reaped {
    /// One child had ended and is gone now; there may be more.
    Ended(Ended),
    /// There are children, none has ended.
    NoneEnded,
    /// There are no children.
    NoChildren,
}

/// Reaps one ended child, whichever it is, without waiting.
pub fn reap_any() -> io::Result<Reaped> { todo!() }
/// Waits for any child to end and reaps it; `None` if there are no children.
pub fn wait_any() -> io::Result<Option<Ended>> { todo!() }

/// Opens a handle to a process by number.
pub fn pidfd_open(pid: Pid) -> io::Result<OwnedFd> { todo!() }
/// Sends a signal through a handle.
pub fn pidfd_signal(pidfd: BorrowedFd<'_>, signal: Signal) -> io::Result<()> { todo!() }
/// Sends a signal by number: only for processes we have not reaped yet.
pub fn kill(pid: Pid, signal: Signal) -> io::Result<()> { todo!() }
/// Sends a signal to a process group.
pub fn kill_group(leader: Pid, signal: Signal) -> io::Result<()> { todo!() }

/// No program started from here on gains privileges by being started. Cannot be undone.
pub fn set_no_new_privs() -> io::Result<()> { todo!() }
/// Whether [`set_no_new_privs`] is in force.
pub fn no_new_privs() -> io::Result<bool> { todo!() }

/// Whether others of the same user may look into this process (`/proc/<pid>/mem`, ptrace, core).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dumpable {
    /// They may.
    Yes,
    /// They may not; `/proc/<pid>` belongs to root.
    No,
}
/// Sets it for this process; an exec resets it to `Yes`.
pub fn set_dumpable(dumpable: Dumpable) -> io::Result<()> { todo!() }
/// Reads it.
pub fn dumpable() -> io::Result<Dumpable> { todo!() }

/// Orphaned descendants become our children instead of process 1's.
pub fn set_child_subreaper() -> io::Result<()> { todo!() }
/// The signal this process gets when the *thread* that made it ends.
pub fn set_parent_death_signal(signal: Signal) -> io::Result<()> { todo!() }
/// The name shown in `/proc/self/comm`.
pub fn set_name(name: &std::ffi::CStr) -> io::Result<()> { todo!() }

/// Starts a new session; the caller must not be a group leader.
pub fn new_session() -> io::Result<()> { todo!() }

/// User and group of a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Real, effective and saved user id.
    pub uid: u32,
    /// Real, effective and saved group id.
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
}
/// Groups of the calling thread; fails where the user namespace denies `setgroups`.
pub fn set_groups(groups: &[u32]) -> io::Result<()> { todo!() }
/// Group (real, effective, saved) of the calling thread. Before [`set_uid`].
pub fn set_gid(gid: u32) -> io::Result<()> { todo!() }
/// User (real, effective, saved) of the calling thread.
pub fn set_uid(uid: u32) -> io::Result<()> { todo!() }
/// Who we are now (effective ids).
pub fn identity() -> io::Result<Identity> { todo!() }
/// Keeps permitted capabilities over [`set_uid`] away from 0, until they are dropped for good.
pub fn set_keep_capabilities() -> io::Result<()> { todo!() }

/// Sets the mask for new files' modes and gives the one before.
pub fn set_umask(mask: u32) -> u32 { todo!() }
/// Changes to an open directory.
pub fn change_directory(directory: BorrowedFd<'_>) -> io::Result<()> { todo!() }

/// Replaces this program by the file behind `program` (a memfd too). Returns only on failure.
pub fn exec(program: BorrowedFd<'_>, argv: &[std::ffi::CString], envp: &[std::ffi::CString]) -> io::Error { todo!() }

/// Closes every descriptor numbered `first` and above.
///
/// # Safety
/// No value that owns such a descriptor may be used or dropped afterwards.
pub unsafe fn close_from(first: i32) -> io::Result<()> { todo!() }

/// Takes over a descriptor that the parent passed by number (3, 4, …), set close-on-exec.
///
/// Fails with `EBADF` if it is not open. Each number may be taken once per process.
pub fn inherited(number: i32) -> io::Result<OwnedFd> { todo!() }

/// Ends this process at once: no destructors, no flushing. For children of [`clone3`].
pub fn exit_now(code: u8) -> ! { todo!() }
