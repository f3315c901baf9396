//! A command's output, kept in memory up to a cap, with its input given as bytes.

use std::io;

use clawpen_wire::supervisor::Stream;

use super::{ExecIo, Input};

/// What a command wrote. The caps hold for each stream; what is beyond is counted and dropped, so
/// that a command that writes for ever costs time and not memory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Captured {
    /// The start of standard output.
    pub stdout: Vec<u8>,
    /// The start of standard error.
    pub stderr: Vec<u8>,
    /// Bytes dropped, of both.
    pub dropped: u64,
    cap: usize,
    input: Vec<u8>,
    fed: usize,
}

impl Captured {
    /// Keeps at most `cap` bytes of each stream; no input.
    pub fn new(cap: usize) -> Self {
        Self { cap, ..Self::default() }
    }

    /// The same with this input.
    #[must_use]
    pub fn with_input(mut self, input: Vec<u8>) -> Self {
        self.input = input;
        self
    }
}

impl ExecIo for Captured {
    fn output(&mut self, stream: Stream, bytes: &[u8]) -> io::Result<()> {
        let kept = match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        };
        let room = self.cap.saturating_sub(kept.len()).min(bytes.len());
        let (taken, dropped) = bytes.split_at(room);
        kept.extend_from_slice(taken);
        self.dropped = self.dropped.saturating_add(dropped.len() as u64);
        Ok(())
    }

    fn input(&self) -> Input<'_> {
        if self.fed < self.input.len() { Input::Ready } else { Input::Closed }
    }

    fn read_input(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let mut rest = self.input.get(self.fed..).unwrap_or_default();
        let count = io::Read::read(&mut rest, room)?;
        self.fed += count;
        Ok(count)
    }
}
