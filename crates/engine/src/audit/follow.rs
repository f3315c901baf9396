//! New records as they come, without asking again and again: the kernel says when `SQLite`'s log was
//! written.
//!
//! A record is in the log a moment before it counts: `SQLite` writes first and then publishes through
//! shared memory, of which the kernel tells nobody. So after a change we look a few more times, later
//! each time, and sleep only then.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify;
use rustix::io::Errno;

use super::record::Record;
use super::{Audit, AuditError, Filter};

/// When to look again after a change. A writer that is held up for longer than this between writing
/// and publishing is seen with the next change, or when the caller's wait is over.
const LOOKS: [Duration; 3] =
    [Duration::from_millis(5), Duration::from_millis(50), Duration::from_millis(500)];

/// Hands out records after some point.
#[derive(Debug)]
pub struct Follower<'a> {
    audit: Audit<'a>,
    filter: Filter,
    changes: OwnedFd,
    /// How many of the [`LOOKS`] since the last change are done.
    looked: usize,
}

impl<'a> Audit<'a> {
    /// Follows the chain; `filter.after` says from where, and its limit does not count.
    pub fn follow(&self, filter: Filter) -> Result<Follower<'a>, AuditError> {
        let directory = self.database.path().parent().unwrap_or(Path::new("/"));
        let failed = |cause: Errno| AuditError::Watch {
            path: directory.to_string_lossy().into_owned(),
            cause: cause.into(),
        };
        let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
        let changes = inotify::init(flags).map_err(failed)?;
        // The directory, because the log is a new file each time the last process has gone.
        let events = inotify::WatchFlags::MODIFY | inotify::WatchFlags::CREATE;
        inotify::add_watch(&changes, directory, events).map_err(failed)?;
        Ok(Follower {
            audit: *self,
            filter: Filter { limit: None, ..filter },
            changes,
            looked: LOOKS.len(),
        })
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
            let step = LOOKS.get(self.looked).map_or(left, |step| left.min(*step));
            let changed = self.wait(step).map_err(|cause| AuditError::Watch {
                path: self.audit.database.path().to_string_lossy().into_owned(),
                cause,
            })?;
            self.looked = if changed { 0 } else { self.looked.saturating_add(1) };
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

    /// Says whether something changed before `wait` was over.
    fn wait(&self, wait: Duration) -> io::Result<bool> {
        let wait = Timespec::try_from(wait).map_err(io::Error::other)?;
        let mut ready = [PollFd::new(&self.changes, PollFlags::IN)];
        match poll(&mut ready, Some(&wait)) {
            Ok(0) | Err(Errno::INTR) => return Ok(false),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        // What changed does not matter, only that something did.
        let mut buffer = [0_u8; 4096];
        loop {
            match rustix::io::read(&self.changes, &mut buffer) {
                Ok(0) | Err(Errno::AGAIN) => return Ok(true),
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}
