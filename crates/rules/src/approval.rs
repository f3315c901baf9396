//! Decides whether a command on the host runs, is asked about, or is refused.
//!
//! Takes the policy in force ([`crate::exec_host`]) and what the command was found to be
//! ([`crate::command`]); returns a [`Decision`] with every reason that counts. What then runs is
//! frozen by [`run_form`]: files, words, directory and environment are fixed before anybody is asked.
//!
//! ```text
//! text ──command──► analysis ──trust──► covered, missed or not analysable
//!                                              │
//!                  security, ask ──────► decide ──► run │ ask ──answer──► run, remember │ refuse
//! ```
//!
//! Nothing here waits for a person: [`answer`] says what an answer means. What may be remembered is
//! up to [`always`], and where that is stored to [`file`].

pub mod always;
pub mod answer;
pub mod change;
pub mod environment;
pub mod file;
pub mod in_sandbox;
pub mod run_form;
pub mod settings;

use std::fmt;

use crate::command::{
    self, Analysis, InlineCode, Miss, NotAnalysable, Obfuscation, ProgramFiles, Request, Trust,
    Verdict,
};
use crate::exec_host::{Ask, HostExec, Prompts, Security, Source};

/// How far what is trusted covers a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coverage {
    /// Every program in it is let through.
    Covered,
    /// At least one is not.
    Missed,
    /// The text was not understood, so nothing can cover it.
    NotAnalysable,
}

/// Everything that was found out about a command text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Findings {
    pub analysis: Result<Analysis, NotAnalysable>,
    /// Beside an analysis.
    pub verdict: Option<Verdict>,
    pub inline_code: Option<InlineCode>,
    /// Signs that the text hides what it does.
    pub obfuscation: Vec<Obfuscation>,
}

/// Whether code in a command's words is always asked about (`tools.exec.strictInlineEval`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InlineRule {
    AlwaysAsk,
    AsPolicySays,
}

/// The verdict on a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    Run(RunReason),
    /// For all of these reasons; there is at least one.
    Ask(Vec<AskReason>),
    Refuse(RefuseReason),
}

/// Why a command just runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunReason {
    /// Entries, safe filters or skills let every program through.
    Covered,
    /// The policy lets everything through.
    Full { by: Source },
}

/// Why a person must agree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AskReason {
    /// The policy asks about everything.
    Always {
        by: Source,
    },
    /// Nothing lets one of the programs through.
    Missed {
        miss: Option<Miss>,
    },
    NotAnalysable {
        why: NotAnalysable,
    },
    /// A program is fed a text of its own.
    HereDocument,
    InlineCode(InlineCode),
    Obfuscated(Vec<Obfuscation>),
}

/// Why a command is refused without asking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RefuseReason {
    /// Nothing lets one of the programs through, and nobody is to be asked.
    Missed {
        miss: Option<Miss>,
        ask: Source,
    },
    NotAnalysable {
        why: NotAnalysable,
        ask: Source,
    },
}

impl Findings {
    /// Finds out what a command is, and whether `trust` covers it.
    pub fn of(request: &Request<'_>, trust: &Trust<'_>, files: &dyn ProgramFiles) -> Self {
        let analysis = command::analyse(request, files);
        let found = analysis.as_ref().ok();
        Self {
            verdict: found.map(|analysis| command::decide(analysis, trust, files)),
            inline_code: found.and_then(Analysis::inline_code),
            obfuscation: command::detect_obfuscation(request.text),
            analysis,
        }
    }

    pub fn coverage(&self) -> Coverage {
        match &self.verdict {
            None => Coverage::NotAnalysable,
            Some(verdict) if verdict.is_satisfied() => Coverage::Covered,
            Some(_) => Coverage::Missed,
        }
    }

    fn has_here_document(&self) -> bool {
        self.analysis.as_ref().is_ok_and(Analysis::has_here_document)
    }

    fn first_miss(&self) -> Option<Miss> {
        self.verdict.as_ref().and_then(Verdict::first_miss).cloned()
    }
}

/// Says whether policy alone wants a person to agree, whatever the text looks like.
pub const fn policy_asks(security: Security, ask: Ask, coverage: Coverage) -> bool {
    match (ask, security, coverage) {
        (Ask::Always, _, _)
        | (Ask::OnMiss, Security::Allowlist, Coverage::Missed | Coverage::NotAnalysable) => true,
        (Ask::OnMiss, Security::Allowlist, Coverage::Covered)
        | (Ask::OnMiss, Security::Deny | Security::Full, _)
        | (Ask::Off, _, _) => false,
    }
}

/// Decides whether a command runs, is asked about or is refused. `Security::Deny` never comes this
/// far: [`crate::exec_host::decide`] has refused it, and if it did come it would be refused here.
#[must_use]
pub fn decide(policy: &HostExec, findings: &Findings, inline: InlineRule) -> Decision {
    let (security, ask) = (policy.security(), policy.ask());
    let coverage = findings.coverage();
    let mut reasons = Vec::new();
    if policy_asks(security.value, ask.value, coverage) {
        reasons.push(policy_reason(policy, findings));
    }
    let is_listed = security.value == Security::Allowlist && coverage == Coverage::Covered;
    if is_listed && findings.has_here_document() {
        reasons.push(AskReason::HereDocument);
    }
    if inline == InlineRule::AlwaysAsk {
        reasons.extend(findings.inline_code.clone().map(AskReason::InlineCode));
    }
    if policy.prompts() == Prompts::Ask && !findings.obfuscation.is_empty() {
        reasons.push(AskReason::Obfuscated(findings.obfuscation.clone()));
    }
    if !reasons.is_empty() && security.value != Security::Deny {
        return Decision::Ask(reasons);
    }
    match (security.value, coverage) {
        (Security::Allowlist, Coverage::Covered) => Decision::Run(RunReason::Covered),
        (Security::Full, _) => Decision::Run(RunReason::Full { by: security.source.clone() }),
        (Security::Deny, _) | (Security::Allowlist, Coverage::Missed | Coverage::NotAnalysable) => {
            Decision::Refuse(refusal(policy, findings))
        }
    }
}

fn policy_reason(policy: &HostExec, findings: &Findings) -> AskReason {
    match (policy.ask().value, &findings.analysis) {
        (Ask::Always, _) => AskReason::Always { by: policy.ask().source.clone() },
        (Ask::OnMiss | Ask::Off, Ok(_)) => AskReason::Missed { miss: findings.first_miss() },
        (Ask::OnMiss | Ask::Off, Err(why)) => AskReason::NotAnalysable { why: why.clone() },
    }
}

fn refusal(policy: &HostExec, findings: &Findings) -> RefuseReason {
    let ask = policy.ask().source.clone();
    match &findings.analysis {
        Ok(_) => RefuseReason::Missed { miss: findings.first_miss(), ask },
        Err(why) => RefuseReason::NotAnalysable { why: why.clone(), ask },
    }
}

impl fmt::Display for RunReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Covered => {
                f.write_str("everything in it is on the allowlist or is a safe filter")
            }
            Self::Full { by } => write!(f, "security is `full` (set by {by})"),
        }
    }
}

impl fmt::Display for AskReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Always { by } => write!(f, "everything is asked about (`always`, set by {by})"),
            Self::Missed { miss: Some(miss) } => write!(f, "{miss}"),
            Self::Missed { miss: None } => f.write_str("the allowlist does not cover it"),
            Self::NotAnalysable { why } => write!(f, "{why}"),
            Self::HereDocument => {
                f.write_str("a program is fed a here-document, which always needs a person's word")
            }
            Self::InlineCode(code) => write!(
                f,
                "`{} {}` carries code of its own, and `tools.exec.strictInlineEval` is on",
                code.name, code.flag
            ),
            Self::Obfuscated(signs) => {
                f.write_str("the text looks as if it hides something: ")?;
                for (index, sign) in signs.iter().enumerate() {
                    write!(f, "{}{}", if index == 0 { "" } else { "; " }, sign.what)?;
                }
                Ok(())
            }
        }
    }
}

impl fmt::Display for RefuseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ask = match self {
            Self::Missed { miss: Some(miss), ask } => {
                write!(f, "{miss}")?;
                ask
            }
            Self::Missed { miss: None, ask } => {
                f.write_str("the allowlist does not cover it")?;
                ask
            }
            Self::NotAnalysable { why, ask } => {
                write!(f, "{why}")?;
                ask
            }
        };
        write!(f, "; and nobody is asked (`ask` set by {ask})")
    }
}

#[cfg(test)]
mod tests;
