//! Puts right what time and death have decided: questions that are due, allowances that nobody used,
//! runs whose process died.
//!
//! Whoever looks does it, in a transaction, so no process has to live for it.

use std::time::Duration;

use clawpen_rules::approval::answer::Settled;
use clawpen_rules::timestamp::Moment;
use rusqlite::named_params;

use super::row::{self, Approval, Outcome, State};
use super::run::{ran_verdict, whose};
use crate::audit::{self, Ending, Piece, Verdict};
use crate::database::{DatabaseError, Sql};
use crate::registry::Liveness;

/// An allowance that nobody has used for so long is void: a yes of this morning starts nothing tonight.
pub(super) const USE_WITHIN: Duration = Duration::from_secs(60);
/// Rows that came to their end are kept for so long, and so many of them.
const KEPT: Duration = Duration::from_secs(7 * 24 * 60 * 60);
const MOST_KEPT: u64 = 1000;

/// Says whether anything is to be put right. Reads only.
pub(super) fn is_due(sql: Sql<'_>, now: &Moment) -> Result<bool, DatabaseError> {
    Ok(row::pending(sql)?.iter().any(|approval| approval.left(now).is_zero())
        || row::unused(sql)?.iter().any(|approval| is_void(approval, now))
        || row::running(sql)?.iter().any(is_lost))
}

/// Puts right whatever is due.
pub(super) fn sweep(sql: Sql<'_>, now: &Moment) -> Result<(), DatabaseError> {
    for approval in row::pending(sql)? {
        if approval.left(now).is_zero() {
            expire(sql, approval, now)?;
        }
    }
    for approval in row::unused(sql)? {
        if is_void(&approval, now) {
            withdraw(sql, &approval, "nobody came to run it", now)?;
        }
    }
    for approval in row::running(sql)? {
        if is_lost(&approval) {
            lose(sql, &approval, now)?;
        }
    }
    forget(sql, now)
}

/// Says whether a settled row allows something that nobody has used in time.
pub(super) fn is_void(approval: &Approval, now: &Moment) -> bool {
    let runs = match approval.settled() {
        Settled::Run | Settled::RunAndRemember | Settled::RunUnanswered | Settled::RunIfCovered => {
            true
        }
        Settled::Refuse(_) => false,
    };
    let waited = approval.answered.as_ref().map(|answered| now.since(answered));
    runs && waited.is_none_or(|waited| waited >= USE_WITHIN)
}

fn is_lost(approval: &Approval) -> bool {
    approval.holder.liveness() == Liveness::Dead
}

/// The time is over: silence is the answer.
fn expire(sql: Sql<'_>, mut approval: Approval, now: &Moment) -> Result<(), DatabaseError> {
    sql.run(
        "UPDATE approvals SET state = 'settled', answered = :wall, answered_boot = :boot,
            answered_uptime = :uptime WHERE id = :id AND state = 'pending'",
        named_params! {
            ":id": approval.id.as_str(),
            ":wall": now.wall.as_millis(),
            ":boot": now.boot.as_ref().map(|boot| boot.id.as_str()),
            ":uptime": now.boot.as_ref().map(|boot| boot.millis),
        },
    )?;
    approval.state = State::Settled;
    let (verdict, what) = match approval.outcome() {
        Some(Outcome::Settled(Settled::Refuse(denied))) => (Verdict::Denied, denied.to_string()),
        Some(Outcome::Settled(_)) => (Verdict::Allowed, "it runs unanswered".to_owned()),
        Some(Outcome::Withdrawn) | None => (Verdict::Denied, "withdrawn".to_owned()),
    };
    let seconds = approval.timeout.as_secs_f64();
    let reason = format!(
        "nobody answered within {seconds} s and askFallback is {}: {what}",
        approval.fallback
    );
    let call = approval.record(approval.door, verdict, &[Piece::Ours(&reason)]);
    audit::append_call(sql, &call, now.wall).map(drop)
}

/// Nothing runs for this one any more.
pub(super) fn withdraw(
    sql: Sql<'_>,
    approval: &Approval,
    why: &str,
    now: &Moment,
) -> Result<(), DatabaseError> {
    set_state(sql, approval, State::Withdrawn, None)?;
    let call = approval.record(approval.door, Verdict::Failed, &[Piece::Ours(why)]);
    audit::append_call(sql, &call, now.wall).map(drop)
}

/// It was started by a process that is gone, and may have done anything.
fn lose(sql: Sql<'_>, approval: &Approval, now: &Moment) -> Result<(), DatabaseError> {
    set_state(sql, approval, State::Lost, Some(Ending::Lost))?;
    let reason = format!(
        "whoever ran it died ({}); how far it got is not known, something of it may still run, and it is not run again",
        whose(approval)
    );
    let mut call = approval.record(approval.door, ran_verdict(approval), &[Piece::Ours(&reason)]);
    call.ending = Some(Ending::Lost);
    audit::append_call(sql, &call, now.wall).map(drop)
}

/// Moves a row on, from the state that it was seen in.
pub(super) fn set_state(
    sql: Sql<'_>,
    approval: &Approval,
    state: State,
    ending: Option<Ending>,
) -> Result<(), DatabaseError> {
    let ending = ending.map(|ending| ending.to_string());
    sql.run(
        "UPDATE approvals SET state = ?3, ending = ?4 WHERE id = ?1 AND state = ?2",
        (approval.id.as_str(), approval.state.as_str(), state.as_str(), ending),
    )
    .map(drop)
}

/// Drops what came to its end long ago: the audit chain keeps the fact, not the words.
fn forget(sql: Sql<'_>, now: &Moment) -> Result<(), DatabaseError> {
    let over = "state NOT IN ('pending', 'running') AND remember != 'due'";
    let before = now.wall.before(KEPT).as_millis();
    sql.run(&format!("DELETE FROM approvals WHERE {over} AND asked < ?1"), [before])?;
    sql.run(
        &format!(
            "DELETE FROM approvals WHERE {over} AND rowid NOT IN
             (SELECT rowid FROM approvals ORDER BY rowid DESC LIMIT ?1)"
        ),
        [MOST_KEPT],
    )
    .map(drop)
}
