//! Looks at each file of the walk, or only at its name.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{
    BinaryDetection, MmapChoice, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch,
};

use crate::options::{Case, Options, Syntax};
use crate::pattern::Glob;
use crate::records::{End, Records, Role};
use crate::walk::{self, Walk};

/// After this long what was found is enough. The engine gives some seconds more before it kills.
const PATIENCE: Duration = Duration::from_secs(20);
/// Memory for a pattern, and for the longest line.
const PATTERN_BYTES: usize = 8 * 1024 * 1024;
const LINE_BYTES: usize = 16 * 1024 * 1024;

/// Searches the contents of files.
pub(crate) fn grep(
    options: &Options,
    started: Instant,
    records: &mut Records<impl Write>,
) -> Result<End, String> {
    let matcher = matcher(options)?;
    let glob = options.glob.as_deref().map(Glob::new).transpose()?;
    let mut searcher = SearcherBuilder::new()
        .binary_detection(BinaryDetection::quit(0))
        .memory_map(MmapChoice::never())
        .heap_limit(Some(LINE_BYTES))
        .before_context(options.context)
        .after_context(options.context)
        .build();
    let mut left = options.limit;
    let mut walk = Walk::new(&options.root, started + PATIENCE)?;
    for entry in walk.by_ref() {
        let path = below(&options.root, &entry.path);
        if !entry.is_file() || glob.as_ref().is_some_and(|glob| !glob.matches(&path)) {
            continue;
        }
        // The root is what was asked for, also by a link to it.
        let is_root = entry.path == options.root;
        let place = is_root.then(|| options.root.canonicalize().ok()).flatten();
        let Some(file) = walk::open_file(place.as_deref().unwrap_or(&entry.path)) else { continue };
        let file = Timed { file, until: started + PATIENCE };
        let mut lines = Lines { records: &mut *records, path: &path, left, over: None, started };
        // A file that cannot be read, or has a line beyond all measure, is passed over like a binary one.
        let _ = searcher.search_reader(&matcher, file, &mut lines);
        left = lines.left;
        match lines.over {
            None => {}
            Some(Over::Limit) => return Ok(End::Limit),
            Some(Over::Time) => return Ok(End::Time),
            Some(Over::Reader) => return Err("the answer is not read".to_owned()),
        }
    }
    Ok(if walk.is_late() { End::Time } else { End::All })
}

/// Finds files and directories by name.
pub(crate) fn find(
    options: &Options,
    started: Instant,
    records: &mut Records<impl Write>,
) -> Result<End, String> {
    let glob = Glob::new(&options.pattern)?;
    let mut left = options.limit;
    let mut walk = Walk::new(&options.root, started + PATIENCE)?;
    for entry in walk.by_ref() {
        let path = below(&options.root, &entry.path);
        if entry.path == options.root || !glob.matches(&path) {
            continue;
        }
        if left == 0 {
            return Ok(End::Limit);
        }
        left -= 1;
        let mark = if entry.is_directory() { "/" } else { "" };
        records.file(&path, mark).map_err(|_closed| "the answer is not read".to_owned())?;
    }
    Ok(if walk.is_late() { End::Time } else { End::All })
}

fn matcher(options: &Options) -> Result<RegexMatcher, String> {
    RegexMatcherBuilder::new()
        .case_insensitive(options.case == Case::Ignored)
        .fixed_strings(options.syntax == Syntax::Literal)
        .line_terminator(Some(b'\n'))
        .size_limit(PATTERN_BYTES)
        .dfa_size_limit(PATTERN_BYTES)
        .build(&options.pattern)
        .map_err(|error| format!("the pattern cannot be used: {}", last_line(&error.to_string())))
}

/// The path below the root; the root's own name if it is a file itself.
fn below(root: &Path, path: &Path) -> PathBuf {
    match path.strip_prefix(root) {
        Ok(below) if below.as_os_str().is_empty() => {
            path.file_name().map_or_else(PathBuf::new, PathBuf::from)
        }
        Ok(below) => below.to_owned(),
        Err(_) => path.to_owned(),
    }
}

/// A file that ends when the time is over, however long it is.
struct Timed {
    file: File,
    until: Instant,
}

impl io::Read for Timed {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        if Instant::now() > self.until {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.file.read(room)
    }
}

/// Why a search stops within a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Over {
    Limit,
    Time,
    Reader,
}

/// The lines of one file that match.
struct Lines<'a, W> {
    records: &'a mut Records<W>,
    path: &'a Path,
    left: usize,
    over: Option<Over>,
    started: Instant,
}

impl<W: Write> Lines<'_, W> {
    fn line(&mut self, role: Role, number: Option<u64>, text: &[u8]) -> bool {
        let text = text.strip_suffix(b"\n").unwrap_or(text);
        if self.records.line(role, self.path, number.unwrap_or(0), text).is_err() {
            self.over = Some(Over::Reader);
        } else if self.started.elapsed() > PATIENCE {
            self.over = Some(Over::Time);
        }
        self.over.is_none()
    }
}

impl<W: Write> Sink for Lines<'_, W> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        if self.left == 0 {
            self.over = Some(Over::Limit);
            return Ok(false);
        }
        self.left -= 1;
        Ok(self.line(Role::Match, found.line_number(), found.bytes()))
    }

    fn context(&mut self, _: &Searcher, found: &SinkContext<'_>) -> io::Result<bool> {
        Ok(self.line(Role::Around, found.line_number(), found.bytes()))
    }
}

/// The line that says what is wrong: before it a parser repeats the pattern and points into it.
fn last_line(text: &str) -> &str {
    let last = text.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or(text);
    last.strip_prefix("error: ").unwrap_or(last)
}
