//! A change keeps what it does not name, and never does anything else than what was asked for.

use std::convert::Infallible;
use std::os::unix::fs::MetadataExt as _;

use super::*;

struct Ground {
    home: tempfile::TempDir,
}

impl Ground {
    fn new(text: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        let ground = Self { home };
        fs::create_dir_all(ground.path().parent().unwrap()).unwrap();
        fs::write(ground.path(), text).unwrap();
        ground
    }

    fn path(&self) -> PathBuf {
        self.home.path().join(".openclaw/openclaw.json")
    }

    fn text(&self) -> String {
        fs::read_to_string(self.path()).unwrap()
    }

    fn around(&self) -> Surroundings {
        Surroundings::of_home(self.home.path().to_str().unwrap())
    }

    fn merge(&self, patch: &str) -> Result<Sound, WriteError<Infallible>> {
        let patch = json5::parse(patch, FileId(0)).unwrap().root;
        write(&self.around(), Base::Now, Timestamp::from_millis(0), |old| {
            let mut new = old.shown.clone();
            patch::merge(&mut new, &patch);
            Ok(new)
        })
    }
}

const STAMPED: &str =
    "meta: { lastTouchedVersion: \"2026.3.28\", lastTouchedAt: \"1970-01-01T00:00:00.000Z\" }";

#[test]
fn a_change_keeps_comments_and_writes_no_defaults() {
    let ground = Ground::new("{\n  // mine\n  agents: { list: [{ id: 'a' /* first */ }] },\n}\n");
    ground.merge("{agents: {list: [{id: 'a', name: 'A'}, {id: 'b'}]}}").unwrap();
    let expected = format!(
        "{{\n  // mine\n  agents: {{ list: [{{ id: 'a', name: \"A\" /* first */ }}, {{\n        \"id\": \"b\"\n      }}] }},\n  {STAMPED},\n}}\n"
    );
    assert_eq!(ground.text(), expected);
    assert_eq!(fs::metadata(ground.path()).unwrap().mode() & 0o777, 0o600);
    let backup = ground.path().with_file_name("openclaw.json.bak");
    assert!(fs::read_to_string(backup).unwrap().contains("// mine"));
}

#[test]
fn a_change_of_what_others_have_changed_is_refused() {
    let ground = Ground::new("{}");
    let attempt = |base: Option<&str>| {
        write::<Infallible>(&ground.around(), Base::Seen(base), Timestamp::from_millis(0), |old| {
            Ok(old.shown.clone())
        })
    };
    assert!(matches!(attempt(None), Err(WriteError::Stale(SetRefusal::BaseMissing))));
    assert!(matches!(attempt(Some("0")), Err(WriteError::Stale(SetRefusal::Changed))));
    assert_eq!(ground.text(), "{}");
    let hash = view(&ground.around()).unwrap().hash;
    attempt(Some(hash.as_str())).unwrap();
}

#[test]
fn what_would_not_load_is_not_written() {
    let ground = Ground::new("{}");
    let refused = ground.merge("{agents: {defaults: {sandbox: {mode: 'sometimes'}}}}");
    let Err(WriteError::Invalid(findings)) = refused else { panic!("{refused:?}") };
    assert_eq!(findings[0].key, "agents.defaults.sandbox.mode");
    assert_eq!(ground.text(), "{}");
}

#[test]
fn a_value_of_another_file_cannot_be_removed_here() {
    let ground = Ground::new("{$include: './more.json'}");
    fs::write(ground.path().with_file_name("more.json"), "{tools: {deny: ['exec']}}").unwrap();
    let before = ground.text();
    // Adding here is fine, since this file comes last; `deny` would still hold what the other says.
    let refused = ground.merge("{tools: {deny: []}}");
    assert!(
        matches!(&refused, Err(WriteError::Elsewhere { key, .. }) if key == "tools.deny"),
        "{refused:?}"
    );
    assert_eq!(ground.text(), before);
}
