//! Which sandboxes there are, and who is using them.
//!
//! ```text
//!            begin            identify, ready             begin_removal             forget
//! (no row) ────────► Creating ───────────────► Ready ───────────────────► Removing ────────► (no row)
//!                        └───────────────────────────────────────────────────▲
//! ```
//!
//! A row is written before anything is made and deleted after everything is gone, so whatever
//! exists is written down. Every change names the [`Generation`] it means. A lease is a row per
//! call in flight: taking one and beginning a removal exclude each other, so nothing is removed
//! under a call. A lease of a process that died is recognised by its start time.
//!
//! Keeps and finds; decides nothing, starts and removes nothing. Time comes in as an argument.

mod foreign;
mod holder;
mod lease;
mod row;
mod store;

pub use foreign::{ImportProblem, Imported};
pub(crate) use lease::release;
pub use lease::{AsWanted, Leased, Taken, Use};
pub use row::{
    DockerIdentity, Foreign, Generation, Holder, Identity, Kind, Lease, LeaseId, Liveness,
    NativeIdentity, NewRow, Row, State, Survivor,
};

use crate::database::{Database, DatabaseError};

/// The registry of one state directory. Cheap to make; every call is one transaction.
#[derive(Debug, Clone, Copy)]
pub struct Registry<'a> {
    database: &'a Database,
}

/// What to do about calls in flight when a sandbox is to be removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InFlight {
    /// They keep it.
    Respect,
    /// They are cut off: the user said so.
    CutOff,
}

/// The registry did not do it. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    #[error(transparent)]
    Database(#[from] DatabaseError),
    #[error("a sandbox `{name}` is written down already, as {}", .state.as_str())]
    Taken { name: String, state: State },
    /// It was removed, or made anew, since the caller looked.
    #[error("the sandbox `{name}` is no longer the one that was looked at; try again")]
    Changed { name: String },
    #[error("the sandbox `{name}` is {}", .state.as_str())]
    WrongState { name: String, state: State },
    #[error("the sandbox `{name}` is in use by {} call(s)", .leases.len())]
    InUse { name: String, leases: Vec<Lease> },
}

impl<'a> Registry<'a> {
    pub(crate) const fn new(database: &'a Database) -> Self {
        Self { database }
    }
}

#[cfg(test)]
mod tests;
