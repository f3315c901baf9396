//! Waits for an answer.
//!
//! The database is the truth, and a watch on its log says when to look: an answer of another process
//! is seen within milliseconds, and nobody asks the disk in between. The watch is a hint: a look every
//! [`POLL`] stands behind it, so that a file system that tells nothing costs a second and no answer.
//! Where no watch can be had (the kernel's limit is reached), that look is all there is.

use std::time::{Duration, Instant};

use super::row::{self, Id, Outcome, State};
use super::{Broker, BrokerError, settle};
use crate::database::Changes;

/// However quiet it is, we look so often.
pub const POLL: Duration = Duration::from_secs(1);

impl Broker<'_> {
    /// Blocks until the approval is answered, taken back, or its time is over.
    pub fn wait(&self, id: &Id) -> Result<Outcome, BrokerError> {
        loop {
            if let Some(outcome) = self.wait_for(id, Duration::from_secs(60))? {
                return Ok(outcome);
            }
        }
    }

    /// The same for a while: `None` if it is still pending then. For doors that have other things to
    /// look at, such as a client that cancels.
    pub fn wait_for(&self, id: &Id, at_most: Duration) -> Result<Option<Outcome>, BrokerError> {
        let end = Instant::now() + at_most;
        let mut changes = Changes::watch(self.database).ok();
        loop {
            // The watch was there before we look, so nothing falls in between.
            let now = self.clock.now();
            let approval = self.database.read(|sql| row::by_id(sql, id))?;
            if approval.state != State::Pending {
                return Ok(approval.outcome());
            }
            let due = approval.left(&now);
            if due.is_zero() {
                self.database.write(|sql| settle::sweep(sql, &now))?;
                continue;
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            let step = left.min(due).min(POLL).max(Duration::from_millis(1));
            match &mut changes {
                Some(changes) => changes
                    .wait(step)
                    .map_err(|cause| BrokerError::Io { what: "wait for an answer", cause })?,
                None => std::thread::sleep(step),
            }
        }
    }
}
