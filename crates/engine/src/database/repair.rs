//! Putting a new database in the place of a corrupt one.
//!
//! ```text
//! hold alone ─► corrupt indeed? ─► new file, filled from what runs ─► swap ─► old file under a new name
//! ```
//!
//! The old file is kept with all that belongs to it: it gets its second name before it loses the first.
//! The swap is one step of the kernel, so a kill leaves the old database or the new one, and the old
//! file in any case. A sound or a newer one is never replaced.

use std::path::{Path, PathBuf};

use clawpen_rules::timestamp::Moment;

use super::failure::{DatabaseError, DatabaseFailure};
use super::files::{self, Missing};
use super::{Database, Next, path_in, schema};
use crate::audit::{self, Event, Head, Reason};
use crate::file_lock::Hold;
use crate::registry::{RegistryError, Survivor};

/// How a database is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// There is none, so nothing is wrong with it.
    Absent,
    Sound,
    Corrupt {
        detail: String,
    },
}

/// What a rebuild left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rebuilt {
    /// The corrupt file's new name.
    pub kept: PathBuf,
    /// The sandboxes that were written down, by name.
    pub sandboxes: Vec<String>,
    /// The end of the old audit chain, if it could still be read.
    pub old_head: Option<Head>,
}

/// Reads all of the database. Whatever else is wrong with it (newer, foreign, not ours) is an error.
pub fn examine(state_dir: &Path) -> Result<Health, DatabaseError> {
    let database = match Database::open_existing(state_dir) {
        Ok(Some(database)) => database,
        Ok(None) => return Ok(Health::Absent),
        Err(error) => return corrupt_or(error),
    };
    health(&database)
}

/// Replaces a corrupt database by one that knows what runs.
pub fn rebuild(
    state_dir: &Path,
    survivors: &[Survivor],
    now: &Moment,
) -> Result<Rebuilt, DatabaseError> {
    let shown = path_in(state_dir);
    let fail = |cause| DatabaseError { path: shown.clone(), cause };
    let directory = files::directory(state_dir, Missing::Leave).map_err(fail)?;
    let directory = directory.ok_or_else(|| fail(DatabaseFailure::Sound))?;
    let path = directory.join("clawpen.db");
    if !files::look(&path).map_err(fail)? {
        return Err(fail(DatabaseFailure::Sound));
    }
    let _alone = files::hold(&path, Hold::Alone).map_err(fail)?;
    let old_head = match Database::connect(path.clone(), schema::STEPS, None) {
        Ok(database) => {
            if health(&database)? == Health::Sound {
                return Err(fail(DatabaseFailure::Sound));
            }
            database.audit().head().ok()
        }
        Err(DatabaseFailure::Corrupt { .. }) => None,
        Err(cause) => return Err(fail(cause)),
    };
    let kept = files::free_name(&path, &format!("corrupt-{}", now.wall.as_millis()));
    let fresh = files::suffixed(&path, ".rebuilding");
    let sandboxes = fill(&fresh, survivors, (old_head, &kept), now)?;
    swap(&path, &fresh, &kept).map_err(fail)?;
    Ok(Rebuilt { kept, sandboxes, old_head })
}

/// Makes the new database beside the old one and closes it, so that it is one file.
fn fill(
    fresh: &Path,
    survivors: &[Survivor],
    (through, kept): (Option<Head>, &Path),
    now: &Moment,
) -> Result<Vec<String>, DatabaseError> {
    let fail = |cause| DatabaseError { path: fresh.to_owned(), cause };
    for left_over in files::with_companions(fresh) {
        // Of an attempt that was cut off; nobody has it open, for we hold the lock.
        let _ = std::fs::remove_file(left_over);
    }
    files::create_private(fresh).map_err(fail)?;
    let database = Database::connect(fresh.to_owned(), schema::STEPS, None).map_err(fail)?;
    let sandboxes = database.registry().take_in(survivors).map_err(|error| match error {
        RegistryError::Database(error) => error,
        // Nothing else can go wrong in an empty registry.
        other => fail(DatabaseFailure::Untrusted { why: other.to_string() }),
    })?;
    let name = kept.file_name().unwrap_or_default().to_string_lossy();
    let reason = Reason::new(&format!("the database was corrupt and is kept as {name}"));
    database.write(|sql| audit::append(sql, &Event::Rebuild { through, reason }, now.wall))?;
    database.close_as_one_file().map_err(fail)?;
    files::sync(fresh).map_err(fail)?;
    Ok(sandboxes)
}

fn swap(path: &Path, fresh: &Path, kept: &Path) -> Result<(), DatabaseFailure> {
    let [_, wal, shm] = files::with_companions(path);
    // First of all: a log beside another file than its own would be played into that.
    for (file, suffix) in [(wal, "-wal"), (shm, "-shm")] {
        match std::fs::rename(&file, files::suffixed(kept, suffix)) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(cause) => return Err(DatabaseFailure::file("move away", &file, cause)),
        }
    }
    std::fs::hard_link(path, kept).map_err(|cause| DatabaseFailure::file("keep", path, cause))?;
    std::fs::rename(fresh, path).map_err(|cause| DatabaseFailure::file("replace", path, cause))?;
    files::sync(path.parent().unwrap_or(Path::new("/")))
}

fn health(database: &Database) -> Result<Health, DatabaseError> {
    let mut found = Vec::new();
    let looked = database.read(|sql| {
        sql.each("PRAGMA integrity_check(5)", [], |row| {
            found.push(row.get::<_, String>(0)?);
            Ok(Next::Go)
        })?;
        // The check knows pages, not our words: read what we read.
        Ok::<_, DatabaseError>(())
    });
    if let Err(error) = looked {
        return corrupt_or(error);
    }
    if found.iter().any(|line| line != "ok") {
        return Ok(Health::Corrupt { detail: found.join("; ") });
    }
    let rows = database.registry().list().map(drop);
    let leases = database.registry().all_leases().map(drop);
    for read in [rows, leases] {
        match read {
            Ok(()) => {}
            Err(RegistryError::Database(error)) => return corrupt_or(error),
            Err(other) => return Ok(Health::Corrupt { detail: other.to_string() }),
        }
    }
    Ok(Health::Sound)
}

fn corrupt_or(error: DatabaseError) -> Result<Health, DatabaseError> {
    match error.cause {
        DatabaseFailure::Corrupt { detail } => Ok(Health::Corrupt { detail }),
        _ => Err(error),
    }
}
