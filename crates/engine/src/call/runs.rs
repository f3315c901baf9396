//! The commands that a door left in the background, by the names that its callers know them by.
//!
//! The supervisor keeps the commands and their output; this remembers whose they are and how far they were read. Gone
//! with the door: the commands stay in their sandbox and in `clawpen ps`.

use std::sync::{Mutex, MutexGuard, PoisonError};

use clawpen_rules::tools::arguments::Terminal;
use clawpen_rules::tools::process::names;
use clawpen_wire::supervisor::ProcessId;

use crate::random;
use crate::registry::Identity;

/// More at once and the oldest name is forgotten; its command is not.
const MOST: usize = 1024;

/// A command in the background.
#[derive(Debug, Clone)]
pub(super) struct Run {
    pub(super) id: String,
    /// The session it belongs to; for others it is not there.
    pub(super) owner: String,
    /// The sandbox's name, and the thing itself.
    pub(super) sandbox: String,
    pub(super) identity: Identity,
    pub(super) process: ProcessId,
    pub(super) pid: u32,
    pub(super) command: String,
    pub(super) cwd: String,
    pub(super) started_ms: u64,
    pub(super) terminal: Terminal,
    /// How much of its output was handed out.
    pub(super) seen: u64,
    /// Polls in a row that brought nothing.
    pub(super) empty_polls: u32,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Runs(Mutex<Vec<Run>>);

impl Runs {
    fn list(&self) -> MutexGuard<'_, Vec<Run>> {
        // What a thread that died left is still a list.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a command and gives it a name.
    pub(super) fn add(&self, run: Run) -> String {
        let mut list = self.list();
        let id = names::pick(random::number(), |name| list.iter().any(|run| run.id == name));
        if list.len() >= MOST {
            list.remove(0);
        }
        list.push(Run { id: id.clone(), ..run });
        id
    }

    /// Those of one session, newest first.
    pub(super) fn of(&self, owner: &str) -> Vec<Run> {
        let list = self.list();
        list.iter().rev().filter(|run| run.owner == owner).cloned().collect()
    }

    pub(super) fn find(&self, owner: &str, id: &str) -> Option<Run> {
        self.list().iter().find(|run| run.owner == owner && run.id == id).cloned()
    }

    /// Notes how far a command's output was read.
    pub(super) fn read(&self, id: &str, seen: u64, empty_polls: u32) {
        if let Some(run) = self.list().iter_mut().find(|run| run.id == id) {
            run.seen = run.seen.max(seen);
            run.empty_polls = empty_polls;
        }
    }

    pub(super) fn remove(&self, id: &str) {
        self.list().retain(|run| run.id != id);
    }
}
