//! New records as they come, without asking again and again.

use std::time::{Duration, Instant};

use super::record::Record;
use super::{Audit, AuditError, Filter};
use crate::database::Changes;

/// Hands out records after some point.
#[derive(Debug)]
pub struct Follower<'a> {
    audit: Audit<'a>,
    filter: Filter,
    changes: Changes,
}

impl<'a> Audit<'a> {
    /// Follows the chain; `filter.after` says from where, and its limit does not count.
    pub fn follow(&self, filter: Filter) -> Result<Follower<'a>, AuditError> {
        let changes = Changes::watch(self.database).map_err(|cause| self.unwatchable(cause))?;
        Ok(Follower { audit: *self, filter: Filter { limit: None, ..filter }, changes })
    }

    fn unwatchable(self, cause: std::io::Error) -> AuditError {
        AuditError::Watch { path: self.database.path().to_string_lossy().into_owned(), cause }
    }
}

impl Follower<'_> {
    /// The records since the last call. If there are none, waits for some, but no longer than `wait`;
    /// then there may still be none.
    pub fn next(&mut self, wait: Duration) -> Result<Vec<Record>, AuditError> {
        let end = Instant::now() + wait;
        loop {
            // The watch was there before we look, so nothing falls in between.
            let found = self.take()?;
            let left = end.saturating_duration_since(Instant::now());
            if !found.is_empty() || left.is_zero() {
                return Ok(found);
            }
            self.changes.wait(left).map_err(|cause| self.audit.unwatchable(cause))?;
        }
    }

    fn take(&mut self) -> Result<Vec<Record>, AuditError> {
        let head = self.audit.head()?;
        if head.seq <= self.filter.after {
            return Ok(Vec::new());
        }
        let found = self.audit.list(&self.filter)?;
        let last = found.last().map_or(head.seq, |record| record.seq.max(head.seq));
        self.filter.after = last;
        Ok(found)
    }
}
