//! Mounts as descriptors: made or cloned detached, given their flags, then attached.
//!
//! Nothing is ever visible with weaker flags than it ends up with: flags are set while a tree is still detached.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ops::BitOr;
use std::path::Path;

/// What a mount forbids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MountFlags(u32);
impl MountFlags {
    /// Forbids nothing.
    pub const NONE: Self = Self(0);
    /// Writing.
    pub const READ_ONLY: Self = Self(0x1);
    /// Set-user-id, set-group-id and file capabilities.
    pub const NO_SUID: Self = Self(0x2);
    /// Device nodes.
    pub const NO_DEV: Self = Self(0x4);
    /// Executing.
    pub const NO_EXEC: Self = Self(0x8);
    /// Following symbolic links.
    pub const NO_SYMLINK_FOLLOW: Self = Self(0x0020_0000);
    /// The kernel's bits (MOUNT_ATTR_*).
    pub const fn bits(self) -> u32 { self.0 }
}
impl BitOr for MountFlags { type Output = Self; fn bitor(self, other: Self) -> Self { Self(self.0 | other.0) } }

/// Only this mount, or all below it too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// This mount only.
    One,
    /// The whole tree.
    Tree,
}

/// How mounts and unmounts travel between copies of a mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    /// In neither direction.
    Private,
    /// Only from the original to us.
    Follow,
}

/// A mount that is not attached anywhere yet (or a handle to one that is).
#[derive(Debug)]
pub struct Mount(OwnedFd);

impl Mount {
    /// A handle received from another process.
    pub fn from_fd(fd: OwnedFd) -> Self { todo!() }
    /// The descriptor, to be sent to another process.
    pub fn into_fd(self) -> OwnedFd { todo!() }
    /// Clones what is mounted at `path` (relative to `directory`; empty: `directory` itself, which may be a file).
    /// Links in `path` are followed, except the last component.
    pub fn clone_of(directory: BorrowedFd<'_>, path: &Path, extent: Extent) -> io::Result<Self> { todo!() }
    /// Makes a new file system (`tmpfs`, `proc`, `devpts`, `overlay`, …).
    ///
    /// The error carries the kernel's own explanation if it gave one.
    pub fn new_filesystem(kind: &str, options: &[FsOption<'_>], flags: MountFlags) -> io::Result<Self> { todo!() }
    /// Adds flags; never takes any away.
    pub fn restrict(&self, flags: MountFlags, extent: Extent) -> io::Result<()> { todo!() }
    /// Shows the files' ids through the map of `user_namespace`. Needs privilege over the file system; only before
    /// the mount is attached.
    pub fn map_ids(&self, user_namespace: BorrowedFd<'_>, extent: Extent) -> io::Result<()> { todo!() }
    /// Sets how mount events travel.
    pub fn set_propagation(&self, propagation: Propagation, extent: Extent) -> io::Result<()> { todo!() }
    /// Attaches it at `path` relative to `directory` (empty: on `directory` itself). Links in the last component are not followed.
    pub fn attach(&self, directory: BorrowedFd<'_>, path: &Path) -> io::Result<()> { todo!() }
}
impl AsFd for Mount { fn as_fd(&self) -> BorrowedFd<'_> { todo!() } }

/// One option of a new file system.
#[derive(Debug, Clone, Copy)]
pub enum FsOption<'a> {
    /// `newinstance`, `userxattr`, …
    Flag(&'a str),
    /// `size=…`, `mode=…`, …
    Text(&'a str, &'a str),
}

/// Sets flags on what is mounted at an attached place.
pub fn restrict_at(directory: BorrowedFd<'_>, path: &Path, flags: MountFlags, extent: Extent) -> io::Result<()> { todo!() }
/// Sets propagation of an attached tree, usually of `/` right after entering a mount namespace.
pub fn set_propagation_at(directory: BorrowedFd<'_>, path: &Path, propagation: Propagation, extent: Extent) -> io::Result<()> { todo!() }
/// Makes the mount behind `new_root` the root and unmounts the old one. Leaves the caller in `/`.
pub fn pivot_root(new_root: BorrowedFd<'_>) -> io::Result<()> { todo!() }
/// Detaches a mount at once, even if it is busy.
pub fn detach(path: &Path) -> io::Result<()> { todo!() }
