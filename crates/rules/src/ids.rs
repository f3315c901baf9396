//! The identities of the system as types. Only the rule beside each type can make one.
//!
//! Here: the agent's id, and the trimming that all identities share. The session's name is
//! [`crate::session::key::SessionKey`], the sandbox's is [`crate::scope::ScopeKey`].

use std::fmt;

/// An agent's id in normal form: lower case, `[a-z0-9_-]`, at most 64 characters.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AgentId(String);

impl AgentId {
    const MAX_LENGTH: usize = 64;

    /// The agent of a config that names none.
    pub fn main() -> Self {
        Self("main".to_owned())
    }

    /// Brings any text into normal form; what is blank or leaves nothing becomes `main`.
    pub fn normalize(text: &str) -> Self {
        let text = trim(text);
        if Self::is_valid(text) {
            return Self(text.to_ascii_lowercase());
        }
        let id = dashed(text, |c| matches!(c, 'a'..='z' | '0'..='9' | '_' | '-'));
        let mut id: String = id.chars().take(Self::MAX_LENGTH).collect();
        // The cut may leave a dash at the end. An id that starts with a letter or digit may end in
        // one; any other is trimmed again, so that normalising twice changes nothing.
        if !Self::is_valid(&id) {
            id.truncate(id.trim_end_matches('-').len());
        }
        if id.is_empty() { Self::main() } else { Self(id) }
    }

    /// Says whether a text is an id as it stands: only its case and outer blanks may change.
    pub fn is_valid(text: &str) -> bool {
        let text = trim(text);
        text.starts_with(|c: char| c.is_ascii_alphanumeric())
            && text.len() <= Self::MAX_LENGTH
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for AgentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Trims what JavaScript calls white space. It differs from Rust's idea in two characters, and the
/// hash in a sandbox's name is taken of the trimmed text.
pub fn trim(text: &str) -> &str {
    text.trim_matches(is_blank)
}

pub(crate) fn is_blank(c: char) -> bool {
    c == '\u{feff}' || (c != '\u{85}' && c.is_whitespace())
}

/// Lower case, every run of characters that are not `kept` as one dash, no dash at either end.
pub(crate) fn dashed(text: &str, kept: fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    let mut in_run = false;
    for c in text.to_lowercase().chars() {
        if kept(c) {
            out.push(c);
        } else if !in_run {
            out.push('-');
        }
        in_run = !kept(c);
    }
    out.trim_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ids_are_lower_case_and_made_of_plain_characters() {
        check("", "main");
        check(" \t", "main");
        check("Main\n", "main");
        check("Work Bot", "work-bot");
        check("my_agent", "my_agent");
        check("-a", "a");
        check("a-", "a-");
        check("--", "main");
        check("Über", "ber");
        check("日本", "main");
        check("İ", "i");
        check("\u{feff}x", "x");
        check("../..", "main");
        check(&"a".repeat(65), &"a".repeat(64));
    }

    #[test]
    fn a_valid_id_needs_no_change_but_case_and_blanks() {
        for (text, expected) in
            [("MAIN", true), (" a ", true), ("a-", true), ("-a", false), ("", false), ("é", false)]
        {
            assert_eq!(AgentId::is_valid(text), expected, "{text}");
        }
        assert!(!AgentId::is_valid(&"a".repeat(65)));
    }

    proptest! {
        #[test]
        fn normalising_twice_changes_nothing(text in "\\PC{0,80}|[_a-c -]{60,70}") {
            let once = AgentId::normalize(&text);
            prop_assert_eq!(&AgentId::normalize(once.as_str()), &once);
            prop_assert!(once.as_str().len() <= 64 && !once.as_str().is_empty());
        }
    }

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(AgentId::normalize(text).as_str(), expected, "{text:?}");
    }
}
