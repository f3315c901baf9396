//! The way back out of the trash.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;

use clawpen_os::beneath::{self, Existing, Place};
use clawpen_rules::timestamp::Timestamp;

use super::manifest::Manifest;
use super::{CONTENT, Occupied, Trash, TrashError, TrashId, TrashKind, Trashed};
use crate::faults;
use crate::workspaces::ground::Ground;
use crate::workspaces::record::{Locked, Record, SkillsRecord, make_private};
use crate::workspaces::{WorkspaceError, plain};

impl Trash {
    /// Looks whether the place of a thing is free for it. Whoever ends a sandbox for [`Trash::restore`] asks first:
    /// what is refused ends nothing.
    pub fn look_ahead(&self, id: &TrashId, occupied: Occupied) -> Result<Trashed, TrashError> {
        let trashed = self.get(id)?;
        let is_taken = match (occupied, trashed.kind) {
            (Occupied::Refuse, TrashKind::Workspace | TrashKind::Skills) => {
                trashed.origin.symlink_metadata().is_ok()
            }
            (Occupied::Refuse, TrashKind::Files) => {
                let is_there = |name: &String| trashed.origin.join(name).symlink_metadata().is_ok();
                trashed.files.iter().any(is_there)
            }
            (Occupied::Swap, _) => false,
        };
        if is_taken { Err(taken(&trashed)) } else { Ok(trashed) }
    }

    /// Puts a thing back where it was. Never overwrites: with [`Occupied::Swap`] what stands there
    /// takes its place in the trash.
    ///
    /// No sandbox may be running on it; whoever calls this has seen to that.
    pub fn restore(
        &self,
        id: &TrashId,
        occupied: Occupied,
        now: Timestamp,
    ) -> Result<PathBuf, TrashError> {
        let trashed = self.get(id)?;
        let workspace = match trashed.kind {
            TrashKind::Workspace | TrashKind::Files => trashed.origin.as_path(),
            TrashKind::Skills => trashed.origin.parent().unwrap_or(&trashed.origin),
        };
        // The workspace's lock before the trash's, as everywhere.
        let home = self.home.parent().unwrap_or(&self.home);
        let record = Record::new(workspace, &trashed.scope_key, &trashed.agent);
        let mut locked = Locked::open(home, record)?;
        let _lock = self.lock()?;
        let trashed = self.get(id)?;
        self.forget_replacements(&trashed)?;
        let job = Job { trash: self, trashed: &trashed, occupied };
        let left = match trashed.kind {
            TrashKind::Workspace => job.workspace()?,
            TrashKind::Skills => job.skills()?,
            TrashKind::Files => job.files()?,
        };
        faults::reached("trash.restored");
        let entry = self.home.join(id.as_str());
        let manifest = Manifest::read(&entry)?;
        let known = locked.record.skills.take();
        locked.record.skills = match trashed.kind {
            // It comes with what is known of it.
            TrashKind::Workspace => manifest.as_ref().and_then(|manifest| manifest.skills.clone()),
            // They are somebody's own: left alone until the originals change, and then kept.
            TrashKind::Skills => known.clone().map(|known| SkillsRecord {
                source: known.source,
                target: None,
                before: None,
            }),
            TrashKind::Files => known.clone(),
        };
        match (left, manifest) {
            (Left::Nothing, _) => self.destroy(id)?,
            (Left::Exchanged, None) => {}
            (Left::Exchanged, Some(manifest)) => {
                let reason = "another copy was brought back in its place";
                let mut manifest = manifest.renewed(reason, now);
                manifest.skills = known.filter(|_| trashed.kind == TrashKind::Workspace);
                manifest.write(&entry)?;
            }
        }
        faults::reached("trash.restore-noted");
        // It is in use again, as far as we know.
        locked.record.released_ms = None;
        locked.save()?;
        Ok(trashed.origin)
    }

    /// Before anything changes places: what comes back into the trash may be a replacement that we made
    /// and that was worked on since. From now on it counts as somebody's.
    fn forget_replacements(&self, trashed: &Trashed) -> Result<(), TrashError> {
        let entry = self.home.join(trashed.id.as_str());
        let Some(mut manifest) = Manifest::read(&entry)? else { return Ok(()) };
        if manifest.fresh.is_empty() {
            return Ok(());
        }
        if trashed.kind == TrashKind::Files {
            let failed = || WorkspaceError::io("bring back", &trashed.origin);
            let content = beneath::open_root(&trashed.content).map_err(failed())?;
            let unused = manifest.fresh.keys().filter(|name| !trashed.files.contains(name));
            for name in unused {
                match beneath::remove_file(content.as_fd(), OsStr::new(name)) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => {
                        return Err(failed()(error).into());
                    }
                    _ => {}
                }
            }
        }
        manifest.fresh.clear();
        Ok(manifest.write(&entry)?)
    }
}

/// What is in the trash afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Left {
    Nothing,
    Exchanged,
}

struct Job<'a> {
    trash: &'a Trash,
    trashed: &'a Trashed,
    occupied: Occupied,
}

impl Job<'_> {
    fn workspace(&self) -> Result<Left, TrashError> {
        let origin = &self.trashed.origin;
        let (Some(parent), Some(name)) = (origin.parent(), origin.file_name()) else {
            return Err(self.failed(io::ErrorKind::InvalidInput.into()));
        };
        make_private(parent).map_err(|error| self.failed(error))?;
        let root = beneath::open_root(parent).map_err(|error| self.failed(error))?;
        let vault = self.vault()?;
        self.give_back(&vault, OsStr::new(CONTENT), Place { directory: root.as_fd(), name })
    }

    fn skills(&self) -> Result<Left, TrashError> {
        let origin = &self.trashed.origin;
        let (Some(workspace), Some(name)) = (origin.parent(), origin.file_name()) else {
            return Err(self.failed(io::ErrorKind::InvalidInput.into()));
        };
        let ground = Ground::ensure(workspace, None)?;
        let vault = self.vault()?;
        self.give_back(&vault, OsStr::new(CONTENT), ground.at(name))
    }

    /// All or none, as far as places are taken.
    fn files(&self) -> Result<Left, TrashError> {
        let ground = Ground::ensure(&self.trashed.origin, None)?;
        let vault = self.vault()?;
        let content = plain::open_directory(vault.as_fd(), OsStr::new(CONTENT))
            .map_err(|error| self.failed(error))?;
        if self.occupied == Occupied::Refuse {
            let is_taken =
                |name: &String| beneath::stat_name(ground.directory(), OsStr::new(name)).is_ok();
            if self.trashed.files.iter().any(is_taken) {
                return Err(taken(self.trashed));
            }
        }
        let mut left = Left::Nothing;
        for name in &self.trashed.files {
            let name = OsStr::new(name);
            if self.give_back(&content, name, ground.at(name))? == Left::Exchanged {
                left = Left::Exchanged;
            }
        }
        Ok(left)
    }

    fn give_back(&self, from: &OwnedFd, name: &OsStr, to: Place<'_>) -> Result<Left, TrashError> {
        let from = Place { directory: from.as_fd(), name };
        // A directory that its owner may not write to cannot be moved by him.
        beneath::open_up(from.directory, from.name).map_err(|error| self.failed(error))?;
        match beneath::rename(from, to, Existing::Keep) {
            Ok(()) => return Ok(Left::Nothing),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(self.failed(error)),
        }
        match self.occupied {
            Occupied::Refuse => Err(taken(self.trashed)),
            Occupied::Swap => {
                beneath::open_up(to.directory, to.name).map_err(|error| self.failed(error))?;
                beneath::rename(from, to, Existing::Exchange)
                    .map_err(|error| self.failed(error))?;
                Ok(Left::Exchanged)
            }
        }
    }

    fn vault(&self) -> Result<OwnedFd, TrashError> {
        let vault = self.trashed.content.parent().unwrap_or(&self.trash.home);
        beneath::open_root(vault).map_err(|error| self.failed(error))
    }

    fn failed(&self, error: io::Error) -> TrashError {
        TrashError::Workspace(WorkspaceError::io("bring back", &self.trashed.origin)(error))
    }
}

fn taken(trashed: &Trashed) -> TrashError {
    TrashError::Occupied { id: trashed.id.clone(), origin: trashed.origin.clone() }
}
