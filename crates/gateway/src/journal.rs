//! What the gateway did, one line of JSON each, in `logs/gateway-<day>.log` of the state directory.
//!
//! For people who look for a cause. Names, counts and reasons stand here; no token, no parameter and no
//! text of a command does. A line that cannot be written is lost: the journal stops nothing.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use clawpen_engine::approvals_file::now_ms;
use clawpen_rules::timestamp::Timestamp;
use serde_json::{Value, json};

const O_NOFOLLOW: i32 = 0o400_000;
/// A day's file beyond this grows no more: a client cannot fill the disk.
const MOST: u64 = 64 * 1024 * 1024;

/// How much somebody should care.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    Info,
    Warn,
}

impl Level {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warn => "warn",
        }
    }
}

#[derive(Debug)]
pub(crate) struct Journal {
    directory: PathBuf,
    open: Mutex<Option<(String, File)>>,
}

/// A part of the journal.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Tail {
    pub(crate) file: PathBuf,
    /// Where to go on.
    pub(crate) cursor: u64,
    pub(crate) size: u64,
    pub(crate) lines: Vec<String>,
    /// Something was left out.
    pub(crate) is_truncated: bool,
    /// The cursor did not fit; this starts anew.
    pub(crate) is_reset: bool,
}

/// How much of it is wanted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) cursor: Option<u64>,
    pub(crate) lines: usize,
    pub(crate) bytes: u64,
}

impl Journal {
    pub(crate) fn in_state(state_dir: &str) -> Self {
        Self { directory: Path::new(state_dir).join("logs"), open: Mutex::new(None) }
    }

    fn path(&self, day: &str) -> PathBuf {
        self.directory.join(format!("gateway-{day}.log"))
    }

    /// Writes a line. `what` is constant; what varies is in `about`.
    pub(crate) fn note(&self, level: Level, what: &str, about: &Value) {
        let time = Timestamp::from_millis(now_ms()).to_string();
        let line =
            json!({ "time": time, "level": level.as_str(), "message": what, "about": about });
        let day = time.get(..10).unwrap_or("unknown").to_owned();
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.as_ref().is_none_or(|(known, _)| *known != day) {
            *open = self.create(&day).ok().map(|file| (day, file));
        }
        if let Some((_, file)) = &mut *open
            && file.metadata().is_ok_and(|facts| facts.len() < MOST)
        {
            // Lost if the disk is full; nothing else is.
            let _ = file.write_all(format!("{line}\n").as_bytes());
        }
    }

    fn create(&self, day: &str) -> io::Result<File> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.directory)?;
        OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .custom_flags(O_NOFOLLOW)
            .open(self.path(day))
    }

    /// The end of today's file, or what came after a cursor.
    pub(crate) fn tail(&self, wanted: Wanted) -> io::Result<Tail> {
        let time = Timestamp::from_millis(now_ms()).to_string();
        let path = self.path(time.get(..10).unwrap_or("unknown"));
        let mut file = match OpenOptions::new().read(true).custom_flags(O_NOFOLLOW).open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Tail {
                    file: path,
                    cursor: 0,
                    size: 0,
                    lines: Vec::new(),
                    is_truncated: false,
                    is_reset: wanted.cursor.is_some_and(|cursor| cursor > 0),
                });
            }
            Err(error) => return Err(error),
        };
        let size = file.metadata()?.len();
        let follows = wanted.cursor.filter(|cursor| *cursor <= size);
        let oldest = size.saturating_sub(wanted.bytes);
        let start = follows.unwrap_or(oldest).max(oldest);
        file.seek(SeekFrom::Start(start))?;
        let mut bytes = Vec::new();
        file.take(size.saturating_sub(start)).read_to_end(&mut bytes)?;
        let text = String::from_utf8_lossy(&bytes);
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let is_cut = start > 0 && follows != Some(start);
        if is_cut && !lines.is_empty() {
            // The first one is the end of a line.
            lines.remove(0);
        }
        let surplus = lines.len().saturating_sub(wanted.lines);
        lines.drain(..surplus);
        Ok(Tail {
            file: path,
            cursor: size,
            size,
            lines,
            is_truncated: is_cut,
            is_reset: wanted.cursor.is_some() && follows.is_none(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_follows_the_journal_with_a_cursor() {
        let home = tempfile::tempdir().unwrap();
        let journal = Journal::in_state(home.path().to_str().unwrap());
        let all = |cursor| journal.tail(Wanted { cursor, lines: 10, bytes: 10_000 }).unwrap();
        assert_eq!(all(None).lines.len(), 0);
        journal.note(Level::Info, "one", &json!({ "client": "a" }));
        journal.note(Level::Warn, "two", &json!({}));
        let first = all(None);
        assert_eq!(first.lines.len(), 2);
        assert!(first.lines[0].contains("\"level\":\"info\",\"message\":\"one\""));
        assert_eq!((first.is_truncated, first.is_reset), (false, false));
        journal.note(Level::Info, "three", &json!({}));
        let next = all(Some(first.cursor));
        assert_eq!(next.lines.len(), 1);
        assert!(all(Some(next.size + 5)).is_reset);
        let few = journal.tail(Wanted { cursor: None, lines: 10, bytes: 90 }).unwrap();
        assert!(few.is_truncated && few.lines.len() < 3, "{few:?}");
    }
}
