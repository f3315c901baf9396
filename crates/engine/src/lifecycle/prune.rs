//! Removes sandboxes that are too idle or too old, by the limits of their owners.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clawpen_rules::config::sandbox::PruneConfig;
use clawpen_rules::prune::{self, Lifetime, Prune, RemoveReason};
use clawpen_rules::reuse::Activity;
use clawpen_rules::timestamp::{Moment, Timestamp};

use super::{EnsureError, Lifecycle};
use crate::error_text::chain;
use crate::registry::{InFlight, RegistryError, Row, State};

/// At most so often by itself.
const THROTTLE: Duration = Duration::from_secs(300);

/// What a prune came to.
#[derive(Debug, Default)]
pub struct Pruned {
    pub removed: Vec<(Row, RemoveReason)>,
    /// Those that should go and could not; they are tried again.
    pub failed: Vec<(Row, String)>,
}

/// Whether a prune that nobody asked for is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Throttle {
    Due,
    TooSoon,
}

impl Lifecycle<'_> {
    /// Removes every sandbox that is past its owner's limits and not in use. `limits` are the
    /// owner's; a sandbox whose owner has no meaning any more stays.
    pub fn prune(
        &self,
        limits: impl Fn(&Row) -> Option<PruneConfig>,
    ) -> Result<Pruned, EnsureError> {
        let mut pruned = Pruned::default();
        let now = self.clock.now();
        for row in self.registry().list()? {
            let Some(limits) = limits(&row).filter(|_| row.state == State::Ready) else {
                continue;
            };
            let Prune::Remove(reason) = self.verdict(&row, &limits, &now)? else { continue };
            match self.remove(&row, InFlight::Respect) {
                Ok(()) => pruned.removed.push((row, reason)),
                // A call came in between.
                Err(EnsureError::Registry(RegistryError::InUse { .. })) => {}
                Err(error) => pruned.failed.push((row, chain(&error))),
            }
        }
        Ok(pruned)
    }

    fn verdict(&self, row: &Row, limits: &PruneConfig, now: &Moment) -> Result<Prune, EnsureError> {
        let mut sandbox = Lifetime {
            created: Some(now.place(&row.created)),
            last_used: Some(now.place(&row.last_used)),
            activity: Activity::Quiet,
        };
        // Whoever is within limits need not be asked what runs there.
        match prune::decide(&sandbox, limits, now.wall) {
            Prune::Remove(_) => {}
            keep @ Prune::Keep(_) => return Ok(keep),
        }
        sandbox.activity = self.activity_of(row)?;
        Ok(prune::decide(&sandbox, limits, now.wall))
    }

    /// Says whether a prune is due that nobody asked for, and notes that it is being done.
    pub fn throttle(&self) -> Throttle {
        let path = stamp(self.state_dir);
        let now = self.clock.now().wall;
        let last = fs::read_to_string(&path).ok().and_then(|text| text.trim().parse().ok());
        let is_due = last.map(Timestamp::from_millis).is_none_or(|last| {
            // A clock that was set back would otherwise stop all pruning until it has caught up.
            last > now || now.since(last) >= THROTTLE
        });
        if !is_due {
            return Throttle::TooSoon;
        }
        match write(&path, &now.as_millis().to_string()) {
            Ok(()) => Throttle::Due,
            // A state directory that cannot be written has nothing to prune either.
            Err(_) => Throttle::TooSoon,
        }
    }
}

fn stamp(state_dir: &str) -> PathBuf {
    Path::new(state_dir).join("clawpen/pruned")
}

/// Beside and renamed: two at once leave one of the two times, never half of one.
fn write(path: &Path, text: &str) -> io::Result<()> {
    let beside = path.with_extension(format!("new-{}", std::process::id()));
    fs::write(&beside, text)?;
    fs::rename(&beside, path)
}
