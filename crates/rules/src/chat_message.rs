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
        return (None, without_time(text));
    };
    let label = metadata.lines().find_map(|line| {
        let value = line.trim().strip_prefix("\"label\":")?.trim().trim_end_matches(',');
        Some(value.strip_prefix('"')?.strip_suffix('"')?.to_owned())
    });
    (label, without_time(rest))
}

/// A text without the signs by which a model says how its answer is to be delivered: `[[reply_to_current]]`,
/// `[[reply_to: id]]` and `[[audio_as_voice]]`.
#[must_use]
pub fn without_signs(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("[[") {
        let (before, after) = rest.split_at(start);
        kept.push_str(before);
        let sign = after.strip_prefix("[[").and_then(|inner| inner.split_once("]]"));
        if let Some((_, behind)) = sign.filter(|(inner, _)| is_sign(inner)) {
            rest = behind;
        } else {
            kept.push('[');
            rest = after.get(1..).unwrap_or_default();
        }
    }
    kept + rest
}

fn is_sign(inner: &str) -> bool {
    let inner = inner.trim().to_ascii_lowercase();
    let answers =
        inner.strip_prefix("reply_to").and_then(|rest| rest.trim_start().strip_prefix(':'));
    let names_one = answers.is_some_and(|id| !id.trim().is_empty() && !id.contains(['\n', ']']));
    names_one || inner == "reply_to_current" || inner == "audio_as_voice"
}

/// Says whether an answer is only the word by which a model says nothing.
#[must_use]
pub fn is_silent(text: &str) -> bool {
    text.trim() == "NO_REPLY"
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
        assert_eq!(split_head("[Sun 2026-11-15 17:55 UTC] hello"), (None, "hello"));
        assert_eq!(split_head("hello"), (None, "hello"));
    }

    #[test]
    fn signs_of_delivery_are_not_shown() {
        for (text, expected) in [
            ("[[reply_to_current]] yes", " yes"),
            ("a [[ Reply_To : 12 ]]b", "a b"),
            ("[[audio_as_voice]]", ""),
            ("[[1, 2], [3]] and [[x]]", "[[1, 2], [3]] and [[x]]"),
            ("[[reply_to:]] [[open", "[[reply_to:]] [[open"),
            ("[[[reply_to_current]]", "["),
        ] {
            assert_eq!(without_signs(text), expected, "{text}");
        }
    }
}
