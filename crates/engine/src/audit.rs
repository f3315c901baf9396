//! What was called, what was decided and why, and how it ended: a chain in which every record
//! carries the hash of the one before.
//!
//! A record never holds contents, arguments, values of variables or paths: [`Call`] has no field
//! for them, and a [`Reason`] hides what it is told to hide. [`Audit::verify`] finds any change,
//! deletion, reordering or truncation up to the newest head it knows. Whoever may write the file
//! can rewrite the whole chain, head included; only a head that was exported elsewhere, or signed with a
//! key that he does not have ([`signature`]), tells then.
//!
//! ```text
//! base ──► record n+1 ──► record n+2 ──► … ──► head
//!  └ the last record that retention dropped; a record of the chain vouches for it
//! ```

mod chain;
mod follow;
pub(crate) mod owed;
mod record;
mod retention;
mod select;
mod shape;
pub mod signature;

pub use chain::{Break, BreakKind, GivenHead, Verified};
pub(crate) use chain::{append, append_call};
pub use follow::Follower;
pub use record::{Call, Door, Ending, Event, Hash, Head, Piece, Reason, Record, Verdict};
pub use retention::{Dropped, Retention};
pub use select::Filter;

use crate::database::{Database, DatabaseError};

/// The audit chain of one state directory. Cheap to make.
#[derive(Debug, Clone, Copy)]
pub struct Audit<'a> {
    database: &'a Database,
}

/// The chain could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    #[error(transparent)]
    Database(#[from] DatabaseError),
    #[error("the audit record {seq} is not what was written; see `clawpen audit --verify`")]
    Altered { seq: u64 },
    #[error("cannot watch `{path}`")]
    Watch {
        path: String,
        #[source]
        cause: std::io::Error,
    },
}

impl<'a> Audit<'a> {
    pub(crate) const fn new(database: &'a Database) -> Self {
        Self { database }
    }
}

#[cfg(test)]
mod exec_reasons;
#[cfg(test)]
mod tests;
