//! What of the host a container is to get, as files and not as names.
//!
//! An engine takes the source of a mount as a path and follows links on its own. Whoever can write
//! beside a source, and a command in another sandbox may, can put a link in its place between our
//! check and the engine's mount. So each source is opened once, without following any link, where
//! the rules decided on it; its numbers are compared with what is mounted before the first command
//! runs. It is held open until then: the number of a file that is gone may be given to another.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use clawpen_os::beneath::{self, Kind, Open, Root, Stat};
use clawpen_rules::container::ContainerSpec;
use clawpen_rules::facts::{FileId, SourceAsked};
use clawpen_rules::posix;

use super::failure::DockerFailure;
use super::request::SUPERVISOR;

/// The sources of a container, open.
#[derive(Debug, Default)]
pub(super) struct Sources(Vec<Source>);

#[derive(Debug)]
struct Source {
    /// Where it is to be inside.
    target: String,
    file: SourceAsked,
    kind: Kind,
    /// Keeps its number from being given to another.
    _held: Option<OwnedFd>,
}

impl Sources {
    /// Opens each of them; a link on the way means that the path was changed after the check.
    pub(super) fn open(spec: &ContainerSpec, supervisor: &Path) -> Result<Self, DockerFailure> {
        let root = root()?;
        let mut sources = Vec::new();
        // Our own directory, which nobody else can write: links on the way to it are the user's.
        let supervisor = supervisor.canonicalize().unwrap_or_else(|_| supervisor.to_owned());
        let ours = (SUPERVISOR.to_owned(), supervisor);
        for (target, path) in std::iter::once(ours).chain(all(spec)) {
            let (held, found) = open(&root, &path).map_err(|cause| match cause.raw_os_error() {
                Some(libc::ELOOP) => DockerFailure::SourceChanged { path: path.clone() },
                _ => DockerFailure::Local { what: "open", path: path.clone(), cause },
            })?;
            if found.kind == Kind::Symlink {
                return Err(DockerFailure::SourceChanged { path });
            }
            let file = SourceAsked::Is(FileId { device: found.device, inode: found.inode });
            sources.push(Source { target, file, kind: found.kind, _held: Some(held) });
        }
        Ok(Self(sources))
    }

    /// The same for a container that runs, whose sources may be gone by now. Its supervisor was proven
    /// when it was made, and may be another release's.
    pub(super) fn look(spec: &ContainerSpec) -> Result<Self, DockerFailure> {
        let root = root()?;
        let look = |(target, path): (String, PathBuf)| match open(&root, &path) {
            Ok((held, Stat { device, inode, kind, .. })) => {
                let file = SourceAsked::Is(FileId { device, inode });
                Source { target, file, kind, _held: Some(held) }
            }
            Err(_gone) => {
                Source { target, file: SourceAsked::Gone, kind: Kind::Unknown, _held: None }
            }
        };
        Ok(Self(all(spec).map(look).collect()))
    }

    /// What has to be mounted at a place.
    pub(super) fn at(&self, target: &str) -> SourceAsked {
        // The last one lies on top.
        let found = self.0.iter().rev().find(|source| source.target == target);
        found.map_or(SourceAsked::Any, |source| source.file)
    }

    /// Whether a place gets a single file.
    pub(super) fn is_file(&self, target: &str) -> bool {
        let target = posix::normalize(target);
        let mut here = self.0.iter().filter(|source| source.target == target);
        here.any(|source| source.kind != Kind::Directory)
    }

    /// The places that have to be looked at.
    pub(super) fn targets(&self) -> Vec<PathBuf> {
        self.0.iter().map(|source| source.target.clone().into()).collect()
    }
}

/// Each place with the path that was decided on.
fn all(spec: &ContainerSpec) -> impl Iterator<Item = (String, PathBuf)> {
    let checked = spec.checked_sources();
    checked.map(|(target, path)| (posix::normalize(target), PathBuf::from(path)))
}

fn root() -> Result<File, DockerFailure> {
    let path = PathBuf::from("/");
    File::open(&path).map_err(|cause| DockerFailure::Local { what: "open", path, cause })
}

fn open(root: &File, path: &Path) -> io::Result<(OwnedFd, Stat)> {
    let opened = beneath::open(Root::resolved(root.as_fd()), path, Open::Handle)?;
    let found = beneath::stat(opened.as_fd())?;
    Ok((opened, found))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt as _, symlink};

    use super::*;

    #[test]
    fn a_source_is_known_by_its_numbers_and_a_link_on_the_way_is_none() {
        let place = tempfile::tempdir().unwrap();
        let place = fs::canonicalize(place.path()).unwrap();
        fs::create_dir_all(place.join("a/b")).unwrap();
        symlink("a", place.join("link")).unwrap();
        let root = root().unwrap();
        let (_held, found) = open(&root, &place.join("a/b")).unwrap();
        let expected = fs::metadata(place.join("a/b")).unwrap();
        assert_eq!((found.device, found.inode), (expected.dev(), expected.ino()));
        let failed = open(&root, &place.join("link/b")).unwrap_err();
        assert_eq!(failed.raw_os_error(), Some(libc::ELOOP));
        fs::remove_dir(place.join("a/b")).unwrap();
        let gone = open(&root, &place.join("a/b")).unwrap_err();
        assert_eq!(gone.kind(), io::ErrorKind::NotFound);
    }
}
