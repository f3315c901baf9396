//! Reads the words of one pipeline, or refuses it at the first sign it does not understand.

use super::here_document::HereDocument;
use super::walk::{HashSign, Quoting, Step, Walk};
use super::{Comment, NotAnalysable, Syntax, Words};

/// Reads the words of one pipeline.
pub(super) struct Pipeline<'a> {
    walk: Walk<'a>,
    done: Vec<Words>,
    words: Words,
    /// The word being read; `None` between words, so that `""` is a word and a blank is not.
    word: Option<String>,
    /// Where the segment's text starts.
    raw_start: usize,
    /// Here-documents whose bodies are still to come, with their segment's number.
    pending: Vec<(usize, HereDocument)>,
    /// Refuses a text that is otherwise fine. A reason that names a character comes first.
    pub(super) doubt: Option<NotAnalysable>,
}

impl<'a> Pipeline<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self {
            walk: Walk::new(text),
            done: Vec::new(),
            words: Words::default(),
            word: None,
            raw_start: 0,
            pending: Vec::new(),
            doubt: None,
        }
    }

    pub(super) fn read(&mut self) -> Result<Vec<Words>, NotAnalysable> {
        let mut end = self.walk.text.len();
        while let Some((position, step)) = self.walk.step() {
            match step {
                Step::Quote => {
                    self.word.get_or_insert_default();
                }
                Step::Escape(character) => self.escaped(character)?,
                Step::Dangling => return Err(self.unfinished()),
                Step::Quoted(character) => self.quoted(character)?,
                Step::Bare('\n' | '\r') if !self.pending.is_empty() => {
                    self.bodies(position)?;
                    end = position;
                    break;
                }
                Step::Bare('#') if self.walk.hash_sign(position) == HashSign::Comment => {
                    let hidden = self.walk.text.get(position..).unwrap_or_default();
                    if Comment::of(hidden) == Comment::HidesLines {
                        self.doubt(NotAnalysable::LineAfterComment);
                    }
                    end = position;
                    break;
                }
                Step::Bare(character) => self.bare(position, character)?,
            }
        }
        if !self.pending.is_empty()
            || (end == self.walk.text.len() && self.walk.quoting != Quoting::None)
        {
            return Err(self.unfinished());
        }
        self.end_word();
        self.finish(end)
    }

    fn doubt(&mut self, why: NotAnalysable) {
        self.doubt.get_or_insert(why);
    }

    /// What an end inside something means.
    fn unfinished(&self) -> NotAnalysable {
        if self.pending.is_empty() {
            NotAnalysable::Unterminated
        } else {
            NotAnalysable::UnterminatedHereDocument
        }
    }

    fn push(&mut self, character: char) {
        self.word.get_or_insert_default().push(character);
    }

    fn escaped(&mut self, character: char) -> Result<(), NotAnalysable> {
        match character {
            // Judged at the end, in the text as a whole.
            '\n' | '\r' => {}
            character if is_unsafe(character) => return Err(NotAnalysable::Character(character)),
            character => self.push(character),
        }
        Ok(())
    }

    fn quoted(&mut self, character: char) -> Result<(), NotAnalysable> {
        match (self.walk.quoting, character) {
            // No argument of a program can hold it.
            (_, '\0') => Err(NotAnalysable::Character('\0')),
            (Quoting::Double, '`') => Err(NotAnalysable::Syntax(Syntax::Character('`'))),
            (Quoting::Double, '\n' | '\r') => Err(NotAnalysable::Syntax(Syntax::NewlineInQuotes)),
            (Quoting::Double, '$') if self.walk.rest().starts_with('(') => {
                Err(NotAnalysable::Syntax(Syntax::Substitution))
            }
            (Quoting::Double, '$') => {
                self.dollar();
                Ok(())
            }
            (Quoting::None | Quoting::Single | Quoting::Double, character) => {
                self.push(character);
                Ok(())
            }
        }
    }

    fn bare(&mut self, position: usize, character: char) -> Result<(), NotAnalysable> {
        let next = self.walk.rest().chars().next();
        let refused = |syntax| Err(NotAnalysable::Syntax(syntax));
        match (character, next) {
            (' ' | '\t', _) => self.end_word(),
            ('|', Some('|')) => return refused(Syntax::Or),
            ('|', Some('&')) => return refused(Syntax::PipeBoth),
            ('|', _) => {
                self.end_word();
                self.end_segment(position);
                self.raw_start = position + 1;
            }
            ('<', Some('<')) => self.here_document()?,
            ('&' | ';' | '>' | '<' | '(' | ')' | '`' | '\n' | '\r', _) => {
                return refused(Syntax::Character(character));
            }
            ('$', Some('(')) => return refused(Syntax::Substitution),
            ('$', _) => self.dollar(),
            (character, _) if is_unsafe(character) => {
                return Err(NotAnalysable::Character(character));
            }
            // A shell takes it for a comment; the blank before it that we ask for is missing.
            ('#', _) if self.word.is_none() => return refused(Syntax::Character('#')),
            ('#', _) if self.walk.hash_sign(position) == HashSign::Unclear => {
                return refused(Syntax::Character('#'));
            }
            (character, _) => self.push(character),
        }
        Ok(())
    }

    /// A dollar sign is text, before a name too; but what stands in brackets or quotes after it is
    /// cut into words by other rules than ours.
    fn dollar(&mut self) {
        let mut rest = self.walk.rest().chars();
        match (self.walk.quoting, rest.next()) {
            (_, Some('{')) => {
                let rest = rest
                    .as_str()
                    .trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '_');
                if !rest.starts_with('}') {
                    self.doubt(NotAnalysable::Syntax(Syntax::Expansion('{')));
                }
            }
            (_, Some('[')) => self.doubt(NotAnalysable::Syntax(Syntax::Expansion('['))),
            (Quoting::None, Some(quote @ ('\'' | '"'))) => {
                self.doubt(NotAnalysable::Syntax(Syntax::Expansion(quote)));
            }
            (Quoting::None | Quoting::Single | Quoting::Double, _) => {}
        }
        self.push('$');
    }

    fn here_document(&mut self) -> Result<(), NotAnalysable> {
        // `2<<WORD` and `{name}<<WORD` redirect something else than standard input.
        let names_descriptor =
            |word: &String| word.starts_with('{') || word.chars().all(|c| c.is_ascii_digit());
        if self.word.as_ref().is_some_and(names_descriptor) {
            self.doubt(NotAnalysable::HereDocumentDelimiter);
        }
        self.end_word();
        let (document, length) = HereDocument::start(self.walk.rest())?;
        self.walk.position += length;
        if !document.is_plain(self.walk.rest().chars().next()) {
            self.doubt(NotAnalysable::HereDocumentDelimiter);
        }
        self.pending.push((self.done.len(), document));
        Ok(())
    }

    /// Reads the bodies that follow the line at `position`. Nothing may come after the last.
    fn bodies(&mut self, position: usize) -> Result<(), NotAnalysable> {
        self.end_word();
        let text = self.walk.text.get(position..).unwrap_or_default();
        match text.find(['\r', '\0']).and_then(|start| text.get(start..)?.chars().next()) {
            None => {}
            Some('\r') => return Err(NotAnalysable::Syntax(Syntax::Character('\r'))),
            Some(character) => return Err(NotAnalysable::Character(character)),
        }
        let mut rest = text.get(1..).unwrap_or_default();
        let mut bodies = Vec::with_capacity(self.pending.len());
        for (segment, document) in std::mem::take(&mut self.pending) {
            let (body, after) = document.body(rest)?;
            bodies.push((segment, body));
            rest = after;
        }
        match rest.chars().next() {
            None => {}
            Some('\n') => return Err(NotAnalysable::Syntax(Syntax::Character('\n'))),
            Some(_) => return Err(NotAnalysable::TextAfterHereDocument),
        }
        self.end_segment(position);
        self.raw_start = position;
        for (segment, body) in bodies {
            // Of several, a program reads the last.
            if let Some(words) = self.done.get_mut(segment) {
                words.here_document = Some(body);
            }
        }
        Ok(())
    }

    fn end_word(&mut self) {
        self.words.argv.extend(self.word.take());
    }

    /// Ends a segment whose text ends at `position`.
    fn end_segment(&mut self, position: usize) {
        let raw = self.walk.text.get(self.raw_start..position).unwrap_or_default();
        // A blank that ends the last word cannot be seen, so nobody could agree to it.
        if raw.ends_with([' ', '\t']) && ends_in_escape(raw) {
            self.doubt(NotAnalysable::Character(' '));
        }
        raw.trim().clone_into(&mut self.words.raw);
        self.done.push(std::mem::take(&mut self.words));
    }

    fn finish(&mut self, end: usize) -> Result<Vec<Words>, NotAnalysable> {
        // Reading the bodies has ended the last segment.
        if self.done.iter().all(|words| words.here_document.is_none()) {
            self.end_segment(end);
        }
        let is_empty = |words: &Words| words.raw.is_empty();
        if self.done.iter().all(is_empty) {
            return Err(NotAnalysable::Empty);
        }
        if self.done.iter().any(is_empty) {
            return Err(NotAnalysable::EmptySegment);
        }
        let names_program =
            |words: &Words| words.argv.first().is_some_and(|word| !word.trim().is_empty());
        if !self.done.iter().all(names_program) {
            return Err(NotAnalysable::NoProgram);
        }
        Ok(std::mem::take(&mut self.done))
    }
}

/// Says whether the blanks at the end of a text start with an escaped one.
fn ends_in_escape(text: &str) -> bool {
    let bare = text.trim_end_matches([' ', '\t']);
    let backslashes = bare.chars().rev().take_while(|c| *c == '\\').count();
    backslashes % 2 == 1
}

/// Says whether a character outside quotes cannot be seen as what it is: a control character, or a
/// blank that separates nothing.
fn is_unsafe(character: char) -> bool {
    let is_blank = character.is_whitespace() || character == '\u{feff}';
    (is_blank && !matches!(character, ' ' | '\t')) || (character.is_control() && character != '\t')
}
