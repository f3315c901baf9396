//! The lines that wait for a session's next turn: what the gateway has to tell it, and nobody's message.
//!
//! One queue for each session, in memory and short. A line is what `rules::system_line` lets through; whoever queues one
//! was allowed to by his door. They go with the process.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use clawpen_rules::system_line::{MOST_WAITING, SystemLine};

use super::Runner;

/// Sessions with lines that wait; more than this would be somebody who fills the memory.
const MOST_SESSIONS: usize = 1000;

/// The queues, by the session's key in its store.
#[derive(Default)]
pub(super) struct Lines(Mutex<HashMap<String, VecDeque<SystemLine>>>);

/// What became of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queued {
    Yes,
    /// The last one that waits says the same.
    Known,
    /// There is no room for another session.
    Full,
}

impl Lines {
    fn all(&self) -> MutexGuard<'_, HashMap<String, VecDeque<SystemLine>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, session: &str, line: SystemLine) -> Queued {
        let mut all = self.all();
        if all.len() >= MOST_SESSIONS && !all.contains_key(session) {
            return Queued::Full;
        }
        let waiting = all.entry(session.to_owned()).or_default();
        if waiting.back().is_some_and(|last| last.text() == line.text()) {
            return Queued::Known;
        }
        waiting.push_back(line);
        while waiting.len() > MOST_WAITING {
            waiting.pop_front();
        }
        Queued::Yes
    }

    /// What waits for a session; it does not wait any more.
    pub(super) fn take(&self, session: &str) -> Vec<SystemLine> {
        self.all().remove(session).map(Vec::from).unwrap_or_default()
    }
}

impl Runner {
    /// Lets a line wait for the next turn of a session, by its key in the store.
    pub fn queue_line(&self, session: &str, line: SystemLine) -> Queued {
        self.0.lines.push(session, line)
    }

    /// Lets what waits for one session wait for another instead.
    pub fn move_lines(&self, from: &str, to: &str) {
        if from == to {
            return;
        }
        for line in self.0.lines.take(from) {
            self.0.lines.push(to, line);
        }
    }

    /// The texts that wait for a session, oldest first.
    pub fn queued_lines(&self, session: &str) -> Vec<String> {
        let all = self.0.lines.all();
        let waiting = all.get(session).into_iter().flatten();
        waiting.map(|line| line.text().to_owned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clawpen_rules::timestamp::Timestamp;

    fn line(text: &str) -> SystemLine {
        SystemLine::of(text, Timestamp::from_millis(0)).unwrap()
    }

    #[test]
    fn a_queue_is_short_and_says_nothing_twice_in_a_row() {
        let lines = Lines::default();
        assert_eq!(lines.push("a", line("one")), Queued::Yes);
        assert_eq!(lines.push("a", line("one")), Queued::Known);
        assert_eq!(lines.push("a", line("two")), Queued::Yes);
        assert_eq!(lines.push("a", line("one")), Queued::Yes);
        let texts = |session: &str| -> Vec<String> {
            lines.take(session).iter().map(|line| line.text().to_owned()).collect()
        };
        assert_eq!(texts("a"), ["one", "two", "one"]);
        assert_eq!(texts("a"), [""; 0]);
        for number in 0..1000 {
            lines.push("b", line(&number.to_string()));
        }
        let left = texts("b");
        assert_eq!((left.len(), left[0].as_str()), (MOST_WAITING, "980"));
        for number in 0..MOST_SESSIONS {
            assert_eq!(lines.push(&number.to_string(), line("x")), Queued::Yes);
        }
        assert_eq!(lines.push("one too many", line("x")), Queued::Full);
        assert_eq!(lines.push("0", line("y")), Queued::Yes);
    }
}
