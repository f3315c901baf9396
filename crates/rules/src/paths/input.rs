//! What a path means as people and models write it: `@file`, `~/x`, unusual blanks.

use std::fmt;

use crate::posix;

/// A path that no file can be meant by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadInput {
    /// The kernel would read the path only up to it.
    Nul,
    /// `..` between backslashes: a name on Linux, a step upwards to whoever turns it into slashes.
    BackslashSteps,
    /// A `file://` URL of another machine, or one that cannot be read.
    Url,
}

impl fmt::Display for BadInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nul => "it contains a NUL character",
            Self::BackslashSteps => "it steps upwards between backslashes; write it with `/`",
            Self::Url => "it is no URL of a file of this machine; write the path",
        })
    }
}

/// Refuses what two readers would take for two different files.
pub fn check(input: &str) -> Result<(), BadInput> {
    if input.contains('\0') {
        return Err(BadInput::Nul);
    }
    let steps = |part: &str| part.contains('\\') && part.split('\\').any(|name| name == "..");
    if strip_at(input).split('/').any(steps) {
        return Err(BadInput::BackslashSteps);
    }
    Ok(())
}

/// Drops one leading `@`, makes unusual blanks plain and puts the home for `~`.
pub fn expand(input: &str, home: &str) -> String {
    let path: String =
        strip_at(input).chars().map(|c| if is_unusual_blank(c) { ' ' } else { c }).collect();
    match path.strip_prefix('~') {
        Some("") => home.to_owned(),
        Some(rest) if rest.starts_with('/') => format!("{home}{rest}"),
        Some(_) | None => path,
    }
}

/// A path as people like to see it: the home shown as `~`.
pub fn with_tilde(path: &str, home: &str) -> String {
    match posix::relative(&posix::normalize(home), path) {
        Some("") if home != "/" => "~".to_owned(),
        Some(rest) if home != "/" => format!("~/{rest}"),
        Some(_) | None => path.to_owned(),
    }
}

fn strip_at(input: &str) -> &str {
    input.strip_prefix('@').unwrap_or(input)
}

fn is_unusual_blank(c: char) -> bool {
    matches!(c, '\u{a0}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_signs_blanks_and_tildes_are_expanded() {
        for (input, expected) in [
            ("@a", "a"),
            ("@@a", "@a"),
            ("a\u{a0}b\u{3000}c", "a b c"),
            ("a\u{200b}b", "a\u{200b}b"),
            ("~", "/home/ann"),
            ("@~/x", "/home/ann/x"),
            ("~ann/x", "~ann/x"),
            ("", ""),
        ] {
            assert_eq!(expand(input, "/home/ann"), expected, "{input}");
        }
    }

    #[test]
    fn names_that_two_readers_would_read_differently_are_refused() {
        assert_eq!(check("a\0b"), Err(BadInput::Nul));
        assert_eq!(check("..\\x"), Err(BadInput::BackslashSteps));
        assert_eq!(check("@a/b\\..\\c"), Err(BadInput::BackslashSteps));
        for fine in ["back\\slash", "../x", "..x\\y", "a\\...\\b", "..;/x", ""] {
            assert_eq!(check(fine), Ok(()), "{fine}");
        }
    }

    #[test]
    fn the_home_is_shown_as_a_tilde_by_whole_components() {
        assert_eq!(with_tilde("/home/ann", "/home/ann/"), "~");
        assert_eq!(with_tilde("/home/ann/ws", "/home/ann"), "~/ws");
        assert_eq!(with_tilde("/home/anna", "/home/ann"), "/home/anna");
        assert_eq!(with_tilde("/srv", "/"), "/srv");
    }
}
