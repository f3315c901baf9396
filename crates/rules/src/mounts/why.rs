//! `why bind SPEC`: the decision on an entry, and the smallest change that would allow it.
//!
//! The advice is proved, not guessed: each change is put in place and the entry decided again, until
//! it is allowed or no change helps.

use std::fmt;

use super::refusal::{Refusal, Remedy};
use super::{BindDecision, BindPolicy, Sources, Targets, decide};
use crate::host_files::HostFiles;

/// More problems than one entry can have; a remedy that does not help ends the search as well.
const MAX_STEPS: usize = 8;

/// An entry, judged and advised on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Why {
    pub decision: BindDecision,
    pub advice: Advice,
}

/// What to do about an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Advice {
    /// Nothing: it is not refused.
    NotNeeded,
    /// With all of these the entry is allowed.
    Change(Vec<Change>),
    /// The owner must say what was meant.
    ByHand(&'static str),
    /// No change helps; the refusal that remains may not be the first.
    Never(Refusal),
}

/// One change of the config.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A key below `sandbox.docker` that must be true.
    SetTrue(&'static str),
    /// The entry, written differently.
    Write(String),
}

/// Says whether `entry` may be mounted, and what would allow it.
#[must_use]
pub fn why(entry: &str, policy: &BindPolicy, files: &impl HostFiles) -> Why {
    let decision = decide(entry, policy, files);
    let advice = match &decision {
        BindDecision::Allow(_) | BindDecision::Blank => Advice::NotNeeded,
        BindDecision::Refuse(refusal) => advise(refusal.clone(), entry, policy.clone(), files),
    };
    Why { decision, advice }
}

fn advise(
    mut refusal: Refusal,
    entry: &str,
    mut policy: BindPolicy,
    files: &impl HostFiles,
) -> Advice {
    let mut entry = entry.to_owned();
    let mut changes = Vec::new();
    for _ in 0..MAX_STEPS {
        match refusal.remedy() {
            Remedy::Never => return Advice::Never(refusal),
            Remedy::ByHand(what) => return Advice::ByHand(what),
            Remedy::AllowExternalSources => {
                policy.sources = Sources::Anywhere;
                changes.push(Change::SetTrue("sandbox.docker.dangerouslyAllowExternalBindSources"));
            }
            Remedy::AllowReservedTargets => {
                policy.targets = Targets::Anywhere;
                changes.push(Change::SetTrue(
                    "sandbox.docker.dangerouslyAllowReservedContainerTargets",
                ));
            }
            Remedy::Rewrite(better) => {
                // Only the last writing counts; the earlier ones were steps towards it.
                changes.retain(|change| matches!(change, Change::SetTrue(_)));
                changes.push(Change::Write(better.clone()));
                entry = better;
            }
        }
        match decide(&entry, &policy, files) {
            BindDecision::Allow(_) => return Advice::Change(changes),
            BindDecision::Blank => return Advice::ByHand("write it as `source:target`"),
            BindDecision::Refuse(next) if next == refusal => return Advice::Never(next),
            BindDecision::Refuse(next) => refusal = next,
        }
    }
    Advice::Never(refusal)
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.decision {
            BindDecision::Allow(bind) => {
                let access = bind.access().as_str();
                write!(f, "allowed: `{}` at `{}`, {access}", bind.real_source(), bind.target())?;
            }
            BindDecision::Blank => f.write_str("blank: binds nothing")?,
            BindDecision::Refuse(refusal) => write!(f, "refused: {refusal}")?,
        }
        match &self.advice {
            Advice::NotNeeded => Ok(()),
            Advice::ByHand(what) => write!(f, "\nto allow it: {what}"),
            Advice::Never(last) => match &self.decision {
                BindDecision::Refuse(first) if first != last => {
                    write!(f, "\nnothing can allow it: {last}")
                }
                BindDecision::Refuse(_) | BindDecision::Allow(_) | BindDecision::Blank => {
                    f.write_str("\nnothing can allow it")
                }
            },
            Advice::Change(changes) => {
                f.write_str("\nto allow it:")?;
                changes.iter().try_for_each(|change| match change {
                    Change::SetTrue(key) => write!(f, "\n  set {key}=true"),
                    Change::Write(entry) => write!(f, "\n  write the bind as `{entry}`"),
                })
            }
        }
    }
}
