//! Feeds programs, and keeps what they write: so much of it, and all of it is read, so that a program that writes a
//! lot is not blocked.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::{BorrowedFd, OwnedFd};

use clawpen_os::events;

use super::Observer;

/// Read at once.
const PIECE: usize = 64 * 1024;

/// What was kept of a stream.
#[derive(Debug, Default)]
pub(super) struct Captured {
    pub(super) bytes: Vec<u8>,
    pub(super) is_cut: bool,
    pub(super) written: u64,
    most: usize,
}

impl Captured {
    pub(super) fn new(most: usize) -> Self {
        Self { most, ..Self::default() }
    }

    /// Reads once from an end that does not block. Says whether anything was there.
    pub(super) fn read(&mut self, end: BorrowedFd<'_>, observer: &mut dyn Observer) -> bool {
        let mut buffer = vec![0; PIECE];
        // Nothing yet, the end, or a pipe that is broken: there is nothing to keep.
        let Ok(count) = events::read(end, &mut buffer) else { return false };
        let piece = buffer.get(..count).unwrap_or_default();
        self.written += count as u64;
        let room = self.most.saturating_sub(self.bytes.len());
        self.is_cut |= count > room;
        self.bytes.extend(piece.iter().take(room));
        if count > 0 {
            observer.output(piece);
        }
        count > 0
    }
}

/// Writes what a program is to read. Nobody waits for it: what holds the other end and does not read, holds only this
/// thread. A program that ends before it has read everything has read enough.
pub(super) fn feed(stream: OwnedFd, text: Vec<u8>) {
    std::thread::spawn(move || {
        let _closed = File::from(stream).write_all(&text);
    });
}
