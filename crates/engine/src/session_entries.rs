//! The session store as the reference writes it: one file per agent, one entry per session.
//!
//! Entries keep every key that we do not know. A store that is broken is an error and is never
//! overwritten. Transcripts are read here too, a line at a time; a line that is no JSON is passed over.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use clawpen_rules::timestamp::Timestamp;
use serde_json::{Map, Value, json};

use crate::state_file::{self, StateFileError, failed};

/// A larger store is refused.
const MAX_STORE: u64 = 64 * 1024 * 1024;
/// More of a transcript than this is not read; the end counts.
const MAX_TRANSCRIPT: u64 = 64 * 1024 * 1024;
const O_NOFOLLOW: i32 = 0o400_000;
const O_NONBLOCK: i32 = 0o4000;

/// One session's entry: what the reference stores, unknown keys included.
pub type Entry = Map<String, Value>;

/// The sessions of one agent.
#[derive(Debug, Clone)]
pub struct Sessions {
    path: PathBuf,
}

/// What became of a transcript that was to be shortened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Compacted {
    NoTranscript,
    ShortEnough { kept: usize },
    Cut { whole: PathBuf, kept: usize },
}

/// A change that was not made.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError<E> {
    #[error(transparent)]
    File(#[from] StateFileError),
    #[error(transparent)]
    Asker(E),
}

impl Sessions {
    pub fn at(path: &str) -> Self {
        Self { path: PathBuf::from(path) }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Every entry by its key; none if there is no store.
    pub fn read(&self) -> Result<BTreeMap<String, Entry>, StateFileError> {
        Ok(split(state_file::read_object(&self.path, MAX_STORE)?))
    }

    /// Changes the store under its lock. The reference reads it meanwhile and sees the old or the new.
    pub fn change<T, E>(
        &self,
        plan: impl FnOnce(&mut Map<String, Value>) -> Result<T, E>,
    ) -> Result<T, ChangeError<E>> {
        let _lock = state_file::lock(&self.path)?;
        let mut store = state_file::read_object(&self.path, MAX_STORE)?;
        let before = store.clone();
        let answer = plan(&mut store).map_err(ChangeError::Asker)?;
        if store != before {
            state_file::replace(&self.path, &state_file::object_text(&store))?;
        }
        Ok(answer)
    }

    /// Where a session's transcript is: beside the store, under the session's id. What an entry says
    /// about the place is not believed, because entries come from files that others write.
    pub fn transcript(&self, session_id: &str) -> Option<PathBuf> {
        let is_plain = !session_id.is_empty()
            && session_id.len() <= 128
            && session_id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
        is_plain.then(|| self.path.with_file_name(format!("{session_id}.jsonl")))
    }

    /// The messages of a session, oldest first, each with its id.
    pub fn messages(&self, session_id: &str) -> Result<Vec<Message>, StateFileError> {
        let Some(path) = self.transcript(session_id) else { return Ok(Vec::new()) };
        let opened =
            OpenOptions::new().read(true).custom_flags(O_NOFOLLOW | O_NONBLOCK).open(&path);
        let file = match opened {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed("open", &path)(error)),
        };
        if !file.metadata().map_err(failed("look at", &path))?.is_file() {
            return Err(StateFileError::NotAFile { path: path.to_string_lossy().into_owned() });
        }
        let lines = BufReader::new(file.take(MAX_TRANSCRIPT)).lines();
        Ok(lines.map_while(Result::ok).filter_map(|line| Message::parse(&line)).collect())
    }

    /// Leaves the head of a transcript and its last lines; the whole is kept beside it.
    pub fn compact(
        &self,
        session_id: &str,
        keep: usize,
        now: Timestamp,
    ) -> Result<Compacted, StateFileError> {
        let Some(path) = self.transcript(session_id) else { return Ok(Compacted::NoTranscript) };
        let _lock = state_file::lock(&self.path)?;
        let Some(text) = state_file::read(&path, MAX_TRANSCRIPT)? else {
            return Ok(Compacted::NoTranscript);
        };
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        if lines.len() <= keep.max(1) {
            return Ok(Compacted::ShortEnough { kept: lines.len() });
        }
        let aside = format!("{}.bak.{}", path.display(), now.to_string().replace(':', "-"));
        let aside = PathBuf::from(aside);
        state_file::replace(&aside, &text)?;
        let is_head = |line: &&&str| line.contains("\"type\":\"session\"");
        let head: Vec<&str> = lines.first().filter(is_head).copied().into_iter().collect();
        let rest = lines.len().saturating_sub(keep.max(1)).max(head.len());
        let kept: Vec<&str> = head.into_iter().chain(lines.into_iter().skip(rest)).collect();
        state_file::replace(&path, &(kept.join("\n") + "\n"))?;
        Ok(Compacted::Cut { whole: aside, kept: kept.len() })
    }

    /// Puts a transcript aside under a name that says why and when. One that is not there is no error.
    pub fn archive(
        &self,
        session_id: &str,
        why: &str,
        now: Timestamp,
    ) -> Result<Option<PathBuf>, StateFileError> {
        let Some(path) = self.transcript(session_id) else { return Ok(None) };
        let aside = format!("{}.{why}.{}", path.display(), now.to_string().replace(':', "-"));
        let aside = PathBuf::from(aside);
        match fs::rename(&path, &aside) {
            Ok(()) => Ok(Some(aside)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed("archive", &path)(error)),
        }
    }
}

fn split(store: Map<String, Value>) -> BTreeMap<String, Entry> {
    let entries = store.into_iter().filter_map(|(key, value)| match value {
        Value::Object(entry) => Some((key, entry)),
        _ => None,
    });
    entries.collect()
}

/// A message of a transcript.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    pub id: String,
    pub body: Map<String, Value>,
    /// When its line was written, in milliseconds; `None` if the line does not say.
    pub written: Option<u64>,
    pub kind: MessageKind,
}

/// What a line of a transcript stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MessageKind {
    /// Somebody said it.
    #[default]
    Said,
    /// What came before was put together; shown as a note of the system.
    Compaction,
}

impl Message {
    fn parse(line: &str) -> Option<Self> {
        let Ok(Value::Object(mut line)) = serde_json::from_str(line) else { return None };
        let id = line.get("id").and_then(Value::as_str).unwrap_or_default().to_owned();
        let written = line.get("timestamp").and_then(Value::as_str).and_then(Timestamp::parse);
        let written = written.map(Timestamp::as_millis);
        match line.get("type").and_then(Value::as_str) {
            Some("message") => match line.remove("message") {
                Some(Value::Object(body)) => {
                    Some(Self { id, body, written, kind: MessageKind::Said })
                }
                _ => None,
            },
            Some("compaction") => {
                let note = json!({
                    "role": "system",
                    "content": [{ "type": "text", "text": "Compaction" }],
                    "timestamp": written,
                });
                let body = note.as_object().cloned().unwrap_or_default();
                Some(Self { id, body, written, kind: MessageKind::Compaction })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    #[test]
    fn a_change_keeps_what_it_does_not_know() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("sessions.json");
        fs::write(&path, r#"{"a":{"sessionId":"1","new":{"x":1}},"odd":7}"#).unwrap();
        let sessions = Sessions::at(path.to_str().unwrap());
        let changed = sessions.change(|store| {
            store["a"]["label"] = json!("side");
            Ok::<_, Infallible>(())
        });
        changed.unwrap();
        let now: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        assert_eq!(
            now,
            json!({"a": {"sessionId": "1", "new": {"x": 1}, "label": "side"}, "odd": 7})
        );
        assert_eq!(sessions.read().unwrap().keys().collect::<Vec<_>>(), ["a"]);
    }

    #[test]
    fn a_broken_store_is_never_overwritten() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("sessions.json");
        fs::write(&path, "{broken").unwrap();
        let sessions = Sessions::at(path.to_str().unwrap());
        assert!(sessions.change(|_| Ok::<_, Infallible>(())).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "{broken");
    }

    #[test]
    fn a_transcript_is_beside_its_store_whatever_the_id_says() {
        let home = tempfile::tempdir().unwrap();
        let sessions = Sessions::at(home.path().join("sessions.json").to_str().unwrap());
        assert_eq!(sessions.transcript("../../etc/passwd"), None);
        assert_eq!(sessions.transcript(""), None);
        fs::write(
            sessions.transcript("a-1").unwrap(),
            "{\"type\":\"session\"}\nnot json\n{\"type\":\"message\",\"id\":\"m\",\"message\":{\"role\":\"user\"}}\n",
        )
        .unwrap();
        let messages = sessions.messages("a-1").unwrap();
        assert_eq!(messages.len(), 1);
        assert_eq!(messages[0].body["role"], "user");
        let aside = sessions.archive("a-1", "reset", Timestamp::from_millis(0)).unwrap().unwrap();
        assert!(aside.to_string_lossy().ends_with("a-1.jsonl.reset.1970-01-01T00-00-00.000Z"));
        assert_eq!(sessions.messages("a-1").unwrap(), []);
    }
}
