//! What is said in a session, as the reference writes it: a JSON text a line, only ever added to.
//!
//! ```text
//! {"type":"session","version":3,"id":…,"timestamp":…,"cwd":…}          the first line
//! {"type":"message","id":…,"parentId":…,"timestamp":…,"message":{…}}   then messages, each with the one before it
//! {"type":"compaction",…,"summary":…,"firstKeptEntryId":…}             what stands for all before an entry
//! ```
//!
//! A line is written in one piece and put on disk. What a kill or a full disk left of a line is cut off before the next
//! one is written, so every line is whole for whoever reads. The place follows from the session's id, never from an entry.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use clawpen_rules::timestamp::Timestamp;
use serde_json::{Map, Value, json};

use crate::random;
use crate::session_entries::Sessions;
use crate::state_file::{self, StateFileError, failed};

/// A longer transcript is read from its end.
const MAX_BYTES: u64 = 64 * 1024 * 1024;
/// So far back a torn line is looked for.
const TAIL: u64 = 16 * 1024 * 1024;
const O_NOFOLLOW: i32 = 0o400_000;
const O_NONBLOCK: i32 = 0o4000;

/// One line.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    pub id: String,
    pub body: Body,
}

/// What a line says.
#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    Message(Map<String, Value>),
    Compaction {
        summary: String,
        first_kept: String,
    },
    /// A header, a change of model, something of somebody else's.
    Other,
}

/// The transcript of one session.
#[derive(Debug)]
pub struct Transcript {
    path: PathBuf,
    id: String,
    cwd: String,
}

impl Transcript {
    /// The transcript of a session; it is made when something is said. `None` if the id is no name for a file.
    pub fn of(sessions: &Sessions, session_id: &str, cwd: &str) -> Option<Self> {
        let path = sessions.transcript(session_id)?;
        Some(Self { path, id: session_id.to_owned(), cwd: cwd.to_owned() })
    }

    /// Makes the transcript with its head only, unless it is there.
    pub fn begin(&self, now: Timestamp) -> Result<(), StateFileError> {
        state_file::create(&self.path, &format!("{}\n", self.header(now))).map(|_| ())
    }

    fn header(&self, now: Timestamp) -> Value {
        json!({
            "type": "session",
            "version": 3,
            "id": self.id,
            "timestamp": now.to_string(),
            "cwd": self.cwd,
        })
    }

    /// Adds a message; gives its id.
    pub fn message(&self, message: &Value, now: Timestamp) -> Result<String, StateFileError> {
        self.append(json!({ "type": "message", "message": message }), now)
    }

    /// Adds what stands for everything before the entry `first_kept`.
    pub fn compaction(
        &self,
        summary: &str,
        (first_kept, tokens): (&str, u64),
        now: Timestamp,
    ) -> Result<String, StateFileError> {
        let line = json!({
            "type": "compaction",
            "summary": summary,
            "firstKeptEntryId": first_kept,
            "tokensBefore": tokens,
        });
        self.append(line, now)
    }

    fn append(&self, mut line: Value, now: Timestamp) -> Result<String, StateFileError> {
        let _lock = state_file::lock(&self.path)?;
        let file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .mode(0o600)
            .custom_flags(O_NOFOLLOW | O_NONBLOCK)
            .open(&self.path)
            .map_err(failed("open", &self.path))?;
        if !file.metadata().map_err(failed("look at", &self.path))?.is_file() {
            return Err(StateFileError::NotAFile { path: state_file::shown(&self.path) });
        }
        let parent = Self::mend(&file).map_err(failed("read", &self.path))?;
        let id = random::short_id().chars().take(8).collect::<String>();
        if let Some(object) = line.as_object_mut() {
            object.insert("id".to_owned(), json!(id));
            object
                .insert("parentId".to_owned(), parent.as_ref().map_or(Value::Null, |id| json!(id)));
            object.insert("timestamp".to_owned(), json!(now.to_string()));
        }
        let mut text = String::new();
        if file.metadata().map_err(failed("look at", &self.path))?.len() == 0 {
            text = format!("{}\n", self.header(now));
        }
        text.push_str(&line.to_string());
        text.push('\n');
        (&file).write_all(text.as_bytes()).map_err(failed("write", &self.path))?;
        file.sync_data().map_err(failed("sync", &self.path))?;
        Ok(id)
    }

    /// Cuts a torn last line off; gives the id of the last whole one.
    fn mend(file: &File) -> io::Result<Option<String>> {
        let length = file.metadata()?.len();
        let from = length.saturating_sub(TAIL);
        let mut file: &File = file;
        file.seek(SeekFrom::Start(from))?;
        let mut tail = Vec::new();
        file.take(TAIL).read_to_end(&mut tail)?;
        let whole = tail.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        if whole < tail.len() {
            file.set_len(from + whole as u64)?;
            tail.truncate(whole);
        }
        let mut lines = tail.split(|byte| *byte == b'\n').rev().filter(|line| !line.is_empty());
        let parsed = lines.find_map(|line| serde_json::from_slice::<Value>(line).ok());
        // The header's id is the session's, and no entry's.
        let parsed = parsed.filter(|line| line["type"] != "session");
        Ok(parsed.and_then(|line| line["id"].as_str().map(str::to_owned)))
    }

    /// The lines, oldest first. What is no JSON is passed over.
    pub fn lines(&self) -> Result<Vec<Line>, StateFileError> {
        let opened =
            OpenOptions::new().read(true).custom_flags(O_NOFOLLOW | O_NONBLOCK).open(&self.path);
        let mut file = match opened {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed("open", &self.path)(error)),
        };
        let facts = file.metadata().map_err(failed("look at", &self.path))?;
        if !facts.is_file() {
            return Err(StateFileError::NotAFile { path: state_file::shown(&self.path) });
        }
        let from = facts.len().saturating_sub(MAX_BYTES);
        file.seek(SeekFrom::Start(from)).map_err(failed("read", &self.path))?;
        let lines = BufReader::new(file.take(MAX_BYTES)).split(b'\n').map_while(Result::ok);
        Ok(lines.filter_map(|line| Line::parse(&line)).collect())
    }
}

impl Line {
    fn parse(line: &[u8]) -> Option<Self> {
        let Ok(Value::Object(mut line)) = serde_json::from_slice(line) else { return None };
        let text = |line: &Map<String, Value>, key: &str| {
            line.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let id = text(&line, "id");
        let body = match (text(&line, "type").as_str(), line.remove("message")) {
            ("message", Some(Value::Object(message))) => Body::Message(message),
            ("compaction", _) => Body::Compaction {
                summary: text(&line, "summary"),
                first_kept: text(&line, "firstKeptEntryId"),
            },
            _ => Body::Other,
        };
        Some(Self { id, body })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(home: &tempfile::TempDir) -> Transcript {
        let sessions = Sessions::at(home.path().join("sessions.json").to_str().unwrap());
        Transcript::of(&sessions, "s-1", "/workspace").unwrap()
    }

    #[test]
    fn each_message_names_the_one_before_it() {
        let home = tempfile::tempdir().unwrap();
        let transcript = open(&home);
        let now = Timestamp::from_millis(0);
        let first = transcript.message(&json!({ "role": "user" }), now).unwrap();
        let second = transcript.message(&json!({ "role": "assistant" }), now).unwrap();
        transcript.compaction("short", (&second, 10), now).unwrap();
        let text = std::fs::read_to_string(home.path().join("s-1.jsonl")).unwrap();
        let lines: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(
            lines[0],
            json!({ "type": "session", "version": 3, "id": "s-1", "timestamp": "1970-01-01T00:00:00.000Z", "cwd": "/workspace" })
        );
        assert_eq!(lines[1]["parentId"], Value::Null);
        assert_eq!(lines[1]["id"], json!(first));
        assert_eq!(lines[2]["parentId"], json!(first));
        assert_eq!(lines[3]["parentId"], json!(second));
        assert_eq!(first.len(), 8);
        let read = transcript.lines().unwrap();
        assert_eq!(read.len(), 4);
        assert_eq!(read[3].body, Body::Compaction { summary: "short".into(), first_kept: second });
    }

    #[test]
    fn what_is_left_of_a_torn_line_goes_before_the_next() {
        let home = tempfile::tempdir().unwrap();
        let transcript = open(&home);
        let now = Timestamp::from_millis(0);
        let first = transcript.message(&json!({ "role": "user" }), now).unwrap();
        let path = home.path().join("s-1.jsonl");
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"{\"type\":\"message\",\"id\":\"torn").unwrap();
        transcript.message(&json!({ "role": "assistant" }), now).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 3);
        assert_eq!(lines[2]["parentId"], json!(first));
    }

    #[test]
    fn a_link_in_its_place_is_refused() {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("victim"), "x").unwrap();
        std::os::unix::fs::symlink(home.path().join("victim"), home.path().join("s-1.jsonl"))
            .unwrap();
        let transcript = open(&home);
        assert!(transcript.message(&json!({}), Timestamp::from_millis(0)).is_err());
        assert!(transcript.lines().is_err());
        assert_eq!(std::fs::read_to_string(home.path().join("victim")).unwrap(), "x");
    }
}
