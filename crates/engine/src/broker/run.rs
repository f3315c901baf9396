//! Runs what was allowed: once, by whoever asked, and only if it is still what was shown.

use std::time::Instant;

use clawpen_os::process::{ExitStatus, Signal};
use clawpen_rules::approval::answer::{Denied, Settled};
use clawpen_rules::approval::run_form::Frozen;
use clawpen_rules::command::{PlanHash, ProgramFiles};

use super::asking::{self, Ask, Bound};
use super::row::{self, Approval, Id, Outcome, State};
use super::{Broker, BrokerError, settle};
use crate::audit::{self, Ending, Piece, Verdict};
use crate::faults;
use crate::host_exec::{self, End, Finished, Limits, Observer, RunError};
use crate::registry::{Holder, Liveness};

/// What a run is done with.
pub struct Means<'a> {
    /// Says which scripts an agent could rewrite.
    pub files: &'a dyn ProgramFiles,
    pub limits: Limits,
    pub observer: &'a mut dyn Observer,
}

impl std::fmt::Debug for Means<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Means").field("limits", &self.limits).finish_non_exhaustive()
    }
}

/// What came of a run.
#[derive(Debug)]
pub enum Ran {
    Finished(Finished),
    /// Nothing was started, or a chain stopped in the middle.
    Refused(NotRun),
}

/// Why an approval does not run.
#[derive(Debug, thiserror::Error)]
pub enum NotRun {
    #[error("it is not allowed: {0}")]
    Denied(Denied),
    #[error("it is still waiting for an answer")]
    Pending,
    #[error("it was taken back, or nobody ran it in time; ask again")]
    Withdrawn,
    #[error("it was allowed once, and that was used ({})", .0.as_str())]
    Used(State),
    #[error("what would run is not what was shown; ask again")]
    OtherPlan,
    #[error("another process asked, and still runs")]
    NotTheAsker,
    #[error("{}", chain(.0))]
    Run(#[source] RunError),
}

fn chain(error: &RunError) -> String {
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}"));
    match error {
        // Its text has the cause already.
        RunError::Stale(_) => error.to_string(),
        RunError::Nul { .. } | RunError::Start { .. } | RunError::Io { .. } => {
            format!("{error}{}", cause.unwrap_or_default())
        }
    }
}

impl Broker<'_> {
    /// Runs the plan of an approval that was allowed. Every file and the directory are compared with
    /// the plan right before; a difference refuses, and the approval is used up all the same.
    pub fn run(&self, id: &Id, frozen: &Frozen, means: Means<'_>) -> Result<Ran, BrokerError> {
        if let Err(why) = self.claim(id, Bound::Plan(frozen.plan.hash()))? {
            return Ok(Ran::Refused(why));
        }
        let start = Instant::now();
        let Means { files, limits, observer } = means;
        let ran = host_exec::run(&frozen.plan, files, limits, observer);
        faults::reached("broker.ran");
        let now = self.clock.now();
        self.database.write(|sql| {
            let approval = row::by_id(sql, id)?;
            let ours = ran.as_ref().map(|finished| ran_reason(&approval, finished));
            let quoting = ran.as_ref().err().map(chain).unwrap_or_default();
            let ours = ours.unwrap_or_else(|_not_run| format!("not run ({}): ", whose(&approval)));
            let (state, verdict, ending) = match &ran {
                Ok(finished) => {
                    (ran_state(finished), ran_verdict(&approval), Some(ending(finished)))
                }
                Err(RunError::Stale(_)) => (State::Refused, Verdict::Refused, None),
                Err(_) => (State::Refused, Verdict::Failed, None),
            };
            settle::set_state(sql, &approval, state, ending)?;
            let pieces = [Piece::Ours(&ours), Piece::Quoting(&quoting)];
            let mut call = approval.record(approval.door, verdict, &pieces);
            call.ending = ending;
            call.duration = start.elapsed();
            if let Ok(finished) = &ran {
                call.bytes_out = finished.written;
            }
            audit::append_call(sql, &call, now.wall)?;
            Ok::<_, BrokerError>(())
        })?;
        Ok(match ran {
            Ok(finished) => Ran::Finished(finished),
            Err(error) => Ran::Refused(NotRun::Run(error)),
        })
    }

    /// Uses an approval up: from here on nobody else can. `bound` is what is about to run, and must be what was shown;
    /// an approval without a plan is used up by whoever runs it in its own way.
    pub fn claim(&self, id: &Id, bound: Bound<'_>) -> Result<Result<(), NotRun>, BrokerError> {
        let now = self.clock.now();
        let this =
            Holder::this().map_err(|cause| BrokerError::Io { what: "name this process", cause })?;
        let claimed = self.database.write(|sql| {
            settle::sweep(sql, &now)?;
            let approval = row::by_id(sql, id)?;
            if let Err(why) = check(&approval, bound, &this) {
                return Ok::<_, BrokerError>(Err(why));
            }
            settle::set_state(sql, &approval, State::Running, None)?;
            // What is not recorded does not start.
            let reason = format!("starts: {}{}", whose(&approval), plan_name(bound));
            let reason = [Piece::Ours(&reason)];
            let call = approval.record(approval.door, ran_verdict(&approval), &reason);
            audit::append_call(sql, &call, now.wall)?;
            Ok(Ok(()))
        })?;
        faults::reached("broker.claimed");
        Ok(claimed)
    }

    /// Writes down how something ended that was [claimed](Self::claim) and run in its own way.
    /// `None`: it goes on, and somebody else sees its end.
    pub fn finish(&self, id: &Id, ending: Option<Ending>) -> Result<(), BrokerError> {
        let now = self.clock.now();
        self.database.write(|sql| {
            let approval = row::by_id(sql, id)?;
            if approval.state != State::Running {
                return Ok(());
            }
            settle::set_state(sql, &approval, State::Ended, ending)?;
            let reason = format!("it ran: {}", whose(&approval));
            let reason = [Piece::Ours(&reason)];
            let mut call = approval.record(approval.door, ran_verdict(&approval), &reason);
            call.ending = ending;
            audit::append_call(sql, &call, now.wall)?;
            Ok(())
        })
    }

    /// Takes over a question of a process that died: a door that was started again goes on waiting,
    /// and runs what is allowed. The plan was made anew and must be what was shown.
    pub fn resume(&self, id: &Id, frozen: &Frozen) -> Result<Result<(), NotRun>, BrokerError> {
        let this =
            Holder::this().map_err(|cause| BrokerError::Io { what: "name this process", cause })?;
        let now = self.clock.now();
        self.database.write(|sql| {
            settle::sweep(sql, &now)?;
            let approval = row::by_id(sql, id)?;
            match approval.state {
                State::Pending | State::Settled => {}
                State::Withdrawn => return Ok(Err(NotRun::Withdrawn)),
                state @ (State::Running | State::Ended | State::Refused | State::Lost) => {
                    return Ok(Err(NotRun::Used(state)));
                }
            }
            if !is_plan(&approval, frozen.plan.hash()) {
                return Ok(Err(NotRun::OtherPlan));
            }
            if approval.holder != this && approval.holder.liveness() != Liveness::Dead {
                return Ok(Err(NotRun::NotTheAsker));
            }
            sql.run(
                "UPDATE approvals SET pid = ?2, start_time = ?3, boot_id = ?4, pid_namespace = ?5
                 WHERE id = ?1",
                (id.as_str(), this.pid, this.start_time, &this.boot_id, this.pid_namespace),
            )?;
            Ok(Ok(()))
        })
    }
}

impl Broker<'_> {
    /// Takes over a question about exactly this plan, of the same session and client, whose door died while it waited:
    /// whoever comes back with the same command need not ask a person twice. `None` if there is none.
    pub fn adopt(&self, ask: &Ask<'_>) -> Result<Option<Id>, BrokerError> {
        let Some(frozen) = ask.plan else { return Ok(None) };
        let this =
            Holder::this().map_err(|cause| BrokerError::Io { what: "name this process", cause })?;
        let now = self.clock.now();
        let is_left = |approval: &Approval| {
            approval.session.as_deref() == ask.session
                && approval.agent == *ask.agent
                && approval.door == ask.asker.door
                && approval.client.as_deref() == ask.asker.client
                && is_plan(approval, frozen.plan.hash())
                && approval.holder.liveness() == Liveness::Dead
        };
        let agent_process = asking::agent_process(&ask.asker)?;
        self.database.write(|sql| {
            settle::sweep(sql, &now)?;
            let left = [row::pending(sql)?, row::unused(sql)?];
            let Some(left) = left.iter().flatten().find(|approval| is_left(approval)) else {
                return Ok(None);
            };
            sql.run(
                "UPDATE approvals SET pid = ?2, start_time = ?3, boot_id = ?4, pid_namespace = ?5,
                    agent_pid = ?6, agent_start_time = ?7 WHERE id = ?1",
                (
                    left.id.as_str(),
                    this.pid,
                    this.start_time,
                    &this.boot_id,
                    this.pid_namespace,
                    agent_process.map(|(pid, _)| pid),
                    agent_process.map(|(_, start)| start),
                ),
            )?;
            let reason = "its door was started again and goes on waiting";
            let call = left.record(left.door, Verdict::Asked, &[Piece::Ours(reason)]);
            audit::append_call(sql, &call, now.wall)?;
            Ok(Some(left.id.clone()))
        })
    }
}

/// Says whether an approval may be used by this process for this plan.
fn check(approval: &Approval, bound: Bound<'_>, this: &Holder) -> Result<(), NotRun> {
    match approval.outcome() {
        None => return Err(NotRun::Pending),
        Some(Outcome::Withdrawn) => return Err(NotRun::Withdrawn),
        Some(Outcome::Settled(Settled::Refuse(denied))) => return Err(NotRun::Denied(denied)),
        Some(Outcome::Settled(
            Settled::Run | Settled::RunAndRemember | Settled::RunUnanswered | Settled::RunIfCovered,
        )) => {}
    }
    if approval.state != State::Settled {
        return Err(NotRun::Used(approval.state));
    }
    if approval.holder != *this {
        return Err(NotRun::NotTheAsker);
    }
    let is_shown = match bound {
        Bound::Plan(hash) => is_plan(approval, hash),
        Bound::Call { command, cwd, variables } => {
            let hash = asking::call_hash(command, cwd, variables);
            approval.plan.is_none() && approval.call.as_deref() == Some(hash.as_str())
        }
    };
    if is_shown { Ok(()) } else { Err(NotRun::OtherPlan) }
}

fn is_plan(approval: &Approval, hash: PlanHash) -> bool {
    approval.plan.as_ref().is_some_and(|plan| plan.hash == hash.to_string())
}

pub(super) fn ran_verdict(approval: &Approval) -> Verdict {
    if approval.word.is_some() { Verdict::Approved } else { Verdict::Allowed }
}

/// Whose word lets it run.
pub(super) fn whose(approval: &Approval) -> String {
    match (&approval.word, &approval.resolver) {
        (Some(word), Some(by)) => format!("{} by {by}", word.as_str()),
        (Some(_) | None, _) => format!("unanswered, askFallback {}", approval.fallback),
    }
}

fn plan_name(bound: Bound<'_>) -> String {
    let hash = match bound {
        Bound::Plan(hash) => hash.to_string(),
        Bound::Call { .. } => String::new(),
    };
    hash.get(..12).map(|start| format!(" (plan {start})")).unwrap_or_default()
}

fn ran_reason(approval: &Approval, finished: &Finished) -> String {
    let whose = whose(approval);
    let changed = match finished.changed.len() {
        0 => String::new(),
        count => format!("; {count} of its files changed meanwhile"),
    };
    let lost = match finished.end {
        End::Lost(left) => format!("; {left}"),
        End::Status(_) | End::TimedOut | End::Stopped => String::new(),
    };
    format!("ran: {whose}{lost}{changed}")
}

const fn ran_state(finished: &Finished) -> State {
    match finished.end {
        End::Lost(_) => State::Lost,
        End::Status(_) | End::TimedOut | End::Stopped => State::Ended,
    }
}

/// How a run ended, for the record.
pub(crate) fn ending(finished: &Finished) -> Ending {
    match finished.end {
        End::TimedOut => Ending::TimedOut,
        End::Lost(_) => Ending::Lost,
        End::Stopped => Ending::Signal(Signal::KILL.get()),
        End::Status(ExitStatus::Code(code)) => Ending::Exit(code.into()),
        End::Status(ExitStatus::Signal(signal)) => Ending::Signal(signal.get()),
    }
}
