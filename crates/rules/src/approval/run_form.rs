//! In which form a command runs: its parsed words, or a shell that reads its text.
//!
//! What a list covers runs as its words, file by file, without a shell. A text that only a shell can
//! read runs as one step, `/bin/sh -c TEXT`, and only where the policy or a person lets everything
//! through; that step is frozen, shown and pinned like any other, so nobody agrees to something he
//! does not see.

use super::{Coverage, Findings};
use crate::command::{
    self, Miss, NotAnalysable, Plan, ProgramFiles, Request, SegmentVerdict, Unplannable, Verdict,
};
use crate::exec_host::{HostExec, Security};

/// The shell that reads texts.
const SHELL: &str = "/bin/sh";

/// What would run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frozen {
    pub form: Form,
    pub plan: Plan,
}

/// How the words are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// As they stand: nothing is expanded.
    Words,
    /// By a shell.
    Shell,
}

/// Why nothing can be frozen, so nothing can run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotFrozen {
    #[error(transparent)]
    Words(Unplannable),
    #[error(transparent)]
    Shell(Unplannable),
    #[error(transparent)]
    Text(NotAnalysable),
}

/// Freezes what would run under this policy, if it runs.
pub fn freeze(
    policy: &HostExec,
    findings: &Findings,
    request: &Request<'_>,
    files: &dyn ProgramFiles,
) -> Result<Frozen, NotFrozen> {
    let words = |plan| Frozen { form: Form::Words, plan };
    match (&findings.analysis, findings.coverage(), policy.security().value) {
        // What the list covers is exactly its words, or nothing.
        (Ok(analysis), Coverage::Covered, Security::Allowlist | Security::Deny) => {
            analysis.freeze(files).map(words).map_err(NotFrozen::Words)
        }
        // A person who agrees to a command that can be frozen agrees to its words.
        (Ok(analysis), _, Security::Allowlist | Security::Deny) => match analysis.freeze(files) {
            Ok(plan) => Ok(words(plan)),
            Err(why) if needs_shell(&why, findings) => shell(request, files),
            // A program that is not there yet could be anything when it is.
            Err(why) => Err(NotFrozen::Words(why)),
        },
        (Ok(_), _, Security::Full) | (Err(_), _, _) => shell(request, files),
    }
}

/// Says whether only a shell knows what the words mean: a wrapper that is not followed, or a word
/// such as `cd`.
fn needs_shell(why: &Unplannable, findings: &Findings) -> bool {
    match why {
        Unplannable::Blocked { .. } => true,
        Unplannable::Unreadable { .. } => false,
        Unplannable::NotFound { word } => {
            let segments = findings.verdict.iter().flat_map(Verdict::segments);
            let shell_word = SegmentVerdict::Missed(Miss::ShellWord { word: word.clone() });
            segments.into_iter().any(|segment| *segment == shell_word)
        }
    }
}

/// The plan of a shell that reads the text.
fn shell(request: &Request<'_>, files: &dyn ProgramFiles) -> Result<Frozen, NotFrozen> {
    let named = command::agents_files(request.text, request.cwd, files);
    let text = format!("{SHELL} -c '{}'", request.text.replace('\'', "'\"'\"'"));
    let request = Request { text: &text, ..*request };
    let analysis = command::analyse(&request, files).map_err(NotFrozen::Text)?;
    let plan = analysis.freeze(files).map_err(NotFrozen::Shell)?;
    // The agent must not put another program there while a person reads.
    Ok(Frozen { form: Form::Shell, plan: plan.with_files(named) })
}
