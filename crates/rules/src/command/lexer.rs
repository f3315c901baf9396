//! Cuts a command text into chained pipelines of words, or says why it will not.
//!
//! Default deny: quotes, escapes, `|`, `&&`, `||`, `;`, a comment on the last line and plain
//! here-documents are understood; everything else a shell gives a meaning to is [`NotAnalysable`].
//! Two things a shell would expand stay as they are typed, because the plan runs without a shell:
//! variables and globs are literal text. Words are cut at spaces and tabs only, and an empty word in
//! quotes is a word.

mod here_document;

use std::fmt;

use here_document::HereDocument;

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

/// Why a text is not analysed. Whoever asked must treat it as a command that nothing admits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAnalysable {
    #[error("the command is empty")]
    Empty,
    #[error("a pipe has nothing on one side")]
    EmptySegment,
    #[error("a command starts with an empty word, which names no program")]
    NoProgram,
    #[error("a quote or a backslash is not finished")]
    Unterminated,
    #[error(
        "`{0}` asks a shell for something that is not understood here; run the parts as separate commands"
    )]
    Syntax(Syntax),
    #[error("a line that ends in a backslash hides where words end; write the command on one line")]
    LineContinuation,
    #[error("lines after a comment would be lost; remove the comment")]
    LineAfterComment,
    #[error("{} outside quotes looks like a blank and is none, or cannot be seen; remove it", CodePoint(*.0))]
    Character(char),
    #[error("a here-document has no end, or stands in a chain of commands")]
    UnterminatedHereDocument,
    #[error("a here-document runs a command inside its text; quote its delimiter")]
    SubstitutionInHereDocument,
    #[error("a here-document's delimiter must be one plain or completely quoted word")]
    HereDocumentDelimiter,
    #[error("text follows a here-document")]
    TextAfterHereDocument,
    #[error("the command is longer than {MAX_LENGTH} bytes")]
    TooLong,
}

/// Shell syntax that is refused on sight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Syntax {
    /// One of `& ; > < ( )`, a backquote, or a line break outside quotes.
    Character(char),
    /// `$(`, in which arithmetic starts too.
    Substitution,
    /// `||` where no chain could be made of it.
    Or,
    /// `|&`
    PipeBoth,
    /// A line break inside double quotes.
    NewlineInQuotes,
    /// `${` with more than a name, `$[`, `$'` or `$"`: what follows is cut by rules of its own.
    Expansion(char),
}

impl fmt::Display for Syntax {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Character('\n' | '\r') => f.write_str("line break"),
            Self::Character(character) => write!(f, "{character}"),
            Self::Substitution => f.write_str("$()"),
            Self::Or => f.write_str("||"),
            Self::PipeBoth => f.write_str("|&"),
            Self::NewlineInQuotes => f.write_str("line break in double quotes"),
            Self::Expansion(character) => write!(f, "${character}"),
        }
    }
}

struct CodePoint(char);

impl fmt::Display for CodePoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "U+{:04X}", u32::from(self.0))
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

/// Whether a character stands inside quotes, and which.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quoting {
    None,
    Single,
    Double,
}

/// What one character means to the quoting. Both passes take their steps from here, so that they
/// cannot disagree about what is quoted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
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
struct Walk<'a> {
    text: &'a str,
    position: usize,
    quoting: Quoting,
}

impl<'a> Walk<'a> {
    fn new(text: &'a str) -> Self {
        Self { text, position: 0, quoting: Quoting::None }
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.position..).unwrap_or_default()
    }

    /// The next step, and the position it starts at.
    fn step(&mut self) -> Option<(usize, Step)> {
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
    fn hash_sign(&self, start: usize) -> HashSign {
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
enum HashSign {
    Comment,
    Text,
    Unclear,
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
    // Line breaks after an operator, and at the end, mean nothing.
    let last = text.get(start..end).unwrap_or_default();
    parts.push((joined_by, last.trim_end_matches([' ', '\t', '\n'])));
    for (_, part) in parts.iter_mut().skip(1) {
        *part = part.trim_start_matches([' ', '\t', '\n']);
    }
    let has_hole = parts.iter().any(|(_, part)| part.trim().is_empty());
    let comment = Comment::of(text.get(end..).unwrap_or_default());
    (!has_hole).then_some((parts, comment))
}

/// Reads the words of one pipeline.
struct Pipeline<'a> {
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
    doubt: Option<NotAnalysable>,
}

impl<'a> Pipeline<'a> {
    fn new(text: &'a str) -> Self {
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

    fn read(&mut self) -> Result<Vec<Words>, NotAnalysable> {
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

/// Says whether a character outside quotes cannot be seen as what it is: a control character, or a
/// blank that separates nothing.
fn is_unsafe(character: char) -> bool {
    let is_blank = character.is_whitespace() || character == '\u{feff}';
    (is_blank && !matches!(character, ' ' | '\t')) || (character.is_control() && character != '\t')
}

#[cfg(test)]
mod tests;
