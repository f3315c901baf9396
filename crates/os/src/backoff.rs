//! Waits for something that the kernel finishes soon but does not announce.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

/// Ended processes are usually gone within this time.
const FIRST: Duration = Duration::from_micros(50);
const LONGEST: Duration = Duration::from_millis(5);

/// Pauses that grow, until a limit.
#[derive(Debug)]
pub(crate) struct Backoff {
    start: Instant,
    limit: Duration,
    next: Duration,
}

impl Backoff {
    pub(crate) fn new(limit: Duration) -> Self {
        Self { start: Instant::now(), limit, next: FIRST }
    }

    /// Pauses, or fails with `TimedOut` if the limit has passed.
    pub(crate) fn pause(&mut self) -> io::Result<()> {
        if self.start.elapsed() >= self.limit {
            return Err(io::ErrorKind::TimedOut.into());
        }
        thread::sleep(self.next);
        self.next = (self.next * 2).min(LONGEST);
        Ok(())
    }
}
