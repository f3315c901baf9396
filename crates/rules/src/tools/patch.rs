//! What a patch does to files: its grammar here, what becomes of each file in [`decide`].
//!
//! ```text
//! patch := "*** Begin Patch" hunk+ "*** End Patch"
//! hunk  := "*** Add File: " path, { "+" text }
//!        | "*** Delete File: " path
//!        | "*** Update File: " path, [ "*** Move to: " path ], chunk+
//! chunk := [ "@@" | "@@ " context ], { " " text | "-" text | "+" text | empty }, [ "*** End of File" ]
//! ```
//!
//! Only the first chunk of an update may lack its `@@`. A here-document around the whole is tolerated.
//!
//! All or nothing: every hunk is worked out on the contents that were read before the first file is touched.

mod decide;
mod parse;

use std::collections::BTreeSet;
use std::fmt;

pub use decide::{Change, Plan, Snapshot, Summary, decide};
pub use parse::parse;

/// The longest patch.
pub const LARGEST: usize = 4 * 1024 * 1024;
/// Files that one patch may name.
pub const MOST_FILES: usize = 200;

/// A patch that follows the grammar. Made by [`parse`] only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patch {
    hunks: Vec<Hunk>,
}

impl Patch {
    pub fn hunks(&self) -> &[Hunk] {
        &self.hunks
    }

    /// Every path that is named, once, in order of the alphabet.
    pub fn paths(&self) -> BTreeSet<&str> {
        self.hunks.iter().flat_map(Hunk::paths).collect()
    }

    /// The refusal for something that was found at one of its paths.
    pub fn refused(&self, path: &str, reason: PatchReason) -> PatchRefused {
        let found = self.hunks.iter().position(|hunk| hunk.paths().any(|named| named == path));
        let line = found.and_then(|index| self.hunks.get(index)).map_or(1, |hunk| hunk.line);
        let hunk = found.map(|index| index + 1);
        PatchRefused { line, hunk, path: Some(path.to_owned()), reason }
    }
}

/// What is to be done to one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hunk {
    /// The line of the patch on which it starts, counted from 1.
    pub line: usize,
    pub path: String,
    pub action: Action,
}

impl Hunk {
    fn paths(&self) -> impl Iterator<Item = &str> {
        let moved = match &self.action {
            Action::Update { move_to, .. } => move_to.as_deref(),
            Action::Add { .. } | Action::Delete => None,
        };
        std::iter::once(self.path.as_str()).chain(moved)
    }
}

/// The three kinds of hunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Makes a file, in the place of an old one if there is one.
    Add {
        lines: Vec<String>,
    },
    Delete,
    Update {
        move_to: Option<String>,
        /// At least one.
        chunks: Vec<Chunk>,
    },
}

/// A run of lines to find and change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// The line of the patch on which it starts, counted from 1.
    pub line: usize,
    /// A line of the file to look for first.
    pub context: Option<String>,
    pub steps: Vec<Step>,
    pub anchor: Anchor,
}

/// One line of a chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    Keep(String),
    Remove(String),
    Insert(String),
}

impl Step {
    /// The line that the file must have; `None` if it comes new.
    pub fn old(&self) -> Option<&str> {
        match self {
            Self::Keep(text) | Self::Remove(text) => Some(text),
            Self::Insert(_) => None,
        }
    }
}

/// Where the lines of a chunk may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    Anywhere,
    EndOfFile,
}

/// The patch is not applied, none of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatchRefused {
    /// The line of the patch, counted from 1.
    pub line: usize,
    /// Which hunk, counted from 1, if it is one's fault.
    pub hunk: Option<usize>,
    /// The path of that hunk.
    pub path: Option<String>,
    pub reason: PatchReason,
}

/// Why not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PatchReason {
    TooLarge,
    TooManyFiles,
    NoBegin,
    NoEnd,
    NoHunks,
    UnknownHunk {
        found: String,
    },
    NoPath,
    EmptyUpdate,
    EmptyChunk,
    NoChunkMark {
        found: String,
    },
    BadLine {
        found: String,
    },
    Missing,
    IsThere,
    NoText(super::text::NoText),
    ContextNotFound {
        context: String,
    },
    LinesNotFound {
        lines: Vec<String>,
    },
    /// Finding the lines would take too long.
    TooMuchWork,
    Path(super::place::PathRefused),
    /// Two names in the patch mean one file.
    SameFile {
        other: String,
    },
}

impl fmt::Display for PatchRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the patch was not applied, no file was changed: ")?;
        if let Some(hunk) = self.hunk {
            write!(f, "hunk {hunk}, ")?;
        }
        if let Some(path) = &self.path {
            write!(f, "`{}`, ", path.escape_debug())?;
        }
        write!(f, "line {}: {}", self.line, self.reason)
    }
}

impl std::error::Error for PatchRefused {}

impl fmt::Display for PatchReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge => write!(f, "it is longer than {}", super::size(LARGEST as u64)),
            Self::TooManyFiles => {
                write!(f, "it names more than {MOST_FILES} files; make several patches of it")
            }
            Self::NoBegin => f.write_str("the first line must be `*** Begin Patch`"),
            Self::NoEnd => f.write_str("the last line must be `*** End Patch`"),
            Self::NoHunks => f.write_str(
                "it does nothing; say `*** Add File: `, `*** Delete File: ` or `*** Update File: `",
            ),
            Self::UnknownHunk { found } => write!(
                f,
                "`{}` starts no hunk; say `*** Add File: `, `*** Delete File: ` or `*** Update File: `",
                shown(found)
            ),
            Self::NoPath => f.write_str("the path is missing"),
            Self::EmptyUpdate => {
                f.write_str("the update changes nothing; add lines with ` `, `-` or `+`")
            }
            Self::EmptyChunk => f.write_str("no lines follow the `@@`"),
            Self::NoChunkMark { found } => {
                write!(f, "a further chunk must start with `@@`, not with `{}`", shown(found))
            }
            Self::BadLine { found } => write!(
                f,
                "`{}` is no line of a chunk; each starts with ` ` (kept), `-` (removed) or `+` (added)",
                shown(found)
            ),
            Self::Missing => f.write_str("there is no such file"),
            Self::IsThere => f.write_str("there is something else than a file"),
            Self::NoText(problem) => write!(f, "{problem}"),
            Self::ContextNotFound { context } => {
                write!(f, "the file has no line `{}` from there on", shown(context))
            }
            Self::LinesNotFound { lines } => {
                f.write_str("the file does not have these lines from there on; read it again:\n")?;
                f.write_str(&lines.join("\n"))
            }
            Self::TooMuchWork => f.write_str(
                "finding its lines takes too long; add an `@@` with a line that is there once",
            ),
            Self::Path(refused) => write!(f, "{refused}"),
            Self::SameFile { other } => {
                write!(f, "it is the same file as `{}`; use one name", other.escape_debug())
            }
        }
    }
}

/// The start of a text from the patch.
fn shown(text: &str) -> String {
    text.chars().take(200).flat_map(char::escape_debug).collect()
}

#[cfg(test)]
mod tests;
