//! Makes a text safe to show to whoever must agree to it.
//!
//! Characters that cannot be seen, that change the direction of text, that move a cursor or that end
//! a line are written as `\u{HEX}`, so that what is read is what is there. Only for eyes: the
//! answer never runs. A backslash stays one, so the escape is a warning, not an encoding.

use std::fmt::Write as _;

/// The text with every treacherous character spelled out.
pub fn escape(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if is_treacherous(character) {
            // Writing to a string cannot fail.
            let _ = write!(shown, "\\u{{{:X}}}", u32::from(character));
        } else {
            shown.push(character);
        }
    }
    shown
}

/// The text in a fence that nothing in it can close, for where Markdown is rendered.
pub fn fenced(text: &str) -> String {
    let shown = escape(text);
    let longest = shown.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat((longest + 1).max(3));
    format!("{fence}\n{shown}\n{fence}")
}

/// Says whether a character can be on a screen without being seen as what it is.
fn is_treacherous(character: char) -> bool {
    let is_blank = character.is_whitespace() && character != ' ';
    is_blank || character.is_control() || is_invisible(character)
}

/// Says whether a character is drawn as nothing at all.
pub(super) const fn is_invisible(character: char) -> bool {
    is_format(character) || is_filler(character)
}

/// Letters that are drawn as nothing.
const fn is_filler(character: char) -> bool {
    matches!(
        character,
        '\u{034f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{2800}' | '\u{3164}'
            | '\u{ffa0}' | '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}' | '\u{180b}'..='\u{180f}'
    )
}

/// The format characters of Unicode (category Cf), private use and what stands for no character.
pub(crate) const fn is_format(character: char) -> bool {
    matches!(
        character,
        '\u{ad}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{890}' | '\u{891}'
            | '\u{8e2}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff0}'..='\u{fffb}' | '\u{110bd}' | '\u{110cd}'
            | '\u{13430}'..='\u{1343f}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e007f}' | '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..='\u{10ffff}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b24_what_cannot_be_seen_is_spelled_out() {
        check("ls -la", "ls -la");
        check("é 😀 日本", "é 😀 日本");
        check("rm\u{200b} x", "rm\\u{200B} x");
        check("a\u{202e}txt.exe", "a\\u{202E}txt.exe");
        check("a\u{2066}b\u{2069}", "a\\u{2066}b\\u{2069}");
        check("a\u{3164}b\u{115f}\u{1160}\u{ffa0}", "a\\u{3164}b\\u{115F}\\u{1160}\\u{FFA0}");
        check("a\u{a0}b\u{3000}c\u{feff}", "a\\u{A0}b\\u{3000}c\\u{FEFF}");
    }

    #[test]
    fn b24_lines_and_terminal_commands_are_spelled_out() {
        check("a\nb\rc\td", "a\\u{A}b\\u{D}c\\u{9}d");
        check("\u{1b}[31mred\u{7}", "\\u{1B}[31mred\\u{7}");
        check("a\u{2028}b\u{85}", "a\\u{2028}b\\u{85}");
        check("tag\u{e0041}\u{fe0f}", "tag\\u{E0041}\\u{FE0F}");
    }

    #[test]
    fn b24_no_text_closes_its_fence() {
        for (text, expected) in [
            ("ls", "```\nls\n```"),
            ("a ``` b", "````\na ``` b\n````"),
            ("x\n```\n**run me**", "````\nx\\u{A}```\\u{A}**run me**\n````"),
        ] {
            assert_eq!(fenced(text), expected);
        }
    }

    #[test]
    fn b24_nothing_treacherous_is_left_in_any_text() {
        for code in 0..=0x0010_ffff {
            let Some(character) = char::from_u32(code) else { continue };
            let shown = escape(&character.to_string());
            assert!(!shown.chars().any(is_treacherous), "U+{code:04X}");
            assert!(shown == character.to_string() || shown.is_ascii(), "U+{code:04X}");
        }
    }

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(escape(text), expected);
    }
}
