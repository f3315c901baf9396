//! Plain files, between trees that somebody else may be changing.
//!
//! What is read is a regular file with one name, reached without a link or another mount; it is looked
//! at through a handle first, so that no pipe or device is ever opened. What is written gets its name
//! when it is whole, and never takes the place of something else.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write as _};
use std::ops::ControlFlow;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::Path;

use clawpen_os::beneath::{self, Existing, Kind, Open, Place, Root};
use clawpen_rules::workspace::seeds::{Digest, Unusable};
use sha2::{Digest as _, Sha256};

use crate::random;

/// A file that may be copied.
#[derive(Debug)]
pub(super) struct Plain {
    file: File,
    /// Whether its owner may run it.
    pub(super) is_program: bool,
    limit: u64,
}

/// Why there is no file to copy.
#[derive(Debug)]
pub(super) enum NotPlain {
    Missing,
    Unusable(Unusable),
}

impl From<io::Error> for NotPlain {
    fn from(error: io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::ENOENT) => Self::Missing,
            Some(libc::ELOOP) => Self::Unusable(Unusable::Link),
            Some(libc::EXDEV) => Self::Unusable(Unusable::OtherMount),
            Some(libc::ENOTDIR) => Self::Unusable(Unusable::NotAFile),
            _ => Self::Unusable(Unusable::Unreadable),
        }
    }
}

/// Opens `path` beneath `root` if it is a plain file of at most `limit` bytes.
pub(super) fn open(root: BorrowedFd<'_>, path: &Path, limit: u64) -> Result<Plain, NotPlain> {
    let handle = beneath::open(Root::without_links(root), path, Open::Handle)?;
    let found = beneath::stat(handle.as_fd())?;
    let refuse = |why| Err(NotPlain::Unusable(why));
    match found.kind {
        Kind::File if found.links > 1 => refuse(Unusable::HardLinked),
        Kind::File if found.size > limit => refuse(Unusable::TooLarge { limit }),
        Kind::File => {
            let file = File::from(beneath::reopen(handle.as_fd())?);
            Ok(Plain { file, is_program: found.mode & 0o100 != 0, limit })
        }
        Kind::Symlink => refuse(Unusable::Link),
        Kind::Directory
        | Kind::Fifo
        | Kind::Socket
        | Kind::CharacterDevice
        | Kind::BlockDevice
        | Kind::Unknown => refuse(Unusable::NotAFile),
    }
}

impl Plain {
    pub(super) fn into_file(self) -> File {
        self.file
    }

    /// The whole content. A file that grows meanwhile does not fill our memory.
    pub(super) fn read(self) -> Result<Vec<u8>, NotPlain> {
        let mut bytes = Vec::new();
        self.file.take(self.limit.saturating_add(1)).read_to_end(&mut bytes)?;
        if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > self.limit {
            return Err(NotPlain::Unusable(Unusable::TooLarge { limit: self.limit }));
        }
        Ok(bytes)
    }
}

/// Reads a plain file whole.
pub(super) fn read(root: BorrowedFd<'_>, path: &Path, limit: u64) -> Result<Vec<u8>, NotPlain> {
    open(root, path, limit)?.read()
}

/// The hash of a content.
pub(super) fn digest(bytes: &[u8]) -> Digest {
    Digest::new(Sha256::digest(bytes).into())
}

/// Whose a new file is, and its mode.
#[derive(Debug, Clone, Copy)]
pub(super) struct Attributes {
    pub(super) mode: u32,
    pub(super) owner: (u32, u32),
}

impl Attributes {
    /// Gives them to a new file or directory. Only root can give things away; whoever is not root
    /// owns the workspace, or could not write to it.
    pub(super) fn apply(self, file: BorrowedFd<'_>) -> io::Result<()> {
        let found = beneath::stat(file)?;
        if (found.uid, found.gid) != self.owner {
            match beneath::set_owner(file, self.owner.0, self.owner.1) {
                Err(error) if error.raw_os_error() == Some(libc::EPERM) => {}
                other => other?,
            }
        }
        // After the owner: a change of owner takes bits away.
        beneath::set_mode(file, self.mode)
    }
}

/// Writes a new file; `AlreadyExists` if there is anything of that name.
pub(super) fn put(to: Place<'_>, bytes: &[u8], attributes: Attributes) -> io::Result<()> {
    let unnamed = beneath::open(to.directory, Path::new("."), Open::Unnamed { mode: 0o600 });
    let mut file = match unnamed {
        Ok(file) => File::from(file),
        Err(error) if is_unsupported(&error) => return put_beside(to, bytes, attributes),
        Err(error) => return Err(error),
    };
    file.write_all(bytes)?;
    attributes.apply(file.as_fd())?;
    beneath::give_name(file.as_fd(), to)
}

/// Old kernels say `EISDIR` to what they do not know.
fn is_unsupported(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EISDIR | libc::EINVAL))
}

/// For file systems without unnamed files: beside its place, then renamed.
fn put_beside(to: Place<'_>, bytes: &[u8], attributes: Attributes) -> io::Result<()> {
    let name = OsString::from(format!(".clawpen-{}", random::uuid()));
    let beside = Place { directory: to.directory, name: &name };
    let written = beneath::open(
        Root::without_links(to.directory),
        Path::new(&name),
        Open::CreateNew { mode: 0o600 },
    )
    .map(File::from)
    .and_then(|mut file| {
        file.write_all(bytes)?;
        attributes.apply(file.as_fd())
    })
    .and_then(|()| beneath::rename(beside, to, Existing::Keep));
    if written.is_err() {
        // Whatever it is now, it bears our name and is of no use.
        let _ = beneath::remove_file(to.directory, &name);
    }
    written
}

/// Makes a directory with these attributes and opens it; one that exists is fine and stays as it is. So does one that
/// somebody puts in the place of ours before we have it open: what was his stays his, and what was not his is not
/// given to him.
pub(super) fn make_directory(
    to: Place<'_>,
    attributes: Attributes,
) -> io::Result<std::os::fd::OwnedFd> {
    let is_new = match beneath::make_directory(to.directory, to.name, 0o700) {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
        Err(error) => return Err(error),
    };
    let directory = open_directory(to.directory, to.name)?;
    if is_new && is_fresh(directory.as_fd())? {
        attributes.apply(directory.as_fd())?;
    }
    Ok(directory)
}

/// Says whether an open directory can be the one that we have just made: ours alone, and empty. Nobody else can put
/// anything into such a one.
fn is_fresh(directory: BorrowedFd<'_>) -> io::Result<bool> {
    let found = beneath::stat(directory)?;
    let is_closed = found.mode & 0o777 == 0o700;
    let is_ours = found.uid == rustix::process::geteuid().as_raw() && is_closed;
    let mut is_empty = true;
    beneath::list(directory, &mut |_| {
        is_empty = false;
        ControlFlow::Break(())
    })?;
    Ok(is_ours && is_empty)
}

/// Opens one directory of another, no link.
pub(super) fn open_directory(
    directory: BorrowedFd<'_>,
    name: &OsStr,
) -> io::Result<std::os::fd::OwnedFd> {
    beneath::open(Root::without_links(directory), Path::new(name), Open::Directory)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    use std::path::PathBuf;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    /// Somebody who may rename in the directory puts a directory that is not his in the place of each new one, as often
    /// as he can; it must never become his.
    #[test]
    fn a_directory_that_is_put_in_the_place_of_a_new_one_is_not_given_away() {
        let place = tempfile::tempdir().unwrap();
        let secret = place.path().join("secret");
        std::fs::create_dir(&secret).unwrap();
        std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o700)).unwrap();
        std::fs::write(secret.join("key"), "x").unwrap();
        let root = beneath::open_root(place.path()).unwrap();
        let is_over = AtomicBool::new(false);
        let attributes = Attributes { mode: 0o755, owner: (4711, 4711) };
        std::thread::scope(|threads| {
            threads.spawn(|| {
                let (new, aside) = (place.path().join("new"), place.path().join("aside"));
                while !is_over.load(Ordering::Relaxed) {
                    if std::fs::rename(&new, &aside).is_ok() {
                        let _swapped = std::fs::rename(&secret, &new);
                        let _back = std::fs::rename(&new, &secret);
                        let _gone = std::fs::remove_dir(&aside);
                    }
                }
            });
            for _ in 0..3000 {
                let to = Place { directory: root.as_fd(), name: OsStr::new("new") };
                let _made = make_directory(to, attributes);
                let _gone = std::fs::remove_dir(place.path().join("new"));
            }
            is_over.store(true, Ordering::Relaxed);
        });
        let left: Vec<PathBuf> = ["secret", "new", "aside"]
            .iter()
            .map(|name| place.path().join(name))
            .filter(|path| path.join("key").exists())
            .collect();
        let found = std::fs::metadata(&left[0]).unwrap();
        assert_ne!(found.uid(), 4711);
        assert_eq!(found.mode() & 0o777, 0o700);
    }

    #[test]
    fn what_is_ours_and_empty_is_fresh_and_nothing_else() {
        let place = tempfile::tempdir().unwrap();
        let check = |mode: u32, entry: Option<&str>, expected: bool| {
            let directory = tempfile::tempdir_in(place.path()).unwrap();
            let path = directory.path();
            if let Some(name) = entry {
                std::fs::write(path.join(name), "").unwrap();
            }
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
            let opened = beneath::open_root(path).unwrap();
            assert_eq!(is_fresh(opened.as_fd()).unwrap(), expected, "{mode:o} {entry:?}");
        };
        check(0o700, None, true);
        check(0o755, None, false);
        check(0o700, Some("file"), false);
    }
}
