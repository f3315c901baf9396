//! Mounts as descriptors: made or cloned detached, given their flags, then attached.
//!
//! Nothing is ever visible with weaker flags than it ends up with: flags are set while a tree is
//! still detached.

use std::io;
use std::ops::BitOr;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::Path;
use std::ptr;

use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags,
};
use rustix::path::Arg as _;

use crate::syscall::check;

/// What a mount forbids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MountFlags(u32);

impl MountFlags {
    /// Forbids nothing.
    pub const NONE: Self = Self(0);
    /// Writing.
    pub const READ_ONLY: Self = Self(MountAttrFlags::MOUNT_ATTR_RDONLY.bits());
    /// Set-user-id, set-group-id and file capabilities.
    pub const NO_SUID: Self = Self(MountAttrFlags::MOUNT_ATTR_NOSUID.bits());
    /// Device nodes.
    pub const NO_DEV: Self = Self(MountAttrFlags::MOUNT_ATTR_NODEV.bits());
    /// Executing.
    pub const NO_EXEC: Self = Self(MountAttrFlags::MOUNT_ATTR_NOEXEC.bits());
    /// Following symbolic links.
    pub const NO_SYMLINK_FOLLOW: Self = Self(MountAttrFlags::MOUNT_ATTR_NOSYMFOLLOW.bits());

    /// The kernel's bits (`MOUNT_ATTR_*`).
    pub const fn bits(self) -> u32 {
        self.0
    }
}

impl BitOr for MountFlags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

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

/// One option of a new file system.
#[derive(Debug, Clone, Copy)]
pub enum FsOption<'a> {
    /// `newinstance`, `userxattr`, …
    Flag(&'a str),
    /// `size=…`, `mode=…`, …
    Text(&'a str, &'a str),
}

/// A mount that is not attached anywhere yet (or a handle to one that is). A detached tree is gone
/// when its last handle is closed.
#[derive(Debug)]
pub struct Mount(OwnedFd);

impl Mount {
    /// A handle received from another process.
    pub fn from_fd(fd: OwnedFd) -> Self {
        Self(fd)
    }

    /// The descriptor, to be sent to another process.
    pub fn into_fd(self) -> OwnedFd {
        self.0
    }

    /// Clones what is mounted at `path` (relative to `directory`; empty: `directory` itself, which
    /// may be a file). The last component is not followed if it is a link.
    ///
    /// Needs `CAP_SYS_ADMIN` over the mount namespace. In a user namespace of one's own, mounts
    /// that came with it can only be cloned as a whole tree: what they cover must stay covered.
    pub fn clone_of(directory: BorrowedFd<'_>, path: &Path, extent: Extent) -> io::Result<Self> {
        let mut flags = OpenTreeFlags::OPEN_TREE_CLONE
            | OpenTreeFlags::OPEN_TREE_CLOEXEC
            | OpenTreeFlags::AT_SYMLINK_NOFOLLOW
            | OpenTreeFlags::AT_EMPTY_PATH;
        if extent == Extent::Tree {
            flags |= OpenTreeFlags::AT_RECURSIVE;
        }
        Ok(Self(rustix::mount::open_tree(directory, path, flags)?))
    }

    /// Makes a new file system (`tmpfs`, `proc`, `devpts`, `overlay`, …).
    ///
    /// # Errors
    /// The kernel's own explanation is in the text, if it gave one.
    pub fn new_filesystem(
        kind: &str,
        options: &[FsOption<'_>],
        flags: MountFlags,
    ) -> io::Result<Self> {
        let context = rustix::mount::fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
        let explain = |error| explained(error, kind, context.as_fd());
        for option in options {
            let set = match option {
                FsOption::Flag(name) => rustix::mount::fsconfig_set_flag(&context, *name),
                FsOption::Text(name, value) => {
                    rustix::mount::fsconfig_set_string(&context, *name, *value)
                }
            };
            set.map_err(explain)?;
        }
        rustix::mount::fsconfig_create(&context).map_err(explain)?;
        let attributes = MountAttrFlags::from_bits_retain(flags.bits());
        let mount = rustix::mount::fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes);
        Ok(Self(mount.map_err(explain)?))
    }

    /// Adds flags; never takes any away.
    pub fn restrict(&self, flags: MountFlags, extent: Extent) -> io::Result<()> {
        set_attributes(self.as_fd(), Path::new(""), extent, &Attributes::restricting(flags))
    }

    /// Shows the files' ids through the map of `user_namespace`: a file of the id that is *inside*
    /// belongs to the id *outside*. Needs privilege over the file system; only before the mount is
    /// attached.
    pub fn map_ids(&self, user_namespace: BorrowedFd<'_>, extent: Extent) -> io::Result<()> {
        let attributes = Attributes {
            set: MOUNT_ATTR_IDMAP,
            user_namespace: user_namespace.as_raw_fd().unsigned_abs().into(),
            ..Attributes::default()
        };
        set_attributes(self.as_fd(), Path::new(""), extent, &attributes)
    }

    /// Sets how mount events travel.
    pub fn set_propagation(&self, propagation: Propagation, extent: Extent) -> io::Result<()> {
        set_attributes(self.as_fd(), Path::new(""), extent, &Attributes::travelling(propagation))
    }

    /// Attaches it at `path` relative to `directory` (empty: on `directory` itself). A link in the
    /// last component is not followed.
    pub fn attach(&self, directory: BorrowedFd<'_>, path: &Path) -> io::Result<()> {
        let mut flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
        if path.as_os_str().is_empty() {
            flags |= MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
        }
        Ok(rustix::mount::move_mount(self.as_fd(), "", directory, path, flags)?)
    }
}

impl AsFd for Mount {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Adds flags to what is mounted at an attached place.
pub fn restrict_at(
    directory: BorrowedFd<'_>,
    path: &Path,
    flags: MountFlags,
    extent: Extent,
) -> io::Result<()> {
    set_attributes(directory, path, extent, &Attributes::restricting(flags))
}

/// Sets propagation of an attached tree, usually of `/` right after entering a mount namespace.
pub fn set_propagation_at(
    directory: BorrowedFd<'_>,
    path: &Path,
    propagation: Propagation,
    extent: Extent,
) -> io::Result<()> {
    set_attributes(directory, path, extent, &Attributes::travelling(propagation))
}

/// Makes the mount behind `new_root` the root and unmounts the old one. Leaves the caller in `/`.
pub fn pivot_root(new_root: BorrowedFd<'_>) -> io::Result<()> {
    rustix::process::fchdir(new_root)?;
    // Stacks the old root on top of the new one, so that no directory for it is needed; `.` then
    // means the old root, which is detached.
    rustix::process::pivot_root(".", ".")?;
    rustix::mount::unmount(".", UnmountFlags::DETACH)?;
    Ok(rustix::process::chdir("/")?)
}

/// Detaches a mount at once, even if it is busy. A link in the last component is not followed.
pub fn detach(path: &Path) -> io::Result<()> {
    Ok(rustix::mount::unmount(path, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW)?)
}

const MOUNT_ATTR_IDMAP: u64 = 0x0010_0000;

/// `struct mount_attr` of the kernel.
#[repr(C)]
#[derive(Debug, Default)]
struct Attributes {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

impl Attributes {
    fn restricting(flags: MountFlags) -> Self {
        Self { set: flags.bits().into(), ..Self::default() }
    }

    fn travelling(propagation: Propagation) -> Self {
        let propagation = match propagation {
            Propagation::Private => libc::MS_PRIVATE,
            Propagation::Follow => libc::MS_SLAVE,
        };
        Self { propagation, ..Self::default() }
    }
}

fn set_attributes(
    directory: BorrowedFd<'_>,
    path: &Path,
    extent: Extent,
    attributes: &Attributes,
) -> io::Result<()> {
    let mut flags = libc::AT_EMPTY_PATH | libc::AT_SYMLINK_NOFOLLOW;
    if extent == Extent::Tree {
        flags |= libc::AT_RECURSIVE;
    }
    let path = path.as_cow_c_str()?;
    // SAFETY: `path` ends with null, `attributes` has the layout of `struct mount_attr` and the
    // size that is passed; both and the descriptor are borrowed for the call.
    let ret = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            directory.as_raw_fd(),
            path.as_ptr(),
            flags,
            ptr::from_ref(attributes),
            size_of::<Attributes>(),
        )
    };
    check(ret).map(drop)
}

/// Adds what the kernel wrote into the context's log.
fn explained(error: rustix::io::Errno, kind: &str, context: BorrowedFd<'_>) -> io::Error {
    let cause = io::Error::from(error);
    let mut log = String::new();
    let mut line = [0; 512];
    // One message per read; ENODATA after the last.
    while let Ok(length @ 1..) = rustix::io::read(context, &mut line) {
        let text = String::from_utf8_lossy(line.get(..length).unwrap_or_default());
        log.push_str("; ");
        // Each starts with its severity: `e `, `w ` or `i `.
        log.push_str(text.trim_end().get(2..).unwrap_or_default());
    }
    if log.is_empty() {
        return cause;
    }
    io::Error::new(cause.kind(), format!("cannot make a `{kind}`: {cause}{log}"))
}
