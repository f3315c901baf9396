//! What a single-threaded loop waits on: epoll, poll, signals, timers, pipes.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::ptr;
use std::time::Duration;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::pipe::PipeFlags;
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags};

use crate::process::Signal;
use crate::syscall::{check, check_fd};

/// Events handed out by one [`Epoll::wait`].
const BATCH: usize = 64;

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
pub struct Epoll(OwnedFd);

impl Epoll {
    /// An empty set.
    pub fn new() -> io::Result<Self> {
        Ok(Self(epoll::create(CreateFlags::CLOEXEC)?))
    }

    /// Adds a descriptor. Remove it before closing it: a copy elsewhere would keep it in the set.
    pub fn add(&self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::add(&self.0, fd, EventData::new_u64(token), interest.to_epoll())?)
    }

    /// Changes what to be told about.
    pub fn modify(&self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::modify(&self.0, fd, EventData::new_u64(token), interest.to_epoll())?)
    }

    /// Takes a descriptor out.
    pub fn remove(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        Ok(epoll::delete(&self.0, fd)?)
    }

    /// Waits, for ever if `None`; fills `events` (emptied first) with up to 64. A signal that
    /// interrupts gives no events.
    pub fn wait(&self, events: &mut Vec<Event>, timeout: Option<Duration>) -> io::Result<()> {
        events.clear();
        let mut batch = [MaybeUninit::<epoll::Event>::uninit(); BATCH];
        let timeout = timeout.map(timespec).transpose()?;
        let happened = match epoll::wait(&self.0, &mut batch[..], timeout.as_ref()) {
            Ok((happened, _)) => happened,
            Err(Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        events.extend(happened.iter().map(|event| {
            // The structure is packed: copy the fields before looking at them.
            let (flags, data) = (event.flags, event.data);
            Event {
                token: data.u64(),
                readable: flags.intersects(EventFlags::IN | EventFlags::RDHUP),
                writable: flags.contains(EventFlags::OUT),
                hung_up: flags.intersects(EventFlags::HUP | EventFlags::ERR),
            }
        }));
        Ok(())
    }
}

impl AsFd for Epoll {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Interest {
    fn to_epoll(self) -> EventFlags {
        match self {
            Self::None => EventFlags::empty(),
            Self::Read => EventFlags::IN,
            Self::Write => EventFlags::OUT,
            Self::Both => EventFlags::IN | EventFlags::OUT,
        }
    }

    fn to_poll(self) -> PollFlags {
        match self {
            Self::None => PollFlags::empty(),
            Self::Read => PollFlags::IN,
            Self::Write => PollFlags::OUT,
            Self::Both => PollFlags::IN | PollFlags::OUT,
        }
    }
}

/// Waits for one of a few descriptors; gives what happened in their order, `token` being the index.
/// Empty after `timeout` or when a signal interrupts.
pub fn poll(
    fds: &[(BorrowedFd<'_>, Interest)],
    timeout: Option<Duration>,
) -> io::Result<Vec<Event>> {
    let mut polled: Vec<PollFd<'_>> =
        fds.iter().map(|(fd, interest)| PollFd::new(fd, interest.to_poll())).collect();
    let timeout = timeout.map(timespec).transpose()?;
    match rustix::event::poll(&mut polled, timeout.as_ref()) {
        Ok(_) => {}
        Err(Errno::INTR) => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    }
    let happened = polled.iter().zip(0..).filter(|(fd, _)| !fd.revents().is_empty());
    let event = |(fd, token): (&PollFd<'_>, u64)| {
        let flags = fd.revents();
        Event {
            token,
            readable: flags.intersects(PollFlags::IN | PollFlags::RDHUP),
            writable: flags.contains(PollFlags::OUT),
            hung_up: flags.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL),
        }
    };
    Ok(happened.map(event).collect())
}

fn timespec(duration: Duration) -> io::Result<Timespec> {
    Timespec::try_from(duration).map_err(io::Error::other)
}

/// A received signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// Which.
    pub signal: Signal,
    /// Where it came from.
    pub origin: Origin,
}

/// Where a signal came from, as far as the kernel vouches for it.
///
/// The number of the sender alone is no proof: `sigqueue` lets the sender choose it, and a signal that a
/// descriptor's owner gets (`F_SETSIG`) carries none, which reads as 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// `kill` by a process outside this pid namespace, of this user as our user namespace numbers him.
    ///
    /// The kernel says the same, with user 0, of a signal for which it had no room to note the sender
    /// (`RLIMIT_SIGPENDING`): user 0 is to be believed only where nobody inside can fill that room.
    Outside {
        /// The sender's user.
        user: u32,
    },
    /// `kill` or `tgkill` by this process of our pid namespace.
    Process(i32),
    /// The kernel itself: a child ended, a descriptor is ready, the terminal.
    Kernel,
    /// What the sender chose to say.
    Claimed,
}

impl Origin {
    fn new(code: i32, sender: i32, user: u32) -> Self {
        match code {
            libc::SI_USER if sender == 0 => Self::Outside { user },
            libc::SI_USER | libc::SI_TKILL => Self::Process(sender),
            code if code > 0 => Self::Kernel,
            _ => Self::Claimed,
        }
    }
}

/// Signals as a descriptor. They are blocked in the calling thread; children of [`crate::spawn`]
/// start with none blocked.
#[derive(Debug)]
pub struct SignalFd(OwnedFd);

impl SignalFd {
    /// Blocks these and makes the descriptor (non-blocking).
    pub fn new(signals: &[Signal]) -> io::Result<Self> {
        let set = signal_set(signals);
        change_mask(libc::SIG_BLOCK, &set)?;
        // SAFETY: `set` is a whole signal set that outlives the call; -1 asks for a new descriptor.
        let ret =
            unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
        // SAFETY: on success `ret` is a new descriptor.
        Ok(Self(unsafe { check_fd(ret.into()) }?))
    }

    /// The next one, or `None`.
    pub fn read(&self) -> io::Result<Option<Received>> {
        let mut info = MaybeUninit::<libc::signalfd_siginfo>::zeroed();
        let room = size_of::<libc::signalfd_siginfo>();
        // SAFETY: `info` has room for the bytes asked for; the kernel gives whole structures only.
        let ret = unsafe { libc::read(self.0.as_raw_fd(), info.as_mut_ptr().cast(), room) };
        match check(ret as libc::c_long) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error),
            Ok(_) => {}
        }
        // SAFETY: the structure holds numbers only, zeroed before and written by the kernel.
        let info = unsafe { info.assume_init() };
        let Some(signal) = Signal::new(info.ssi_signo.cast_signed()) else { return Ok(None) };
        let origin = Origin::new(info.ssi_code, info.ssi_pid.cast_signed(), info.ssi_uid);
        Ok(Some(Received { signal, origin }))
    }
}

impl AsFd for SignalFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Blocks every signal in the calling thread.
pub fn block_all_signals() -> io::Result<()> {
    change_mask(libc::SIG_SETMASK, &full_set())
}

/// Unblocks every signal in the calling thread.
pub fn unblock_all_signals() -> io::Result<()> {
    change_mask(libc::SIG_SETMASK, &signal_set(&[]))
}

/// Makes writing to a closed pipe an error instead of a death (`SIGPIPE` ignored). Children of
/// [`crate::spawn`] have it back.
pub fn ignore_broken_pipes() -> io::Result<()> {
    // SAFETY: ignoring a signal installs no handler.
    let before = unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    if before == libc::SIG_ERR { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Every signal to its default action, in this process and in what it becomes: an action survives no exec, but what is
/// ignored stays ignored. Calls nothing but the kernel, so a child that shares our memory may use it.
pub fn reset_signal_actions() -> io::Result<()> {
    (1..=64)
        .filter(|signal| ![libc::SIGKILL, libc::SIGSTOP].contains(signal))
        .try_for_each(reset_action)
}

/// Only that of writing to a pipe that nobody reads.
pub fn heed_broken_pipes() -> io::Result<()> {
    reset_action(libc::SIGPIPE)
}

fn reset_action(signal: i32) -> io::Result<()> {
    // The kernel's own structure: handler, flags, restorer, mask; all zeros is the default.
    const DEFAULT: [u64; 4] = [0; 4];
    const SET_SIZE: usize = 8;
    let not_asked: *const u64 = std::ptr::null();
    // SAFETY: `DEFAULT` is as large as the kernel's structure and only read.
    let ret = unsafe {
        libc::syscall(libc::SYS_rt_sigaction, signal, DEFAULT.as_ptr(), not_asked, SET_SIZE)
    };
    if ret == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// All signals blocked in this thread until dropped.
#[derive(Debug)]
pub(crate) struct SignalsBlocked(libc::sigset_t);

impl SignalsBlocked {
    pub(crate) fn all() -> io::Result<Self> {
        let all = full_set();
        let mut before = signal_set(&[]);
        // SAFETY: both sets are whole and outlive the call.
        let ret =
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before) };
        if ret == 0 { Ok(Self(before)) } else { Err(io::Error::from_raw_os_error(ret)) }
    }
}

impl Drop for SignalsBlocked {
    fn drop(&mut self) {
        // Setting back a mask that was in force cannot fail.
        let _infallible = change_mask(libc::SIG_SETMASK, &self.0);
    }
}

fn change_mask(how: libc::c_int, set: &libc::sigset_t) -> io::Result<()> {
    // SAFETY: `set` is a whole signal set that outlives the call; the old one is not asked for.
    let ret = unsafe { libc::pthread_sigmask(how, ptr::from_ref(set), ptr::null_mut()) };
    if ret == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(ret)) }
}

fn signal_set(signals: &[Signal]) -> libc::sigset_t {
    let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: `set` has room for a signal set.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    for signal in signals {
        // SAFETY: `set` was made empty above; a `Signal` is a number the kernel knows.
        unsafe { libc::sigaddset(set.as_mut_ptr(), signal.get()) };
    }
    // SAFETY: sigemptyset has written all of it.
    unsafe { set.assume_init() }
}

fn full_set() -> libc::sigset_t {
    let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: `set` has room for a signal set.
    unsafe { libc::sigfillset(set.as_mut_ptr()) };
    // SAFETY: sigfillset has written all of it.
    unsafe { set.assume_init() }
}

/// A timer on the monotonic clock as a descriptor.
#[derive(Debug)]
pub struct Timer(OwnedFd);

impl Timer {
    /// Not set.
    pub fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        Ok(Self(rustix::time::timerfd_create(TimerfdClockId::Monotonic, flags)?))
    }

    /// Fires once after `delay`, at once if it is zero; forgets what was set before.
    pub fn set(&self, delay: Duration) -> io::Result<()> {
        // Zero would mean never.
        self.arm(timespec(delay.max(Duration::from_nanos(1)))?)
    }

    /// Fires never.
    pub fn clear(&self) -> io::Result<()> {
        self.arm(timespec(Duration::ZERO)?)
    }

    fn arm(&self, value: Timespec) -> io::Result<()> {
        let once = Itimerspec { it_interval: timespec(Duration::ZERO)?, it_value: value };
        rustix::time::timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &once)?;
        Ok(())
    }

    /// Whether it has fired since the last look.
    pub fn has_fired(&self) -> io::Result<bool> {
        let mut count = [0; 8];
        match rustix::io::read(&self.0, &mut count) {
            Ok(_) => Ok(true),
            Err(Errno::AGAIN) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for Timer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A pipe: reading end, writing end.
pub fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?)
}

/// Reads and writes return at once from now on. Shared by all who have this open file: never for
/// an end that a workload holds.
pub fn set_nonblocking(fd: BorrowedFd<'_>) -> io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(fd)?;
    Ok(rustix::fs::fcntl_setfl(fd, flags | OFlags::NONBLOCK)?)
}

/// Opens `/dev/null` for reading and writing.
pub fn open_null() -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOCTTY;
    Ok(rustix::fs::open("/dev/null", flags, rustix::fs::Mode::empty())?)
}

/// Reads once into `buffer`; an interrupted read is repeated. `WouldBlock` if nothing is there.
pub fn read(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    Ok(rustix::io::retry_on_intr(|| rustix::io::read(fd, &mut *buffer))?)
}

/// Writes once; an interrupted write is repeated.
pub fn write(fd: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    Ok(rustix::io::retry_on_intr(|| rustix::io::write(fd, bytes))?)
}

#[cfg(test)]
mod tests;
