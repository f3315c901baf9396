//! Files beneath an open directory. The kernel resolves paths (`openat2`); nothing here checks
//! strings for `..`.
//!
//! A *path* may have many components and links inside the root; it is only ever given to [`open`],
//! [`open_parent`] and [`make_directories`]. A *name* is one component in an open directory;
//! functions that take one refuse `/`, `.`, `..` and the empty name, and never follow it if it is a
//! link.

use std::ffi::{OsStr, OsString};
use std::io;
use std::ops::ControlFlow;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, RawDir, RenameFlags, ResolveFlags, SeekFrom, Statx,
    StatxFlags, Timespec, Timestamps, Uid,
};
use rustix::io::Errno;

use crate::syscall::errno;

mod remove;

pub use remove::{Removal, remove_tree};

/// A directory to stay beneath, and what its absolute links mean. Made from a descriptor alone,
/// absolute links are refused.
#[derive(Debug, Clone, Copy)]
pub struct Root<'a> {
    directory: BorrowedFd<'a>,
    links: ResolveFlags,
}

impl<'a> Root<'a> {
    /// Absolute links (and `..` at the top) mean this directory, as after chroot: for a directory
    /// that *is* the root of those who made the links, such as a pen's `/`.
    pub fn with_absolute_links(directory: BorrowedFd<'a>) -> Self {
        Self { directory, links: ResolveFlags::IN_ROOT }
    }

    /// No link is followed (`ELOOP`) and no mount entered (`EXDEV`): for copies from and to a tree
    /// that somebody else may be changing.
    pub fn without_links(directory: BorrowedFd<'a>) -> Self {
        let links = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
        Self { directory, links }
    }
}

impl<'a> From<BorrowedFd<'a>> for Root<'a> {
    fn from(directory: BorrowedFd<'a>) -> Self {
        Self { directory, links: ResolveFlags::BENEATH }
    }
}

/// What to open and how. `O_CLOEXEC`, `O_NOCTTY` and `O_NONBLOCK` are always set: a FIFO or a device
/// in the place of a file can neither hang us nor become our terminal.
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
    /// A file for writing, must exist; not truncated.
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
    /// A new file without a name, for reading and writing; the path is its directory. It is gone
    /// with its last descriptor, unless [`give_name`] was called. Some file systems cannot do it
    /// (`EOPNOTSUPP`).
    Unnamed {
        /// Mode of the new file.
        mode: u32,
    },
}

impl Open {
    fn to_kernel(self) -> (OFlags, Mode) {
        let none = Mode::empty();
        let (flags, mode) = match self {
            // The kernel allows few other flags beside O_PATH.
            Self::Handle => return (OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, none),
            Self::HandleFollow => return (OFlags::PATH | OFlags::CLOEXEC, none),
            Self::Directory => (OFlags::RDONLY | OFlags::DIRECTORY, none),
            Self::Read => (OFlags::RDONLY, none),
            Self::Write => (OFlags::WRONLY, none),
            Self::Append { mode } => {
                (OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE, permission_bits(mode))
            }
            Self::CreateNew { mode } => {
                (OFlags::RDWR | OFlags::CREATE | OFlags::EXCL, permission_bits(mode))
            }
            Self::Unnamed { mode } => (OFlags::RDWR | OFlags::TMPFILE, permission_bits(mode)),
        };
        (flags | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK, mode)
    }
}

fn permission_bits(mode: u32) -> Mode {
    Mode::from_raw_mode(mode & 0o7777)
}

/// How often a lookup is repeated that a rename elsewhere disturbed.
const TRIES: usize = 64;

/// Opens `path` beneath `root`: what would leave it fails with `EXDEV`, magic links with `ELOOP`.
///
/// An empty path or `.` is the root itself; a leading `/` means the root too.
pub fn open<'a>(root: impl Into<Root<'a>>, path: &Path, how: Open) -> io::Result<OwnedFd> {
    let root = root.into();
    let path = relative(path);
    let (flags, mode) = how.to_kernel();
    let resolve = root.links | ResolveFlags::NO_MAGICLINKS;
    for _ in 0..TRIES {
        // EAGAIN: somebody renamed or mounted while the kernel walked through `..`, so it cannot
        // be sure that it stayed inside.
        match rustix::fs::openat2(root.directory, path, flags, mode, resolve) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            other => return Ok(other?),
        }
    }
    Err(errno(libc::EAGAIN))
}

fn relative(path: &Path) -> &Path {
    let path = path.strip_prefix("/").unwrap_or(path);
    if path.as_os_str().is_empty() { Path::new(".") } else { path }
}

/// Opens the directory that `path` lies in and gives the last name, which need not exist.
///
/// `InvalidInput` if there is no last name (the root itself) or it is `..`.
pub fn open_parent<'a>(root: impl Into<Root<'a>>, path: &Path) -> io::Result<(OwnedFd, OsString)> {
    let path = relative(path);
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let parent = path.parent().unwrap_or(Path::new("."));
    Ok((open(root, parent, Open::Directory)?, name.to_owned()))
}

/// Opens any directory of the host by path, links followed, as a root to work beneath.
pub fn open_root(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// What kind of file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Kind {
    File,
    Directory,
    Symlink,
    Fifo,
    Socket,
    CharacterDevice,
    BlockDevice,
    Unknown,
}

impl Kind {
    fn from_kernel(kind: FileType) -> Self {
        match kind {
            FileType::RegularFile => Self::File,
            FileType::Directory => Self::Directory,
            FileType::Symlink => Self::Symlink,
            FileType::Fifo => Self::Fifo,
            FileType::Socket => Self::Socket,
            FileType::CharacterDevice => Self::CharacterDevice,
            FileType::BlockDevice => Self::BlockDevice,
            FileType::Unknown => Self::Unknown,
        }
    }
}

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
    /// Mount it was reached through, where the kernel says so (Linux 5.8).
    pub mount: Option<u64>,
}

/// Of an open file, or a handle.
pub fn stat(file: BorrowedFd<'_>) -> io::Result<Stat> {
    statx(file, OsStr::new(""), AtFlags::EMPTY_PATH)
}

/// Of a name; a link itself.
pub fn stat_name(directory: BorrowedFd<'_>, name: &OsStr) -> io::Result<Stat> {
    statx(directory, valid_name(name)?, AtFlags::SYMLINK_NOFOLLOW)
}

fn statx(directory: BorrowedFd<'_>, name: &OsStr, flags: AtFlags) -> io::Result<Stat> {
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::MNT_ID;
    let flags = flags | AtFlags::NO_AUTOMOUNT;
    let known: Statx = rustix::fs::statx(directory, name, flags, wanted)?;
    let has_mount = StatxFlags::from_bits_retain(known.stx_mask).contains(StatxFlags::MNT_ID);
    Ok(Stat {
        kind: Kind::from_kernel(FileType::from_raw_mode(known.stx_mode.into())),
        mode: u32::from(known.stx_mode) & 0o7777,
        uid: known.stx_uid,
        gid: known.stx_gid,
        size: known.stx_size,
        links: known.stx_nlink,
        modified: system_time(known.stx_mtime.tv_sec, known.stx_mtime.tv_nsec),
        inode: known.stx_ino,
        device: rustix::fs::makedev(known.stx_dev_major, known.stx_dev_minor),
        mount: has_mount.then_some(known.stx_mnt_id),
    })
}

/// A time the file system made up (before 1970, or absurdly late) is moved to the nearest that can
/// be said.
fn system_time(seconds: i64, nanos: u32) -> SystemTime {
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let base = if seconds < 0 {
        SystemTime::UNIX_EPOCH.checked_sub(whole)
    } else {
        SystemTime::UNIX_EPOCH.checked_add(whole)
    };
    base.and_then(|base| base.checked_add(Duration::from_nanos(nanos.into())))
        .unwrap_or(SystemTime::UNIX_EPOCH)
}

/// One entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: OsString,
    /// Its kind; `Unknown` if the file system does not say.
    pub kind: Kind,
    /// Where the entry after it begins, for [`list_from`].
    pub next: u64,
}

/// Calls `each` for every entry but `.` and `..`, until it says stop. Holds one small buffer,
/// however big the directory. The position of `directory` itself is not used.
pub fn list(
    directory: BorrowedFd<'_>,
    each: &mut dyn FnMut(Entry) -> ControlFlow<()>,
) -> io::Result<()> {
    list_from(directory, 0, each)
}

/// The same from where an earlier listing of this directory stopped: 0, or [`Entry::next`] of the last
/// entry it gave. Nothing before it is read again.
pub fn list_from(
    directory: BorrowedFd<'_>,
    start: u64,
    each: &mut dyn FnMut(Entry) -> ControlFlow<()>,
) -> io::Result<()> {
    let again = open(directory, Path::new("."), Open::Directory)?;
    if start != 0 {
        rustix::fs::seek(&again, SeekFrom::Start(start))?;
    }
    let mut buffer = Vec::with_capacity(32 * 1024);
    let mut entries = RawDir::new(again, buffer.spare_capacity_mut());
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name == b"." || name == b".." {
            continue;
        }
        let name = OsStr::from_bytes(name).to_owned();
        let kind = Kind::from_kernel(entry.file_type());
        let next = entry.next_entry_cookie();
        if each(Entry { name, kind, next }).is_break() {
            break;
        }
    }
    Ok(())
}

/// Makes a directory.
pub fn make_directory(directory: BorrowedFd<'_>, name: &OsStr, mode: u32) -> io::Result<()> {
    Ok(rustix::fs::mkdirat(directory, valid_name(name)?, permission_bits(mode))?)
}

/// Makes every missing directory of `path` and opens the last.
pub fn make_directories<'a>(
    root: impl Into<Root<'a>>,
    path: &Path,
    mode: u32,
) -> io::Result<OwnedFd> {
    let root = root.into();
    match open(root, path, Open::Directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        other => return other,
    }
    // Each prefix is resolved from the root again: a link in the middle keeps its meaning.
    let mut prefix = PathBuf::new();
    let mut current = open(root, Path::new("."), Open::Directory)?;
    for component in relative(path).components() {
        prefix.push(component);
        current = match open(root, &prefix, Open::Directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let Component::Normal(name) = component else { return Err(error) };
                match make_directory(current.as_fd(), name, mode) {
                    // Somebody else was quicker; or a link that leads nowhere, found out below.
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                    other => other?,
                }
                open(root, &prefix, Open::Directory)?
            }
            other => other?,
        };
    }
    Ok(current)
}

/// Removes anything but a directory.
pub fn remove_file(directory: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
    Ok(rustix::fs::unlinkat(directory, valid_name(name)?, AtFlags::empty())?)
}

/// Removes an empty directory.
pub fn remove_directory(directory: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
    Ok(rustix::fs::unlinkat(directory, valid_name(name)?, AtFlags::REMOVEDIR)?)
}

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
pub fn rename(from: Place<'_>, to: Place<'_>, existing: Existing) -> io::Result<()> {
    let flags = match existing {
        Existing::Replace => RenameFlags::empty(),
        Existing::Keep => RenameFlags::NOREPLACE,
        Existing::Exchange => RenameFlags::EXCHANGE,
    };
    let (old, new) = (valid_name(from.name)?, valid_name(to.name)?);
    Ok(rustix::fs::renameat_with(from.directory, old, to.directory, new, flags)?)
}

/// Makes a second name for a file; a link itself is not followed.
pub fn hard_link(from: Place<'_>, to: Place<'_>) -> io::Result<()> {
    let (old, new) = (valid_name(from.name)?, valid_name(to.name)?);
    Ok(rustix::fs::linkat(from.directory, old, to.directory, new, AtFlags::empty())?)
}

/// Gives a file of [`Open::Unnamed`] its name, whole as it is; `AlreadyExists` if there is anything of
/// that name, link or not. Needs `/proc`.
pub fn give_name(file: BorrowedFd<'_>, to: Place<'_>) -> io::Result<()> {
    let name = valid_name(to.name)?;
    let flags = AtFlags::SYMLINK_FOLLOW;
    Ok(rustix::fs::linkat(rustix::fs::CWD, own_descriptor(file), to.directory, name, flags)?)
}

/// Opens for reading what a [`Open::Handle`] stands for: the same file, whatever has its name by now.
/// Needs `/proc`.
pub fn reopen(handle: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
    Ok(rustix::fs::open(own_descriptor(handle), flags, Mode::empty())?)
}

/// Gives the owner of a directory all rights on it, as far as he lacks them. Who may not do that has
/// to live with it: the next step says what it could not do. A link is not followed.
pub fn open_up(directory: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
    let handle = open(Root::without_links(directory), Path::new(valid_name(name)?), Open::Handle)?;
    let found = stat(handle.as_fd())?;
    if found.kind != Kind::Directory || found.mode & 0o700 == 0o700 {
        return Ok(());
    }
    let mode = permission_bits(found.mode | 0o700);
    match rustix::fs::chmod(own_descriptor(handle.as_fd()), mode) {
        Ok(()) | Err(Errno::PERM) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The name that the kernel gives to a descriptor of ours.
fn own_descriptor(file: BorrowedFd<'_>) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// Makes a symbolic link with this text.
pub fn symlink(target: &OsStr, link: Place<'_>) -> io::Result<()> {
    Ok(rustix::fs::symlinkat(target, link.directory, valid_name(link.name)?)?)
}

/// Reads a symbolic link.
pub fn read_link(directory: BorrowedFd<'_>, name: &OsStr) -> io::Result<OsString> {
    let target = rustix::fs::readlinkat(directory, valid_name(name)?, Vec::new())?;
    Ok(OsString::from_vec(target.into_bytes()))
}

/// Sets permission bits of an open file (not of a [`Open::Handle`]).
pub fn set_mode(file: BorrowedFd<'_>, mode: u32) -> io::Result<()> {
    Ok(rustix::fs::fchmod(file, permission_bits(mode))?)
}

/// Sets owner and group of an open file.
pub fn set_owner(file: BorrowedFd<'_>, uid: u32, gid: u32) -> io::Result<()> {
    if uid == u32::MAX || gid == u32::MAX {
        return Err(errno(libc::EINVAL));
    }
    Ok(rustix::fs::fchown(file, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?)
}

/// Sets the time of last change of an open file; the time of last access stays.
pub fn set_modified(file: BorrowedFd<'_>, time: SystemTime) -> io::Result<()> {
    let (seconds, nanos) = match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => {
            (i64::try_from(after.as_secs()).map_err(io::Error::other)?, after.subsec_nanos())
        }
        Err(before) => {
            // Rounded down to a whole second: nobody dates files before 1970 more precisely.
            let whole = before.duration().as_secs().saturating_add(1);
            (0_i64.saturating_sub_unsigned(whole), 0)
        }
    };
    let times = Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT },
        last_modification: Timespec { tv_sec: seconds, tv_nsec: nanos.into() },
    };
    Ok(rustix::fs::futimens(file, &times)?)
}

/// One component, or `InvalidInput`.
pub(crate) fn valid_name(name: &OsStr) -> io::Result<&OsStr> {
    let bytes = name.as_bytes();
    let is_special = matches!(bytes, b"" | b"." | b"..");
    if is_special || bytes.contains(&b'/') || bytes.contains(&0) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok(name)
}

#[cfg(test)]
mod tests;
