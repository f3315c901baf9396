//! Why the database could not be used, in words that say what to do.

use std::io;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

/// The database could not be used. What was in it is as it was.
#[derive(Debug, thiserror::Error)]
#[error("cannot use the database `{}`", .path.display())]
pub struct DatabaseError {
    pub path: PathBuf,
    #[source]
    pub cause: DatabaseFailure,
}

/// The ways it fails.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseFailure {
    #[error(
        "a newer clawpen wrote it (schema {found}, this one knows {known}); it is left as it is, \
         use that version"
    )]
    Newer { found: u32, known: u32 },
    #[error("it is a database of another program; move it away")]
    Foreign,
    #[error(
        "it is corrupt ({detail}); it is left as it is, `clawpen doctor --repair` keeps it under a \
         new name and makes a new one from what runs"
    )]
    Corrupt { detail: String },
    #[error("there is no space left for it; make room on its file system and try again")]
    NoSpace,
    #[error(
        "its directory cannot be written; make it writable, or name another one in \
         OPENCLAW_STATE_DIR"
    )]
    ReadOnly,
    #[error("there is {what} in its place; move it away")]
    NotAFile { what: &'static str },
    #[error("{why}")]
    Untrusted { why: String },
    #[error("another clawpen process keeps it busy; try again")]
    Busy,
    #[error("other clawpen processes have it open; stop them first, then try again")]
    InUse,
    #[error("it is sound; there is nothing to repair")]
    Sound,
    #[error("cannot {what} `{}`", .path.display())]
    File {
        what: &'static str,
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error("its engine failed")]
    Sql(#[source] rusqlite::Error),
}

impl DatabaseFailure {
    /// What `SQLite`'s error means to a user.
    pub(super) fn of(error: rusqlite::Error) -> Self {
        let detail = error.to_string();
        match error {
            rusqlite::Error::SqliteFailure(found, text) => match found.code {
                ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => {
                    Self::Corrupt { detail: text.unwrap_or(detail) }
                }
                ErrorCode::DiskFull => Self::NoSpace,
                // Room for the shared index of the log could not be had.
                ErrorCode::SystemIoFailure if found.extended_code == SHM_SIZE => Self::NoSpace,
                ErrorCode::ReadOnly => Self::ReadOnly,
                ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => Self::Busy,
                _ => Self::Sql(rusqlite::Error::SqliteFailure(found, text)),
            },
            // A column holds what we never write.
            rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::IntegralValueOutOfRange(..) => Self::Corrupt { detail },
            other => Self::Sql(other),
        }
    }

    /// What an error of the file system means.
    pub(super) fn file(what: &'static str, path: &Path, cause: io::Error) -> Self {
        match cause.kind() {
            io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => Self::ReadOnly,
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::NoSpace,
            _ => Self::File { what, path: path.to_owned(), cause },
        }
    }
}

/// `SQLITE_IOERR_SHMSIZE`.
const SHM_SIZE: i32 = 0x130a;
