//! A file on its way from the host.
//!
//! New contents go into a file beside the target, which is renamed over it at the end: whoever looks sees
//! the old file or the new one, and a crash leaves the old one. An existing file keeps its mode and owner;
//! if we cannot give the new file the old owner, the call fails rather than change hands.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use clawpen_os::beneath::{self, Existing, Kind, Open, Place};
use clawpen_wire::supervisor::{ErrorCode, Failed, Parents, WriteMode, WriteOpen, limits};

use super::links::Last;
use super::{Found, io_failed};
use crate::exec::failed;

/// Links from file to file that a write follows before it gives up.
const LINKS: usize = 40;
/// Credit goes back in pieces of at least this size.
const CREDIT_PIECE: u32 = limits::FIRST_INPUT_WINDOW / 2;

#[derive(Debug)]
pub(crate) struct Writing {
    file: File,
    /// Where the new contents become visible; `None` if they are already.
    target: Option<Target>,
    created: bool,
    bytes: u64,
    taken: u32,
}

#[derive(Debug)]
struct Target {
    directory: OwnedFd,
    name: OsString,
    temporary: OsString,
    existing: Existing,
}

impl Writing {
    pub(super) fn open(found: &Found<'_>, write: &WriteOpen, number: u64) -> Result<Self, Failed> {
        let (directory, name, old) = follow_links(found, write.parents)?;
        let shown = found.shown();
        let check = |error: io::Error| io_failed(&error, &shown);
        match old {
            Some(Kind::File) | None => {}
            Some(Kind::Directory) => {
                return Err(failed(ErrorCode::IsDirectory, format!("`{shown}` is a directory")));
            }
            Some(_) => {
                return Err(failed(ErrorCode::NotRegular, format!("`{shown}` is no regular file")));
            }
        }
        if write.mode == WriteMode::Create && old.is_some() {
            return Err(failed(ErrorCode::Exists, format!("`{shown}` exists")));
        }
        let mode = write.permissions & 0o777;
        let created = old.is_none();
        let place = Path::new(&name);
        if write.mode == WriteMode::Append {
            let file =
                beneath::open(directory.as_fd(), place, Open::Append { mode }).map_err(check)?;
            // Whatever stood there a moment ago: only a regular file is written to.
            if beneath::stat(file.as_fd()).map_err(check)?.kind != Kind::File {
                return Err(failed(ErrorCode::NotRegular, format!("`{shown}` is no regular file")));
            }
            return Ok(Self { file: File::from(file), target: None, created, bytes: 0, taken: 0 });
        }

        let temporary = OsString::from(format!(".clawpen-{number:x}-{:x}", std::process::id()));
        let temporary_place = Path::new(&temporary);
        let file = if old.is_some() {
            // A file that we may not write to must not be replaced either.
            let old = beneath::open(directory.as_fd(), place, Open::Write).map_err(check)?;
            let seen = beneath::stat(old.as_fd()).map_err(check)?;
            let how = Open::CreateNew { mode: 0o600 };
            let file = beneath::open(directory.as_fd(), temporary_place, how).map_err(check)?;
            let kept = take_over(&file, &seen);
            if let Err(error) = kept {
                let _ = beneath::remove_file(directory.as_fd(), &temporary);
                return Err(check(error));
            }
            file
        } else {
            beneath::open(directory.as_fd(), temporary_place, Open::CreateNew { mode })
                .map_err(check)?
        };
        let existing =
            if write.mode == WriteMode::Create { Existing::Keep } else { Existing::Replace };
        let target = Some(Target { directory, name, temporary, existing });
        Ok(Self { file: File::from(file), target, created, bytes: 0, taken: 0 })
    }

    /// Takes the next piece. Gives the credit to hand back, once it is worth a frame.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<Option<u32>, Failed> {
        self.file.write_all(bytes).map_err(|error| io_failed(&error, "write"))?;
        self.bytes += bytes.len() as u64;
        self.taken = self.taken.saturating_add(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
        if self.taken < CREDIT_PIECE {
            return Ok(None);
        }
        Ok(Some(std::mem::take(&mut self.taken)))
    }

    /// Puts the file in its place. Gives the number of bytes and whether it is new.
    pub(crate) fn commit(self) -> Result<(u64, bool), Failed> {
        if let Some(target) = &self.target {
            let from = Place { directory: target.directory.as_fd(), name: &target.temporary };
            let to = Place { directory: target.directory.as_fd(), name: &target.name };
            if let Err(error) = beneath::rename(from, to, target.existing) {
                let failed = io_failed(&error, &target.name.to_string_lossy());
                self.abort();
                return Err(failed);
            }
        }
        Ok((self.bytes, self.created))
    }

    /// Leaves the target as it was. What was appended is appended.
    pub(crate) fn abort(self) {
        if let Some(target) = &self.target {
            let _ = beneath::remove_file(target.directory.as_fd(), &target.temporary);
        }
    }
}

/// The directory and name that a write ends up at, and what is there. A link at the end is followed by
/// hand, one step at a time, because the new file must be made beside what the link leads to; the kernel
/// still resolves every step beneath the root.
fn follow_links(
    found: &Found<'_>,
    parents: Parents,
) -> Result<(OwnedFd, OsString, Option<Kind>), Failed> {
    let mut path = found.path.clone();
    for _ in 0..LINKS {
        let here = Found { root: found.root, path: path.clone(), place: found.place };
        if parents == Parents::Make
            && let Some(parent) = path.parent()
        {
            let parent = Found { root: found.root, path: parent.to_owned(), place: found.place };
            let make = |path: &Path| beneath::make_directories(found.root, path, 0o777);
            parent.beneath(Last::Follow, make)?;
        }
        let (directory, name) = here.parent()?;
        match beneath::stat_name(directory.as_fd(), &name) {
            Ok(seen) if seen.kind == Kind::Symlink => {
                let leads_to = beneath::read_link(directory.as_fd(), &name);
                let leads_to = PathBuf::from(here.check(leads_to)?);
                // The kernel would take an absolute one for a path beneath the root.
                let inside = match found.place {
                    Some(place) if leads_to.is_absolute() => {
                        leads_to.strip_prefix(place).ok().map(Path::to_owned)
                    }
                    Some(_) | None => Some(path.parent().unwrap_or(Path::new("")).join(&leads_to)),
                };
                path = inside.ok_or_else(|| {
                    let what = format!("`{}` leads out of the root", path.display());
                    failed(ErrorCode::Outside, what)
                })?;
            }
            Ok(seen) => return Ok((directory, name, Some(seen.kind))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok((directory, name, None));
            }
            Err(error) => return here.check(Err(error)),
        }
    }
    Err(failed(ErrorCode::Link, format!("`{}` leads through too many links", found.path.display())))
}

/// Mode and owner of the file that is to be replaced; set-id bits do not survive new contents.
fn take_over(file: &OwnedFd, old: &beneath::Stat) -> io::Result<()> {
    let new = beneath::stat(file.as_fd())?;
    if (new.uid, new.gid) != (old.uid, old.gid) {
        beneath::set_owner(file.as_fd(), old.uid, old.gid)?;
    }
    beneath::set_mode(file.as_fd(), old.mode & 0o1777)
}
