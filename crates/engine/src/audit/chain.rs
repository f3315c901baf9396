//! The chain itself: appending to it, and finding out whether it is whole.

use std::time::Duration;

use clawpen_rules::timestamp::Timestamp;
use rusqlite::Row;

use super::record::{self, Call, Door, Ending, Event, Hash, Head, Reason, Record, Verdict};
use super::{Audit, AuditError};
use crate::database::{DatabaseError, Next, Sql, word};

/// More than these are not listed: the first ones say where to look.
const MAX_BREAKS: usize = 20;

const INSERT: &str = "
    INSERT INTO audit VALUES
    (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)";

/// What a look at the whole chain found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// The last record that is no longer there; the chain starts after it.
    pub base: Head,
    pub head: Head,
    pub records: u64,
    /// Empty: the chain is whole. At most twenty.
    pub breaks: Vec<Break>,
    /// How often the wall clock was behind the record before. No break: clocks are set.
    pub clock_went_back: u64,
    /// What the head that was given proves.
    pub given: GivenHead,
}

/// A head that was exported earlier, against the chain of now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GivenHead {
    None,
    /// The record is there with that hash: everything up to it is as it was.
    Proven,
    /// Retention has dropped that record since. The chain cannot prove or disprove it.
    Dropped,
    /// It is not in the chain: see the breaks.
    Missing,
}

/// A place where the chain is not whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Break {
    pub seq: u64,
    pub kind: BreakKind,
}

/// What is wrong there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakKind {
    /// The record, or the hash of it, is not what was written.
    Altered,
    /// Records are missing before this one.
    Gap,
    /// The chain ends before its head.
    Truncated,
    /// The chain goes on after its head.
    BeyondHead,
    /// Its start was cut off, and no record of retention vouches for that.
    Unvouched,
    /// The head that was given is not in it: the chain was rewritten or cut.
    NotTheGivenHead,
}

impl BreakKind {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Altered => "altered",
            Self::Gap => "gap",
            Self::Truncated => "truncated",
            Self::BeyondHead => "beyond-head",
            Self::Unvouched => "unvouched",
            Self::NotTheGivenHead => "not-the-given-head",
        }
    }

    /// In words.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Altered => "the record is not what was written",
            Self::Gap => "records are missing before it",
            Self::Truncated => "the chain ends here, before its head",
            Self::BeyondHead => "the chain goes on after its head",
            Self::Unvouched => "the chain starts here, and no retention record vouches for that",
            Self::NotTheGivenHead => "the given head is not in the chain: it was rewritten or cut",
        }
    }
}

impl Verified {
    pub fn is_whole(&self) -> bool {
        self.breaks.is_empty()
    }
}

impl Audit<'_> {
    /// Writes a call down; gives the new head.
    pub fn append(&self, call: &Call, now: Timestamp) -> Result<Head, AuditError> {
        let event = Event::Call(call.stored());
        self.database.write(|sql| Ok(append(sql, &event, now)?))
    }

    /// The end of the chain. Keep it elsewhere: it proves all that came before.
    pub fn head(&self) -> Result<Head, AuditError> {
        self.database.read(|sql| Ok(end(sql, End::Head)?))
    }

    /// Looks at every record. `given` is a head that was kept elsewhere.
    pub fn verify(&self, given: Option<Head>) -> Result<Verified, AuditError> {
        self.database.read(|sql| {
            let (base, head) = (end(sql, End::Base)?, end(sql, End::Head)?);
            let mut walk = Walk::new(base, given);
            sql.each("SELECT * FROM audit ORDER BY seq", [], |row| {
                walk.step(row)?;
                Ok(Next::Go)
            })?;
            Ok(walk.finish(head))
        })
    }
}

/// The two ends that are written down beside the records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Base,
    Head,
}

impl End {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::Head => "head",
        }
    }
}

pub(super) fn end(sql: Sql<'_>, end: End) -> Result<Head, DatabaseError> {
    let found =
        sql.first("SELECT seq, hash FROM audit_ends WHERE place = ?1", [end.as_str()], |row| {
            Ok(Head { seq: row.get::<_, i64>(0)?.unsigned_abs(), hash: Hash(row.get(1)?) })
        })?;
    // Without its ends the chain has no beginning: `verify` then says so.
    Ok(found.unwrap_or(Head::START))
}

pub(super) fn set_end(sql: Sql<'_>, end: End, at: Head) -> Result<(), DatabaseError> {
    sql.run(
        "UPDATE audit_ends SET seq = ?2, hash = ?3 WHERE place = ?1",
        (end.as_str(), at.seq, at.hash.0),
    )?;
    Ok(())
}

pub(crate) fn append(sql: Sql<'_>, event: &Event, now: Timestamp) -> Result<Head, DatabaseError> {
    let before = end(sql, End::Head)?;
    let seq = before.seq + 1;
    let time = Timestamp::from_millis(now.as_millis().min(i64::MAX.unsigned_abs()));
    let hash = record::hash(seq, time, event, before.hash);
    let (kind, through, reason) = match event {
        Event::Call(call) => ("call", None, &call.reason),
        Event::Retention { through, reason } => ("retention", Some(*through), reason),
        Event::Rebuild { through, reason } => ("rebuild", *through, reason),
    };
    let call = match event {
        Event::Call(call) => Some(call),
        Event::Retention { .. } | Event::Rebuild { .. } => None,
    };
    sql.run(
        INSERT,
        rusqlite::params![
            seq,
            time.as_millis(),
            kind,
            call.map(|call| &call.call),
            call.and_then(|call| call.session.as_ref()),
            call.and_then(|call| call.agent.as_ref()),
            call.and_then(|call| call.scope.as_ref()),
            call.map(|call| call.door.as_str()),
            call.map(|call| &call.tool),
            call.map(|call| call.verdict.as_str()),
            reason.as_str(),
            call.and_then(|call| call.ending).map(|ending| ending.to_string()),
            call.map(|call| record::micros(call.duration)),
            call.map(|call| call.bytes_in),
            call.map(|call| call.bytes_out),
            through.map(|head| head.seq),
            through.map(|head| head.hash.0),
            hash.0,
        ],
    )?;
    let head = Head { seq, hash };
    set_end(sql, End::Head, head)?;
    Ok(head)
}

/// A walk along the chain.
struct Walk {
    verified: Verified,
    given: Option<Head>,
    at: Head,
    time: Timestamp,
    /// What the newest record of retention, or else of a rebuild, vouches for.
    vouched: Option<Head>,
}

impl Walk {
    fn new(base: Head, given: Option<Head>) -> Self {
        let verified = Verified {
            base,
            head: base,
            records: 0,
            breaks: Vec::new(),
            clock_went_back: 0,
            given: GivenHead::None,
        };
        Self { verified, given, at: base, time: Timestamp::from_millis(0), vouched: None }
    }

    fn step(&mut self, row: &Row<'_>) -> rusqlite::Result<()> {
        let seq = row.get::<_, i64>("seq")?.unsigned_abs();
        if seq != self.at.seq + 1 {
            self.found(seq, BreakKind::Gap);
        }
        self.verified.records += 1;
        // Whatever cannot be read was not written by us.
        if let Ok(record) = read(row, self.at.hash) {
            let fits = record::hash(seq, record.time, &record.event, self.at.hash);
            if fits != record.hash {
                self.found(seq, BreakKind::Altered);
            }
            self.note(&record);
            self.at = Head { seq, hash: record.hash };
        } else {
            self.found(seq, BreakKind::Altered);
            let hash = row.get("hash").map_or(Hash::ZERO, Hash);
            self.at = Head { seq, hash };
        }
        if self.given == Some(self.at) {
            self.verified.given = GivenHead::Proven;
        }
        Ok(())
    }

    fn note(&mut self, record: &Record) {
        if record.time < self.time {
            self.verified.clock_went_back += 1;
        }
        self.time = record.time;
        if let Event::Retention { through, .. } = &record.event {
            self.vouched = Some(*through);
        }
    }

    fn finish(mut self, head: Head) -> Verified {
        let base = self.verified.base;
        if base != Head::START && self.vouched != Some(base) {
            self.found(base.seq + 1, BreakKind::Unvouched);
        }
        if self.at != head {
            let beyond = self.at.seq > head.seq;
            let kind = if beyond { BreakKind::BeyondHead } else { BreakKind::Truncated };
            let kind = if self.at.seq == head.seq { BreakKind::Altered } else { kind };
            self.found(self.at.seq, kind);
        }
        if let Some(given) = self.given {
            self.verified.given = match self.verified.given {
                GivenHead::Proven => GivenHead::Proven,
                _ if given == base => GivenHead::Proven,
                _ if given.seq < base.seq => GivenHead::Dropped,
                _ => {
                    self.found(given.seq, BreakKind::NotTheGivenHead);
                    GivenHead::Missing
                }
            };
        }
        self.verified.head = head;
        self.verified
    }

    fn found(&mut self, seq: u64, kind: BreakKind) {
        if self.verified.breaks.len() < MAX_BREAKS {
            self.verified.breaks.push(Break { seq, kind });
        }
    }
}

/// A row as a record that follows `previous`. Fails on anything that [`append`] does not write.
pub(super) fn read(row: &Row<'_>, previous: Hash) -> rusqlite::Result<Record> {
    let reason = Reason::stored(row.get("reason")?);
    let kind: String = row.get("kind")?;
    let event = match kind.as_str() {
        "call" => {
            nothing_in(row, &["through_seq", "through_hash"])?;
            Event::Call(call(row, reason)?)
        }
        "retention" => {
            nothing_in(row, &CALL_COLUMNS)?;
            let through = through(row)?.ok_or_else(|| stray("through_seq"))?;
            Event::Retention { through, reason }
        }
        "rebuild" => {
            nothing_in(row, &CALL_COLUMNS)?;
            Event::Rebuild { through: through(row)?, reason }
        }
        _ => return Err(stray("kind")),
    };
    Ok(Record {
        seq: row.get("seq")?,
        time: Timestamp::from_millis(row.get("time")?),
        event,
        previous,
        hash: Hash(row.get("hash")?),
    })
}

const CALL_COLUMNS: [&str; 11] = [
    "call",
    "session",
    "agent",
    "scope",
    "door",
    "tool",
    "verdict",
    "ending",
    "micros",
    "bytes_in",
    "bytes_out",
];

fn call(row: &Row<'_>, reason: Reason) -> rusqlite::Result<Call> {
    let ending: Option<String> = row.get("ending")?;
    let ending = match ending {
        None => None,
        Some(text) => {
            let parsed = Ending::parse(&text);
            // `exit 0` and `exit 00` are one ending but two texts, and only one is ours.
            let is_ours = parsed.is_some_and(|ending| ending.to_string() == text);
            Some(parsed.filter(|_| is_ours).ok_or_else(|| stray("ending"))?)
        }
    };
    Ok(Call {
        call: row.get("call")?,
        session: row.get("session")?,
        agent: row.get("agent")?,
        scope: row.get("scope")?,
        door: word(row, "door", |text| Door::ALL.into_iter().find(|door| door.as_str() == text))?,
        tool: row.get("tool")?,
        verdict: word(row, "verdict", Verdict::parse)?,
        reason,
        ending,
        duration: Duration::from_micros(row.get("micros")?),
        bytes_in: row.get("bytes_in")?,
        bytes_out: row.get("bytes_out")?,
    })
}

fn through(row: &Row<'_>) -> rusqlite::Result<Option<Head>> {
    let seq: Option<u64> = row.get("through_seq")?;
    let hash: Option<[u8; 32]> = row.get("through_hash")?;
    match (seq, hash) {
        (Some(seq), Some(hash)) => Ok(Some(Head { seq, hash: Hash(hash) })),
        (None, None) => Ok(None),
        _ => Err(stray("through_seq")),
    }
}

/// A column that this kind of record leaves empty is no place to hide something.
fn nothing_in(row: &Row<'_>, columns: &[&str]) -> rusqlite::Result<()> {
    for column in columns {
        if row.get_ref(*column)? != rusqlite::types::ValueRef::Null {
            return Err(stray(column));
        }
    }
    Ok(())
}

fn stray(column: &str) -> rusqlite::Error {
    let what = format!("the column {column} of an audit record holds what we never write");
    rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Null, what.into())
}
