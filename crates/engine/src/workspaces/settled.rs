//! Remembers that nothing was to do in a workspace, for as long as nothing there has changed.
//!
//! A call looks at its workspace before it runs: directory, seeds, skills, what we know of it. Where nothing was to do,
//! and the host has no skills to copy, a few looks tell that nothing is. Only what has stood still for a while is
//! remembered, so no change hides in a coarse clock; and nothing for long, because a clock may be set back.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use clawpen_rules::workspace::SKILLS_MOUNT;
use clawpen_rules::workspace::skills::DIRECTORY;

use super::{Ready, Wanted};
use crate::file_stamps::Stamp;

/// Looked at anew after so long, whatever the stamps say.
const OLDEST: Duration = Duration::from_secs(1);

/// What was there when nothing was to do. Begins empty.
#[derive(Debug, Default)]
pub struct Settled(Mutex<Option<Places>>);

/// Everything that [`super::Workspaces::prepare`] goes by.
#[derive(Debug)]
pub(super) struct Places {
    found: Vec<(PathBuf, Option<Stamp>)>,
    looked: Instant,
}

impl Settled {
    /// Whether nothing is to do, as before.
    pub(super) fn holds(&self) -> bool {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.as_ref().is_some_and(Places::are_the_same)
    }

    /// Remembers places that were looked at before `ready` came of them.
    pub(super) fn note(&self, before: Places, ready: &Ready) {
        let kept = (*ready == Ready::unchanged() && before.have_settled()).then_some(before);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = kept;
    }
}

impl Places {
    /// As they are now; `None` if the host has skills, which are too many to look at here, or if one of them is a link,
    /// which says nothing of what it leads to.
    pub(super) fn look(wanted: &Wanted, directory: PathBuf, record: PathBuf) -> Option<Self> {
        let skills = wanted.sources.iter();
        let skills = skills.map(|source| Path::new(&source.root).join(&source.below));
        let skills: Vec<PathBuf> = skills.collect();
        if skills.iter().any(|path| at(path).is_some()) {
            return None;
        }
        // The sandbox may put skills of its own where those of the host were, or something in the way of their mount.
        let copied = directory.join(DIRECTORY);
        let mut others = vec![directory, copied, record, PathBuf::from(wanted.layout.agent())];
        if wanted.layout.skills_mount().is_some() {
            let mut place = PathBuf::from(wanted.layout.agent());
            for name in SKILLS_MOUNT.split('/') {
                place.push(name);
                others.push(place.clone());
            }
        }
        if others.iter().any(|path| path.is_symlink()) {
            return None;
        }
        let looked = Instant::now();
        let others = others.into_iter().map(|path| {
            let found = at(&path);
            (path, found)
        });
        let missing = skills.into_iter().map(|path| (path, None));
        Some(Self { found: others.chain(missing).collect(), looked })
    }

    fn are_the_same(&self) -> bool {
        self.looked.elapsed() < OLDEST && self.found.iter().all(|(path, then)| at(path) == *then)
    }

    fn have_settled(&self) -> bool {
        self.found.iter().filter_map(|(_, found)| found.as_ref()).all(Stamp::is_settled)
    }
}

/// What stands there itself; a link is not followed.
fn at(path: &Path) -> Option<Stamp> {
    std::fs::symlink_metadata(path).ok().map(|found| Stamp::of(&found))
}
