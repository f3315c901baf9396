//! Reads here-documents: `<<WORD`, `<<-WORD`, with a plain or a quoted delimiter.
//!
//! A body whose delimiter is not quoted would be expanded by a shell: substitutions in it are
//! refused, backslashes before `$`, a backquote and themselves are taken away, and variables stay as
//! typed. Delimiters that shells read differently are refused.

use super::{NotAnalysable, Syntax};

/// A here-document whose body is still to come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HereDocument {
    delimiter: String,
    expands: bool,
    strips_tabs: bool,
}

impl HereDocument {
    /// Reads the operator from its second `<` on, and the delimiter. Gives the length of both.
    pub(super) fn start(text: &str) -> Result<(Self, usize), NotAnalysable> {
        let after = text.strip_prefix('<').unwrap_or(text);
        let (strips_tabs, after) =
            after.strip_prefix('-').map_or((false, after), |rest| (true, rest));
        let after = after.trim_start_matches([' ', '\t']);
        let unfinished = |rest: &str| match rest.chars().next() {
            Some(character @ ('<' | '>' | '|' | '&' | ';' | '\n' | '\r')) => {
                NotAnalysable::Syntax(Syntax::Character(character))
            }
            Some(_) | None => NotAnalysable::HereDocumentDelimiter,
        };
        let quote = after.chars().next().filter(|first| matches!(first, '\'' | '"'));
        let (delimiter, rest) = if let Some(quote) = quote {
            let quoted = after.get(1..).unwrap_or_default();
            let end = quoted.find([quote, '\n', '\r']).unwrap_or(quoted.len());
            let rest = quoted.get(end..).and_then(|rest| rest.strip_prefix(quote));
            (quoted.get(..end).unwrap_or_default(), rest.ok_or(NotAnalysable::Unterminated)?)
        } else {
            let ends = |c: char| c.is_whitespace() || matches!(c, '|' | '&' | ';' | '<' | '>');
            let end = after.find(ends).unwrap_or(after.len());
            if end == 0 {
                return Err(unfinished(after));
            }
            after.split_at(end)
        };
        let document =
            Self { delimiter: delimiter.to_owned(), expands: quote.is_none(), strips_tabs };
        Ok((document, text.len() - rest.len()))
    }

    /// Says whether every shell reads the delimiter as we do: nothing in it but letters, digits and
    /// a few signs, and `next`, what follows it, ends a word.
    pub(super) fn is_plain(&self, next: Option<char>) -> bool {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        let ends_word = next.is_none_or(|next| " \t\n|&;<>".contains(next));
        ends_word && !self.delimiter.is_empty() && self.delimiter.chars().all(is_plain)
    }

    /// Reads the body from the start of its first line. Gives what the program reads, and the rest.
    pub(super) fn body<'a>(&self, text: &'a str) -> Result<(String, &'a str), NotAnalysable> {
        let mut body = String::new();
        let mut rest = text;
        while !rest.is_empty() {
            let (line, after) = rest.split_once('\n').unwrap_or((rest, ""));
            let shown = if self.strips_tabs { line.trim_start_matches('\t') } else { line };
            if shown == self.delimiter {
                return Ok((body, after));
            }
            if !rest.contains('\n') {
                break;
            }
            if self.expands {
                push_expanded(shown, &mut body)?;
            } else {
                body.push_str(shown);
            }
            body.push('\n');
            rest = after;
        }
        Err(NotAnalysable::UnterminatedHereDocument)
    }
}

/// Adds a line of a body that a shell would expand.
fn push_expanded(line: &str, body: &mut String) -> Result<(), NotAnalysable> {
    let mut characters = line.chars().peekable();
    while let Some(character) = characters.next() {
        match (character, characters.peek()) {
            ('\\', Some(&next @ ('\\' | '$' | '`'))) => {
                characters.next();
                body.push(next);
            }
            ('`', _) | ('$', Some('(' | '{')) => {
                return Err(NotAnalysable::SubstitutionInHereDocument);
            }
            (character, _) => body.push(character),
        }
    }
    Ok(())
}
