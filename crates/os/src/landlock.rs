//! Landlock: builds a rule set at the best ABI the kernel has, says what it covers, and applies it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ops::BitOr;

/// Rights on files, as the kernel's bits (`LANDLOCK_ACCESS_FS_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Access(u64);
impl Access {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// Execute a file.
    pub const EXECUTE: Self = Self(1);
    /// Read files and list directories.
    pub const READ: Self = Self(0b1100);
    /// Write, truncate, create, remove and rename everything but device nodes.
    pub const WRITE: Self = Self(0b0111_0111_1011_0010 | 1 << 14);
    /// Commands to devices (ABI 5).
    pub const IOCTL_DEVICE: Self = Self(1 << 15);
    /// The kernel's bits.
    pub const fn bits(self) -> u64 { self.0 }
}
impl BitOr for Access { type Output = Self; fn bitor(self, other: Self) -> Self { Self(self.0 | other.0) } }

/// What should be confined.
#[derive(Debug, Default)]
pub struct Request<'a> {
    /// Everything on files is refused except what these give (each on a file or a whole directory tree).
    pub paths: Vec<(BorrowedFd<'a>, Access)>,
    /// TCP ports that may be bound or connected to; `None` leaves TCP alone.
    pub tcp: Option<TcpPorts>,
    /// Whether abstract unix sockets and signals beyond the confined processes are refused (ABI 6).
    pub scope: Scope,
}

/// TCP ports that stay open.
#[derive(Debug, Clone, Default)]
pub struct TcpPorts {
    /// May be bound.
    pub bind: Vec<u16>,
    /// May be connected to.
    pub connect: Vec<u16>,
}

/// Whether the confined processes are cut off from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scope {
    /// No signals to and no abstract sockets of processes outside.
    #[default]
    Closed,
    /// Left alone.
    Open,
}

/// What a rule set really covers on this kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Coverage {
    /// The kernel's ABI, 1 and up.
    pub abi: u32,
    /// Rights on files that are refused unless given (`LANDLOCK_ACCESS_FS_*`).
    pub files: u64,
    /// Rights on TCP (`LANDLOCK_ACCESS_NET_*`).
    pub network: u64,
    /// Scopes (`LANDLOCK_SCOPE_*`).
    pub scopes: u64,
}

/// A rule set ready to be applied, any number of times.
#[derive(Debug)]
pub struct Ruleset { _fd: OwnedFd, coverage: Coverage }

impl Ruleset {
    /// Builds it; `None` if the kernel has no Landlock.
    pub fn build(request: &Request<'_>) -> io::Result<Option<Self>> { todo!() }
    /// What it covers.
    pub fn coverage(&self) -> Coverage { self.coverage }
    /// Confines the calling thread for good; needs no-new-privs.
    pub fn restrict_self(&self) -> io::Result<()> { todo!() }
}
impl AsFd for Ruleset { fn as_fd(&self) -> BorrowedFd<'_> { todo!() } }

/// The kernel's ABI; `None` if Landlock is not built in or switched off.
pub fn abi() -> io::Result<Option<u32>> { todo!() }
