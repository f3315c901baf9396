//! The files of the database: where they are, whether they may be trusted, and their names.
//!
//! Looks with `lstat` and never opens the database itself: closing a second handle of it would drop
//! every lock that `SQLite` holds in this process.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{
    DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _,
    PermissionsExt as _,
};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Access, access};

use super::failure::DatabaseFailure;
use crate::file_lock::{self, Hold, NotLocked};

/// How long to wait for a process that repairs.
const LOCK_WAIT: Duration = Duration::from_secs(5);
const OTHERS_MAY_WRITE: u32 = 0o022;
const OTHERS: u32 = 0o077;

/// Whether missing things are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Missing {
    Make,
    Leave,
}

/// Our directory below the state directory, free of links; `None` if there is none.
pub(super) fn directory(
    state_dir: &Path,
    missing: Missing,
) -> Result<Option<PathBuf>, DatabaseFailure> {
    let path = state_dir.join("clawpen");
    if missing == Missing::Make {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&path)
            .map_err(|cause| DatabaseFailure::file("create", &path, cause))?;
    }
    let found = match fs::metadata(&path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(cause) => return Err(DatabaseFailure::file("look at", &path, cause)),
    };
    trusted(&path, &found)?;
    let path =
        fs::canonicalize(&path).map_err(|cause| DatabaseFailure::file("resolve", &path, cause))?;
    if access(&path, Access::WRITE_OK).is_err() {
        return Err(DatabaseFailure::ReadOnly);
    }
    Ok(Some(path))
}

/// Whether the database is there, and fit to be opened. Tightens a mode that lets others read.
pub(super) fn look(path: &Path) -> Result<bool, DatabaseFailure> {
    let mut exists = false;
    for (index, file) in with_companions(path).iter().enumerate() {
        let found = match fs::symlink_metadata(file) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(cause) => return Err(DatabaseFailure::file("look at", file, cause)),
        };
        let kind = found.file_type();
        if !kind.is_file() {
            let what = match () {
                () if kind.is_dir() => "a directory",
                () if kind.is_symlink() => "a symbolic link",
                () if kind.is_fifo() => "a pipe",
                () => "no regular file",
            };
            return Err(DatabaseFailure::NotAFile { what });
        }
        trusted(file, &found)?;
        if found.mode() & OTHERS != 0 {
            fs::set_permissions(file, Permissions::from_mode(0o600))
                .map_err(|cause| DatabaseFailure::file("make private", file, cause))?;
        }
        exists |= index == 0;
    }
    Ok(exists)
}

/// Ours, and nobody else may write it.
fn trusted(path: &Path, found: &fs::Metadata) -> Result<(), DatabaseFailure> {
    let own = rustix::process::geteuid().as_raw();
    if found.uid() != own {
        let why = format!(
            "`{}` belongs to user {}, not to you ({own}); run as that user, or chown it",
            path.display(),
            found.uid()
        );
        return Err(DatabaseFailure::Untrusted { why });
    }
    if found.mode() & OTHERS_MAY_WRITE != 0 {
        let mode = if found.is_dir() { "700" } else { "600" };
        let why = format!(
            "others may write `{}`, so it proves nothing; run `chmod {mode}` on it, then `clawpen \
             audit --verify`",
            path.display()
        );
        return Err(DatabaseFailure::Untrusted { why });
    }
    Ok(())
}

/// The database and what `SQLite` keeps beside it.
pub(super) fn with_companions(path: &Path) -> [PathBuf; 3] {
    ["", "-wal", "-shm"].map(|suffix| suffixed(path, suffix))
}

pub(super) fn suffixed(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    PathBuf::from(name)
}

/// `<path>.<word>`, with a number if that is taken.
pub(super) fn free_name(path: &Path, word: &str) -> PathBuf {
    let plain = suffixed(path, &format!(".{word}"));
    let numbered = (2..).map(|number: u32| suffixed(path, &format!(".{word}-{number}")));
    let mut names = std::iter::once(plain.clone()).chain(numbered);
    names.find(|name| fs::symlink_metadata(name).is_err()).unwrap_or(plain)
}

/// Makes an empty file that only we may read; one that is there stays.
pub(super) fn create_private(path: &Path) -> Result<(), DatabaseFailure> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(cause) => Err(DatabaseFailure::file("create", path, cause)),
    }
}

/// Has a file or directory on disk before we go on.
pub(super) fn sync(path: &Path) -> Result<(), DatabaseFailure> {
    let synced = File::open(path).and_then(|file| file.sync_all());
    synced.map_err(|cause| DatabaseFailure::file("sync", path, cause))
}

/// Takes the lock beside the database: with others who use it, or alone, to put another file in its place.
pub(super) fn hold(path: &Path, hold: Hold) -> Result<File, DatabaseFailure> {
    let path = suffixed(path, ".lock");
    file_lock::within(&path, hold, LOCK_WAIT).map_err(|failed| match (failed, hold) {
        (NotLocked::Open(cause) | NotLocked::Lock(cause), _) => {
            DatabaseFailure::file("lock", &path, cause)
        }
        (NotLocked::Busy, Hold::Shared) => DatabaseFailure::Busy,
        (NotLocked::Busy, Hold::Alone) => DatabaseFailure::InUse,
    })
}
