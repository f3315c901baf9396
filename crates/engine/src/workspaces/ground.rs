//! The directories of a workspace, open.
//!
//! ```text
//! <workspaceRoot>/            ours: the sandbox does not see it
//! <workspaceRoot>/<slug>/     the sandbox's: hostile
//! <workspaceRoot>/.clawpen/   ours: what is being built for a workspace, on the same file system
//! ```

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use clawpen_os::beneath::{self, Place};

use super::WorkspaceError;
use super::plain::{self, Attributes};
use super::record;
use crate::faults;

/// Our own directory beside the workspaces. No slug begins with a dot followed by letters alone, and
/// every slug ends in a hash.
const OURS: &str = ".clawpen";

/// A private workspace, open.
#[derive(Debug)]
pub(super) struct Ground {
    pub(super) path: PathBuf,
    /// `workspaceRoot`.
    root: OwnedFd,
    name: OsString,
    /// The workspace itself.
    directory: OwnedFd,
    pub(super) owner: (u32, u32),
}

impl Ground {
    /// Opens a private workspace and makes it if it is missing: for its owner alone, who is `owner` or
    /// whoever we are.
    pub(super) fn ensure(path: &Path, owner: Option<(u32, u32)>) -> Result<Self, WorkspaceError> {
        // Mostly it is there.
        if let Some(ground) = Self::open(path)? {
            return Ok(ground);
        }
        let failed = || WorkspaceError::io("make the workspace", path);
        let parent = path.parent().ok_or(io::ErrorKind::InvalidInput.into()).map_err(failed())?;
        record::make_private(parent).map_err(failed())?;
        let root = beneath::open_root(parent).map_err(failed())?;
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput.into()).map_err(failed())?;
        let ours = clawpen_os::process::identity().map_err(failed())?;
        let owner = owner.unwrap_or((ours.uid, ours.gid));
        let place = Place { directory: root.as_fd(), name };
        plain::make_directory(place, Attributes { mode: 0o700, owner }).map_err(failed())?;
        faults::reached("workspace.made");
        Self::open(path)?.ok_or_else(|| failed()(io::ErrorKind::NotFound.into()))
    }

    /// Opens a private workspace; `None` if there is none. One that the agent closed to its own owner,
    /// which may be us, is opened up.
    pub(super) fn open(path: &Path) -> Result<Option<Self>, WorkspaceError> {
        let failed = || WorkspaceError::io("open the workspace", path);
        let Some((root, name)) = above(path).map_err(failed())? else { return Ok(None) };
        match beneath::open_up(root.as_fd(), name) {
            Err(error) if is_missing(&error) => return Ok(None),
            other => other.map_err(failed())?,
        }
        Self::within(root, path, name)
    }

    /// The same, and touches nothing.
    pub(super) fn look(path: &Path) -> Result<Option<Self>, WorkspaceError> {
        let found = above(path).map_err(WorkspaceError::io("open the workspace", path))?;
        found.map_or(Ok(None), |(root, name)| Self::within(root, path, name))
    }

    fn within(root: OwnedFd, path: &Path, name: &OsStr) -> Result<Option<Self>, WorkspaceError> {
        let failed = || WorkspaceError::io("open the workspace", path);
        let directory = match plain::open_directory(root.as_fd(), name) {
            Err(error) if is_missing(&error) => return Ok(None),
            Err(error) if error.raw_os_error() == Some(libc::ELOOP) => {
                return Err(WorkspaceError::Link { path: path.to_owned() });
            }
            other => other.map_err(failed())?,
        };
        let found = beneath::stat(directory.as_fd()).map_err(failed())?;
        let owner = (found.uid, found.gid);
        let (name, path) = (name.to_owned(), path.to_owned());
        Ok(Some(Self { path, root, name, directory, owner }))
    }

    pub(super) fn directory(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    /// The workspace's own place, to be moved or replaced.
    pub(super) fn place(&self) -> Place<'_> {
        Place { directory: self.root.as_fd(), name: &self.name }
    }

    /// A place in the workspace.
    pub(super) fn at<'a>(&'a self, name: &'a OsStr) -> Place<'a> {
        Place { directory: self.directory.as_fd(), name }
    }

    /// An empty directory of ours for this workspace, where the sandbox cannot look. What a kill left
    /// there is removed: nothing is put there that is not a copy.
    pub(super) fn workshop(&self) -> io::Result<OwnedFd> {
        let ours = self.ours()?;
        super::tree::remove(ours.as_fd(), &format!("{}.new", self.name.to_string_lossy()))?;
        let name = OsString::from(format!("{}.new", self.name.to_string_lossy()));
        private(ours.as_fd(), &name)
    }

    /// Where the last replaced skills wait: somebody may still be reading them.
    pub(super) fn attic(&self) -> io::Result<OwnedFd> {
        let ours = self.ours()?;
        let name = OsString::from(format!("{}.old", self.name.to_string_lossy()));
        private(ours.as_fd(), &name)
    }

    /// Removes what of ours belongs to a workspace that is gone.
    pub(super) fn clear(&self) -> io::Result<()> {
        let ours = self.ours()?;
        for end in ["new", "old"] {
            let name = format!("{}.{end}", self.name.to_string_lossy());
            super::tree::remove(ours.as_fd(), &name)?;
        }
        Ok(())
    }

    fn ours(&self) -> io::Result<OwnedFd> {
        private(self.root.as_fd(), OsStr::new(OURS))
    }
}

fn is_missing(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}

/// The directory of a workspace's directory, and the name in it; `None` if there is none.
fn above(path: &Path) -> io::Result<Option<(OwnedFd, &OsStr)>> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    match beneath::open_root(parent) {
        Err(error) if is_missing(&error) => Ok(None),
        root => Ok(Some((root?, name))),
    }
}

/// A directory for our own eyes.
fn private(directory: BorrowedFd<'_>, name: &OsStr) -> io::Result<OwnedFd> {
    let ours = clawpen_os::process::identity()?;
    let attributes = Attributes { mode: 0o700, owner: (ours.uid, ours.gid) };
    plain::make_directory(Place { directory, name }, attributes)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    /// Somebody who may rename where workspaces are puts a directory that is not his in the place of each new one; it
    /// must never become his.
    #[test]
    fn a_directory_that_is_put_in_the_place_of_a_new_workspace_is_not_given_away() {
        let owner = Some((4711, 4711));
        race(|path| drop(Ground::ensure(path, owner)));
        race(|path| drop(super::super::ensure_agents_own(path, owner)));
    }

    #[track_caller]
    fn race(make: impl Fn(&Path)) {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        std::fs::create_dir(at("secret")).unwrap();
        std::fs::write(at("secret").join("key"), "x").unwrap();
        let closed = std::fs::Permissions::from_mode(0o710);
        std::fs::set_permissions(at("secret"), closed).unwrap();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|threads| {
            threads.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    if std::fs::rename(at("new"), at("aside")).is_ok() {
                        let _swapped = std::fs::rename(at("secret"), at("new"));
                        let _back = std::fs::rename(at("new"), at("secret"));
                        let _gone = std::fs::remove_dir(at("aside"));
                    }
                }
            });
            for _ in 0..3000 {
                make(&at("new"));
                let _gone = std::fs::remove_dir(at("new"));
            }
            is_over.store(true, Ordering::Relaxed);
        });
        let mut left = ["secret", "new", "aside"].map(at).into_iter();
        let left = left.find(|path| path.join("key").exists()).unwrap();
        let found = std::fs::metadata(left).unwrap();
        assert_ne!(found.uid(), 4711);
        assert_eq!(found.mode() & 0o777, 0o710);
    }
}
