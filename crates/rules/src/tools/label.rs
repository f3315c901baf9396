//! A command in a few words, for people who watch an agent at work.
//!
//! The command always stands in the line, because a description by itself can say something else than the command
//! does; only what a plain command is for comes before it.

use crate::command;

/// Characters of a command that are shown.
const MOST: usize = 160;

/// The line for a command.
#[must_use]
pub fn of_command(text: &str) -> String {
    let text = text.trim();
    let first: String = text.chars().take(MOST).collect();
    let end = if first.len() < text.len() { "…" } else { "" };
    let shown = command::escape(&first);
    match purpose(text) {
        Some(purpose) => format!("{purpose}, `{shown}{end}`"),
        None => format!("`{shown}{end}`"),
    }
}

/// What a command is for that a shell would run as it stands.
fn purpose(text: &str) -> Option<&'static str> {
    if text.contains([';', '&', '|', '<', '>', '$', '`', '(', '\\', '\n']) {
        return None;
    }
    match text.split_whitespace().next()? {
        "echo" | "printf" => Some("print text"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_always_shows_the_command_and_describes_only_plain_ones() {
        for (text, expected) in [
            ("echo hi there", "print text, `echo hi there`"),
            ("echo hi > f", "`echo hi > f`"),
            ("echo $(rm -rf x)", "`echo $(rm -rf x)`"),
            ("make", "`make`"),
        ] {
            assert_eq!(of_command(text), expected);
        }
        assert_eq!(of_command(&"a".repeat(500)).chars().count(), MOST + 3);
    }
}
