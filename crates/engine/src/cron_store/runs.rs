//! What came of the runs of planned jobs: `cron/runs/<job>.jsonl`, a line for each, the oldest dropped.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::is_plain_id;
use crate::state_file::{self, StateFileError, failed};

/// A log larger than this is cut to its last lines.
const MAX_LOG: u64 = 2_000_000;
const KEPT_LINES: usize = 2000;
/// What is read of each log when those of all jobs are asked for.
const TAIL: u64 = 256 * 1024;
/// What is read of them together.
const ALL_TAILS: u64 = 16 * 1024 * 1024;
/// More logs than this are not kept: the oldest go.
const MOST_LOGS: usize = 2000;
const O_NOFOLLOW: i32 = 0o400_000;
const O_NONBLOCK: i32 = 0o4000;

/// The logs of all jobs of a store.
#[derive(Debug, Clone)]
pub struct RunLog {
    directory: PathBuf,
}

impl RunLog {
    pub(super) const fn in_directory(directory: PathBuf) -> Self {
        Self { directory }
    }

    /// Where a job's log is; `None` for an id that is no plain name.
    fn path(&self, job: &str) -> Option<PathBuf> {
        is_plain_id(job).then(|| self.directory.join(format!("{job}.jsonl")))
    }

    /// Adds a line. A torn one before it, left by a process that was killed, does not swallow it.
    pub fn add(&self, job: &str, line: &Value) -> Result<(), StateFileError> {
        let Some(path) = self.path(job) else { return Ok(()) };
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.directory)
            .map_err(failed("create", &self.directory))?;
        if !path.exists() {
            self.make_room();
        }
        let mut file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .mode(0o600)
            .custom_flags(O_NOFOLLOW | O_NONBLOCK)
            .open(&path)
            .map_err(failed("open", &path))?;
        let facts = file.metadata().map_err(failed("look at", &path))?;
        if !facts.is_file() {
            return Err(StateFileError::NotAFile { path: state_file::shown(&path) });
        }
        let text = format!("{}{line}\n", if is_torn(&mut file) { "\n" } else { "" });
        file.write_all(text.as_bytes()).map_err(failed("write", &path))?;
        if facts.len() > MAX_LOG {
            let text = tail(&path, MAX_LOG)?;
            let lines: Vec<&str> = text.lines().collect();
            let from = lines.len().saturating_sub(KEPT_LINES);
            let kept = lines.get(from..).unwrap_or_default().join("\n");
            state_file::replace(&path, &(kept + "\n"))?;
        }
        Ok(())
    }

    /// The runs of one job, oldest first.
    pub fn of(&self, job: &str) -> Result<Vec<Value>, StateFileError> {
        let Some(path) = self.path(job) else { return Ok(Vec::new()) };
        Ok(parse(&tail(&path, MAX_LOG * 2)?))
    }

    /// The last runs of all jobs, job by job, as far as they fit: those of the jobs that ran last.
    pub fn of_all(&self) -> Result<Vec<Value>, StateFileError> {
        let mut logs = self.logs();
        logs.sort_by_key(|(_, changed)| std::cmp::Reverse(*changed));
        let (mut all, mut room) = (Vec::new(), ALL_TAILS);
        for (path, _) in logs {
            let text = tail(&path, TAIL.min(room))?;
            room = room.saturating_sub(text.len() as u64);
            all.extend(parse(&text));
            if room == 0 {
                break;
            }
        }
        Ok(all)
    }

    /// Every log with the time of its last change.
    fn logs(&self) -> Vec<(PathBuf, std::time::SystemTime)> {
        let Ok(entries) = fs::read_dir(&self.directory) else { return Vec::new() };
        let log = |entry: fs::DirEntry| {
            let path = entry.path();
            let is_log = path.extension().is_some_and(|extension| extension == "jsonl");
            let facts = entry.metadata().ok().filter(|facts| is_log && facts.is_file())?;
            Some((path, facts.modified().ok()?))
        };
        entries.flatten().filter_map(log).collect()
    }

    /// One-time jobs leave a log each; the oldest make room for new ones.
    fn make_room(&self) {
        let mut logs = self.logs();
        if logs.len() < MOST_LOGS {
            return;
        }
        logs.sort_by_key(|(_, changed)| *changed);
        let too_many = logs.len() + 1 - MOST_LOGS;
        for (path, _) in logs.into_iter().take(too_many) {
            // One that stays is untidy and harmless.
            let _ = fs::remove_file(path);
        }
    }
}

/// Says whether a file's last line has no end.
fn is_torn(file: &mut File) -> bool {
    let mut last = [0];
    let read = file.seek(SeekFrom::End(-1)).and_then(|_| file.read_exact(&mut last));
    read.is_ok() && last != *b"\n"
}

/// The end of a file; nothing if there is no file.
fn tail(path: &Path, most: u64) -> Result<String, StateFileError> {
    let opened = OpenOptions::new().read(true).custom_flags(O_NOFOLLOW | O_NONBLOCK).open(path);
    let mut file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(String::new()),
        Err(error) => return Err(failed("open", path)(error)),
    };
    let facts = file.metadata().map_err(failed("look at", path))?;
    if !facts.is_file() {
        return Err(StateFileError::NotAFile { path: state_file::shown(path) });
    }
    let from = facts.len().saturating_sub(most);
    let mut bytes = Vec::new();
    let read =
        file.seek(SeekFrom::Start(from)).and_then(|_| file.take(most).read_to_end(&mut bytes));
    read.map_err(failed("read", path))?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    // What is cut off in the middle is no line.
    let whole = if from == 0 { &text } else { text.split_once('\n').map_or("", |(_, rest)| rest) };
    Ok(whole.to_owned())
}

fn parse(text: &str) -> Vec<Value> {
    let lines = text.lines().filter_map(|line| serde_json::from_str(line).ok());
    lines.filter(|line: &Value| line.is_object()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn runs_are_kept_in_order_and_a_torn_line_costs_only_itself() {
        let home = tempfile::tempdir().unwrap();
        let log = RunLog::in_directory(home.path().join("runs"));
        assert_eq!(log.of("job").unwrap(), Vec::<Value>::new());
        log.add("job", &json!({ "ts": 1 })).unwrap();
        let path = home.path().join("runs/job.jsonl");
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"{\"ts\": 2, \"tor").unwrap();
        log.add("job", &json!({ "ts": 3 })).unwrap();
        log.add("other", &json!({ "ts": 4 })).unwrap();
        assert_eq!(log.of("job").unwrap(), [json!({ "ts": 1 }), json!({ "ts": 3 })]);
        assert_eq!(log.of_all().unwrap().len(), 3);
    }

    #[test]
    fn an_id_or_a_link_leads_nowhere_else() {
        let home = tempfile::tempdir().unwrap();
        let log = RunLog::in_directory(home.path().join("runs"));
        for id in ["../victim", "a/b", "..", "", "a\0b"] {
            log.add(id, &json!({ "ts": 1 })).unwrap();
            assert_eq!(log.of(id).unwrap(), Vec::<Value>::new(), "{id}");
        }
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
        fs::create_dir(home.path().join("runs")).unwrap();
        let victim = home.path().join("victim");
        fs::write(&victim, "{\"secret\": 1}\n").unwrap();
        std::os::unix::fs::symlink(&victim, home.path().join("runs/job.jsonl")).unwrap();
        assert!(log.add("job", &json!({ "ts": 1 })).is_err());
        assert!(log.of("job").is_err());
        assert_eq!(fs::read_to_string(&victim).unwrap(), "{\"secret\": 1}\n");
    }

    #[test]
    fn a_log_and_the_number_of_logs_stay_bounded() {
        let home = tempfile::tempdir().unwrap();
        let log = RunLog::in_directory(home.path().join("runs"));
        fs::create_dir(home.path().join("runs")).unwrap();
        let path = home.path().join("runs/job.jsonl");
        let line = format!("{}\n", json!({ "ts": 1, "summary": "x".repeat(400) }));
        fs::write(&path, line.repeat(6000)).unwrap();
        log.add("job", &json!({ "ts": 2 })).unwrap();
        let runs = log.of("job").unwrap();
        assert_eq!((runs.len(), &runs[KEPT_LINES - 1]), (KEPT_LINES, &json!({ "ts": 2 })));
        for n in 0..MOST_LOGS {
            fs::write(home.path().join(format!("runs/old-{n}.jsonl")), "").unwrap();
        }
        log.add("new", &json!({ "ts": 3 })).unwrap();
        assert_eq!(log.logs().len(), MOST_LOGS);
        assert_eq!(log.of("new").unwrap(), [json!({ "ts": 3 })]);
    }

    #[test]
    fn the_runs_of_all_jobs_are_no_more_than_fits() {
        let home = tempfile::tempdir().unwrap();
        let log = RunLog::in_directory(home.path().join("runs"));
        fs::create_dir(home.path().join("runs")).unwrap();
        let line = format!("{}\n", json!({ "ts": 1, "summary": "x".repeat(2000) }));
        let full = line.repeat(150);
        for n in 0..200 {
            fs::write(home.path().join(format!("runs/job-{n}.jsonl")), &full).unwrap();
        }
        log.add("new", &json!({ "ts": 2 })).unwrap();
        let all = log.of_all().unwrap();
        let bytes: usize = all.iter().map(|run| run.to_string().len()).sum();
        assert!(bytes <= 17 * 1024 * 1024, "{bytes}");
        assert!(all.contains(&json!({ "ts": 2 })), "the newest are shown");
    }
}
