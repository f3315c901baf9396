//! Landlock: builds a rule set at the best ABI the kernel has, says what it covers, and applies it.
//!
//! An older kernel gives less, never an error: [`Coverage`] says what, and others decide whether
//! that is enough.

use std::io;
use std::ops::BitOr;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::ptr;

use rustix::fs::FileType;

use crate::syscall::{check, check_fd};

/// Rights on files, as the kernel's bits (`LANDLOCK_ACCESS_FS_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Access(u64);

const EXECUTE: u64 = 1;
const WRITE_FILE: u64 = 1 << 1;
const READ_FILE: u64 = 1 << 2;
const READ_DIRECTORY: u64 = 1 << 3;
const REMOVE_DIRECTORY: u64 = 1 << 4;
const REMOVE_FILE: u64 = 1 << 5;
const MAKE_DIRECTORY: u64 = 1 << 7;
const MAKE_REGULAR: u64 = 1 << 8;
const MAKE_SOCKET: u64 = 1 << 9;
const MAKE_FIFO: u64 = 1 << 10;
const MAKE_SYMLINK: u64 = 1 << 12;
/// Linking and renaming between directories.
const REFER: u64 = 1 << 13;
const TRUNCATE: u64 = 1 << 14;
const IOCTL_DEVICE: u64 = 1 << 15;
/// The rights that mean something on a file that is no directory; others are `EINVAL` there.
const ON_FILES: u64 = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEVICE;

impl Access {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// Execute files.
    pub const EXECUTE: Self = Self(EXECUTE);
    /// Read files and list directories.
    pub const READ: Self = Self(READ_FILE | READ_DIRECTORY);
    /// Write, truncate, make, remove, link and rename everything but device nodes.
    pub const WRITE: Self = Self(
        WRITE_FILE
            | REMOVE_DIRECTORY
            | REMOVE_FILE
            | MAKE_DIRECTORY
            | MAKE_REGULAR
            | MAKE_SOCKET
            | MAKE_FIFO
            | MAKE_SYMLINK
            | REFER
            | TRUNCATE,
    );
    /// Write into files that exist, nothing else: for device nodes.
    pub const WRITE_EXISTING: Self = Self(WRITE_FILE | TRUNCATE);
    /// Commands to devices (ABI 5).
    pub const IOCTL_DEVICE: Self = Self(IOCTL_DEVICE);

    /// The kernel's bits.
    pub const fn bits(self) -> u64 {
        self.0
    }
}

impl BitOr for Access {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// What should be confined.
#[derive(Debug, Default)]
pub struct Request<'a> {
    /// Everything on files is refused except what these give, each on a file or a whole tree. Where
    /// two cover a file, both give.
    pub paths: Vec<(BorrowedFd<'a>, Access)>,
    /// TCP ports that may be bound or connected to; `None` leaves TCP alone (ABI 4).
    pub tcp: Option<TcpPorts>,
    /// What is cut off from processes outside (ABI 6).
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

/// How far the confined processes are cut off from others. "Others" are all that were not confined
/// by the same call or below it: two commands confined one after the other are strangers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scope {
    /// No signals to, and no abstract unix sockets of, others.
    #[default]
    Closed,
    /// No abstract unix sockets of others.
    AbstractSockets,
    /// Left alone.
    Open,
}

impl Scope {
    const fn bits(self) -> u64 {
        match self {
            Self::Closed => 0b11,
            Self::AbstractSockets => 0b01,
            Self::Open => 0,
        }
    }
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

impl Coverage {
    /// The most that `request` can get from a kernel with this ABI.
    fn of(request: &Request<'_>, abi: u32) -> Self {
        // ABI 1 has 13 rights; 2 adds REFER, 3 TRUNCATE, 5 IOCTL_DEV.
        let rights = match abi {
            0 => 0,
            1 => 13,
            2 => 14,
            3 | 4 => 15,
            _ => 16,
        };
        Self {
            abi,
            files: (1 << rights) - 1,
            network: if abi >= 4 && request.tcp.is_some() { BIND_TCP | CONNECT_TCP } else { 0 },
            scopes: if abi >= 6 { request.scope.bits() } else { 0 },
        }
    }
}

/// A rule set ready to be applied, any number of times.
#[derive(Debug)]
pub struct Ruleset {
    fd: OwnedFd,
    coverage: Coverage,
}

impl Ruleset {
    /// Builds it; `None` if the kernel has no Landlock.
    pub fn build(request: &Request<'_>) -> io::Result<Option<Self>> {
        let Some(abi) = abi()? else { return Ok(None) };
        Self::build_at(request, abi).map(Some)
    }

    /// Builds it as a kernel with this ABI would, which must not be above the real one.
    fn build_at(request: &Request<'_>, abi: u32) -> io::Result<Self> {
        let coverage = Coverage::of(request, abi);
        let attributes = RulesetAttributes {
            files: coverage.files,
            network: coverage.network,
            scopes: coverage.scopes,
        };
        // SAFETY: `attributes` has the size that is passed. An older kernel knows fewer fields; it
        // accepts the others because they are zero then.
        let ret = unsafe {
            libc::syscall(
                libc::SYS_landlock_create_ruleset,
                ptr::from_ref(&attributes),
                size_of::<RulesetAttributes>(),
                0,
            )
        };
        // SAFETY: on success `ret` is a new descriptor (always close-on-exec).
        let fd = unsafe { check_fd(ret) }?;
        let ruleset = Self { fd, coverage };
        for (path, access) in &request.paths {
            ruleset.allow_path(*path, *access)?;
        }
        if coverage.network != 0
            && let Some(tcp) = &request.tcp
        {
            for port in &tcp.bind {
                ruleset.allow_port(*port, BIND_TCP)?;
            }
            for port in &tcp.connect {
                ruleset.allow_port(*port, CONNECT_TCP)?;
            }
        }
        Ok(ruleset)
    }

    fn allow_path(&self, path: BorrowedFd<'_>, access: Access) -> io::Result<()> {
        let is_directory =
            FileType::from_raw_mode(rustix::fs::fstat(path)?.st_mode) == FileType::Directory;
        let possible = if is_directory { u64::MAX } else { ON_FILES };
        let allowed = access.bits() & possible & self.coverage.files;
        if allowed == 0 {
            return Ok(());
        }
        let rule = PathBeneath { allowed, parent: path.as_raw_fd() };
        // SAFETY: for this kind of rule the kernel reads one `PathBeneath`, which outlives the call.
        unsafe { self.add_rule(RULE_PATH_BENEATH, ptr::from_ref(&rule).cast()) }
    }

    fn allow_port(&self, port: u16, allowed: u64) -> io::Result<()> {
        let rule = NetPort { allowed, port: port.into() };
        // SAFETY: for this kind of rule the kernel reads one `NetPort`, which outlives the call.
        unsafe { self.add_rule(RULE_NET_PORT, ptr::from_ref(&rule).cast()) }
    }

    /// # Safety
    /// `rule` must point to the structure that the kernel reads for this `kind`.
    unsafe fn add_rule(&self, kind: u32, rule: *const libc::c_void) -> io::Result<()> {
        let fd = self.fd.as_raw_fd();
        // SAFETY: the caller vouches for `rule`; the descriptor is ours.
        let ret = unsafe { libc::syscall(libc::SYS_landlock_add_rule, fd, kind, rule, 0) };
        check(ret).map(drop)
    }

    /// What it covers.
    pub const fn coverage(&self) -> Coverage {
        self.coverage
    }

    /// Confines the calling thread and its descendants for good; needs no-new-privs. At most 16
    /// rule sets stack.
    pub fn restrict_self(&self) -> io::Result<()> {
        // SAFETY: takes a descriptor of ours and an integer.
        let ret =
            unsafe { libc::syscall(libc::SYS_landlock_restrict_self, self.fd.as_raw_fd(), 0) };
        check(ret).map(drop)
    }
}

impl AsFd for Ruleset {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The kernel's ABI; `None` if Landlock is not built in or switched off.
pub fn abi() -> io::Result<Option<u32>> {
    const VERSION: u32 = 1;
    let none: *const libc::c_void = ptr::null();
    // SAFETY: with this flag the kernel wants a null pointer and size 0, and makes no descriptor.
    let ret = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, none, 0, VERSION) };
    match check(ret) {
        Ok(abi) => Ok(u32::try_from(abi).ok().filter(|abi| *abi > 0)),
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EOPNOTSUPP)) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

const BIND_TCP: u64 = 1;
const CONNECT_TCP: u64 = 1 << 1;
const RULE_PATH_BENEATH: u32 = 1;
const RULE_NET_PORT: u32 = 2;

/// `struct landlock_ruleset_attr`.
#[repr(C)]
struct RulesetAttributes {
    files: u64,
    network: u64,
    scopes: u64,
}

/// `struct landlock_path_beneath_attr`, which the kernel declares packed.
#[repr(C, packed)]
struct PathBeneath {
    allowed: u64,
    parent: i32,
}

/// `struct landlock_net_port_attr`.
#[repr(C)]
struct NetPort {
    allowed: u64,
    port: u64,
}

#[cfg(test)]
mod tests;
