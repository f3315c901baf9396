//! Reads plain JSON, for files whose format is JSON and not JSON5.
//!
//! A file that the reference would refuse must be refused here too, or the two programs would act
//! on different policies. So the text is first held against the strict grammar (RFC 8259) and then
//! read by [`super::json5`], which gives the values their places.

use super::json5::{self, MAX_DEPTH, ParseError, ParseProblem, Parsed};
use super::tree::FileId;

/// Parses one JSON document.
pub fn parse(text: &str, file: FileId) -> Result<Parsed, ParseError> {
    check(text)?;
    json5::parse(text, file)
}

/// Says whether `text` is one JSON value, and if not, where it stops being one.
fn check(text: &str) -> Result<(), ParseError> {
    let mut reader = Reader { text, at: 0 };
    reader.blank();
    reader.value(0)?;
    reader.blank();
    match reader.peek() {
        None => Ok(()),
        Some(_) => Err(reader.unexpected()),
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn blank(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn value(&mut self, depth: usize) -> Result<(), ParseError> {
        match self.peek() {
            Some(b'{' | b'[') if depth >= MAX_DEPTH => Err(self.error(ParseProblem::Depth)),
            Some(b'{') => self.list(b'}', |reader| {
                reader.string()?;
                reader.blank();
                reader.expect(b':')?;
                reader.blank();
                reader.value(depth + 1)
            }),
            Some(b'[') => self.list(b']', |reader| reader.value(depth + 1)),
            Some(b'"') => self.string(),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word("true"),
            Some(b'f') => self.word("false"),
            Some(b'n') => self.word("null"),
            Some(_) | None => Err(self.unexpected()),
        }
    }

    /// Items between an opening bracket, which stands here, and `close`.
    fn list(
        &mut self,
        close: u8,
        item: impl Fn(&mut Self) -> Result<(), ParseError>,
    ) -> Result<(), ParseError> {
        self.at += 1;
        self.blank();
        if self.peek() == Some(close) {
            self.at += 1;
            return Ok(());
        }
        loop {
            item(self)?;
            self.blank();
            if self.peek() == Some(close) {
                self.at += 1;
                return Ok(());
            }
            self.expect(b',')?;
            self.blank();
        }
    }

    fn string(&mut self) -> Result<(), ParseError> {
        self.expect(b'"')?;
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => {
                    self.at += 1;
                    match self.peek() {
                        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                            self.at += 1;
                        }
                        Some(b'u') => {
                            self.at += 1;
                            for _ in 0..4 {
                                if !self.peek().is_some_and(|byte| byte.is_ascii_hexdigit()) {
                                    return Err(self.unexpected());
                                }
                                self.at += 1;
                            }
                        }
                        Some(_) | None => return Err(self.unexpected()),
                    }
                }
                Some(0..=0x1f) | None => return Err(self.unexpected()),
                Some(_) => self.at += 1,
            }
        }
    }

    fn number(&mut self) -> Result<(), ParseError> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), ParseError> {
        if !self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            return Err(self.unexpected());
        }
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        Ok(())
    }

    fn word(&mut self, word: &str) -> Result<(), ParseError> {
        for byte in word.bytes() {
            self.expect(byte)?;
        }
        Ok(())
    }

    fn expect(&mut self, byte: u8) -> Result<(), ParseError> {
        if self.peek() != Some(byte) {
            return Err(self.unexpected());
        }
        self.at += 1;
        Ok(())
    }

    fn unexpected(&self) -> ParseError {
        // Only ASCII bytes are ever passed over inside a token, so `at` is the start of a character.
        let found = self.text.get(self.at..).and_then(|rest| rest.chars().next());
        self.error(found.map_or(ParseProblem::End, ParseProblem::Character))
    }

    fn error(&self, problem: ParseProblem) -> ParseError {
        let before = self.text.get(..self.at).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().encode_utf16().count() + 1;
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        ParseError { line: number(line), column: number(column), problem }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(text: &str, expected: Result<(), (u32, u32)>) {
        let found = parse(text, FileId(0)).map(drop).map_err(|error| (error.line, error.column));
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn json_is_read_and_json5_is_refused_where_it_starts() {
        check("{\"a\": [1, -0.5e+3, true, false, null, \"\\u00e9\\n\"]}\n", Ok(()));
        check("{a: 1}", Err((1, 2)));
        check("{\"a\": 1,}", Err((1, 9)));
        check("{\"a\": 1 // c\n}", Err((1, 9)));
        check("{\n \"a\": 'b'}", Err((2, 7)));
        check("[01]", Err((1, 3)));
        check("[+1]", Err((1, 2)));
        check("\u{feff}{}", Err((1, 1)));
        check("{} x", Err((1, 4)));
        check("", Err((1, 1)));
        check("\"é\u{1}\"", Err((1, 3)));
        check(&"[".repeat(65), Err((1, 65)));
    }

    proptest! {
        #[test]
        fn what_is_json_here_is_json_elsewhere(text in "[\\[\\]{}:,\"\\\\a-f0-9.eE+ \n-]{0,24}|\\PC{0,12}") {
            let ours = super::check(&text).is_ok();
            let theirs = serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok();
            prop_assert_eq!(ours, theirs, "{}", text);
        }
    }
}
