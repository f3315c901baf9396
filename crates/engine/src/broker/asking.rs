//! Writes a question down, if there is room for it and a person can read it.

use std::time::Duration;

use clawpen_rules::approval::Coverage;
use clawpen_rules::approval::always::Kept;
use clawpen_rules::approval::answer::Looks;
use clawpen_rules::approval::file::NewEntry;
use clawpen_rules::approval::run_form::Frozen;
use clawpen_rules::command::PlanHash;
use clawpen_rules::exec_host::{self, Security};
use clawpen_rules::ids::AgentId;
use clawpen_rules::timestamp::Moment;
use rusqlite::named_params;
use sha2::{Digest as _, Sha256};

use super::row::{self, Approval, Id, State};
use super::{Broker, BrokerError, settle, shape};
use crate::audit::{self, Door, Piece, Verdict};
use crate::database::{DatabaseError, Sql};
use crate::process_identity;
use crate::registry::Holder;
use crate::{faults, random};

/// How long a person has, unless the door says otherwise: the reference's two minutes.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(120);
/// Nobody waits longer.
const MAX_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);
/// More questions than a person can read are an attack on his attention.
pub const MAX_PENDING_PER_SESSION: u64 = 16;
/// Of all sessions together.
pub const MAX_PENDING: u64 = 128;
/// A longer text, or plan, is nothing that a person can judge.
const MAX_COMMAND: usize = 32 * 1024;
const MAX_PLAN: usize = 256 * 1024;
/// Reasons are ours, but may quote.
const MAX_REASON: usize = 2000;

/// A question.
#[derive(Debug, Clone)]
pub struct Ask<'a> {
    pub command: &'a str,
    pub cwd: &'a str,
    pub session: Option<&'a str>,
    pub agent: &'a AgentId,
    /// What would run. `None` where somebody else runs it and only wants to know.
    pub plan: Option<&'a Frozen>,
    /// Variables that the call sets. A plan has them already.
    pub variables: &'a [(String, String)],
    /// Why a person must agree.
    pub reasons: Vec<String>,
    pub security: Security,
    pub ask: exec_host::Ask,
    /// What silence stands for.
    pub fallback: Security,
    pub looks: Looks,
    pub coverage: Coverage,
    /// What "allow always" may remember.
    pub entries: &'a [NewEntry],
    pub asker: Asker<'a>,
    pub timeout: Duration,
}

/// What an answer is bound to.
#[derive(Debug, Clone, Copy)]
pub enum Bound<'a> {
    /// A frozen plan.
    Plan(PlanHash),
    /// A call whose words somebody else reads: text, directory and variables.
    Call { command: &'a str, cwd: &'a str, variables: &'a [(String, String)] },
}

/// One name for a call without a plan, values of variables included.
pub(super) fn call_hash(command: &str, cwd: &str, variables: &[(String, String)]) -> String {
    let pairs = variables.iter().flat_map(|(name, value)| [name.as_str(), value.as_str()]);
    let mut hash = Sha256::new();
    for text in [command, cwd].into_iter().chain(pairs) {
        // Lengths, so that no two calls read the same.
        hash.update(text.len().to_le_bytes());
        hash.update(text);
    }
    audit::Hash(hash.finalize().into()).to_string()
}

/// Whoever asks.
#[derive(Debug, Clone, Copy)]
pub struct Asker<'a> {
    pub door: Door,
    /// The client's name, where the door has clients.
    pub client: Option<&'a str>,
    /// The agent's own process, if the door knows it (the client that started an MCP server): whatever
    /// it starts may not answer.
    pub agent_process: Option<u32>,
}

impl Broker<'_> {
    /// Asks. The answer is waited for with [`Broker::wait`].
    ///
    /// # Errors
    /// If too many wait already, or if it is too long to be read. Nothing is kept then.
    pub fn request(&self, ask: &Ask<'_>) -> Result<Id, BrokerError> {
        self.finish_remembering()?;
        let plan = ask.plan.map(shape::plan);
        let approval = approval(ask, plan, self.clock.now())?;
        self.database.write(|sql| {
            settle::sweep(sql, &approval.asked)?;
            refuse_too_many(sql, ask.session)?;
            insert(sql, &approval)?;
            let reason = approval.reasons.join("; ");
            let reason = [Piece::Quoting(&reason)];
            let call = approval.record(approval.door, Verdict::Asked, &reason);
            audit::append_call(sql, &call, approval.asked.wall)?;
            Ok::<_, BrokerError>(())
        })?;
        faults::reached("broker.asked");
        Ok(approval.id)
    }
}

fn approval(
    ask: &Ask<'_>,
    plan: Option<clawpen_wire::approvals::Plan>,
    asked: Moment,
) -> Result<Approval, BrokerError> {
    let too_long = |what, text: &str, most| {
        let bytes = text.len();
        if bytes > most { Err(BrokerError::TooLong { what, bytes, most }) } else { Ok(()) }
    };
    too_long("command", ask.command, MAX_COMMAND)?;
    too_long("working directory", ask.cwd, MAX_COMMAND)?;
    let text = plan.as_ref().map(serde_json::to_string).transpose().map_err(json_error)?;
    too_long("plan", text.as_deref().unwrap_or_default(), MAX_PLAN)?;
    let names: usize = ask.variables.iter().map(|(name, value)| name.len() + value.len()).sum();
    if names > MAX_COMMAND {
        return Err(BrokerError::TooLong { what: "environment", bytes: names, most: MAX_COMMAND });
    }
    let agent_process = agent_process(&ask.asker)?;
    let short = |reason: &String| reason.chars().take(MAX_REASON).collect();
    Ok(Approval {
        id: Id(random::uuid()),
        state: State::Pending,
        session: ask.session.map(str::to_owned),
        agent: ask.agent.clone(),
        door: ask.asker.door,
        client: ask.asker.client.map(|client| client.chars().take(200).collect()),
        command: ask.command.to_owned(),
        cwd: ask.cwd.to_owned(),
        security: ask.security,
        ask: ask.ask,
        fallback: ask.fallback,
        looks: ask.looks,
        coverage: ask.coverage,
        reasons: ask.reasons.iter().map(short).collect(),
        call: plan.is_none().then(|| call_hash(ask.command, ask.cwd, ask.variables)),
        variables: ask.variables.iter().map(|(name, _)| name.clone()).collect(),
        plan,
        entries: ask.entries.iter().filter_map(Kept::of).collect(),
        asked,
        timeout: ask.timeout.clamp(Duration::from_millis(1), MAX_TIMEOUT),
        word: None,
        resolver: None,
        answered: None,
        ending: None,
        holder: Holder::this()
            .map_err(|cause| BrokerError::Io { what: "name this process", cause })?,
        agent_process,
    })
}

/// The agent's process: number and start.
pub(super) fn agent_process(asker: &Asker<'_>) -> Result<Option<(u32, u64)>, BrokerError> {
    let Some(pid) = asker.agent_process else { return Ok(None) };
    let found = process_identity::listed(pid)
        .map_err(|cause| BrokerError::Io { what: "look at the agent's process", cause })?;
    Ok(found.map(|found| (pid, found.start_time)))
}

fn json_error(error: serde_json::Error) -> BrokerError {
    BrokerError::Io { what: "write a plan down", cause: error.into() }
}

fn refuse_too_many(sql: Sql<'_>, session: Option<&str>) -> Result<(), BrokerError> {
    let count = |text: &str, session: Option<&str>| -> Result<u64, DatabaseError> {
        Ok(sql.first(text, [session], |row| row.get(0))?.unwrap_or_default())
    };
    let of_session = "SELECT count(*) FROM approvals WHERE state = 'pending' AND session IS ?1";
    let found = count(of_session, session)?;
    if found >= MAX_PENDING_PER_SESSION {
        let most = MAX_PENDING_PER_SESSION;
        return Err(BrokerError::TooManyOfSession { count: found, most });
    }
    let all = "SELECT count(*) FROM approvals WHERE state = 'pending' AND ?1 IS NULL";
    let found = count(all, None)?;
    if found >= MAX_PENDING {
        return Err(BrokerError::TooMany { count: found, most: MAX_PENDING });
    }
    Ok(())
}

fn insert(sql: Sql<'_>, approval: &Approval) -> Result<(), BrokerError> {
    let json = |text: serde_json::Result<String>| text.map_err(json_error);
    let plan = approval.plan.as_ref().map(serde_json::to_string).transpose().map_err(json_error)?;
    let boot = approval.asked.boot.as_ref();
    sql.run(
        "INSERT INTO approvals (
            id, state, session, agent, door, client, command, cwd, security, ask, fallback, looks,
            coverage, reasons, plan, variables, call, entries, remember, timeout_ms, asked, asked_boot, asked_uptime,
            pid, start_time, boot_id, pid_namespace, agent_pid, agent_start_time
        ) VALUES (
            :id, :state, :session, :agent, :door, :client, :command, :cwd, :security, :ask,
            :fallback, :looks, :coverage, :reasons, :plan, :variables, :call, :entries, 'none', :timeout,
            :asked, :boot, :uptime, :pid, :start_time, :boot_id, :pid_namespace, :agent_pid, :agent_start
        )",
        named_params! {
            ":id": approval.id.as_str(),
            ":state": approval.state.as_str(),
            ":session": approval.session,
            ":agent": approval.agent.as_str(),
            ":door": approval.door.as_str(),
            ":client": approval.client,
            ":command": approval.command,
            ":cwd": approval.cwd,
            ":security": approval.security.as_str(),
            ":ask": approval.ask.as_str(),
            ":fallback": approval.fallback.as_str(),
            ":looks": row::looks_word(approval.looks),
            ":coverage": row::coverage_word(approval.coverage),
            ":reasons": json(serde_json::to_string(&approval.reasons))?,
            ":plan": plan,
            ":variables": json(serde_json::to_string(&approval.variables))?,
            ":call": approval.call,
            ":entries": json(row::entries_text(&approval.entries))?,
            ":timeout": u64::try_from(approval.timeout.as_millis()).unwrap_or(u64::MAX),
            ":asked": approval.asked.wall.as_millis(),
            ":boot": boot.map(|boot| boot.id.as_str()),
            ":uptime": boot.map(|boot| boot.millis),
            ":pid": approval.holder.pid,
            ":start_time": approval.holder.start_time,
            ":boot_id": approval.holder.boot_id,
            ":pid_namespace": approval.holder.pid_namespace,
            ":agent_pid": approval.agent_process.map(|(pid, _)| pid),
            ":agent_start": approval.agent_process.map(|(_, start)| start),
        },
    )?;
    Ok(())
}
