//! What "always allow" stores for a command: each program with its exact words and directory.
//!
//! Nothing is stored for what is not followed or not found, and never a shell, a wrapper or a
//! program that carries another command: such an entry would admit anything.

use sha2::{Digest as _, Sha256};

use super::carriers;
use super::program::{ContentHash, ProgramFiles};
use super::{Analysis, Content, Invocation, Runs, Segment};

/// Exact words in one directory, as a hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Binding(ContentHash);

impl Binding {
    /// Binds to words (the program's name among them) and a directory.
    pub fn of(argv: &[String], cwd: &str) -> Self {
        let mut hash = Sha256::new();
        hash.update(b"clawpen binding 1\0");
        for text in std::iter::once(cwd).chain(argv.iter().map(String::as_str)) {
            // The length goes first, so that no two lists of words look the same.
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text.as_bytes());
        }
        Self(ContentHash(hash.finalize().into()))
    }

    /// Reads what [`Binding`] prints.
    pub fn parse(text: &str) -> Option<Self> {
        ContentHash::parse(text).map(Self)
    }
}

impl std::fmt::Display for Binding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// An entry that "always allow" stores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remembered {
    /// The program, or the script that a shell runs.
    pub path: String,
    pub binding: Binding,
    /// What the file is now: it must still be that when the entry is used.
    pub pin: ContentHash,
    /// What the binding is made from, to show.
    pub argv: Vec<String>,
}

impl Analysis {
    /// The entries to store, one for each segment that may have one; no path twice with the same words.
    pub fn remember(&self, files: &dyn ProgramFiles) -> Vec<Remembered> {
        let mut entries: Vec<Remembered> = Vec::new();
        for segment in self.segments() {
            if let Some(entry) = self.remember_segment(segment, files)
                && !entries.contains(&entry)
            {
                entries.push(entry);
            }
        }
        entries
    }

    /// The entry to store for one segment.
    pub fn remember_segment(
        &self,
        segment: &Segment,
        files: &dyn ProgramFiles,
    ) -> Option<Remembered> {
        let runs: &Runs = match &segment.invocation {
            Invocation::Runs(runs) if !runs.is_multiplexed() => runs,
            Invocation::Runs(_) | Invocation::Blocked(_) => return None,
        };
        if carriers::agent_settings(runs, &self.cwd, files).is_some() {
            return None;
        }
        let found = match &runs.content {
            Content::Carrier(_) => return None,
            Content::Plain | Content::Script(_) => runs.program.found.as_ref()?,
            Content::ShellScript(script) => script.found.as_ref()?,
            Content::Carried { program, .. } => program.found.as_ref()?,
        };
        // Where a script runs, it is what must not change; its interpreter is the system's.
        let pinned = match &runs.content {
            Content::Script(script) => script.found.as_ref()?,
            Content::Plain
            | Content::Carrier(_)
            | Content::ShellScript(_)
            | Content::Carried { .. } => found,
        };
        // Nothing in an agent's own directories is allowed for ever: its content could be held to, but not
        // what it loads, or what its first line names.
        if found.facts.is_agents() || pinned.facts.is_agents() {
            return None;
        }
        let argv = runs.effective_argv();
        Some(Remembered {
            path: found.path.clone(),
            binding: Binding::of(argv, &self.cwd),
            pin: files.hash(&pinned.facts.real_path)?,
            argv: argv.to_vec(),
        })
    }
}
