//! Tells a call that runs that it is enough: its caller has left, or its time is over.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clawpen_os::events::{self, Epoll, Interest, Timer};

/// Given to a call by its door, and pulled from any thread when nobody waits for the answer any more.
#[derive(Debug, Clone)]
pub struct Stop(Arc<Line>);

#[derive(Debug)]
struct Line {
    is_pulled: AtomicBool,
    /// Readable for good once pulled.
    end: OwnedFd,
    handle: OwnedFd,
}

impl Stop {
    pub fn new() -> io::Result<Self> {
        let (end, handle) = events::pipe()?;
        Ok(Self(Arc::new(Line { is_pulled: AtomicBool::new(false), end, handle })))
    }

    /// Ends the call; a second time changes nothing.
    pub fn pull(&self) {
        if !self.0.is_pulled.swap(true, Ordering::AcqRel) {
            // One byte always fits into an empty pipe.
            let _written = events::write(self.0.handle.as_fd(), b"x");
        }
    }

    /// Readable for good once pulled.
    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.end.as_fd()
    }

    pub fn is_pulled(&self) -> bool {
        self.0.is_pulled.load(Ordering::Acquire)
    }
}

/// Why a call that runs is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rung {
    /// Nobody waits for its answer.
    Stopped,
    TimeUp,
    /// What was to be done is done.
    Done,
}

/// A descriptor that becomes readable when a call is to be left.
#[derive(Debug)]
pub(super) struct Bell<'a> {
    any: Epoll,
    timer: Timer,
    stop: &'a Stop,
}

impl<'a> Bell<'a> {
    /// Rings when `stop` is pulled, and after so long if that is given.
    pub(super) fn new(stop: &'a Stop, after: Option<Duration>) -> io::Result<Self> {
        let (any, timer) = (Epoll::new()?, Timer::new()?);
        any.add(stop.0.end.as_fd(), 0, Interest::Read)?;
        any.add(timer.as_fd(), 1, Interest::Read)?;
        if let Some(after) = after {
            timer.set(after)?;
        }
        Ok(Self { any, timer, stop })
    }

    /// Rings at once, because the work is done.
    pub(super) fn ring(&self) -> io::Result<()> {
        self.timer.set(Duration::ZERO)
    }

    /// Whether it has rung, and why. That the time is over is said once.
    pub(super) fn rung(&self) -> io::Result<Option<Rung>> {
        if self.stop.is_pulled() {
            return Ok(Some(Rung::Stopped));
        }
        Ok(self.timer.has_fired()?.then_some(Rung::TimeUp))
    }

    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.any.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bell_rings_when_stopped_and_when_its_time_is_over() {
        let stop = Stop::new().unwrap();
        let bell = Bell::new(&stop, None).unwrap();
        assert_eq!(bell.rung().unwrap(), None);
        stop.pull();
        stop.pull();
        let happened = events::poll(&[(bell.as_fd(), Interest::Read)], None).unwrap();
        assert!(!happened.is_empty());
        assert_eq!(bell.rung().unwrap(), Some(Rung::Stopped));
        let calm = Stop::new().unwrap();
        let timed = Bell::new(&calm, Some(Duration::from_millis(1))).unwrap();
        let happened = events::poll(&[(timed.as_fd(), Interest::Read)], None).unwrap();
        assert!(!happened.is_empty());
        assert_eq!(timed.rung().unwrap(), Some(Rung::TimeUp));
        assert_eq!(timed.rung().unwrap(), None);
    }
}
