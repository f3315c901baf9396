//! A command on the host, from its text to its end, as a straight line.
//!
//! ```text
//! ask the rules ─► run ─────────────────────────────────────────────► host_exec ─► record
//!              ├─► ask ─► broker: request ─► wait ─► ask the rules again ─► run what was shown
//!              └─► refuse ─► record
//! ```
//!
//! Every door that lets a command leave the sandbox goes through here. Decides nothing: the rules say
//! where a command goes and whether a person must agree, the broker waits, [`crate::host_exec`] looks
//! again at every file and runs. A policy that got stricter while somebody thought counts.

use std::time::{Duration, Instant};

use clawpen_rules::approval::Decision;
use clawpen_rules::approval::answer::Looks;
use clawpen_rules::approval::run_form::Frozen;
use clawpen_rules::command::escape;

use crate::audit::{Call, Reason, Verdict};
use crate::broker::{Ask, Asker, Broker, BrokerError, Id, NotRun, Ran};
use crate::config_store::Store;
use crate::exec_question::{self, CommandAnswer, CommandQuestion, HostAnswer, Outcome};
use crate::explain::QuestionError;
use crate::host_exec::{self, Finished, Limits, RunError};
use crate::random;

/// How often whoever waits is asked whether to go on.
const STEP: Duration = Duration::from_millis(250);

/// A command that wants to run.
#[derive(Debug, Clone)]
pub struct HostCall<'a> {
    pub question: CommandQuestion<'a>,
    pub asker: Asker<'a>,
    /// How long a person has to answer.
    pub timeout: Duration,
    pub limits: Limits,
}

/// What came of it.
#[derive(Debug)]
pub enum Called {
    /// It goes to no host: into the sandbox, or nowhere. The answer says which, and nothing was done.
    Elsewhere(Box<CommandAnswer>),
    /// A rule refuses it.
    Refused { reasons: Vec<String>, changes: Vec<String> },
    /// A person was asked, and it does not run.
    NotRun { id: Id, why: NotRun },
    /// It ran to its end. `id` names the approval, if there was one.
    Finished { id: Option<Id>, finished: Finished },
}

/// What whoever waits wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waiting {
    GoOn,
    /// The question is taken back.
    Stop,
}

/// What could not be found out or done.
#[derive(Debug, thiserror::Error)]
pub enum HostCallError {
    #[error(transparent)]
    Question(#[from] QuestionError),
    #[error(transparent)]
    Broker(#[from] BrokerError),
    /// What is not recorded is not done.
    #[error("the call cannot be recorded")]
    Audit(#[from] crate::audit::AuditError),
    #[error(transparent)]
    Run(#[from] RunError),
}

/// Runs a command on the host if the rules, and a person where they say so, let it.
///
/// `waiting` is called once when the question stands, and then every quarter of a second, with its id.
pub fn run(
    store: &Store,
    broker: &Broker<'_>,
    call: &HostCall<'_>,
    waiting: &mut dyn FnMut(&Id) -> Waiting,
) -> Result<Called, HostCallError> {
    let answer = exec_question::ask(store, &call.question)?;
    let host = match &answer.outcome {
        Outcome::Host(host) => host,
        Outcome::ToolClosed { .. } | Outcome::Sandbox { .. } | Outcome::Refused { .. } => {
            return Ok(Called::Elsewhere(Box::new(answer)));
        }
    };
    let reasons: Vec<String> = match &host.decision {
        Decision::Run(reason) => vec![reason.to_string()],
        Decision::Ask(reasons) => reasons.iter().map(ToString::to_string).collect(),
        Decision::Refuse(reason) => vec![reason.to_string()],
    };
    let frozen = match (&host.decision, &host.frozen) {
        (Decision::Run(_) | Decision::Ask(_), Ok(frozen)) => frozen,
        (Decision::Refuse(_), _) => return refuse(broker, call, (&answer, host), reasons),
        // What cannot be frozen cannot run, whoever agrees.
        (Decision::Run(_) | Decision::Ask(_), Err(why)) => {
            return refuse(broker, call, (&answer, host), vec![why.to_string()]);
        }
    };
    match &host.decision {
        Decision::Ask(_) => {
            let found = Found { answer: &answer, host, frozen, reasons };
            asked(store, broker, call, (&found, waiting))
        }
        Decision::Run(_) | Decision::Refuse(_) => {
            unasked(store, broker, call, (&answer, frozen, &reasons.join("; ")))
        }
    }
}

/// A command about which a person is asked.
struct Found<'a> {
    answer: &'a CommandAnswer,
    host: &'a HostAnswer,
    frozen: &'a Frozen,
    reasons: Vec<String>,
}

fn asked(
    store: &Store,
    broker: &Broker<'_>,
    call: &HostCall<'_>,
    (found, waiting): (&Found<'_>, &mut dyn FnMut(&Id) -> Waiting),
) -> Result<Called, HostCallError> {
    let Found { answer, host, frozen, reasons } = found;
    let session = answer.explanation.session.key().map(ToString::to_string);
    let id = broker.request(&Ask {
        command: call.question.text,
        cwd: &answer.cwd,
        session: session.as_deref(),
        agent: answer.explanation.session.agent(),
        plan: Some(frozen),
        reasons: reasons.clone(),
        security: host.policy.security().value,
        ask: host.policy.ask().value,
        fallback: host.policy.ask_fallback().value,
        looks: Looks::of(&host.findings.obfuscation),
        coverage: host.findings.coverage(),
        entries: &host.remember,
        asker: call.asker,
        timeout: call.timeout,
    })?;
    loop {
        if waiting(&id) == Waiting::Stop {
            broker.withdraw(&id)?;
            return Ok(Called::NotRun { id, why: NotRun::Withdrawn });
        }
        if broker.wait_for(&id, STEP)?.is_some() {
            break;
        }
    }
    // What the person agreed to is fixed; whether anybody may agree to it at all may have changed.
    let again = exec_question::ask(store, &call.question)?;
    let refusal = match &again.outcome {
        Outcome::Host(host) => match &host.decision {
            Decision::Run(_) | Decision::Ask(_) => None,
            Decision::Refuse(reason) => Some(reason.to_string()),
        },
        Outcome::Refused { refusal, .. } => Some(refusal.to_string()),
        Outcome::ToolClosed { reason, .. } => Some(reason.clone()),
        Outcome::Sandbox { .. } => Some("the session runs in a sandbox now".to_owned()),
    };
    if let Some(reason) = refusal {
        broker.withdraw(&id)?;
        let reasons = vec![format!("the policy changed while it was asked: {reason}")];
        return refuse(broker, call, (answer, host), reasons);
    }
    let programs = exec_question::programs(store, &answer.explanation);
    Ok(match broker.run(&id, frozen, &programs, call.limits)? {
        Ran::Finished(finished) => Called::Finished { id: Some(id), finished },
        Ran::Refused(why) => Called::NotRun { id, why },
    })
}

/// A command that nobody is asked about.
fn unasked(
    store: &Store,
    broker: &Broker<'_>,
    call: &HostCall<'_>,
    (answer, frozen, reason): (&CommandAnswer, &Frozen, &str),
) -> Result<Called, HostCallError> {
    let programs = exec_question::programs(store, &answer.explanation);
    let start = Instant::now();
    let ran = host_exec::run(&frozen.plan, &programs, call.limits);
    let mut record = blank(call, answer, Verdict::Allowed, reason);
    record.duration = start.elapsed();
    match &ran {
        Ok(finished) => {
            record.ending = Some(crate::broker::ending(finished));
            record.bytes_out = (finished.output.len() + finished.errors.len()) as u64;
        }
        Err(error) => {
            record.verdict = match error {
                RunError::Stale(_) => Verdict::Refused,
                RunError::Nul { .. } | RunError::Start { .. } | RunError::Io { .. } => {
                    Verdict::Failed
                }
            };
            record.reason = reason_of(call, answer, &error.to_string());
        }
    }
    broker.database.audit().append(&record, broker.clock.now().wall)?;
    Ok(Called::Finished { id: None, finished: ran? })
}

fn refuse(
    broker: &Broker<'_>,
    call: &HostCall<'_>,
    (answer, host): (&CommandAnswer, &HostAnswer),
    reasons: Vec<String>,
) -> Result<Called, HostCallError> {
    let record = blank(call, answer, Verdict::Refused, &reasons.join("; "));
    broker.database.audit().append(&record, broker.clock.now().wall)?;
    Ok(Called::Refused { reasons, changes: host.changes.clone() })
}

fn blank(call: &HostCall<'_>, answer: &CommandAnswer, verdict: Verdict, reason: &str) -> Call {
    let session = &answer.explanation.session;
    Call {
        call: random::uuid(),
        session: session.key().map(ToString::to_string),
        agent: Some(session.agent().to_string()),
        scope: None,
        door: call.asker.door,
        tool: "exec".to_owned(),
        verdict,
        reason: reason_of(call, answer, reason),
        ending: None,
        duration: Duration::ZERO,
        bytes_in: 0,
        bytes_out: 0,
    }
}

/// A reason without the words and paths of the command.
fn reason_of(call: &HostCall<'_>, answer: &CommandAnswer, reason: &str) -> Reason {
    let escaped = escape(call.question.text);
    let mut private: Vec<&str> = vec![call.question.text, &escaped, &answer.cwd];
    private.extend(call.question.text.split_whitespace());
    let plan = match &answer.outcome {
        Outcome::Host(host) => host.frozen.as_ref().ok().map(|frozen| &frozen.plan),
        Outcome::ToolClosed { .. } | Outcome::Sandbox { .. } | Outcome::Refused { .. } => None,
    };
    for step in plan.iter().flat_map(|plan| plan.steps()) {
        private.extend(step.argv.iter().map(String::as_str));
    }
    for file in plan.iter().flat_map(|plan| plan.files()) {
        private.extend([file.path.as_str(), file.real_path.as_str()]);
    }
    Reason::hiding(reason, private)
}
