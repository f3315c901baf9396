//! What "allow always" may remember of a command.
//!
//! Takes an analysis; gives the entries to store, each bound to one executable with its content,
//! one argument list and one directory. Nothing is remembered of a shell, a wrapper or a program that
//! carries another command, and nothing at all where the policy is not an allowlist: there it would
//! only be read one day under another policy.

use super::file::NewEntry;
use super::{Findings, InlineRule};
use crate::approval::file::Binding;
use crate::command::{ContentHash, ProgramFiles};
use crate::exec_host::{HostExec, Security};

/// The entries to store after a person said "always". Empty if there is nothing to remember: the
/// command runs this once, and is asked about again.
pub fn entries(
    policy: &HostExec,
    findings: &Findings,
    inline: InlineRule,
    files: &dyn ProgramFiles,
) -> Vec<NewEntry> {
    let Ok(analysis) = &findings.analysis else { return Vec::new() };
    let has_code = inline == InlineRule::AlwaysAsk && findings.inline_code.is_some();
    if policy.security().value != Security::Allowlist || has_code {
        return Vec::new();
    }
    let remembered = analysis.remember(files).into_iter();
    remembered.map(|entry| NewEntry::remembered(entry, analysis.cwd())).collect()
}

/// What an entry is made of, kept until a person has answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    pub executable: String,
    pub argv: Vec<String>,
    pub cwd: String,
    pub pin: ContentHash,
}

impl Kept {
    /// Takes an entry of [`entries`] apart; `None` for one that a person wrote, which nobody asks
    /// about.
    pub fn of(entry: &NewEntry) -> Option<Self> {
        let pin = entry.pin()?;
        match entry.binding() {
            Binding::Exact { executable, argv, cwd } => Some(Self {
                executable: executable.clone(),
                argv: argv.clone(),
                cwd: cwd.clone(),
                pin,
            }),
            Binding::Pattern | Binding::NotUnderstood { .. } => None,
        }
    }

    /// The entry again: as narrow as it was, bound to words, directory and content.
    pub fn entry(self) -> NewEntry {
        let Self { executable, argv, cwd, pin } = self;
        NewEntry::exact(executable, argv, cwd, pin)
    }
}
