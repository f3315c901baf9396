//! Looks at the host's file system for a view.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use clawpen_rules::facts::{Below, kernel};
use clawpen_rules::native::PenUser;
use clawpen_wire::pen::{BindOwner, IdRange, Submounts};

use crate::kernel_text;

/// A pen cannot be built from what is there.
#[derive(Debug, thiserror::Error)]
pub enum ViewError {
    #[error("cannot look at `{}`", .path.display())]
    Look {
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error(
        "`native.rootfs` names `{}`, which cannot be used; unpack an image there or correct the path",
        .path.display()
    )]
    Rootfs {
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error(
        "`{}` was put in the place of a directory after it was checked; look who may write beside it",
        .path.display()
    )]
    Changed { path: PathBuf },
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
    /// Where it begins: `/`, or a directory that stands for it in a test.
    root: PathBuf,
    mounts: Vec<PathBuf>,
    /// What the kernel says about each.
    lines: Vec<String>,
}

impl Host {
    /// Reads the list of mounts.
    pub fn look_around() -> Result<Self, ViewError> {
        let text = kernel_text::read("/proc/self/mountinfo").map_err(ViewError::Mounts)?;
        let found = kernel::mounts(&text).map_err(ViewError::MountText)?;
        let mounts = found.into_iter().map(|mount| mount.target.into()).collect();
        let lines = text.lines().map(str::to_owned).collect();
        Ok(Self { root: "/".into(), mounts, lines })
    }

    #[cfg(test)]
    pub(super) fn below(root: &Path, mounts: &[&str]) -> Self {
        let mounts = mounts.iter().map(|mount| root.join(mount)).collect();
        Self { root: root.to_owned(), mounts, lines: Vec::new() }
    }

    fn at(&self, path: &Path) -> PathBuf {
        match path.strip_prefix(&self.root) {
            Ok(_) => path.to_owned(),
            Err(_) => self.root.join(path.strip_prefix("/").unwrap_or(path)),
        }
    }

    pub(super) fn look(&self, path: &Path) -> Result<Found, ViewError> {
        let path = self.at(path);
        let failed = |cause| ViewError::Look { path: path.clone(), cause };
        let kind = match fs::symlink_metadata(&path) {
            Ok(metadata) => metadata.file_type(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Nothing),
            Err(error) => return Err(failed(error)),
        };
        Ok(if kind.is_symlink() {
            Found::Link(fs::read_link(&path).map_err(failed)?)
        } else if kind.is_dir() {
            Found::Directory
        } else if kind.is_file() {
            Found::File
        } else {
            Found::Other
        })
    }

    pub(super) fn has(&self, path: &Path) -> bool {
        fs::symlink_metadata(self.at(path)).is_ok()
    }

    /// Every link followed: the maker refuses a path that changes under its hands.
    pub(super) fn real(&self, path: &Path) -> Result<PathBuf, ViewError> {
        let path = self.at(path);
        fs::canonicalize(&path).map_err(|cause| ViewError::Look { path, cause })
    }

    /// The same for a path in which no link was when it was decided on: what a link leads to now was
    /// never checked.
    pub(super) fn unchanged(&self, path: &Path) -> Result<PathBuf, ViewError> {
        let real = self.real(path)?;
        if real == self.at(path) { Ok(real) } else { Err(ViewError::Changed { path: real }) }
    }

    /// The entries of a directory by name; those that are no text are passed over.
    pub(super) fn list(&self, directory: &Path) -> Result<Vec<(String, Found)>, ViewError> {
        let failed = |cause| ViewError::Look { path: directory.to_owned(), cause };
        let mut entries = Vec::new();
        for entry in fs::read_dir(self.at(directory)).map_err(failed)? {
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
        if self.mounts.iter().any(|mount| mount != source && mount.starts_with(source)) {
            return (Submounts::Bring, Below::Submounts);
        }
        (Submounts::Leave, Below::Nothing)
    }

    /// All that the kernel says about the mounts that a source lies in or holds.
    pub(crate) fn about<'a>(&'a self, source: &'a Path) -> impl Iterator<Item = &'a String> {
        let matters = move |mount: &Path| source.starts_with(mount) || mount.starts_with(source);
        let known = self.mounts.iter().zip(&self.lines);
        known.filter(move |(mount, _)| matters(mount)).map(|(_, line)| line)
    }

    /// The owner of a directory is the pen's user inside, whatever his number on disk.
    pub(super) fn mapped(&self, source: &Path, user: PenUser) -> Result<BindOwner, ViewError> {
        let metadata = fs::metadata(self.at(source))
            .map_err(|cause| ViewError::Look { path: source.to_owned(), cause })?;
        let one = |inside, outside| vec![IdRange { inside, outside, count: 1 }];
        Ok(BindOwner::Mapped {
            uids: one(user.uid, metadata.uid()),
            gids: one(user.gid, metadata.gid()),
        })
    }

    /// The text of a small file; `None` if it is not there or is no text.
    pub(super) fn text(&self, path: &Path) -> Option<Vec<u8>> {
        const MOST: u64 = 64 * 1024;
        let path = self.at(path);
        let metadata = fs::metadata(&path).ok()?;
        if !metadata.is_file() || metadata.len() > MOST {
            return None;
        }
        fs::read(path).ok()
    }
}
