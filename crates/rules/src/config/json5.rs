//! Reads JSON5 text into a tree of values with places and spans.
//!
//! The reader is ours because one pass must give three things that no library gives together: the
//! value, where it stands (line and column, for messages) and which bytes it occupies (so that
//! [`super::edit`] can change one value and keep every comment). Depth, size and number of values
//! are capped, so a hostile file costs bounded stack and memory.

use super::tree::{FileId, Member, Node, Object, Place, Span, Value};

/// Deeper nesting than this is refused: no sensible config comes near it.
pub const MAX_DEPTH: usize = 64;
/// A larger file is refused.
pub const MAX_BYTES: usize = 8 * 1024 * 1024;
/// More values than this are refused, in one file or in all files of a load together.
pub const MAX_VALUES: usize = 250_000;

/// Text that is no JSON5, or more of it than we take.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{problem} at {line}:{column}")]
pub struct ParseError {
    pub line: u32,
    pub column: u32,
    pub problem: ParseProblem,
}

/// What is wrong with the text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseProblem {
    #[error("the text ends too early")]
    End,
    #[error("unexpected character '{}'", .0.escape_debug())]
    Character(char),
    #[error("half of a surrogate pair, which is no character,")]
    LoneSurrogate,
    #[error("nesting deeper than {MAX_DEPTH} levels")]
    Depth,
    #[error("file larger than {MAX_BYTES} bytes")]
    Size,
    #[error("more than {MAX_VALUES} values")]
    Values,
}

/// A parsed file.
#[derive(Debug, Clone)]
pub struct Parsed {
    pub root: Node,
    /// How many values it holds.
    pub values: usize,
    /// Keys that stand twice in one object: the later value counts, the earlier one is lost.
    pub repeated: Vec<Repeated>,
}

/// A key written twice in the same object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repeated {
    pub key: String,
    pub place: Place,
}

/// Parses one JSON5 document.
pub fn parse(text: &str, file: FileId) -> Result<Parsed, ParseError> {
    parse_within(text, file, MAX_VALUES)
}

/// The same, for a file that may hold only so many values.
pub fn parse_within(text: &str, file: FileId, max_values: usize) -> Result<Parsed, ParseError> {
    let mut reader = Reader {
        text,
        at: 0,
        line: 1,
        column: 0,
        file,
        values: 0,
        max_values,
        repeated: Vec::new(),
    };
    if text.len() > MAX_BYTES {
        return Err(reader.error(ParseProblem::Size));
    }
    reader.skip_blank()?;
    let root = reader.value(0)?;
    reader.skip_blank()?;
    match reader.next() {
        None => Ok(Parsed { root, values: reader.values, repeated: reader.repeated }),
        Some(extra) => Err(reader.error(ParseProblem::Character(extra))),
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    line: u32,
    /// Column of the character read last, in UTF-16 units as editors and the reference count.
    column: u32,
    file: FileId,
    values: usize,
    max_values: usize,
    repeated: Vec<Repeated>,
}

impl Reader<'_> {
    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let Some(c) = self.peek() else {
            self.column += 1;
            return None;
        };
        self.at += c.len_utf8();
        if c == '\n' {
            self.line += 1;
            self.column = 0;
        } else {
            self.column += if c.len_utf16() == 2 { 2 } else { 1 };
        }
        Some(c)
    }

    fn error(&self, problem: ParseProblem) -> ParseError {
        ParseError { line: self.line, column: self.column, problem }
    }

    /// The error for a character that was read and does not fit here.
    fn misfit(&self, c: Option<char>) -> ParseError {
        self.error(c.map_or(ParseProblem::End, ParseProblem::Character))
    }

    fn here(&self) -> (Place, u32) {
        let place = Place { file: self.file, line: self.line, column: self.column + 1 };
        (place, self.offset())
    }

    fn offset(&self) -> u32 {
        u32::try_from(self.at).unwrap_or(u32::MAX)
    }

    fn skip_blank(&mut self) -> Result<(), ParseError> {
        while let Some(c) = self.peek() {
            if is_blank(c) {
                self.next();
            } else if c == '/' {
                self.next();
                self.comment()?;
            } else {
                break;
            }
        }
        Ok(())
    }

    /// The rest of a comment, after its first slash.
    fn comment(&mut self) -> Result<(), ParseError> {
        match self.next() {
            Some('/') => {
                while let Some(c) = self.next() {
                    if matches!(c, '\n' | '\r' | '\u{2028}' | '\u{2029}') {
                        break;
                    }
                }
                Ok(())
            }
            Some('*') => {
                let mut previous = ' ';
                loop {
                    match self.next() {
                        Some('/') if previous == '*' => return Ok(()),
                        Some(c) => previous = c,
                        None => return Err(self.error(ParseProblem::End)),
                    }
                }
            }
            other => Err(self.misfit(other)),
        }
    }

    fn value(&mut self, depth: usize) -> Result<Node, ParseError> {
        let (place, start) = self.here();
        self.values += 1;
        if self.values > self.max_values {
            return Err(self.error(ParseProblem::Values));
        }
        let value = match self.next() {
            Some('{') => self.object(depth + 1)?,
            Some('[') => self.array(depth + 1)?,
            Some('n') => self.literal("ull", Value::Null)?,
            Some('t') => self.literal("rue", Value::Bool(true))?,
            Some('f') => self.literal("alse", Value::Bool(false))?,
            Some(quote @ ('"' | '\'')) => Value::String(self.string(quote)?),
            Some(first @ ('-' | '+' | '.' | '0'..='9' | 'I' | 'N')) => self.number(first)?,
            other => return Err(self.misfit(other)),
        };
        Ok(Node { value, place, span: Span { start, end: self.offset() } })
    }

    fn literal(&mut self, rest: &str, value: Value) -> Result<Value, ParseError> {
        for expected in rest.chars() {
            let found = self.next();
            if found != Some(expected) {
                return Err(self.misfit(found));
            }
        }
        Ok(value)
    }

    fn object(&mut self, depth: usize) -> Result<Value, ParseError> {
        if depth > MAX_DEPTH {
            return Err(self.error(ParseProblem::Depth));
        }
        let mut members: Vec<Member> = Vec::new();
        loop {
            self.skip_blank()?;
            if self.peek() == Some('}') {
                self.next();
                break;
            }
            let (key_place, start) = self.here();
            let key = self.key()?;
            let key_span = Span { start, end: self.offset() };
            self.skip_blank()?;
            let colon = self.next();
            if colon != Some(':') {
                return Err(self.misfit(colon));
            }
            self.skip_blank()?;
            let node = self.value(depth)?;
            members.push(Member { key, key_place, key_span, node });
            self.skip_blank()?;
            match self.next() {
                Some(',') => {}
                Some('}') => break,
                other => return Err(self.misfit(other)),
            }
        }
        self.note_repeated(&members);
        Ok(Value::Object(Object::from_members(members)))
    }

    fn note_repeated(&mut self, members: &[Member]) {
        let mut seen = std::collections::HashSet::with_capacity(members.len());
        for member in members {
            if !seen.insert(member.key.as_str()) {
                self.repeated.push(Repeated { key: member.key.clone(), place: member.key_place });
            }
        }
    }

    fn array(&mut self, depth: usize) -> Result<Value, ParseError> {
        if depth > MAX_DEPTH {
            return Err(self.error(ParseProblem::Depth));
        }
        let mut items = Vec::new();
        loop {
            self.skip_blank()?;
            if self.peek() == Some(']') {
                self.next();
                break;
            }
            items.push(self.value(depth)?);
            self.skip_blank()?;
            match self.next() {
                Some(',') => {}
                Some(']') => break,
                other => return Err(self.misfit(other)),
            }
        }
        Ok(Value::Array(items))
    }

    fn key(&mut self) -> Result<String, ParseError> {
        let first = self.next();
        if let Some(quote @ ('"' | '\'')) = first {
            return self.string(quote);
        }
        let mut key = String::new();
        key.push(self.identifier_char(first, is_identifier_start)?);
        while let Some(c) = self.peek() {
            if c != '\\' && !is_identifier_part(c) {
                break;
            }
            let c = self.next();
            key.push(self.identifier_char(c, is_identifier_part)?);
        }
        Ok(key)
    }

    /// One character of a bare key, plain or as `\uXXXX`.
    fn identifier_char(
        &mut self,
        c: Option<char>,
        fits: fn(char) -> bool,
    ) -> Result<char, ParseError> {
        let c = match c {
            Some('\\') => {
                let marker = self.next();
                if marker != Some('u') {
                    return Err(self.misfit(marker));
                }
                let unit = self.hex(4)?;
                char::from_u32(unit).ok_or_else(|| self.error(ParseProblem::LoneSurrogate))?
            }
            Some(c) => c,
            None => return Err(self.error(ParseProblem::End)),
        };
        if fits(c) { Ok(c) } else { Err(self.error(ParseProblem::Character(c))) }
    }

    fn string(&mut self, quote: char) -> Result<String, ParseError> {
        let mut text = String::new();
        loop {
            match self.next() {
                Some(c) if c == quote => return Ok(text),
                Some('\\') => {
                    if let Some(c) = self.escape()? {
                        text.push(c);
                    }
                }
                Some(c @ ('\n' | '\r')) => return Err(self.error(ParseProblem::Character(c))),
                Some(c) => text.push(c),
                None => return Err(self.error(ParseProblem::End)),
            }
        }
    }

    /// What follows a backslash; `None` for a continued line.
    fn escape(&mut self) -> Result<Option<char>, ParseError> {
        let c = match self.next() {
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('v') => '\u{b}',
            Some('0') => match self.peek() {
                Some(digit @ '0'..='9') => {
                    self.next();
                    return Err(self.error(ParseProblem::Character(digit)));
                }
                _ => '\0',
            },
            Some('x') => {
                let unit = self.hex(2)?;
                char::from_u32(unit).ok_or_else(|| self.error(ParseProblem::LoneSurrogate))?
            }
            Some('u') => self.unicode_escape()?,
            Some('\r') => {
                if self.peek() == Some('\n') {
                    self.next();
                }
                return Ok(None);
            }
            Some('\n' | '\u{2028}' | '\u{2029}') => return Ok(None),
            Some(digit @ '1'..='9') => return Err(self.error(ParseProblem::Character(digit))),
            Some(other) => other,
            None => return Err(self.error(ParseProblem::End)),
        };
        Ok(Some(c))
    }

    fn unicode_escape(&mut self) -> Result<char, ParseError> {
        let unit = self.hex(4)?;
        if !(0xD800..0xE000).contains(&unit) {
            return char::from_u32(unit).ok_or_else(|| self.error(ParseProblem::LoneSurrogate));
        }
        if unit >= 0xDC00 || !self.text[self.at..].starts_with("\\u") {
            return Err(self.error(ParseProblem::LoneSurrogate));
        }
        self.next();
        self.next();
        let low = self.hex(4)?;
        if !(0xDC00..0xE000).contains(&low) {
            return Err(self.error(ParseProblem::LoneSurrogate));
        }
        let code = 0x1_0000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
        char::from_u32(code).ok_or_else(|| self.error(ParseProblem::LoneSurrogate))
    }

    fn hex(&mut self, digits: u32) -> Result<u32, ParseError> {
        let mut value = 0;
        for _ in 0..digits {
            let c = self.next();
            let Some(digit) = c.and_then(|c| c.to_digit(16)) else {
                return Err(self.misfit(c));
            };
            value = value * 16 + digit;
        }
        Ok(value)
    }

    fn number(&mut self, first: char) -> Result<Value, ParseError> {
        let (sign, first) = match first {
            '-' => (-1.0, self.next()),
            '+' => (1.0, self.next()),
            other => (1.0, Some(other)),
        };
        let magnitude = match first {
            Some('I') => self.literal("nfinity", Value::Number(f64::INFINITY))?,
            Some('N') => self.literal("aN", Value::Number(f64::NAN))?,
            Some('0') if matches!(self.peek(), Some('x' | 'X')) => {
                self.next();
                Value::Number(self.hexadecimal()?)
            }
            Some(c @ ('.' | '0'..='9')) => Value::Number(self.decimal(c)?),
            other => return Err(self.misfit(other)),
        };
        let Value::Number(magnitude) = magnitude else { return Ok(magnitude) };
        Ok(Value::Number(sign * magnitude))
    }

    fn hexadecimal(&mut self) -> Result<f64, ParseError> {
        let mut value = 0.0;
        let first = self.next();
        let Some(digit) = first.and_then(|c| c.to_digit(16)) else {
            return Err(self.misfit(first));
        };
        value += f64::from(digit);
        while let Some(digit) = self.peek().and_then(|c| c.to_digit(16)) {
            self.next();
            value = value * 16.0 + f64::from(digit);
        }
        Ok(value)
    }

    fn decimal(&mut self, first: char) -> Result<f64, ParseError> {
        let mut digits = String::new();
        if first == '.' {
            digits.push('0');
            // Without digits before the point there must be some behind it.
            if !matches!(self.peek(), Some('0'..='9')) {
                let found = self.next();
                return Err(self.misfit(found));
            }
            self.fraction(&mut digits);
        } else {
            digits.push(first);
            // A leading zero stands alone: `01` is no number.
            if first != '0' {
                self.digits(&mut digits);
            }
            if self.peek() == Some('.') {
                self.next();
                self.fraction(&mut digits);
            }
        }
        if matches!(self.peek(), Some('e' | 'E')) {
            self.next();
            digits.push('e');
            if let Some(sign @ ('+' | '-')) = self.peek() {
                self.next();
                digits.push(sign);
            }
            let first = self.next();
            match first {
                Some(digit @ '0'..='9') => digits.push(digit),
                other => return Err(self.misfit(other)),
            }
            self.digits(&mut digits);
        }
        digits.parse().or(Ok(f64::NAN))
    }

    fn fraction(&mut self, digits: &mut String) {
        digits.push('.');
        self.digits(digits);
        digits.push('0');
    }

    fn digits(&mut self, digits: &mut String) {
        while let Some(digit @ '0'..='9') = self.peek() {
            self.next();
            digits.push(digit);
        }
    }
}

fn is_blank(c: char) -> bool {
    matches!(c, '\t' | '\u{b}' | '\u{c}' | ' ' | '\u{a0}' | '\u{feff}' | '\n' | '\r')
        || matches!(c, '\u{1680}' | '\u{2000}'..='\u{200a}' | '\u{2028}' | '\u{2029}')
        || matches!(c, '\u{202f}' | '\u{205f}' | '\u{3000}')
}

fn is_identifier_start(c: char) -> bool {
    c == '$' || c == '_' || c.is_alphabetic()
}

fn is_identifier_part(c: char) -> bool {
    is_identifier_start(c) || c.is_numeric() || matches!(c, '\u{200c}' | '\u{200d}')
}

#[cfg(test)]
mod tests;
