//! Files beneath an open directory. The kernel resolves paths (`openat2`); nothing here checks strings for `..`.
//!
//! A *path* may have many components and links inside the root; it is only ever given to [`open`] and
//! [`open_parent`]. A *name* is one component in an open directory; functions that take one refuse `/`, `.`, `..`
//! and the empty name, and never follow it if it is a link.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::SystemTime;

/// What to open and how. `O_CLOEXEC`, `O_NOCTTY` and `O_NONBLOCK` (until it is known to be no FIFO) are always set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Open {
    /// A handle that reads nothing; of a link itself if the last component is one.
    Handle,
    /// A handle; the last component is followed if it is a link.
    HandleFollow,
    /// A directory, to list or to work in.
    Directory,
    /// A file for reading.
    Read,
    /// A file for writing, must exist.
    Write,
    /// A file for appending; made with this mode if missing.
    Append {
        /// Mode of a new file.
        mode: u32,
    },
    /// A new file for reading and writing; `AlreadyExists` if there is anything of that name.
    CreateNew {
        /// Mode of the new file.
        mode: u32,
    },
}

/// Opens `path` beneath `root`: `..`, links and absolute links that would leave it fail with `EXDEV`, magic links with `ELOOP`.
///
/// An empty path or `.` is the root itself; a leading `/` means the root too.
pub fn open(root: BorrowedFd<'_>, path: &Path, how: Open) -> io::Result<OwnedFd> { todo!() }
/// Opens the directory that `path` lies in and gives the last name. `InvalidInput` if the last component is `.`, `..` or missing.
pub fn open_parent(root: BorrowedFd<'_>, path: &Path) -> io::Result<(OwnedFd, OsString)> { todo!() }
/// Opens any directory of the host by path, as a root to work beneath.
pub fn open_root(path: &Path) -> io::Result<OwnedFd> { todo!() }

/// What kind of file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Kind { File, Directory, Symlink, Fifo, Socket, CharacterDevice, BlockDevice, Unknown }

/// What is known about a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    /// Kind.
    pub kind: Kind,
    /// Permission bits with set-id and sticky (07777).
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Bytes.
    pub size: u64,
    /// Hard links.
    pub links: u32,
    /// Last change of content.
    pub modified: SystemTime,
    /// Inode number.
    pub inode: u64,
    /// Device of the file system.
    pub device: u64,
    /// Mount it was reached through, where the kernel says so.
    pub mount: Option<u64>,
}
/// Of an open file.
pub fn stat(file: BorrowedFd<'_>) -> io::Result<Stat> { todo!() }
/// Of a name; a link itself.
pub fn stat_name(directory: BorrowedFd<'_>, name: &OsStr) -> io::Result<Stat> { todo!() }

/// One entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: OsString,
    /// Its kind; `Unknown` if the file system does not say.
    pub kind: Kind,
}
/// Calls `each` for every entry but `.` and `..`, until it says stop. Holds one small buffer, however big the directory.
pub fn list(directory: BorrowedFd<'_>, each: &mut dyn FnMut(Entry) -> std::ops::ControlFlow<()>) -> io::Result<()> { todo!() }

/// Makes a directory.
pub fn make_directory(directory: BorrowedFd<'_>, name: &OsStr, mode: u32) -> io::Result<()> { todo!() }
/// Makes every missing directory of `path` and opens the last.
pub fn make_directories(root: BorrowedFd<'_>, path: &Path, mode: u32) -> io::Result<OwnedFd> { todo!() }
/// Removes anything but a directory.
pub fn remove_file(directory: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> { todo!() }
/// Removes an empty directory.
pub fn remove_directory(directory: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> { todo!() }
/// Removes a file or a whole tree; follows no link, crosses no mount, needs no recursion.
pub fn remove_tree(directory: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> { todo!() }

/// What a rename does when the target exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// Replaces it.
    Replace,
    /// Fails with `AlreadyExists`.
    Keep,
    /// Swaps the two.
    Exchange,
}
/// A name in a directory.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// The open directory.
    pub directory: BorrowedFd<'a>,
    /// One component.
    pub name: &'a OsStr,
}
/// Renames.
pub fn rename(from: Place<'_>, to: Place<'_>, existing: Existing) -> io::Result<()> { todo!() }
/// Makes a second name for a file; a link itself is not followed.
pub fn hard_link(from: Place<'_>, to: Place<'_>) -> io::Result<()> { todo!() }
/// Makes a symbolic link with this text.
pub fn symlink(target: &OsStr, link: Place<'_>) -> io::Result<()> { todo!() }
/// Reads a symbolic link.
pub fn read_link(directory: BorrowedFd<'_>, name: &OsStr) -> io::Result<OsString> { todo!() }
/// Sets permission bits of an open file (not of a [`Open::Handle`]).
pub fn set_mode(file: BorrowedFd<'_>, mode: u32) -> io::Result<()> { todo!() }
/// Sets owner and group of an open file.
pub fn set_owner(file: BorrowedFd<'_>, uid: u32, gid: u32) -> io::Result<()> { todo!() }
/// Sets the time of last change of an open file.
pub fn set_modified(file: BorrowedFd<'_>, time: SystemTime) -> io::Result<()> { todo!() }
