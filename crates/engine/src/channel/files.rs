//! Files of a sandbox: read, write, look, list, move, remove.
//!
//! Contents go through in pieces, however large the file; nothing here holds a whole one.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;

use clawpen_wire::supervisor::{
    Copy, Depth, Digest, Entries, Entry, Event, Hash, Links, List, Listing, Metadata, Mkdir,
    OnExisting, Parents, Place, ProgramOpen, Read, Remove, Rename, Request, Stat, StatResult,
    WriteMode, WriteOpen, Written, limits,
};

use super::error::{CallError, Violation, unexpected};
use super::exec::Program;
use super::link::{Deadline, Link};
use super::transport::Wish;
use super::{Channel, done};

/// What the supervisor may send ahead of what the caller has taken.
const WINDOW: u32 = 1024 * 1024;
/// Contents sent in one piece: small beside the window, so that both sides are busy.
const PIECE: usize = 64 * 1024;
/// Entries asked for at once.
const PAGE: u32 = 512;

/// How a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteOptions {
    pub mode: WriteMode,
    pub parents: Parents,
    /// Permission bits of a new file.
    pub permissions: u32,
}

impl Default for WriteOptions {
    /// Replaces the file, in a directory that exists.
    fn default() -> Self {
        Self { mode: WriteMode::Replace, parents: Parents::Required, permissions: 0o644 }
    }
}

/// A directory's entries, in the file system's order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    pub entries: Vec<Entry>,
    /// Whether the directory has more than was asked for.
    pub more: bool,
}

impl Channel {
    /// Reads at most `length` bytes from `offset` on into `sink`; gives how many there were.
    pub fn read(
        &mut self,
        place: Place,
        offset: u64,
        length: u64,
        sink: &mut dyn io::Write,
    ) -> Result<u64, CallError> {
        let request = Request::Read(Read { place, offset, length, window: WINDOW });
        self.run(|link, channel| {
            link.queue(channel, &request)?;
            Reading::new(link, channel, length).run(sink)
        })
    }

    /// Writes all of `source` to a file. Until it returns, the old contents stand, unless they
    /// are added to; an error leaves them.
    pub fn write(
        &mut self,
        place: Place,
        options: WriteOptions,
        source: &mut dyn io::Read,
    ) -> Result<Written, CallError> {
        let WriteOptions { mode, parents, permissions } = options;
        self.send(&Request::WriteOpen(WriteOpen { place, mode, parents, permissions }), source)
    }

    /// Gives the supervisor a program to keep, for [`Channel::exec_program`].
    pub(super) fn bring(&mut self, program: &Program<'_>) -> Result<(), CallError> {
        let request = Request::ProgramOpen(ProgramOpen { name: program.name });
        self.send(&request, &mut &*program.bytes).map(drop)
    }

    fn send(
        &mut self,
        request: &Request<'_>,
        source: &mut dyn io::Read,
    ) -> Result<Written, CallError> {
        self.run(|link, channel| {
            link.queue(channel, request)?;
            Writing { link, channel, window: limits::FIRST_INPUT_WINDOW, total: 0 }.run(source)
        })
    }

    /// Says what a path is.
    pub fn stat(&mut self, place: Place, links: Links) -> Result<StatResult, CallError> {
        self.ask(&Request::Stat(Stat { place, links }), |event| match event {
            Event::StatResult(result) => {
                check_metadata(&result.metadata)?;
                Ok(result)
            }
            other => Err(unexpected(&other)),
        })
    }

    /// Lists a directory, at most `limit` entries of it.
    pub fn list(
        &mut self,
        place: &Place,
        listing: Listing,
        limit: usize,
    ) -> Result<Listed, CallError> {
        let mut listed = Listed { entries: Vec::new(), more: true };
        let mut cursor = 0;
        // Every page but the last brings at least one entry, so this ends.
        while listed.more && listed.entries.len() < limit {
            let left = u32::try_from(limit - listed.entries.len()).unwrap_or(u32::MAX);
            let limit = left.min(PAGE);
            let request = Request::List(List { place: place.clone(), cursor, limit, listing });
            let page = self.ask(&request, |event| match event {
                Event::Entries(page) => Ok(check_page(page, limit)?),
                other => Err(unexpected(&other)),
            })?;
            listed.entries.extend(page.entries);
            listed.more = page.next.is_some();
            cursor = page.next.unwrap_or_default();
        }
        Ok(listed)
    }

    /// Makes a directory.
    pub fn mkdir(
        &mut self,
        place: Place,
        permissions: u32,
        parents: Parents,
    ) -> Result<(), CallError> {
        self.ask(&Request::Mkdir(Mkdir { place, permissions, parents }), done)
    }

    /// Removes a path, never what a link points to.
    pub fn remove(&mut self, place: Place, depth: Depth) -> Result<(), CallError> {
        self.ask_work(&Request::Remove(Remove { place, depth }), done)
    }

    /// Moves a path.
    pub fn rename(
        &mut self,
        from: Place,
        to: Place,
        existing: OnExisting,
    ) -> Result<(), CallError> {
        self.ask(&Request::Rename(Rename { from, to, existing }), done)
    }

    /// Copies a file, or a tree of them, inside the sandbox.
    pub fn copy(
        &mut self,
        from: Place,
        to: Place,
        depth: Depth,
        existing: OnExisting,
    ) -> Result<(), CallError> {
        let request = Request::Copy(Copy { from, to, depth, existing });
        self.ask_work(&request, done)
    }

    /// The SHA-256 of a file, worked out in the sandbox.
    pub fn hash(&mut self, place: Place) -> Result<Digest, CallError> {
        self.ask_work(&Request::Hash(Hash { place }), |event| match event {
            Event::Digest(digest) => Ok(digest),
            other => Err(unexpected(&other)),
        })
    }
}

/// A read in progress.
struct Reading<'l> {
    link: &'l mut Link,
    channel: u32,
    /// Bytes that were asked for and have not come.
    left: u64,
    /// Bytes that may still come before more credit is given.
    credit: u32,
    /// Bytes taken and not yet credited.
    consumed: u32,
    total: u64,
}

impl<'l> Reading<'l> {
    fn new(link: &'l mut Link, channel: u32, length: u64) -> Self {
        Self { link, channel, left: length, credit: WINDOW, consumed: 0, total: 0 }
    }

    fn run(mut self, sink: &mut dyn io::Write) -> Result<u64, CallError> {
        let mut failed = None;
        loop {
            let deadline = self.link.soon();
            let bytes = match self.link.answer(self.channel, deadline) {
                Ok(Event::Data(bytes)) => bytes,
                Ok(Event::Done) => return failed.map_or(Ok(self.total), Err),
                Ok(other) => return Err(unexpected(&other)),
                Err(CallError::Failed(failure)) => {
                    return Err(failed.unwrap_or(CallError::Failed(failure)));
                }
                Err(error) => return Err(error),
            };
            let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
            if length == 0 {
                return Err(Violation::Empty.into());
            }
            self.credit = self.credit.checked_sub(length).ok_or(Violation::OverCredit)?;
            self.left = self.left.checked_sub(length.into()).ok_or(Violation::OverCredit)?;
            self.consumed += length;
            self.total += u64::from(length);
            // What is under way when the caller's sink fails is read off, up to the credit given.
            if failed.is_some() {
                continue;
            }
            if let Err(error) = sink.write_all(bytes) {
                failed = Some(CallError::Local(error));
                self.link.queue(self.channel, &Request::ReadStop)?;
            } else if self.consumed >= WINDOW / 4 && self.left > 0 {
                self.credit += self.consumed;
                self.link.queue(self.channel, &Request::Credit(self.consumed))?;
                self.consumed = 0;
            }
        }
    }
}

/// A write in progress.
struct Writing<'l> {
    link: &'l mut Link,
    channel: u32,
    /// Bytes that may be sent before more credit comes.
    window: u32,
    /// Bytes of contents sent.
    total: u64,
}

impl Writing<'_> {
    fn run(mut self, source: &mut dyn io::Read) -> Result<Written, CallError> {
        let mut piece = vec![0; PIECE];
        loop {
            while self.window == 0 || self.link.unsent() >= 2 * PIECE {
                self.wait()?;
            }
            let most = PIECE.min(usize::try_from(self.window).unwrap_or(usize::MAX));
            let count = match source.read(piece.get_mut(..most).unwrap_or_default()) {
                Ok(0) => break,
                Ok(count) => count.min(most),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return self.abort(error),
            };
            let bytes = piece.get(..count).unwrap_or_default();
            self.link.queue(self.channel, &Request::WriteChunk(bytes))?;
            self.total += count as u64;
            self.window = self.window.saturating_sub(u32::try_from(count).unwrap_or(u32::MAX));
            // A refusal comes while we send; there is no use in sending the rest then.
            if self.link.unsent() >= PIECE {
                self.link.pass()?;
            }
            while self.credited()? {}
        }
        self.link.queue(self.channel, &Request::WriteCommit)?;
        loop {
            let deadline = Deadline::after(self.link.patience.work);
            match self.link.answer(self.channel, deadline)? {
                Event::Written(written) if written.bytes == self.total => return Ok(written),
                Event::Written(_) => return Err(Violation::Range.into()),
                Event::Credit(credit) => self.add(credit)?,
                other => return Err(unexpected(&other)),
            }
        }
    }

    /// Waits for credit, or for room to send.
    fn wait(&mut self) -> Result<(), CallError> {
        if !self.credited()? {
            let deadline = self.link.soon();
            self.link.wait(Wish::default(), deadline)?;
        }
        Ok(())
    }

    /// Takes in credit that has arrived; `false` if there was none.
    fn credited(&mut self) -> Result<bool, CallError> {
        match self.link.next_event(self.channel)? {
            None => Ok(false),
            Some(Event::Credit(credit)) => self.add(credit).map(|()| true),
            Some(Event::Failed(failed)) => Err(CallError::Failed(failed.into())),
            Some(other) => Err(unexpected(&other)),
        }
    }

    fn add(&mut self, credit: u32) -> Result<(), CallError> {
        let sum = self.window.checked_add(credit).filter(|sum| *sum <= limits::WINDOW);
        self.window = sum.filter(|_| credit > 0).ok_or(Violation::Credit)?;
        Ok(())
    }

    /// Takes back what was sent, because the rest cannot be read.
    fn abort(mut self, error: io::Error) -> Result<Written, CallError> {
        self.link.queue(self.channel, &Request::WriteAbort)?;
        loop {
            let deadline = self.link.soon();
            match self.link.answer(self.channel, deadline) {
                Ok(Event::Done) | Err(CallError::Failed(_)) => return Err(CallError::Local(error)),
                Ok(Event::Credit(credit)) => self.add(credit)?,
                Ok(other) => return Err(unexpected(&other)),
                Err(error) => return Err(error),
            }
        }
    }
}

/// A page must keep to what was asked and lead somewhere. Its names go into paths on the host
/// when a tree is copied out, so none may be more than a name.
fn check_page(page: Entries, limit: u32) -> Result<Entries, Violation> {
    if page.entries.is_empty() && page.next.is_some() {
        return Err(Violation::Empty);
    }
    if page.entries.len() > usize::try_from(limit).unwrap_or(usize::MAX) {
        return Err(Violation::OverCredit);
    }
    for entry in &page.entries {
        if !is_name(&entry.name) {
            return Err(Violation::Name);
        }
        entry.metadata.as_ref().map_or(Ok(()), check_metadata)?;
    }
    Ok(page)
}

fn is_name(name: &OsStr) -> bool {
    let bytes = name.as_bytes();
    !matches!(bytes, b"" | b"." | b"..") && !bytes.contains(&b'/')
}

fn check_metadata(metadata: &Metadata) -> Result<(), Violation> {
    if metadata.permissions > 0o7777 { Err(Violation::Range) } else { Ok(()) }
}
