//! The approvals file on a real disk: kept whole, private, and never overwritten unread.

use super::*;
use clawpen_rules::approval::file::{AgentKey, NewEntry};
use std::os::unix::fs::{PermissionsExt as _, symlink};

struct Home {
    directory: tempfile::TempDir,
}

impl Home {
    fn with(text: Option<&str>) -> (Self, ApprovalsStore) {
        let directory = tempfile::tempdir().unwrap();
        let store = ApprovalsStore::of_home(directory.path().to_str().unwrap());
        if let Some(text) = text {
            fs::create_dir(directory.path().join(".openclaw")).unwrap();
            fs::write(store.path(), text).unwrap();
        }
        (Self { directory }, store)
    }

    /// Everything beside the file itself and its lock.
    fn leftovers(&self) -> Vec<String> {
        let names = fs::read_dir(self.directory.path().join(".openclaw")).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names
            .filter(|name| name != "exec-approvals.json" && name != "exec-approvals.json.lock")
            .collect()
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o777
}

fn add(store: &ApprovalsStore, pattern: &str) -> Result<Change, ChangeError> {
    let agent = AgentKey::parse("main");
    let edited =
        store.edit(|file| file.add(&agent, NewEntry::pattern(pattern, None), 1, &mut random::uuid));
    edited.map(|(_, change)| change)
}

#[test]
fn b30_a_file_that_cannot_be_used_is_an_error_and_is_never_overwritten() {
    for text in [
        "{broken",
        "",
        "null",
        "[]",
        "{}",
        "{\"version\":2,\"agents\":{\"main\":{\"security\":\"deny\"}}}",
        "{\"version\":\"1\"}",
        "{version:1}",
        "{\"version\":1,\"agents\":{\"main\":null}}",
        "{\"version\":1,\"agents\":[]}",
    ] {
        let (home, store) = Home::with(Some(text));
        assert!(matches!(store.read(), Err(FileRefused::Problem { .. })), "{text}");
        assert!(matches!(store.ensure(), Err(ChangeError::Refused(_))), "{text}");
        assert!(matches!(add(&store, "/bin/ls"), Err(ChangeError::Refused(_))), "{text}");
        let new = "{\"version\":1}";
        assert!(matches!(store.set(new, None), Err(ChangeError::Refused(_))), "{text}");
        assert_eq!(fs::read_to_string(store.path()).unwrap(), text);
        assert_eq!(home.leftovers(), [""; 0]);
    }
}

#[test]
fn b36_a_file_that_others_could_have_written_is_not_believed() {
    let (_home, store) = Home::with(Some("{\"version\":1}"));
    fs::set_permissions(store.path(), fs::Permissions::from_mode(0o664)).unwrap();
    assert!(matches!(store.read(), Err(FileRefused::Untrusted { .. })));
    fs::set_permissions(store.path(), fs::Permissions::from_mode(0o644)).unwrap();
    assert!(store.read().is_ok());
    let elsewhere = store.path().with_file_name("elsewhere.json");
    fs::rename(store.path(), &elsewhere).unwrap();
    symlink(&elsewhere, store.path()).unwrap();
    let Err(FileRefused::Untrusted { why, .. }) = store.read() else { panic!("a link was read") };
    assert!(why.contains("symbolic link"), "{why}");
    assert!(add(&store, "/bin/ls").is_err());
    assert_eq!(fs::read_to_string(elsewhere).unwrap(), "{\"version\":1}");
}

#[test]
fn an_absent_file_says_nothing_and_reading_makes_none() {
    let (_home, store) = Home::with(None);
    let seen = store.read().unwrap();
    assert!(!seen.exists);
    assert_eq!(seen.hash, FileHash::of(""));
    assert!(!store.path().exists());
}

#[test]
fn ensure_makes_a_private_file_with_a_token_and_then_leaves_it_alone() {
    let (home, store) = Home::with(None);
    let made = store.ensure().unwrap();
    assert!(made.file.has_token());
    assert_eq!(made.file.socket_path(), Some(store.default_socket().as_str()));
    assert_eq!(mode(store.path()), 0o600);
    let text = fs::read_to_string(store.path()).unwrap();
    assert_eq!(FileHash::of(&text), made.hash);
    assert_eq!(store.ensure().unwrap().hash, made.hash);
    assert_eq!(fs::read_to_string(store.path()).unwrap(), text);
    assert_eq!(home.leftovers(), [""; 0]);
}

#[test]
fn set_needs_the_hash_of_what_it_replaces_and_keeps_the_token() {
    let (_home, store) = Home::with(None);
    let first = store.set("{\"version\":1}", None).unwrap();
    let new = "{\"version\":1,\"agents\":{\"*\":{\"security\":\"deny\"}}}";
    let stale = |result| matches!(result, Err(ChangeError::Stale(_)));
    assert!(stale(store.set(new, None)));
    assert!(stale(store.set(new, Some(FileHash::of("other").as_str()))));
    assert_eq!(store.read().unwrap().hash, first.hash);
    let second = store.set(new, Some(first.hash.as_str())).unwrap();
    assert_ne!(second.hash, first.hash);
    let token = |snapshot: &Snapshot| {
        let text = snapshot.file.to_text();
        text.split("\"token\": \"")
            .nth(1)
            .and_then(|rest| rest.split('"').next())
            .unwrap()
            .to_owned()
    };
    assert_eq!(token(&second), token(&first));
    assert!(!second.file.redacted().to_text().contains("token"));
    assert!(!format!("{:?}", second.file).contains(&token(&first)));
}

#[test]
fn an_edit_that_changes_nothing_writes_nothing() {
    let text = "{\"version\":1,\"agents\":{\"main\":{\"allowlist\":[\"/bin/ls\"]}}}";
    let (_home, store) = Home::with(Some(text));
    assert_eq!(add(&store, "/bin/ls").unwrap(), Change::Unchanged);
    assert_eq!(add(&store, "  ").unwrap(), Change::Unchanged);
    assert_eq!(fs::read_to_string(store.path()).unwrap(), text);
    assert_eq!(add(&store, "/bin/cat").unwrap(), Change::Changed);
    assert_eq!(mode(store.path()), 0o600);
}

#[test]
fn writers_at_the_same_time_lose_nothing() {
    let (home, store) = Home::with(None);
    std::thread::scope(|scope| {
        for writer in 0..8 {
            let store = store.clone();
            scope.spawn(move || {
                for entry in 0..5 {
                    let made = add(&store, &format!("/bin/{writer}-{entry}")).unwrap();
                    assert_eq!(made, Change::Changed);
                }
            });
        }
    });
    let file = store.read().unwrap().file;
    assert_eq!(file.entries(&AgentKey::parse("main")).len(), 40);
    assert_eq!(home.leftovers(), [""; 0]);
}

#[test]
fn b36_a_directory_in_which_anybody_may_put_files_is_not_believed() {
    let (home, store) = Home::with(Some("{\"version\":1}"));
    let directory = home.directory.path().join(".openclaw");
    for (mode, is_believed) in [(0o777, false), (0o757, false), (0o1777, true), (0o775, true)] {
        fs::set_permissions(&directory, fs::Permissions::from_mode(mode)).unwrap();
        assert_eq!(store.read().is_ok(), is_believed, "{mode:o}");
    }
}
