//! A chat message's text: made plain before anybody sees it, and freed of the head that the reference puts before it.
//!
//! Takes text, gives text. Decides nothing about what it says.

use unicode_normalization::UnicodeNormalization as _;

/// A message as it is kept: composed letters, and no control characters but tabs and line ends.
#[must_use]
pub fn clean(message: &str) -> String {
    let is_kept = |letter: &char| !letter.is_control() || matches!(letter, '\t' | '\n' | '\r');
    message.nfc().filter(is_kept).collect()
}

/// A stored message without its head, and the label of its sender that stood there.
///
/// The reference writes who sent a message, and when, into the message itself. People are shown the label and the text.
#[must_use]
pub fn split_head(text: &str) -> (Option<String>, &str) {
    const HEAD: &str = "Sender (untrusted metadata):\n```json\n";
    let Some((metadata, rest)) =
        text.split_once(HEAD).and_then(|(_, rest)| rest.split_once("\n```\n\n"))
    else {
        return (None, text);
    };
    let label = metadata.lines().find_map(|line| {
        let value = line.trim().strip_prefix("\"label\":")?.trim().trim_end_matches(',');
        Some(value.strip_prefix('"')?.strip_suffix('"')?.to_owned())
    });
    (label, without_time(rest))
}

/// A text without `[Sun 2026-11-15 17:55 UTC] ` before it.
fn without_time(text: &str) -> &str {
    let inner = text.strip_prefix('[').and_then(|rest| rest.split_once("] "));
    let is_time = |stamp: &str| {
        let digits = stamp.chars().filter(char::is_ascii_digit).count();
        stamp.len() <= 40 && digits >= 12 && stamp.contains(':')
    };
    match inner {
        Some((stamp, rest)) if is_time(stamp) => rest,
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_made_plain() {
        assert_eq!(clean("e\u{301}\t\u{7}x\r\n\u{1b}[2J\u{9b}y"), "\u{e9}\tx\r\n[2Jy");
    }

    #[test]
    fn a_head_of_the_reference_is_no_part_of_the_message() {
        let stored = "Sender (untrusted metadata):\n```json\n{\n  \"label\": \"cli\",\n  \"id\": \"cli\"\n}\n```\n\n\
                      [Sun 2026-11-15 17:55 UTC] [x] hello";
        assert_eq!(split_head(stored), (Some("cli".to_owned()), "[x] hello"));
        assert_eq!(split_head("[Sun] hello"), (None, "[Sun] hello"));
        assert_eq!(split_head("hello"), (None, "hello"));
    }
}
