//! Removes sandboxes: only by their identity, and never under a call unless the user said so.

use std::path::Path;

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
        self.remove_then(row, in_flight, || ()).map(drop)
    }

    /// The same, with something to do before anybody can make it anew, such as moving its workspace
    /// aside. `None`: somebody else was faster, and nothing was done.
    pub fn remove_then<T>(
        &self,
        row: &Row,
        in_flight: InFlight,
        then: impl FnOnce() -> T,
    ) -> Result<Option<T>, EnsureError> {
        let lock = self.lock(&row.name)?;
        // Whoever had the lock may have removed it, or made another one.
        match self.registry().get(&row.name)? {
            Some(now) if now.generation == row.generation => self.end(&now, in_flight)?,
            Some(_) | None => return Ok(None),
        }
        let done = then();
        lock.retire();
        Ok(Some(done))
    }

    /// Does something to a workspace that must not be mounted meanwhile. Its sandboxes are ended first
    /// and cannot be made before it is done: one that ran would go on with the old directory.
    ///
    /// # Errors
    /// [`RegistryError::InUse`] if a call is in flight in one of them; nothing is done then.
    pub fn at_rest<T>(&self, workspace: &Path, job: impl FnOnce() -> T) -> Result<T, EnsureError> {
        let is_on_it = |row: &Row| Path::new(&row.workspace_dir) == workspace;
        let mut locks = Vec::new();
        for row in self.registry().list()?.into_iter().filter(is_on_it) {
            locks.push(self.lock(&row.name)?);
            if let Some(now) = self.registry().get(&row.name)? {
                self.end(&now, InFlight::Respect)?;
            }
        }
        let done = job();
        locks.into_iter().for_each(NameLock::retire);
        Ok(done)
    }

    fn lock(&self, name: &str) -> Result<NameLock, EnsureError> {
        let lock = NameLock::wait(self.state_dir, name);
        lock.map_err(|cause| EnsureError::Lock { name: name.to_owned(), cause })
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
