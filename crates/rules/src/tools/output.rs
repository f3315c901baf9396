//! What a command wrote, as a model sees it: text, cleaned, not more than a cap of it.
//!
//! Takes bytes as they come and keeps the newest part. Bytes that are no UTF-8 become U+FFFD, a character that is cut
//! between two pieces is put together again. Characters that steer a terminal or cannot be seen are dropped. However
//! much is written, memory stays below a few times the cap.

use crate::command::is_format;

/// Characters kept of a command's output.
pub const AGGREGATED: usize = 200_000;
/// Characters of what came since the last look.
pub const PENDING: usize = 30_000;
/// Characters shown of a command that goes on.
pub const TAIL: usize = 2_000;

/// How much of an output is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    Whole,
    /// Something before it was dropped.
    End,
}

/// The newest part of a text that is still being written.
#[derive(Debug, Clone)]
pub struct Tail {
    most: usize,
    text: String,
    /// The start of a character whose rest has not come yet; three bytes at most.
    rest: Vec<u8>,
    is_cut: bool,
}

impl Tail {
    /// Keeps `most` characters.
    pub const fn new(most: usize) -> Self {
        Self { most, text: String::new(), rest: Vec::new(), is_cut: false }
    }

    /// Takes what came next.
    pub fn push(&mut self, bytes: &[u8]) {
        let joined;
        let mut bytes = bytes;
        if !self.rest.is_empty() {
            let mut whole = std::mem::take(&mut self.rest);
            whole.extend_from_slice(bytes);
            joined = whole;
            bytes = &joined;
        }
        while !bytes.is_empty() {
            match std::str::from_utf8(bytes) {
                Ok(text) => {
                    self.add(text);
                    return;
                }
                Err(error) => {
                    let (good, bad) = bytes.split_at(error.valid_up_to());
                    self.add(std::str::from_utf8(good).unwrap_or_default());
                    let Some(length) = error.error_len() else {
                        self.rest = bad.to_vec();
                        return;
                    };
                    self.add("\u{fffd}");
                    bytes = bad.get(length..).unwrap_or_default();
                }
            }
        }
    }

    fn add(&mut self, text: &str) {
        // Nearly all output is plain, and a command may write gigabytes of it.
        if text.bytes().all(is_plain) {
            self.text.push_str(text);
        } else {
            self.text.extend(text.chars().filter(|character| is_shown(*character)));
        }
        // Now and then only: cutting moves what is kept.
        if self.text.len() > self.most.saturating_mul(5) {
            self.cut();
        }
    }

    fn cut(&mut self) {
        let from = start_of_last(&self.text, self.most);
        if from > 0 {
            self.is_cut = true;
            self.text.drain(..from);
        }
    }

    /// What is kept, and whether something before it was dropped. What never became a character is shown as one.
    pub fn finish(mut self) -> (String, bool) {
        if !self.rest.is_empty() {
            self.text.push('\u{fffd}');
        }
        self.cut();
        (self.text, self.is_cut)
    }
}

/// The last `most` characters of a text.
pub fn last(text: &str, most: usize) -> &str {
    text.get(start_of_last(text, most)..).unwrap_or_default()
}

fn start_of_last(text: &str, most: usize) -> usize {
    if text.len() <= most {
        return 0;
    }
    match most.checked_sub(1) {
        None => text.len(),
        Some(_) if text.is_ascii() => text.len() - most,
        Some(before) => text.char_indices().rev().nth(before).map_or(0, |(index, _)| index),
    }
}

/// A byte that is a character by itself, and one that is shown.
const fn is_plain(byte: u8) -> bool {
    matches!(byte, b'\t' | b'\n' | b'\r' | b' '..=b'~')
}

/// Whether a character may be shown: neither a control character but for tab and line ends, nor one without a shape.
const fn is_shown(character: char) -> bool {
    match character {
        '\t' | '\n' | '\r' | '\u{fffd}' => true,
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' => false,
        other => !is_format(other),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(pieces: &[&[u8]], most: usize, expected: (&str, bool)) {
        let mut tail = Tail::new(most);
        for piece in pieces {
            tail.push(piece);
        }
        let (text, is_cut) = tail.finish();
        assert_eq!((text.as_str(), is_cut), expected);
    }

    #[test]
    fn the_newest_part_is_kept() {
        check(&[b"hello ", b"world"], 100, ("hello world", false));
        check(&[b"hello ", b"world"], 5, ("world", true));
        check(&["aäö".as_bytes()], 2, ("äö", true));
        check(&[b"x"], 0, ("", true));
        check(&[], 5, ("", false));
    }

    #[test]
    fn a_cut_character_is_put_together_and_a_broken_one_is_marked() {
        check(&[b"\xe2\x82", b"\xac!"], 9, ("€!", false));
        check(&[b"a\xffb"], 9, ("a\u{fffd}b", false));
        check(&[b"a\xe2\x82"], 9, ("a\u{fffd}", false));
        check(&[b"\xf0", b"\x9f", b"\x98", b"\x80"], 9, ("😀", false));
    }

    #[test]
    fn what_steers_a_terminal_or_hides_is_dropped() {
        check(&[b"a\x1b[31mred\x07\0\x7f\t\r\n"], 99, ("a[31mred\t\r\n", false));
        check(&["a\u{202e}b\u{200b}c\u{9b}d".as_bytes()], 99, ("abcd", false));
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(bytes in proptest::collection::vec(any::<u8>(), 0..400), at in 0usize..400, most in 0usize..50) {
            let (left, right) = bytes.split_at(at.min(bytes.len()));
            let (mut whole, mut parts) = (Tail::new(most), Tail::new(most));
            whole.push(&bytes);
            parts.push(left);
            parts.push(right);
            let (whole, parts) = (whole.finish(), parts.finish());
            prop_assert!(whole.0.chars().count() <= most);
            prop_assert_eq!(whole, parts);
        }
    }
}
