//! One approval as it is kept.

use std::fmt;
use std::time::Duration;

use clawpen_rules::approval::Coverage;
use clawpen_rules::approval::always::Kept;
use clawpen_rules::approval::answer::{Looks, Settled, Word};
use clawpen_rules::command::ContentHash;
use clawpen_rules::exec_host::{self, Security};
use clawpen_rules::ids::AgentId;
use clawpen_rules::timestamp::{Moment, SinceBoot, Timestamp};
use clawpen_wire::approvals as wire;
use rusqlite::Row;
use rusqlite::types::Type;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{BrokerError, Which};
use crate::audit::{Door, Ending};
use crate::database::{DatabaseError, Sql, word};
use crate::registry::Holder;

/// As many that came to their end are listed.
const LISTED: u64 = 200;
/// As many ids are named when a beginning fits several.
const NAMED: usize = 3;

/// The name of an approval.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Id(pub(super) String);

impl Id {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The beginning, as prompts show it.
    pub fn slug(&self) -> &str {
        self.0.get(..8).unwrap_or(&self.0)
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    Pending,
    /// Answered, or the time was over.
    Settled,
    /// Whoever asked is gone or does not want it any more; nothing runs.
    Withdrawn,
    Running,
    Ended,
    /// It was allowed and then not run: something had changed.
    Refused,
    /// Whoever ran it died, or its keeper was killed; how far it got is not known.
    Lost,
}

impl State {
    pub const ALL: [Self; 7] = [
        Self::Pending,
        Self::Settled,
        Self::Withdrawn,
        Self::Running,
        Self::Ended,
        Self::Refused,
        Self::Lost,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Settled => "settled",
            Self::Withdrawn => "withdrawn",
            Self::Running => "running",
            Self::Ended => "ended",
            Self::Refused => "refused",
            Self::Lost => "lost",
        }
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }
}

/// What an approval comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Settled(Settled),
    /// Taken back, or left unused for too long: nothing may run.
    Withdrawn,
}

/// One approval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approval {
    pub id: Id,
    pub state: State,
    pub session: Option<String>,
    pub agent: AgentId,
    pub door: Door,
    pub client: Option<String>,
    pub command: String,
    pub cwd: String,
    pub security: Security,
    pub ask: exec_host::Ask,
    pub fallback: Security,
    pub looks: Looks,
    pub coverage: Coverage,
    pub reasons: Vec<String>,
    pub plan: Option<wire::Plan>,
    /// Variables that a call without a plan sets, by name.
    pub variables: Vec<String>,
    /// What the answer is bound to where there is no plan.
    pub(super) call: Option<String>,
    /// What "allow always" would remember.
    pub entries: Vec<Kept>,
    pub asked: Moment,
    pub timeout: Duration,
    pub word: Option<Word>,
    pub resolver: Option<String>,
    /// When it was settled.
    pub answered: Option<Moment>,
    pub ending: Option<Ending>,
    /// Whoever asked, and runs it.
    pub holder: Holder,
    /// The agent for whom it asks, if the door knows its process: number and start.
    pub agent_process: Option<(u32, u64)>,
}

impl Approval {
    /// How much time is left to answer.
    pub fn left(&self, now: &Moment) -> Duration {
        self.timeout.saturating_sub(now.since(&self.asked))
    }
}

/// An entry as it is kept in a column.
#[derive(Serialize, Deserialize)]
struct StoredEntry {
    executable: String,
    argv: Vec<String>,
    cwd: String,
    sha256: String,
}

/// The entries as text.
pub(super) fn entries_text(entries: &[Kept]) -> serde_json::Result<String> {
    let stored = entries.iter().map(|kept| StoredEntry {
        executable: kept.executable.clone(),
        argv: kept.argv.clone(),
        cwd: kept.cwd.clone(),
        sha256: kept.pin.to_string(),
    });
    serde_json::to_string(&stored.collect::<Vec<_>>())
}

pub(super) const fn looks_word(looks: Looks) -> &'static str {
    match looks {
        Looks::Plain => "plain",
        Looks::Obfuscated => "obfuscated",
    }
}

pub(super) const fn coverage_word(coverage: Coverage) -> &'static str {
    match coverage {
        Coverage::Covered => "covered",
        Coverage::Missed => "missed",
        Coverage::NotAnalysable => "not-analysable",
    }
}

fn parse_looks(text: &str) -> Option<Looks> {
    [Looks::Plain, Looks::Obfuscated].into_iter().find(|looks| looks_word(*looks) == text)
}

fn parse_coverage(text: &str) -> Option<Coverage> {
    let all = [Coverage::Covered, Coverage::Missed, Coverage::NotAnalysable];
    all.into_iter().find(|coverage| coverage_word(*coverage) == text)
}

/// Rows in the order in which they were asked.
pub(super) fn list(sql: Sql<'_>, which: Which) -> Result<Vec<Approval>, DatabaseError> {
    let text = match which {
        Which::Pending => {
            "SELECT * FROM approvals WHERE state = 'pending' ORDER BY asked, rowid LIMIT ?1"
        }
        Which::All => {
            "SELECT * FROM (SELECT *, rowid AS place FROM approvals
             ORDER BY asked DESC, rowid DESC LIMIT ?1) ORDER BY asked, place"
        }
    };
    let limit = match which {
        Which::Pending => super::MAX_PENDING,
        Which::All => LISTED + super::MAX_PENDING,
    };
    sql.all(text, [limit], read)
}

/// Those whose answer is not yet in the approvals file.
pub(super) fn to_remember(sql: Sql<'_>) -> Result<Vec<Approval>, DatabaseError> {
    sql.all("SELECT * FROM approvals WHERE remember = 'due' LIMIT 16", [], read)
}

pub(super) fn pending(sql: Sql<'_>) -> Result<Vec<Approval>, DatabaseError> {
    sql.all("SELECT * FROM approvals WHERE state = 'pending' ORDER BY asked", [], read)
}

/// Those that may be about to run: a yes, or silence that is none.
pub(super) fn unused(sql: Sql<'_>) -> Result<Vec<Approval>, DatabaseError> {
    let text = "SELECT * FROM approvals WHERE state = 'settled'
                AND coalesce(answer, fallback) != 'deny' ORDER BY asked LIMIT 1000";
    sql.all(text, [], read)
}

pub(super) fn running(sql: Sql<'_>) -> Result<Vec<Approval>, DatabaseError> {
    sql.all("SELECT * FROM approvals WHERE state = 'running' ORDER BY asked LIMIT 1000", [], read)
}

/// Those of which something may still run, the newest.
pub(super) fn lost(sql: Sql<'_>) -> Result<Vec<Approval>, DatabaseError> {
    sql.all("SELECT * FROM approvals WHERE state = 'lost' ORDER BY asked DESC LIMIT 1000", [], read)
}

pub(super) fn by_id(sql: Sql<'_>, id: &Id) -> Result<Approval, BrokerError> {
    let found = sql.first("SELECT * FROM approvals WHERE id = ?1", [id.as_str()], read)?;
    found.ok_or_else(|| BrokerError::NotFound { id: id.to_string() })
}

/// By the whole id, or by a beginning: that of one pending approval, or else of one row at all.
pub(super) fn find(sql: Sql<'_>, id: &str) -> Result<Approval, BrokerError> {
    let id = id.trim().to_ascii_lowercase();
    let not_found = || BrokerError::NotFound { id: id.clone() };
    if id.is_empty() {
        return Err(not_found());
    }
    let text = "SELECT * FROM approvals WHERE substr(id, 1, length(?1)) = ?1
                ORDER BY state = 'pending' DESC, asked LIMIT 20";
    let mut found = sql.all(text, [&id], read)?;
    if found.iter().any(|approval| approval.state == State::Pending) {
        found.retain(|approval| approval.state == State::Pending || approval.id.as_str() == id);
    }
    if found.len() > 1 {
        let ids = found.iter().take(NAMED).map(|approval| approval.id.to_string());
        let found = ids.collect();
        return Err(BrokerError::Ambiguous { id, found });
    }
    found.pop().ok_or_else(not_found)
}

fn read(row: &Row<'_>) -> rusqlite::Result<Approval> {
    let agent: String = row.get("agent")?;
    let agent_pid: Option<u32> = row.get("agent_pid")?;
    let agent_start: Option<u64> = row.get("agent_start_time")?;
    let plan: Option<String> = row.get("plan")?;
    let entries: Vec<StoredEntry> = json(&row.get::<_, String>("entries")?)?;
    let entries: Option<Vec<Kept>> = entries.into_iter().map(kept).collect();
    let maybe = |column: &str| row.get::<_, Option<String>>(column);
    Ok(Approval {
        id: Id(row.get("id")?),
        state: word(row, "state", State::parse)?,
        session: row.get("session")?,
        agent: AgentId::normalize(&agent),
        door: word(row, "door", Door::parse)?,
        client: row.get("client")?,
        command: row.get("command")?,
        cwd: row.get("cwd")?,
        security: word(row, "security", Security::parse)?,
        ask: word(row, "ask", exec_host::Ask::parse)?,
        fallback: word(row, "fallback", Security::parse)?,
        looks: word(row, "looks", parse_looks)?,
        coverage: word(row, "coverage", parse_coverage)?,
        reasons: json(&row.get::<_, String>("reasons")?)?,
        plan: plan.as_deref().map(json).transpose()?,
        variables: json(&row.get::<_, String>("variables")?)?,
        call: row.get("call")?,
        entries: entries.ok_or_else(|| nonsense("an entry without a hash"))?,
        asked: moment(row, "asked")?.ok_or_else(|| nonsense("no time of asking"))?,
        timeout: Duration::from_millis(row.get("timeout_ms")?),
        word: match maybe("answer")? {
            None => None,
            Some(_) => Some(word(row, "answer", Word::parse)?),
        },
        resolver: row.get("resolver")?,
        answered: moment(row, "answered")?,
        ending: match maybe("ending")? {
            None => None,
            Some(_) => Some(word(row, "ending", Ending::parse)?),
        },
        holder: Holder {
            pid: row.get("pid")?,
            start_time: row.get("start_time")?,
            boot_id: row.get("boot_id")?,
            pid_namespace: row.get("pid_namespace")?,
        },
        agent_process: agent_pid.zip(agent_start),
    })
}

fn kept(stored: StoredEntry) -> Option<Kept> {
    let StoredEntry { executable, argv, cwd, sha256 } = stored;
    Some(Kept { executable, argv, cwd, pin: ContentHash::parse(&sha256)? })
}

fn json<T: DeserializeOwned>(text: &str) -> rusqlite::Result<T> {
    serde_json::from_str(text)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(0, Type::Text, error.into()))
}

fn nonsense(what: &str) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(0, Type::Text, what.into())
}

fn moment(row: &Row<'_>, column: &str) -> rusqlite::Result<Option<Moment>> {
    let Some(wall) = row.get::<_, Option<u64>>(column)? else { return Ok(None) };
    let id: Option<String> = row.get(format!("{column}_boot").as_str())?;
    let millis: Option<u64> = row.get(format!("{column}_uptime").as_str())?;
    let boot = id.zip(millis).map(|(id, millis)| SinceBoot { id, millis });
    Ok(Some(Moment { wall: Timestamp::from_millis(wall), boot }))
}
