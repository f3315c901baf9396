//! Removes a whole tree while somebody may be moving it about.

use std::ffi::{OsStr, OsString};
use std::io;
use std::ops::ControlFlow;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags, ResolveFlags};

use super::{Kind, list, open_up, remove_directory, remove_file, stat};
use crate::syscall::errno;

/// Removes a file or a whole tree. Follows no link and crosses no mount (`EXDEV`). A directory whose
/// owner took away his own rights gets them back first, if we may.
///
/// Holds two descriptors however deep the tree is: on the way up it checks that `..` is still the
/// directory it came from, and stops with `EBUSY` if the tree was moved. Stops at the first failure;
/// what was removed before stays removed. Takes as long as somebody goes on adding files: who must
/// not be held up calls it in a process that can be killed.
pub fn remove_tree(directory: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
    match remove_file(directory, name) {
        Err(error) if error.kind() == io::ErrorKind::IsADirectory => {}
        other => return other,
    }
    let mut current = open_below(directory, name)?;
    // Names of the directories above `current`, each with the identity of the one that holds it.
    let mut above: Vec<(OsString, Identity)> = Vec::new();
    loop {
        if let Some(next) = remove_entries(current.as_fd())? {
            let below = open_below(current.as_fd(), &next)?;
            above.push((next, identity(current.as_fd())?));
            current = below;
            continue;
        }
        let Some((name, expected)) = above.pop() else { break };
        let parent = open_directory(current.as_fd(), OsStr::new(".."), ResolveFlags::empty())?;
        if identity(parent.as_fd())? != expected {
            return Err(errno(libc::EBUSY));
        }
        remove_directory(parent.as_fd(), &name)?;
        current = parent;
    }
    drop(current);
    remove_directory(directory, name)
}

/// Device and inode: the same directory, whatever it is called now.
type Identity = (u64, u64);

fn identity(directory: BorrowedFd<'_>) -> io::Result<Identity> {
    let stat = stat(directory)?;
    Ok((stat.device, stat.inode))
}

fn open_below(directory: BorrowedFd<'_>, name: &OsStr) -> io::Result<OwnedFd> {
    open_up(directory, name)?;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    open_directory(directory, name, resolve)
}

fn open_directory(
    directory: BorrowedFd<'_>,
    name: &OsStr,
    resolve: ResolveFlags,
) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat2(directory, name, flags, Mode::empty(), resolve)?)
}

/// Removes files and empty directories; gives the first directory that is not empty.
fn remove_entries(directory: BorrowedFd<'_>) -> io::Result<Option<OsString>> {
    let mut outcome = Ok(None);
    list(directory, &mut |entry| {
        let removed = match entry.kind {
            Kind::Directory => remove_directory(directory, &entry.name),
            // Some file systems do not tell the kind: a directory shows itself by the error.
            _ => remove_file(directory, &entry.name),
        };
        match removed {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => match error.kind() {
                io::ErrorKind::NotFound => ControlFlow::Continue(()),
                io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::IsADirectory => {
                    outcome = Ok(Some(entry.name));
                    ControlFlow::Break(())
                }
                _ => {
                    outcome = Err(error);
                    ControlFlow::Break(())
                }
            },
        }
    })?;
    outcome
}
