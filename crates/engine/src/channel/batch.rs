//! Several files of a sandbox changed together, all or none.
//!
//! ```text
//! stage:   WriteOpen, WriteChunk… of every file, Ping      nothing shows; what cannot be written fails here
//! put:     WriteCommit of every file, Rename of every move  handed over as one message
//! ```
//!
//! The supervisor keeps what is staged beside each target, with the mode and owner of the file it replaces, and
//! drops it when the connection ends. So a host that dies before the second step leaves all old, one that dies after
//! it leaves all new: process 1 takes the message whole and works through it without looking up. If the message is
//! longer than the socket takes at once (some hundred files), or if process 1 itself is killed, each file is old or
//! new and none is half.

use std::ops::Range;

use clawpen_wire::supervisor::{
    Event, OnExisting, Place, Rename, Request, WriteOpen, Written, limits,
};

use super::Channel;
use super::error::{CallError, Failure, Violation, unexpected};
use super::files::WriteOptions;
use super::link::Link;

/// Contents sent in one piece.
const PIECE: usize = 64 * 1024;
/// Numbers between those of the writes and those of the moves: for the ping after staging, and for one after
/// taking back.
const PINGS: usize = 2;

/// A file that is to have these contents.
#[derive(Debug, Clone)]
pub struct FileWrite<'a> {
    pub place: Place,
    pub options: WriteOptions,
    pub contents: &'a [u8],
}

/// Something that is to be called something else. What has that name already is kept, and the move fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Move {
    pub from: Place,
    pub to: Place,
}

/// What became of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BatchOutcome {
    /// Nothing was changed: this write cannot be done.
    Refused { write: usize, failure: Failure },
    /// Every change was tried; normally all are done.
    Put { writes: Vec<Result<Written, Failure>>, moves: Vec<Result<(), Failure>> },
}

impl BatchOutcome {
    /// Whether all was done.
    pub fn is_done(&self) -> bool {
        match self {
            Self::Refused { .. } => false,
            Self::Put { writes, moves } => {
                writes.iter().all(Result::is_ok) && moves.iter().all(Result::is_ok)
            }
        }
    }
}

impl Channel {
    /// Stages all writes, then puts them in place together with the moves.
    ///
    /// At most 200 files: each has a channel of its own while it is staged.
    pub fn write_together(
        &mut self,
        writes: &[FileWrite<'_>],
        moves: &[Move],
    ) -> Result<BatchOutcome, CallError> {
        let count = u32::try_from(writes.len() + PINGS + moves.len()).unwrap_or(u32::MAX);
        self.run_several(count, |link, first| {
            Batch::new(link, first, writes.len()).run(writes, moves)
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Staging {
    GoesOn,
    IsOver,
}

/// A batch in progress.
struct Batch<'l> {
    link: &'l mut Link,
    first: u32,
    /// What the supervisor takes of each write before more credit comes.
    windows: Vec<u32>,
    /// The first write that failed.
    failed: Option<(usize, Failure)>,
}

impl<'l> Batch<'l> {
    fn new(link: &'l mut Link, first: u32, writes: usize) -> Self {
        Self { link, first, windows: vec![limits::FIRST_INPUT_WINDOW; writes], failed: None }
    }

    fn run(mut self, writes: &[FileWrite<'_>], moves: &[Move]) -> Result<BatchOutcome, CallError> {
        for (index, write) in writes.iter().enumerate() {
            if self.failed.is_none() {
                self.stage(index, write)?;
            }
        }
        self.link.queue(self.channel(writes.len()), &Request::Ping)?;
        while self.hear()? == Staging::GoesOn {}
        match self.failed.take() {
            Some((write, failure)) => {
                self.abort(writes.len(), write)?;
                Ok(BatchOutcome::Refused { write, failure })
            }
            None => self.put(writes.len(), moves),
        }
    }

    fn channel(&self, index: usize) -> u32 {
        self.first.saturating_add(u32::try_from(index).unwrap_or(u32::MAX))
    }

    /// The channels of the writes and of the pings after them.
    fn channels(&self) -> Range<u32> {
        self.first..self.channel(self.windows.len() + PINGS)
    }

    fn stage(&mut self, index: usize, write: &FileWrite<'_>) -> Result<(), CallError> {
        let channel = self.channel(index);
        let WriteOptions { mode, parents, permissions } = write.options;
        let place = write.place.clone();
        self.link
            .queue(channel, &Request::WriteOpen(WriteOpen { place, mode, parents, permissions }))?;
        let mut rest = write.contents;
        while !rest.is_empty() && self.failed.is_none() {
            let window = self.windows.get(index).copied().unwrap_or_default();
            if window == 0 {
                self.hear()?;
                continue;
            }
            let most = PIECE.min(usize::try_from(window).unwrap_or(PIECE));
            let (piece, after) = rest.split_at(most.min(rest.len()));
            self.link.queue(channel, &Request::WriteChunk(piece))?;
            self.link.pass()?;
            rest = after;
            if let Some(window) = self.windows.get_mut(index) {
                *window = window.saturating_sub(u32::try_from(piece.len()).unwrap_or(u32::MAX));
            }
        }
        Ok(())
    }

    /// Takes one event while files are staged. The answer to the ping is the last.
    fn hear(&mut self) -> Result<Staging, CallError> {
        let (channels, deadline, first) = (self.channels(), self.link.soon(), self.first);
        let ping = self.channel(self.windows.len());
        let (channel, event) = self.link.event_of(channels, deadline)?;
        let index = usize::try_from(channel.saturating_sub(first)).unwrap_or(usize::MAX);
        match event {
            Event::Done if channel == ping => return Ok(Staging::IsOver),
            Event::Credit(credit) => {
                let window = self.windows.get_mut(index).ok_or(Violation::Credit)?;
                let sum =
                    window.checked_add(credit).filter(|sum| credit > 0 && *sum <= limits::WINDOW);
                *window = sum.ok_or(Violation::Credit)?;
            }
            Event::Failed(failed) if index < self.windows.len() => {
                let failure = Failure::from(failed);
                self.failed.get_or_insert((index, failure));
            }
            other => return Err(unexpected(&other)),
        }
        Ok(Staging::GoesOn)
    }

    /// Takes back all writes that were opened but the one that failed by itself.
    fn abort(&mut self, writes: usize, failed: usize) -> Result<(), CallError> {
        // Those after the one that failed may have been opened too, or never: an abort of what is not open is
        // dropped, so the ping tells when all are answered.
        for index in (0..writes).filter(|index| *index != failed) {
            self.link.queue(self.channel(index), &Request::WriteAbort)?;
        }
        let (channels, ping) = (self.channels(), self.channel(writes + 1));
        self.link.queue(ping, &Request::Ping)?;
        loop {
            let deadline = self.link.soon();
            let (channel, event) = self.link.event_of(channels.clone(), deadline)?;
            match event {
                Event::Done if channel == ping => return Ok(()),
                Event::Done | Event::Failed(_) | Event::Credit(_) => {}
                other => return Err(unexpected(&other)),
            }
        }
    }

    /// Hands over every commit and move at once, then reads what became of each.
    fn put(&mut self, writes: usize, moves: &[Move]) -> Result<BatchOutcome, CallError> {
        for index in 0..writes {
            self.link.queue(self.channel(index), &Request::WriteCommit)?;
        }
        for (index, Move { from, to }) in moves.iter().enumerate() {
            let (from, to) = (from.clone(), to.clone());
            let rename = Request::Rename(Rename { from, to, existing: OnExisting::Refuse });
            // Half a batch must not be sent with a later call.
            let queued = self.link.queue(self.channel(writes + PINGS + index), &rename);
            queued.map_err(|_too_long| CallError::Broken)?;
        }
        self.link.send()?;
        let mut written = Vec::with_capacity(writes);
        for index in 0..writes {
            written.push(self.committed(index)?);
        }
        let mut renamed = Vec::with_capacity(moves.len());
        for index in 0..moves.len() {
            let deadline = self.link.soon();
            renamed.push(match self.link.answer(self.channel(writes + PINGS + index), deadline) {
                Ok(Event::Done) => Ok(()),
                Ok(other) => return Err(unexpected(&other)),
                Err(CallError::Failed(failure)) => Err(failure),
                Err(error) => return Err(error),
            });
        }
        Ok(BatchOutcome::Put { writes: written, moves: renamed })
    }

    fn committed(&mut self, index: usize) -> Result<Result<Written, Failure>, CallError> {
        loop {
            let deadline = self.link.soon();
            match self.link.answer(self.channel(index), deadline) {
                Ok(Event::Written(written)) => return Ok(Ok(written)),
                Ok(Event::Credit(_)) => {}
                Ok(other) => return Err(unexpected(&other)),
                Err(CallError::Failed(failure)) => return Ok(Err(failure)),
                Err(error) => return Err(error),
            }
        }
    }
}
