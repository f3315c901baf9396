//! From text to hunks.

use super::{
    Action, Anchor, Chunk, Hunk, LARGEST, MOST_FILES, Patch, PatchReason, PatchRefused, Step,
};

const BEGIN: &str = "*** Begin Patch";
const END: &str = "*** End Patch";
const ADD: &str = "*** Add File:";
const DELETE: &str = "*** Delete File:";
const UPDATE: &str = "*** Update File:";
const MOVE: &str = "*** Move to:";
const END_OF_FILE: &str = "*** End of File";
const MARK: &str = "***";
const CHUNK: &str = "@@";

/// Reads a patch.
pub fn parse(input: &str) -> Result<Patch, PatchRefused> {
    let refused = |line, reason| PatchRefused { line, hunk: None, path: None, reason };
    if input.len() > LARGEST {
        return Err(refused(1, PatchReason::TooLarge));
    }
    // Lines are counted as the caller sees them, blank ones at the start included.
    let skipped = input.len() - input.trim_start().len();
    let first = input.get(..skipped).map_or(0, |blank| blank.matches('\n').count()) + 1;
    let lines: Vec<&str> = input.trim().lines().collect();
    let (lines, first) = match without_here_document(&lines) {
        Some(inner) => (inner, first + 1),
        None => (lines.as_slice(), first),
    };
    let [begin, inner @ .., end] = lines else {
        let is_begun = lines.first().is_some_and(|line| line.trim() == BEGIN);
        return Err(refused(
            first,
            if is_begun { PatchReason::NoEnd } else { PatchReason::NoBegin },
        ));
    };
    if begin.trim() != BEGIN {
        return Err(refused(first, PatchReason::NoBegin));
    }
    if end.trim() != END {
        return Err(refused(first + lines.len() - 1, PatchReason::NoEnd));
    }
    let mut parser = Parser { lines: inner, at: 0, first: first + 1, hunk: 0, path: None };
    let mut hunks = Vec::new();
    while let Some(hunk) = parser.hunk()? {
        hunks.push(hunk);
    }
    if hunks.is_empty() {
        return Err(refused(first, PatchReason::NoHunks));
    }
    let patch = Patch { hunks };
    if patch.paths().len() > MOST_FILES {
        return Err(refused(first, PatchReason::TooManyFiles));
    }
    Ok(patch)
}

/// The lines between `<<EOF` and `EOF`, as a shell would be given the patch.
fn without_here_document<'a, 'b>(lines: &'a [&'b str]) -> Option<&'a [&'b str]> {
    let [first, inner @ .., last] = lines else { return None };
    let opens = matches!(first.trim(), "<<EOF" | "<<'EOF'" | "<<\"EOF\"");
    (opens && inner.len() >= 2 && last.trim() == "EOF").then_some(inner)
}

struct Parser<'a> {
    lines: &'a [&'a str],
    at: usize,
    /// The number of the first of `lines`.
    first: usize,
    hunk: usize,
    path: Option<String>,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.lines.get(self.at).copied()
    }

    fn line(&self) -> usize {
        self.first + self.at
    }

    fn refused(&self, line: usize, reason: PatchReason) -> PatchRefused {
        PatchRefused { line, hunk: Some(self.hunk), path: self.path.clone(), reason }
    }

    fn hunk(&mut self) -> Result<Option<Hunk>, PatchRefused> {
        while self.peek().is_some_and(|line| line.trim().is_empty()) {
            self.at += 1;
        }
        let Some(header) = self.peek() else { return Ok(None) };
        let line = self.line();
        self.hunk += 1;
        self.path = None;
        let header = header.trim();
        let (kind, path) = [ADD, DELETE, UPDATE]
            .into_iter()
            .find_map(|kind| Some((kind, header.strip_prefix(kind)?.trim())))
            .ok_or_else(|| {
                self.refused(line, PatchReason::UnknownHunk { found: header.to_owned() })
            })?;
        if path.is_empty() {
            return Err(self.refused(line, PatchReason::NoPath));
        }
        self.at += 1;
        self.path = Some(path.to_owned());
        let action = if kind == ADD {
            self.added()
        } else if kind == DELETE {
            Action::Delete
        } else {
            self.update(line)?
        };
        Ok(Some(Hunk { line, path: path.to_owned(), action }))
    }

    fn added(&mut self) -> Action {
        let mut lines = Vec::new();
        while let Some(text) = self.peek().and_then(|line| line.strip_prefix('+')) {
            lines.push(text.to_owned());
            self.at += 1;
        }
        Action::Add { lines }
    }

    fn update(&mut self, header: usize) -> Result<Action, PatchRefused> {
        let move_to = self.peek().and_then(|line| line.trim().strip_prefix(MOVE)).map(str::trim);
        if let Some(path) = move_to {
            if path.is_empty() {
                return Err(self.refused(self.line(), PatchReason::NoPath));
            }
            self.at += 1;
        }
        let mut chunks = Vec::new();
        while let Some(line) = self.peek() {
            if line.trim().is_empty() {
                self.at += 1;
            } else if line.starts_with(MARK) {
                break;
            } else {
                let is_first = chunks.is_empty();
                chunks.push(self.chunk(if is_first { Opening::Any } else { Opening::Marked })?);
            }
        }
        if chunks.is_empty() {
            return Err(self.refused(header, PatchReason::EmptyUpdate));
        }
        Ok(Action::Update { move_to: move_to.map(str::to_owned), chunks })
    }

    fn chunk(&mut self, opening: Opening) -> Result<Chunk, PatchRefused> {
        let line = self.line();
        let mark = self.peek().and_then(|text| match text.trim_end() {
            CHUNK => Some(None),
            marked => marked.strip_prefix("@@ ").map(|context| Some(context.to_owned())),
        });
        let context = match (mark, opening) {
            (Some(context), _) => {
                self.at += 1;
                context
            }
            (None, Opening::Any) => None,
            (None, Opening::Marked) => {
                let found = self.peek().unwrap_or_default().to_owned();
                return Err(self.refused(line, PatchReason::NoChunkMark { found }));
            }
        };
        let mut steps = Vec::new();
        let mut anchor = Anchor::Anywhere;
        while let Some(text) = self.peek() {
            if text.trim_end() == END_OF_FILE {
                if steps.is_empty() {
                    return Err(self.refused(self.line(), PatchReason::EmptyChunk));
                }
                anchor = Anchor::EndOfFile;
                self.at += 1;
                break;
            }
            let Some(step) = step(text) else { break };
            steps.push(step);
            self.at += 1;
        }
        if steps.is_empty() {
            return Err(match self.peek() {
                Some(found) if !found.starts_with(MARK) && !found.starts_with(CHUNK) => {
                    self.refused(self.line(), PatchReason::BadLine { found: found.to_owned() })
                }
                Some(_) | None => self.refused(line, PatchReason::EmptyChunk),
            });
        }
        Ok(Chunk { line, context, steps, anchor })
    }
}

/// How a chunk may start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Opening {
    /// Without a mark too: the first of its hunk.
    Any,
    Marked,
}

fn step(line: &str) -> Option<Step> {
    let mut characters = line.chars();
    let sign = characters.next();
    let text = || characters.as_str().to_owned();
    match sign {
        None => Some(Step::Keep(String::new())),
        Some(' ') => Some(Step::Keep(text())),
        Some('-') => Some(Step::Remove(text())),
        Some('+') => Some(Step::Insert(text())),
        Some(_) => None,
    }
}
