//! Looks at the host's file system for a view.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use clawpen_rules::facts::{Below, kernel};
use clawpen_rules::native::PenUser;
use clawpen_wire::pen::{BindOwner, IdRange, Submounts};

/// A pen cannot be built from what is there.
#[derive(Debug, thiserror::Error)]
pub enum ViewError {
    #[error("cannot look at `{}`", .path.display())]
    Look {
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error("cannot read the list of mounts")]
    Mounts(#[source] io::Error),
    #[error("cannot make sense of the list of mounts")]
    MountText(#[source] kernel::KernelText),
}

/// What stands at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Found {
    Nothing,
    Link(PathBuf),
    Directory,
    File,
    /// A device, pipe or socket.
    Other,
}

/// The host's file system, with the places where something is mounted.
#[derive(Debug, Clone)]
pub struct Host {
    mounts: Vec<PathBuf>,
}

impl Host {
    /// Reads the list of mounts.
    pub fn look_around() -> Result<Self, ViewError> {
        let text = fs::read_to_string("/proc/self/mountinfo").map_err(ViewError::Mounts)?;
        let mounts = kernel::mounts(&text).map_err(ViewError::MountText)?;
        Ok(Self { mounts: mounts.into_iter().map(|mount| mount.target.into()).collect() })
    }

    pub(super) fn look(&self, path: &Path) -> Result<Found, ViewError> {
        let failed = |cause| ViewError::Look { path: path.to_owned(), cause };
        let kind = match fs::symlink_metadata(path) {
            Ok(metadata) => metadata.file_type(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Nothing),
            Err(error) => return Err(failed(error)),
        };
        Ok(if kind.is_symlink() {
            Found::Link(fs::read_link(path).map_err(failed)?)
        } else if kind.is_dir() {
            Found::Directory
        } else if kind.is_file() {
            Found::File
        } else {
            Found::Other
        })
    }

    pub(super) fn has(&self, path: &Path) -> bool {
        fs::symlink_metadata(path).is_ok()
    }

    /// Every link followed: the maker refuses a path that changes under its hands.
    pub(super) fn real(&self, path: &Path) -> Result<PathBuf, ViewError> {
        fs::canonicalize(path).map_err(|cause| ViewError::Look { path: path.to_owned(), cause })
    }

    /// The entries of a directory by name; those that are no text are passed over.
    pub(super) fn list(&self, directory: &Path) -> Result<Vec<(String, Found)>, ViewError> {
        let failed = |cause| ViewError::Look { path: directory.to_owned(), cause };
        let mut entries = Vec::new();
        for entry in fs::read_dir(directory).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            if let Ok(name) = name.into_string() {
                let found = self.look(&directory.join(&name))?;
                entries.push((name, found));
            }
        }
        entries.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(entries)
    }

    /// Mounts below a source come along where there are any: an ordinary user cannot take one
    /// apart from the other.
    pub(super) fn submounts(&self, source: &Path) -> (Submounts, Below) {
        super::bring(self.mounts.iter().any(|mount| mount != source && mount.starts_with(source)))
    }

    /// The owner of a directory is the pen's user inside, whatever his number on disk.
    pub(super) fn mapped(&self, source: &Path, user: PenUser) -> Result<BindOwner, ViewError> {
        let metadata = fs::metadata(source)
            .map_err(|cause| ViewError::Look { path: source.to_owned(), cause })?;
        let one = |inside, outside| vec![IdRange { inside, outside, count: 1 }];
        Ok(BindOwner::Mapped {
            uids: one(user.uid, metadata.uid()),
            gids: one(user.gid, metadata.gid()),
        })
    }

    /// The text of a small file; `None` if it is not there or is no text.
    pub(super) fn text(&self, path: &str) -> Option<Vec<u8>> {
        const MOST: u64 = 64 * 1024;
        let metadata = fs::metadata(path).ok()?;
        if !metadata.is_file() || metadata.len() > MOST {
            return None;
        }
        fs::read(path).ok()
    }
}
