//! Comes back to containers: finds them, connects, starts those that stopped, removes, sweeps.
//!
//! One way leads to a container that runs, and it asks only the kernel: when it was proven and sealed,
//! the number and the start of its first process were noted, and whoever listens on its socket now must
//! be that process. A container that runs without such a note was started by somebody who died before
//! he had proven it, or by somebody else: it counts as unproven, and is started anew before it is used.
//!
//! ```text
//! <home>/live/<container id>    run, boot, number, start: written when sealed, gone before a start
//! ```

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bollard::models::ContainerInspectResponse;
use clawpen_rules::container::ContainerSpec;
use clawpen_wire::pen::Lifetime;

use super::failure::DockerFailure;
use super::meeting::MeetingPlace;
use super::plan;
use super::request::{self, OurMounts, Stay};
use super::sources::Sources;
use super::{AtTheEnd, Container, DockerBackend, RUN_LABEL, STATE_LABEL, first_process};
use crate::clock;
use crate::faults;
use crate::process_identity;
use crate::registry::DockerIdentity;

/// How often a start is tried whose way is blocked by an earlier one, and how long to wait in between: the engine tells
/// nobody when it has cleaned up.
const START_TRIES: u32 = 10;
const START_STEP: Duration = Duration::from_millis(200);

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
    /// What that name led to when the container was made.
    pub image_id: String,
    pub labels: HashMap<String, String>,
    /// Its first process, while it runs.
    pub first_process: Option<u32>,
}

/// How a container stands to what its image's name leads to now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImageState {
    Current,
    /// The name leads to another image than the one that the container was made from.
    Rebuilt,
    /// The name leads nowhere any more: the container runs on, and cannot be made anew.
    Deleted,
}

impl ImageState {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Current => "current",
            Self::Rebuilt => "rebuilt",
            Self::Deleted => "deleted",
        }
    }
}

/// What a sweep found and took away.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Swept {
    pub containers: usize,
    pub places: usize,
    /// Containers that were finished and that no row names: somebody has lost the registry.
    pub survivors: Vec<Survivor>,
    /// Containers that bear our mark and that nothing here proves to be ours. They were left alone.
    pub unclear: Vec<String>,
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
    /// It was made by another release of ours, whose supervisor would start, or from an image that is
    /// gone.
    HasToBeReplaced,
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
            image_id: found.image.clone().unwrap_or_default(),
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
        Ok(if self.is_ours(&seen.labels, found.mounts.as_deref().unwrap_or_default()) {
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
        let image = match self.engine.image(found.image.as_deref().unwrap_or(spec.image())) {
            // Nobody can tell any more what it is. Another one can be made if the name leads somewhere;
            // if not, that is the failure, and nothing is removed.
            Err(DockerFailure::ImageMissing { .. }) => {
                self.engine.image(spec.image())?;
                return Ok(Restarted::HasToBeReplaced);
            }
            image => image?,
        };
        let supervisor = self.supervisor_file()?;
        let labels = found.config.as_ref().and_then(|config| config.labels.clone());
        let Some(mut container) = self.container(found) else {
            return Ok(Restarted::HasToBeReplaced);
        };
        let is_current = container.inspection.mounts.iter().flatten().any(|mount| {
            mount.destination.as_deref() == Some(request::SUPERVISOR)
                && mount.source.as_deref() == supervisor.to_str()
        });
        if !is_current {
            return Ok(Restarted::HasToBeReplaced);
        }
        container.sources = Sources::open(spec, &supervisor)?;
        let inside = container.place.inside();
        let ours = OurMounts { supervisor: &supervisor, meeting_place: &inside };
        let around = self.around(spec, ours, Stay::Kept)?;
        let mut asked = request::build(spec, &image, &around)?;
        // They tell when it was made; which one it is was checked by them already.
        asked.labels = labels;
        request::keep_limits(&mut asked, spec, &container.inspection);
        // Never asked of its files again: a command may have written the list of users.
        let Some(user) = container.place.user() else { return Ok(Restarted::HasToBeReplaced) };
        container.user = user;
        self.bring_to_rest(&container)?;
        container.place.renew()?;
        let watch = container.place.watch()?;
        let bytes =
            plan::bytes(spec, &image, &container.sources, (container.user, Lifetime::Persistent))?;
        container.place.lay_out(&bytes)?;
        faults::reached("docker.planned");
        // A failure must not leave it running: the next call would find it and take it for proven.
        container.at_the_end = AtTheEnd::Kill;
        let image = image.id.as_deref().unwrap_or_default();
        let mut tries = 0;
        while let Err(failure) = container.start(&asked, image) {
            // An engine that was killed while it started this one may find its own beginnings in the way. They go,
            // or the container does: it can never be started again.
            if !failure.is_begun_already() {
                return Err(failure);
            }
            tries += 1;
            if tries == START_TRIES {
                return Ok(Restarted::HasToBeReplaced);
            }
            drop(self.engine.kill(&container.id));
            std::thread::sleep(START_STEP);
        }
        faults::reached("docker.started");
        let stream = container.meet(&watch)?;
        faults::reached("docker.met");
        Ok(Restarted::Runs(Box::new(container), stream))
    }

    /// Whatever runs of a container goes, and the note of what was proven of it with it: from here to
    /// the seal a kill leaves a container that nobody takes for a proven one.
    fn bring_to_rest(&self, container: &Container) -> Result<(), DockerFailure> {
        let path = note_path(&self.home, &container.id);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(DockerFailure::Local { what: "remove", path, cause: error });
            }
            Ok(()) | Err(_) => {}
        }
        if container.first_process == 0 {
            return Ok(());
        }
        // It may end by itself meanwhile, so what counts is what is there afterwards.
        let killed = self.engine.kill(&container.id);
        match container.look()? {
            Some(found) if first_process(&found).is_some() => {
                Err(killed.err().unwrap_or_else(|| DockerFailure::Unstoppable {
                    name: found.name.unwrap_or_default(),
                }))
            }
            Some(_) => Ok(()),
            None => Err(container.ended(None)),
        }
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

    /// Removes a container that no row names. That it bears our mark is not enough: its place must be
    /// here and say the same.
    pub fn remove_leftover(&self, seen: &Seen) -> Result<(), DockerFailure> {
        match self.place_of(seen) {
            Some(place) if self.owns(&place)? => self.remove(&seen.id),
            Some(_) | None => Err(DockerFailure::Unclear { name: seen.name.clone() }),
        }
    }

    /// Whether the place that a container is met at is still there.
    pub fn has_place(&self, seen: &Seen) -> bool {
        self.place_of(seen).is_some()
    }

    pub(super) fn place_of(&self, seen: &Seen) -> Option<MeetingPlace> {
        MeetingPlace::open(&self.home.join("run"), seen.labels.get(RUN_LABEL)?)
    }

    /// Removes a container that the reference made, because its owner said so.
    pub fn adopt_and_remove(&self, name: &str) -> Result<(), DockerFailure> {
        match self.look(name)? {
            Sight::Absent => Ok(()),
            Sight::OfReference(seen) | Sight::Ours(seen) => self.engine.remove(&seen.id),
            Sight::Stranger => Err(DockerFailure::NameTaken { name: name.to_owned() }),
        }
    }

    /// How a container that was made from `image_id` stands to the image of that name.
    pub fn image_state(&self, image: &str, image_id: &str) -> Result<ImageState, DockerFailure> {
        let plain = |id: &str| id.trim_start_matches("sha256:").to_owned();
        match self.engine.image(image) {
            Ok(found) if plain(found.id.as_deref().unwrap_or_default()) == plain(image_id) => {
                Ok(ImageState::Current)
            }
            Ok(_) => Ok(ImageState::Rebuilt),
            Err(DockerFailure::ImageMissing { .. }) => Ok(ImageState::Deleted),
            Err(failure) => Err(failure),
        }
    }

    /// Every container of this state directory.
    pub fn ours(&self) -> Result<Vec<Seen>, DockerFailure> {
        let mut ours = Vec::new();
        for one in self.engine.labelled(&format!("{STATE_LABEL}={}", self.mark))? {
            let id = one.id.unwrap_or_default();
            let labels = one.labels.unwrap_or_default();
            let shows_mounts = one.mounts.iter().flatten().next().is_some();
            let is_ours = if shows_mounts {
                self.is_ours(&labels, one.mounts.as_deref().unwrap_or_default())
            } else {
                // Not every engine lists them.
                matches!(self.look(&id)?, Sight::Ours(_))
            };
            if !is_ours {
                continue;
            }
            let name = one.names.iter().flatten().next();
            ours.push(Seen {
                id,
                name: name.map_or_else(String::new, |name| name.trim_start_matches('/').to_owned()),
                running: one.state.is_some_and(|state| state.to_string() == "running"),
                image: one.image.unwrap_or_default(),
                image_id: one.image_id.unwrap_or_default(),
                labels,
                first_process: None,
            });
        }
        Ok(ours)
    }

    /// Removes containers of ours that nobody knows of and nobody is at work on, and meeting places of
    /// this engine that no container has. `is_known` says whether a row names an id.
    pub fn sweep(&self, mut is_known: impl FnMut(&str) -> bool) -> Result<Swept, DockerFailure> {
        let mut swept = Swept::default();
        // Looked at before the containers: a place that is made after this is nobody's leftover.
        let places = MeetingPlace::all(&self.home.join("run"));
        let mut used = HashSet::new();
        let mut ids = HashSet::new();
        for seen in self.ours()? {
            let place = self.place_of(&seen);
            let is_held = place.as_ref().is_some_and(MeetingPlace::is_held);
            let is_known = is_held || is_known(&seen.id);
            let about = place.as_ref().and_then(MeetingPlace::about);
            let is_proven = match &place {
                Some(place) if !is_known => self.owns(place)?,
                Some(_) | None => is_known,
            };
            if !is_proven {
                swept.unclear.push(seen.name);
                continue;
            }
            if is_known || about.is_some() {
                used.extend(place.map(|place| place.id().to_owned()));
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
            if used.contains(place.id()) || place.is_held() {
                continue;
            }
            // The other engines' are theirs to sweep; so is one that does not say whose it is.
            if place.is_blank() || self.owns(&place)? {
                place.forget();
                swept.places += 1;
            }
        }
        self.sweep_notes(&ids, is_known)?;
        Ok(swept)
    }

    /// Removes the notes that lead nowhere, or to a place of this engine whose container is gone.
    fn sweep_notes(
        &self,
        ids: &HashSet<String>,
        mut is_known: impl FnMut(&str) -> bool,
    ) -> Result<(), DockerFailure> {
        let run = self.home.join("run");
        for entry in fs::read_dir(self.home.join("live")).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let Some(id) = name.to_str().filter(|id| !ids.contains(*id)) else { continue };
            let note = read_note(&self.home, id);
            let place = note.and_then(|note| MeetingPlace::open(&run, &note.run));
            let leads_nowhere = match &place {
                Some(place) => self.owns(place)? && !is_known(id),
                None => true,
            };
            if leads_nowhere {
                drop(fs::remove_file(entry.path()));
            }
        }
        Ok(())
    }

    /// The finished containers of this state directory, whether they run or stand. Changes nothing.
    pub fn survivors(&self) -> Result<Vec<Survivor>, DockerFailure> {
        let run = self.home.join("run");
        let survivor = |seen: Seen| {
            let place = MeetingPlace::open(&run, seen.labels.get(RUN_LABEL)?)?;
            let is_ours = self.owns(&place).unwrap_or(false);
            let about = place.about().filter(|_| is_ours && !place.is_held())?;
            Some(Survivor { identity: self.identity(&seen.id), about })
        };
        Ok(self.ours()?.into_iter().filter_map(survivor).collect())
    }

    /// Who the processes of a running container are, as was noted when it was made.
    pub(super) fn user_of(&self, id: &str) -> Result<(u32, u32), DockerFailure> {
        let gone = || DockerFailure::Ended { code: None, said: String::new() };
        let container = self.open(id)?.ok_or_else(gone)?;
        container.place.user().ok_or_else(gone)
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
        if !self.is_ours(labels, inspection.mounts.as_deref().unwrap_or_default()) {
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
            sources: Sources::default(),
            at_the_end: AtTheEnd::Leave,
        })
    }

    /// Removes what is kept for a container that is gone, and was ours.
    fn forget(&self, seen: &Seen) {
        if let Some(mut place) = self.place_of(seen)
            && self.owns(&place).unwrap_or(false)
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
    // Alive or not: without its socket nobody reaches it.
    MeetingPlace::open(&home.join("run"), &note.run).filter(MeetingPlace::has_socket)?;
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
