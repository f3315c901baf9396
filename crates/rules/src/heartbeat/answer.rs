//! What an answer to a heartbeat means, and whether the file behind it asks for anything.

use super::ACK;

/// What a model's answer means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Meaning {
    /// It said nothing.
    Empty,
    /// Nothing needs attention. What little it said beside that is for nobody.
    Ack,
    /// It has something to say; the word for "nothing" is taken off its ends.
    News(String),
}

/// A model that says this says nothing to people.
const SILENCE: &str = "NO_REPLY";
/// Signs that models put around a word.
const MARKUP: &[char] = &['*', '`', '~', '"', '\'', '.', '!'];

/// Decides what an answer means: [`ACK`] at its start or end, with at most so many characters beside it, says that nothing
/// needs attention. In the middle of a sentence it is a word like any other.
#[must_use]
pub fn decide_answer(text: &str, ack_characters: usize) -> Meaning {
    let whole = text.trim();
    if whole.is_empty() || whole == SILENCE {
        return Meaning::Empty;
    }
    let mut rest = whole;
    let mut is_ack = false;
    while let Some(shorter) = without_start(rest).or_else(|| without_end(rest)) {
        rest = shorter;
        is_ack = true;
    }
    if !is_ack {
        return Meaning::News(whole.to_owned());
    }
    if rest.chars().count() <= ack_characters {
        Meaning::Ack
    } else {
        Meaning::News(rest.to_owned())
    }
}

fn without_start(text: &str) -> Option<&str> {
    let rest = text.trim_start_matches(MARKUP).trim_start().strip_prefix(ACK)?;
    let is_whole = !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
    is_whole.then(|| rest.trim_start_matches(MARKUP).trim_start())
}

fn without_end(text: &str) -> Option<&str> {
    let rest = text.trim_end_matches(MARKUP).trim_end().strip_suffix(ACK)?;
    let is_whole = !rest.ends_with(|c: char| c.is_alphanumeric() || c == '_');
    is_whole.then(|| rest.trim_end_matches(['*', '`', '~']).trim_end())
}

/// Says whether a file asks for nothing: blank lines, headings, comments of one line, fences and list items without a
/// word.
#[must_use]
pub fn is_empty_file(content: &str) -> bool {
    content.trim_start_matches('\u{feff}').lines().map(str::trim).all(says_nothing)
}

fn says_nothing(line: &str) -> bool {
    let is_heading = {
        let rest = line.trim_start_matches('#');
        rest.len() < line.len() && (rest.is_empty() || rest.starts_with(char::is_whitespace))
    };
    let is_comment = line.starts_with("<!--") && line.ends_with("-->");
    let item = line.strip_prefix(['-', '*', '+']).map(str::trim);
    let is_bare = item.is_some_and(|item| matches!(item, "" | "[]" | "[ ]" | "[x]" | "[X]"));
    line.is_empty() || is_heading || is_comment || is_bare || line.starts_with("```")
}
