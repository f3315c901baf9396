//! Puts right what killed processes left: at every listing, every prune, and now and then after a call.
//!
//! ```text
//! row creating or removing, name not locked ──► taken down, forgotten
//! row ready, its pen gone                   ──► taken down, forgotten
//! directory or container without a row      ──► unfinished: removed    finished and alive: written down again
//! lease of a dead process                   ──► deleted
//! ```
//!
//! A name that somebody has locked is left to them. What cannot be put right now is told and stays
//! for the next time.

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};

use super::about::About;
use super::lock::NameLock;
use super::{EnsureError, Lifecycle};
use crate::backend::docker::Sight;
use crate::backend::{docker_home, native};
use crate::process_identity::Living;
use crate::registry::{Holder, Identity, Row, State};

/// What was found and put right.
#[derive(Debug, Default)]
pub struct Recovered {
    /// Sandboxes that were half made, half removed or gone.
    pub rows: Vec<String>,
    /// Leftovers that no row named.
    pub leftovers: usize,
    /// Sandboxes that live and were written down again.
    pub survivors: usize,
    /// What could not be put right.
    pub problems: Vec<String>,
    /// The rows that are left, and of each pen that lives what its first process told: a listing need
    /// not ask again.
    pub(super) left: Vec<(Row, Option<Living>)>,
}

/// Whether a row says what is so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Right,
    Wrong,
}

/// A row beside what is found of it.
#[derive(Debug, Clone, Copy)]
struct Looked {
    verdict: Verdict,
    living: Option<Living>,
}

impl Lifecycle<'_> {
    /// Looks at everything and puts right what can be.
    pub fn recover(&self) -> Result<Recovered, EnsureError> {
        let mut found = Recovered::default();
        self.registry().sweep(Holder::liveness)?;
        for row in self.registry().list()? {
            let looked = self.look_at(&row);
            match looked.verdict {
                Verdict::Right => found.left.push((row, looked.living)),
                Verdict::Wrong => match self.recover_row(&row) {
                    Ok(true) => found.rows.push(row.name),
                    Ok(false) => found.left.push((row, None)),
                    Err(error) => {
                        found.problems.push(chain(&error));
                        found.left.push((row, None));
                    }
                },
            }
        }
        self.sweep_native(&mut found)?;
        self.sweep_docker(&mut found)?;
        if !found.rows.is_empty() || found.survivors > 0 {
            // Others may have been at work too; what is told must be what is written.
            let rows = self.registry().list()?.into_iter();
            found.left = rows.map(|row| (row, None)).collect();
        }
        Ok(found)
    }

    /// Whether a row that looked wrong is gone now.
    fn recover_row(&self, row: &Row) -> Result<bool, EnsureError> {
        let lock = NameLock::take(self.state_dir, &row.name)
            .map_err(|cause| EnsureError::Lock { name: row.name.clone(), cause })?;
        let Some(lock) = lock else { return Ok(false) };
        // Again, now that nobody can change it.
        match self.registry().get(&row.name)? {
            Some(now)
                if now.generation == row.generation
                    && self.look_at(&now).verdict == Verdict::Wrong =>
            {
                self.take_down(&now)?;
            }
            Some(_) | None => return Ok(false),
        }
        lock.retire();
        Ok(true)
    }

    fn look_at(&self, row: &Row) -> Looked {
        let right = |living| Looked { verdict: Verdict::Right, living };
        let wrong = Looked { verdict: Verdict::Wrong, living: None };
        match (row.state, &row.identity) {
            (State::Creating | State::Removing, _) | (State::Ready, None) => wrong,
            (State::Ready, Some(Identity::Native(identity))) => match native::look(identity) {
                Ok(Some(living)) => right(Some(living)),
                Ok(None) => wrong,
                // A doubt removes nothing.
                Err(_) => right(None),
            },
            // A container that is gone; one that stopped is not, and neither is one whose engine is
            // silent.
            (State::Ready, Some(Identity::Docker(identity))) => {
                let socket = Path::new(&identity.endpoint);
                let engine = self.engines.docker_at(socket, self.state_dir);
                let seen = engine.and_then(|engine| engine.look(&identity.container_id));
                if matches!(seen, Ok(Sight::Absent)) { wrong } else { right(None) }
            }
        }
    }

    fn sweep_native(&self, found: &mut Recovered) -> Result<(), EnsureError> {
        let directory = |row: &Row| match row.identity.as_ref()? {
            Identity::Native(identity) => Some(Path::new(&identity.socket).parent()?.to_owned()),
            Identity::Docker(_) => None,
        };
        let known: BTreeSet<PathBuf> =
            found.left.iter().filter_map(|(row, _)| directory(row)).collect();
        let is_known = |path: &Path| {
            let rows = self.registry().list();
            // A doubt never removes anything.
            rows.map_or(true, |rows| rows.iter().any(|row| directory(row).as_deref() == Some(path)))
        };
        match native::sweep(self.state_dir, &known, is_known) {
            Ok(swept) => {
                found.leftovers += swept.removed;
                for survivor in swept.survivors {
                    let identity = Identity::Native(survivor.identity);
                    self.take_in(&survivor.about, identity, survivor.protocol.into(), found)?;
                }
            }
            Err(error) => found.problems.push(format!("cannot look for leftover pens: {error}")),
        }
        Ok(())
    }

    /// Only where containers were ever made: an engine that nobody uses is not asked.
    fn sweep_docker(&self, found: &mut Recovered) -> Result<(), EnsureError> {
        if !docker_home(self.state_dir).join("run").is_dir() {
            return Ok(());
        }
        let rows = self.registry().list()?;
        let endpoint = |row: &Row| match &row.identity {
            Some(Identity::Docker(identity)) => Some(PathBuf::from(&identity.endpoint)),
            Some(Identity::Native(_)) | None => None,
        };
        let ours: HashSet<PathBuf> = rows.iter().filter_map(endpoint).collect();
        let mut sockets = ours.clone();
        sockets.extend(crate::backend::docker::locate(|name| std::env::var(name).ok()).ok());
        for socket in sockets {
            let engine = match self.engines.docker_at(&socket, self.state_dir) {
                Ok(engine) => engine,
                Err(error) => {
                    // Worth telling only if something stands there.
                    if ours.contains(&socket) {
                        found.problems.push(chain(&error));
                    }
                    continue;
                }
            };
            let is_known = |id: &str| {
                let is_it = |row: &Row| match &row.identity {
                    Some(Identity::Docker(identity)) => identity.container_id == id,
                    Some(Identity::Native(_)) | None => false,
                };
                self.registry().list().map_or(true, |rows| rows.iter().any(is_it))
            };
            match engine.sweep(is_known) {
                Ok(swept) => {
                    found.leftovers += swept.containers + swept.places;
                    for survivor in swept.survivors {
                        let identity = Identity::Docker(survivor.identity);
                        let protocol = u32::from(clawpen_wire::supervisor::VERSION);
                        self.take_in(&survivor.about, identity, protocol, found)?;
                    }
                }
                Err(error) => found.problems.push(chain(&error)),
            }
        }
        Ok(())
    }

    /// Writes down a sandbox that lives and that no row names. If its name is another one's by now,
    /// it is ended instead.
    fn take_in(
        &self,
        about: &str,
        identity: Identity,
        protocol: u32,
        found: &mut Recovered,
    ) -> Result<(), EnsureError> {
        let survivor =
            About::parse(about).and_then(|about| about.survivor(identity.clone(), protocol));
        let taken = match &survivor {
            Some(survivor) => self.registry().take_in(std::slice::from_ref(survivor))?,
            None => 0,
        };
        found.survivors += taken;
        if taken == 0 {
            match self.engines.end(&identity, self.state_dir) {
                Ok(()) => found.leftovers += 1,
                Err(error) => found.problems.push(chain(&error)),
            }
        }
        Ok(())
    }
}

/// An error with its causes, on one line.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
