//! Which records somebody wants to see.

use clawpen_rules::timestamp::Timestamp;
use rusqlite::named_params;

use super::chain::{End, end, read};
use super::record::{Hash, Head, Record, Verdict};
use super::{Audit, AuditError};
use crate::database::Next;

/// Narrows a list; the default keeps everything. A record must fit all that is set.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filter {
    pub session: Option<String>,
    pub agent: Option<String>,
    pub tool: Option<String>,
    pub verdict: Option<Verdict>,
    /// Not before.
    pub since: Option<Timestamp>,
    /// Not after.
    pub until: Option<Timestamp>,
    /// Only records after this one.
    pub after: u64,
    /// Only so many, the newest.
    pub limit: Option<u64>,
}

/// The hash of the record before comes along, so that a record shows what it is chained to.
const SELECT: &str = "
    SELECT *, (SELECT hash FROM audit AS before WHERE before.seq = audit.seq - 1) AS before
    FROM audit
    WHERE seq > :after
      AND (:session IS NULL OR session = :session)
      AND (:agent IS NULL OR agent = :agent)
      AND (:tool IS NULL OR tool = :tool)
      AND (:verdict IS NULL OR verdict = :verdict)
      AND (:since IS NULL OR time >= :since)
      AND (:until IS NULL OR time <= :until)
    ORDER BY seq DESC
    LIMIT :limit";

impl Audit<'_> {
    /// The records that fit, oldest first.
    pub fn list(&self, filter: &Filter) -> Result<Vec<Record>, AuditError> {
        self.database.read(|sql| {
            let base = end(sql, End::Base)?;
            let mut found = Vec::new();
            let mut altered = None;
            let limit = filter.limit.map_or(-1, |limit| i64::try_from(limit).unwrap_or(i64::MAX));
            let millis = |time: Timestamp| time.as_millis().min(i64::MAX.unsigned_abs());
            let params = named_params! {
                ":after": filter.after.min(i64::MAX.unsigned_abs()),
                ":session": filter.session,
                ":agent": filter.agent,
                ":tool": filter.tool,
                ":verdict": filter.verdict.map(Verdict::as_str),
                ":since": filter.since.map(millis),
                ":until": filter.until.map(millis),
                ":limit": limit,
            };
            sql.each(SELECT, params, |row| {
                let before: Option<[u8; 32]> = row.get("before").unwrap_or_default();
                match read(row, before.map_or(base.hash, Hash)) {
                    Ok(record) => found.push(record),
                    Err(_) => altered = Some(row.get::<_, i64>("seq")?.unsigned_abs()),
                }
                Ok(if altered.is_some() { Next::Stop } else { Next::Go })
            })?;
            found.reverse();
            altered.map_or(Ok(found), |seq| Err(AuditError::Altered { seq }))
        })
    }

    /// Every record, oldest first, one at a time, and where the chain starts and ends: what an
    /// export is made of. All of one moment.
    pub fn export<E: From<AuditError>>(
        &self,
        mut visit: impl FnMut(&Record) -> Result<(), E>,
    ) -> Result<(Head, Head), E> {
        let mut stopped = None;
        let ends = self.database.read(|sql| {
            let (base, head) = (end(sql, End::Base)?, end(sql, End::Head)?);
            let mut previous = base.hash;
            sql.each("SELECT * FROM audit ORDER BY seq", [], |row| {
                if let Ok(record) = read(row, previous) {
                    previous = record.hash;
                    stopped = visit(&record).err();
                } else {
                    let seq = row.get::<_, i64>("seq")?.unsigned_abs();
                    stopped = Some(AuditError::Altered { seq }.into());
                }
                Ok(if stopped.is_some() { Next::Stop } else { Next::Go })
            })?;
            Ok::<_, AuditError>((base, head))
        })?;
        stopped.map_or(Ok(ends), Err)
    }
}
