//! Where the pens stand: the state of one state directory, opened for work.
//!
//! Holds the database, the connections to engines and the clock together, so that a door has one
//! thing to open. Decides nothing and does nothing by itself.

use std::path::Path;

use crate::backend::Engines;
use crate::clock::{Clock, SystemClock};
use crate::database::{Database, DatabaseError};
use crate::lifecycle::Lifecycle;

/// A state directory at work.
pub struct Yard {
    pub database: Database,
    pub engines: Engines,
    pub state_dir: String,
    clock: Box<dyn Clock + Send + Sync>,
}

impl std::fmt::Debug for Yard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Yard").field("state_dir", &self.state_dir).finish_non_exhaustive()
    }
}

impl Yard {
    /// Opens a state directory, and makes the database if there is none.
    pub fn open(state_dir: &str) -> Result<Self, DatabaseError> {
        let database = Database::open(Path::new(state_dir))?;
        Ok(Self::with(database, state_dir))
    }

    /// The same, with the pens that `engines` has made ahead.
    pub fn open_beside(state_dir: &str, engines: &Engines) -> Result<Self, DatabaseError> {
        Ok(Self { engines: engines.beside(), ..Self::open(state_dir)? })
    }

    /// Opens a state directory if anything was ever kept there: a question makes nothing.
    pub fn open_existing(state_dir: &str) -> Result<Option<Self>, DatabaseError> {
        let database = Database::open_existing(Path::new(state_dir))?;
        Ok(database.map(|database| Self::with(database, state_dir)))
    }

    fn with(database: Database, state_dir: &str) -> Self {
        Self {
            database,
            engines: Engines::default(),
            state_dir: state_dir.to_owned(),
            clock: Box::new(SystemClock),
        }
    }

    /// The same with another clock: a week passes in a moment.
    #[must_use]
    pub fn with_clock(self, clock: impl Clock + Send + Sync + 'static) -> Self {
        Self { clock: Box::new(clock), ..self }
    }

    pub fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    pub fn lifecycle(&self) -> Lifecycle<'_> {
        Lifecycle {
            database: &self.database,
            engines: &self.engines,
            state_dir: &self.state_dir,
            clock: &*self.clock,
        }
    }
}
