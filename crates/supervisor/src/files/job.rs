//! File work that takes long, in slices: hash, copy, remove.
//!
//! No link is followed and no name is looked up twice: a directory is opened once, as a directory, and
//! everything below it is done through that descriptor. So a workload that swaps a directory for a link
//! meanwhile can make a job fail, never make it work elsewhere.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::ops::ControlFlow;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::time::Instant;

use clawpen_os::beneath::{self, Existing, Kind, Open, Place, Removal};
use clawpen_wire::supervisor::{Copy, Depth, Digest, ErrorCode, Event, Failed, OnExisting};

use super::io_failed;
use crate::exec::failed;
use crate::sha256::Sha256;

/// How deep a tree may be that is copied: each level holds two descriptors, one on either side.
const DEPTH: usize = 200;
/// Bytes moved before the clock is looked at.
const PIECE: usize = 128 * 1024;

#[derive(Debug)]
pub(crate) struct Job {
    task: Task,
    buffer: Vec<u8>,
}

#[derive(Debug)]
enum Task {
    Hash { file: File, hash: Sha256, size: u64 },
    RemoveOne { parent: OwnedFd, name: OsString },
    RemoveTree { removal: Removal, name: OsString },
    Copy(Box<Copying>),
}

/// A copy under way.
#[derive(Debug)]
struct Copying {
    levels: Vec<CopyLevel>,
    file: Option<(File, File)>,
    /// The target is made under this name and moved to its own when it is complete.
    top: OwnedFd,
    temporary: OsString,
    name: OsString,
    existing: Existing,
}

/// A directory whose entries are being copied.
#[derive(Debug)]
struct CopyLevel {
    from: OwnedFd,
    to: OwnedFd,
    names: Vec<OsString>,
    /// The mode for the end, when nothing has to be made in it any more.
    mode: u32,
}

impl Job {
    pub(super) fn hash(file: OwnedFd) -> Self {
        Self::new(Task::Hash { file: File::from(file), hash: Sha256::new(), size: 0 })
    }

    pub(super) fn remove(parent: OwnedFd, name: OsString, depth: Depth) -> Self {
        Self::new(match depth {
            Depth::One => Task::RemoveOne { parent, name },
            Depth::Tree => Task::RemoveTree { removal: Removal::new(parent, name.clone()), name },
        })
    }

    pub(super) fn copy(
        from: (OwnedFd, OsString),
        to: (OwnedFd, OsString),
        copy: &Copy,
    ) -> Result<Self, Failed> {
        let (from, from_name) = from;
        let (top, name) = to;
        let seen = checked(beneath::stat_name(from.as_fd(), &from_name), &from_name)?;
        if seen.kind == Kind::Directory && copy.depth == Depth::One {
            let what = format!("`{}` is a directory; copy it as a tree", from_name.display());
            return Err(failed(ErrorCode::IsDirectory, what));
        }
        let existing = match copy.existing {
            OnExisting::Refuse => Existing::Keep,
            OnExisting::Replace => Existing::Replace,
        };
        // Seen early, so that a long copy is not made in vain; the rename at the end decides.
        if existing == Existing::Keep && beneath::stat_name(top.as_fd(), &name).is_ok() {
            return Err(failed(ErrorCode::Exists, format!("`{}` exists", name.display())));
        }
        let mut temporary = OsString::from(".clawpen-copy-");
        temporary.push(seen.inode.to_string());
        let mut copying =
            Copying { levels: Vec::new(), file: None, top, temporary, name, existing };
        let target = checked(copying.top.try_clone(), &copying.name)?;
        let temporary = copying.temporary.clone();
        copying.take(&from, &from_name, (&target, &temporary))?;
        Ok(Self::new(Task::Copy(Box::new(copying))))
    }

    fn new(task: Task) -> Self {
        Self { task, buffer: vec![0; PIECE] }
    }

    /// Nobody waits for it any more: a half-made copy goes, what was removed stays removed.
    pub(crate) fn abandon(self) {
        match self.task {
            Task::Copy(copying) => copying.clean_up(),
            Task::Hash { .. } | Task::RemoveOne { .. } | Task::RemoveTree { .. } => {}
        }
    }

    /// Works until it is done or `until` has come.
    pub(crate) fn work(&mut self, until: Instant) -> Result<Option<Event<'static>>, Failed> {
        loop {
            let done = match &mut self.task {
                Task::Hash { file, hash, size } => {
                    let count = read(file, &mut self.buffer)?;
                    if count == 0 {
                        let sha256 = std::mem::replace(hash, Sha256::new()).finish();
                        return Ok(Some(Event::Digest(Digest { sha256, size: *size })));
                    }
                    hash.update(self.buffer.get(..count).unwrap_or_default());
                    *size += count as u64;
                    false
                }
                Task::RemoveOne { parent, name } => remove_one(parent, name)?,
                Task::RemoveTree { removal, name } => checked(removal.step(), name)?,
                Task::Copy(copying) => match copying.copy_some(&mut self.buffer) {
                    Ok(done) => done,
                    Err(failed) => {
                        copying.clean_up();
                        return Err(failed);
                    }
                },
            };
            if done {
                return Ok(Some(Event::Done));
            }
            if Instant::now() >= until {
                return Ok(None);
            }
        }
    }
}

/// Removes a file or an empty directory.
fn remove_one(parent: &OwnedFd, name: &OsStr) -> Result<bool, Failed> {
    let removed = match checked(beneath::stat_name(parent.as_fd(), name), name)?.kind {
        Kind::Directory => beneath::remove_directory(parent.as_fd(), name),
        Kind::File
        | Kind::Symlink
        | Kind::Fifo
        | Kind::Socket
        | Kind::CharacterDevice
        | Kind::BlockDevice
        | Kind::Unknown => beneath::remove_file(parent.as_fd(), name),
    };
    checked(removed, name).map(|()| true)
}

impl Copying {
    /// Copies one piece. Says whether all is in place.
    fn copy_some(&mut self, buffer: &mut [u8]) -> Result<bool, Failed> {
        if let Some((from, to)) = &mut self.file {
            let count = read(from, buffer)?;
            if count > 0 {
                let bytes = buffer.get(..count).unwrap_or_default();
                return to
                    .write_all(bytes)
                    .map(|()| false)
                    .map_err(|error| io_failed(&error, "copy"));
            }
            self.file = None;
        }
        let Some(level) = self.levels.last_mut() else { return self.move_into_place() };
        let Some(name) = level.names.pop() else {
            if let Some(level) = self.levels.pop() {
                checked(beneath::set_mode(level.to.as_fd(), level.mode), &self.name)?;
            }
            return Ok(false);
        };
        let from = checked(level.from.try_clone(), &name)?;
        let to = checked(level.to.try_clone(), &name)?;
        self.take(&from, &name, (&to, &name)).map(|()| false)
    }

    /// Starts on one entry.
    fn take(&mut self, from: &OwnedFd, name: &OsStr, to: (&OwnedFd, &OsStr)) -> Result<(), Failed> {
        let (to, to_name) = to;
        let seen = checked(beneath::stat_name(from.as_fd(), name), name)?;
        match seen.kind {
            Kind::File => {
                let source =
                    checked(beneath::open(from.as_fd(), Path::new(name), Open::Read), name)?;
                // It may have become something else since; a pipe would give no bytes, a link was refused.
                if checked(beneath::stat(source.as_fd()), name)?.kind != Kind::File {
                    return Err(failed(
                        ErrorCode::NotRegular,
                        format!("`{}` has changed", name.display()),
                    ));
                }
                let how = Open::CreateNew { mode: seen.mode & 0o777 };
                let target = checked(beneath::open(to.as_fd(), Path::new(to_name), how), name)?;
                self.file = Some((File::from(source), File::from(target)));
            }
            Kind::Directory => {
                if self.levels.len() >= DEPTH {
                    return Err(too_deep());
                }
                let from =
                    checked(beneath::open(from.as_fd(), Path::new(name), Open::Directory), name)?;
                checked(beneath::make_directory(to.as_fd(), to_name, 0o700), name)?;
                let to =
                    checked(beneath::open(to.as_fd(), Path::new(to_name), Open::Directory), name)?;
                let names = all_names(&from, name)?;
                self.levels.push(CopyLevel { from, to, names, mode: seen.mode & 0o777 });
            }
            Kind::Symlink => {
                let text = checked(beneath::read_link(from.as_fd(), name), name)?;
                checked(
                    beneath::symlink(&text, Place { directory: to.as_fd(), name: to_name }),
                    name,
                )?;
            }
            Kind::Fifo
            | Kind::Socket
            | Kind::CharacterDevice
            | Kind::BlockDevice
            | Kind::Unknown => {
                return Err(failed(
                    ErrorCode::NotRegular,
                    format!("`{}` cannot be copied", name.display()),
                ));
            }
        }
        Ok(())
    }

    /// What was copied so far must not stay behind.
    fn clean_up(&self) {
        let _ = beneath::remove_tree(self.top.as_fd(), &self.temporary);
    }

    fn move_into_place(&mut self) -> Result<bool, Failed> {
        let from = Place { directory: self.top.as_fd(), name: &self.temporary };
        let to = Place { directory: self.top.as_fd(), name: &self.name };
        checked(beneath::rename(from, to, self.existing), &self.name).map(|()| true)
    }
}

fn all_names(directory: &OwnedFd, name: &OsStr) -> Result<Vec<OsString>, Failed> {
    let mut found = Vec::new();
    let listed = beneath::list(directory.as_fd(), &mut |entry| {
        found.push(entry.name);
        ControlFlow::Continue(())
    });
    checked(listed, name).map(|()| found)
}

fn read(file: &mut File, buffer: &mut [u8]) -> Result<usize, Failed> {
    loop {
        match file.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(io_failed(&error, "read")),
            Ok(count) => return Ok(count),
        }
    }
}

fn checked<T>(result: io::Result<T>, name: &OsStr) -> Result<T, Failed> {
    result.map_err(|error| io_failed(&error, &name.to_string_lossy()))
}

fn too_deep() -> Failed {
    let what = format!(
        "the tree is deeper than {DEPTH} directories; copy its parts, or run `cp -a` in the sandbox"
    );
    failed(ErrorCode::TooLong, what)
}
