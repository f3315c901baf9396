//! Waits for children: how they ended and what they used.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::time::Duration;

use super::{Pid, Signal};
use crate::syscall::check;

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
    /// The largest resident set of any one of them. A program started from us counts at least
    /// with what we had resident when it started.
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
pub fn reap_any() -> io::Result<Reaped> {
    match wait(libc::P_ALL, 0, libc::WNOHANG) {
        Ok(Some(ended)) => Ok(Reaped::Ended(ended)),
        Ok(None) => Ok(Reaped::NoneEnded),
        Err(error) if error.raw_os_error() == Some(libc::ECHILD) => Ok(Reaped::NoChildren),
        Err(error) => Err(error),
    }
}

/// Waits for any child to end and reaps it; `None` if there are no children.
pub fn wait_any() -> io::Result<Option<Ended>> {
    match wait(libc::P_ALL, 0, 0) {
        Err(error) if error.raw_os_error() == Some(libc::ECHILD) => Ok(None),
        other => other,
    }
}

/// Tells one child that was stopped since it was last told of, without waiting.
pub fn stopped_any() -> io::Result<Option<Pid>> {
    match wait_for(libc::P_ALL, 0, libc::WNOHANG | libc::WSTOPPED) {
        Ok((info, _)) => {
            // SAFETY: waitid fills the fields of SIGCHLD, or leaves all zeros.
            Ok(Pid::new(unsafe { info.si_pid() }))
        }
        Err(error) if error.raw_os_error() == Some(libc::ECHILD) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Waits for one child.
pub(super) fn wait_pidfd(pidfd: BorrowedFd<'_>) -> io::Result<Ended> {
    wait(libc::P_PIDFD, pidfd.as_raw_fd().unsigned_abs(), 0)?
        .ok_or_else(|| io::Error::other("the kernel ended a wait without a child"))
}

/// Looks whether one child has ended.
pub(super) fn try_wait_pidfd(pidfd: BorrowedFd<'_>) -> io::Result<Option<Ended>> {
    wait(libc::P_PIDFD, pidfd.as_raw_fd().unsigned_abs(), libc::WNOHANG)
}

fn wait(which: libc::idtype_t, id: u32, options: i32) -> io::Result<Option<Ended>> {
    let (info, usage) = wait_for(which, id, options | libc::WEXITED)?;
    Ok(ended(&info, &usage))
}

/// `waitid` as the kernel has it: unlike libc's, it also tells what was used.
fn wait_for(
    which: libc::idtype_t,
    id: u32,
    options: i32,
) -> io::Result<(libc::siginfo_t, libc::rusage)> {
    // __WALL: also children whose end is not announced by SIGCHLD.
    let options = options | libc::__WALL;
    loop {
        let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
        let mut usage = MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: both structures are as large as the kernel's and outlive the call.
        let ret = unsafe {
            libc::syscall(
                libc::SYS_waitid,
                which,
                id,
                info.as_mut_ptr(),
                options,
                usage.as_mut_ptr(),
            )
        };
        match check(ret) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
            Ok(_) => {}
        }
        // SAFETY: all zeros is a valid siginfo_t, and the kernel wrote over it at most.
        let info = unsafe { info.assume_init() };
        // SAFETY: the same for rusage, which holds numbers only.
        let usage = unsafe { usage.assume_init() };
        return Ok((info, usage));
    }
}

fn ended(info: &libc::siginfo_t, usage: &libc::rusage) -> Option<Ended> {
    // SAFETY: waitid fills the fields of SIGCHLD, or leaves all zeros.
    let pid = Pid::new(unsafe { info.si_pid() })?;
    // SAFETY: as above.
    let status = unsafe { info.si_status() };
    let status = if info.si_code == libc::CLD_EXITED {
        // The kernel keeps eight bits of the code.
        ExitStatus::Code(u8::try_from(status & 0xff).unwrap_or(u8::MAX))
    } else {
        ExitStatus::Signal(Signal::new(status & 0x7f).unwrap_or(Signal::KILL))
    };
    let kibibytes = u64::try_from(usage.ru_maxrss).unwrap_or(0);
    let usage = Usage {
        user: duration(usage.ru_utime),
        system: duration(usage.ru_stime),
        peak_memory_bytes: kibibytes.saturating_mul(1024),
    };
    Some(Ended { pid, status, usage })
}

fn duration(time: libc::timeval) -> Duration {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let micros = u64::try_from(time.tv_usec).unwrap_or(0);
    Duration::from_secs(seconds).saturating_add(Duration::from_micros(micros))
}
