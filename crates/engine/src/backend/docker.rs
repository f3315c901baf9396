//! Sandboxes that are containers of a Docker engine on this machine.
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
//! A container is ours if its label names this state directory. Whatever else has a name that we
//! want is left alone: see [`Sight`].

mod cgroup;
mod engine;
mod failure;
mod find;
mod inspection;
mod meeting;
mod pen;
mod plan;
mod request;
mod switches;
mod user;

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bollard::models::{ContainerCreateBody, ContainerInspectResponse, ImageInspect};
use clawpen_rules::container::ContainerSpec;
use clawpen_wire::pen::Lifetime;
use sha2::{Digest as _, Sha256};

pub use self::engine::locate;
pub use self::failure::{Action, DockerFailure};
pub use self::find::{Restarted, Seen, Sight, Survivor, Swept};
pub(crate) use self::find::{about, noted_process};
pub use self::inspection::Difference;
pub use self::pen::{Pen, StartError};

use self::engine::Engine;
use self::meeting::{Life, MeetingPlace, Met, Watch};
use self::request::{OurMounts, Stay};
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
    at_the_end: AtTheEnd,
}

/// What becomes of a container when its value goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AtTheEnd {
    Remove,
    Leave,
}

impl DockerBackend {
    /// Connects to the engine at `socket`. What containers need is kept below `home`, a directory of
    /// ours; `supervisor` is the binary that becomes their first process.
    pub fn connect(
        socket: &Path,
        home: &Path,
        supervisor: &'static [u8],
    ) -> Result<Self, DockerFailure> {
        let engine = Arc::new(Engine::connect(socket)?);
        let local = |cause| DockerFailure::Local { what: "make", path: home.to_owned(), cause };
        DirBuilder::new().recursive(true).mode(0o700).create(home).map_err(local)?;
        let mark = mark(&fs::canonicalize(home).map_err(local)?);
        let endpoint = socket.to_string_lossy().into_owned();
        Ok(Self { engine, endpoint, home: home.to_owned(), mark, supervisor })
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
        let place = MeetingPlace::make(&self.home.join("run"))?;
        let ours = OurMounts { supervisor: &supervisor, meeting_place: &place.inside() };
        let stay = match lifetime {
            Lifetime::UntilDisconnect => Stay::Removed,
            Lifetime::Persistent => Stay::Kept,
        };
        let mut asked = request::build(spec, &image, ours, stay)?;
        let labels = asked.labels.get_or_insert_default();
        labels.insert(RUN_LABEL.to_owned(), place.id().to_owned());
        labels.insert(STATE_LABEL.to_owned(), self.mark.clone());
        let watch = place.watch()?;
        faults::reached("docker.placed");
        let (sent, asked) = switches::spoiled(asked);
        let id = self.engine.create(name, sent)?;
        // From here on the value removes the container, whatever happens.
        let mut container = Container {
            engine: Arc::clone(&self.engine),
            id,
            place,
            first_process: 0,
            user: (0, 0),
            inspection: ContainerInspectResponse::default(),
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
        container.place.lay_out(&plan::bytes(spec, &image, container.user, lifetime)?)?;
        faults::reached("docker.planned");
        container.start(&asked, image.id.as_deref().unwrap_or_default())?;
        faults::reached("docker.started");
        let stream = container.meet(&watch)?;
        faults::reached("docker.met");
        Ok((container, stream))
    }

    /// What the registry keeps of a container.
    fn identity(&self, id: &str) -> DockerIdentity {
        DockerIdentity {
            container_id: id.to_owned(),
            endpoint: self.endpoint.clone(),
            state_label: self.mark.clone(),
        }
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

    /// The supervisor's binary as a file, named after its contents: a new release never changes a
    /// file that a running container has mounted.
    fn supervisor_file(&self) -> Result<PathBuf, DockerFailure> {
        let directory = self.home.join("supervisor");
        let hash = Sha256::digest(self.supervisor);
        // Half of the hash is enough for a name; the contents are compared below.
        let half = hash.iter().take(16).fold(0_u128, |sum, byte| (sum << 8) | u128::from(*byte));
        let name = format!("{half:032x}");
        let path = directory.join(name);
        let fail = |cause: io::Error| DockerFailure::Local {
            what: "write the supervisor to",
            path: path.clone(),
            cause,
        };
        let is_there = || {
            let mode = fs::symlink_metadata(&path).ok().filter(fs::Metadata::is_file)?;
            let runs = mode.permissions().mode() & 0o777 == 0o755;
            let same = fs::read(&path).is_ok_and(|bytes| bytes == self.supervisor);
            (runs && same).then_some(())
        };
        if is_there().is_some() {
            return Ok(path);
        }
        DirBuilder::new().recursive(true).mode(0o700).create(&directory).map_err(fail)?;
        // Written beside its place and renamed, so that nobody ever mounts half of it.
        let half = directory.join(format!("new-{}", std::process::id()));
        fs::write(&half, self.supervisor).map_err(fail)?;
        fs::set_permissions(&half, Permissions::from_mode(0o755)).map_err(fail)?;
        fs::rename(&half, &path).map_err(fail)?;
        Ok(path)
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
        let name = request::user(spec, image);
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
        let differences = inspection::differences(asked, image, &self.inspection);
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
        if self.at_the_end == AtTheEnd::Remove {
            // The failure that led here is the one to report; a container that stays is listed
            // under its label.
            let _unremoved = self.engine.remove(&self.id);
        }
    }
}

/// A state directory in 16 letters.
fn mark(home: &Path) -> String {
    let hash = Sha256::digest(home.as_os_str().as_bytes());
    let half = hash.iter().take(8).fold(0_u64, |sum, byte| (sum << 8) | u64::from(*byte));
    format!("{half:016x}")
}

/// The first process of a container, as this machine numbers it; `None` if it has ended.
fn first_process(inspection: &ContainerInspectResponse) -> Option<u32> {
    let pid = inspection.state.as_ref()?.pid?;
    u32::try_from(pid).ok().filter(|pid| *pid > 0)
}

/// The supervisor is a program of this machine's kind.
fn check_kind(spec: &ContainerSpec, image: &ImageInspect) -> Result<(), DockerFailure> {
    let ours = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
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
