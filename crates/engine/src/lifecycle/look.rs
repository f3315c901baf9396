//! What is there of a sandbox that is written down, in the words of `rules::reuse`.

use clawpen_rules::backend::Backend;
use clawpen_rules::reuse::{self, Activity, Container, Mounts, Reach, Seen};
use clawpen_rules::timestamp::Moment;
use clawpen_wire::supervisor::{
    IDENTIFY_VERSION, OLDEST_VERSION, ProcessEntry, ProcessState, VERSION,
};

use super::about::About;
use super::{EnsureError, Lifecycle, Wanted};
use crate::backend::docker::Sight;
use crate::backend::native::Found;
use crate::backend::{ReachError, docker, docker_home, native};
use crate::channel::Channel;
use crate::registry::{Identity, Kind, Liveness, RegistryError, Row};

impl Lifecycle<'_> {
    /// Looks at the sandbox of a ready row. An engine that cannot be asked is an error, never an
    /// absent container.
    pub(super) fn look(
        &self,
        row: &Row,
        wanted: &Wanted<'_>,
        now: &Moment,
    ) -> Result<Seen, EnsureError> {
        let state = self.state_of(row)?;
        let is_lost = state.is_some() && self.is_lost(row)?;
        let about = || {
            let text = match row.identity.as_ref()? {
                Identity::Native(identity) => native::about(identity)?,
                Identity::Docker(identity) => {
                    docker::about(&docker_home(self.state_dir), &identity.container_id)?
                }
            };
            About::parse(&text)
        };
        let container = state.map(|state| Container {
            state,
            label: Some(row.fingerprint.clone()),
            // A sandbox that cannot tell what it mounts is not gone on with.
            mounts: about().map_or(Mounts::Differ, |about| about.mounts_of(wanted.plan)),
            reach: if is_lost { Reach::Lost } else { reach(row, wanted) },
        });
        let registry = reuse::Registry::Entry {
            last_used: Some(now.place(&row.last_used)),
            fingerprint: Some(row.fingerprint.clone()),
        };
        Ok(Seen { container, registry, activity: self.activity_of(row)? })
    }

    /// Whether the sandbox of a row runs; `None` if there is none.
    pub(super) fn state_of(&self, row: &Row) -> Result<Option<reuse::State>, EnsureError> {
        let reach = |cause: ReachError| EnsureError::Reach { name: row.name.clone(), cause };
        match &row.identity {
            None => Ok(None),
            Some(Identity::Native(identity)) => {
                let lives = native::lives(identity);
                let lives = lives.map_err(|cause| reach(native::FindError::Look(cause).into()))?;
                Ok(lives.then_some(reuse::State::Running))
            }
            Some(Identity::Docker(identity)) => {
                let home = docker_home(self.state_dir);
                if docker::noted_process(&home, &identity.container_id).is_some() {
                    return Ok(Some(reuse::State::Running));
                }
                let engine = self.engines.docker_of(identity, self.state_dir);
                let engine = engine.map_err(|cause| reach(cause.into()))?;
                match engine.look(&identity.container_id).map_err(|cause| reach(cause.into()))? {
                    Sight::Absent => Ok(None),
                    // Whoever proves it right now may have been faster than our question.
                    Sight::Ours(seen) if seen.running => {
                        let proven = docker::noted_process(&home, &identity.container_id);
                        let unproven = reuse::State::Unproven;
                        Ok(Some(proven.map_or(unproven, |_| reuse::State::Running)))
                    }
                    Sight::Ours(_) => Ok(Some(reuse::State::Stopped)),
                    Sight::OfReference(_) | Sight::Stranger => {
                        let name = row.name.clone();
                        Err(reach(docker::DockerFailure::NameTaken { name }.into()))
                    }
                }
            }
        }
    }

    /// Whether a container is there that nobody can reach any more, because its place here is gone.
    fn is_lost(&self, row: &Row) -> Result<bool, EnsureError> {
        let Some(Identity::Docker(identity)) = &row.identity else { return Ok(false) };
        let (home, id) = (docker_home(self.state_dir), &identity.container_id);
        if docker::noted_process(&home, id).is_some() {
            return Ok(false);
        }
        let reach = |cause: docker::DockerFailure| EnsureError::Reach {
            name: row.name.clone(),
            cause: cause.into(),
        };
        let engine = self.engines.docker_of(identity, self.state_dir).map_err(reach)?;
        match engine.look(id).map_err(reach)? {
            Sight::Ours(seen) => Ok(!engine.has_place(&seen)),
            Sight::Absent | Sight::OfReference(_) | Sight::Stranger => Ok(false),
        }
    }

    /// Whether somebody works in a sandbox: a call in flight, or a command that was left running.
    pub(super) fn activity_of(&self, row: &Row) -> Result<Activity, RegistryError> {
        if self.activity(&row.name)? == Activity::InUse {
            return Ok(Activity::InUse);
        }
        match row.kind {
            Kind::Sandbox => {}
            // Its program runs as long as it does; who uses it holds a lease.
            Kind::Browser => return Ok(Activity::Quiet),
        }
        let Some(identity) = &row.identity else { return Ok(Activity::Quiet) };
        let commands = match self.engines.find(identity, self.state_dir) {
            Ok(Found::There(mut sandbox)) => {
                sandbox.channel().and_then(Channel::processes).unwrap_or_default()
            }
            // Whoever cannot be asked cannot be used either.
            Ok(Found::Gone) | Err(_) => Vec::new(),
        };
        let runs = |entry: &ProcessEntry| entry.state == ProcessState::Running;
        Ok(if commands.iter().any(runs) { Activity::InUse } else { Activity::Quiet })
    }

    /// Whether a call of a living process is in flight.
    fn activity(&self, name: &str) -> Result<Activity, RegistryError> {
        let leases = self.registry().leases(name)?;
        let is_held = leases.iter().any(|lease| lease.holder.liveness() != Liveness::Dead);
        Ok(if is_held { Activity::InUse } else { Activity::Quiet })
    }
}

fn reach(row: &Row, wanted: &Wanted<'_>) -> Reach {
    // A container whose supervisor cannot say which files it was given is not used again.
    let oldest = match row.backend {
        Backend::Docker => IDENTIFY_VERSION,
        Backend::Native | Backend::Ssh | Backend::OpenShell | Backend::Kubernetes => OLDEST_VERSION,
    };
    let spoken = u32::from(oldest)..=u32::from(VERSION);
    if row.backend != wanted.row.backend {
        Reach::OtherBackend
    } else if !spoken.contains(&row.protocol) {
        Reach::OtherProtocol
    } else {
        Reach::Usable
    }
}
