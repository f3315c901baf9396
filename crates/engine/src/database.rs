//! The one `SQLite` file of a state directory: registry, approvals and audit chain.
//!
//! Any number of processes may have it open. Every change is one transaction that takes the right
//! to write first and then makes sure that no newer clawpen has changed the tables meanwhile. A
//! file that is newer, corrupt, somebody else's or open to others is an error and is not written;
//! only [`repair`] puts another one in its place, and keeps the old.
//!
//! Synchronous, and not to be used in a forked child: `SQLite`'s locks do not survive a fork.

mod changes;
mod failure;
mod files;
pub mod repair;
mod schema;

use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, Params, Row, RowIndex};

pub use changes::Changes;
pub use failure::{DatabaseError, DatabaseFailure};
use files::Missing;

use crate::audit::Audit;
use crate::file_lock::Hold;
use crate::registry::Registry;

/// How long a change waits for others to finish theirs.
const BUSY_WAIT: Duration = Duration::from_secs(10);

/// Pages in the log after which it is played into the file. Closing does not do that: a command line opens and closes the
/// file once for each call, and would wait for the disk each time. So the log stays short, because whoever opens the
/// file first reads all of it.
const LOG_PAGES: u32 = 256;

/// Between making the file and having `SQLite` open it, no other thread may do the same: closing our
/// handle would drop that thread's locks.
static OPENING: Mutex<()> = Mutex::new(());

/// Our database in a state directory.
pub fn path_in(state_dir: &Path) -> PathBuf {
    state_dir.join("clawpen").join("clawpen.db")
}

/// An open database. Can be sent to another thread, but serves one at a time.
#[derive(Debug)]
pub struct Database {
    connection: Connection,
    path: PathBuf,
    steps: &'static [&'static str],
    /// Keeps a repair from putting another file in our place.
    _held: Option<File>,
}

/// One transaction, or a look without one. Every error says which database.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sql<'a> {
    connection: &'a Connection,
    path: &'a Path,
}

impl Database {
    /// Opens the database of a state directory, and makes it if there is none.
    pub fn open(state_dir: &Path) -> Result<Self, DatabaseError> {
        let opened = Self::open_with(state_dir, Missing::Make, schema::STEPS);
        let opened = opened.map_err(|cause| DatabaseError { path: path_in(state_dir), cause })?;
        // It was to be made, so it is there.
        opened.ok_or_else(|| DatabaseError {
            path: path_in(state_dir),
            cause: DatabaseFailure::ReadOnly,
        })
    }

    /// Opens the database if there is one. A question must not make anything.
    pub fn open_existing(state_dir: &Path) -> Result<Option<Self>, DatabaseError> {
        Self::open_with(state_dir, Missing::Leave, schema::STEPS)
            .map_err(|cause| DatabaseError { path: path_in(state_dir), cause })
    }

    pub fn registry(&self) -> Registry<'_> {
        Registry::new(self)
    }

    pub fn audit(&self) -> Audit<'_> {
        Audit::new(self)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    fn open_with(
        state_dir: &Path,
        missing: Missing,
        steps: &'static [&'static str],
    ) -> Result<Option<Self>, DatabaseFailure> {
        let Some(directory) = files::directory(state_dir, missing)? else { return Ok(None) };
        let path = directory.join("clawpen.db");
        let _alone = OPENING.lock().unwrap_or_else(PoisonError::into_inner);
        let exists = files::look(&path)?;
        if !exists && missing == Missing::Leave {
            return Ok(None);
        }
        let held = files::hold(&path, Hold::Shared)?;
        files::create_private(&path)?;
        let database = Self::connect(path, steps, Some(held))?;
        Ok(Some(database))
    }

    /// Opens a file that exists and is held.
    fn connect(
        path: PathBuf,
        steps: &'static [&'static str],
        held: Option<File>,
    ) -> Result<Self, DatabaseFailure> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_NOFOLLOW
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&path, flags).map_err(DatabaseFailure::of)?;
        let sql = DatabaseFailure::of;
        connection.busy_timeout(BUSY_WAIT).map_err(sql)?;
        connection.set_prepared_statement_cache_capacity(32);
        let database = Self { connection, path, steps, _held: held };
        // Closing it writes nothing; until it is known to be one of today, nothing may.
        let connection = &database.connection;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map_err(sql)?;
        connection
            .execute_batch("PRAGMA trusted_schema = OFF; PRAGMA synchronous = NORMAL")
            .map_err(sql)?;
        let found = schema::version(connection)?;
        schema::refuse_newer(found, steps)?;
        if found < schema::known(steps) {
            if found == 0 {
                schema::use_log(connection)?;
            }
            schema::migrate(connection, &database.path, steps)?;
        }
        connection.pragma_update(None, "wal_autocheckpoint", LOG_PAGES).map_err(sql)?;
        Ok(database)
    }

    /// Closes it as one file, without a log beside it. For one that nobody else has open.
    fn close_as_one_file(self) -> Result<(), DatabaseFailure> {
        let fold = "PRAGMA wal_checkpoint(TRUNCATE)";
        let is_busy: bool =
            self.connection.query_row(fold, [], |row| row.get(0)).map_err(DatabaseFailure::of)?;
        if is_busy {
            return Err(DatabaseFailure::Busy);
        }
        self.connection
            .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)
            .map_err(DatabaseFailure::of)?;
        self.connection.close().map_err(|(_, error)| DatabaseFailure::of(error))
    }

    /// Reads; several reads in one `work` see one moment.
    pub(crate) fn read<T, E: From<DatabaseError>>(
        &self,
        work: impl FnOnce(Sql<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.within("BEGIN DEFERRED", work)
    }

    /// Changes; all of it or, on an error, nothing.
    pub(crate) fn write<T, E: From<DatabaseError>>(
        &self,
        work: impl FnOnce(Sql<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.within("BEGIN IMMEDIATE", |sql| {
            // A newer clawpen may have changed the tables while we had the file open.
            let found = sql.first("PRAGMA user_version", [], |row| row.get::<_, u32>(0))?;
            let found = found.unwrap_or_default();
            schema::refuse_newer(found, self.steps).map_err(|cause| self.error(cause))?;
            work(sql)
        })
    }

    fn within<T, E: From<DatabaseError>>(
        &self,
        begin: &'static str,
        work: impl FnOnce(Sql<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let sql = Sql { connection: &self.connection, path: &self.path };
        sql.run(begin, [])?;
        // Dropped without a commit, it takes everything back.
        let open = OpenTransaction(sql);
        let done = work(sql)?;
        open.commit()?;
        Ok(done)
    }

    fn error(&self, cause: DatabaseFailure) -> DatabaseError {
        DatabaseError { path: self.path.clone(), cause }
    }
}

/// A transaction that has begun.
struct OpenTransaction<'a>(Sql<'a>);

impl OpenTransaction<'_> {
    /// If this fails, so does everything that was done in it.
    fn commit(self) -> Result<(), DatabaseError> {
        self.0.run("COMMIT", []).map(drop)
    }
}

impl Drop for OpenTransaction<'_> {
    fn drop(&mut self) {
        if !self.0.connection.is_autocommit() {
            // Whoever failed has said why. A connection that cannot even take back refuses all that follows.
            drop(self.0.run("ROLLBACK", []));
        }
    }
}

impl Sql<'_> {
    /// Runs a statement; gives the number of rows it changed.
    pub(crate) fn run(self, sql: &str, params: impl Params) -> Result<usize, DatabaseError> {
        let run = || self.connection.prepare_cached(sql)?.execute(params);
        run().map_err(|error| self.failed(error))
    }

    /// The first row.
    pub(crate) fn first<T>(
        self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>, DatabaseError> {
        let find = || {
            let mut statement = self.connection.prepare_cached(sql)?;
            let mut rows = statement.query(params)?;
            rows.next()?.map(read).transpose()
        };
        find().map_err(|error| self.failed(error))
    }

    /// Every row.
    pub(crate) fn all<T>(
        self,
        sql: &str,
        params: impl Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, DatabaseError> {
        let collect = || {
            let mut statement = self.connection.prepare_cached(sql)?;
            statement.query_map(params, read)?.collect::<rusqlite::Result<Vec<T>>>()
        };
        collect().map_err(|error| self.failed(error))
    }

    /// Every row, one at a time, until `visit` has seen enough.
    pub(crate) fn each(
        self,
        sql: &str,
        params: impl Params,
        mut visit: impl FnMut(&Row<'_>) -> rusqlite::Result<Next>,
    ) -> Result<(), DatabaseError> {
        let walk = || {
            let mut statement = self.connection.prepare_cached(sql)?;
            let mut rows = statement.query(params)?;
            while let Some(row) = rows.next()? {
                if visit(row)? == Next::Stop {
                    break;
                }
            }
            Ok::<_, rusqlite::Error>(())
        };
        walk().map_err(|error| self.failed(error))
    }

    fn failed(self, error: rusqlite::Error) -> DatabaseError {
        DatabaseError { path: self.path.to_owned(), cause: DatabaseFailure::of(error) }
    }
}

/// Whether a walk over rows goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    Go,
    Stop,
}

/// A column that holds a word of ours, or the error that it does not.
pub(crate) fn word<T>(
    row: &Row<'_>,
    column: impl RowIndex + fmt::Display,
    parse: impl FnOnce(&str) -> Option<T>,
) -> rusqlite::Result<T> {
    let text: String = row.get(column)?;
    parse(&text).ok_or_else(|| {
        let what = format!("`{text}` in the column {column} is no word of ours");
        rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, what.into())
    })
}

#[cfg(test)]
mod tests;
