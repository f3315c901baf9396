//! `clawpen why command`: run, ask or refuse; the plan as it would run; the smallest change.

use clawpen_engine::config_store;
use clawpen_engine::exec_question::{self, CallFacts, CommandAnswer, CommandQuestion, HostAnswer};
use clawpen_engine::explain::Question;
use clawpen_rules::approval::in_sandbox::InSandbox;
use clawpen_rules::approval::run_form::{Form, Frozen};
use clawpen_rules::approval::{Coverage, Decision};
use clawpen_rules::command::{Admission, PinnedFile, SegmentVerdict, Step, Verdict, escape};
use clawpen_rules::exec_host::{Ask, Chosen, Security};
use clawpen_rules::posix;
use serde_json::{Value, json};

use super::CommandError;
use crate::args::{self, Format};
use crate::exit::Outcome;
use crate::output::{Output, safe};

/// May a command run?
pub(crate) fn run(
    question: &args::CommandQuestion,
    output: &Output,
) -> Result<Outcome, CommandError> {
    let answer = ask(question)?;
    let verdict = Shown::of(&answer);
    match question.format.format() {
        Format::Json => output.json(&verdict.json(question, &answer))?,
        Format::Text => output.lines(&verdict.lines(question, &answer))?,
    }
    Ok(verdict.outcome)
}

/// Does the allowlist cover a command?
pub(crate) fn coverage(
    question: &args::CommandQuestion,
    output: &Output,
) -> Result<Outcome, CommandError> {
    let answer = ask(question)?;
    let exec_question::Outcome::Host(host) = &answer.outcome else {
        // Nothing reaches the host, so the list is not asked; `why command` says why.
        return run(question, output);
    };
    let covered = host.findings.coverage() == Coverage::Covered;
    match question.format.format() {
        Format::Json => output.json(&json!({
            "command": question.text,
            "analysable": host.findings.analysis.is_ok(),
            "covered": covered,
            "segments": segments_json(host),
        }))?,
        Format::Text => {
            let word = if covered { "yes" } else { "no" };
            let mut lines = vec![format!("{word}: {}", shown_text(&question.text))];
            match &host.findings.analysis {
                Ok(_) => lines.extend(segment_lines(host)),
                Err(why) => lines.push(format!("  rule: {}", escape(&why.to_string()))),
            }
            output.lines(&lines)?;
        }
    }
    Ok(if covered { Outcome::Done } else { Outcome::Refused })
}

fn ask(question: &args::CommandQuestion) -> Result<CommandAnswer, CommandError> {
    let store = config_store::open()?;
    let cwd = match &question.cwd {
        None => None,
        Some(cwd) => {
            let here = std::env::current_dir()?.into_os_string().into_string();
            let here = here.map_err(|_path| CommandError::Question {
                what: "the current directory is not valid UTF-8; give an absolute --cwd".to_owned(),
            })?;
            Some(posix::resolve(&here, cwd))
        }
    };
    let who = Question {
        agent: question.subject.agent.as_deref(),
        session: question.subject.session.as_deref(),
        channels: &[],
    };
    let call = CallFacts::default();
    let question = CommandQuestion { text: &question.text, cwd: cwd.as_deref(), who, call };
    Ok(exec_question::ask(&store, &question)?)
}

/// The parts that both forms of output share.
struct Shown {
    outcome: Outcome,
    /// `run`, `ask` or `refuse`.
    decision: &'static str,
    /// `sandbox`, `gateway`, or nothing if it runs nowhere.
    host: Option<&'static str>,
    why_there: Option<String>,
    reasons: Vec<String>,
    changes: Vec<String>,
    warnings: Vec<String>,
}

impl Shown {
    fn of(answer: &CommandAnswer) -> Self {
        let none = Self {
            outcome: Outcome::Refused,
            decision: "refuse",
            host: None,
            why_there: None,
            reasons: Vec::new(),
            changes: Vec::new(),
            warnings: Vec::new(),
        };
        match &answer.outcome {
            exec_question::Outcome::ToolClosed { reason, changes } => {
                let reasons = vec![format!("the tool `exec` is closed: {reason}")];
                Self { reasons, changes: changes.clone(), ..none }
            }
            exec_question::Outcome::Refused { refusal, change } => {
                Self { reasons: vec![refusal.to_string()], changes: vec![change.clone()], ..none }
            }
            exec_question::Outcome::Sandbox { exec, asks } => {
                let inside =
                    Self { host: Some("sandbox"), why_there: Some(exec.why().to_string()), ..none };
                let refusals = answer.explanation.refusals();
                match (refusals.first().map(|(refused, _)| refused.to_string()), asks) {
                    // A sandbox that cannot be made runs nothing, and nothing else takes its place.
                    (Some(refusal), _) => Self {
                        reasons: vec![format!("the sandbox cannot be made: {refusal}")],
                        ..inside
                    },
                    (None, InSandbox::Run { .. }) => Self {
                        outcome: Outcome::Done,
                        decision: "run",
                        reasons: vec![asks.to_string()],
                        ..inside
                    },
                    (None, InSandbox::Ask { by }) => Self {
                        outcome: Outcome::MustAsk,
                        decision: "ask",
                        reasons: vec![asks.to_string()],
                        changes: vec![format!("set `{}` to false in clawpen.json", by.key)],
                        ..inside
                    },
                }
            }
            exec_question::Outcome::Host(host) => Self::of_host(host),
        }
    }

    fn of_host(host: &HostAnswer) -> Self {
        let (outcome, decision, mut reasons) = match &host.decision {
            Decision::Run(reason) => (Outcome::Done, "run", vec![reason.to_string()]),
            Decision::Ask(reasons) => {
                let reasons = reasons.iter().map(ToString::to_string).collect();
                (Outcome::MustAsk, "ask", reasons)
            }
            Decision::Refuse(reason) => (Outcome::Refused, "refuse", vec![reason.to_string()]),
        };
        // What cannot be frozen cannot run, whoever agrees.
        let (outcome, decision) = match &host.frozen {
            Ok(_) => (outcome, decision),
            Err(why) => {
                reasons.push(why.to_string());
                (Outcome::Refused, "refuse")
            }
        };
        Self {
            outcome,
            decision,
            host: Some("gateway"),
            why_there: Some(host.policy.why().to_string()),
            reasons,
            changes: host.changes.clone(),
            warnings: host.warnings.clone(),
        }
    }

    fn lines(&self, question: &args::CommandQuestion, answer: &CommandAnswer) -> Vec<String> {
        let mut lines = vec![format!("{}: {}", self.decision, shown_text(&question.text))];
        if let (Some(host), Some(why)) = (self.host, &self.why_there) {
            // Inside a sandbox the directory has another name.
            let cwd = match &answer.outcome {
                exec_question::Outcome::Host(_) => format!(", in {}", escape(&answer.cwd)),
                exec_question::Outcome::ToolClosed { .. }
                | exec_question::Outcome::Refused { .. }
                | exec_question::Outcome::Sandbox { .. } => String::new(),
            };
            lines.push(format!("  where: {host}{cwd} ({})", escape(why)));
        }
        if let exec_question::Outcome::Host(host) = &answer.outcome {
            lines.push(format!(
                "  policy: security {} (set by {}), ask {} (set by {})",
                host.policy.security().value,
                escape(&host.policy.security().source.to_string()),
                host.policy.ask().value,
                escape(&host.policy.ask().source.to_string()),
            ));
            lines.extend(plan_lines(host));
        }
        let rules = self.reasons.iter().map(|reason| format!("  rule: {}", escape(reason)));
        lines.extend(rules);
        lines.extend(self.changes.iter().map(|change| format!("  change: {}", escape(change))));
        lines.extend(self.warnings.iter().map(|warning| format!("  note: {}", safe(warning))));
        lines
    }

    fn json(&self, question: &args::CommandQuestion, answer: &CommandAnswer) -> Value {
        let session = answer.explanation.session.key().map(ToString::to_string);
        let mut shown = json!({
            "command": question.text,
            "session": session,
            "agent": answer.explanation.session.agent().as_str(),
            "cwd": answer.cwd,
            "decision": self.decision,
            "host": self.host,
            "hostReason": self.why_there,
            "reasons": self.reasons,
            "changes": self.changes,
            "warnings": self.warnings,
        });
        if let exec_question::Outcome::Host(host) = &answer.outcome {
            let security = |chosen: &Chosen<Security>| json!({ "value": chosen.value.as_str(), "by": chosen.source.to_string() });
            let ask = |chosen: &Chosen<Ask>| json!({ "value": chosen.value.as_str(), "by": chosen.source.to_string() });
            shown["policy"] = json!({
                "security": security(host.policy.security()),
                "ask": ask(host.policy.ask()),
                "askFallback": security(host.policy.ask_fallback()),
            });
            shown["analysable"] = json!(host.findings.analysis.is_ok());
            shown["segments"] = segments_json(host);
            shown["plan"] = host.frozen.as_ref().map_or(Value::Null, plan_json);
        }
        shown
    }
}

/// A text as one line that hides nothing.
fn shown_text(text: &str) -> String {
    escape(text)
}

/// A word of a plan. Anything but plain letters is quoted, and inside quotes a backslash is doubled,
/// so that no two words look the same.
pub(super) fn shown_word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@%:,=".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", escape(&word.replace('\\', "\\\\").replace('\'', "\\'")))
}

/// The plan as a tree: what is started, with which words, and what lets it through.
fn plan_lines(host: &HostAnswer) -> Vec<String> {
    let Ok(Frozen { form, plan }) = &host.frozen else { return segment_lines(host) };
    let how = match form {
        Form::Words => "these words, nothing expanded, no shell",
        Form::Shell => "a shell reads the text",
    };
    let mut lines = vec![format!("  plan: {how}; {}", plan.hash())];
    let verdicts: Vec<String> = match form {
        Form::Words => segment_words(host),
        Form::Shell => Vec::new(),
    };
    for (index, step) in plan.steps().iter().enumerate() {
        lines.extend(step_lines(step));
        lines.extend(verdicts.get(index).map(|verdict| format!("      {verdict}")));
    }
    lines
}

fn step_lines(step: &Step) -> Vec<String> {
    let words: Vec<String> = step.argv.iter().map(|word| shown_word(word)).collect();
    let joint = match step.joint.as_str() {
        "" => String::new(),
        joint => format!("{joint} "),
    };
    let mut lines = vec![format!("    {joint}{}", words.join(" "))];
    lines.push(format!("      file: {}", file_text(&step.file)));
    lines.extend(step.others.iter().map(|file| format!("      file: {}", file_text(file))));
    lines.extend(step.input.iter().map(|input| format!("      reads: '{}'", escape(input))));
    lines
}

fn file_text(file: &PinnedFile) -> String {
    let path = shown_word(&file.path);
    let real = shown_word(&file.real_path);
    let hash = file.hash.to_string();
    let hash = hash.get(..16).unwrap_or(&hash);
    if path == real {
        format!("{path} (sha256 {hash}…)")
    } else {
        format!("{path} -> {real} (sha256 {hash}…)")
    }
}

/// The segments alone, where there is no plan.
fn segment_lines(host: &HostAnswer) -> Vec<String> {
    let Ok(analysis) = &host.findings.analysis else { return Vec::new() };
    let verdicts = segment_words(host);
    let mut lines = Vec::new();
    for (segment, verdict) in analysis.segments().zip(verdicts) {
        let words: Vec<String> = segment.argv.iter().map(|word| shown_word(word)).collect();
        lines.push(format!("    {}", words.join(" ")));
        lines.push(format!("      {verdict}"));
    }
    lines
}

/// What lets each segment through, or why nothing does, in words.
fn segment_words(host: &HostAnswer) -> Vec<String> {
    let verdicts = host.findings.verdict.iter().flat_map(Verdict::segments);
    let words = verdicts.zip(&host.covered_by).map(|(verdict, entry)| match verdict {
        SegmentVerdict::Admitted(Admission::Entry(_)) => {
            format!("by: entry {}", shown_word(entry.as_deref().unwrap_or_default()))
        }
        SegmentVerdict::Admitted(Admission::SafeBin) => "by: safe filter".to_owned(),
        SegmentVerdict::Admitted(Admission::Skill) => "by: skill".to_owned(),
        SegmentVerdict::Missed(miss) => format!("not covered: {}", escape(&miss.to_string())),
    });
    words.collect()
}

fn segments_json(host: &HostAnswer) -> Value {
    let Ok(analysis) = &host.findings.analysis else { return json!([]) };
    let verdicts = host.findings.verdict.iter().flat_map(Verdict::segments);
    let shown = analysis.segments().zip(verdicts).zip(&host.covered_by);
    let shown = shown.map(|((segment, verdict), entry)| {
        let (by, miss) = match verdict {
            SegmentVerdict::Admitted(Admission::Entry(_)) => (Some("entry"), None),
            SegmentVerdict::Admitted(Admission::SafeBin) => (Some("safeBin"), None),
            SegmentVerdict::Admitted(Admission::Skill) => (Some("skill"), None),
            SegmentVerdict::Missed(miss) => (None, Some(miss.to_string())),
        };
        json!({ "argv": segment.argv, "coveredBy": by, "entry": entry, "miss": miss })
    });
    shown.collect()
}

fn plan_json(frozen: &Frozen) -> Value {
    let Frozen { form, plan } = frozen;
    let file = |file: &PinnedFile| json!({ "path": file.path, "realPath": file.real_path, "sha256": file.hash.to_string() });
    let steps = plan.steps().iter().map(|step| {
        json!({
            "joint": step.joint.as_str(),
            "file": file(&step.file),
            "argv": step.argv,
            "others": step.others.iter().map(file).collect::<Vec<_>>(),
            "input": step.input,
        })
    });
    json!({
        "hash": plan.hash().to_string(),
        "form": match form { Form::Words => "words", Form::Shell => "shell" },
        "cwd": plan.cwd(),
        "environment": plan.environment().keys().collect::<Vec<_>>(),
        "steps": steps.collect::<Vec<_>>(),
    })
}
