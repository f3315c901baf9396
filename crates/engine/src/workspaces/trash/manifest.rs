//! What is written beside a thing in the trash, and what it says about it.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

use clawpen_os::beneath;
use clawpen_rules::timestamp::Timestamp;
use serde::{Deserialize, Serialize};

use super::{About, TrashId, TrashKind, Trashed};
use crate::workspaces::record::{Durable, SkillsRecord, read_small, write_whole};
use crate::workspaces::{WorkspaceError, plain, tree};

pub(super) const MANIFEST: &str = "manifest.json";

/// The version that this build writes.
const VERSION: u32 = 1;

const MAX_BYTES: u64 = 256 * 1024;

/// `manifest.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Manifest {
    version: u32,
    kind: Kind,
    pub(super) origin: PathBuf,
    pub(super) content: PathBuf,
    since_ms: u64,
    reason: String,
    scope_key: String,
    agent: String,
    /// What is known of the skills in a whole workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) skills: Option<SkillsRecord>,
    /// Inodes of replacements of ours: the content itself (blank name), or files in it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) fresh: BTreeMap<String, u64>,
    /// Being deleted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) doomed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Workspace,
    Skills,
    Files,
}

/// Whether an entry holds something that was moved aside.
#[derive(Debug)]
pub(super) enum Whole {
    Yes(Trashed),
    /// Half made, given back, or being deleted.
    No,
}

impl Manifest {
    pub(super) fn new(about: &About<'_>, content: PathBuf) -> Self {
        Self {
            version: VERSION,
            kind: match about.kind {
                TrashKind::Workspace => Kind::Workspace,
                TrashKind::Skills => Kind::Skills,
                TrashKind::Files => Kind::Files,
            },
            origin: about.origin.to_owned(),
            content,
            since_ms: about.now.as_millis(),
            reason: about.reason.to_owned(),
            scope_key: about.scope_key.to_owned(),
            agent: about.agent.to_owned(),
            skills: about.skills.cloned(),
            fresh: BTreeMap::new(),
            doomed: false,
        }
    }

    /// Of an entry; `None` if it has none, which means that nothing was moved yet.
    pub(super) fn read(entry: &Path) -> Result<Option<Self>, WorkspaceError> {
        let path = entry.join(MANIFEST);
        let text = match read_small(&path, MAX_BYTES) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(WorkspaceError::io("read", &path))?,
        };
        let manifest: Self = serde_json::from_slice(&text)
            .map_err(|error| WorkspaceError::io("read", &path)(error.into()))?;
        if manifest.version > VERSION {
            let (found, known) = (manifest.version, VERSION);
            return Err(WorkspaceError::Newer { path, found, known });
        }
        Ok(Some(manifest))
    }

    pub(super) fn write(&self, entry: &Path) -> Result<(), WorkspaceError> {
        let path = entry.join(MANIFEST);
        let text = serde_json::to_vec_pretty(self).map_err(io::Error::other);
        text.and_then(|text| write_whole(&path, &text, Durable::Sync))
            .map_err(WorkspaceError::io("write", &path))
    }

    /// Looks at what is really there.
    pub(super) fn look(self, id: &TrashId) -> Result<Whole, WorkspaceError> {
        let Some(files) = self.held().map_err(WorkspaceError::io("look at", &self.content))? else {
            return Ok(Whole::No);
        };
        if self.doomed {
            return Ok(Whole::No);
        }
        Ok(Whole::Yes(Trashed {
            id: id.clone(),
            kind: self.kind(),
            since: Timestamp::from_millis(self.since_ms),
            origin: self.origin,
            content: self.content,
            files,
            reason: self.reason,
            scope_key: self.scope_key,
            agent: self.agent,
        }))
    }

    pub(super) const fn kind(&self) -> TrashKind {
        match self.kind {
            Kind::Workspace => TrashKind::Workspace,
            Kind::Skills => TrashKind::Skills,
            Kind::Files => TrashKind::Files,
        }
    }

    /// The same thing from now on, for another reason.
    pub(super) fn renewed(mut self, reason: &str, now: Timestamp) -> Self {
        reason.clone_into(&mut self.reason);
        self.since_ms = now.as_millis();
        self
    }

    /// The files that were moved aside (of other kinds, none); `None` if nothing was.
    fn held(&self) -> io::Result<Option<Vec<String>>> {
        let (Some(vault), Some(name)) = (self.content.parent(), self.content.file_name()) else {
            return Ok(None);
        };
        let missing = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
        let vault = match beneath::open_root(vault) {
            Err(error) if missing(&error) => return Ok(None),
            other => other?,
        };
        let found = match beneath::stat_name(vault.as_fd(), name) {
            Err(error) if missing(&error) => return Ok(None),
            other => other?,
        };
        if self.kind != Kind::Files {
            let is_ours = self.fresh.get("") == Some(&found.inode);
            return Ok((!is_ours).then(Vec::new));
        }
        let content = plain::open_directory(vault.as_fd(), name)?;
        let mut held = Vec::new();
        for entry in tree::sorted(content.as_fd(), 10_000)? {
            let inode = beneath::stat_name(content.as_fd(), &entry.name)?.inode;
            let name = entry.name.to_string_lossy().into_owned();
            if self.fresh.get(&name) != Some(&inode) {
                held.push(name);
            }
        }
        Ok((!held.is_empty()).then_some(held))
    }
}
