//! `exec` outside the sandbox: the frozen plan of a command that the rules, and a person where they say so, let out.
//!
//! Takes the rules' answer; gives what the model sees. The command is tied to its call: it ends when the caller leaves,
//! when its time is over and when this process dies, and nothing goes to the background here. What it writes is cut as
//! in the sandbox. [`crate::host_call`] does the rest.

use std::path::Path;
use std::time::{Duration, Instant};

use clawpen_os::process::{ExitStatus, Signal};
use clawpen_rules::approval::Decision;
use clawpen_rules::approval::resolver::RunPlace;
use clawpen_rules::tools::arguments::{ExecCall, Startup, Terminal};
use clawpen_rules::tools::exec::{self as rules, Background, Ended, Times};
use clawpen_rules::tools::output::Extent;
use serde_json::json;

use super::ask::{self, Attending};
use super::desk::{RecordDoor, ToolRequest, Turn};
use super::exec::with_changes;
use super::failure::ToolCallError;
use crate::broker::Id;
use crate::exec_question::{self, CommandAnswer, CommandQuestion, HostAnswer, Outcome};
use crate::host_call::{self, Called, HostCall, HostCallError};
use crate::host_exec::{End, Errors, Finished, Limits, RunError};
use crate::tools::Answer;

/// A command without a time-out still ends.
const LONGEST: Duration = Duration::from_secs(30 * 24 * 3600);

/// Runs a command that the rules send to the host.
pub(super) fn run(
    turn: &Turn<'_>,
    (call, question): (&ExecCall, CommandQuestion<'_>),
    answer: CommandAnswer,
    request: &mut ToolRequest<'_>,
) -> Result<Answer, ToolCallError> {
    let arguments = request.arguments;
    let refused = |error: ToolCallError| match turn.stopped_quoting("exec", &error, arguments) {
        Ok(()) => error,
        Err(unrecorded) => unrecorded,
    };
    if call.startup == Startup::Background {
        let text = "a command on the host does not go to the background, because it must not outlive its caller; leave \
                    `background` out";
        return Err(refused(ToolCallError::Denied(text.to_owned())));
    }
    let answer = in_directory(turn, (call, question), answer).map_err(refused)?;
    let host = match &answer.outcome {
        Outcome::Host(host) => host,
        Outcome::ToolClosed { .. } | Outcome::Sandbox { .. } | Outcome::Refused { .. } => {
            let text = "the policy changed while the call was made; call again".to_owned();
            return Err(refused(ToolCallError::Denied(text)));
        }
    };
    let times = Times::resolve(turn.config(), turn.agent());
    let timeout = rules::decide_timing(call, &times, Background::Closed).timeout;
    let warnings = warnings(turn, call, host);
    let prompt = ask::prompt_on_host(turn, call, (&answer, host));
    let cwd = answer.cwd.clone();
    request.watch.begun(&cwd);
    let host_call = HostCall {
        question,
        asker: turn.asker(),
        timeout: turn.prepared.own.approvals.timeout.value,
        limits: Limits {
            time: timeout.unwrap_or(LONGEST),
            // What is shown is collected as it comes.
            output_bytes: 0,
            errors: Errors::WithOutput,
        },
    };
    let _waits = turn.waiters.enter().map_err(refused)?;
    let approvals = turn.approvals();
    let broker = turn.broker(&approvals);
    let place = RunPlace::Host;
    let mut attending = Attending::new(turn, (call, question), request, (prompt, place));
    let start = Instant::now();
    let called = host_call::run_answered(turn.store, &broker, (&host_call, answer), &mut attending);
    let is_cancelled = attending.request.stop.is_pulled();
    let (output, is_cut) = attending.tail.finish();
    let ran = Ran { cwd, output, is_cut, timeout, warnings, time: start.elapsed() };
    match called {
        Ok(Called::Finished { id, finished }) => ran.answer(id.as_ref(), &finished),
        // The broker has written down whatever came of it.
        Ok(Called::NotRun { .. }) if is_cancelled => Err(ToolCallError::Cancelled),
        Ok(Called::NotRun { id, why }) => Err(ask::not_approved(&id, &why, host_call.timeout)),
        Ok(Called::Refused { reasons, changes }) => {
            Err(ToolCallError::Denied(with_changes(reasons.join("; "), &changes)))
        }
        Ok(Called::Elsewhere(_)) => {
            let text = "the command does not go to the host any more; call again".to_owned();
            Err(refused(ToolCallError::Denied(text)))
        }
        // Recorded as what they are.
        Err(HostCallError::Run(error @ RunError::Stale(_))) => {
            Err(ToolCallError::Denied(format!("{error}; nothing more was started")))
        }
        Err(error @ HostCallError::Run(_)) => Err(error.into()),
        Err(error) => Err(refused(error.into())),
    }
}

/// The answer for a directory that is there. An agent's own workspace is made if need be, as for its other tools.
fn in_directory(
    turn: &Turn<'_>,
    (call, question): (&ExecCall, CommandQuestion<'_>),
    answer: CommandAnswer,
) -> Result<CommandAnswer, ToolCallError> {
    let cwd = Path::new(&answer.cwd);
    if cwd.is_dir() {
        return Ok(answer);
    }
    // Nothing is made for a command that does not run.
    match &answer.outcome {
        Outcome::Host(host) if !matches!(host.decision, Decision::Refuse(_)) => {}
        Outcome::Host(_)
        | Outcome::ToolClosed { .. }
        | Outcome::Sandbox { .. }
        | Outcome::Refused { .. } => return Ok(answer),
    }
    if let Some(asked) = &call.workdir {
        return Err(ToolCallError::Denied(format!(
            "there is no directory `{}` on the host (`workdir` is `{}`, and this session's commands run there); leave \
             `workdir` out, or name a directory of the host",
            clawpen_rules::command::escape(&answer.cwd),
            clawpen_rules::command::escape(asked)
        )));
    }
    std::fs::create_dir_all(cwd).map_err(|error| {
        ToolCallError::Denied(format!("the workspace cannot be made on the host: {error}"))
    })?;
    let explanation = turn.prepared.explanation.clone();
    Ok(exec_question::ask_about(turn.store, explanation, &question)?)
}

fn warnings(turn: &Turn<'_>, call: &ExecCall, host: &HostAnswer) -> Vec<String> {
    // Where a session is set up, whoever sent its commands here knows; those of the policy come first.
    let known = match turn.who.record {
        RecordDoor::This => host.policy.warnings().len(),
        RecordDoor::Another => 0,
    };
    let mut warnings: Vec<String> =
        host.warnings.iter().skip(known).map(|text| format!("Warning: {text}")).collect();
    if call.terminal == Terminal::Wanted {
        let text = "Warning: commands on the host get no terminal; `pty` was left out";
        warnings.push(text.to_owned());
    }
    if matches!(call.startup, Startup::Yield(_)) {
        let text = "Warning: commands on the host do not go to the background; it ran to its end";
        warnings.push(text.to_owned());
    }
    warnings
}

/// A command that ran on the host, for its caller.
struct Ran {
    cwd: String,
    output: String,
    is_cut: bool,
    timeout: Option<Duration>,
    warnings: Vec<String>,
    time: Duration,
}

impl Ran {
    fn answer(mut self, id: Option<&Id>, finished: &Finished) -> Result<Answer, ToolCallError> {
        let ended = match finished.end {
            End::Stopped => return Err(ToolCallError::Cancelled),
            End::TimedOut => Ended::TimedOut(self.timeout),
            End::Status(ExitStatus::Code(code)) => Ended::Code(code.into()),
            End::Status(ExitStatus::Signal(signal)) => Ended::Signal(signal.get()),
            End::Lost(left) => {
                self.warnings.push(format!("Warning: this command is lost: {left}"));
                Ended::Signal(Signal::KILL.get())
            }
        };
        self.warnings.extend(finished.changed.iter().map(|path| {
            let path = clawpen_rules::command::escape(path);
            format!("Warning: `{path}` changed while the command ran")
        }));
        let extent = if self.is_cut { Extent::End } else { Extent::Whole };
        let report = rules::report(ended, &self.output, extent);
        let details = json!({
            "status": report.status,
            "exitCode": report.exit_code,
            "durationMs": u64::try_from(self.time.as_millis()).unwrap_or(u64::MAX),
            "aggregated": self.output,
            "truncated": self.is_cut,
            "cwd": self.cwd,
            "host": "gateway",
            "approvalId": id.map(Id::as_str),
        });
        let warnings = self.warnings.iter().map(|warning| format!("{warning}\n\n"));
        Ok(Answer::text(warnings.chain([report.text]).collect::<String>(), details))
    }
}
