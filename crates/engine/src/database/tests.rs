//! The file itself: versions, corruption, and what may stand in its place.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};

use clawpen_rules::timestamp::{Moment, Timestamp};
use rusqlite::Connection;
use tempfile::TempDir;

use super::repair::{Health, Rebuilt, examine, rebuild};
use super::*;
use crate::audit::{Call, Door, Event, Filter, Reason, Verdict};
use crate::registry::{DockerIdentity, Identity, Kind, NewRow, RegistryError, State, Survivor};

const NEWER: &[&str] = &[
    schema::STEPS[0],
    schema::STEPS[1],
    schema::STEPS[2],
    "CREATE TABLE later (what TEXT) STRICT",
];
const BROKEN: &[&str] = &[
    schema::STEPS[0],
    schema::STEPS[1],
    schema::STEPS[2],
    "CREATE TABLE half (x TEXT); CREATE TABLE audit (x)",
];
const FIRST: &[&str] = &[schema::STEPS[0]];

#[test]
fn a_new_database_is_private_and_survives_a_second_open() {
    let state = state();
    let first = Database::open(state.path()).unwrap();
    first.audit().append(&call(), at(1)).unwrap();
    for file in files::with_companions(&file(&state)) {
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600, "{}", file.display());
    }
    assert_eq!(fs::metadata(state.path().join("clawpen")).unwrap().mode() & 0o777, 0o700);
    let second = Database::open(state.path()).unwrap();
    assert_eq!(second.audit().head().unwrap(), first.audit().head().unwrap());
}

#[test]
fn whoever_opens_a_file_that_another_is_just_making_finds_it_whole() {
    for _ in 0..60 {
        let state = state();
        let together = std::sync::Barrier::new(4);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                together.wait();
                Database::open(state.path()).unwrap();
            });
            for _ in 0..3 {
                scope.spawn(|| {
                    together.wait();
                    while Database::open_existing(state.path()).unwrap().is_none() {}
                });
            }
        });
    }
}

#[test]
fn a_question_makes_nothing() {
    let state = state();
    assert!(Database::open_existing(state.path()).unwrap().is_none());
    assert_eq!(fs::read_dir(state.path()).unwrap().count(), 0);
    assert_eq!(examine(state.path()).unwrap(), Health::Absent);
}

#[test]
fn a_newer_database_is_an_error_and_not_one_byte_of_it_changes() {
    let state = state();
    let newer = newer(&state);
    newer.audit().append(&call(), at(1)).unwrap();
    // With its log beside it, as another process leaves it, and without.
    for held in [Some(newer), None] {
        let before = contents(&state);
        assert_eq!(
            told(Database::open(state.path())),
            "a newer clawpen wrote it (schema 4, this one knows 3); it is left as it is, use that \
             version"
        );
        assert!(told(examine(state.path())).starts_with("a newer clawpen wrote it"));
        assert_eq!(contents(&state), before);
        drop(held);
    }
}

#[test]
fn a_process_of_the_old_version_stops_writing_when_a_newer_one_has_migrated() {
    let state = state();
    let old = Database::open(state.path()).unwrap();
    old.audit().append(&call(), at(1)).unwrap();
    let newer = newer(&state);
    let refused = old.audit().append(&call(), at(2)).unwrap_err().to_string();
    assert!(refused.contains("clawpen.db"), "{refused}");
    assert!(matches!(
        old.registry().begin(&new_row("a"), &now()),
        Err(RegistryError::Database(DatabaseError {
            cause: DatabaseFailure::Newer { found: 4, known: 3 },
            ..
        }))
    ));
    assert_eq!(newer.audit().head().unwrap().seq, 1);
    newer.audit().append(&call(), at(2)).unwrap();
}

#[test]
fn a_migration_is_made_once_and_leaves_a_copy_of_the_old_file() {
    let state = state();
    let old = Database::open(state.path()).unwrap();
    old.registry().begin(&new_row("a"), &now()).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| newer(&state).registry().list().unwrap());
        }
    });
    let copies: Vec<PathBuf> = fs::read_dir(state.path().join("clawpen"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().contains("backup"))
        .collect();
    assert_eq!(copies, [files::suffixed(&file(&state), ".v3-backup")]);
    assert_eq!(fs::metadata(&copies[0]).unwrap().mode() & 0o777, 0o600);
    let copy = Connection::open(&copies[0]).unwrap();
    let number = |sql: &str| copy.query_row(sql, [], |row| row.get::<_, u32>(0)).unwrap();
    assert_eq!(number("PRAGMA user_version"), 3);
    assert_eq!(number("SELECT count(*) FROM sandboxes"), 1);
    assert_eq!(newer(&state).registry().list().unwrap().len(), 1);
}

#[test]
fn a_file_of_the_first_version_keeps_its_rows_and_gets_approvals() {
    let state = state();
    let old = Database::open_with(state.path(), files::Missing::Make, FIRST).unwrap().unwrap();
    old.registry().begin(&new_row("a"), &now()).unwrap();
    drop(old);
    let new = Database::open(state.path()).unwrap();
    assert_eq!(new.registry().list().unwrap().len(), 1);
    let count = |sql: &str| new.connection.query_row(sql, [], |row| row.get::<_, u32>(0)).unwrap();
    assert_eq!(count("PRAGMA user_version"), 3);
    assert_eq!(count("SELECT count(*) FROM approvals"), 0);
    assert!(files::suffixed(&file(&state), ".v1-backup").exists());
}

#[test]
fn a_migration_that_fails_leaves_everything_as_it_was() {
    let state = state();
    Database::open(state.path()).unwrap().registry().begin(&new_row("a"), &now()).unwrap();
    let failed = Database::open_with(state.path(), files::Missing::Make, BROKEN).unwrap_err();
    assert!(matches!(failed, DatabaseFailure::Sql(_)), "{failed:?}");
    let same = Database::open(state.path()).unwrap();
    assert_eq!(same.registry().list().unwrap().len(), 1);
    let tables = same.connection.query_row(
        "SELECT count(*) FROM sqlite_schema WHERE name = 'half'",
        [],
        |row| row.get::<_, u32>(0),
    );
    assert_eq!(tables.unwrap(), 0);
}

#[test]
fn whatever_is_no_file_of_ours_in_its_place_is_named_and_left_alone() {
    for (suffix, make, expected) in [
        ("", "directory", "there is a directory in its place; move it away"),
        ("", "link", "there is a symbolic link in its place; move it away"),
        ("", "pipe", "there is a pipe in its place; move it away"),
        ("-wal", "link", "there is a symbolic link in its place; move it away"),
        ("-shm", "pipe", "there is a pipe in its place; move it away"),
    ] {
        let state = state();
        drop(Database::open(state.path()).unwrap());
        let path = files::suffixed(&file(&state), suffix);
        let _ = fs::remove_file(&path);
        match make {
            "directory" => fs::create_dir(&path).unwrap(),
            "link" => symlink("/dev/null", &path).unwrap(),
            _ => {
                let mode = rustix::fs::Mode::from_raw_mode(0o600);
                let kind = rustix::fs::FileType::Fifo;
                rustix::fs::mknodat(rustix::fs::CWD, &path, kind, mode, 0).unwrap();
            }
        }
        assert_eq!(told(Database::open(state.path())), expected, "{make}{suffix}");
        assert!(!fs::symlink_metadata(&path).unwrap().is_file());
    }
}

#[test]
fn a_state_directory_behind_a_link_works() {
    let state = state();
    let link = state.path().join("link");
    fs::create_dir(state.path().join("real")).unwrap();
    symlink("real", &link).unwrap();
    Database::open(&link).unwrap().audit().append(&call(), at(1)).unwrap();
    let same = Database::open(&state.path().join("real")).unwrap();
    assert_eq!(same.audit().head().unwrap().seq, 1);
}

#[test]
fn a_file_that_others_may_read_becomes_private_and_one_they_may_write_is_refused() {
    let state = state();
    drop(Database::open(state.path()).unwrap());
    let path = file(&state);
    fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    drop(Database::open(state.path()).unwrap());
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    fs::set_permissions(&path, Permissions::from_mode(0o620)).unwrap();
    let refused = told(Database::open(state.path()));
    assert!(refused.contains("others may write") && refused.contains("chmod 600"), "{refused}");
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    fs::set_permissions(path.parent().unwrap(), Permissions::from_mode(0o770)).unwrap();
    let refused = told(Database::open(state.path()));
    assert!(refused.contains("chmod 700"), "{refused}");
}

#[test]
fn a_file_of_another_user_is_refused() {
    let state = state();
    drop(Database::open(state.path()).unwrap());
    // Only root can give a file away; root's own file serves everybody else.
    let path = file(&state);
    let foreign = match chown(&path, Some(65_534), None) {
        Ok(()) => path,
        Err(_) => PathBuf::from("/etc/passwd"),
    };
    let refused = files::look(&foreign).unwrap_err().to_string();
    assert!(refused.contains("belongs to user") && refused.contains("chown"), "{refused}");
}

#[test]
fn a_database_of_another_program_is_left_alone() {
    let state = state();
    fs::create_dir(state.path().join("clawpen")).unwrap();
    let other = Connection::open(file(&state)).unwrap();
    other.execute_batch("CREATE TABLE theirs (x); INSERT INTO theirs VALUES (1)").unwrap();
    drop(other);
    let before = fs::read(file(&state)).unwrap();
    let refused = told(Database::open(state.path()));
    assert_eq!(refused, "it is a database of another program; move it away");
    assert!(told(rebuild(state.path(), &[], &now())).starts_with("it is a database of another"));
    assert_eq!(fs::read(file(&state)).unwrap(), before);
}

#[test]
fn a_log_left_by_a_killed_process_is_played_in_and_a_stray_one_is_not() {
    let state = state();
    let open = Database::open(state.path()).unwrap();
    open.audit().append(&call(), at(1)).unwrap();
    // As a kill leaves it: the record is in the log only.
    let copy = copy_of(&state);
    let recovered = Database::open(copy.path()).unwrap();
    assert_eq!(recovered.audit().head().unwrap(), open.audit().head().unwrap());
    assert!(recovered.audit().verify(None).unwrap().is_whole());
    // A log whose database is gone belongs to nothing.
    let copy = copy_of(&state);
    fs::remove_file(file(&copy)).unwrap();
    let fresh = Database::open(copy.path()).unwrap();
    assert_eq!(fresh.audit().head().unwrap().seq, 0);
}

#[test]
fn a_corrupt_database_is_kept_named_and_rebuilt_from_what_runs() {
    for damage in ["header", "pages"] {
        let state = corrupt(damage);
        let before = fs::read(file(&state)).unwrap();
        if damage == "header" {
            let refused = told(Database::open(state.path()));
            assert!(refused.contains("clawpen doctor --repair"), "{refused}");
        }
        assert!(matches!(examine(state.path()).unwrap(), Health::Corrupt { .. }), "{damage}");
        assert_eq!(fs::read(file(&state)).unwrap(), before);

        let done = rebuild(state.path(), &[survivor("a")], &now()).unwrap();
        assert_eq!(done.sandboxes, ["a"]);
        let name = done.kept.file_name().unwrap().to_str().unwrap();
        assert_eq!(name, "clawpen.db.corrupt-1000");
        assert_eq!(fs::read(&done.kept).unwrap(), before);
        assert_eq!(examine(state.path()).unwrap(), Health::Sound);
        let database = Database::open(state.path()).unwrap();
        let row = database.registry().get("a").unwrap().unwrap();
        assert_eq!((row.state, row.identity), (State::Ready, Some(survivor("a").identity)));
        assert!(database.audit().verify(None).unwrap().is_whole());
        let records = database.audit().list(&Filter::default()).unwrap();
        let reason = "the database was corrupt and is kept as clawpen.db.corrupt-1000";
        let Rebuilt { old_head, .. } = done;
        let expected = Event::Rebuild { through: old_head, reason: Reason::new(reason) };
        assert_eq!(records.iter().map(|record| &record.event).collect::<Vec<_>>(), [&expected]);
    }
}

#[test]
fn a_rebuild_never_replaces_a_sound_a_newer_or_a_used_database() {
    let state = state();
    let open = Database::open(state.path()).unwrap();
    assert_eq!(
        told(rebuild(state.path(), &[], &now())),
        "other clawpen processes have it open; stop them first, then try again"
    );
    drop(open);
    assert_eq!(told(rebuild(state.path(), &[], &now())), "it is sound; there is nothing to repair");
    drop(newer(&state));
    let before = contents(&state);
    assert!(told(rebuild(state.path(), &[], &now())).starts_with("a newer clawpen wrote it"));
    assert_eq!(contents(&state), before);
}

fn state() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn file(state: &TempDir) -> PathBuf {
    path_in(state.path())
}

fn newer(state: &TempDir) -> Database {
    Database::open_with(state.path(), files::Missing::Make, NEWER).unwrap().unwrap()
}

#[track_caller]
fn told<T: std::fmt::Debug>(result: Result<T, DatabaseError>) -> String {
    result.unwrap_err().cause.to_string()
}

/// The database and its log, byte by byte.
fn contents(state: &TempDir) -> [Option<Vec<u8>>; 2] {
    let [main, wal, _] = files::with_companions(&file(state));
    // A log without content is none.
    [main, wal].map(|path| fs::read(path).ok().filter(|bytes| !bytes.is_empty()))
}

fn copy_of(state: &TempDir) -> TempDir {
    let copy = self::state();
    fs::create_dir(copy.path().join("clawpen")).unwrap();
    let (from, to) = (files::with_companions(&file(state)), files::with_companions(&file(&copy)));
    for (from, to) in from.iter().zip(&to).take(2) {
        fs::copy(from, to).unwrap();
    }
    copy
}

/// A database with a row and some hundred records, then damaged.
fn corrupt(damage: &str) -> TempDir {
    let state = state();
    let database = Database::open(state.path()).unwrap();
    database.registry().begin(&new_row("old"), &now()).unwrap();
    for second in 0..200 {
        database.audit().append(&call(), at(second)).unwrap();
    }
    // What is still in the log would cover the damage.
    database.close_as_one_file().unwrap();
    let mut bytes = fs::read(file(&state)).unwrap();
    match damage {
        "header" => bytes[..100].fill(0x5a),
        _ => bytes[4096..].chunks_mut(4096).for_each(|page| page[..64].fill(0x5a)),
    }
    fs::write(file(&state), bytes).unwrap();
    state
}

fn now() -> Moment {
    Moment::wall(at(1))
}

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_millis(seconds * 1000)
}

fn call() -> Call {
    Call {
        call: "c1".to_owned(),
        session: None,
        agent: None,
        scope: None,
        door: Door::Cli,
        tool: "exec".to_owned(),
        verdict: Verdict::Allowed,
        reason: Reason::new("because"),
        ending: None,
        duration: Duration::ZERO,
        bytes_in: 0,
        bytes_out: 0,
    }
}

fn new_row(name: &str) -> NewRow {
    NewRow {
        name: name.to_owned(),
        kind: Kind::Sandbox,
        backend: clawpen_rules::backend::Backend::Docker,
        scope: clawpen_rules::scope::ScopeKey::stored("agent:main").unwrap(),
        session: None,
        agent: None,
        image: "image".to_owned(),
        fingerprint: "f".to_owned(),
        workspace_dir: "/w".to_owned(),
    }
}

fn survivor(name: &str) -> Survivor {
    let identity = Identity::Docker(DockerIdentity {
        container_id: "c0ffee".to_owned(),
        endpoint: "/run/docker.sock".to_owned(),
        state_label: "label".to_owned(),
    });
    Survivor { row: new_row(name), identity, protocol: 1, created: now() }
}

#[test]
fn the_database_stands_below_the_state_directory() {
    assert_eq!(path_in(Path::new("/s")), Path::new("/s/clawpen/clawpen.db"));
}
