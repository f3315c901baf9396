//! Comes back to containers: finds them, connects, starts those that stopped, removes, sweeps.
//!
//! Two ways lead to a container that runs. The short one asks only the kernel: when it was met, the
//! number and the start of its first process were noted beside its socket, and whoever listens there
//! now must be that process. The long one asks the engine, and is taken when the short one fails.
//!
//! ```text
//! <home>/live/<container id>    run, boot, number, start: written when met, gone with the container
//! ```

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bollard::models::ContainerInspectResponse;
use clawpen_rules::container::ContainerSpec;
use clawpen_wire::pen::Lifetime;

use super::failure::DockerFailure;
use super::meeting::MeetingPlace;
use super::plan;
use super::request::{self, OurMounts, Stay};
use super::{AtTheEnd, Container, DockerBackend, RUN_LABEL, STATE_LABEL, first_process};
use crate::clock;
use crate::faults;
use crate::process_identity;
use crate::registry::DockerIdentity;

/// What stands under a name at the engine.
#[derive(Debug)]
pub enum Sight {
    Absent,
    Ours(Box<Seen>),
    /// Made by the reference: listed, and touched only when its owner says so.
    OfReference(Box<Seen>),
    /// Anything else. Never touched.
    Stranger,
}

/// A container, as the engine shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    pub id: String,
    pub name: String,
    pub running: bool,
    /// The image's name, as it was asked for.
    pub image: String,
    pub labels: HashMap<String, String>,
    /// Its first process, while it runs.
    pub first_process: Option<u32>,
}

/// What a sweep found and took away.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Swept {
    pub containers: usize,
    pub places: usize,
    /// Containers that were finished and that no row names: somebody has lost the registry.
    pub survivors: Vec<Survivor>,
}

/// A finished container, and what it says about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Survivor {
    pub identity: DockerIdentity,
    pub about: String,
}

/// How a container that stopped came out of its start.
#[derive(Debug)]
pub enum Restarted {
    /// It runs and its supervisor serves; nothing is proven yet.
    Runs(Box<Container>, UnixStream),
    /// It was made by another release of ours, whose supervisor would start. Replace it.
    OfOtherRelease,
}

/// Where a container's first process is noted.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Note {
    run: String,
    boot_id: String,
    pid: u32,
    start_time: u64,
}

impl Seen {
    fn of(found: &ContainerInspectResponse) -> Self {
        let config = found.config.as_ref();
        let labels = config.and_then(|config| config.labels.clone()).unwrap_or_default();
        let name = found.name.as_deref().unwrap_or_default();
        Self {
            id: found.id.clone().unwrap_or_default(),
            name: name.trim_start_matches('/').to_owned(),
            running: found.state.as_ref().and_then(|state| state.running) == Some(true),
            image: config.and_then(|config| config.image.clone()).unwrap_or_default(),
            labels,
            first_process: first_process(found),
        }
    }

    /// The config that it was made from.
    pub fn fingerprint(&self) -> Option<&str> {
        self.labels.get("openclaw.configHash").map(String::as_str)
    }
}

impl DockerBackend {
    /// Looks what stands under a name, or an id.
    pub fn look(&self, name: &str) -> Result<Sight, DockerFailure> {
        let Some(found) = self.inspect(name)? else { return Ok(Sight::Absent) };
        let seen = Box::new(Seen::of(&found));
        Ok(if seen.labels.get(STATE_LABEL) == Some(&self.mark) {
            Sight::Ours(seen)
        } else if seen.labels.contains_key("openclaw.sandbox")
            && !seen.labels.contains_key(STATE_LABEL)
        {
            Sight::OfReference(seen)
        } else {
            Sight::Stranger
        })
    }

    /// Finds a running container of ours that was kept; `None` if there is none of that name or id,
    /// or it is not ours, or has ended. Its value leaves it running.
    pub fn open(&self, name: &str) -> Result<Option<Container>, DockerFailure> {
        let Some(inspection) = self.inspect(name)? else { return Ok(None) };
        Ok(self.container(inspection).filter(|container| container.first_process > 0))
    }

    /// Notes how a container is reached without asking the engine.
    pub(super) fn note(&self, container: &Container) -> Result<(), DockerFailure> {
        let path = note_path(&self.home, &container.id);
        let write = || {
            let pid = container.first_process;
            let living = process_identity::look(pid)?.ok_or(io::ErrorKind::NotFound)?;
            let boot_id = clock::boot_id()?;
            let text = format!("{} {boot_id} {pid} {}", container.place.id(), living.start_time);
            if let Some(parent) = path.parent() {
                fs::DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
            }
            let beside = path.with_extension("new");
            fs::write(&beside, text)?;
            fs::rename(&beside, &path)
        };
        write().map_err(|cause| DockerFailure::Local { what: "write", path: path.clone(), cause })
    }

    /// Starts a container of ours that stopped, as `spec` says; `id` is the engine's.
    pub(super) fn restart(
        &self,
        id: &str,
        spec: &ContainerSpec,
    ) -> Result<Restarted, DockerFailure> {
        let Some(found) = self.inspect(id)? else {
            return Err(DockerFailure::Ended { code: None, said: String::new() });
        };
        // What it was made from, which may no longer be what its image's name leads to.
        let image = self.engine.image(found.image.as_deref().unwrap_or(spec.image()))?;
        let supervisor = self.supervisor_file()?;
        let labels = found.config.as_ref().and_then(|config| config.labels.clone());
        let Some(mut container) = self.container(found) else {
            return Ok(Restarted::OfOtherRelease);
        };
        let is_current = container.inspection.mounts.iter().flatten().any(|mount| {
            mount.destination.as_deref() == Some(request::SUPERVISOR)
                && mount.source.as_deref() == supervisor.to_str()
        });
        if !is_current {
            return Ok(Restarted::OfOtherRelease);
        }
        let ours = OurMounts { supervisor: &supervisor, meeting_place: &container.place.inside() };
        let mut asked = request::build(spec, &image, ours, Stay::Kept)?;
        // They tell when it was made; which one it is was checked by them already.
        asked.labels = labels;
        container.user = container.find_user(spec, &image)?;
        container.place.renew()?;
        let watch = container.place.watch()?;
        let bytes = plan::bytes(spec, &image, container.user, Lifetime::Persistent)?;
        container.place.lay_out(&bytes)?;
        faults::reached("docker.planned");
        container.start(&asked, image.id.as_deref().unwrap_or_default())?;
        faults::reached("docker.started");
        let stream = container.meet(&watch)?;
        faults::reached("docker.met");
        Ok(Restarted::Runs(Box::new(container), stream))
    }

    /// Kills and removes a container of ours, and what is kept for it. One that is gone is no error;
    /// one that is not ours is.
    pub fn remove(&self, id: &str) -> Result<(), DockerFailure> {
        match self.look(id)? {
            Sight::Absent => {}
            Sight::Ours(seen) => {
                self.engine.remove(&seen.id)?;
                faults::reached("remove.gone");
                self.forget(&seen);
            }
            Sight::OfReference(seen) => {
                return Err(DockerFailure::OfReference { name: seen.name.clone() });
            }
            Sight::Stranger => return Err(DockerFailure::NameTaken { name: id.to_owned() }),
        }
        drop(fs::remove_file(note_path(&self.home, id)));
        Ok(())
    }

    /// Removes a container that the reference made, because its owner said so.
    pub fn adopt_and_remove(&self, name: &str) -> Result<(), DockerFailure> {
        match self.look(name)? {
            Sight::Absent => Ok(()),
            Sight::OfReference(seen) | Sight::Ours(seen) => self.engine.remove(&seen.id),
            Sight::Stranger => Err(DockerFailure::NameTaken { name: name.to_owned() }),
        }
    }

    /// Every container of this state directory.
    pub fn ours(&self) -> Result<Vec<Seen>, DockerFailure> {
        let found = self.engine.labelled(&format!("{STATE_LABEL}={}", self.mark))?;
        let seen = found.into_iter().map(|one| Seen {
            id: one.id.unwrap_or_default(),
            name: one
                .names
                .iter()
                .flatten()
                .next()
                .map_or_else(String::new, |name| name.trim_start_matches('/').to_owned()),
            running: one.state.is_some_and(|state| state.to_string() == "running"),
            image: one.image.unwrap_or_default(),
            labels: one.labels.unwrap_or_default(),
            first_process: None,
        });
        Ok(seen.collect())
    }

    /// Removes containers of ours that nobody knows of and nobody is at work on, and meeting places
    /// that no container has. `is_known` says whether a row names an id.
    pub fn sweep(&self, mut is_known: impl FnMut(&str) -> bool) -> Result<Swept, DockerFailure> {
        let mut swept = Swept::default();
        let run = self.home.join("run");
        // Looked at before the containers: a place that is made after this is nobody's leftover.
        let places = MeetingPlace::all(&run);
        let mut used = HashSet::new();
        let mut ids = HashSet::new();
        for seen in self.ours()? {
            let label = seen.labels.get(RUN_LABEL);
            let place = label.and_then(|run_id| MeetingPlace::open(&run, run_id));
            let is_held = place.as_ref().is_some_and(MeetingPlace::is_held);
            let is_known = is_held || is_known(&seen.id);
            let about = place.as_ref().and_then(MeetingPlace::about);
            if is_known || about.is_some() {
                used.extend(label.cloned());
                if let (false, Some(about)) = (is_known, about) {
                    let identity = self.identity(&seen.id);
                    swept.survivors.push(Survivor { identity, about });
                }
                ids.insert(seen.id);
                continue;
            }
            self.engine.remove(&seen.id)?;
            swept.containers += 1;
        }
        for mut place in places {
            if !used.contains(place.id()) && !place.is_held() {
                place.forget();
                swept.places += 1;
            }
        }
        for entry in fs::read_dir(self.home.join("live")).into_iter().flatten().flatten() {
            if !entry.file_name().to_str().is_some_and(|id| ids.contains(id)) {
                drop(fs::remove_file(entry.path()));
            }
        }
        Ok(swept)
    }

    /// Who the processes of a container of `spec` are.
    pub(super) fn user_of(
        &self,
        id: &str,
        spec: &ContainerSpec,
    ) -> Result<(u32, u32), DockerFailure> {
        let gone = || DockerFailure::Ended { code: None, said: String::new() };
        let container = self.open(id)?.ok_or_else(gone)?;
        let image = container.inspection.image.as_deref().unwrap_or(spec.image());
        let image = self.engine.image(image)?;
        container.find_user(spec, &image)
    }

    fn inspect(&self, name: &str) -> Result<Option<ContainerInspectResponse>, DockerFailure> {
        match self.engine.inspect(name) {
            Err(DockerFailure::Refused { status: 404, .. }) => Ok(None),
            found => found.map(Some),
        }
    }

    /// The value of a container of ours; `None` if it is not ours or its meeting place is lost.
    fn container(&self, inspection: ContainerInspectResponse) -> Option<Container> {
        let labels = inspection.config.as_ref()?.labels.as_ref()?;
        if labels.get(STATE_LABEL) != Some(&self.mark) {
            return None;
        }
        let place = MeetingPlace::open(&self.home.join("run"), labels.get(RUN_LABEL)?)?;
        Some(Container {
            engine: Arc::clone(&self.engine),
            id: inspection.id.clone()?,
            place,
            first_process: first_process(&inspection).unwrap_or(0),
            // Whoever it was proven to be when it was made.
            user: (0, 0),
            inspection,
            at_the_end: AtTheEnd::Leave,
        })
    }

    /// Removes what is kept for a container that is gone.
    fn forget(&self, seen: &Seen) {
        let run = seen.labels.get(RUN_LABEL);
        if let Some(mut place) = run.and_then(|run| MeetingPlace::open(&self.home.join("run"), run))
        {
            place.forget();
        }
        drop(fs::remove_file(note_path(&self.home, &seen.id)));
    }
}

/// The first process of a container and a stream to it, without a word to the engine; `None` if the
/// long way has to be taken.
pub(super) fn by_note(home: &Path, id: &str) -> Option<(u32, UnixStream)> {
    let note = read_note(home, id)?;
    if clock::boot_id().ok()? != note.boot_id {
        return None;
    }
    let place = MeetingPlace::open(&home.join("run"), &note.run)?;
    let stream = place.connect().ok()?;
    // Whoever is at the other end is compared with this number next.
    let living = process_identity::look(note.pid).ok()??;
    (living.start_time == note.start_time).then_some((note.pid, stream))
}

/// What a container says about itself, without a word to the engine.
pub(crate) fn about(home: &Path, id: &str) -> Option<String> {
    MeetingPlace::open(&home.join("run"), &read_note(home, id)?.run)?.about()
}

/// The first process of a container as it was noted, if it still lives.
pub(crate) fn noted_process(home: &Path, id: &str) -> Option<u32> {
    let note = read_note(home, id)?;
    let living = process_identity::look(note.pid).ok()??;
    let is_same = clock::boot_id().ok()? == note.boot_id && living.start_time == note.start_time;
    is_same.then_some(note.pid)
}

fn read_note(home: &Path, id: &str) -> Option<Note> {
    let text = fs::read_to_string(note_path(home, id)).ok()?;
    let mut words = text.split(' ');
    let mut word = || words.next();
    Some(Note {
        run: word()?.to_owned(),
        boot_id: word()?.to_owned(),
        pid: word()?.parse().ok()?,
        start_time: word()?.parse().ok()?,
    })
}

/// An id is hexadecimal; whatever is not leads nowhere.
fn note_path(home: &Path, id: &str) -> PathBuf {
    let is_id = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    home.join("live").join(if is_id { id } else { "none" })
}
