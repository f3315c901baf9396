//! What becomes of a call that a person must agree to: the one place where a call waits for an answer.
//!
//! ```text
//! question ─► broker ─► told to whoever watches ─► wait: answer, time-out, or the caller leaves (taken back)
//!                                                   └► the rules as they are now ─► run, or why not
//! ```
//!
//! Nothing has run before, and without a yes nothing does. Whoever leaves takes the question along. Decides nothing: who
//! may answer is `rules::approval::resolver`, what the answer means `rules::approval::answer`.

use std::fmt::Write as _;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use clawpen_rules::approval::answer::{Denied, Looks, Settled};
use clawpen_rules::approval::in_sandbox::InSandbox;
use clawpen_rules::approval::resolver::RunPlace;
use clawpen_rules::approval::{Coverage, Decision};
use clawpen_rules::command::{escape, fenced};
use clawpen_rules::exec_host::{self, Security};
use clawpen_rules::tools::arguments::ExecCall;
use clawpen_rules::tools::output::{AGGREGATED, Tail};

use super::desk::{ToolRequest, Turn};
use super::exec::elevation;
use super::failure::{NotApproved, ToolCallError};
use super::{policy, prepare};
use crate::approvals_file::ApprovalsStore;
use crate::audit::Ending;
use crate::broker::{Ask, Asker, Bound, Broker, Id, NotRun, Outcome as Came};
use crate::exec_question::{self, CommandAnswer, CommandQuestion, HostAnswer, Outcome};
use crate::host_call::{self, Attendant, Waiting};
use crate::host_exec::Observer;

/// Calls of one door that wait, or run on the host, at once. Fewer than it carries out at once, so that a session that asks and asks leaves
/// room for the others.
const MOST: usize = 32;
/// A prompt is for a person, who reads no more.
const LONGEST_PROMPT: usize = 8_000;

/// The calls of a door that wait for people.
#[derive(Debug, Default)]
pub(super) struct Waiters(AtomicUsize);

/// One of them; leaves when it goes out of scope.
#[derive(Debug)]
pub(super) struct Waits<'a>(&'a AtomicUsize);

impl Waiters {
    pub(super) fn enter(&self) -> Result<Waits<'_>, ToolCallError> {
        let room = |count: usize| (count < MOST).then_some(count + 1);
        match self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, room) {
            Ok(_) => Ok(Waits(&self.0)),
            Err(count) => Err(ToolCallError::Denied(format!(
                "{count} calls wait for a person or run on the host already; have them answered with `clawpen approvals \
                 watch`, then call again"
            ))),
        }
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A question that waits for a person, for a door that can put it to the one behind its client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending {
    pub id: String,
    /// What the person should see.
    pub prompt: String,
    pub passing_on: PassingOn,
    /// How long the person has.
    pub timeout: Duration,
}

/// Whether a yes counts that a client passes on. A no always does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PassingOn {
    Counts,
    IsNotHeard,
}

/// A call that waits, and then perhaps runs on the host.
pub(super) struct Attending<'a, 'r> {
    pub(super) turn: &'a Turn<'a>,
    pub(super) call: &'a ExecCall,
    pub(super) question: CommandQuestion<'a>,
    pub(super) request: &'a mut ToolRequest<'r>,
    pub(super) tail: Tail,
    prompt: Prompt,
    place: RunPlace,
    told: bool,
}

impl<'a, 'r> Attending<'a, 'r> {
    pub(super) fn new(
        turn: &'a Turn<'a>,
        (call, question): (&'a ExecCall, CommandQuestion<'a>),
        request: &'a mut ToolRequest<'r>,
        (prompt, place): (Prompt, RunPlace),
    ) -> Self {
        let tail = Tail::new(AGGREGATED);
        Self { turn, call, question, request, tail, prompt, place, told: false }
    }
}

impl Observer for Attending<'_, '_> {
    fn output(&mut self, bytes: &[u8]) {
        self.tail.push(bytes);
        self.request.watch.output(bytes);
    }

    fn stop(&self) -> Option<BorrowedFd<'_>> {
        Some(self.request.stop.as_fd())
    }
}

impl Attendant for Attending<'_, '_> {
    fn waiting(&mut self, id: &Id) -> Waiting {
        if !std::mem::replace(&mut self.told, true) {
            let settings = &self.turn.prepared.own.approvals;
            let covers = settings.elicitation.value.covers(self.place);
            let passing_on = if covers && self.prompt.is_whole {
                PassingOn::Counts
            } else {
                PassingOn::IsNotHeard
            };
            let prompt = format!(
                "{}\n\nElsewhere: clawpen approvals resolve {} allow-once (or deny)",
                self.prompt.text,
                id.slug()
            );
            let timeout = settings.timeout.value;
            self.request.watch.asked(&Pending { id: id.to_string(), prompt, passing_on, timeout });
        }
        if self.request.stop.is_pulled() { Waiting::Stop } else { Waiting::GoOn }
    }

    /// Config, tool policy and elevated gates count as they are now.
    fn ask_again(&mut self) -> Result<CommandAnswer, String> {
        let turn = self.turn;
        let store = (turn.reload)().map_err(|error| error.for_model())?;
        let prepared = prepare(&store, &turn.who.target()).map_err(|error| error.to_string())?;
        let layers = policy::layers(&store, &prepared);
        policy::admit("exec", &layers, (&store, &prepared)).map_err(|error| error.for_model())?;
        if self.place == RunPlace::Sandbox
            && prepared.wanted().row.fingerprint != turn.prepared.wanted().row.fingerprint
        {
            return Err("the settings of the sandbox are others now; call again".to_owned());
        }
        let elevation = elevation((&store, &prepared), turn.who, self.call.aim.elevated)
            .map_err(|error| error.to_string())?;
        let mut question = self.question;
        question.call.elevation = &elevation;
        exec_question::ask_about(&store, prepared.explanation.clone(), &question)
            .map_err(|error| error.to_string())
    }
}

impl Turn<'_> {
    pub(super) fn approvals(&self) -> ApprovalsStore {
        ApprovalsStore::of_home(&self.store.locations.home)
    }

    pub(super) fn broker<'b>(&'b self, approvals: &'b ApprovalsStore) -> Broker<'b> {
        Broker { database: &self.yard.database, approvals, clock: self.yard.clock() }
    }

    pub(super) fn asker(&self) -> Asker<'_> {
        let client = self.who.client.as_deref();
        Asker { door: self.door, client, agent_process: self.who.agent_process }
    }
}

/// Asks about a command that stays in the sandbox and would run in `cwd`. With a yes the approval is used up, and the caller runs the command
/// and says how it ended ([`ended`]).
pub(super) fn in_sandbox(
    turn: &Turn<'_>,
    (call, question): (&ExecCall, CommandQuestion<'_>),
    request: &mut ToolRequest<'_>,
    (asks, cwd): (&InSandbox, &str),
) -> Result<Id, ToolCallError> {
    let _waits = turn.waiters.enter()?;
    let approvals = turn.approvals();
    let broker = turn.broker(&approvals);
    let reasons = vec![asks.to_string()];
    let timeout = turn.prepared.own.approvals.timeout.value;
    let id = broker.request(&Ask {
        command: &call.command,
        cwd,
        session: turn.session(),
        agent: turn.agent(),
        plan: None,
        variables: &call.env,
        reasons: reasons.clone(),
        security: Security::Full,
        ask: exec_host::Ask::Always,
        // Silence is a no: `rules::approval::in_sandbox`.
        fallback: Security::Deny,
        looks: Looks::Plain,
        coverage: Coverage::NotAnalysable,
        entries: &[],
        asker: turn.asker(),
        timeout,
    })?;
    let mut text = prompt_text(turn, "in the sandbox", (&call.command, cwd), &reasons);
    push_variables(&mut text, &call.env);
    let prompt = cut(text);
    let place = RunPlace::Sandbox;
    let mut attending = Attending::new(turn, (call, question), request, (prompt, place));
    let came = host_call::wait(&broker, &id, &mut attending)?;
    let not_run = |why| Err(not_approved(&id, &why, timeout));
    match came {
        None => return Err(ToolCallError::Cancelled),
        Some(Came::Withdrawn) => return not_run(NotRun::Withdrawn),
        Some(Came::Settled(Settled::Refuse(denied))) => return not_run(NotRun::Denied(denied)),
        Some(Came::Settled(_)) => {}
    }
    // Whoever left while the answer came does not want it any more.
    if attending.request.stop.is_pulled() {
        broker.withdraw(&id)?;
        return Err(ToolCallError::Cancelled);
    }
    let changed = match attending.ask_again().map(|again| again.outcome) {
        Ok(Outcome::Sandbox { .. }) => None,
        Ok(Outcome::Host(_)) => Some("commands go to the host now".to_owned()),
        Ok(Outcome::Refused { refusal, .. }) => Some(refusal.to_string()),
        Ok(Outcome::ToolClosed { reason, .. }) | Err(reason) => Some(reason),
    };
    if let Some(reason) = changed {
        broker.withdraw(&id)?;
        return Err(ToolCallError::Denied(format!(
            "the policy changed while a person was asked: {reason}"
        )));
    }
    let bound = Bound::Call { command: &call.command, cwd, variables: &call.env };
    match broker.claim(&id, bound)? {
        Ok(()) => Ok(id),
        Err(why) => not_run(why),
    }
}

/// Writes down that a command that was asked about ran in the sandbox.
pub(super) fn ended(turn: &Turn<'_>, id: &Id, ending: Option<Ending>) -> Result<(), ToolCallError> {
    let approvals = turn.approvals();
    Ok(turn.broker(&approvals).finish(id, ending)?)
}

/// Why a command that was asked about did not run, and what would help.
pub(super) fn not_approved(id: &Id, why: &NotRun, timeout: Duration) -> ToolCallError {
    let again = "call again to ask again";
    let (what, next, code) = match why {
        NotRun::Denied(Denied::ByPerson) => (
            "a person said no to this command; it was not run".to_owned(),
            "do not try it in another form, ask the user what to do instead".to_owned(),
            "user-denied",
        ),
        NotRun::Denied(
            denied @ (Denied::Silence | Denied::SilenceOnObfuscation | Denied::SilenceOnMiss),
        ) => (
            format!("nobody answered within {} s ({denied}); it was not run", timeout.as_secs()),
            format!(
                "ask the user to open `clawpen approvals watch` in a terminal, then {again} (`approvals.timeoutSec` in \
                 clawpen.json sets the time)"
            ),
            "approval-timeout",
        ),
        NotRun::Withdrawn | NotRun::Pending => {
            ("it was taken back before it ran".to_owned(), again.to_owned(), "approval-withdrawn")
        }
        NotRun::Used(_) | NotRun::NotTheAsker => {
            (format!("it was not run: {why}"), again.to_owned(), "approval-used")
        }
        NotRun::OtherPlan => (format!("it was not run: {why}"), again.to_owned(), "approval-stale"),
        NotRun::Run(_) => (
            format!("it was allowed and then not run: {why}"),
            format!("if that is no surprise, {again}"),
            "approval-stale",
        ),
    };
    ToolCallError::NotApproved(Box::new(NotApproved { id: id.slug().to_owned(), what, next, code }))
}

/// What a person is shown.
pub(super) struct Prompt {
    text: String,
    /// Nobody can agree to what he does not see.
    is_whole: bool,
}

/// What a person sees of a command on the host: everything that would run.
pub(super) fn prompt_on_host(
    turn: &Turn<'_>,
    call: &ExecCall,
    (answer, host): (&CommandAnswer, &HostAnswer),
) -> Prompt {
    let reasons: Vec<String> = match &host.decision {
        Decision::Ask(reasons) => reasons.iter().map(ToString::to_string).collect(),
        Decision::Run(_) | Decision::Refuse(_) => Vec::new(),
    };
    let place = "on this machine, outside the sandbox";
    let mut text = prompt_text(turn, place, (&call.command, &answer.cwd), &reasons);
    push_variables(&mut text, &call.env);
    if let Ok(frozen) = &host.frozen {
        for step in frozen.plan.steps() {
            let words: Vec<String> = step.argv.iter().map(|word| format!("{word:?}")).collect();
            let (file, words) = (escape(&step.file.real_path), escape(&words.join(" ")));
            // Writing to a text cannot fail.
            let _ = write!(text, "\nruns {file} with {words}");
            if let Some(input) = &step.input {
                let _ = write!(text, "\nand this as its input:\n{}", fenced(input));
            }
        }
        let names: Vec<&str> = frozen.plan.environment().keys().map(String::as_str).collect();
        let _ = write!(text, "\nall variables by name: {}", escape(&names.join(" ")));
    }
    cut(text)
}

/// What a call sets beside its words can change what they do as much as other words.
fn push_variables(text: &mut String, variables: &[(String, String)]) {
    for (name, value) in variables {
        let variable = escape(&format!("{name}={value}"));
        let _ = write!(text, "\nvariables: {variable}");
    }
}

fn prompt_text(
    turn: &Turn<'_>,
    place: &str,
    (command, cwd): (&str, &str),
    reasons: &[String],
) -> String {
    let who = turn.session().map_or_else(|| turn.agent().to_string(), str::to_owned);
    format!(
        "An agent ({}) wants to run this {place}:\n{}\nin {}\nwhy you are asked: {}",
        escape(&who),
        fenced(command),
        escape(cwd),
        escape(&reasons.join("; "))
    )
}

fn cut(text: String) -> Prompt {
    if text.chars().count() <= LONGEST_PROMPT {
        return Prompt { text, is_whole: true };
    }
    let start: String = text.chars().take(LONGEST_PROMPT).collect();
    let text = format!("{start}\n… there is more, which only `clawpen approvals watch` shows");
    Prompt { text, is_whole: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_sees_every_variable_and_what_does_not_fit_is_not_agreed_to() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let mut text = "runs".to_owned();
        push_variables(&mut text, &[pair("A", "1"), pair("B", "x\nvariables: C=2")]);
        assert_eq!(text, "runs\nvariables: A=1\nvariables: B=x\\u{A}variables: C=2");
        assert!(cut(text.clone()).is_whole);
        push_variables(&mut text, &[pair("D", &"x".repeat(LONGEST_PROMPT))]);
        assert!(!cut(text).is_whole);
    }
}
