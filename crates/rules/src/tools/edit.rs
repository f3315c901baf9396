//! What a file holds after an edit, or why the edit cannot be meant.
//!
//! The old text is looked for as it is; if it is nowhere, with look-alike characters taken for the same. It must be
//! there once, and that is counted with look-alikes, so that nothing is changed that only looks like what was meant.
//! Every edit is matched against the file as it is. Whatever is not matched stays, byte for byte: the reference
//! rewrites the quotes and blanks of the whole file after such a match, and we do not.

use std::fmt;
use std::ops::Range;

use super::diff::{self, Change, Diff};
use super::text::{Document, Folded, NoText, Plain};

/// Characters of the file that an error shows.
const SHOWN: usize = 800;

/// One replacement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    pub old: String,
    pub new: String,
}

/// A file after its edits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edited {
    pub contents: Vec<u8>,
    /// Replacements made.
    pub replaced: usize,
    pub diff: Diff,
}

/// Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EditRefused {
    /// The edit that cannot be made, counted from 0, and of how many.
    pub which: Option<(usize, usize)>,
    pub reason: EditReason,
}

/// Why not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EditReason {
    NoText(NoText),
    EmptyOldText,
    NotFound {
        /// A part of the file as it is.
        excerpt: String,
    },
    Ambiguous {
        /// The lines on which the first two matches begin.
        lines: [u64; 2],
    },
    /// It would change what another edit changes too.
    Overlap {
        other: usize,
    },
    NoChange,
}

impl fmt::Display for EditRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((index, 2..)) = self.which {
            write!(f, "edits[{index}]: ")?;
        }
        match &self.reason {
            EditReason::NoText(problem) => write!(f, "{problem}"),
            EditReason::EmptyOldText => {
                f.write_str("`oldText` is empty; give the text to replace, or use `write`")
            }
            EditReason::NotFound { excerpt } => write!(
                f,
                "`oldText` is not in the file; read it again and copy the text exactly. The file has:\n{excerpt}"
            ),
            EditReason::Ambiguous { lines: [first, second] } => write!(
                f,
                "`oldText` is there more than once, on line {first} and again on line {second}; add lines around it \
                 until it is there once"
            ),
            EditReason::Overlap { other } => {
                write!(f, "it changes the same text as edits[{other}]; make one edit of the two")
            }
            EditReason::NoChange => f.write_str("the file already is what it would become"),
        }
    }
}

impl std::error::Error for EditRefused {}

/// A match: where, in the original text, and by which edit.
#[derive(Debug, Clone)]
struct Match {
    range: Range<usize>,
    edit: usize,
}

/// Works out what `contents` become.
pub fn decide(contents: &[u8], edits: &[Edit]) -> Result<Edited, EditRefused> {
    let of_file = |reason| EditRefused { which: None, reason };
    let document =
        Document::parse(contents).map_err(|problem| of_file(EditReason::NoText(problem)))?;
    let file = File::new(document.text);
    let mut matches = Vec::with_capacity(edits.len());
    for (index, edit) in edits.iter().enumerate() {
        let refused = |reason| EditRefused { which: Some((index, edits.len())), reason };
        let range = file.find(&edit.old).map_err(refused)?;
        matches.push(Match { range, edit: index });
    }
    matches.sort_by_key(|found| (found.range.start, found.range.end));
    if let Some([first, second]) = matches.windows(2).find_map(|pair| {
        <&[Match; 2]>::try_from(pair).ok().filter(|[a, b]| a.range.end > b.range.start)
    }) {
        let (other, index) = (first.edit.min(second.edit), first.edit.max(second.edit));
        return Err(EditRefused {
            which: Some((index, edits.len())),
            reason: EditReason::Overlap { other },
        });
    }
    let (text, changes) = replace(&document, &matches, edits);
    if text == document.text {
        return Err(of_file(EditReason::NoChange));
    }
    let diff = diff::render(document.text, &text, &changes);
    Ok(Edited { contents: document.with_text(&text), replaced: matches.len(), diff })
}

/// The text with every match replaced. New lines end as the file's first one does.
fn replace(document: &Document<'_>, matches: &[Match], edits: &[Edit]) -> (String, Vec<Change>) {
    let newline = document.newline();
    let mut text = String::with_capacity(document.text.len());
    let mut changes = Vec::with_capacity(matches.len());
    let mut at = 0;
    for Match { range, edit } in matches {
        text.push_str(document.text.get(at..range.start).unwrap_or_default());
        let start = text.len();
        if let Some(edit) = edits.get(*edit) {
            text.push_str(&newline.write(&Plain::new(&edit.new).text));
        }
        changes.push(Change { old: range.clone(), new: start..text.len() });
        at = range.end;
    }
    text.push_str(document.text.get(at..).unwrap_or_default());
    (text, changes)
}

/// A file's text in the three forms that are searched.
struct File {
    plain: Plain,
    folded: Folded,
}

impl File {
    fn new(text: &str) -> Self {
        let plain = Plain::new(text);
        let folded = Folded::new(&plain.text);
        Self { plain, folded }
    }

    /// Where, in the original text, the one match of `old` is.
    fn find(&self, old: &str) -> Result<Range<usize>, EditReason> {
        // A model that saw the mark at the start of the file may give it back.
        let old = Plain::new(old.strip_prefix('\u{feff}').unwrap_or(old)).text;
        if old.is_empty() {
            return Err(EditReason::EmptyOldText);
        }
        let exact = first_two(&self.plain.text, &old);
        let alike = Folded::new(&old).text;
        // Blanks alone fold to nothing, which is everywhere.
        let folded =
            if alike.is_empty() { [None, None] } else { first_two(&self.folded.text, &alike) };
        let lines = |text: &str, first, second| EditReason::Ambiguous {
            lines: [line_of(text, first), line_of(text, second)],
        };
        match (exact, folded) {
            ([Some(first), Some(second)], _) => Err(lines(&self.plain.text, first, second)),
            (_, [Some(first), Some(second)]) => Err(lines(&self.folded.text, first, second)),
            ([Some(at), None], _) => Ok(self.original(at, at + old.len())),
            (_, [Some(at), None]) => {
                let (from, to) =
                    self.folded.source(at, at + alike.len()).ok_or_else(|| self.not_found(&old))?;
                Ok(self.original(from, to))
            }
            ([None, _], [None, _]) => Err(self.not_found(&old)),
        }
    }

    fn original(&self, from: usize, to: usize) -> Range<usize> {
        self.plain.original(from)..self.plain.original(to)
    }

    /// Shows the file from where one line of the old text is, or from its start.
    fn not_found(&self, old: &str) -> EditReason {
        let text = &self.plain.text;
        let known = old
            .lines()
            .map(str::trim)
            .filter(|line| line.len() > 2)
            .find_map(|line| text.find(line));
        let at = known.map_or(0, |at| {
            text.get(..at).and_then(|before| before.rfind('\n')).map_or(0, |end| end + 1)
        });
        let shown: String = text.get(at..).unwrap_or_default().chars().take(SHOWN).collect();
        EditReason::NotFound { excerpt: shown }
    }
}

/// The places of the first two matches, which may overlap: either could be meant.
fn first_two(text: &str, part: &str) -> [Option<usize>; 2] {
    let Some(first) = text.find(part) else { return [None, None] };
    let step = part.chars().next().map_or(1, char::len_utf8);
    let after = first + step;
    let second = text.get(after..).and_then(|rest| rest.find(part)).map(|at| after + at);
    [Some(first), second]
}

fn line_of(text: &str, at: usize) -> u64 {
    text.get(..at).map_or(1, |before| before.matches('\n').count() as u64 + 1)
}

#[cfg(test)]
mod tests;
