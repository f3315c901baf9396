//! What was moved aside, each with a manifest; and the way back.
//!
//! ```text
//! <state>/clawpen/trash/<id>/manifest.json   what it was, where, since when, why
//! <state>/clawpen/trash/<id>/content         the thing itself, if it lies on the same mount
//! <workspaceRoot>/.clawpen/trash/<id>/content   … or else here
//! ```
//!
//! The manifest is there before anything is moved, and says which inodes are replacements of ours: a
//! content that is missing, or still is the replacement, was never moved aside. So whatever a kill
//! leaves behind, the list shows exactly what the trash holds; [`Trash::tidy`] removes the rest.
//! Nothing is overwritten on the way in or out: things change places, or take empty ones.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use clawpen_os::beneath::{self, Existing, Place};
use clawpen_rules::timestamp::Timestamp;
use clawpen_rules::workspace::removal::{Expiry, decide_expiry};

use super::WorkspaceError;
use super::record::{SkillsRecord, lock, make_private};
use crate::{faults, random};

mod manifest;
mod restore;

use manifest::{MANIFEST, Manifest, Whole};

/// The name of the thing itself in its directory.
const CONTENT: &str = "content";

/// Names one thing in the trash.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TrashId(String);

impl TrashId {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// An id as typed.
    pub fn parse(text: &str) -> Option<Self> {
        let plain = |c: char| c.is_ascii_alphanumeric();
        (!text.is_empty() && text.len() <= 32 && text.chars().all(plain))
            .then(|| Self(text.to_owned()))
    }

    fn new() -> Self {
        Self(random::uuid().chars().filter(|c| *c != '-').take(10).collect())
    }
}

impl fmt::Display for TrashId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What kind of thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrashKind {
    /// A whole private workspace.
    Workspace,
    /// The skills in one.
    Skills,
    /// Single files at the top of one.
    Files,
}

impl TrashKind {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Workspace => "workspace",
            Self::Skills => "skills",
            Self::Files => "files",
        }
    }
}

/// One thing in the trash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trashed {
    pub id: TrashId,
    pub kind: TrashKind,
    pub since: Timestamp,
    /// Where it was; of files, the workspace.
    pub origin: PathBuf,
    /// Where it is.
    pub content: PathBuf,
    /// Of files, which.
    pub files: Vec<String>,
    pub reason: String,
    pub scope_key: String,
    pub agent: String,
}

/// The trash of a state directory.
#[derive(Debug, Clone)]
pub struct Trash {
    home: PathBuf,
}

/// What to do if something stands where a thing came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Occupied {
    /// Nothing: it is an error.
    Refuse,
    /// The two change places.
    Swap,
}

/// The trash could not do it.
#[derive(Debug, thiserror::Error)]
pub enum TrashError {
    #[error("there is no `{0}` in the trash; `clawpen sandbox trash list` shows what is")]
    Unknown(String),
    #[error(
        "something stands at `{}`; `clawpen sandbox trash restore {id} --swap` lets the two change places",
        .origin.display()
    )]
    Occupied { id: TrashId, origin: PathBuf },
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
}

/// Whether something was taken out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taken {
    Yes,
    No,
}

/// What is written about a thing that is moved aside.
#[derive(Debug, Clone, Copy)]
pub(super) struct About<'a> {
    pub(super) kind: TrashKind,
    pub(super) origin: &'a Path,
    /// `workspaceRoot`, for when the trash lies on another mount.
    pub(super) root: &'a Path,
    pub(super) reason: &'a str,
    pub(super) scope_key: &'a str,
    pub(super) agent: &'a str,
    /// Of a whole workspace: what is known of the skills in it.
    pub(super) skills: Option<&'a SkillsRecord>,
    pub(super) now: Timestamp,
}

/// A place in the trash that is made and not yet filled.
#[derive(Debug)]
pub(super) struct Reserved {
    id: TrashId,
    /// The directory that will hold the content.
    vault: OwnedFd,
    manifest: Manifest,
    path: PathBuf,
    _lock: fs::File,
}

impl Trash {
    pub(super) fn new(home: &Path) -> Self {
        Self { home: home.join("trash") }
    }

    /// The oldest first. What is half done does not show, and what cannot be read is left to
    /// [`Trash::unreadable`].
    pub fn list(&self) -> Result<Vec<Trashed>, WorkspaceError> {
        let looks = self.ids()?.into_iter().filter_map(|id| self.look(&id).ok());
        let mut found: Vec<Trashed> = looks
            .filter_map(|look| match look {
                Whole::Yes(trashed) => Some(trashed),
                Whole::No => None,
            })
            .collect();
        found.sort_by(|a, b| (a.since, &a.id).cmp(&(b.since, &b.id)));
        Ok(found)
    }

    /// What lies in the trash and cannot be read; nobody touches it.
    pub fn unreadable(&self) -> Result<Vec<WorkspaceError>, WorkspaceError> {
        Ok(self.ids()?.into_iter().filter_map(|id| self.look(&id).err()).collect())
    }

    /// One thing.
    pub fn get(&self, id: &TrashId) -> Result<Trashed, TrashError> {
        match self.look(id)? {
            Whole::Yes(trashed) => Ok(trashed),
            Whole::No => Err(TrashError::Unknown(id.to_string())),
        }
    }

    /// Deletes for good.
    pub fn delete(&self, id: &TrashId) -> Result<(), TrashError> {
        let _lock = self.lock()?;
        self.get(id)?;
        Ok(self.destroy(id)?)
    }

    /// Deletes what is due by `trash_days` of its agent; and what a kill left half done.
    pub(super) fn tidy(
        &self,
        trash_days: &dyn Fn(&str) -> u64,
        now: Timestamp,
    ) -> Result<Vec<TrashId>, WorkspaceError> {
        if !self.home.exists() {
            return Ok(Vec::new());
        }
        let _lock = self.lock()?;
        let mut expired = Vec::new();
        for id in self.ids()? {
            match self.look(&id) {
                // Somebody must look at it: see `unreadable`.
                Err(_) => {}
                Ok(Whole::No) => self.destroy(&id)?,
                Ok(Whole::Yes(trashed)) => {
                    let days = trash_days(&trashed.agent);
                    match decide_expiry(days, trashed.since, now) {
                        Expiry::Due => {
                            self.destroy(&id)?;
                            expired.push(id);
                        }
                        Expiry::Never | Expiry::NotYet => {}
                    }
                }
            }
        }
        Ok(expired)
    }

    /// Moves the thing at `place` aside; `None` if there is none.
    pub(super) fn put(
        &self,
        place: Place<'_>,
        about: &About<'_>,
    ) -> Result<Option<TrashId>, WorkspaceError> {
        let failed = || WorkspaceError::io("move to the trash", about.origin);
        match beneath::open_up(place.directory, place.name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(failed())?,
        }
        let reserved = self.reserve(place.directory, about)?;
        reserved.write(BTreeMap::new())?;
        faults::reached("trash.reserved");
        match beneath::rename(place, reserved.content(), Existing::Keep) {
            Ok(()) => {}
            Err(error) => {
                let is_missing = error.kind() == io::ErrorKind::NotFound;
                self.destroy(&reserved.id)?;
                return if is_missing { Ok(None) } else { Err(failed()(error)) };
            }
        }
        faults::reached("trash.moved");
        Ok(Some(reserved.id))
    }

    /// Puts `fresh` where `place` is, and what is there into the trash; at any moment one of the two is
    /// there, whole.
    pub(super) fn displace(
        &self,
        place: Place<'_>,
        fresh: Place<'_>,
        about: &About<'_>,
    ) -> Result<TrashId, WorkspaceError> {
        let failed = || WorkspaceError::io("replace", about.origin);
        beneath::open_up(place.directory, place.name).map_err(failed())?;
        let reserved = self.reserve(place.directory, about)?;
        let inode = beneath::stat_name(fresh.directory, fresh.name).map_err(failed())?.inode;
        beneath::rename(fresh, reserved.content(), Existing::Keep).map_err(failed())?;
        reserved.write(BTreeMap::from([(String::new(), inode)]))?;
        faults::reached("trash.reserved");
        if let Err(error) = beneath::rename(reserved.content(), place, Existing::Exchange) {
            self.destroy(&reserved.id)?;
            return Err(failed()(error));
        }
        faults::reached("trash.moved");
        Ok(reserved.id)
    }

    /// Takes a directory out of the trash again, to `to`, if its stamp is one of `ours`: then
    /// it is a copy of ours that nobody changed. What is at `to` is removed.
    pub(super) fn take_if(
        &self,
        id: &TrashId,
        ours: &[String],
        to: (BorrowedFd<'_>, &str),
    ) -> Result<Taken, WorkspaceError> {
        let path = self.home.join(id.as_str());
        let Some(manifest) = Manifest::read(&path)? else { return Ok(Taken::No) };
        let failed = || WorkspaceError::io("put away", &manifest.content);
        let _lock = self.lock()?;
        let vault = manifest.content.parent().unwrap_or(&path);
        let vault = beneath::open_root(vault).map_err(failed())?;
        let stamp = super::skills::stamp_of(vault.as_fd(), OsStr::new(CONTENT));
        if !stamp.is_some_and(|stamp| ours.contains(&stamp)) {
            return Ok(Taken::No);
        }
        super::tree::remove(to.0, to.1).map_err(failed())?;
        let from = Place { directory: vault.as_fd(), name: OsStr::new(CONTENT) };
        let to = Place { directory: to.0, name: OsStr::new(to.1) };
        beneath::rename(from, to, Existing::Keep).map_err(failed())?;
        self.destroy(id)?;
        Ok(Taken::Yes)
    }

    /// Begins an entry whose content lies on the mount of `near`. Holds the trash's lock.
    pub(super) fn reserve(
        &self,
        near: BorrowedFd<'_>,
        about: &About<'_>,
    ) -> Result<Reserved, WorkspaceError> {
        let id = TrashId::new();
        make_private(&self.home).map_err(WorkspaceError::io("make", &self.home))?;
        let lock = self.lock()?;
        let path = self.home.join(id.as_str());
        make_private(&path).map_err(WorkspaceError::io("make", &path))?;
        let own = beneath::open_root(&path).map_err(WorkspaceError::io("open", &path))?;
        let is_near = same_mount(own.as_fd(), near).map_err(WorkspaceError::io("open", &path))?;
        let (vault, vault_path) = if is_near {
            (own, path.clone())
        } else {
            let far = about.root.join(".clawpen/trash").join(id.as_str());
            make_private(&far).map_err(WorkspaceError::io("make", &far))?;
            (beneath::open_root(&far).map_err(WorkspaceError::io("open", &far))?, far)
        };
        let manifest = Manifest::new(about, vault_path.join(CONTENT));
        Ok(Reserved { id, vault, manifest, path, _lock: lock })
    }

    /// What is in the trash under this id.
    fn look(&self, id: &TrashId) -> Result<Whole, WorkspaceError> {
        Manifest::read(&self.home.join(id.as_str()))?
            .map_or(Ok(Whole::No), |manifest| manifest.look(id))
    }

    /// Removes an entry with all that is in it, in steps that cannot be misread: what is doomed does
    /// not show any more.
    fn destroy(&self, id: &TrashId) -> Result<(), WorkspaceError> {
        let path = self.home.join(id.as_str());
        let failed = || WorkspaceError::io("delete", &path);
        if let Some(mut manifest) = Manifest::read(&path)? {
            manifest.doomed = true;
            manifest.write(&path)?;
            faults::reached("trash.doomed");
            let vault = manifest.content.parent().map(Path::to_owned).unwrap_or_default();
            if vault != path {
                remove_path(&vault).map_err(failed())?;
            }
        }
        // The manifest last: until then somebody can still finish this.
        let manifest = OsStr::new(MANIFEST);
        if let Ok(own) = beneath::open_root(&path) {
            for entry in super::tree::sorted(own.as_fd(), usize::MAX).map_err(failed())? {
                if entry.name != manifest {
                    beneath::remove_tree(own.as_fd(), &entry.name).map_err(failed())?;
                }
            }
            faults::reached("trash.deleted");
        }
        remove_path(&path).map_err(failed())
    }

    fn ids(&self) -> Result<Vec<TrashId>, WorkspaceError> {
        let entries = match fs::read_dir(&self.home) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other.map_err(WorkspaceError::io("list", &self.home))?,
        };
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        Ok(names.filter_map(|name| TrashId::parse(&name)).collect())
    }

    fn lock(&self) -> Result<fs::File, WorkspaceError> {
        make_private(&self.home).map_err(WorkspaceError::io("make", &self.home))?;
        lock(&self.home.join("trash.lock"))
    }
}

impl Reserved {
    pub(super) fn content(&self) -> Place<'_> {
        Place { directory: self.vault.as_fd(), name: OsStr::new(CONTENT) }
    }

    pub(super) fn id(&self) -> &TrashId {
        &self.id
    }

    /// Writes the manifest; `fresh` are the replacements of ours that lie in the content.
    pub(super) fn write(&self, fresh: BTreeMap<String, u64>) -> Result<(), WorkspaceError> {
        let mut manifest = self.manifest.clone();
        manifest.fresh = fresh;
        manifest.write(&self.path)
    }
}

fn same_mount(a: BorrowedFd<'_>, b: BorrowedFd<'_>) -> io::Result<bool> {
    let (a, b) = (beneath::stat(a)?, beneath::stat(b)?);
    Ok((a.device, a.mount) == (b.device, b.mount))
}

/// Removes a directory of ours with all that is in it.
fn remove_path(path: &Path) -> io::Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let removed =
        beneath::open_root(parent).and_then(|parent| beneath::remove_tree(parent.as_fd(), name));
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
