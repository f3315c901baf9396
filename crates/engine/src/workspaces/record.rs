//! What we know about one workspace, kept outside of it: nothing in there is to be believed.
//!
//! Losing it costs nothing but knowledge: a comparison says `diverged` where it could have said more,
//! and skills are copied once more. So a broken one is moved aside and told about, and does not stop a
//! sandbox; one of a newer version does, because that version may rely on it.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clawpen_rules::workspace::seeds::Digest;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::WorkspaceError;
use crate::file_lock::{self, Hold, NotLocked};
use crate::random;

/// The version that this build writes.
const VERSION: u32 = 1;

/// A record is small; a large file is none.
const MAX_BYTES: u64 = 256 * 1024;

/// Whoever holds the lock copies some megabytes at most.
const LOCK_WAIT: Duration = Duration::from_secs(60);

/// `<state>/clawpen/workspaces/<id>.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Record {
    pub(super) version: u32,
    pub(super) directory: PathBuf,
    pub(super) scope_key: String,
    pub(super) agent: String,
    /// SHA-256 of what was last copied, by name.
    #[serde(default)]
    pub(super) seeded: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) skills: Option<SkillsRecord>,
    /// When the sandbox was removed; absent while there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) released_ms: Option<u64>,
}

/// The last copy of the skills.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SkillsRecord {
    /// Stamp of the originals and the policy.
    pub(super) source: String,
    /// Stamp of the copy; absent if nothing was to be copied and nothing was touched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) target: Option<String>,
    /// Stamp of the copy before, while it is being replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) before: Option<String>,
}

/// The record of one workspace, and the lock that goes with it. Dropping it unlocks.
#[derive(Debug)]
pub(super) struct Locked {
    path: PathBuf,
    _lock: File,
    pub(super) record: Record,
    saved: Option<Record>,
    /// Set if what was there could not be read.
    pub(super) broken: Option<PathBuf>,
}

/// Where the record of a workspace lies.
pub(super) fn path(home: &Path, directory: &Path) -> PathBuf {
    let hash: [u8; 32] = Sha256::digest(directory.as_os_str().as_encoded_bytes()).into();
    let id: String = Digest::new(hash).to_string().chars().take(16).collect();
    home.join("workspaces").join(id).with_extension("json")
}

impl Locked {
    /// Locks a workspace against other processes and reads its record, or begins one.
    pub(super) fn open(home: &Path, fresh: Record) -> Result<Self, WorkspaceError> {
        let path = path(home, &fresh.directory);
        let lock = match (lock(&path.with_extension("lock")), path.parent()) {
            (Err(WorkspaceError::Io { cause, .. }), Some(parent))
                if cause.kind() == io::ErrorKind::NotFound =>
            {
                make_private(parent).map_err(WorkspaceError::io("make", parent))?;
                lock(&path.with_extension("lock"))?
            }
            (locked, _) => locked?,
        };
        let (saved, broken) = match read(&path)? {
            Read::Missing => (None, None),
            Read::Found(record) => (Some(record), None),
            Read::Broken => {
                let aside = path.with_extension(format!("broken-{}", random::uuid()));
                fs::rename(&path, &aside).map_err(WorkspaceError::io("move aside", &path))?;
                (None, Some(aside))
            }
        };
        let mut record = saved.clone().unwrap_or_else(|| fresh.clone());
        record.scope_key = fresh.scope_key;
        record.agent = fresh.agent;
        Ok(Self { path, _lock: lock, record, saved, broken })
    }

    /// Writes the record if it changed; whole or not at all.
    pub(super) fn save(&mut self) -> Result<(), WorkspaceError> {
        if self.saved.as_ref() == Some(&self.record)
            || self.saved.is_none() && self.record.says_nothing()
        {
            return Ok(());
        }
        let text = serde_json::to_vec_pretty(&self.record).map_err(io::Error::other);
        text.and_then(|text| write_whole(&self.path, &text, Durable::Rename))
            .map_err(WorkspaceError::io("write", &self.path))?;
        self.saved = Some(self.record.clone());
        Ok(())
    }

    /// Forgets the workspace.
    pub(super) fn forget(self) -> Result<(), WorkspaceError> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(WorkspaceError::io("remove", &self.path)(error))
            }
            _ => Ok(()),
        }
    }
}

impl Record {
    pub(super) fn new(directory: &Path, scope_key: &str, agent: &str) -> Self {
        Self {
            version: VERSION,
            directory: directory.to_owned(),
            scope_key: scope_key.to_owned(),
            agent: agent.to_owned(),
            seeded: BTreeMap::new(),
            skills: None,
            released_ms: None,
        }
    }

    /// A sandbox without seeds and skills costs no file.
    fn says_nothing(&self) -> bool {
        let has_skills = self.skills.as_ref().is_some_and(|skills| skills.target.is_some());
        self.seeded.is_empty() && !has_skills && self.released_ms.is_none()
    }
}

/// Every record that can be read, for a janitor and for `explain`.
pub(super) fn all(home: &Path) -> Result<Vec<Record>, WorkspaceError> {
    let directory = home.join("workspaces");
    let entries = match fs::read_dir(&directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(WorkspaceError::io("list", &directory))?,
    };
    let mut records = Vec::new();
    for entry in entries {
        let path = entry.map_err(WorkspaceError::io("list", &directory))?.path();
        if path.extension().is_some_and(|extension| extension == "json")
            && let Read::Found(record) = read(&path)?
        {
            records.push(record);
        }
    }
    records.sort_by(|a, b| a.directory.cmp(&b.directory));
    Ok(records)
}

/// The record of one workspace as it is now, without a lock.
pub(super) fn peek(home: &Path, directory: &Path) -> Result<Option<Record>, WorkspaceError> {
    match read(&path(home, directory))? {
        Read::Found(record) => Ok(Some(record)),
        Read::Missing | Read::Broken => Ok(None),
    }
}

enum Read {
    Missing,
    Found(Record),
    Broken,
}

/// What every version writes.
#[derive(Deserialize)]
struct Version {
    version: u32,
}

fn read(path: &Path) -> Result<Read, WorkspaceError> {
    let text = match read_small(path, MAX_BYTES) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Read::Missing),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => return Ok(Read::Broken),
        other => other.map_err(WorkspaceError::io("read", path))?,
    };
    match serde_json::from_slice::<Version>(&text) {
        Ok(found) if found.version > VERSION => Err(WorkspaceError::Newer {
            path: path.to_owned(),
            found: found.version,
            known: VERSION,
        }),
        Ok(_) => Ok(serde_json::from_slice(&text).map_or(Read::Broken, Read::Found)),
        Err(_not_ours) => Ok(Read::Broken),
    }
}

/// Reads a file of ours; `InvalidData` if it is larger than `limit`.
pub(super) fn read_small(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    use std::io::Read as _;
    let mut text = Vec::new();
    File::open(path)?.take(limit.saturating_add(1)).read_to_end(&mut text)?;
    if u64::try_from(text.len()).unwrap_or(u64::MAX) > limit {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Ok(text)
}

/// What a file survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Durable {
    /// Our death at any moment.
    Rename,
    /// The machine's, too: costs milliseconds.
    Sync,
}

/// Replaces a file of ours: written beside it, then renamed.
pub(super) fn write_whole(path: &Path, text: &[u8], durable: Durable) -> io::Result<()> {
    let beside = path.with_extension(format!("new-{}", random::uuid()));
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&beside)
        .and_then(|mut file| {
            file.write_all(text)?;
            match durable {
                Durable::Rename => Ok(()),
                Durable::Sync => file.sync_all(),
            }
        })
        .and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        let _ = fs::remove_file(&beside);
    }
    written
}

/// Makes a directory for our own eyes, with all above it.
pub(super) fn make_private(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Takes a lock.
pub(super) fn lock(path: &Path) -> Result<File, WorkspaceError> {
    file_lock::within(path, Hold::Alone, LOCK_WAIT).map_err(|failed| match failed {
        NotLocked::Open(cause) => WorkspaceError::io("open", path)(cause),
        NotLocked::Lock(cause) => WorkspaceError::io("lock", path)(cause),
        NotLocked::Busy => WorkspaceError::Busy { path: path.to_owned() },
    })
}
