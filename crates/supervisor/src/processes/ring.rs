//! The last bytes that a background command wrote, addressed by their place in its whole output.
//!
//! Memory is capped: the oldest bytes go first, and [`Ring::start`] says how far back a reader can go.
//! Grows with what is written, so a quiet command costs nothing. Remembers which stream each run of bytes
//! came from; a run counts as a few bytes itself, so that a command that changes streams with every byte
//! cannot grow past the cap either.

use std::collections::VecDeque;

use clawpen_wire::supervisor::Stream;

/// What remembering one change of streams costs.
const RUN: usize = 16;

#[derive(Debug)]
pub(crate) struct Ring {
    kept: VecDeque<u8>,
    /// Where a run starts and which stream it is of; the first may start before `start`.
    runs: VecDeque<(u64, Stream)>,
    cap: usize,
    start: u64,
}

impl Ring {
    pub(crate) fn new(cap: usize) -> Self {
        Self { kept: VecDeque::new(), runs: VecDeque::new(), cap, start: 0 }
    }

    pub(crate) fn cap(&self) -> usize {
        self.cap
    }

    /// The place of the oldest byte still here.
    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    /// The place after the newest byte: how much was ever written.
    pub(crate) fn end(&self) -> u64 {
        self.start + self.kept.len() as u64
    }

    pub(crate) fn push(&mut self, stream: Stream, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        if self.runs.back().is_none_or(|(_, last)| *last != stream) {
            self.runs.push_back((self.end(), stream));
        }
        // Only the end of a long piece can survive; the rest is never copied.
        let lost_at_once = bytes.len().saturating_sub(self.cap);
        if lost_at_once > 0 {
            self.start = self.end() + lost_at_once as u64;
            self.kept.clear();
        }
        self.kept.extend(bytes.get(lost_at_once..).unwrap_or_default());
        while !self.kept.is_empty()
            && self.kept.len() + self.runs.len().saturating_sub(1) * RUN > self.cap
        {
            let over = self.kept.len() + (self.runs.len() - 1) * RUN - self.cap;
            let gone = over.min(self.kept.len());
            self.kept.drain(..gone);
            self.start += gone as u64;
            self.forget_runs();
        }
        self.forget_runs();
    }

    /// The next bytes of one stream, at most `most`, from `offset` on or from the oldest byte kept if that
    /// is later; with the place where they start. `None` if there are none.
    pub(crate) fn read(&self, offset: u64, most: usize) -> Option<(u64, Stream, Vec<u8>)> {
        let from = offset.max(self.start);
        if from >= self.end() {
            return None;
        }
        let run = self.runs.iter().rposition(|(start, _)| *start <= from)?;
        let (_, stream) = *self.runs.get(run)?;
        let until = self.runs.get(run + 1).map_or(self.end(), |(start, _)| *start);
        let skip = usize::try_from(from - self.start).ok()?;
        let length = usize::try_from(until - from).ok()?.min(most);
        Some((from, stream, self.kept.iter().skip(skip).take(length).copied().collect()))
    }

    /// Drops runs that ended before the oldest byte kept.
    fn forget_runs(&mut self) {
        while self.runs.get(1).is_some_and(|(next, _)| *next <= self.start) {
            self.runs.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_bytes_stay_and_keep_their_places() {
        check(8, &["abc", "def"], 0, 100, Some((0, "abcdef")));
        check(8, &["abc", "def"], 2, 3, Some((2, "cde")));
        check(8, &["abcdef", "ghij"], 0, 100, Some((2, "cdefghij")));
        check(8, &["abcdef", "ghij"], 9, 100, Some((9, "j")));
        check(8, &["abcdefghijklm"], 0, 100, Some((5, "fghijklm")));
        check(8, &["abc", "defghijklmno"], 0, 100, Some((7, "hijklmno")));
        check(8, &["abc"], 77, 100, None);
        check(0, &["abc"], 0, 100, None);
    }

    #[test]
    fn a_read_ends_where_the_stream_changes() {
        let mut ring = Ring::new(100);
        ring.push(Stream::Stdout, b"out");
        ring.push(Stream::Stderr, b"err");
        ring.push(Stream::Stderr, b"or");
        assert_eq!(ring.read(0, 9), Some((0, Stream::Stdout, b"out".to_vec())));
        assert_eq!(ring.read(3, 9), Some((3, Stream::Stderr, b"error".to_vec())));
        assert_eq!(ring.read(4, 2), Some((4, Stream::Stderr, b"rr".to_vec())));
    }

    #[test]
    fn changing_streams_costs_room_too() {
        let mut ring = Ring::new(1000);
        for _ in 0..100_000 {
            ring.push(Stream::Stdout, b"o");
            ring.push(Stream::Stderr, b"e");
        }
        assert!(ring.runs.len() * RUN <= 1000 + RUN, "{} runs", ring.runs.len());
        assert_eq!(ring.end(), 200_000);
        assert!(ring.start() >= 200_000 - 1000);
    }

    #[track_caller]
    fn check(cap: usize, pushed: &[&str], offset: u64, most: usize, expected: Option<(u64, &str)>) {
        let mut ring = Ring::new(cap);
        for piece in pushed {
            ring.push(Stream::Stdout, piece.as_bytes());
        }
        let total: usize = pushed.iter().map(|piece| piece.len()).sum();
        assert_eq!(ring.end(), total as u64);
        let read = ring.read(offset, most);
        let read = read.map(|(from, _, bytes)| (from, String::from_utf8(bytes).unwrap()));
        assert_eq!(read, expected.map(|(from, text)| (from, text.to_owned())));
    }
}
