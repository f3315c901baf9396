//! The ways to make a sandbox. The set is closed: an enum, not a trait object.
//!
//! A backend makes, proves and removes sandboxes. Running commands and moving files is not its
//! business: once connected, every sandbox speaks the supervisor's protocol.

pub mod docker;
mod kept;
pub mod native;

use std::collections::HashMap;
use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use clawpen_rules::backend::Backend;
use clawpen_rules::container::ContainerSpec;
use clawpen_rules::facts::Line;
use clawpen_rules::native::NativePen;
use clawpen_wire::pen::Lifetime;

use self::docker::engine::{LEFT_ALONE, Patience};
use self::docker::{DockerBackend, DockerFailure, Endpoint};
use self::kept::Kept;
use self::native::{FindError, Found};
use crate::channel::{CallError, Channel, ConnectError};
use crate::registry::{DockerIdentity, Identity};
use crate::supervisor_image;

/// What to make, decided.
#[derive(Debug, Clone, PartialEq)]
pub enum Plan {
    Native(Box<NativePlan>),
    Docker(Box<ContainerSpec>),
}

/// A native pen and what must be in force besides the floor.
#[derive(Debug, Clone, PartialEq)]
pub struct NativePlan {
    pub pen: NativePen,
    pub require: Vec<native::Requirement>,
}

/// What a sandbox is called, and where we keep things.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    pub name: &'a str,
    pub state_dir: &'a str,
    /// Kept beside a sandbox that stays, so that it can tell who it is if the registry is lost.
    pub about: &'a str,
}

/// Writes a sandbox down as soon as there is something of it that must not be lost. Its failure ends
/// the sandbox.
pub type Witness<'a> = &'a mut dyn FnMut(&Identity) -> Result<(), WitnessError>;

/// Why a sandbox could not be written down.
pub type WitnessError = Box<dyn Error + Send + Sync>;

/// Connections to container engines, made when first needed. One that failed is tried again.
#[derive(Debug, Default)]
pub struct Engines {
    docker: Mutex<HashMap<Endpoint, Arc<DockerBackend>>>,
    /// Those that did not answer in time, and when.
    frozen: Mutex<HashMap<Endpoint, Instant>>,
    patience: Patience,
    /// What waits for native pens to be asked for.
    ahead: Arc<native::Ahead>,
    /// Connections between two calls.
    kept: Arc<Kept>,
}

/// There is no sandbox.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Native(#[from] native::StartError),
    #[error(transparent)]
    Docker(#[from] docker::StartError),
}

impl StartError {
    /// What a command in the sandbox said, if the error quotes it: content, which no record keeps.
    pub fn quoted(&self) -> Option<&str> {
        match self {
            Self::Native(native::StartError {
                cause: native::StartFailure::SetupFailed { said, .. },
                ..
            })
            | Self::Docker(docker::StartError {
                cause: DockerFailure::SetupFailed { said, .. },
                ..
            }) => Some(said),
            Self::Native(_) | Self::Docker(_) => None,
        }
    }
}

/// A running sandbox whose facts hold. Dropping it ends it, unless it was made to stay.
#[derive(Debug)]
pub enum Sandbox {
    Native(Box<native::Pen>),
    Docker(Box<docker::Pen>),
}

impl Engines {
    /// For work that nobody waits for: an engine that is slow is left alone.
    pub fn hurried() -> Self {
        Self { patience: Patience::Brief, ..Self::default() }
    }

    /// Connections to engines of their own, with the same pens made ahead and the same connections to sandboxes.
    #[must_use]
    pub fn beside(&self) -> Self {
        let (ahead, kept) = (Arc::clone(&self.ahead), Arc::clone(&self.kept));
        Self { ahead, kept, ..Self::default() }
    }

    /// Whether a native pen of this name was given to its owner since this was last asked.
    pub fn was_given(&self, name: &str) -> bool {
        self.ahead.was_given(name)
    }

    /// Ends the oldest of the pens that wait until there are no more than `most`.
    pub fn trim(&self, most: usize) {
        self.ahead.trim(most);
    }

    /// The engine that the environment names.
    pub fn docker(&self, state_dir: &str) -> Result<Arc<DockerBackend>, DockerFailure> {
        self.docker_at(&docker::locate(|name| std::env::var(name).ok())?, state_dir)
    }

    /// The engine that a container was written down with.
    pub fn docker_of(
        &self,
        identity: &DockerIdentity,
        state_dir: &str,
    ) -> Result<Arc<DockerBackend>, DockerFailure> {
        self.docker_at(&Endpoint::recorded(&identity.endpoint)?, state_dir)
    }

    /// A certain engine.
    pub fn docker_at(
        &self,
        endpoint: &Endpoint,
        state_dir: &str,
    ) -> Result<Arc<DockerBackend>, DockerFailure> {
        let mut known = self.docker.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.get(endpoint) {
            return Ok(Arc::clone(known));
        }
        let mut frozen = self.frozen.lock().unwrap_or_else(PoisonError::into_inner);
        if frozen.get(endpoint).is_some_and(|since| since.elapsed() < LEFT_ALONE) {
            return Err(DockerFailure::Frozen { action: docker::Action::Connect });
        }
        let (home, patience) = (docker_home(state_dir), self.patience);
        let made =
            DockerBackend::connect_within(endpoint, &home, supervisor_image::IMAGE, patience);
        if matches!(made, Err(DockerFailure::Frozen { .. })) {
            frozen.insert(endpoint.clone(), Instant::now());
        }
        let made = Arc::new(made?);
        known.insert(endpoint.clone(), Arc::clone(&made));
        Ok(made)
    }

    /// Sees to it that `count` pen makers wait. For doors that live long; a maker that is never used costs
    /// its memory, and ends with this value.
    pub fn keep_ready(&self, count: usize) {
        self.ahead.keep_ready(count);
    }

    /// For a call that will make a native pen, before it is decided how: the pen's maker gets going meanwhile. One
    /// that is not needed after all ends with this value.
    pub fn begin(&self) {
        self.ahead.begin();
    }

    /// Sees to it that `count` pens wait that were made and proven for exactly this, to be given to whoever starts
    /// it next. They end with this value if nobody does. Container engines make nothing ahead.
    pub fn stock(
        &self,
        plan: &Plan,
        place: Place<'_>,
        lifetime: Lifetime,
        count: usize,
    ) -> Result<(), StartError> {
        match plan {
            Plan::Native(plan) => {
                let request = plan.request(place, lifetime);
                Ok(native::Pen::stock(&request, &self.ahead, count)?)
            }
            Plan::Docker(_) => Ok(()),
        }
    }

    /// Makes a sandbox and proves it. On failure nothing of it is left.
    pub fn start(
        &self,
        plan: &Plan,
        place: Place<'_>,
        lifetime: Lifetime,
        witness: Witness<'_>,
    ) -> Result<Sandbox, StartError> {
        match plan {
            Plan::Native(plan) => {
                let request = plan.request(place, lifetime);
                let pen = native::Pen::start(&request, &self.ahead, witness)?;
                Ok(Sandbox::Native(Box::new(pen)))
            }
            Plan::Docker(spec) => {
                let start = |cause| docker::StartError { name: place.name.to_owned(), cause };
                let engine = self.docker(place.state_dir).map_err(start)?;
                let order = docker::Order { spec, name: place.name, lifetime, about: place.about };
                let pen = docker::Pen::make(&engine, &order, witness)?;
                Ok(Sandbox::Docker(Box::new(pen)))
            }
        }
    }

    /// Connects to a sandbox that was written down. The value leaves it running.
    pub fn find(&self, identity: &Identity, state_dir: &str) -> Result<Found<Sandbox>, ReachError> {
        if let Some(sandbox) = self.kept.take(identity) {
            return Ok(Found::There(sandbox));
        }
        match identity {
            Identity::Native(identity) => match native::Pen::find(identity)? {
                Found::There(pen) => Ok(Found::There(Sandbox::Native(Box::new(pen)))),
                Found::Gone => Ok(Found::Gone),
            },
            Identity::Docker(identity) => {
                // Only by the note of whoever proved it. The engine could tell that something runs under
                // its name, which says nothing about what.
                let found = docker::Pen::find(&docker_home(state_dir), identity)?;
                Ok(found.map_or(Found::Gone, |pen| Found::There(Sandbox::Docker(Box::new(pen)))))
            }
        }
    }

    /// Gives a sandbox back that [`Engines::find`] gave and nobody uses now: the next who looks for it need not
    /// connect again.
    pub(crate) fn give_back(&self, identity: &Identity, sandbox: Sandbox) {
        self.kept.put(identity, sandbox);
    }

    /// Ends a sandbox that was written down, and waits until nothing of it is left. One that is gone
    /// already is no error.
    pub fn end(&self, identity: &Identity, state_dir: &str) -> Result<(), RemoveError> {
        match identity {
            Identity::Native(identity) => native::Pen::end(identity).map_err(RemoveError::Native),
            Identity::Docker(identity) => {
                let engine = self.docker_of(identity, state_dir);
                let engine = engine.map_err(RemoveError::Docker)?;
                engine.remove(&identity.container_id).map_err(RemoveError::Docker)
            }
        }
    }
}

impl NativePlan {
    /// What to make a pen from.
    pub fn request<'a>(&'a self, place: Place<'a>, lifetime: Lifetime) -> native::Request<'a> {
        native::Request {
            pen: &self.pen,
            name: place.name,
            state_dir: place.state_dir,
            about: place.about,
            lifetime,
            require: &self.require,
        }
    }
}

/// Where the Docker backend keeps its things.
pub(crate) fn docker_home(state_dir: &str) -> PathBuf {
    Path::new(state_dir).join("clawpen/docker")
}

/// A sandbox that may be there cannot be reached.
#[derive(Debug, thiserror::Error)]
pub enum ReachError {
    #[error(transparent)]
    Native(#[from] FindError),
    #[error(transparent)]
    Docker(#[from] DockerFailure),
    #[error(transparent)]
    Connect(#[from] ConnectError),
}

impl ReachError {
    /// Whether the supervisor is there and speaks a protocol that we no longer do.
    pub const fn is_other_protocol(&self) -> bool {
        match self {
            Self::Native(FindError::Connect(error))
            | Self::Docker(DockerFailure::Connect(error))
            | Self::Connect(error) => error.is_other_protocol(),
            Self::Native(_) | Self::Docker(_) => false,
        }
    }
}

impl Sandbox {
    /// The connection to process 1.
    pub fn channel(&mut self) -> Result<&mut Channel, CallError> {
        match self {
            Self::Native(pen) => pen.channel(),
            Self::Docker(pen) => pen.channel(),
        }
    }

    /// Whether another process made it, or an earlier call.
    const fn was_found(&self) -> bool {
        match self {
            Self::Native(pen) => pen.was_found(),
            Self::Docker(pen) => pen.was_found(),
        }
    }

    /// Whether both ends of the connection agree that nothing is going on.
    fn can_go_on(&mut self) -> bool {
        self.channel().is_ok_and(Channel::is_at_rest)
    }

    /// What was asked and what was found, before the first command; nothing for a sandbox that was
    /// found again.
    pub fn facts(&self) -> &[Line] {
        match self {
            Self::Native(pen) => pen.facts(),
            Self::Docker(pen) => pen.facts(),
        }
    }

    /// Process 1, as the host numbers it.
    pub fn first_process(&self) -> u32 {
        match self {
            Self::Native(pen) => pen.pid(),
            Self::Docker(pen) => pen.pid(),
        }
    }

    pub const fn backend(&self) -> Backend {
        match self {
            Self::Native(_) => Backend::Native,
            Self::Docker(_) => Backend::Docker,
        }
    }

    /// Ends a sandbox that was made by this process, and waits until nothing of it is left.
    pub fn remove(self) -> Result<(), RemoveError> {
        match self {
            Self::Native(pen) => pen.remove().map_err(RemoveError::Native),
            Self::Docker(pen) => pen.remove().map_err(RemoveError::Docker),
        }
    }
}

/// A sandbox that may still be there.
#[derive(Debug, thiserror::Error)]
pub enum RemoveError {
    #[error("cannot remove the pen")]
    Native(#[source] io::Error),
    #[error("cannot remove the container")]
    Docker(#[source] DockerFailure),
}
