//! Text as files hold it: a mark at the start, line ends of two kinds, and look-alike characters.
//!
//! What is not touched stays as it is, byte for byte: the mark, each line's own end, a missing last one.

use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::canonical_combining_class;

use super::size;

/// The largest file that is changed as text.
pub const LARGEST: u64 = 8 * 1024 * 1024;
/// A NUL among this many first bytes means that a file is no text.
pub const SNIFFED: usize = 8 * 1024;

const MARK: &str = "\u{feff}";

/// Why contents are not taken for text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoText {
    #[error("it is binary ({}); use a command to look at it or change it", size(*bytes))]
    Binary { bytes: u64 },
    #[error(
        "it is UTF-16 text; turn it into UTF-8 first, for example with `iconv -f UTF-16 -t UTF-8`"
    )]
    Utf16,
    #[error("it is not UTF-8 at byte {at}, and changing it as text would damage it; use a command")]
    Encoding { at: usize },
    #[error("it has {}, and text is changed up to {}; use a command", size(*bytes), size(LARGEST))]
    TooLarge { bytes: u64 },
}

/// A file's text without the byte order mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Document<'a> {
    pub mark: &'a str,
    pub text: &'a str,
}

impl<'a> Document<'a> {
    /// Reads a file's contents.
    pub fn parse(contents: &'a [u8]) -> Result<Self, NoText> {
        let bytes = contents.len() as u64;
        if bytes > LARGEST {
            return Err(NoText::TooLarge { bytes });
        }
        check_text(contents, bytes)?;
        let text = std::str::from_utf8(contents)
            .map_err(|error| NoText::Encoding { at: error.valid_up_to() })?;
        Ok(match text.strip_prefix(MARK) {
            Some(rest) => Self { mark: MARK, text: rest },
            None => Self { mark: "", text },
        })
    }

    /// The file's kind of line end: that of its first line.
    pub fn newline(&self) -> Newline {
        match self.text.find('\n') {
            Some(at) if self.text.get(..at).is_some_and(|line| line.ends_with('\r')) => {
                Newline::Crlf
            }
            Some(_) | None => Newline::Lf,
        }
    }

    /// The contents with this text.
    pub fn with_text(&self, text: &str) -> Vec<u8> {
        [self.mark.as_bytes(), text.as_bytes()].concat()
    }
}

/// Refuses what starts like no text. `bytes` is the size of the whole file.
pub fn check_text(start: &[u8], bytes: u64) -> Result<(), NoText> {
    let start = start.get(..SNIFFED).unwrap_or(start);
    if start.starts_with(&[0xff, 0xfe]) || start.starts_with(&[0xfe, 0xff]) {
        return Err(NoText::Utf16);
    }
    if start.contains(&0) { Err(NoText::Binary { bytes }) } else { Ok(()) }
}

/// How lines end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Newline {
    Lf,
    Crlf,
}

impl Newline {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Lf => "\n",
            Self::Crlf => "\r\n",
        }
    }

    /// `text`, which has plain line ends, with these.
    pub fn write(self, text: &str) -> String {
        match self {
            Self::Lf => text.to_owned(),
            Self::Crlf => text.replace('\n', "\r\n"),
        }
    }
}

/// A text with plain line ends, and the way back from its places to those of the original.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plain {
    pub text: String,
    /// Places, in `text`, of the line ends that lost a carriage return.
    shortened: Vec<usize>,
}

impl Plain {
    /// Makes every line end plain, that of a lonely carriage return too.
    pub fn new(text: &str) -> Self {
        if !text.contains('\r') {
            return Self { text: text.to_owned(), shortened: Vec::new() };
        }
        let mut plain = String::with_capacity(text.len());
        let mut shortened = Vec::new();
        let mut characters = text.chars().peekable();
        while let Some(c) = characters.next() {
            if c != '\r' {
                plain.push(c);
                continue;
            }
            if characters.next_if_eq(&'\n').is_some() {
                shortened.push(plain.len());
            }
            plain.push('\n');
        }
        Self { text: plain, shortened }
    }

    /// The place in the original of a place in the plain text. Before a line end is before all of it.
    pub fn original(&self, place: usize) -> usize {
        place + self.shortened.partition_point(|shortened| *shortened < place)
    }
}

/// A text in which look-alikes are the same and blanks at line ends are gone.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Folded {
    pub text: String,
    pieces: Vec<Piece>,
}

/// A part of the folded text and the part of the source that it stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Piece {
    at: usize,
    length: usize,
    source: usize,
    source_length: usize,
    exact: bool,
}

impl Folded {
    /// Folds a text with plain line ends.
    pub fn new(source: &str) -> Self {
        let mut folded = Self::default();
        let mut at = 0;
        for line in source.split_inclusive('\n') {
            let body = line.strip_suffix('\n').unwrap_or(line);
            folded.line(body.trim_end(), at);
            if line.len() > body.len() {
                folded.exact("\n", at + body.len());
            }
            at += line.len();
        }
        folded
    }

    fn line(&mut self, mut rest: &str, mut at: usize) {
        while !rest.is_empty() {
            let cluster = cluster(rest);
            if cluster.is_ascii() {
                self.exact(cluster, at);
            } else {
                let text: String = cluster.nfkc().map(plain_punctuation).collect();
                let piece = Piece {
                    at: self.text.len(),
                    length: text.len(),
                    source: at,
                    source_length: cluster.len(),
                    exact: false,
                };
                self.text.push_str(&text);
                self.pieces.push(piece);
            }
            at += cluster.len();
            rest = rest.get(cluster.len()..).unwrap_or_default();
        }
    }

    /// Adds what is the same in both, as one piece with what came before where possible.
    fn exact(&mut self, text: &str, source: usize) {
        let at = self.text.len();
        self.text.push_str(text);
        if let Some(last) = self.pieces.last_mut()
            && last.exact
            && last.source + last.source_length == source
        {
            last.length += text.len();
            last.source_length += text.len();
            return;
        }
        let length = text.len();
        self.pieces.push(Piece { at, length, source, source_length: length, exact: true });
    }

    /// The part of the source that a part of the folded text stands for; `None` if it would begin or end within
    /// one character of the source.
    pub fn source(&self, start: usize, end: usize) -> Option<(usize, usize)> {
        let first = self.piece(self.pieces.partition_point(|piece| piece.at <= start))?;
        let last = self.piece(self.pieces.partition_point(|piece| piece.at < end))?;
        let from = match start.checked_sub(first.at)? {
            0 => first.source,
            skipped if first.exact => first.source + skipped,
            _ => return None,
        };
        let to = match end.checked_sub(last.at)? {
            taken if taken == last.length => last.source + last.source_length,
            taken if last.exact => last.source + taken,
            _ => return None,
        };
        Some((from, to))
    }

    fn piece(&self, after: usize) -> Option<Piece> {
        self.pieces.get(after.checked_sub(1)?).copied()
    }
}

/// The first characters of `text` that are folded together: runs of plain ones at once, others with what
/// combines with them.
fn cluster(text: &str) -> &str {
    let plain = text.bytes().take_while(u8::is_ascii).count();
    // The last plain one may have an accent after it.
    let plain = if plain < text.len() { plain.saturating_sub(1) } else { plain };
    if plain > 0 {
        return text.get(..plain).unwrap_or(text);
    }
    let end = text.char_indices().skip(1).find(|(_, c)| !combines(*c)).map(|(at, _)| at);
    text.get(..end.unwrap_or(text.len())).unwrap_or(text)
}

fn combines(c: char) -> bool {
    // Hangul vowels and finals combine too, without being marks.
    canonical_combining_class(c) != 0 || matches!(c, '\u{1160}'..='\u{11ff}')
}

/// Dashes, quotes and blanks as a keyboard has them.
pub const fn plain_punctuation(c: char) -> char {
    match c {
        '\u{2018}'..='\u{201b}' => '\'',
        '\u{201c}'..='\u{201f}' => '"',
        '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
        '\u{a0}' | '\u{2002}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => ' ',
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn contents_that_are_no_text_say_what_they_are() {
        for (contents, expected) in [
            (&b"a\0b"[..], Err(NoText::Binary { bytes: 3 })),
            (b"\xff\xfea\0", Err(NoText::Utf16)),
            (b"ab\xffc", Err(NoText::Encoding { at: 2 })),
            (b"\xef\xbb\xbfab", Ok(("\u{feff}", "ab"))),
            (b"", Ok(("", ""))),
        ] {
            let found = Document::parse(contents).map(|found| (found.mark, found.text));
            assert_eq!(found, expected);
        }
        let large = vec![b'a'; usize::try_from(LARGEST).unwrap() + 1];
        assert_eq!(Document::parse(&large), Err(NoText::TooLarge { bytes: LARGEST + 1 }));
    }

    #[test]
    fn the_first_line_end_is_the_files_line_end() {
        for (text, expected) in [
            ("a\r\nb\n", Newline::Crlf),
            ("a\nb\r\n", Newline::Lf),
            ("a\rb", Newline::Lf),
            ("", Newline::Lf),
        ] {
            assert_eq!(Document { mark: "", text }.newline(), expected, "{text:?}");
        }
    }

    #[test]
    fn folding_takes_look_alikes_for_the_same() {
        for (text, expected) in [
            ("“a” – b\u{a0}c  \t\nd  ", "\"a\" - b c\nd"),
            ("ﬁn", "fin"),
            ("e\u{301}x", "\u{e9}x"),
            ("a \n", "a\n"),
            ("\u{1112}\u{1161}\u{11ab}", "\u{d55c}"),
        ] {
            assert_eq!(Folded::new(text).text, expected);
        }
    }

    proptest! {
        #[test]
        fn every_place_of_a_plain_text_leads_back(text in "[ab\r\n]{0,24}") {
            let plain = Plain::new(&text);
            prop_assert_eq!(&plain.text, &text.replace("\r\n", "\n").replace('\r', "\n"));
            // Cutting the original at the places of any cut of the plain text gives that cut.
            for at in 0..=plain.text.len() {
                let (before, after) = text.split_at(plain.original(at));
                prop_assert_eq!(Plain::new(before).text, &plain.text[..at]);
                prop_assert_eq!(Plain::new(after).text, &plain.text[at..]);
            }
        }

        #[test]
        fn a_folded_part_stands_for_a_source_that_folds_to_it(
            text in "[a ﬁ“–e\u{301}\n\u{a0}]{0,16}",
            cut in any::<(prop::sample::Index, prop::sample::Index)>(),
        ) {
            let folded = Folded::new(&text);
            let places: Vec<usize> =
                (0..=folded.text.len()).filter(|at| folded.text.is_char_boundary(*at)).collect();
            let (a, b) = (*cut.0.get(&places), *cut.1.get(&places));
            let (start, end) = (a.min(b), a.max(b));
            if start < end && let Some((from, to)) = folded.source(start, end) {
                let part = &folded.text[start..end];
                let again = Folded::new(&text[from..to]).text;
                prop_assert_eq!(again.trim_end(), part.trim_end());
            }
        }
    }
}
