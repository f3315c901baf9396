//! What lives and can tell who it is, with no registry to ask: a rebuilt one is filled with it.
//!
//! Takes a state directory; gives the rows that its sandboxes must have had. A native pen tells by the
//! note beside its socket and is greeted, a container by its label and its note. Changes nothing, and
//! never takes anybody's word for a container being proven: that is found out before the next call.

use super::about::About;
use crate::backend::{Engines, docker_home, native};
use crate::error_text::chain;
use crate::registry::{Identity, Survivor};

/// What was found.
#[derive(Debug, Default)]
pub struct Survivors {
    pub found: Vec<Survivor>,
    /// Where nobody could look.
    pub problems: Vec<String>,
}

impl Survivors {
    /// Looks for the sandboxes of a state directory, on this machine and at the engine that the
    /// environment names.
    pub fn look(engines: &Engines, state_dir: &str) -> Self {
        let mut survivors = Self::default();
        match native::survivors(state_dir) {
            Ok(found) => {
                for pen in found {
                    let identity = Identity::Native(pen.identity);
                    survivors.add(&pen.about, identity, pen.protocol.into());
                }
            }
            Err(error) => survivors.problems.push(format!("cannot look for pens: {error}")),
        }
        // Only where containers were ever made: an engine that nobody uses is not asked.
        if docker_home(state_dir).join("run").is_dir() {
            let found = engines.docker(state_dir).and_then(|engine| engine.survivors());
            match found {
                Ok(found) => {
                    for container in found {
                        let identity = Identity::Docker(container.identity);
                        let protocol = u32::from(clawpen_wire::supervisor::VERSION);
                        survivors.add(&container.about, identity, protocol);
                    }
                }
                Err(error) => survivors.problems.push(chain(&error)),
            }
        }
        survivors
    }

    fn add(&mut self, about: &str, identity: Identity, protocol: u32) {
        let survivor = About::parse(about).and_then(|about| about.survivor(identity, protocol));
        self.found.extend(survivor);
    }
}
