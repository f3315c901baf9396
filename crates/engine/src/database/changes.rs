//! Tells that somebody wrote to the database, without asking again and again: the kernel says when
//! `SQLite`'s log was written.
//!
//! A change is in the log a moment before it counts: `SQLite` writes first and then publishes through
//! shared memory, of which the kernel tells nobody. So after a change it pays to look a few more
//! times, later each time, and to sleep only then. It is a hint and never the truth: whoever waits
//! looks for himself when his wait is over.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify;
use rustix::io::Errno;

use super::Database;

/// When to look again after a change. A writer that is held up for longer than this between writing
/// and publishing is seen with the next change, or when the caller's wait is over.
const LOOKS: [Duration; 3] =
    [Duration::from_millis(5), Duration::from_millis(50), Duration::from_millis(500)];

/// A watch on one database.
#[derive(Debug)]
pub struct Changes {
    watch: OwnedFd,
    /// How many of the [`LOOKS`] since the last change are done.
    looked: usize,
}

impl Changes {
    /// Watches from now on: what is read after this misses nothing.
    pub fn watch(database: &Database) -> io::Result<Self> {
        let directory = database.path().parent().unwrap_or(Path::new("/"));
        let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
        let watch = inotify::init(flags)?;
        // The directory, because the log is a new file each time the last process has gone.
        let events = inotify::WatchFlags::MODIFY | inotify::WatchFlags::CREATE;
        inotify::add_watch(&watch, directory, events)?;
        Ok(Self { watch, looked: LOOKS.len() })
    }

    /// Waits for a change, or until it is time to look again; never longer than `at_most`.
    pub fn wait(&mut self, at_most: Duration) -> io::Result<()> {
        let step = self.step(at_most);
        let wait = Timespec::try_from(step).map_err(io::Error::other)?;
        let mut ready = [PollFd::new(&self.watch, PollFlags::IN)];
        match poll(&mut ready, Some(&wait)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        self.woke()
    }

    /// How long whoever polls [`Changes::as_fd`] himself may sleep.
    pub fn step(&self, at_most: Duration) -> Duration {
        LOOKS.get(self.looked).map_or(at_most, |step| at_most.min(*step))
    }

    /// To be called after such a sleep: takes in what happened.
    pub fn woke(&mut self) -> io::Result<()> {
        // What changed does not matter, only that something did.
        let mut buffer = [0_u8; 4096];
        let mut changed = false;
        loop {
            match rustix::io::read(&self.watch, &mut buffer) {
                Ok(0) | Err(Errno::AGAIN) => break,
                Ok(_) => changed = true,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.looked = if changed { 0 } else { self.looked.saturating_add(1) };
        Ok(())
    }
}

impl AsFd for Changes {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.watch.as_fd()
    }
}
