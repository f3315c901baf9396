//! Copies a message's files into the workspace of a sandboxed session.
//!
//! Sources are opened beneath the media store, targets beneath the workspace, both without links. A file
//! never takes the place of another: the same content is used again, other content gets a number.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use clawpen_os::beneath::{self, Place};
use clawpen_rules::config::sandbox::WorkspaceAccess;
use clawpen_rules::workspace::media::{
    self, INBOUND, MAX_BYTES, MediaDecision, Names, SkipReason, StagedName,
};

use super::ground::Ground;
use super::plain::{self, Attributes, NotPlain};
use super::record::{Locked, Record};
use super::{Wanted, WorkspaceError, Workspaces};
use crate::faults;

/// How many names of one kind are tried before a file is left outside.
const MOST_NUMBERS: usize = 1_000;

/// One path of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Staged {
    pub given: String,
    /// What the message shall say instead, or why it keeps what it says.
    pub outcome: Result<String, SkipReason>,
}

impl Workspaces {
    /// Copies those of `paths` that lie below `store` to `media/inbound` of the workspace.
    ///
    /// # Errors
    /// The workspace cannot be written to. A single file that cannot be copied is no error: its
    /// outcome says why.
    pub fn stage_media(
        &self,
        wanted: &Wanted,
        store: &str,
        paths: &[&str],
    ) -> Result<Vec<Staged>, WorkspaceError> {
        let directory = Path::new(wanted.layout.mounted());
        let record = Record::new(directory, &wanted.scope_key, &wanted.agent);
        let _locked = Locked::open(&self.home, record)?;
        let opened = match wanted.layout.access() {
            WorkspaceAccess::None | WorkspaceAccess::ReadOnly => {
                let ground = Ground::ensure(directory, wanted.owner)?;
                ground.directory().try_clone_to_owned()
            }
            WorkspaceAccess::ReadWrite => beneath::open_root(directory),
        };
        let top = opened.map_err(WorkspaceError::io("open the workspace", directory))?;
        let source = beneath::open_root(Path::new(store)).ok();
        let mut names = Names::default();
        let mut staging = Staging { top, inbound: None };
        let mut staged = Vec::with_capacity(paths.len());
        for given in paths {
            let outcome = match (media::decide(given, store, &mut names), &source) {
                (MediaDecision::Skip(why), _) => Err(why),
                (MediaDecision::Stage(_), None) => Err(SkipReason::Missing),
                (MediaDecision::Stage(name), Some(source)) => {
                    staging.copy(source.as_fd(), &name, &mut names).map_err(|error| {
                        WorkspaceError::io("copy media into the workspace", directory)(error)
                    })?
                }
            };
            staged.push(Staged { given: (*given).to_owned(), outcome });
        }
        Ok(staged)
    }
}

struct Staging {
    top: OwnedFd,
    /// Made when the first file needs it.
    inbound: Option<OwnedFd>,
}

impl Staging {
    fn copy(
        &mut self,
        source: BorrowedFd<'_>,
        staged: &StagedName,
        names: &mut Names,
    ) -> io::Result<Result<String, SkipReason>> {
        let bytes = match plain::read(source, Path::new(&staged.source), MAX_BYTES) {
            Ok(bytes) => bytes,
            Err(NotPlain::Missing) => return Ok(Err(SkipReason::Missing)),
            Err(NotPlain::Unusable(why)) => return Ok(Err(why.into())),
        };
        let found = beneath::stat(self.top.as_fd())?;
        let owner = (found.uid, found.gid);
        let inbound = self.inbound(owner)?;
        let mut name = staged.name.clone();
        for _ in 0..MOST_NUMBERS {
            let place = Place { directory: inbound, name: OsStr::new(&name) };
            match plain::put(place, &bytes, Attributes { mode: 0o644, owner }) {
                Ok(()) => {
                    faults::reached("media.copied");
                    return Ok(Ok(format!("{INBOUND}/{name}")));
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
            let present = plain::read(inbound, Path::new(&name), MAX_BYTES);
            if present.is_ok_and(|present| present == bytes) {
                return Ok(Ok(format!("{INBOUND}/{name}")));
            }
            name = names.another(&staged.name);
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// `media/inbound`. What the agent planted in its place is an error, not a way out.
    fn inbound(&mut self, owner: (u32, u32)) -> io::Result<BorrowedFd<'_>> {
        let made = if let Some(known) = self.inbound.take() {
            known
        } else {
            let mut current = self.top.try_clone()?;
            for name in INBOUND.split('/') {
                let place = Place { directory: current.as_fd(), name: OsStr::new(name) };
                current = plain::make_directory(place, Attributes { mode: 0o755, owner })?;
            }
            current
        };
        let kept: &OwnedFd = self.inbound.insert(made);
        Ok(kept.as_fd())
    }
}
