//! The tables, and how an older file becomes one of today.
//!
//! `user_version` counts the steps that a file has seen. A file with more than we know is an error
//! and is not written. A file with fewer is copied beside itself, then brought forward in one
//! transaction that keeps all other writers out.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};

use super::failure::DatabaseFailure;

/// One text per version. A step that was released never changes.
pub(super) const STEPS: &[&str] = &[V1, V2, V3];

/// How long to wait before trying again what another process is just doing.
const LOG_STEP: Duration = Duration::from_millis(2);

/// Says that the file is ours: `clwp`.
const APPLICATION: i32 = 0x636c_7770;

const V1: &str = "
    CREATE TABLE sandboxes (
        name TEXT NOT NULL PRIMARY KEY,
        kind TEXT NOT NULL,
        backend TEXT NOT NULL,
        scope TEXT NOT NULL,
        session TEXT,
        agent TEXT,
        image TEXT NOT NULL,
        fingerprint TEXT NOT NULL,
        workspace_dir TEXT NOT NULL,
        state TEXT NOT NULL,
        generation INTEGER NOT NULL,
        identity TEXT,
        boot_id TEXT,
        pid INTEGER,
        start_time INTEGER,
        place TEXT,
        container_id TEXT,
        state_label TEXT,
        protocol INTEGER NOT NULL,
        created INTEGER NOT NULL,
        created_boot TEXT,
        created_uptime INTEGER,
        used INTEGER NOT NULL,
        used_boot TEXT,
        used_uptime INTEGER
    ) STRICT;
    CREATE TABLE leases (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        name TEXT NOT NULL,
        call TEXT NOT NULL,
        pid INTEGER NOT NULL,
        start_time INTEGER NOT NULL,
        boot_id TEXT NOT NULL,
        pid_namespace INTEGER NOT NULL,
        since INTEGER NOT NULL,
        since_boot TEXT,
        since_uptime INTEGER
    ) STRICT;
    CREATE INDEX leases_by_name ON leases (name);
    CREATE TABLE counters (
        name TEXT NOT NULL PRIMARY KEY,
        value INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    INSERT INTO counters VALUES ('generation', 0);
    CREATE TABLE reference_sandboxes (
        kind TEXT NOT NULL,
        name TEXT NOT NULL,
        backend TEXT NOT NULL,
        label TEXT NOT NULL,
        session_key TEXT NOT NULL,
        created INTEGER NOT NULL,
        used INTEGER NOT NULL,
        image TEXT NOT NULL,
        config_label_kind TEXT NOT NULL,
        config_hash TEXT,
        cdp_port INTEGER,
        no_vnc_port INTEGER,
        file TEXT NOT NULL,
        adopted INTEGER NOT NULL,
        PRIMARY KEY (kind, name)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE audit (
        seq INTEGER PRIMARY KEY,
        time INTEGER NOT NULL,
        kind TEXT NOT NULL,
        call TEXT,
        session TEXT,
        agent TEXT,
        scope TEXT,
        door TEXT,
        tool TEXT,
        verdict TEXT,
        reason TEXT NOT NULL,
        ending TEXT,
        micros INTEGER,
        bytes_in INTEGER,
        bytes_out INTEGER,
        through_seq INTEGER,
        through_hash BLOB,
        hash BLOB NOT NULL
    ) STRICT;
    CREATE TABLE audit_ends (
        place TEXT NOT NULL PRIMARY KEY,
        seq INTEGER NOT NULL,
        hash BLOB NOT NULL
    ) STRICT, WITHOUT ROWID;
    INSERT INTO audit_ends VALUES ('base', 0, zeroblob(32)), ('head', 0, zeroblob(32));
";

/// Approvals. Words, files and names of variables; never a value of a variable.
const V2: &str = "
    CREATE TABLE approvals (
        id TEXT NOT NULL PRIMARY KEY,
        state TEXT NOT NULL,
        session TEXT,
        agent TEXT NOT NULL,
        door TEXT NOT NULL,
        client TEXT,
        command TEXT NOT NULL,
        cwd TEXT NOT NULL,
        security TEXT NOT NULL,
        ask TEXT NOT NULL,
        fallback TEXT NOT NULL,
        looks TEXT NOT NULL,
        coverage TEXT NOT NULL,
        reasons TEXT NOT NULL,
        plan TEXT,
        entries TEXT NOT NULL,
        remember TEXT NOT NULL,
        timeout_ms INTEGER NOT NULL,
        asked INTEGER NOT NULL,
        asked_boot TEXT,
        asked_uptime INTEGER,
        answer TEXT,
        resolver TEXT,
        answered INTEGER,
        answered_boot TEXT,
        answered_uptime INTEGER,
        ending TEXT,
        pid INTEGER NOT NULL,
        start_time INTEGER NOT NULL,
        boot_id TEXT NOT NULL,
        pid_namespace INTEGER NOT NULL,
        agent_pid INTEGER,
        agent_start_time INTEGER
    ) STRICT;
    CREATE INDEX approvals_by_state ON approvals (state, asked);
";

/// The variables of a call that has no plan, by name, and what the answer is bound to. Leases are few and written
/// by every call: they do without an index, and their ids are drawn at random, so that none is given twice.
const V3: &str = "
    CREATE TABLE calls_in_flight (
        id INTEGER PRIMARY KEY,
        name TEXT NOT NULL,
        call TEXT NOT NULL,
        pid INTEGER NOT NULL,
        start_time INTEGER NOT NULL,
        boot_id TEXT NOT NULL,
        pid_namespace INTEGER NOT NULL,
        since INTEGER NOT NULL,
        since_boot TEXT,
        since_uptime INTEGER
    ) STRICT;
    INSERT INTO calls_in_flight SELECT * FROM leases;
    DROP TABLE leases;
    ALTER TABLE calls_in_flight RENAME TO leases;
    ALTER TABLE approvals ADD COLUMN variables TEXT NOT NULL DEFAULT '[]';
    ALTER TABLE approvals ADD COLUMN call TEXT;
";

/// The steps a file has seen; fails if it is no file of ours.
pub(super) fn version(connection: &Connection) -> Result<u32, DatabaseFailure> {
    // All of it at one moment: a file that another process is just making must not look like half of one.
    let moment = connection.is_autocommit().then(|| connection.unchecked_transaction());
    let _moment = moment.transpose().map_err(DatabaseFailure::of)?;
    let number = |sql| connection.query_row(sql, [], |row| row.get::<_, u32>(0));
    let version = number("PRAGMA user_version").map_err(DatabaseFailure::of)?;
    let application = number("PRAGMA application_id").map_err(DatabaseFailure::of)?;
    let is_ours = application == APPLICATION.unsigned_abs();
    if !is_ours {
        let tables = number("SELECT count(*) FROM sqlite_schema").map_err(DatabaseFailure::of)?;
        if version != 0 || application != 0 || tables != 0 {
            return Err(DatabaseFailure::Foreign);
        }
    }
    Ok(version)
}

/// Fails if the file has seen steps that we do not know.
pub(super) fn refuse_newer(found: u32, steps: &[&str]) -> Result<(), DatabaseFailure> {
    let known = known(steps);
    if found > known { Err(DatabaseFailure::Newer { found, known }) } else { Ok(()) }
}

pub(super) fn known(steps: &[&str]) -> u32 {
    u32::try_from(steps.len()).unwrap_or(u32::MAX)
}

/// Has a new file keep a log beside it, so that readers and a writer do not wait for each other.
///
/// `SQLite` does not wait for others here: whoever opens the same new file at the same moment makes this
/// fail as busy, so it is tried again.
pub(super) fn use_log(connection: &Connection) -> Result<(), DatabaseFailure> {
    let start = Instant::now();
    loop {
        match connection.pragma_update(None, "journal_mode", "WAL").map_err(DatabaseFailure::of) {
            Err(DatabaseFailure::Busy) if start.elapsed() < super::BUSY_WAIT => {
                std::thread::sleep(LOG_STEP);
            }
            done => return done,
        }
    }
}

/// Brings the file forward. Others may do the same at the same time: one does it, all find it done.
pub(super) fn migrate(
    connection: &Connection,
    path: &Path,
    steps: &[&str],
) -> Result<(), DatabaseFailure> {
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)
        .map_err(DatabaseFailure::of)?;
    let found = version(&transaction)?;
    refuse_newer(found, steps)?;
    if found == known(steps) {
        return Ok(());
    }
    if found > 0 {
        // We hold the only right to write, so the copy is of exactly what is about to change.
        back_up(path, found)?;
    }
    let run = |sql: &str| transaction.execute_batch(sql).map_err(DatabaseFailure::of);
    for step in steps.iter().skip(found as usize) {
        run(step)?;
    }
    run(&format!("PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {}", known(steps)))?;
    transaction.commit().map_err(DatabaseFailure::of)
}

/// Copies the file to a free name beside it.
fn back_up(path: &Path, found: u32) -> Result<PathBuf, DatabaseFailure> {
    let target = super::files::free_name(path, &format!("v{found}-backup"));
    // It must exist before SQLite fills it, or it would be readable by others.
    super::files::create_private(&target)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let source = Connection::open_with_flags(path, flags).map_err(DatabaseFailure::of)?;
    let text = target.to_string_lossy();
    let copied = source.execute("VACUUM INTO ?1", [text.as_ref()]);
    if let Err(error) = copied {
        // Half a copy helps nobody.
        let _ = std::fs::remove_file(&target);
        return Err(DatabaseFailure::of(error));
    }
    super::files::sync(&target)?;
    Ok(target)
}
