//! What a model sees of a file: whole lines within limits, a note on how to go on, or an image.
//!
//! The file comes in pieces, in order, and nothing but the shown part is kept: a file of any size, or of one endless
//! line, costs the same memory.
//!
//! ```text
//! first bytes ─► image ───────────────────────────► kept whole, up to a cap
//!             └► text ─► before the offset ─► shown ─► only counted ─► enough
//!                         counted              until a limit is met
//! ```

use super::arguments::ReadCall;
use super::image::{self, Image};
use super::size;
use super::text::{self, NoText};

/// Lines of one page.
pub const PAGE_LINES: u64 = 2000;
/// Bytes of one page.
pub const PAGE_BYTES: usize = 50 * 1024;
/// Pages that one call joins when it names no limit.
pub const PAGES: u64 = 8;
/// Bytes that are looked at to count lines; of a longer file the count is a lower bound.
pub const COUNTED_BYTES: u64 = 64 * 1024 * 1024;
/// Bytes that are read through to find the first line that was asked for.
pub const SEARCHED_BYTES: u64 = 1024 * 1024 * 1024;

const LARGEST_BUDGET: u64 = 512 * 1024;

/// Bytes that one call without a limit may show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget(usize);

impl Budget {
    /// A fifth of the model's context at four bytes a token; one page if the context is unknown.
    pub fn for_context(tokens: Option<u64>) -> Self {
        let wanted = tokens.unwrap_or(0).saturating_mul(4) / 5;
        let bytes = wanted.clamp(PAGE_BYTES as u64, LARGEST_BUDGET);
        Self(usize::try_from(bytes).unwrap_or(PAGE_BYTES))
    }

    pub const fn bytes(self) -> usize {
        self.0
    }
}

impl Default for Budget {
    fn default() -> Self {
        Self::for_context(None)
    }
}

/// What was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    Text(Page),
    Image { kind: Image, bytes: Vec<u8> },
}

/// A part of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// As the file has it; bytes that are not UTF-8 are replaced.
    pub text: String,
    pub first_line: u64,
    pub lines: u64,
    pub total_lines: Total,
    /// Bytes of the whole file, as far as it was looked at: all of it if the lines are counted exactly.
    pub bytes: u64,
    pub stop: Stop,
    /// Whether something was replaced.
    pub is_lossy: bool,
}

/// How much there is in all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Total {
    Exactly(u64),
    AtLeast(u64),
}

/// Why the shown part ends where it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// The file ends there.
    End,
    /// The call asked for no more.
    Limit,
    /// A page is full.
    Lines,
    Bytes,
    /// All pages of one call are full.
    Pages,
    Budget(Budget),
    /// The first line alone is more than a page.
    LongLine {
        bytes: u64,
    },
}

impl Stop {
    /// What cut it short, by the reference's names.
    pub const fn truncated_by(self) -> Option<&'static str> {
        match self {
            Self::End | Self::Limit => None,
            Self::Lines | Self::Pages => Some("lines"),
            Self::Bytes | Self::Budget(_) | Self::LongLine { .. } => Some("bytes"),
        }
    }
}

/// There is nothing to show.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadRefused {
    #[error("offset {first_line} is past the end of the file, which has {lines} lines")]
    PastEnd { first_line: u64, lines: u64 },
    #[error(
        "line {first_line} is more than {} into the file; use a command to look at it",
        size(SEARCHED_BYTES)
    )]
    TooFar { first_line: u64 },
    #[error("{0}")]
    NoText(NoText),
    #[error("its name says {} and its contents do not; use a command to look at it", .claimed.mime_type())]
    NoImage { claimed: Image },
    #[error("the image has more than {}; make it smaller with a command", size(image::LARGEST))]
    ImageTooLarge,
}

/// Whether more of the file is of use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Appetite {
    More,
    Enough,
}

/// A read in progress.
#[derive(Debug)]
pub struct Scan {
    limit: Option<u64>,
    first_line: u64,
    budget: Budget,
    claimed: Option<Image>,
    /// The first bytes, until it is known what they are; all bytes of an image.
    start: Vec<u8>,
    kind: Kind,
    bytes: u64,
    /// Line ends met so far.
    line_ends: u64,
    /// The line in progress, as far as a page could hold it.
    line: Vec<u8>,
    line_bytes: u64,
    shown: Vec<u8>,
    shown_lines: u64,
    page_lines: u64,
    page_bytes: usize,
    pages: u64,
    stop: Option<Stop>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Unknown,
    Text,
    Image(Image),
}

impl Scan {
    pub fn new(call: &ReadCall, budget: Budget) -> Self {
        Self {
            limit: call.limit,
            first_line: call.first_line.max(1),
            budget,
            claimed: Image::of_name(&call.path),
            start: Vec::new(),
            kind: Kind::Unknown,
            bytes: 0,
            line_ends: 0,
            line: Vec::new(),
            line_bytes: 0,
            shown: Vec::new(),
            shown_lines: 0,
            page_lines: 0,
            page_bytes: 0,
            pages: 1,
            stop: None,
        }
    }

    /// Takes the next piece.
    pub fn feed(&mut self, piece: &[u8]) -> Appetite {
        self.bytes = self.bytes.saturating_add(piece.len() as u64);
        match self.kind {
            Kind::Unknown => {
                self.start.extend_from_slice(piece);
                if self.start.len() >= image::SNIFFED {
                    self.settle();
                }
            }
            Kind::Text => self.take(piece),
            Kind::Image(_) => self.start.extend_from_slice(piece),
        }
        let is_enough = match self.kind {
            Kind::Unknown => false,
            Kind::Text => {
                let is_settled = self.stop.is_some() || self.line.len() > PAGE_BYTES;
                self.bytes >= if is_settled { COUNTED_BYTES } else { SEARCHED_BYTES }
            }
            Kind::Image(_) => self.bytes > image::LARGEST,
        };
        if is_enough { Appetite::Enough } else { Appetite::More }
    }

    /// What there is to see, once the file has ended or there was enough. `ended` tells which.
    pub fn finish(mut self, ended: Ended) -> Result<Seen, ReadRefused> {
        if self.kind == Kind::Unknown {
            self.settle();
        }
        if let Kind::Image(kind) = self.kind {
            if self.bytes > image::LARGEST {
                return Err(ReadRefused::ImageTooLarge);
            }
            return Ok(Seen::Image { kind, bytes: self.start });
        }
        if let Some(claimed) = self.claimed {
            return Err(ReadRefused::NoImage { claimed });
        }
        text::check_text(&self.start, self.bytes).map_err(ReadRefused::NoText)?;
        if self.line_bytes > 0 {
            self.end_line(LineEnd::Missing);
        }
        let lines = self.line_ends + u64::from(self.line_bytes > 0);
        if self.first_line > lines.max(1) {
            let first_line = self.first_line;
            return Err(match ended {
                Ended::Yes => ReadRefused::PastEnd { first_line, lines },
                Ended::No => ReadRefused::TooFar { first_line },
            });
        }
        if self.shown.contains(&0) {
            return Err(ReadRefused::NoText(NoText::Binary { bytes: self.bytes }));
        }
        let total_lines = match ended {
            Ended::Yes => Total::Exactly(lines),
            Ended::No => Total::AtLeast(lines),
        };
        let (text, is_lossy) = match String::from_utf8(self.shown) {
            Ok(text) => (text, false),
            Err(error) => (String::from_utf8_lossy(error.as_bytes()).into_owned(), true),
        };
        Ok(Seen::Text(Page {
            text,
            first_line: self.first_line,
            lines: self.shown_lines,
            total_lines,
            bytes: self.bytes,
            stop: self.stop.unwrap_or(Stop::End),
            is_lossy,
        }))
    }

    /// Finds out what the first bytes are.
    fn settle(&mut self) {
        if let Some(kind) = Image::sniff(&self.start) {
            self.kind = Kind::Image(kind);
            return;
        }
        self.kind = Kind::Text;
        let start = std::mem::take(&mut self.start);
        self.take(&start);
    }

    fn take(&mut self, piece: &[u8]) {
        // Kept to tell text from other things.
        let missing = text::SNIFFED.saturating_sub(self.start.len()).min(piece.len());
        self.start.extend_from_slice(piece.get(..missing).unwrap_or_default());
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            let (body, has_end) = match part.split_last() {
                Some((b'\n', body)) => (body, true),
                Some(_) | None => (part, false),
            };
            self.line_bytes += body.len() as u64;
            if self.is_showing() {
                let room = (PAGE_BYTES + 1).saturating_sub(self.line.len()).min(body.len());
                self.line.extend_from_slice(body.get(..room).unwrap_or_default());
            }
            if has_end {
                self.end_line(LineEnd::There);
                self.line_ends += 1;
                self.line_bytes = 0;
            }
        }
    }

    fn is_showing(&self) -> bool {
        self.stop.is_none() && self.line_ends + 1 >= self.first_line
    }

    fn end_line(&mut self, end: LineEnd) {
        if !self.is_showing() {
            return;
        }
        let line = std::mem::take(&mut self.line);
        self.stop = self.refusal(&line);
        if self.stop.is_some() {
            return;
        }
        self.page_bytes += line.len() + usize::from(self.page_lines > 0);
        self.page_lines += 1;
        self.shown_lines += 1;
        self.shown.extend_from_slice(&line);
        if end == LineEnd::There {
            self.shown.push(b'\n');
        }
    }

    /// Why `line` is not shown any more; `None` if it is, on a new page if need be.
    fn refusal(&mut self, line: &[u8]) -> Option<Stop> {
        if self.limit.is_some_and(|limit| self.shown_lines >= limit) {
            return Some(Stop::Limit);
        }
        if line.len() > PAGE_BYTES {
            let is_first = self.shown_lines == 0;
            let long = Stop::LongLine { bytes: self.line_bytes };
            return Some(if is_first { long } else { Stop::Bytes });
        }
        let full = if self.page_lines >= PAGE_LINES {
            Some(Stop::Lines)
        } else if self.page_bytes + line.len() + usize::from(self.page_lines > 0) > PAGE_BYTES {
            Some(Stop::Bytes)
        } else {
            None
        };
        if self.limit.is_some() {
            return full;
        }
        if self.shown.len() + line.len() > self.budget.bytes() {
            return Some(Stop::Budget(self.budget));
        }
        full?;
        if self.pages >= PAGES {
            return Some(Stop::Pages);
        }
        self.pages += 1;
        self.page_lines = 0;
        self.page_bytes = 0;
        None
    }
}

/// Whether a file was read to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    Yes,
    No,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineEnd {
    There,
    Missing,
}

impl Page {
    /// The line that a next call would start with.
    pub const fn next_line(&self) -> u64 {
        self.first_line + self.lines
    }

    /// The text for the model, with a note if there is more. `path` is as the call gave it.
    pub fn render(&self, path: &str) -> String {
        let Some(note) = self.note(path) else { return self.text.clone() };
        if self.text.is_empty() {
            return note;
        }
        let text = self.text.strip_suffix('\n').unwrap_or(&self.text);
        format!("{text}\n\n{note}")
    }

    fn note(&self, path: &str) -> Option<String> {
        let next = self.next_line();
        let (total, more) = match self.total_lines {
            Total::Exactly(lines) => {
                (lines.to_string(), lines.saturating_sub(next - 1).to_string())
            }
            Total::AtLeast(lines) => (
                format!("more than {lines}"),
                format!("more than {}", lines.saturating_sub(next - 1)),
            ),
        };
        let page = |limit: String| {
            let (first, last) = (self.first_line, next - 1);
            format!(
                "[Lines {first}-{last} of {total} ({limit}). To go on, read with offset={next}.]"
            )
        };
        match self.stop {
            Stop::End => None,
            // What was asked for is there, and nothing is after it.
            Stop::Limit if self.total_lines == Total::Exactly(next - 1) => None,
            Stop::Limit => Some(format!("[{more} more lines. To go on, read with offset={next}.]")),
            Stop::Lines => Some(page(format!("a page has {PAGE_LINES} lines"))),
            Stop::Bytes => Some(page(format!("a page has {}", size(PAGE_BYTES as u64)))),
            Stop::Pages => Some(page(format!("one call shows {PAGES} pages"))),
            Stop::Budget(budget) => {
                Some(page(format!("one call shows {}", size(budget.bytes() as u64))))
            }
            Stop::LongLine { bytes } => Some(format!(
                "[Line {next} alone has {}, a page has {}. See a part of it with exec: \
                 sed -n '{next}p' {} | head -c {PAGE_BYTES}]",
                size(bytes),
                size(PAGE_BYTES as u64),
                quoted(path)
            )),
        }
    }
}

/// A word for a POSIX shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests;
