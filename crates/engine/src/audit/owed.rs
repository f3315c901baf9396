//! Records that could not be written when their call was over, kept until they can.
//!
//! A command may fill the disk that our database is on, and empty it again later: its call ran, and the record
//! failed. What is owed is written before anything else runs from this process, in one transaction, or nothing
//! runs. With the process it is gone; whoever called was told.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use clawpen_rules::timestamp::Timestamp;

use super::record::Call;
use super::{AuditError, append_call};
use crate::clock::Clock;
use crate::database::{Database, DatabaseError};
use crate::registry::{self, Taken};

/// What one call owes.
#[derive(Debug, Clone)]
struct Owed {
    call: Call,
    at: Timestamp,
    lease: Option<Taken>,
}

/// By database. As many at most as calls were in flight, because no other begins.
static OWED: LazyLock<Mutex<HashMap<PathBuf, Vec<Owed>>>> = LazyLock::new(Mutex::default);

/// Keeps the record of a call that ran, and the lease that it held.
pub(crate) fn keep(database: &Database, call: &Call, at: Timestamp, lease: Option<Taken>) {
    let owed = Owed { call: call.clone(), at, lease };
    all().entry(database.path().to_owned()).or_default().push(owed);
}

/// Writes what is owed; an error means that nothing may run.
pub(crate) fn settle(database: &Database, clock: &dyn Clock) -> Result<(), AuditError> {
    // Held while it is written, so that it is written once.
    let mut all = all();
    let Some(owed) = all.get(database.path()) else { return Ok(()) };
    let now = clock.now();
    database.write(|sql| -> Result<(), DatabaseError> {
        for Owed { call, at, lease } in owed {
            append_call(sql, call, *at)?;
            lease.as_ref().map_or(Ok(()), |lease| registry::release(sql, lease, &now))?;
        }
        Ok(())
    })?;
    all.remove(database.path());
    Ok(())
}

fn all() -> MutexGuard<'static, HashMap<PathBuf, Vec<Owed>>> {
    OWED.lock().unwrap_or_else(PoisonError::into_inner)
}
