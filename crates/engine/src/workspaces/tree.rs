//! Whole trees that somebody else may be changing: told apart by a stamp, and copied with limits.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::ops::ControlFlow;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::UNIX_EPOCH;

use clawpen_os::beneath::{self, Entry, Kind, Open, Place, Root};
use clawpen_rules::workspace::skills::MAX_DEPTH;
use sha2::{Digest as _, Sha256};

use super::plain::{self, Attributes, NotPlain};

/// Entries of one tree that are looked at for a stamp.
const MOST_STAMPED: usize = 50_000;

/// Tells two states of a tree apart by names, kinds, sizes, times and inodes, without reading a file.
#[derive(Debug, Default)]
pub(super) struct Stamp {
    hash: Sha256,
    entries: usize,
}

impl Stamp {
    /// Adds a word, such as a path or a setting.
    pub(super) fn word(&mut self, word: &[u8]) {
        self.hash.update(word.len().to_le_bytes());
        self.hash.update(word);
    }

    /// Adds a directory with all that is in it; `InvalidData` if that is too much or too deep.
    pub(super) fn tree(&mut self, directory: BorrowedFd<'_>, depth: usize) -> io::Result<()> {
        if depth > MAX_DEPTH {
            return Err(io::ErrorKind::InvalidData.into());
        }
        for entry in sorted(directory, MOST_STAMPED.saturating_sub(self.entries))? {
            self.entries += 1;
            let found = match beneath::stat_name(directory, &entry.name) {
                // Gone meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                other => other?,
            };
            self.word(entry.name.as_bytes());
            let modified = found.modified.duration_since(UNIX_EPOCH).unwrap_or_default();
            let facts = format!(
                "{:?} {:o} {} {} {}",
                found.kind,
                found.mode,
                found.size,
                found.inode,
                modified.as_nanos()
            );
            self.word(facts.as_bytes());
            if found.kind == Kind::Directory {
                let below = plain::open_directory(directory, &entry.name)?;
                self.tree(below.as_fd(), depth + 1)?;
                self.word(b"/");
            }
        }
        Ok(())
    }

    pub(super) fn finish(self) -> String {
        let hash: [u8; 32] = self.hash.finalize().into();
        clawpen_rules::workspace::seeds::Digest::new(hash).to_string()
    }
}

/// The entries of a directory by name; `InvalidData` if there are more than `most`.
pub(super) fn sorted(directory: BorrowedFd<'_>, most: usize) -> io::Result<Vec<Entry>> {
    let mut entries = Vec::new();
    let mut is_too_much = false;
    beneath::list(directory, &mut |entry| {
        is_too_much = entries.len() >= most;
        if is_too_much {
            return ControlFlow::Break(());
        }
        entries.push(entry);
        ControlFlow::Continue(())
    })?;
    if is_too_much {
        return Err(io::ErrorKind::InvalidData.into());
    }
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(entries)
}

/// What a copy may still take, and what it left out.
#[derive(Debug)]
pub(super) struct Budget {
    pub(super) bytes: u64,
    pub(super) entries: usize,
    pub(super) passed_over: usize,
}

/// A tree that was not copied whole.
#[derive(Debug, thiserror::Error)]
pub(super) enum CopyError {
    #[error("it is too large")]
    TooLarge,
    #[error("it is too deep")]
    TooDeep,
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// Copies what is in one directory into another, a new one of ours. Links, devices and files with a
/// second name are passed over.
pub(super) fn copy(
    from: BorrowedFd<'_>,
    to: BorrowedFd<'_>,
    owner: (u32, u32),
    budget: &mut Budget,
    depth: usize,
) -> Result<(), CopyError> {
    if depth > MAX_DEPTH {
        return Err(CopyError::TooDeep);
    }
    let entries = sorted(from, budget.entries).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidData => CopyError::TooLarge,
        _ => CopyError::Io(error),
    })?;
    for Entry { name, .. } in entries {
        budget.entries = budget.entries.saturating_sub(1);
        let place = Place { directory: to, name: &name };
        match plain::open_directory(from, &name) {
            Ok(below) => {
                let made = plain::make_directory(place, Attributes { mode: 0o755, owner })?;
                copy(below.as_fd(), made.as_fd(), owner, budget, depth + 1)?;
            }
            Err(_not_a_directory) => copy_file((from, &name), place, owner, budget)?,
        }
    }
    Ok(())
}

fn copy_file(
    (from, name): (BorrowedFd<'_>, &OsStr),
    to: Place<'_>,
    owner: (u32, u32),
    budget: &mut Budget,
) -> Result<(), CopyError> {
    let plain = match plain::open(from, Path::new(name), budget.bytes) {
        Ok(plain) => plain,
        Err(NotPlain::Unusable(clawpen_rules::workspace::seeds::Unusable::TooLarge { .. })) => {
            return Err(CopyError::TooLarge);
        }
        Err(NotPlain::Missing | NotPlain::Unusable(_)) => {
            budget.passed_over += 1;
            return Ok(());
        }
    };
    let mode = if plain.is_program { 0o755 } else { 0o644 };
    let limit = budget.bytes;
    let new = beneath::open(
        Root::without_links(to.directory),
        Path::new(to.name),
        Open::CreateNew { mode: 0o600 },
    )?;
    let mut new = File::from(new);
    let copied = plain.copy_to(&mut new, limit)?;
    budget.bytes = budget.bytes.checked_sub(copied).ok_or(CopyError::TooLarge)?;
    Attributes { mode, owner }.apply(new.as_fd())?;
    Ok(())
}

impl plain::Plain {
    /// Copies at most one byte more than `limit`.
    fn copy_to(self, to: &mut File, limit: u64) -> io::Result<u64> {
        let mut piece = vec![0; 64 * 1024];
        let mut from = self.into_file().take(limit.saturating_add(1));
        let mut copied = 0_u64;
        loop {
            let read = from.read(&mut piece)?;
            if read == 0 {
                return Ok(copied);
            }
            to.write_all(piece.get(..read).unwrap_or_default())?;
            copied = copied.saturating_add(u64::try_from(read).unwrap_or(u64::MAX));
        }
    }
}

/// Removes a tree if it is there.
pub(super) fn remove(directory: BorrowedFd<'_>, name: &str) -> io::Result<()> {
    match beneath::remove_tree(directory, &OsString::from(name)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
