//! The smallest changes that would let a command run without asking.
//!
//! Takes a verdict; gives one line for each thing that stands in the way. A change is something a
//! person can do; where nothing short of an open policy would help, that is said.

use super::file::AgentKey;
use super::{AskReason, Decision, Findings, RefuseReason};
use crate::command::{Miss, SegmentVerdict, Verdict};
use crate::exec_host::ExecRefusal;

/// The changes that would let the command run without asking; empty if it does already.
pub fn smallest(decision: &Decision, findings: &Findings, agent: &AgentKey) -> Vec<String> {
    let reasons = match decision {
        Decision::Run(_) => return Vec::new(),
        Decision::Refuse(RefuseReason::Missed { .. }) => return misses(findings, agent),
        Decision::Refuse(RefuseReason::NotAnalysable { .. }) => return vec![split_up()],
        Decision::Ask(reasons) => reasons,
    };
    reasons.iter().flat_map(|reason| of_reason(reason, findings, agent)).collect()
}

fn of_reason(reason: &AskReason, findings: &Findings, agent: &AgentKey) -> Vec<String> {
    match reason {
        AskReason::Always { by } => vec![match by.key() {
            Some(key) => format!("set `{key}` to \"on-miss\""),
            None => format!("{by} asks for `always`; leave that out"),
        }],
        AskReason::Missed { .. } => misses(findings, agent),
        AskReason::NotAnalysable { .. } => vec![split_up()],
        AskReason::HereDocument => vec!["put the text into a file and name the file".to_owned()],
        AskReason::InlineCode(_) => {
            vec!["put the code into a script and run that, or let a person agree".to_owned()]
        }
        AskReason::Obfuscated(_) => {
            vec!["write out what it does as plain commands, or let a person agree".to_owned()]
        }
    }
}

fn split_up() -> String {
    "run the parts as separate plain commands, or let a person agree".to_owned()
}

fn misses(findings: &Findings, agent: &AgentKey) -> Vec<String> {
    let mut changes = Vec::new();
    for segment in findings.verdict.iter().flat_map(Verdict::segments) {
        let change = match segment {
            SegmentVerdict::Admitted(_) => continue,
            SegmentVerdict::Missed(miss) => of_miss(miss, agent),
        };
        if !changes.contains(&change) {
            changes.push(change);
        }
    }
    changes
}

fn of_miss(miss: &Miss, agent: &AgentKey) -> String {
    let add = |path: &str| {
        let agent = agent.as_str();
        format!("clawpen approvals allowlist add {} --agent {}", word(path), word(agent))
    };
    match miss {
        Miss::NotListed { path } => add(path),
        Miss::AgentWritable { path } => {
            format!("{} (look at the file first: it is pinned to what it is then)", add(path))
        }
        Miss::Changed { path } => {
            format!("look at what changed, then: {}", add(path))
        }
        Miss::Blocked { wrapper } => format!("run the program itself, without `{wrapper}`"),
        Miss::ShellWord { word } => {
            format!("leave `{word}` out: it means something to a shell only, and none runs here")
        }
        Miss::NotFound { word } => format!("install `{word}`, or give its whole path"),
        Miss::UntrustedWrapper { path } => {
            format!("run the program itself, without `{path}`")
        }
        Miss::AgentSettings { program, .. } => {
            format!("run `{program}` inside the sandbox, or let a person agree")
        }
        Miss::Carrier(carrier) => format!(
            "no entry for `{}` would cover this; a person may agree to exactly these words",
            carrier.program
        ),
    }
}

/// A word as it can be typed.
fn word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@%:,=".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// What would let commands go to the host at all.
pub fn of_refusal(refusal: &ExecRefusal) -> String {
    match refusal {
        ExecRefusal::Denied { by, .. } => match by.key() {
            Some(key) => format!("set `{key}` to \"allowlist\""),
            None => format!("{by} asks for `deny`; leave that out"),
        },
        ExecRefusal::OtherHost { by, .. } => match by.key() {
            Some(key) => format!("leave the host out, or change `{key}`"),
            None => "leave the host out".to_owned(),
        },
        ExecRefusal::LeavesSandbox { .. } => {
            "leave the host out: the sandbox is the place".to_owned()
        }
        ExecRefusal::NoSandbox { .. } => {
            "set `agents.defaults.sandbox.mode` to \"all\", or leave the host out".to_owned()
        }
        ExecRefusal::Node { .. } => {
            "set `tools.exec.host` to \"gateway\" or \"sandbox\"".to_owned()
        }
        ExecRefusal::Approvals { .. } => {
            "mend the approvals file, then look with `clawpen approvals check`".to_owned()
        }
        ExecRefusal::Unreadable(unreadable) => {
            format!("set `{}` to one of {}", unreadable.key, unreadable.known)
        }
    }
}
