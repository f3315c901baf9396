//! Namespaces: which there are, their id maps, and entering them.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::ops::BitOr;

use crate::process::Pid;

/// A set of kinds of namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Namespaces(u32);

impl Namespaces {
    /// None: a plain fork.
    pub const NONE: Self = Self(0);
    /// User and group ids, capabilities.
    pub const USER: Self = Self(libc::CLONE_NEWUSER as u32);
    /// Process numbers.
    pub const PID: Self = Self(libc::CLONE_NEWPID as u32);
    /// Mounts.
    pub const MOUNT: Self = Self(libc::CLONE_NEWNS as u32);
    /// Interfaces, ports, abstract sockets.
    pub const NETWORK: Self = Self(libc::CLONE_NEWNET as u32);
    /// System V IPC and message queues.
    pub const IPC: Self = Self(libc::CLONE_NEWIPC as u32);
    /// Host name.
    pub const UTS: Self = Self(libc::CLONE_NEWUTS as u32);
    /// The view of cgroups.
    pub const CGROUP: Self = Self(libc::CLONE_NEWCGROUP as u32);
    /// All seven.
    pub const ALL: Self = Self(0x7e02_0000);
    /// Whether all of `other` are in.
    pub const fn contains(self, other: Self) -> bool { self.0 & other.0 == other.0 }
    /// This set without `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self { Self(self.0 & !other.0) }
    /// The kernel's bits.
    pub const fn bits(self) -> u32 { self.0 }
}
impl BitOr for Namespaces { type Output = Self; fn bitor(self, other: Self) -> Self { Self(self.0 | other.0) } }

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
pub fn unshare(namespaces: Namespaces) -> io::Result<()> { todo!() }
/// Joins the namespace behind `namespace`, which must be of this one kind.
pub fn join(namespace: BorrowedFd<'_>, kind: Namespaces) -> io::Result<()> { todo!() }
/// Opens one namespace (`kind` holds exactly one) of a process.
pub fn open(pid: Pid, kind: Namespaces) -> io::Result<OwnedFd> { todo!() }

/// Writes the user map of a process in a new user namespace. Once only.
pub fn write_uid_map(pid: Pid, ranges: &[IdRange]) -> io::Result<()> { todo!() }
/// Writes the group map. Without `CAP_SETGID` outside, [`deny_setgroups`] must come first.
pub fn write_gid_map(pid: Pid, ranges: &[IdRange]) -> io::Result<()> { todo!() }
/// Forbids `setgroups` in the process's user namespace for good.
pub fn deny_setgroups(pid: Pid) -> io::Result<()> { todo!() }
/// Reads the user map of a process, as seen from here.
pub fn uid_map(pid: Pid) -> io::Result<Vec<IdRange>> { todo!() }
/// Reads the group map of a process, as seen from here.
pub fn gid_map(pid: Pid) -> io::Result<Vec<IdRange>> { todo!() }

/// Makes a user namespace that nobody lives in, to be the id map of a mount.
///
/// Safe in a process with threads and cheap in a big one: the process that carries the namespace for a
/// moment shares our memory and only waits.
pub fn user_namespace(uids: &[IdRange], gids: &[IdRange]) -> io::Result<OwnedFd> { todo!() }

/// Sets the host name of the UTS namespace.
pub fn set_host_name(name: &str) -> io::Result<()> { todo!() }
