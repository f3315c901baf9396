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

/// More of one session at once and its oldest name is forgotten; the command is not.
const MOST_OF_SESSION: usize = 128;
/// Of all sessions together. More are refused: nobody loses a name because others start many.
const MOST: usize = 4096;

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
    pub(super) end: EndSeen,
}

/// Whether the session knows how a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EndSeen {
    No,
    /// It has asked, or ended it itself.
    Yes,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Runs(Mutex<Vec<Run>>);

impl Runs {
    fn list(&self) -> MutexGuard<'_, Vec<Run>> {
        // What a thread that died left is still a list.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says whether one more would be too many. To be asked before a command starts.
    pub(super) fn is_full(&self) -> bool {
        self.list().len() >= MOST
    }

    /// Adds a command and gives it a name.
    pub(super) fn add(&self, run: Run) -> String {
        let mut list = self.list();
        let id = names::pick(random::number(), |name| list.iter().any(|run| run.id == name));
        let own = |other: &Run| other.owner == run.owner;
        if list.iter().filter(|other| own(other)).count() >= MOST_OF_SESSION
            && let Some(oldest) = list.iter().position(own)
        {
            list.remove(oldest);
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

    /// Notes that the session knows of a command's end.
    pub(super) fn end_seen(&self, id: &str) {
        if let Some(run) = self.list().iter_mut().find(|run| run.id == id) {
            run.end = EndSeen::Yes;
        }
    }

    pub(super) fn remove(&self, id: &str) {
        self.list().retain(|run| run.id != id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::NativeIdentity;

    fn run(owner: &str, number: u64) -> Run {
        Run {
            id: String::new(),
            owner: owner.to_owned(),
            sandbox: "s".to_owned(),
            identity: Identity::Native(NativeIdentity {
                boot_id: String::new(),
                pid: 1,
                start_time: 1,
                socket: String::new(),
            }),
            process: number,
            pid: 1,
            command: String::new(),
            cwd: String::new(),
            started_ms: 0,
            terminal: Terminal::None,
            seen: 0,
            empty_polls: 0,
            end: EndSeen::No,
        }
    }

    #[test]
    fn a_session_that_starts_many_forgets_its_own_and_nobody_elses() {
        let runs = Runs::default();
        let quiet = runs.add(run("quiet", 0));
        let first = runs.add(run("loud", 1));
        for number in 2..=MOST_OF_SESSION as u64 + 1 {
            runs.add(run("loud", number));
        }
        assert_eq!(runs.of("loud").len(), MOST_OF_SESSION);
        assert!(runs.find("loud", &first).is_none());
        assert!(runs.find("quiet", &quiet).is_some());
        assert!(!runs.is_full());
        for owner in 0..MOST / MOST_OF_SESSION {
            (0..MOST_OF_SESSION as u64).for_each(|number| {
                runs.add(run(&owner.to_string(), number));
            });
        }
        assert!(runs.is_full() && runs.find("quiet", &quiet).is_some());
    }
}
