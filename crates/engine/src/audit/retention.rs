//! Dropping old records without breaking the chain.
//!
//! Only the oldest go, never one from the middle. Before they go, a record is appended that names the
//! last of them and its hash; both happen in one transaction. So whatever is missing at the start is
//! vouched for inside the chain, and whoever cuts more is found.

use std::time::Duration;

use clawpen_rules::config::own::AuditSettings;
use clawpen_rules::timestamp::Timestamp;

use super::chain::{End, append, end, set_end};
use super::record::{Event, Hash, Head, Reason};
use super::{Audit, AuditError};

/// What is kept. A record goes only if it is both old and not among the newest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// `None`: for ever.
    pub keep: Option<Duration>,
    /// So many stay, however old the clock makes them look.
    pub keep_at_least: u64,
}

/// What retention did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dropped {
    pub records: u64,
    /// The head after it.
    pub head: Head,
}

impl Audit<'_> {
    /// Drops what is too old. Stops at the first record that is not: with a clock that was set, times
    /// are not in order, and what lies ahead of the clock is not old.
    pub fn retain(&self, retention: &Retention, now: Timestamp) -> Result<Dropped, AuditError> {
        let unchanged = |head| Dropped { records: 0, head };
        let Some(keep) = retention.keep else { return Ok(unchanged(self.head()?)) };
        let oldest = now.before(keep);
        let through = |sql: crate::database::Sql<'_>| {
            let (base, head) = (end(sql, End::Base)?, end(sql, End::Head)?);
            let last = head.seq.saturating_sub(retention.keep_at_least);
            // The first record that stays for its age.
            let young = sql.first(
                "SELECT seq FROM audit WHERE time >= ?1 ORDER BY seq LIMIT 1",
                [oldest.as_millis().min(i64::MAX.unsigned_abs())],
                |row| row.get::<_, u64>(0),
            )?;
            let last = young.map_or(last, |young| last.min(young.saturating_sub(1)));
            if last <= base.seq {
                return Ok(None);
            }
            let hash = sql.first("SELECT hash FROM audit WHERE seq = ?1", [last], |row| {
                row.get::<_, [u8; 32]>(0)
            })?;
            Ok::<_, AuditError>(hash.map(|hash| Head { seq: last, hash: Hash(hash) }))
        };
        // Usually nothing is to be done, and a look needs no right to write.
        if self.database.read(through)?.is_none() {
            return Ok(unchanged(self.head()?));
        }
        self.database.write(|sql| {
            let Some(through) = through(sql)? else { return Ok(unchanged(end(sql, End::Head)?)) };
            let days = keep.as_secs() / 86_400;
            let reason = Reason::new(&format!("older than audit.keepDays ({days} days)"));
            let head = append(sql, &Event::Retention { through, reason }, now)?;
            let records = sql.run("DELETE FROM audit WHERE seq <= ?1", [through.seq])?;
            set_end(sql, End::Base, through)?;
            Ok(Dropped { records: records as u64, head })
        })
    }
}

impl Retention {
    /// What the settings ask for.
    pub fn of(settings: &AuditSettings) -> Self {
        let keep = Duration::try_from_secs_f64(settings.keep_days.value * 86_400.0).ok();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the schema lets only whole numbers through, and the cast saturates"
        )]
        let keep_at_least = settings.keep_at_least.value as u64;
        Self { keep: keep.filter(|keep| !keep.is_zero()), keep_at_least }
    }
}
