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
/// Takes as long as somebody goes on adding files: who must not be held up uses [`Removal`].
pub fn remove_tree(directory: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
    let mut removal = Removal::new(directory.try_clone_to_owned()?, name.to_owned());
    while !removal.step()? {}
    Ok(())
}

/// The removal of a file or a whole tree, in steps. Follows no link and crosses no mount (`EXDEV`).
///
/// Holds three descriptors however deep the tree is: on the way up it checks that `..` is still the
/// directory it came from, and stops with `EBUSY` if the tree was moved. Stops at the first failure;
/// what was removed before stays removed.
#[derive(Debug)]
pub struct Removal {
    directory: OwnedFd,
    name: OsString,
    current: Option<OwnedFd>,
    /// Names of the directories above `current`, each with the identity of the one that holds it.
    above: Vec<(OsString, Identity)>,
}

/// What one step removes at most.
const STEP: usize = 256;

impl Removal {
    /// Of `name` in `directory`; nothing is done yet.
    pub const fn new(directory: OwnedFd, name: OsString) -> Self {
        Self { directory, name, current: None, above: Vec::new() }
    }

    /// Removes a few hundred entries, or goes down or up. Says whether all is gone.
    pub fn step(&mut self) -> io::Result<bool> {
        let Some(current) = &self.current else {
            match remove_file(self.directory.as_fd(), &self.name) {
                Err(error) if error.kind() == io::ErrorKind::IsADirectory => {}
                other => return other.map(|()| true),
            }
            self.current = Some(open_below(self.directory.as_fd(), &self.name)?);
            return Ok(false);
        };
        match remove_entries(current.as_fd())? {
            Entries::More => return Ok(false),
            Entries::Directory(next) => {
                let below = open_below(current.as_fd(), &next)?;
                self.above.push((next, identity(current.as_fd())?));
                self.current = Some(below);
                return Ok(false);
            }
            Entries::Gone => {}
        }
        let Some((name, expected)) = self.above.pop() else {
            self.current = None;
            return remove_directory(self.directory.as_fd(), &self.name).map(|()| true);
        };
        let parent = open_directory(current.as_fd(), OsStr::new(".."), ResolveFlags::empty())?;
        if identity(parent.as_fd())? != expected {
            return Err(errno(libc::EBUSY));
        }
        remove_directory(parent.as_fd(), &name)?;
        self.current = Some(parent);
        Ok(false)
    }
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

/// What is left of a directory.
enum Entries {
    Gone,
    More,
    /// This one is not empty.
    Directory(OsString),
}

/// Removes files and empty directories, up to a step's worth.
fn remove_entries(directory: BorrowedFd<'_>) -> io::Result<Entries> {
    let mut outcome = Ok(Entries::Gone);
    let mut count = 0;
    list(directory, &mut |entry| {
        let removed = match entry.kind {
            Kind::Directory => remove_directory(directory, &entry.name),
            // Some file systems do not tell the kind: a directory shows itself by the error.
            _ => remove_file(directory, &entry.name),
        };
        count += 1;
        let stop = match removed {
            Ok(()) => None,
            Err(error) => match error.kind() {
                io::ErrorKind::NotFound => None,
                io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::IsADirectory => {
                    Some(Ok(Entries::Directory(entry.name)))
                }
                _ => Some(Err(error)),
            },
        };
        match stop {
            Some(stop) => outcome = stop,
            None if count >= STEP => outcome = Ok(Entries::More),
            None => return ControlFlow::Continue(()),
        }
        ControlFlow::Break(())
    })?;
    outcome
}
