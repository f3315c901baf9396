//! Planned jobs as the reference keeps them: `cron/jobs.json`, and what came of their runs in one log per job.
//!
//! Jobs keep every key that we do not know. A store that is broken or newer is an error and is never overwritten. Says
//! when a job is due by `rules::cron`; runs none.

mod runs;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clawpen_rules::cron::{Deletes, Refusal, Schedule, Zone};
use clawpen_rules::timestamp::Timestamp;
use serde_json::{Map, Value, json};

use crate::session_entries::ChangeError;
use crate::state_file::{self, StateFileError};

pub use crate::file_stamps::Stamp;
pub use runs::RunLog;

/// A larger store is refused.
const MAX_STORE: u64 = 16 * 1024 * 1024;
/// The only format there is.
const VERSION: u64 = 1;

/// A job, or the whole file.
type Object = Map<String, Value>;

/// The jobs of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CronStore {
    path: PathBuf,
}

/// One job: what the reference stores, unknown keys included.
#[derive(Debug, Clone, PartialEq)]
pub struct Job(pub Object);

impl Job {
    pub fn text(&self, key: &str) -> &str {
        self.0.get(key).and_then(Value::as_str).unwrap_or_default()
    }

    pub fn id(&self) -> &str {
        self.text("id")
    }

    pub fn is_enabled(&self) -> bool {
        self.0.get("enabled") != Some(&json!(false))
    }

    pub fn deletes(&self) -> Deletes {
        let deletes = self.0.get("deleteAfterRun") == Some(&json!(true));
        if deletes { Deletes::Yes } else { Deletes::No }
    }

    fn state_of(&self, key: &str) -> Option<u64> {
        self.0.get("state").and_then(|state| state[key].as_u64())
    }

    pub fn next_run(&self) -> Option<Timestamp> {
        self.state_of("nextRunAtMs").map(Timestamp::from_millis)
    }

    pub fn last_run(&self) -> Option<Timestamp> {
        self.state_of("lastRunAtMs").map(Timestamp::from_millis)
    }

    pub fn running_since(&self) -> Option<Timestamp> {
        self.state_of("runningAtMs").map(Timestamp::from_millis)
    }

    /// How often it has failed in a row.
    pub fn failures(&self) -> u64 {
        self.state_of("consecutiveErrors").unwrap_or_default()
    }

    /// Notes something about its runs, or that it is not so any more.
    pub fn note(&mut self, key: &str, value: Option<Value>) {
        let slot = self.0.entry("state").or_insert_with(|| json!({}));
        if !slot.is_object() {
            *slot = json!({});
        }
        if let Value::Object(state) = slot {
            match value {
                Some(value) => state.insert(key.to_owned(), value),
                None => state.shift_remove(key),
            };
        }
    }

    /// Sets when it runs next, or that it does not.
    pub fn plan(&mut self, next: Option<Timestamp>) {
        self.note("nextRunAtMs", next.map(|next| json!(next.as_millis())));
    }

    /// When it is due. `here` is the zone of a job that names none.
    pub fn schedule(&self, here: &Zone) -> Result<Schedule, Refusal> {
        schedule(self.0.get("schedule").unwrap_or(&Value::Null), here)
    }

    /// A name that may stand in a path and in a session's key.
    pub fn has_plain_id(&self) -> bool {
        is_plain_id(self.id())
    }
}

/// Says whether an id is a plain name: it becomes a file's name and a part of a session's key.
pub fn is_plain_id(id: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    !id.is_empty() && id.len() <= 128 && id.bytes().all(is_plain)
}

/// Reads a schedule as a job holds it.
pub fn schedule(value: &Value, here: &Zone) -> Result<Schedule, Refusal> {
    let text = |key: &str| value[key].as_str().unwrap_or_default();
    match text("kind") {
        "at" => Schedule::at(text("at")),
        "every" => {
            let anchor = value["anchorMs"].as_u64().unwrap_or_default();
            let every = value["everyMs"].as_u64().unwrap_or_default();
            Schedule::every(every, Timestamp::from_millis(anchor))
        }
        "cron" => {
            let zone = match text("tz").trim() {
                "" => here.clone(),
                name => Zone::named(name)
                    .ok_or_else(|| Refusal::Zone(name.chars().take(64).collect()))?,
            };
            Schedule::cron(text("expr"), zone, value["staggerMs"].as_u64().unwrap_or_default())
        }
        other => Err(Refusal::NoMoment(other.chars().take(64).collect())),
    }
}

/// The zone of this machine; UTC if nothing says which.
pub fn local_zone(variable: Option<&str>) -> Zone {
    let named = |text: &str| Zone::named(text.trim().trim_start_matches(':'));
    let by_link = || {
        let link = std::fs::read_link("/etc/localtime").ok()?;
        let text = link.to_str()?;
        named(text.split_once("/zoneinfo/")?.1)
    };
    variable.and_then(named).or_else(by_link).unwrap_or_else(Zone::utc)
}

impl CronStore {
    pub fn at(path: &str) -> Self {
        Self { path: PathBuf::from(path) }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What came of the runs.
    pub fn log(&self) -> RunLog {
        RunLog::in_directory(self.path.with_file_name("runs"))
    }

    /// Every job; none if there is no store.
    pub fn read(&self) -> Result<Vec<Job>, StateFileError> {
        self.split(state_file::read_object(&self.path, MAX_STORE)?).map(|(_, jobs)| jobs)
    }

    /// The file as it is now; `None` if there is none.
    pub fn stamp(&self) -> Option<Stamp> {
        Stamp::at(&self.path)
    }

    /// Changes the jobs under the store's lock. The reference reads it meanwhile and sees the old or the new.
    pub fn change<T, E>(
        &self,
        plan: impl FnOnce(&mut Vec<Job>) -> Result<T, E>,
    ) -> Result<T, ChangeError<E>> {
        let _lock = state_file::lock(&self.path)?;
        let (mut root, mut jobs) = self.split(state_file::read_object(&self.path, MAX_STORE)?)?;
        let before = jobs.clone();
        let answer = plan(&mut jobs).map_err(ChangeError::Asker)?;
        if jobs != before {
            let jobs: Vec<Value> = jobs.into_iter().map(|job| Value::Object(job.0)).collect();
            root.entry("version").or_insert(json!(VERSION));
            root.insert("jobs".to_owned(), Value::Array(jobs));
            let text = state_file::object_text(&root);
            if text.len() as u64 > MAX_STORE {
                let path = state_file::shown(&self.path);
                return Err(StateFileError::TooLarge { path, most: MAX_STORE }.into());
            }
            state_file::replace(&self.path, &text)?;
        }
        Ok(answer)
    }

    /// Keeps every other process from running these jobs, as long as the handle lives. `None` if one does.
    pub fn own(&self) -> Result<Option<std::fs::File>, StateFileError> {
        let place = self.path.with_file_name("scheduler");
        match state_file::lock_within(&place, Duration::ZERO) {
            Ok(lock) => Ok(Some(lock)),
            Err(StateFileError::Locked { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn split(&self, mut root: Object) -> Result<(Object, Vec<Job>), StateFileError> {
        let broken =
            |why: String| StateFileError::Broken { path: state_file::shown(&self.path), why };
        match root.get("version") {
            None => {}
            Some(version) if version.as_u64() == Some(VERSION) => {}
            Some(version) => {
                return Err(broken(format!("version {version} is not known to this build")));
            }
        }
        let jobs = match root.get_mut("jobs").map(Value::take) {
            None => Vec::new(),
            Some(Value::Array(jobs)) => jobs,
            Some(_) => return Err(broken("`jobs` is no list".to_owned())),
        };
        let job = |(index, job)| match job {
            Value::Object(job) if job.get("id").is_some_and(Value::is_string) => Ok(Job(job)),
            _ => Err(broken(format!("`jobs[{index}]` is no job with an id"))),
        };
        let jobs: Vec<Job> = jobs.into_iter().enumerate().map(job).collect::<Result<_, _>>()?;
        let mut ids = HashSet::new();
        if let Some(twice) = jobs.iter().find(|job| !ids.insert(job.id())) {
            let id: String = twice.id().chars().take(64).collect();
            return Err(broken(format!("two jobs have the id `{id}`")));
        }
        Ok((root, jobs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;
    use std::fs;

    fn store(text: Option<&str>) -> (tempfile::TempDir, CronStore) {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("cron/jobs.json");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        if let Some(text) = text {
            fs::write(&path, text).unwrap();
        }
        let store = CronStore::at(path.to_str().unwrap());
        (home, store)
    }

    #[test]
    fn a_change_keeps_what_it_does_not_know() {
        let text =
            r#"{"version":1,"jobs":[{"id":"a","new":{"x":1},"state":{"odd":true}}],"more":7}"#;
        let (_home, store) = store(Some(text));
        let changed = store.change(|jobs| {
            jobs[0].plan(Some(Timestamp::from_millis(5)));
            Ok::<_, Infallible>(())
        });
        changed.unwrap();
        let now: Value = serde_json::from_str(&fs::read_to_string(store.path()).unwrap()).unwrap();
        let job = json!({"id": "a", "new": {"x": 1}, "state": {"odd": true, "nextRunAtMs": 5}});
        assert_eq!(now, json!({"version": 1, "jobs": [job], "more": 7}));
    }

    #[test]
    fn a_store_that_is_broken_newer_or_huge_is_never_overwritten() {
        for text in [
            "{broken",
            "[]",
            r#"{"version":2,"jobs":[]}"#,
            r#"{"version":"1","jobs":[]}"#,
            r#"{"version":1,"jobs":{}}"#,
            r#"{"version":1,"jobs":[{"name":"no id"}]}"#,
            r#"{"version":1,"jobs":["x"]}"#,
            r#"{"version":1,"jobs":[{"id":"a"},{"id":"a"}]}"#,
        ] {
            let (_home, store) = store(Some(text));
            let changed = store.change(|jobs| {
                jobs.push(Job(Map::new()));
                Ok::<_, Infallible>(())
            });
            assert!(changed.is_err() && store.read().is_err(), "{text}");
            assert_eq!(fs::read_to_string(store.path()).unwrap(), text);
        }
        let (_home, store) = store(None);
        fs::File::create(store.path()).unwrap().set_len(MAX_STORE + 1).unwrap();
        assert!(matches!(store.read(), Err(StateFileError::TooLarge { .. })));
    }

    #[test]
    fn a_refused_change_and_one_that_grows_too_much_leave_the_file_alone() {
        let (_home, store) = store(None);
        assert!(store.change(|_| Err::<(), _>(std::fmt::Error)).is_err());
        assert_eq!(store.stamp(), None);
        let grown = store.change(|jobs| {
            let name = json!("x".repeat(17 * 1024 * 1024));
            let job = json!({ "id": "a", "name": name });
            jobs.push(Job(job.as_object().unwrap().clone()));
            Ok::<_, Infallible>(())
        });
        assert!(matches!(grown, Err(ChangeError::File(StateFileError::TooLarge { .. }))));
        assert_eq!(store.read().unwrap(), []);
    }

    #[test]
    fn one_process_at_a_time_runs_the_jobs_of_a_store() {
        let (_home, store) = store(None);
        let own = store.own().unwrap();
        assert!(own.is_some());
        assert!(store.own().unwrap().is_none());
        drop(own);
        assert!(store.own().unwrap().is_some());
    }

    #[test]
    fn ten_thousand_jobs_are_read_and_changed_in_time() {
        let (_home, store) = store(None);
        let begun = std::time::Instant::now();
        let job = |n: usize| json!({ "id": format!("job-{n}"), "name": "n", "schedule": { "kind": "every", "everyMs": 1000 } });
        let fill = store.change(|jobs| {
            jobs.extend((0..10_000).map(|n| Job(job(n).as_object().unwrap().clone())));
            Ok::<_, Infallible>(())
        });
        fill.unwrap();
        let now = Timestamp::from_millis(1_794_833_764_986);
        let planned = store.change(|jobs| {
            for job in jobs.iter_mut() {
                let next = job.schedule(&Zone::utc()).unwrap().next(job.id(), now, None);
                job.plan(next);
            }
            Ok::<_, Infallible>(jobs.len())
        });
        assert_eq!(planned.unwrap(), 10_000);
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    }

    #[test]
    fn a_plain_id_leads_nowhere_else() {
        for (id, expected) in [
            ("6e4cc848-70a5-47aa-83ea-673ad7962e1b", true),
            ("daily_1", true),
            ("", false),
            ("..", false),
            ("a/b", false),
            ("a\\b", false),
            ("a:run:b", false),
            ("a b", false),
            ("\u{e9}", false),
        ] {
            assert_eq!(is_plain_id(id), expected, "{id}");
        }
        assert!(!is_plain_id(&"a".repeat(129)));
    }
}
