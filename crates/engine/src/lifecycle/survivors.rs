//! What lives and can tell who it is, with no registry to ask: a rebuilt one is filled with it.
//!
//! Takes a state directory; gives the rows that its sandboxes must have had. A native pen tells by the
//! note beside its socket and is greeted, a container by its label and its note. Changes nothing, and
//! never takes anybody's word for a container being proven: that is found out before the next call.

use super::about::About;
use crate::backend::docker::{self, DockerFailure, Endpoint};
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
    /// Looks for the sandboxes of a state directory: on this machine, at the engine that the environment names, and
    /// at every engine that was ever given something.
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
            let used = docker::used(&docker_home(state_dir));
            let named = docker::locate(|name| std::env::var(name).ok());
            let is_new = |named: &Endpoint| !used.contains(named);
            // Where nothing was ever made, it matters only if there is no other place to look.
            match named {
                Ok(named) if is_new(&named) => {
                    if let Err(error) = survivors.ask(engines, &named, state_dir)
                        && used.is_empty()
                    {
                        survivors.problems.push(chain(&error));
                    }
                }
                Err(error) if used.is_empty() => survivors.problems.push(chain(&error)),
                Ok(_) | Err(_) => {}
            }
            for endpoint in &used {
                if let Err(error) = survivors.ask(engines, endpoint, state_dir) {
                    survivors.problems.push(chain(&error));
                }
            }
        }
        survivors
    }

    /// The finished containers at one engine.
    fn ask(
        &mut self,
        engines: &Engines,
        endpoint: &Endpoint,
        state_dir: &str,
    ) -> Result<(), DockerFailure> {
        for container in engines.docker_at(endpoint, state_dir)?.survivors()? {
            let identity = Identity::Docker(container.identity);
            let protocol = u32::from(clawpen_wire::supervisor::VERSION);
            self.add(&container.about, identity, protocol);
        }
        Ok(())
    }

    fn add(&mut self, about: &str, identity: Identity, protocol: u32) {
        let survivor = About::parse(about).and_then(|about| about.survivor(identity, protocol));
        self.found.extend(survivor);
    }
}
