//! The ways to make a sandbox. The set is closed: an enum, not a trait object.
//!
//! A backend makes, proves and removes sandboxes. Running commands and moving files is not its
//! business: once connected, every sandbox speaks the supervisor's protocol.

pub mod docker;
pub mod native;

use std::cell::{OnceCell, RefCell};
use std::io;
use std::path::Path;

use clawpen_rules::backend::Backend;
use clawpen_rules::container::ContainerSpec;
use clawpen_rules::facts::Line;
use clawpen_rules::native::NativePen;
use clawpen_wire::pen::Lifetime;

use self::docker::{DockerBackend, DockerFailure};
use crate::channel::{CallError, Channel};
use crate::supervisor_image::{self, Maker};

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
}

/// Connections to container engines, made when first needed.
#[derive(Debug, Default)]
pub struct Engines {
    docker: OnceCell<DockerBackend>,
    /// Pen makers that wait for an order.
    ready: RefCell<Vec<Maker>>,
}

/// There is no sandbox.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Native(#[from] native::StartError),
    #[error(transparent)]
    Docker(#[from] docker::StartError),
}

/// A running sandbox whose facts hold. Dropping it ends it, unless it was made to stay.
#[derive(Debug)]
pub enum Sandbox {
    Native(Box<native::Pen>),
    Docker(Box<docker::Pen>),
}

impl Engines {
    fn docker(&self, state_dir: &str) -> Result<&DockerBackend, DockerFailure> {
        if let Some(known) = self.docker.get() {
            return Ok(known);
        }
        let socket = docker::locate(|name| std::env::var(name).ok())?;
        let home = Path::new(state_dir).join("clawpen/docker");
        let made = DockerBackend::connect(&socket, &home, supervisor_image::IMAGE)?;
        Ok(self.docker.get_or_init(|| made))
    }

    /// Starts a pen maker ahead of its order, unless one waits already. Where it cannot be started the
    /// order will say why.
    pub fn expect_native(&self) {
        self.keep_ready(1);
    }

    /// Sees to it that `count` pen makers wait. For doors that live long; a maker that is never used costs
    /// its memory, and ends with this value.
    pub fn keep_ready(&self, count: usize) {
        let mut ready = self.ready.borrow_mut();
        while ready.len() < count {
            let Ok(maker) = Maker::start() else { return };
            ready.push(maker);
        }
    }

    /// Makes a sandbox and proves it. On failure nothing of it is left.
    pub fn start(
        &self,
        plan: &Plan,
        place: Place<'_>,
        lifetime: Lifetime,
    ) -> Result<Sandbox, StartError> {
        match plan {
            Plan::Native(plan) => {
                let ahead = self.ready.borrow_mut().pop();
                let request = native::Request {
                    pen: &plan.pen,
                    name: place.name,
                    state_dir: place.state_dir,
                    lifetime,
                    require: &plan.require,
                };
                Ok(Sandbox::Native(Box::new(native::Pen::start(&request, ahead)?)))
            }
            Plan::Docker(spec) => {
                let start = |cause| docker::StartError { name: place.name.to_owned(), cause };
                let engine = self.docker(place.state_dir).map_err(start)?;
                let pen = docker::Pen::start(engine, spec, lifetime)?;
                Ok(Sandbox::Docker(Box::new(pen)))
            }
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

    /// What was asked and what was found, before the first command.
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

    /// Ends it and waits until nothing of it is left.
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
