//! The identities of the system as types. Only the rule beside each type can make one.

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
        let text = text.trim();
        let plain = text.starts_with(|c: char| c.is_ascii_alphanumeric())
            && text.len() <= Self::MAX_LENGTH
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
        if plain {
            return Self(text.to_ascii_lowercase());
        }
        let mut id = String::with_capacity(text.len());
        for c in text.to_lowercase().chars() {
            if c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-' {
                id.push(c);
            } else if !id.ends_with('\u{0}') {
                // A marker, so that a run of other characters becomes one dash.
                id.push('\u{0}');
            }
        }
        let id = id.replace('\u{0}', "-");
        let id = id.trim_matches('-');
        let id: String = id.chars().take(Self::MAX_LENGTH).collect();
        if id.is_empty() { Self::main() } else { Self(id) }
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
