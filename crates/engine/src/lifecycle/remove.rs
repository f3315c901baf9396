//! Removes sandboxes: only by their identity, and never under a call unless the user said so.

use clawpen_rules::backend::Backend;

use super::lock::NameLock;
use super::{EnsureError, Lifecycle, Plan, Wanted};
use crate::backend::docker::{DockerFailure, Sight};
use crate::backend::{RemoveError, docker};
use crate::faults;
use crate::registry::{Holder, InFlight, RegistryError, Row};

impl Lifecycle<'_> {
    /// Removes one sandbox and its row. Its workspace stays.
    ///
    /// # Errors
    /// [`RegistryError::InUse`] if a call is in flight and `in_flight` respects it.
    pub fn remove(&self, row: &Row, in_flight: InFlight) -> Result<(), EnsureError> {
        let lock = NameLock::wait(self.state_dir, &row.name)
            .map_err(|cause| EnsureError::Lock { name: row.name.clone(), cause })?;
        // Whoever had the lock may have removed it, or made another one.
        match self.registry().get(&row.name)? {
            Some(now) if now.generation == row.generation => self.end(&now, in_flight)?,
            Some(_) | None => return Ok(()),
        }
        lock.retire();
        Ok(())
    }

    /// Removes a ready sandbox that nobody uses, with the name locked.
    pub(super) fn clear(&self, row: &Row) -> Result<(), EnsureError> {
        self.end(row, InFlight::Respect)
    }

    /// Removes what is left of a sandbox that was never finished or is gone, with the name locked.
    pub(super) fn take_down(&self, row: &Row) -> Result<(), EnsureError> {
        self.end(row, InFlight::CutOff)
    }

    fn end(&self, row: &Row, in_flight: InFlight) -> Result<(), EnsureError> {
        let registry = self.registry();
        match registry.begin_removal(&row.name, row.generation, in_flight, Holder::liveness) {
            // Somebody was faster.
            Err(RegistryError::Changed { .. }) => return Ok(()),
            begun => begun?,
        }
        faults::reached("remove.marked");
        if let Some(identity) = &row.identity {
            let ended = self.engines.end(identity, self.state_dir);
            ended.map_err(|cause| EnsureError::Remove { name: row.name.clone(), cause })?;
        } else if row.backend == Backend::Docker {
            // It may exist although its maker died before it could write the id down.
            self.end_by_name(&row.name)?;
        }
        faults::reached("remove.gone");
        registry.forget(&row.name, row.generation)?;
        faults::reached("remove.forgotten");
        Ok(())
    }

    /// Makes sure that the name can be used, with the name locked and no row of it: a container of
    /// ours that has it was lost, and goes; one that is not ours is an error.
    pub(super) fn clear_name(&self, wanted: &Wanted<'_>) -> Result<(), EnsureError> {
        match wanted.plan {
            Plan::Native(_) => Ok(()),
            Plan::Docker(_) => {
                let name = &wanted.row.name;
                let failed = |cause| {
                    let start = docker::StartError { name: name.clone(), cause };
                    EnsureError::Start(start.into())
                };
                let engine = self.engines.docker(self.state_dir).map_err(failed)?;
                match engine.look(name).map_err(failed)? {
                    Sight::Absent => Ok(()),
                    Sight::Ours(seen) => engine.remove(&seen.id).map_err(failed),
                    Sight::OfReference(_) => {
                        Err(failed(DockerFailure::OfReference { name: name.clone() }))
                    }
                    Sight::Stranger => Err(failed(DockerFailure::NameTaken { name: name.clone() })),
                }
            }
        }
    }

    fn end_by_name(&self, name: &str) -> Result<(), EnsureError> {
        let failed = |cause| {
            let cause = RemoveError::Docker(cause);
            EnsureError::Remove { name: name.to_owned(), cause }
        };
        let engine = self.engines.docker(self.state_dir).map_err(failed)?;
        match engine.look(name).map_err(failed)? {
            Sight::Ours(seen) => engine.remove(&seen.id).map_err(failed),
            Sight::Absent | Sight::OfReference(_) | Sight::Stranger => Ok(()),
        }
    }

    /// Removes a container that the reference made, because its owner said so.
    pub fn remove_of_reference(&self, name: &str) -> Result<(), EnsureError> {
        let failed = |cause| {
            let cause = RemoveError::Docker(cause);
            EnsureError::Remove { name: name.to_owned(), cause }
        };
        let engine = self.engines.docker(self.state_dir).map_err(failed)?;
        engine.adopt_and_remove(name).map_err(failed)
    }
}
