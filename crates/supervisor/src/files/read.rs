//! A file on its way to the host, in pieces, as far as the host has given credit.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;

use clawpen_wire::supervisor::{Failed, Read, limits};

use super::{CHUNK, io_failed};

#[derive(Debug)]
pub(crate) struct Reading {
    file: File,
    offset: u64,
    left: u64,
    pub(crate) credit: u32,
}

impl Reading {
    pub(super) fn new(file: OwnedFd, read: &Read) -> Self {
        Self {
            file: File::from(file),
            offset: read.offset,
            left: read.length,
            credit: read.window.min(limits::WINDOW),
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.left == 0
    }

    /// Reads the next piece to the front of `buffer`. 0 is the end, or that there is no credit.
    pub(crate) fn next(&mut self, buffer: &mut [u8]) -> Result<usize, Failed> {
        let room = usize::try_from(self.credit).unwrap_or(CHUNK).min(CHUNK).min(buffer.len());
        let room = room.min(usize::try_from(self.left).unwrap_or(CHUNK));
        if room == 0 {
            return Ok(0);
        }
        let count = self
            .file
            .read_at(buffer.get_mut(..room).unwrap_or_default(), self.offset)
            .map_err(|error| io_failed(&error, "read"))?;
        if count == 0 {
            self.left = 0;
        }
        let wide = u64::try_from(count).unwrap_or_default();
        self.offset = self.offset.saturating_add(wide);
        self.left = self.left.saturating_sub(wide);
        self.credit = self.credit.saturating_sub(u32::try_from(count).unwrap_or(u32::MAX));
        // A short piece of a regular file is its end: saves the host a turn for small files.
        if count < room && self.is_at_end() {
            self.left = 0;
        }
        Ok(count)
    }

    /// Files of `/proc` say that they are empty, and may give short pieces before their end.
    fn is_at_end(&self) -> bool {
        self.file.metadata().is_ok_and(|seen| seen.len() > 0 && self.offset >= seen.len())
    }
}
