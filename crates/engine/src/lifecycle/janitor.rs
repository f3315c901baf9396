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
use std::ffi::OsString;
use std::path::Path;

use super::about::About;
use super::lock::NameLock;
use super::{EnsureError, Lifecycle};
use crate::backend::docker::{self, DockerFailure, Endpoint, Sight};
use crate::backend::{docker_home, native};
use crate::error_text::chain;
use crate::process_identity::Living;
use crate::registry::{Holder, Identity, Row, State};

/// What was found and put right.
#[derive(Debug, Default)]
pub struct Recovered {
    /// Sandboxes that were half made, half removed or gone.
    pub rows: Vec<String>,
    /// Leftovers that no row named.
    pub leftovers: usize,
    /// Sandboxes that live and were written down again, by name.
    pub survivors: Vec<String>,
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
        if !found.rows.is_empty() || !found.survivors.is_empty() {
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
                let home = docker_home(self.state_dir);
                if docker::noted_process(&home, &identity.container_id).is_some() {
                    return right(None);
                }
                let engine = self.engines.docker_of(identity, self.state_dir);
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
        // By name: each of a thousand is looked up once, and paths are slow to compare.
        let names = |(row, _): &(Row, _)| Some(directory(row)?.file_name()?.to_owned());
        let known: BTreeSet<OsString> = found.left.iter().filter_map(names).collect();
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
        let mut ours = HashSet::new();
        for row in &rows {
            match &row.identity {
                Some(Identity::Docker(identity)) => match Endpoint::recorded(&identity.endpoint) {
                    Ok(endpoint) => {
                        ours.insert(endpoint);
                    }
                    Err(error) => found.problems.push(chain(&error)),
                },
                Some(Identity::Native(_)) | None => {}
            }
        }
        let mut endpoints = ours.clone();
        endpoints.extend(docker::locate(|name| std::env::var(name).ok()).ok());
        // Whoever died before a row named the engine may have left something there.
        endpoints.extend(docker::used(&docker_home(self.state_dir)));
        for endpoint in endpoints {
            let engine = match self.engines.docker_at(&endpoint, self.state_dir) {
                Ok(engine) => engine,
                Err(error) => {
                    // Worth telling only if something stands there, or if it hangs: others would wait.
                    let hangs = matches!(error, DockerFailure::Frozen { .. });
                    if hangs || ours.contains(&endpoint) {
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
                    let unclear = |name| chain(&DockerFailure::Unclear { name });
                    found.problems.extend(swept.unclear.into_iter().map(unclear));
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
            None => Vec::new(),
        };
        if taken.is_empty() {
            match self.engines.end(&identity, self.state_dir) {
                Ok(()) => found.leftovers += 1,
                Err(error) => found.problems.push(chain(&error)),
            }
        }
        found.survivors.extend(taken);
        Ok(())
    }
}
