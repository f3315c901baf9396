//! `clawpen logs` without a number: what the gateway did, from its journal, or what its process printed.
//!
//! Lines come from clients in part, so all of them are made harmless before a terminal sees them.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clawpen_engine::config_store;
use clawpen_engine::gateway_process::{Place, read_from};
use serde_json::Value;

use super::CommandError;
use crate::args::lifecycle::JournalArgs;
use crate::exit::Outcome;
use crate::output::{Output, Reader, safe};

/// How often it is looked for more.
const LOOK: Duration = Duration::from_millis(200);
/// More than this of one file is not read at a time.
const MOST: u64 = 4 << 20;

/// Whether we wait for more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    Once,
    Follow,
}

#[derive(Clone, Copy)]
enum Shape {
    Raw,
    Journal,
}

pub(crate) fn run(
    args: &JournalArgs,
    reading: Reading,
    output: &Output,
) -> Result<Outcome, CommandError> {
    let locations = config_store::locations()?;
    let state_dir = Path::new(&locations.state_dir);
    let source =
        if args.output { printed(state_dir)? } else { Source::Days(state_dir.join("logs")) };
    let shape = if args.json || args.output { Shape::Raw } else { Shape::Journal };
    let mut tail = Tail::default();
    let mut lines = tail.last(&source, args.lines)?;
    if lines.is_empty() && reading == Reading::Once {
        output.note("nothing was written yet; `clawpen up` starts the gateway");
    }
    loop {
        if !lines.is_empty() {
            let text: String = lines.iter().map(|line| shown(line, shape) + "\n").collect();
            if output.stream(&text)? == Reader::Gone {
                return Ok(Outcome::Done);
            }
        }
        if reading == Reading::Once {
            return Ok(Outcome::Done);
        }
        std::thread::sleep(LOOK);
        lines = tail.more(&source)?;
    }
}

/// Where lines come from.
enum Source {
    /// One file a day; the names sort by time.
    Days(PathBuf),
    One(PathBuf),
}

fn printed(state_dir: &Path) -> Result<Source, CommandError> {
    let place = Place::find(state_dir)?;
    Ok(Source::One(
        place.map_or_else(|| state_dir.join("clawpen/gateway.log"), |place| place.log()),
    ))
}

impl Source {
    fn files(&self) -> Result<Vec<PathBuf>, CommandError> {
        let directory = match self {
            Self::One(path) => return Ok(vec![path.clone()]),
            Self::Days(directory) => directory,
        };
        let failed = |cause| CommandError::Read { path: safe(&directory.to_string_lossy()), cause };
        let entries = match std::fs::read_dir(directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed(error)),
        };
        let mut files = Vec::new();
        for entry in entries {
            let path = entry.map_err(failed)?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if name.strip_prefix("gateway-").and_then(|day| day.strip_suffix(".log")).is_some() {
                files.push(path);
            }
        }
        files.sort();
        Ok(files)
    }
}

/// How far we have read.
#[derive(Default)]
struct Tail {
    file: Option<PathBuf>,
    offset: u64,
    /// The begin of a line whose end is not there yet.
    rest: Vec<u8>,
}

impl Tail {
    /// The last lines, oldest first.
    fn last(&mut self, source: &Source, count: usize) -> Result<Vec<String>, CommandError> {
        let files = source.files()?;
        let mut lines: Vec<String> = Vec::new();
        for path in files.iter().rev() {
            let (from, bytes) = read(path, 0)?;
            let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            let whole = String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()).into_owned();
            // One that was cut begins within a line.
            let mut older: Vec<String> =
                whole.lines().skip(usize::from(from > 0)).map(str::to_owned).collect();
            if self.file.is_none() {
                self.file = Some(path.clone());
                self.offset = from + bytes.len() as u64;
                self.rest = bytes.get(end..).unwrap_or_default().to_vec();
            }
            older.append(&mut lines);
            lines = older;
            if lines.len() >= count {
                break;
            }
        }
        let surplus = lines.len().saturating_sub(count);
        Ok(lines.split_off(surplus))
    }

    /// What came since.
    fn more(&mut self, source: &Source) -> Result<Vec<String>, CommandError> {
        let newest = source.files()?.pop();
        let mut lines = match self.file.clone() {
            Some(path) => self.rest_of(&path)?,
            None => Vec::new(),
        };
        if newest != self.file {
            let Some(path) = newest else { return Ok(lines) };
            *self = Self { file: Some(path.clone()), ..Self::default() };
            lines.extend(self.rest_of(&path)?);
        }
        Ok(lines)
    }

    fn rest_of(&mut self, path: &Path) -> Result<Vec<String>, CommandError> {
        let (from, bytes) = read(path, self.offset)?;
        self.offset = from + bytes.len() as u64;
        self.rest.extend_from_slice(&bytes);
        let Some(end) = self.rest.iter().rposition(|byte| *byte == b'\n') else {
            return Ok(Vec::new());
        };
        let rest = self.rest.split_off(end + 1);
        let whole = std::mem::replace(&mut self.rest, rest);
        Ok(String::from_utf8_lossy(&whole).lines().map(str::to_owned).collect())
    }
}

/// A file from a place on; nothing if it is not there (yet).
fn read(path: &Path, start: u64) -> Result<(u64, Vec<u8>), CommandError> {
    match read_from(path, start, MOST) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok((start, Vec::new())),
        Err(cause) => Err(CommandError::Read { path: safe(&path.to_string_lossy()), cause }),
        Ok(found) => Ok(found),
    }
}

fn shown(line: &str, shape: Shape) -> String {
    match shape {
        Shape::Raw => safe(line),
        Shape::Journal => journal(line).unwrap_or_else(|| safe(line)),
    }
}

/// A line of the journal for a person.
fn journal(line: &str) -> Option<String> {
    let value = serde_json::from_str::<Value>(line).ok()?;
    let text = |key: &str| value.get(key)?.as_str().map(safe);
    let about = value.get("about")?.as_object()?.iter();
    let about = about.map(|(key, value)| match value.as_str() {
        Some(text) => format!("{}={}", safe(key), safe(text)),
        None => format!("{}={}", safe(key), safe(&value.to_string())),
    });
    let about: Vec<String> = about.collect();
    let line = format!(
        "{}  {:4}  {}  {}",
        text("time")?,
        text("level")?,
        text("message")?,
        about.join(" ")
    );
    Some(line.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tail_goes_across_days_and_waits_for_whole_lines() {
        let home = tempfile::tempdir().unwrap();
        let path = |day: &str| home.path().join(format!("gateway-{day}.log"));
        std::fs::write(path("2026-01-01"), "1\n2\n3\n").unwrap();
        std::fs::write(path("2026-01-02"), "4\n5").unwrap();
        std::fs::write(home.path().join("other.log"), "no\n").unwrap();
        let source = Source::Days(home.path().to_owned());
        let mut tail = Tail::default();
        assert_eq!(tail.last(&source, 2).unwrap(), ["3", "4"]);
        assert!(tail.more(&source).unwrap().is_empty());
        std::fs::write(path("2026-01-02"), "4\n5 and more\n6\n").unwrap();
        std::fs::write(path("2026-01-03"), "7\n").unwrap();
        assert_eq!(tail.more(&source).unwrap(), ["5 and more", "6", "7"]);
        assert!(tail.more(&source).unwrap().is_empty());
    }

    #[test]
    fn a_line_steers_no_terminal_and_what_is_no_journal_is_shown_as_it_is() {
        let line = r#"{"time":"t","level":"info","message":"login","about":{"client":"a\u001b[2J","n":1}}"#;
        assert_eq!(shown(line, Shape::Journal), "t  info  login  client=a\\u{1b}[2J n=1");
        assert_eq!(shown("x\u{1b}", Shape::Journal), "x\\u{1b}");
    }
}
