//! A command on the host, from its text to its end, as a straight line.
//!
//! ```text
//! ask the rules ─► run ────────────────────────────────────────► record ─► host_exec ─► record
//!              ├─► ask ─► broker: request ─► wait ─► ask the rules again ─► run what was shown
//!              └─► refuse ─► record
//! ```
//!
//! Every door that lets a command leave the sandbox goes through here. Decides nothing: the rules say
//! where a command goes and whether a person must agree, the broker waits, [`crate::host_exec`] looks
//! again at every file and runs. A policy that got stricter while somebody thought counts. What cannot
//! be recorded does not start.

use std::time::{Duration, Instant};

use clawpen_rules::approval::Decision;
use clawpen_rules::approval::answer::{self, Looks, Settled};
use clawpen_rules::approval::file::{AgentKey, Change, Use};
use clawpen_rules::approval::run_form::Frozen;
use clawpen_rules::command::escape;

use crate::audit::{Call, Piece, Reason, Verdict};
use crate::broker::{Ask, Asker, Broker, BrokerError, Id, Means, NotRun, Outcome as Came, Ran};
use crate::config_store::Store;
use crate::exec_question::{self, CommandAnswer, CommandQuestion, HostAnswer, Outcome};
use crate::explain::QuestionError;
use crate::host_exec::{self, Finished, Limits, Observer, RunError};
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

/// Whoever called: waits, watches, and may take it back.
pub trait Attendant: Observer {
    /// Called once when the question stands, and then every quarter of a second.
    fn waiting(&mut self, id: &Id) -> Waiting;

    /// Puts the same question to the rules as they are now. A door whose config can change reads it again; `Err` says
    /// why the command may not run any more.
    fn ask_again(&mut self) -> Result<CommandAnswer, String>;
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
pub fn run(
    store: &Store,
    broker: &Broker<'_>,
    call: &HostCall<'_>,
    attendant: &mut dyn Attendant,
) -> Result<Called, HostCallError> {
    let answer = exec_question::ask(store, &call.question)?;
    run_answered(store, broker, (call, answer), attendant)
}

/// The same for a question that was answered already.
pub(crate) fn run_answered(
    store: &Store,
    broker: &Broker<'_>,
    (call, answer): (&HostCall<'_>, CommandAnswer),
    attendant: &mut dyn Attendant,
) -> Result<Called, HostCallError> {
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
    let found = Found { answer: &answer, host, frozen, reasons };
    match &host.decision {
        Decision::Ask(_) => asked(store, broker, call, (&found, attendant)),
        Decision::Run(_) | Decision::Refuse(_) => unasked(store, broker, call, (&found, attendant)),
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
    (found, attendant): (&Found<'_>, &mut dyn Attendant),
) -> Result<Called, HostCallError> {
    let Found { answer, host, frozen, reasons } = found;
    let session = answer.explanation.session.key().map(ToString::to_string);
    let ask = Ask {
        command: call.question.text,
        cwd: &answer.cwd,
        session: session.as_deref(),
        agent: answer.explanation.session.agent(),
        plan: Some(frozen),
        variables: call.question.call.overrides,
        reasons: reasons.clone(),
        security: host.policy.security().value,
        ask: host.policy.ask().value,
        fallback: host.policy.ask_fallback().value,
        looks: Looks::of(&host.findings.obfuscation),
        coverage: host.findings.coverage(),
        entries: &host.remember,
        asker: call.asker,
        timeout: call.timeout,
    };
    // A door that died while it waited may have left the very question.
    let id = match broker.adopt(&ask)? {
        Some(id) => id,
        None => broker.request(&ask)?,
    };
    let Some(came) = wait(broker, &id, attendant)? else {
        return Ok(Called::NotRun { id, why: NotRun::Withdrawn });
    };
    // Whoever left while the answer came does not want it any more.
    if attendant.waiting(&id) == Waiting::Stop {
        broker.withdraw(&id)?;
        return Ok(Called::NotRun { id, why: NotRun::Withdrawn });
    }
    // What the person agreed to is fixed; whether anybody may agree to it at all may have changed.
    if let Some(reason) = refused_by_now(attendant.ask_again(), came) {
        broker.withdraw(&id)?;
        let reasons = vec![format!("the policy changed while it was asked: {reason}")];
        return refuse(broker, call, (answer, host), reasons);
    }
    let files = &exec_question::programs(store, &answer.explanation);
    let means = Means { files, limits: call.limits, observer: attendant };
    Ok(match broker.run(&id, frozen, means)? {
        Ran::Finished(finished) => Called::Finished { id: Some(id), finished },
        Ran::Refused(why) => Called::NotRun { id, why },
    })
}

/// Waits for an answer; `None` if whoever called took the question back. One that is not waited for any more, whatever
/// the reason, is taken back too.
pub(crate) fn wait(
    broker: &Broker<'_>,
    id: &Id,
    attendant: &mut dyn Attendant,
) -> Result<Option<Came>, BrokerError> {
    loop {
        if attendant.waiting(id) == Waiting::Stop {
            broker.withdraw(id)?;
            return Ok(None);
        }
        match broker.wait_for(id, STEP) {
            Ok(None) => {}
            Ok(Some(came)) => return Ok(Some(came)),
            Err(error) => {
                // If that fails too, its time-out does it.
                let _unreachable = broker.withdraw(id);
                return Err(error);
            }
        }
    }
}

/// Why what was answered may not run as the rules are now.
fn refused_by_now(again: Result<CommandAnswer, String>, came: Came) -> Option<String> {
    let again = match again {
        Ok(again) => again,
        Err(reason) => return Some(reason),
    };
    let host = match &again.outcome {
        Outcome::Host(host) => host,
        Outcome::Refused { refusal, .. } => return Some(refusal.to_string()),
        Outcome::ToolClosed { reason, .. } => return Some(reason.clone()),
        Outcome::Sandbox { .. } => return Some("the session runs in a sandbox now".to_owned()),
    };
    if let Decision::Refuse(reason) = &host.decision {
        return Some(reason.to_string());
    }
    // Nobody answered, so what silence stands for now is what counts.
    if came == Came::Settled(Settled::RunUnanswered) {
        let fallback = host.policy.ask_fallback().value;
        let looks = Looks::of(&host.findings.obfuscation);
        let settled = answer::decide(answer::Answer::Silence, fallback, looks);
        if let Settled::Refuse(denied) = settled.for_coverage(host.findings.coverage()) {
            return Some(denied.to_string());
        }
    }
    None
}

/// A command that nobody is asked about.
fn unasked(
    store: &Store,
    broker: &Broker<'_>,
    call: &HostCall<'_>,
    (found, attendant): (&Found<'_>, &mut dyn Attendant),
) -> Result<Called, HostCallError> {
    let Found { answer, host, frozen, reasons } = found;
    let programs = exec_question::programs(store, &answer.explanation);
    let plan = frozen.plan.hash().to_string();
    let plan = plan.get(..12).unwrap_or(&plan);
    // Ours comes first: a quotation that is long must not cut it off.
    let policy = format!(
        "(security {}, ask {}, plan {plan})",
        host.policy.security().value,
        host.policy.ask().value
    );
    let why = format!(": {}", reasons.join("; "));
    let starts = format!("starts on the host {policy}");
    let pieces = [Piece::Ours(&starts), Piece::Quoting(&why)];
    let mut record = blank(call, answer, Verdict::Allowed, &pieces);
    broker.database.audit().append(&record, broker.clock.now().wall)?;
    let start = Instant::now();
    let ran = host_exec::run(&frozen.plan, &programs, call.limits, attendant);
    let lost = ran.as_ref().ok().and_then(Finished::lost);
    let lost = lost.map(|left| format!("; {left}")).unwrap_or_default();
    let ended = format!("ran on the host {policy}{lost}");
    record.reason = reason_of(call, answer, &[Piece::Ours(&ended), Piece::Quoting(&why)]);
    record.duration = start.elapsed();
    match &ran {
        Ok(finished) => {
            record.ending = Some(crate::broker::ending(finished));
            record.bytes_out = finished.written;
        }
        Err(error) => {
            record.verdict = match error {
                RunError::Stale(_) => Verdict::Refused,
                RunError::Nul { .. } | RunError::Start { .. } | RunError::Io { .. } => {
                    Verdict::Failed
                }
            };
            let error = error.to_string();
            let pieces = [Piece::Ours("not run: "), Piece::Quoting(&error)];
            record.reason = reason_of(call, answer, &pieces);
        }
    }
    broker.database.audit().append(&record, broker.clock.now().wall)?;
    let finished = ran?;
    note_use(broker, call, (answer, host), frozen);
    Ok(Called::Finished { id: None, finished })
}

/// Notes in the approvals file which entries let a command through. What cannot be noted changes nothing: the record
/// has the fact.
fn note_use(
    broker: &Broker<'_>,
    call: &HostCall<'_>,
    (answer, host): (&CommandAnswer, &HostAnswer),
    frozen: &Frozen,
) {
    let steps = frozen.plan.steps().iter().map(|step| step.file.real_path.as_str());
    let used: Vec<(&str, &str)> = host
        .covered_by
        .iter()
        .zip(steps)
        .filter_map(|(pattern, path)| Some((pattern.as_deref()?, path)))
        .collect();
    if used.is_empty() {
        return;
    }
    let key = AgentKey::of(answer.explanation.session.agent());
    let now_ms = broker.clock.now().wall.as_millis();
    let _noted = broker.approvals.edit(|file| {
        let noted = used.iter().map(|(pattern, path)| {
            let resolved_path = Some(*path);
            file.record_use(
                &key,
                &Use { pattern, command: call.question.text, resolved_path, now_ms },
            )
        });
        let noted: Vec<Change> = noted.collect();
        if noted.contains(&Change::Changed) { Change::Changed } else { Change::Unchanged }
    });
}

fn refuse(
    broker: &Broker<'_>,
    call: &HostCall<'_>,
    (answer, host): (&CommandAnswer, &HostAnswer),
    reasons: Vec<String>,
) -> Result<Called, HostCallError> {
    let joined = reasons.join("; ");
    let record = blank(call, answer, Verdict::Refused, &[Piece::Quoting(&joined)]);
    broker.database.audit().append(&record, broker.clock.now().wall)?;
    Ok(Called::Refused { reasons, changes: host.changes.clone() })
}

fn blank(
    call: &HostCall<'_>,
    answer: &CommandAnswer,
    verdict: Verdict,
    reason: &[Piece<'_>],
) -> Call {
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

/// A reason that quotes no words and paths of the command.
fn reason_of(call: &HostCall<'_>, answer: &CommandAnswer, reason: &[Piece<'_>]) -> Reason {
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
    Reason::of(reason, private)
}
