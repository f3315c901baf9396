//! Programs that may run without an entry, if their words are harmless.
//!
//! A safe bin reads its input and writes its output: it names no file, and none of its words runs
//! or writes anything. Each has a grammar of its own; what the grammar does not know is refused.
//! The answer depends on the words alone, never on what files exist: it would be an oracle.

mod jq;
mod profiles;

use std::collections::{BTreeMap, BTreeSet};

use super::program::Found;
use crate::posix;

pub use profiles::Profile;

/// The safe bins in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SafeBins {
    names: BTreeSet<String>,
    directories: BTreeSet<String>,
    profiles: BTreeMap<String, Profile>,
}

/// Safe bins where a config names none.
pub const DEFAULT_NAMES: &[&str] = &["cut", "uniq", "head", "tail", "tr", "wc"];
/// Where a safe bin must lie, whatever a config adds.
pub const DEFAULT_DIRECTORIES: &[&str] = &["/bin", "/usr/bin"];

impl Default for SafeBins {
    fn default() -> Self {
        Self::new(DEFAULT_NAMES.iter().copied(), DEFAULT_DIRECTORIES.iter().copied())
    }
}

impl SafeBins {
    /// Takes names and trusted directories as a config writes them.
    pub fn new<'a>(
        names: impl IntoIterator<Item = &'a str>,
        directories: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let names = names.into_iter().map(normalize).filter(|name| !name.is_empty()).collect();
        let directories = directories.into_iter().map(str::trim).filter(|d| d.starts_with('/'));
        Self {
            names,
            directories: directories.map(posix::normalize).collect(),
            profiles: BTreeMap::new(),
        }
    }

    /// Adds or replaces a program's grammar.
    #[must_use]
    pub fn with_profile(mut self, name: &str, profile: Profile) -> Self {
        self.profiles.insert(normalize(name), profile);
        self
    }

    /// Says whether a program lies where trusted programs do.
    pub fn trusts(&self, found: &Found) -> bool {
        let directory = posix::parent(&found.path);
        self.directories.contains(directory) && !found.facts.agent_may_write()
    }

    /// Says whether a program may run with these words (its name among them).
    pub fn admits(&self, found: &Found, argv: &[String]) -> bool {
        let name = found.name().to_lowercase();
        let words = argv.get(1..).unwrap_or_default();
        if !self.names.contains(&name) || !self.trusts(found) {
            return false;
        }
        let profile = self.profiles.get(&name).or_else(|| profiles::built_in(&name));
        profile.is_some_and(|profile| profile.admits(words)) && (name != "jq" || jq::admits(words))
    }
}

fn normalize(name: &str) -> String {
    name.trim().to_lowercase()
}
