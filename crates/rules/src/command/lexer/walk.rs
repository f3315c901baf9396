//! Walks over a text in steps: what each character is to the quoting.
//!
//! Both passes of the lexer take their steps from here, so that they cannot disagree about what is
//! quoted. Nothing is refused here.

/// Whether a character stands inside quotes, and which.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quoting {
    None,
    Single,
    Double,
}

/// What one character means to the quoting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// A quote that opens or closes, dropped from words.
    Quote,
    /// A backslash that takes the next character as it is; the pair is one step.
    Escape(char),
    /// A backslash at the end of the text.
    Dangling,
    /// Text inside quotes.
    Quoted(char),
    /// Text outside quotes: the only place where syntax can stand.
    Bare(char),
}

/// A walk over a text, in steps.
#[derive(Debug, Clone)]
pub(super) struct Walk<'a> {
    pub(super) text: &'a str,
    pub(super) position: usize,
    pub(super) quoting: Quoting,
}

impl<'a> Walk<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, position: 0, quoting: Quoting::None }
    }

    pub(super) fn rest(&self) -> &'a str {
        self.text.get(self.position..).unwrap_or_default()
    }

    /// The next step, and the position it starts at.
    pub(super) fn step(&mut self) -> Option<(usize, Step)> {
        let start = self.position;
        let character = self.take()?;
        let step = match (self.quoting, character) {
            (Quoting::None, '\\') => self.take().map_or(Step::Dangling, Step::Escape),
            (Quoting::None, '\'') => self.quote(Quoting::Single),
            (Quoting::None, '"') => self.quote(Quoting::Double),
            (Quoting::Single, '\'') | (Quoting::Double, '"') => self.quote(Quoting::None),
            (Quoting::Double, '\\') if self.rest().starts_with(['\\', '"', '$', '`']) => {
                self.take().map_or(Step::Dangling, Step::Escape)
            }
            (Quoting::None, character) => Step::Bare(character),
            (Quoting::Single | Quoting::Double, character) => Step::Quoted(character),
        };
        Some((start, step))
    }

    fn take(&mut self) -> Option<char> {
        let character = self.rest().chars().next()?;
        self.position += character.len_utf8();
        Some(character)
    }

    fn quote(&mut self, quoting: Quoting) -> Step {
        self.quoting = quoting;
        Step::Quote
    }

    /// What a bare `#` at `start` is: a shell takes it for a comment where a word could begin.
    pub(super) fn hash_sign(&self, start: usize) -> HashSign {
        let mut before = self.text.get(..start).unwrap_or_default().chars().rev();
        match (before.next(), before.next()) {
            // An escaped blank is part of a word; shells agree, people do not.
            (Some(' ' | '\t'), Some('\\')) => HashSign::Unclear,
            (before, _) if before.is_none_or(char::is_whitespace) => HashSign::Comment,
            _ => HashSign::Text,
        }
    }
}

/// What a `#` outside quotes is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HashSign {
    Comment,
    Text,
    Unclear,
}
