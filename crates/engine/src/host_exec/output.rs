//! Feeds programs and collects what they write, each stream in a thread of its own.
//!
//! A collector keeps so much and reads on, so that a program that writes a lot is not blocked; it
//! ends when everybody has closed the stream, or when the run is over and nothing is left in it.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use clawpen_os::events::{self, Interest};

/// How often a quiet stream is asked whether the run is over.
const LOOK: Duration = Duration::from_millis(20);

/// What was kept of a stream.
#[derive(Debug, Default)]
pub(super) struct Captured {
    pub(super) bytes: Vec<u8>,
    pub(super) is_cut: bool,
}

/// Reads a stream.
pub(super) struct Collector(JoinHandle<Captured>);

impl Collector {
    pub(super) fn start(stream: OwnedFd, most: usize, is_over: Arc<AtomicBool>) -> Self {
        Self(std::thread::spawn(move || collect(&stream, most, &is_over)))
    }

    pub(super) fn join(self) -> Captured {
        // A collector that died kept nothing, which must not look like a quiet program.
        self.0.join().unwrap_or(Captured { bytes: Vec::new(), is_cut: true })
    }
}

fn collect(stream: &OwnedFd, most: usize, is_over: &AtomicBool) -> Captured {
    let mut captured = Captured::default();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        // Asked first: what was written before the end is then seen by the look after it.
        let was_over = is_over.load(Ordering::Acquire);
        let wait = if was_over { Duration::ZERO } else { LOOK };
        match events::poll(&[(stream.as_fd(), Interest::Read)], Some(wait)) {
            Ok(happened) if happened.is_empty() && was_over => return captured,
            Ok(happened) if happened.is_empty() => continue,
            Ok(_) => {}
            Err(_) => return captured,
        }
        match events::read(stream.as_fd(), &mut buffer) {
            Ok(0) | Err(_) => return captured,
            Ok(count) => {
                let room = most.saturating_sub(captured.bytes.len());
                captured.is_cut |= count > room;
                captured.bytes.extend(buffer.iter().take(count.min(room)));
            }
        }
    }
}

/// Writes what a program is to read.
pub(super) struct Feeder(JoinHandle<()>);

impl Feeder {
    pub(super) fn start(stream: OwnedFd, text: Vec<u8>) -> Self {
        Self(std::thread::spawn(move || {
            // A program that ends before it has read everything has read enough.
            let _closed = File::from(stream).write_all(&text);
        }))
    }

    pub(super) fn join(self) {
        let _ended = self.0.join();
    }
}
