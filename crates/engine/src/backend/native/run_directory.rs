//! The directory of one pen: its socket, for as long as the pen is to be found again.
//!
//! ```text
//! <state>/clawpen/run/<id>/     0700
//!                          s    the socket of process 1
//!                          groups  the control groups it may have, one path a line
//!                          about   what it is; written last, so a pen that has it was finished
//! ```
//!
//! Whoever makes a pen holds a lock on its directory until the pen is written down or gone; the
//! kernel drops the lock with the process. So a directory that nobody holds and no row names is a
//! leftover, and [`leftovers`] may take it without asking anybody.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clawpen_os::{beneath, cgroups};
use rustix::fs::{FlockOperation, flock};

/// The name of a pen's socket in its own directory.
pub(super) const SOCKET: &str = "s";
/// Where its control groups are noted.
const GROUPS: &str = "groups";
/// What the pen is.
pub(super) const ABOUT: &str = "about";
/// How often a new name is tried: a janitor may take a directory in the moment before it is locked.
const TRIES: usize = 8;

/// A pen's directory, locked by us. Removed with the value unless it is kept.
#[derive(Debug)]
pub(super) struct RunDirectory {
    id: String,
    path: PathBuf,
    opened: OwnedFd,
    end: End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Remove,
    Keep,
}

/// Where the directories of all pens are.
pub(super) fn parent(state_dir: &str) -> PathBuf {
    Path::new(state_dir).join("clawpen/run")
}

impl RunDirectory {
    /// Makes a new one with a name that nobody has.
    pub(super) fn make(state_dir: &str) -> io::Result<Self> {
        let parent = parent(state_dir);
        for _ in 0..TRIES {
            let id = crate::random::short_id();
            let path = parent.join(&id);
            match private().create(&path) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    private().recursive(true).create(&parent)?;
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(error),
            }
            let opened = match beneath::open_root(&path) {
                Ok(opened) => opened,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            // Held by a janitor: it is about to take the directory.
            if flock(&opened, FlockOperation::NonBlockingLockExclusive).is_ok() && path.is_dir() {
                return Ok(Self { id, path, opened, end: End::Remove });
            }
        }
        Err(io::Error::other("no name for a new pen was free"))
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.path.join(SOCKET)
    }

    /// The directory itself, open.
    pub(super) fn opened(&self) -> BorrowedFd<'_> {
        self.opened.as_fd()
    }

    /// Notes which control groups go with the pen.
    pub(super) fn note_groups(&self, groups: &[PathBuf]) -> io::Result<()> {
        let mut text = Vec::new();
        for group in groups {
            text.extend_from_slice(group.as_os_str().as_bytes());
            text.push(b'\n');
        }
        fs::write(self.path.join(GROUPS), text)
    }

    /// Leaves it for those who come back to the pen, and notes what it is.
    pub(super) fn keep(&mut self, about: &str) -> io::Result<()> {
        let beside = self.path.join("about.new");
        fs::write(&beside, about)?;
        fs::rename(&beside, self.path.join(ABOUT))?;
        self.end = End::Keep;
        // The work on it is done: it is in the registry by now.
        Ok(flock(&self.opened, FlockOperation::Unlock)?)
    }

    /// Leaves it to the janitor.
    pub(super) fn leave(mut self) {
        self.end = End::Keep;
    }

    /// Lets it go with the value after all.
    pub(super) fn forget(&mut self) {
        self.end = End::Remove;
    }
}

impl Drop for RunDirectory {
    fn drop(&mut self) {
        match self.end {
            // What stays is private and of no use; the janitor takes it. Its groups are gone by now.
            End::Remove => drop(fs::remove_dir_all(&self.path)),
            End::Keep => {}
        }
    }
}

/// Removes the directory of a pen that has ended, and its control groups before it. What is gone
/// already is no error.
pub(super) fn remove(directory: &Path, patience: Duration) -> io::Result<()> {
    let groups = match fs::read(directory.join(GROUPS)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        groups => groups?,
    };
    let lines = groups.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let groups: Vec<PathBuf> = lines.map(|line| OsStr::from_bytes(line).into()).collect();
    cgroups::remove_directories(&groups, patience)?;
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// A directory that nobody is at work in. Held while the value lives.
#[derive(Debug)]
pub(super) struct Leftover {
    pub(super) path: PathBuf,
    opened: OwnedFd,
}

impl Leftover {
    /// A connection to whoever still listens there.
    pub(super) fn connect(&self) -> io::Result<OwnedFd> {
        clawpen_os::sockets::connect(self.opened.as_fd(), SOCKET.as_ref())
    }

    pub(super) fn remove(self, patience: Duration) -> io::Result<()> {
        remove(&self.path, patience)
    }
}

/// Every pen's directory that nobody is at work in and whose name is not `known`. Whether a row names it by
/// now is the caller's to ask, after this: a maker writes its row before it lets go.
pub(super) fn unheld(state_dir: &str, known: &BTreeSet<OsString>) -> io::Result<Vec<Leftover>> {
    let entries = match fs::read_dir(parent(state_dir)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries.flatten() {
        if known.contains(&entry.file_name()) {
            continue;
        }
        if let Some(leftover) = hold(&entry.path()) {
            found.push(leftover);
        }
    }
    Ok(found)
}

/// Takes a directory that nobody is at work in.
fn hold(path: &Path) -> Option<Leftover> {
    let opened = beneath::open_root(path).ok()?;
    flock(&opened, FlockOperation::NonBlockingLockExclusive).ok()?;
    Some(Leftover { path: path.to_owned(), opened })
}

fn private() -> DirBuilder {
    let mut builder = DirBuilder::new();
    builder.mode(0o700);
    builder
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_at_work_is_no_leftover_and_a_kept_one_is_unheld() {
        let state = tempfile::tempdir().unwrap();
        let state = state.path().to_str().unwrap();
        let mut kept = RunDirectory::make(state).unwrap();
        let working = RunDirectory::make(state).unwrap();
        assert_ne!(kept.id(), working.id());
        assert!(unheld(state, &BTreeSet::new()).unwrap().is_empty());
        kept.keep("{}").unwrap();
        let path = kept.socket();
        drop(kept);
        let found: Vec<PathBuf> = unheld(state, &BTreeSet::new())
            .unwrap()
            .into_iter()
            .map(|leftover| leftover.path)
            .collect();
        assert_eq!(found, [path.parent().unwrap()]);
        drop(working);
        assert_eq!(fs::read_dir(parent(state)).unwrap().count(), 1);
    }
}
