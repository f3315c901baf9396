//! What a single-threaded loop waits on: epoll, poll, signals, timers, wake-ups, pipes.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use crate::process::Signal;

/// What to be told about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interest {
    /// Only errors and hang-ups, which are always told.
    None,
    /// Can be read.
    Read,
    /// Can be written.
    Write,
    /// Both.
    Both,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// The number given at [`Epoll::add`].
    pub token: u64,
    /// Can be read (or is at its end).
    pub readable: bool,
    /// Can be written.
    pub writable: bool,
    /// The other side is gone, or an error waits to be read.
    pub hung_up: bool,
}

/// A set of descriptors to wait on, level-triggered.
#[derive(Debug)]
pub struct Epoll { _fd: OwnedFd }
impl Epoll {
    /// An empty set.
    pub fn new() -> io::Result<Self> { todo!() }
    /// Adds a descriptor.
    pub fn add(&self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> { todo!() }
    /// Changes what to be told about.
    pub fn modify(&self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> { todo!() }
    /// Takes a descriptor out.
    pub fn remove(&self, fd: BorrowedFd<'_>) -> io::Result<()> { todo!() }
    /// Waits, for ever if `None`; fills `events` (emptied first) with up to 64. A signal that interrupts gives no events.
    pub fn wait(&self, events: &mut Vec<Event>, timeout: Option<Duration>) -> io::Result<()> { todo!() }
}

/// Waits for one of a few descriptors; gives the events in order, `token` being the index. Empty after `timeout`.
pub fn poll(fds: &[(BorrowedFd<'_>, Interest)], timeout: Option<Duration>) -> io::Result<Vec<Event>> { todo!() }

/// A received signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// Which.
    pub signal: Signal,
    /// Who sent it: 0 is the kernel or a process outside this pid namespace.
    pub sender: i32,
    /// Whether the kernel itself made it (a child ended, the terminal), not `kill`.
    pub from_kernel: bool,
}

/// Signals as a descriptor. They are blocked in the calling thread; children of [`crate::spawn`] start with none blocked.
#[derive(Debug)]
pub struct SignalFd { _fd: OwnedFd }
impl SignalFd {
    /// Blocks these and makes the descriptor (non-blocking).
    pub fn new(signals: &[Signal]) -> io::Result<Self> { todo!() }
    /// The next one, or `None`.
    pub fn read(&self) -> io::Result<Option<Received>> { todo!() }
}
impl AsFd for SignalFd { fn as_fd(&self) -> BorrowedFd<'_> { todo!() } }

/// Blocks every signal in the calling thread (before a fork whose child must not be interrupted), or unblocks all.
pub fn block_all_signals() -> io::Result<()> { todo!() }
/// Unblocks every signal in the calling thread.
pub fn unblock_all_signals() -> io::Result<()> { todo!() }
/// Makes writing to a closed pipe an error instead of a death (`SIGPIPE` ignored). Children of [`crate::spawn`] have it back.
pub fn ignore_broken_pipes() -> io::Result<()> { todo!() }

/// A timer on the monotonic clock as a descriptor.
#[derive(Debug)]
pub struct Timer { _fd: OwnedFd }
impl Timer {
    /// Not set.
    pub fn new() -> io::Result<Self> { todo!() }
    /// Fires once after `delay`.
    pub fn set(&self, delay: Duration) -> io::Result<()> { todo!() }
    /// Fires never.
    pub fn clear(&self) -> io::Result<()> { todo!() }
    /// Whether it has fired since the last look.
    pub fn has_fired(&self) -> io::Result<bool> { todo!() }
}
impl AsFd for Timer { fn as_fd(&self) -> BorrowedFd<'_> { todo!() } }

/// A pipe: reading end, writing end.
pub fn pipe() -> io::Result<(OwnedFd, OwnedFd)> { todo!() }
/// Reads and writes return at once from now on. Shared by all who have this open file: never for a workload's own stdio.
pub fn set_nonblocking(fd: BorrowedFd<'_>) -> io::Result<()> { todo!() }
/// Opens `/dev/null` for reading and writing.
pub fn open_null() -> io::Result<OwnedFd> { todo!() }
/// Reads once into `buffer`; interrupted reads are repeated. `WouldBlock` if nothing is there.
pub fn read(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> { todo!() }
/// Writes once; interrupted writes are repeated.
pub fn write(fd: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> { todo!() }
