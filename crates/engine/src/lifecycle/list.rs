//! What there is: every row with what is found of it, and what the reference has made.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use clawpen_rules::reuse::State as Running;

use super::current::{Current, Currents};
use super::{EnsureError, Lifecycle, Recovered};
use crate::backend::docker::{DockerBackend, ImageState, Sight};
use crate::backend::{docker, docker_home};
use crate::error_text::chain;
use crate::process_identity::{self, Living};
use crate::registry::{Foreign, Identity, Kind, Liveness, Row, State};

/// Everything that is listed.
#[derive(Debug, Default)]
pub struct Listing {
    pub sandboxes: Vec<Listed>,
    /// What the look put right.
    pub recovered: Recovered,
    /// What could not be found out; the rows it concerns are listed all the same.
    pub problems: Vec<String>,
}

/// One sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    pub origin: Origin,
    pub condition: Condition,
    /// Bytes, of all its processes.
    pub memory: Option<u64>,
    /// Calls in flight.
    pub calls: usize,
    pub age: Duration,
    pub idle: Duration,
    /// What the config would make of it now.
    pub current: Option<Current>,
    /// How it stands to its image's name; `None` if there is none, or nobody could say.
    pub image: Option<ImageState>,
}

/// Whose it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    Ours(Box<Row>),
    Reference(Box<Foreign>),
}

/// What is found of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    Running,
    Stopped,
    /// It runs, and nobody has proven it since it was started. The next call starts it anew.
    Unproven,
    /// It is written down and not there.
    Gone,
    /// Somebody is making or removing it right now.
    Changing(State),
    /// Nobody could say: the engine's error.
    Unknown(String),
}

/// Answers for many rows; each engine and each image is asked once.
#[derive(Default)]
struct ImageStates {
    engines: HashMap<String, Option<Containers>>,
    states: HashMap<(String, String, String), Option<ImageState>>,
}

/// An engine, and what each of our containers there was made from.
struct Containers {
    engine: Arc<DockerBackend>,
    image_ids: HashMap<String, String>,
}

impl ImageStates {
    fn of(&mut self, lifecycle: &Lifecycle<'_>, row: &Row) -> Option<ImageState> {
        let Some(Identity::Docker(identity)) = &row.identity else { return None };
        let containers = self.engines.entry(identity.endpoint.clone()).or_insert_with(|| {
            let engine = lifecycle.engines.docker_of(identity, lifecycle.state_dir).ok()?;
            let ours = engine.ours().ok()?.into_iter();
            let image_ids = ours.map(|seen| (seen.id, seen.image_id)).collect();
            Some(Containers { engine, image_ids })
        });
        let containers = containers.as_ref()?;
        let id = containers.image_ids.get(&identity.container_id)?;
        let key = (identity.endpoint.clone(), row.image.clone(), id.clone());
        let state = || containers.engine.image_state(&row.image, id).ok();
        *self.states.entry(key).or_insert_with(state)
    }
}

impl Lifecycle<'_> {
    /// Lists the sandboxes of one kind, after putting right what can be.
    pub fn list(&self, kind: Kind, currents: &Currents<'_>) -> Result<Listing, EnsureError> {
        let mut recovered = self.recover()?;
        let rows = std::mem::take(&mut recovered.left);
        let mut problems = recovered.problems.clone();
        let imported = self.registry().import(Path::new(self.state_dir))?;
        problems.extend(imported.problems.iter().map(|problem| chain(problem)));
        let calls = self.calls_in_flight()?;
        let now = self.clock.now();
        let mut images = ImageStates::default();
        let mut sandboxes = Vec::new();
        for (row, living) in rows.into_iter().filter(|(row, _)| row.kind == kind) {
            let (condition, memory) = self.condition(&row, living);
            sandboxes.push(Listed {
                condition,
                memory,
                calls: calls.get(&row.name).copied().unwrap_or_default(),
                age: now.since(&row.created),
                idle: now.since(&row.last_used),
                current: currents.of(&row),
                image: images.of(self, &row),
                origin: Origin::Ours(Box::new(row)),
            });
        }
        for foreign in self.registry().foreign()?.into_iter().filter(|one| one.kind == kind) {
            sandboxes.push(Listed {
                condition: self.condition_of_foreign(&foreign),
                memory: None,
                calls: 0,
                age: now.since(&foreign.created),
                idle: now.since(&foreign.last_used),
                current: None,
                image: None,
                origin: Origin::Reference(Box::new(foreign)),
            });
        }
        Ok(Listing { sandboxes, recovered, problems })
    }

    /// How many calls of living processes are in flight, by sandbox.
    fn calls_in_flight(&self) -> Result<HashMap<String, usize>, EnsureError> {
        let mut calls = HashMap::new();
        for lease in self.registry().all_leases()? {
            match lease.holder.liveness() {
                Liveness::Dead => {}
                Liveness::Alive | Liveness::Unknown => *calls.entry(lease.name).or_default() += 1,
            }
        }
        Ok(calls)
    }

    fn condition(&self, row: &Row, living: Option<Living>) -> (Condition, Option<u64>) {
        match row.state {
            State::Ready => {}
            State::Creating | State::Removing => return (Condition::Changing(row.state), None),
        }
        let state = match living {
            Some(_) => Ok(Some(Running::Running)),
            None => self.state_of(row),
        };
        let condition = match state {
            Ok(Some(Running::Running)) => Condition::Running,
            Ok(Some(Running::Stopped)) => Condition::Stopped,
            Ok(Some(Running::Unproven)) => Condition::Unproven,
            Ok(None) => Condition::Gone,
            Err(error) => Condition::Unknown(chain(&error)),
        };
        let first_process = match (&row.identity, &condition) {
            (Some(Identity::Native(identity)), Condition::Running) => Some(identity.pid),
            (Some(Identity::Docker(identity)), Condition::Running) => {
                docker::noted_process(&docker_home(self.state_dir), &identity.container_id)
            }
            _ => None,
        };
        let memory = first_process.map(|pid| process_identity::memory_of_tree(pid, living));
        (condition, memory)
    }

    fn condition_of_foreign(&self, foreign: &Foreign) -> Condition {
        if foreign.backend != "docker" {
            return Condition::Unknown(format!(
                "the backend `{}` of the reference is not asked",
                foreign.backend
            ));
        }
        let seen =
            self.engines.docker(self.state_dir).and_then(|engine| engine.look(&foreign.name));
        match seen {
            Ok(Sight::Absent) => Condition::Gone,
            Ok(Sight::OfReference(seen) | Sight::Ours(seen)) if seen.running => Condition::Running,
            Ok(Sight::OfReference(_) | Sight::Ours(_)) => Condition::Stopped,
            Ok(Sight::Stranger) => Condition::Unknown("another container has its name".to_owned()),
            Err(error) => Condition::Unknown(chain(&error)),
        }
    }
}

impl Listed {
    /// Whether something runs there, proven or not.
    pub const fn is_running(&self) -> bool {
        match self.condition {
            Condition::Running | Condition::Unproven => true,
            Condition::Stopped
            | Condition::Gone
            | Condition::Changing(_)
            | Condition::Unknown(_) => false,
        }
    }

    pub fn name(&self) -> &str {
        match &self.origin {
            Origin::Ours(row) => &row.name,
            Origin::Reference(foreign) => &foreign.name,
        }
    }

    /// Whether the config would make something else of it now; `None` if nobody can say.
    pub fn is_stale(&self) -> Option<bool> {
        match (&self.origin, &self.current) {
            (Origin::Ours(row), Some(current)) => {
                let is_same_backend = current.backend == Some(row.backend);
                let fingerprint = current.fingerprint.as_ref()?;
                Some(!is_same_backend || *fingerprint != row.fingerprint)
            }
            (Origin::Ours(_) | Origin::Reference(_), _) => None,
        }
    }

    /// Whether its image's name still leads to what it was made from, as far as anybody knows.
    fn has_image(&self) -> bool {
        match self.image {
            None | Some(ImageState::Current) => true,
            Some(ImageState::Rebuilt | ImageState::Deleted) => false,
        }
    }

    /// Whether making it anew would give something else.
    pub fn is_outdated(&self) -> bool {
        self.is_stale() == Some(true) || self.image == Some(ImageState::Rebuilt)
    }

    /// Whether it runs the image that the config names now.
    pub fn has_current_image(&self) -> bool {
        match (&self.origin, &self.current) {
            (Origin::Ours(row), Some(current)) => row.image == current.image && self.has_image(),
            (Origin::Ours(_) | Origin::Reference(_), _) => true,
        }
    }
}
