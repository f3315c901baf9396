//! Namespaces: which there are, their id maps, and entering them.

use std::ffi::c_void;
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::mem;
use std::ops::BitOr;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};
use std::ptr;

use crate::events::SignalsBlocked;
use crate::process::{Child, Pid, Signal};
use crate::stack::Stack;
use crate::syscall::{check, errno};

/// A set of kinds of namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Namespaces(u32);

impl Namespaces {
    /// None: a plain fork.
    pub const NONE: Self = Self(0);
    /// User and group ids, capabilities.
    pub const USER: Self = Self(libc::CLONE_NEWUSER.cast_unsigned());
    /// Process numbers.
    pub const PID: Self = Self(libc::CLONE_NEWPID.cast_unsigned());
    /// Mounts.
    pub const MOUNT: Self = Self(libc::CLONE_NEWNS.cast_unsigned());
    /// Interfaces, ports, abstract sockets.
    pub const NETWORK: Self = Self(libc::CLONE_NEWNET.cast_unsigned());
    /// System V IPC and message queues.
    pub const IPC: Self = Self(libc::CLONE_NEWIPC.cast_unsigned());
    /// Host name.
    pub const UTS: Self = Self(libc::CLONE_NEWUTS.cast_unsigned());
    /// The view of cgroups.
    pub const CGROUP: Self = Self(libc::CLONE_NEWCGROUP.cast_unsigned());
    /// All seven.
    pub const ALL: Self = Self(
        Self::USER.0
            | Self::PID.0
            | Self::MOUNT.0
            | Self::NETWORK.0
            | Self::IPC.0
            | Self::UTS.0
            | Self::CGROUP.0,
    );

    /// Whether all of `other` are in.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// This set without `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The kernel's bits.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// The name in `/proc/<pid>/ns`, if this is one kind.
    pub const fn name(self) -> Option<&'static str> {
        match self {
            Self::USER => Some("user"),
            Self::PID => Some("pid"),
            Self::MOUNT => Some("mnt"),
            Self::NETWORK => Some("net"),
            Self::IPC => Some("ipc"),
            Self::UTS => Some("uts"),
            Self::CGROUP => Some("cgroup"),
            Self(_) => None,
        }
    }
}

impl BitOr for Namespaces {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// One line of an id map: `count` ids from `inside` are those from `outside` of the parent namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdRange {
    /// First id inside.
    pub inside: u32,
    /// First id outside.
    pub outside: u32,
    /// How many.
    pub count: u32,
}

/// Moves this process into new namespaces (PID: its next child).
pub fn unshare(namespaces: Namespaces) -> io::Result<()> {
    let flags = namespaces.bits().cast_signed();
    // SAFETY: unshare takes an integer. The flags are namespaces only, so no memory, no descriptor
    // table and no signal handler stops being shared.
    check(unsafe { libc::unshare(flags) }.into()).map(drop)
}

/// Joins the namespace behind `namespace`, which must be of this one kind.
pub fn join(namespace: BorrowedFd<'_>, kind: Namespaces) -> io::Result<()> {
    let kind = kind.bits().cast_signed();
    // SAFETY: setns takes a borrowed descriptor and an integer.
    check(unsafe { libc::setns(namespace.as_raw_fd(), kind) }.into()).map(drop)
}

/// Opens one namespace (`kind` holds exactly one) of a process.
pub fn open(pid: Pid, kind: Namespaces) -> io::Result<OwnedFd> {
    let name = kind.name().ok_or_else(|| errno(libc::EINVAL))?;
    Ok(File::open(format!("/proc/{pid}/ns/{name}"))?.into())
}

/// Writes the user map of a process in a new user namespace. Once only.
pub fn write_uid_map(pid: Pid, ranges: &[IdRange]) -> io::Result<()> {
    write_once(pid, "uid_map", &id_map_text(ranges))
}

/// Writes the group map. Without `CAP_SETGID` outside, [`deny_setgroups`] must come first.
pub fn write_gid_map(pid: Pid, ranges: &[IdRange]) -> io::Result<()> {
    write_once(pid, "gid_map", &id_map_text(ranges))
}

/// Forbids `setgroups` in the process's user namespace for good.
pub fn deny_setgroups(pid: Pid) -> io::Result<()> {
    write_once(pid, "setgroups", "deny")
}

/// Reads the user map of a process, as seen from here.
pub fn uid_map(pid: Pid) -> io::Result<Vec<IdRange>> {
    Ok(parse_id_map(&fs::read_to_string(format!("/proc/{pid}/uid_map"))?))
}

/// Reads the group map of a process, as seen from here.
pub fn gid_map(pid: Pid) -> io::Result<Vec<IdRange>> {
    Ok(parse_id_map(&fs::read_to_string(format!("/proc/{pid}/gid_map"))?))
}

fn id_map_text(ranges: &[IdRange]) -> String {
    let mut text = String::new();
    for IdRange { inside, outside, count } in ranges {
        // Writing to a string cannot fail.
        let _infallible = writeln!(text, "{inside} {outside} {count}");
    }
    text
}

/// The ranges of an id map's text; lines that are none are left out.
pub fn parse_id_map(text: &str) -> Vec<IdRange> {
    let parse = |line: &str| {
        let mut numbers = line.split_ascii_whitespace().map(str::parse::<u32>);
        let mut next = || numbers.next()?.ok();
        Some(IdRange { inside: next()?, outside: next()?, count: next()? })
    };
    text.lines().filter_map(parse).collect()
}

/// These files take exactly one write.
fn write_once(pid: Pid, file: &str, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).open(format!("/proc/{pid}/{file}"))?;
    file.write_all(text.as_bytes())
}

/// Makes a user namespace that nobody lives in, to be the id map of a mount.
///
/// Safe in a process with threads and cheap in a big one: the process that carries the namespace
/// for a moment shares our memory and only waits.
pub fn user_namespace(uids: &[IdRange], gids: &[IdRange]) -> io::Result<OwnedFd> {
    let stack = Stack::new();
    let carrier = start_carrier(&stack)?;
    let made = write_uid_map(carrier.pid(), uids)
        .and_then(|()| write_gid_map(carrier.pid(), gids))
        .and_then(|()| open(carrier.pid(), Namespaces::USER));
    let ended = carrier.signal(Signal::KILL).and_then(|()| carrier.wait());
    if let Err(error) = ended {
        // The carrier may still stand on its stack: leak it rather than free it under its feet.
        mem::forget(stack);
        return Err(error);
    }
    made
}

fn start_carrier(stack: &Stack) -> io::Result<Child> {
    // The carrier inherits this mask, so that it never runs a handler of ours on its small stack.
    let blocked = SignalsBlocked::all()?;
    let mut pidfd: RawFd = -1;
    // No exit signal: a SIGCHLD handler of the program has nothing to do with this child.
    let flags = libc::CLONE_VM | libc::CLONE_NEWUSER | libc::CLONE_PIDFD;
    // SAFETY: the child runs `wait_to_be_killed` on a stack of its own, which the caller keeps until
    // the child is reaped; it touches no memory but that stack. `pidfd` outlives the call.
    let ret = unsafe {
        libc::clone(
            wait_to_be_killed,
            stack.top(),
            flags,
            ptr::null_mut(),
            ptr::from_mut(&mut pidfd),
        )
    };
    let number = check(ret.into());
    drop(blocked);
    let number = i32::try_from(number?).map_err(io::Error::other)?;
    let pid = Pid::new(number).ok_or_else(|| errno(libc::EINVAL))?;
    // SAFETY: clone succeeded with CLONE_PIDFD, so `pidfd` is a new descriptor of ours.
    Ok(Child::new(pid, unsafe { OwnedFd::from_raw_fd(pidfd) }))
}

extern "C" fn wait_to_be_killed(_: *mut c_void) -> libc::c_int {
    loop {
        // SAFETY: ppoll with nothing to wait for and no time-out takes null pointers. All signals
        // are blocked, so it does not return and never writes `errno`, which the parent shares.
        unsafe { libc::syscall(libc::SYS_ppoll, 0, 0, 0, 0, 0) };
    }
}

/// Sets the host name of the UTS namespace.
pub fn set_host_name(name: &str) -> io::Result<()> {
    Ok(rustix::system::sethostname(name.as_bytes())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_map_is_written_as_it_is_read() {
        let ranges = [
            IdRange { inside: 0, outside: 1_879_048_192, count: 65536 },
            IdRange { inside: 70000, outside: 1, count: 1 },
        ];
        assert_eq!(id_map_text(&ranges), "0 1879048192 65536\n70000 1 1\n");
        assert_eq!(parse_id_map(&id_map_text(&ranges)), ranges);
        assert_eq!(parse_id_map("         0          0 4294967295\n").len(), 1);
        assert_eq!(parse_id_map("rubbish\n1 2\n"), []);
    }

    #[test]
    fn the_names_are_those_of_proc() {
        let this = Pid::this();
        for kind in [
            Namespaces::USER,
            Namespaces::PID,
            Namespaces::MOUNT,
            Namespaces::NETWORK,
            Namespaces::IPC,
            Namespaces::UTS,
            Namespaces::CGROUP,
        ] {
            open(this, kind).expect("our own namespace");
            assert!(Namespaces::ALL.contains(kind));
        }
        assert_eq!(open(this, Namespaces::ALL).unwrap_err().raw_os_error(), Some(libc::EINVAL));
    }
}
