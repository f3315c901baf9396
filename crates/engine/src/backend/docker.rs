//! Sandboxes that are containers of a Docker or Podman engine on this machine.
//!
//! Takes a checked [`ContainerSpec`]; gives a [`Pen`]: a running container that is exactly that,
//! with our supervisor as its first process, whose facts hold. There is no other way in: nothing
//! here runs a command through the engine.
//!
//! ```text
//! image ─► meeting place ─► create ─► plan ─► start ─► inspect = request? ─► meet the supervisor
//!                             └───────── any failure: removed ─────────┘
//! ```
//!
//! [`Pen::start`] goes on from there: it proves who is at the other end (by the process number that
//! the engine names), compares facts and seals before the first command. Never decides what a
//! container may be.
//!
//! A container is ours if it bears our mark and our meeting place: see [`mark`]. Whatever else has a
//! name that we want is left alone: see [`Sight`].

mod cgroup;
mod endpoint;
pub(crate) mod engine;
mod failure;
mod find;
mod inspection;
mod kept;
mod mark;
mod meeting;
mod pen;
mod plan;
mod published;
mod request;
mod sources;
mod switches;
mod used;
mod user;

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bollard::models::{ContainerCreateBody, ContainerInspectResponse, ImageInspect};
use clawpen_rules::container::{ContainerSpec, Network};
use clawpen_wire::pen::Lifetime;

pub use self::endpoint::{Endpoint, TlsFiles, locate};
pub use self::failure::{Action, DockerFailure};
pub use self::find::{ImageState, Restarted, Seen, Sight, Survivor, Swept};
pub(crate) use self::find::{about, noted_process};
pub use self::inspection::Difference;
pub use self::pen::{Pen, StartError};
pub use self::published::{Published, Secret};
pub(crate) use self::used::used;

use self::engine::{Engine, Patience};
use self::meeting::{Life, MeetingPlace, Met, Watch};
use self::request::{Around, Labels, OurMounts, Stay};
use self::sources::Sources;
use self::user::UserFiles;
use super::Witness;
use crate::faults;
use crate::registry::{DockerIdentity, Identity};

/// From the end of the engine's start to a supervisor that serves.
const SERVES_WITHIN: Duration = Duration::from_secs(20);
/// Leads from a container to its meeting place.
const RUN_LABEL: &str = "clawpen.run";
/// Names the state directory that a container belongs to.
const STATE_LABEL: &str = "clawpen.state";

/// A Docker engine, and where we keep what its containers need of us.
#[derive(Debug)]
pub struct DockerBackend {
    engine: Arc<Engine>,
    /// As the registry keeps it.
    endpoint: String,
    home: PathBuf,
    /// What our containers are known by.
    mark: String,
    supervisor: &'static [u8],
}

/// A container to make.
#[derive(Debug, Clone, Copy)]
pub struct Order<'a> {
    pub spec: &'a ContainerSpec,
    /// Not always the spec's: a second one of a kind, for one call, has a name of its own.
    pub name: &'a str,
    pub lifetime: Lifetime,
    /// What a container that stays tells about itself.
    pub about: &'a str,
}

/// A running container. One that was just made is removed with the value, unless it is kept.
#[derive(Debug)]
pub struct Container {
    engine: Arc<Engine>,
    id: String,
    place: MeetingPlace,
    first_process: u32,
    user: (u32, u32),
    inspection: ContainerInspectResponse,
    /// What was checked and has to be mounted; nothing once it is proven.
    sources: Sources,
    at_the_end: AtTheEnd,
}

/// What becomes of a container when its value goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AtTheEnd {
    Remove,
    /// It was there before us and is to be there after us, but nobody may meet it as it is.
    Kill,
    Leave,
}

impl DockerBackend {
    /// Connects to an engine. What containers need is kept below `home`, a directory of
    /// ours; `supervisor` is the binary that becomes their first process.
    pub fn connect(
        endpoint: &Endpoint,
        home: &Path,
        supervisor: &'static [u8],
    ) -> Result<Self, DockerFailure> {
        Self::connect_within(endpoint, home, supervisor, Patience::Usual)
    }

    /// The same, with other patience.
    pub(crate) fn connect_within(
        endpoint: &Endpoint,
        home: &Path,
        supervisor: &'static [u8],
        patience: Patience,
    ) -> Result<Self, DockerFailure> {
        let engine = Arc::new(Engine::connect(endpoint, patience)?);
        let recorded = endpoint.record()?;
        let local = |cause| DockerFailure::Local { what: "make", path: home.to_owned(), cause };
        DirBuilder::new().recursive(true).mode(0o700).create(home).map_err(local)?;
        // One spelling: containers are known by the path that they have mounted.
        let home = fs::canonicalize(home).map_err(local)?;
        let mark = mark::of(&home)?;
        Ok(Self { engine, endpoint: recorded, home, mark, supervisor })
    }

    /// Whose work the engine is.
    fn maker(&self) -> engine::Make {
        self.engine.about().make
    }

    /// Makes and starts a container of the spec's own name and waits for its supervisor. On failure
    /// nothing is left.
    pub fn create(
        &self,
        spec: &ContainerSpec,
        lifetime: Lifetime,
    ) -> Result<(Container, UnixStream), DockerFailure> {
        let name = spec.identity().name.as_str();
        self.make(&Order { spec, name, lifetime, about: "" }, &mut |_| Ok(()))
    }

    /// The same under any name; `witness` writes the container down before it is started.
    pub fn make(
        &self,
        order: &Order<'_>,
        witness: Witness<'_>,
    ) -> Result<(Container, UnixStream), DockerFailure> {
        let Order { spec, name, lifetime, about: _ } = *order;
        let image = self.engine.image(spec.image())?;
        check_kind(spec, &image)?;
        self.check_abilities(spec)?;
        let supervisor = self.supervisor_file()?;
        let sources = Sources::open(spec, &supervisor)?;
        // Before there is anything to lose: a registry that is rebuilt asks every engine that ever got something.
        used::note(&self.home, &self.endpoint)?;
        let place = MeetingPlace::make(&self.home.join("run"), &self.owner()?)?;
        let inside = place.inside();
        let ours = OurMounts { supervisor: &supervisor, meeting_place: &inside };
        let stay = match lifetime {
            Lifetime::UntilDisconnect => Stay::Removed,
            Lifetime::Persistent => Stay::Kept,
        };
        let mut asked = request::build(spec, &image, &self.around(spec, ours, stay)?)?;
        let labels = asked.labels.get_or_insert_default();
        labels.insert(RUN_LABEL.to_owned(), place.id().to_owned());
        labels.insert(STATE_LABEL.to_owned(), self.mark.clone());
        let watch = place.watch()?;
        faults::reached("docker.placed");
        let (sent, asked) = switches::spoiled(asked);
        let created = self.engine.create(name, sent);
        let id = created.map_err(|failure| gives(sees(failure, &inside), spec))?;
        // From here on the value removes the container, whatever happens.
        let mut container = Container {
            engine: Arc::clone(&self.engine),
            id,
            place,
            first_process: 0,
            user: (0, 0),
            inspection: ContainerInspectResponse::default(),
            sources,
            at_the_end: AtTheEnd::Remove,
        };
        faults::reached("docker.created");
        match lifetime {
            Lifetime::UntilDisconnect => {}
            Lifetime::Persistent => {
                let identity = Identity::Docker(self.identity(&container.id));
                witness(&identity).map_err(DockerFailure::Witness)?;
            }
        }
        faults::reached("docker.written");
        container.user = container.find_user(spec, &image)?;
        container.place.note_user(container.user)?;
        container.place.lay_out(&plan::bytes(
            spec,
            &image,
            &container.sources,
            (container.user, lifetime),
        )?)?;
        faults::reached("docker.planned");
        let started = container.start(&asked, image.id.as_deref().unwrap_or_default());
        started.map_err(|failure| gives(sees(failure, &inside), spec))?;
        faults::reached("docker.started");
        let stream = container.meet(&watch)?;
        faults::reached("docker.met");
        Ok((container, stream))
    }

    /// What a request depends on besides the spec and its image.
    fn around<'a>(
        &'a self,
        spec: &ContainerSpec,
        ours: OurMounts<'a>,
        stay: Stay,
    ) -> Result<Around<'a>, DockerFailure> {
        let network = self.network(spec)?;
        let engine = self.engine.about();
        let (labels, profiles) = (Labels::of_this_machine(), self.home.join("seccomp"));
        Ok(Around { ours, stay, engine, network, labels, profiles })
    }

    /// What the registry keeps of a container.
    fn identity(&self, id: &str) -> DockerIdentity {
        DockerIdentity {
            container_id: id.to_owned(),
            endpoint: self.endpoint.clone(),
            state_label: self.mark.clone(),
        }
    }

    /// What the engine is told of the network. A name is looked up first: it may lead to the host's
    /// own network, and a joined container may be replaced by another one of its name.
    fn network(&self, spec: &ContainerSpec) -> Result<String, DockerFailure> {
        Ok(match spec.network() {
            Network::None => "none".to_owned(),
            Network::EngineDefault => "default".to_owned(),
            Network::Named(name) if name == "bridge" => name.clone(),
            Network::Named(name) => {
                let found = self.engine.network(name)?;
                if found.driver.as_deref() == Some("host") {
                    return Err(DockerFailure::HostNetwork { name: name.clone() });
                }
                name.clone()
            }
            Network::Joined(name) => match self.engine.inspect(name) {
                Ok(found) => format!("container:{}", found.id.unwrap_or_else(|| name.clone())),
                Err(DockerFailure::Refused { status: 404, .. }) => {
                    return Err(DockerFailure::NoSuchContainer { name: name.clone() });
                }
                Err(failure) => return Err(failure),
            },
        })
    }

    /// An engine without `AppArmor` takes a profile's name and does nothing with it.
    fn check_abilities(&self, spec: &ContainerSpec) -> Result<(), DockerFailure> {
        if spec.apparmor().is_none() {
            return Ok(());
        }
        let options = self.engine.abilities()?.security_options.unwrap_or_default();
        let has_apparmor = options.iter().any(|option| option.starts_with("name=apparmor"));
        if has_apparmor {
            return Ok(());
        }
        Err(DockerFailure::Unenforced { key: "apparmorProfile" })
    }

    /// The supervisor's binary as a file.
    fn supervisor_file(&self) -> Result<PathBuf, DockerFailure> {
        let directory = self.home.join("supervisor");
        let kept = kept::file(&directory, self.supervisor, kept::Kind::Program);
        let what = "write the supervisor to";
        kept.map_err(|cause| DockerFailure::Local { what, path: directory, cause })
    }
}

impl Container {
    /// The engine's name for it, which is never used twice.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Its first process, as this machine numbers it.
    pub const fn first_process(&self) -> u32 {
        self.first_process
    }

    /// What the engine said of it after the start.
    pub const fn inspection(&self) -> &ContainerInspectResponse {
        &self.inspection
    }

    /// One more stream to its supervisor.
    pub fn connect(&self) -> io::Result<UnixStream> {
        self.place.connect()
    }

    /// Leaves the container running.
    pub fn keep(mut self) {
        self.place.keep();
        self.at_the_end = AtTheEnd::Leave;
    }

    /// Kills and removes the container.
    pub fn remove(mut self) -> Result<(), DockerFailure> {
        self.engine.remove(&self.id)?;
        self.at_the_end = AtTheEnd::Leave;
        self.place.forget();
        Ok(())
    }

    /// Who its processes will be, in numbers.
    fn find_user(
        &self,
        spec: &ContainerSpec,
        image: &ImageInspect,
    ) -> Result<(u32, u32), DockerFailure> {
        let name = request::user(spec, image, self.engine.about()).name;
        let text = |path| -> Result<String, DockerFailure> {
            let file = self.engine.file(&self.id, path)?.unwrap_or_default();
            Ok(String::from_utf8_lossy(&file).into_owned())
        };
        let files = if user::is_plain(&name) {
            UserFiles::default()
        } else {
            UserFiles { passwd: text("/etc/passwd")?, group: text("/etc/group")? }
        };
        user::resolve(&name, &files)
            .map_err(|name| DockerFailure::UnknownUser { image: spec.image().to_owned(), name })
    }

    /// Starts it and compares it with the request.
    fn start(&mut self, asked: &ContainerCreateBody, image: &str) -> Result<(), DockerFailure> {
        self.engine.start(&self.id)?;
        self.inspection = self.look()?.ok_or_else(|| self.ended(None))?;
        let differences =
            inspection::differences(asked, image, &self.inspection, self.engine.about().make);
        if !differences.is_empty() {
            return Err(DockerFailure::Differs(differences));
        }
        match first_process(&self.inspection) {
            Some(pid) => {
                self.first_process = pid;
                Ok(())
            }
            None => Err(self.ended(Some(&self.inspection))),
        }
    }

    fn meet(&self, watch: &Watch) -> Result<UnixStream, DockerFailure> {
        let look = || {
            let running = self.look()?.and_then(|found| found.state?.running);
            Ok(if running == Some(true) { Life::Lives } else { Life::Ended })
        };
        match self.place.meet(watch, SERVES_WITHIN, look)? {
            Met::Stream(stream) => Ok(stream),
            Met::Ended => Err(self.ended(self.look()?.as_ref())),
            Met::TooLate => Err(DockerFailure::Silent {
                seconds: SERVES_WITHIN.as_secs(),
                said: self.engine.said(&self.id),
            }),
        }
    }

    /// What the engine says of it now; `None` if it ended and took itself away.
    fn look(&self) -> Result<Option<ContainerInspectResponse>, DockerFailure> {
        match self.engine.inspect(&self.id) {
            Err(DockerFailure::Refused { status: 404, .. }) => Ok(None),
            found => found.map(Some),
        }
    }

    fn ended(&self, inspection: Option<&ContainerInspectResponse>) -> DockerFailure {
        let code = inspection.and_then(|found| found.state.as_ref()?.exit_code);
        let said = self.place.last_words().unwrap_or_else(|| self.engine.said(&self.id));
        DockerFailure::Ended { code, said }
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        // The failure that led here is the one to report. A container that stays keeps its place, by
        // which a sweep knows it for ours.
        let ended = match self.at_the_end {
            AtTheEnd::Remove => self.engine.remove(&self.id),
            AtTheEnd::Kill => self.engine.kill(&self.id),
            AtTheEnd::Leave => Ok(()),
        };
        if ended.is_err() {
            self.place.keep();
        }
    }
}

/// The first process of a container, as this machine numbers it; `None` if it has ended.
fn first_process(inspection: &ContainerInspectResponse) -> Option<u32> {
    let pid = inspection.state.as_ref()?.pid?;
    u32::try_from(pid).ok().filter(|pid| *pid > 0)
}

/// An engine that does not find our own directory is not on this machine, or is not ours to use.
fn sees(failure: DockerFailure, inside: &Path) -> DockerFailure {
    match failure {
        DockerFailure::Refused { message, .. }
            if message.contains(&*inside.to_string_lossy())
                && ["does not exist", "no such file", "permission denied"]
                    .iter()
                    .any(|words| message.to_ascii_lowercase().contains(words)) =>
        {
            DockerFailure::Elsewhere { path: inside.to_owned() }
        }
        other => other,
    }
}

/// An engine without a driver for GPUs says so in words that name no key.
fn gives(failure: DockerFailure, spec: &ContainerSpec) -> DockerFailure {
    match failure {
        DockerFailure::Refused { message, .. }
            if spec.limits().gpus.is_some()
                && ["device driver", "nvidia", "[[gpu"]
                    .iter()
                    .any(|words| message.to_ascii_lowercase().contains(words)) =>
        {
            DockerFailure::NoGpus { said: message }
        }
        other => other,
    }
}

/// This machine's kind, as engines write it.
pub(crate) fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// The supervisor is a program of this machine's kind.
fn check_kind(spec: &ContainerSpec, image: &ImageInspect) -> Result<(), DockerFailure> {
    let ours = architecture();
    let os = image.os.as_deref().unwrap_or("linux");
    let architecture = image.architecture.as_deref().unwrap_or(ours);
    if os == "linux" && architecture == ours {
        return Ok(());
    }
    Err(DockerFailure::ImageKind {
        image: spec.image().to_owned(),
        kind: format!("{os}/{architecture}"),
        ours: format!("linux/{ours}"),
    })
}
