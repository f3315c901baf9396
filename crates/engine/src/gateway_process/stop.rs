//! Ends a gateway: asks first, insists later. Its sandboxes stay.

use std::io;
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use clawpen_os::events::{self, Interest};
use clawpen_os::process::{self, Signal};

use super::place::Place;
use super::record::{self, RecordError, Running};

/// How long it may take to die of a signal that cannot be caught.
const FIRM: Duration = Duration::from_secs(10);

/// How it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    Gracefully,
    /// It did not end when asked.
    Killed,
}

/// It still runs, or nobody can say.
#[derive(Debug, thiserror::Error)]
pub enum StopError {
    #[error("cannot signal the gateway (process {pid})")]
    Signal {
        pid: u32,
        #[source]
        cause: io::Error,
    },
    #[error("the gateway (process {pid}) does not end, not even when killed")]
    Stays { pid: u32 },
    #[error(transparent)]
    Record(#[from] RecordError),
}

/// Ends it. Whoever calls holds the place's lock.
pub fn stop(place: &Place, running: &Running, patience: Duration) -> Result<Stopped, StopError> {
    let how = if end(running, Signal::TERM, patience)? {
        Stopped::Gracefully
    } else if end(running, Signal::KILL, FIRM)? {
        Stopped::Killed
    } else {
        return Err(StopError::Stays { pid: running.record.pid });
    };
    record::forget(place, running.record.pid)?;
    Ok(how)
}

/// Sends a signal and waits for the end; the handle can mean no other process.
fn end(running: &Running, signal: Signal, limit: Duration) -> Result<bool, StopError> {
    let failed = |cause| StopError::Signal { pid: running.record.pid, cause };
    match process::pidfd_signal(running.handle.as_fd(), signal) {
        Ok(()) => {}
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Ok(true),
        Err(error) => return Err(failed(error)),
    }
    let begin = Instant::now();
    loop {
        let left = limit.saturating_sub(begin.elapsed());
        let ended = events::poll(&[(running.handle.as_fd(), Interest::Read)], Some(left));
        if !ended.map_err(failed)?.is_empty() {
            return Ok(true);
        }
        // Else a signal of our own woke us.
        if left.is_zero() {
            return Ok(false);
        }
    }
}
