//! Cuts a command text into chained pipelines of words, or says why it will not.
//!
//! Default deny: quotes, escapes, `|`, `&&`, `||`, `;`, a comment on the last line and plain
//! here-documents are understood; everything else a shell gives a meaning to is [`NotAnalysable`].
//! Two things a shell would expand stay as they are typed, because the plan runs without a shell:
//! variables and globs are literal text. Words are cut at spaces and tabs only, and an empty word in
//! quotes is a word.

mod here_document;
mod pipeline;
mod refusal;
mod walk;

pub use refusal::{NotAnalysable, Syntax};

use pipeline::Pipeline;
use walk::{HashSign, Step, Walk};

/// Longer texts are refused before they are looked at.
const MAX_LENGTH: usize = 1 << 20;

/// How a pipeline is joined to the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ChainOperator {
    /// `&&`
    And,
    /// `||`
    Or,
    /// `;`
    Then,
}

impl ChainOperator {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::And => "&&",
            Self::Or => "||",
            Self::Then => ";",
        }
    }
}

/// A pipeline of words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Part {
    pub joined_by: Option<ChainOperator>,
    pub segments: Vec<Words>,
}

impl Part {
    fn has_here_document(&self) -> bool {
        self.segments.iter().any(|words| words.here_document.is_some())
    }
}

/// One segment's words.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Words {
    pub raw: String,
    pub argv: Vec<String>,
    pub here_document: Option<String>,
}

/// Cuts a text. Every word of the answer is what a shell that expands nothing would pass on.
pub(super) fn split(text: &str) -> Result<Vec<Part>, NotAnalysable> {
    if text.len() > MAX_LENGTH {
        return Err(NotAnalysable::TooLong);
    }
    // Without a chain, or with one that has a hole, the operators are refused by the pipeline.
    let (parts, comment) = chain(text).unwrap_or((vec![(None, text)], Comment::None));
    let mut doubt = (comment == Comment::HidesLines).then_some(NotAnalysable::LineAfterComment);
    let mut pipelines: Vec<Part> = Vec::with_capacity(parts.len());
    for (joined_by, part) in parts {
        // A body ends its line, and no operator may start the next.
        if pipelines.last().is_some_and(Part::has_here_document) {
            return Err(NotAnalysable::TextAfterHereDocument);
        }
        let mut pipeline = Pipeline::new(part);
        let segments = pipeline.read()?;
        doubt = doubt.or(pipeline.doubt);
        pipelines.push(Part { joined_by, segments });
    }
    // Looked for in the text as a whole, here-documents included: shells differ on what it joins.
    let mut bytes = text.bytes().zip(text.bytes().skip(1));
    if bytes.any(|(byte, next)| byte == b'\\' && matches!(next, b'\n' | b'\r')) {
        return Err(NotAnalysable::LineContinuation);
    }
    doubt.map_or(Ok(pipelines), Err)
}

/// What a comment does to the lines after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comment {
    None,
    HidesLines,
}

impl Comment {
    fn of(text: &str) -> Self {
        if text.contains(['\n', '\r']) { Self::HidesLines } else { Self::None }
    }
}

type ChainPart<'a> = (Option<ChainOperator>, &'a str);

/// Cuts at bare `&&`, `||` and `;`. `None` if there is none, or one with nothing beside it.
///
/// Here-documents are not known here: an operator in a body cuts it, and the pipeline that has the
/// start of the body then refuses it as unterminated.
fn chain(text: &str) -> Option<(Vec<ChainPart<'_>>, Comment)> {
    let mut parts = Vec::new();
    let mut joined_by = None;
    let mut start = 0;
    let mut end = text.len();
    let mut walk = Walk::new(text);
    while let Some((position, step)) = walk.step() {
        let Step::Bare(character) = step else { continue };
        if character == '#' && walk.hash_sign(position) == HashSign::Comment {
            end = position;
            break;
        }
        let (operator, length) = match (character, walk.rest().chars().next()) {
            ('&', Some('&')) => (ChainOperator::And, 2),
            ('|', Some('|')) => (ChainOperator::Or, 2),
            (';', _) => (ChainOperator::Then, 1),
            _ => continue,
        };
        walk.position = position + length;
        parts.push((joined_by, text.get(start..position).unwrap_or_default()));
        joined_by = Some(operator);
        start = walk.position;
    }
    if parts.is_empty() {
        return None;
    }
    // Line breaks after an operator, and at the end, mean nothing; the end of a here-document does.
    let last = text.get(start..end).unwrap_or_default();
    let last = if last.contains("<<") { last } else { last.trim_end_matches([' ', '\t', '\n']) };
    parts.push((joined_by, last));
    for (_, part) in parts.iter_mut().skip(1) {
        *part = part.trim_start_matches([' ', '\t', '\n']);
    }
    let has_hole = parts.iter().any(|(_, part)| part.trim().is_empty());
    let comment = Comment::of(text.get(end..).unwrap_or_default());
    (!has_hole).then_some((parts, comment))
}

#[cfg(test)]
mod tests;
