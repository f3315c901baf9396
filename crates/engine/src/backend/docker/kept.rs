//! Files for an engine to read, each named after its contents.
//!
//! Takes bytes that were checked; gives a path that holds exactly those. A new release never changes a
//! file that a running container has mounted, and whoever compares two paths compares what is in them.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

/// What a file may be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Program,
    Text,
}

impl Kind {
    const fn mode(self) -> u32 {
        match self {
            Self::Program => 0o755,
            Self::Text => 0o600,
        }
    }
}

/// The file below `directory` that holds these bytes, written if it is not there as it should be.
pub(super) fn file(directory: &Path, bytes: &[u8], kind: Kind) -> io::Result<PathBuf> {
    let hash = Sha256::digest(bytes);
    // Half of the hash is enough for a name; the contents are compared below.
    let half = hash.iter().take(16).fold(0_u128, |sum, byte| (sum << 8) | u128::from(*byte));
    let path = directory.join(format!("{half:032x}"));
    let is_there = || {
        let found = fs::symlink_metadata(&path).ok().filter(fs::Metadata::is_file)?;
        let is_kind = found.permissions().mode() & 0o777 == kind.mode();
        let is_same = fs::read(&path).is_ok_and(|found| found == bytes);
        (is_kind && is_same).then_some(())
    };
    if is_there().is_some() {
        return Ok(path);
    }
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    // Written beside its place and renamed, so that nobody ever reads half of it.
    let beside = directory.join(format!("new-{}", crate::random::short_id()));
    fs::write(&beside, bytes)?;
    fs::set_permissions(&beside, Permissions::from_mode(kind.mode()))?;
    fs::rename(&beside, &path)?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_named_after_what_is_in_it_and_put_right_when_it_is_not() {
        let home = tempfile::tempdir().unwrap();
        let path = file(home.path(), b"one", Kind::Text).unwrap();
        assert_ne!(file(home.path(), b"two", Kind::Text).unwrap(), path);
        fs::write(&path, "other").unwrap();
        assert_eq!(file(home.path(), b"one", Kind::Text).unwrap(), path);
        assert_eq!(fs::read(&path).unwrap(), b"one");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 2);
    }
}
