//! `exec` on this machine: the frozen plan of the rules, run as it was judged.

use std::time::{Duration, Instant};

use clawpen_os::process::ExitStatus;
use clawpen_rules::approval::Decision;
use clawpen_rules::tools::arguments::ExecCall;
use clawpen_rules::tools::exec::{self as rules, Ended, Times};
use clawpen_rules::tools::output::{AGGREGATED, Tail};
use serde_json::json;

use super::desk::{Turn, since};
use super::exec::with_changes;
use super::failure::{NeedsApproval, ToolCallError};
use super::{Tally, ask, record};
use crate::audit::Ending;
use crate::exec_question::{self, HostAnswer};
use crate::host_exec::{self, End, Finished, Limits};
use crate::tools::Answer;

/// Nothing runs on the host for longer, whatever a call asks for: nobody can end it from afar.
const LONGEST: Duration = Duration::from_secs(3600);
/// Bytes kept of each of output and errors.
const KEPT_BYTES: usize = 1 << 20;

/// Runs a command outside the sandbox if the rules let it. Always to its end: only the sandbox has a background.
pub(super) fn run(
    turn: &Turn<'_>,
    call: &ExecCall,
    (host, cwd): (&HostAnswer, &str),
) -> Result<Answer, ToolCallError> {
    let denied = |reason: String| ToolCallError::Denied(with_changes(reason, &host.changes));
    let reason = match &host.decision {
        Decision::Run(reason) => reason.to_string(),
        Decision::Refuse(reason) => return Err(denied(reason.to_string())),
        Decision::Ask(reasons) => {
            ask::ask(NeedsApproval {
                command: call.command.clone(),
                cwd: cwd.to_owned(),
                host: "gateway",
                reasons: reasons.iter().map(ToString::to_string).collect(),
                changes: host.changes.clone(),
            })?;
            "a person agreed".to_owned()
        }
    };
    let frozen = host.frozen.as_ref().map_err(|why| denied(why.to_string()))?;
    let times = Times::resolve(turn.config(), turn.agent());
    let asked = match call.timeout {
        Some(seconds) if seconds > 0.0 => Duration::try_from_secs_f64(seconds).ok(),
        Some(_) => None,
        None => times.timeout,
    };
    let time = asked.unwrap_or(LONGEST).min(LONGEST);
    let programs = exec_question::programs(turn.store, &turn.prepared.explanation);
    let start = Instant::now();
    let limits = Limits { time, output_bytes: KEPT_BYTES };
    let finished = host_exec::run(&frozen.plan, &programs, limits);
    let about = turn.about("exec");
    match finished {
        Ok(finished) => {
            let tally = Tally {
                ending: Some(ending(&finished)),
                bytes_in: 0,
                bytes_out: (finished.output.len() + finished.errors.len()) as u64,
            };
            let elapsed = since(start, tally);
            let millis = elapsed.0.as_millis();
            record::beside(
                turn.yard,
                turn.prepared,
                &about,
                (&format!("host=gateway: {reason}"), elapsed),
            )?;
            Ok(answer(&finished, time, (cwd, millis)))
        }
        Err(error) => {
            let error = ToolCallError::Host(error);
            turn.stopped("exec", &error)?;
            Err(error)
        }
    }
}

fn ending(finished: &Finished) -> Ending {
    match finished.end {
        End::Status(ExitStatus::Code(code)) => Ending::Exit(code.into()),
        End::Status(ExitStatus::Signal(signal)) => Ending::Signal(signal.get()),
        End::TimedOut => Ending::TimedOut,
    }
}

fn answer(finished: &Finished, time: Duration, (cwd, millis): (&str, u128)) -> Answer {
    let mut tail = Tail::new(AGGREGATED);
    tail.push(&finished.output);
    tail.push(&finished.errors);
    let (output, is_cut) = tail.finish();
    let ended = match finished.end {
        End::Status(ExitStatus::Code(code)) => Ended::Code(code.into()),
        End::Status(ExitStatus::Signal(signal)) => Ended::Signal(signal.get()),
        End::TimedOut => Ended::TimedOut(Some(time)),
    };
    let report = rules::report(ended, &output);
    let details = json!({
        "status": report.status,
        "exitCode": report.exit_code,
        "durationMs": u64::try_from(millis).unwrap_or(u64::MAX),
        "aggregated": output,
        "truncated": is_cut || finished.is_cut,
        "cwd": cwd,
        "host": "gateway",
        "changedFiles": finished.changed,
    });
    Answer::text(report.text, details)
}
