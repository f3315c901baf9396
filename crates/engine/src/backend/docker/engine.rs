//! One thread's worth of talking to an engine: Docker 20.10 or newer, or Podman by its Docker socket.
//!
//! Calls are synchronous: each runs on a runtime of the calling thread and has a deadline ([`Patience`])
//! that holds to the last byte of the answer. An engine that missed one is not asked again for a while.
//! What kind of engine it is ([`About`]) is asked once, at the start; one that we could not use anyway
//! is refused there, with what to do about it.

mod images;
mod transport;

pub use self::images::Gone;
pub(crate) use self::images::{Build, Import};

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use bollard::Docker;
use bollard::errors::Error;
use bollard::models::{
    ContainerCreateBody, ContainerInspectResponse, ContainerSummary, ImageInspect,
    NetworkCreateRequest, NetworkInspect, SystemInfo, SystemVersion,
};
use bollard::query_parameters::{
    CreateContainerOptionsBuilder, DownloadFromContainerOptionsBuilder, InspectContainerOptions,
    InspectNetworkOptions, KillContainerOptions, ListContainersOptionsBuilder, LogsOptionsBuilder,
    RemoveContainerOptionsBuilder, StartContainerOptions, WaitContainerOptionsBuilder,
};
use futures_util::{Stream, StreamExt as _};
use tokio::runtime::Runtime;

use self::transport::{Stranger, Way};
use super::endpoint::{self, Endpoint};
use super::failure::{Action, DockerFailure};
use super::user;
use crate::images::how_to_make;

/// For every call; the slowest one (start) takes a fifth of a second, or some seconds on a busy disk.
const DEADLINE: Duration = Duration::from_secs(60);
/// For the first word of an engine.
const GREETING: Duration = Duration::from_secs(10);
/// How long an engine that missed its deadline is left alone: every further question of the same command
/// would wait as long.
pub(crate) const LEFT_ALONE: Duration = Duration::from_secs(10);
/// As much as an error message can use.
const LOG_BYTES: usize = 2048;
/// A list of users longer than this is none.
const ARCHIVE_BYTES: usize = 4 * 1024 * 1024;
/// The API of Docker 20.10.
const OLDEST_API: (u32, u32) = (1, 41);
/// How often an engine is asked to remove a container before its error is believed.
const REMOVE_TRIES: u32 = 4;
/// How long an engine may take to clear up after a container, and how often it is asked meanwhile.
const SETTLED_WITHIN: Duration = Duration::from_secs(10);
const ASKED_AGAIN: Duration = Duration::from_millis(10);

/// An engine that has answered.
#[derive(Debug)]
pub(crate) struct Engine {
    api: Docker,
    runtime: Runtime,
    about: About,
    patience: Patience,
    /// When it last missed a deadline.
    frozen: Mutex<Option<Instant>>,
    /// See [`Engine::key`].
    key: OnceLock<String>,
}

/// How long an engine is waited for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Patience {
    #[default]
    Usual,
    /// For what nobody has asked for: somebody waits for something else.
    Brief,
}

impl Patience {
    const fn greeting(self) -> Duration {
        match self {
            Self::Usual => GREETING,
            Self::Brief => Duration::from_secs(1),
        }
    }

    /// For an answer that the engine has at hand.
    const fn answer(self) -> Duration {
        match self {
            Self::Usual => DEADLINE,
            Self::Brief => Duration::from_secs(1),
        }
    }

    /// For something that it has to do.
    const fn work(self) -> Duration {
        match self {
            Self::Usual => DEADLINE,
            Self::Brief => Duration::from_secs(5),
        }
    }
}

/// What is different from one engine to the next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct About {
    pub(crate) make: Make,
    pub(crate) version: String,
    pub(crate) owner: Owner,
}

/// Whose work it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Make {
    Docker,
    Podman,
}

impl Make {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Podman => "podman",
        }
    }
}

/// Who it runs as. In an engine without root, root of a container is that user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    Root,
    User,
}

impl Engine {
    /// Connects, agrees on a version of the API and finds out what it is.
    pub(crate) fn connect(endpoint: &Endpoint, patience: Patience) -> Result<Self, DockerFailure> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(DockerFailure::Runtime)?;
        let way = Way::to(endpoint)?;
        reach(&runtime, &way, endpoint, patience)?;
        let greet = |cause| failure(Action::Connect, cause);
        let docker = way.client().map_err(greet)?;
        let greeting = patience.greeting();
        let version = within(&runtime, greeting, docker.version()).map_err(greet)?;
        check_version(&version, endpoint)?;
        let api = within(&runtime, greeting, docker.negotiate_version()).map_err(greet)?;
        let about = About {
            make: make(&version),
            version: version.version.unwrap_or_default(),
            owner: Owner::Root,
        };
        let (frozen, key) = (Mutex::new(None), OnceLock::new());
        let mut engine = Self { api, runtime, about, patience, frozen, key };
        let is_rootless = match (is_somebodys(endpoint), engine.about.make, endpoint) {
            (false, ..) => false,
            // Podman does not say it; whose socket it is does.
            (true, Make::Podman, Endpoint::Unix(_)) => true,
            (true, ..) => engine.is_rootless()?,
        };
        if is_rootless {
            engine.about.owner = Owner::User;
        }
        Ok(engine)
    }

    /// Which engine it is, however it was reached. One that has no name for itself is the one that
    /// stands at `endpoint`; Podman makes a new name up each time.
    pub(super) fn key(&self, endpoint: &str) -> Result<String, DockerFailure> {
        if let Some(key) = self.key.get() {
            return Ok(key.clone());
        }
        let named = match self.about.make {
            Make::Docker => self.abilities()?.id.filter(|id| !id.is_empty()),
            Make::Podman => None,
        };
        let plain = |text: &str| text.replace(char::is_control, " ");
        let key = named.map_or_else(
            || format!("at {}", plain(endpoint)),
            |id| format!("docker {}", plain(&id)),
        );
        Ok(self.key.get_or_init(|| key).clone())
    }

    pub(crate) const fn about(&self) -> &About {
        &self.about
    }

    fn is_rootless(&self) -> Result<bool, DockerFailure> {
        let options = self.abilities()?.security_options.unwrap_or_default();
        Ok(options.iter().any(|option| option.starts_with("name=rootless")))
    }

    /// A network that containers can be put on.
    pub(super) fn network(&self, name: &str) -> Result<NetworkInspect, DockerFailure> {
        let options = None::<InspectNetworkOptions>;
        match self.answer(self.api.inspect_network(name, options)) {
            Err(Error::DockerResponseServerError { status_code: 404, .. }) => {
                Err(DockerFailure::NoNetwork { name: name.to_owned() })
            }
            found => found.map_err(|cause| failure(Action::Inspect, cause)),
        }
    }

    /// Makes a bridge whose containers do not reach each other. One that somebody made meanwhile is as good.
    pub(super) fn make_network(&self, name: &str) -> Result<(), DockerFailure> {
        let apart = ("com.docker.network.bridge.enable_icc", "false");
        let request = NetworkCreateRequest {
            name: name.to_owned(),
            driver: Some("bridge".to_owned()),
            options: Some([apart].map(|(name, value)| (name.to_owned(), value.to_owned())).into()),
            ..NetworkCreateRequest::default()
        };
        match self.work(self.api.create_network(request)) {
            Ok(_) | Err(Error::DockerResponseServerError { status_code: 409, .. }) => Ok(()),
            Err(cause) => Err(failure(Action::MakeNetwork, cause)),
        }
    }

    pub(crate) fn image(&self, name: &str) -> Result<ImageInspect, DockerFailure> {
        match self.answer(self.api.inspect_image(name)) {
            Err(Error::DockerResponseServerError { status_code: 404, .. }) => {
                Err(DockerFailure::ImageMissing {
                    image: name.to_owned(),
                    build: how_to_make(name),
                })
            }
            found => found.map_err(|cause| failure(Action::InspectImage, cause)),
        }
    }

    /// What the engine can do.
    pub(super) fn abilities(&self) -> Result<SystemInfo, DockerFailure> {
        self.answer(self.api.info()).map_err(|cause| failure(Action::Connect, cause))
    }

    /// Creates a container; gives its id.
    pub(super) fn create(
        &self,
        name: &str,
        body: ContainerCreateBody,
    ) -> Result<String, DockerFailure> {
        let options = CreateContainerOptionsBuilder::new().name(name).build();
        match self.work(self.api.create_container(Some(options), body)) {
            Ok(created) => Ok(created.id),
            Err(Error::DockerResponseServerError { status_code: 409, .. }) => {
                Err(DockerFailure::NameTaken { name: name.to_owned() })
            }
            Err(cause) => Err(failure(Action::Create, cause)),
        }
    }

    pub(super) fn start(&self, id: &str) -> Result<(), DockerFailure> {
        self.run(Action::Start, self.api.start_container(id, None::<StartContainerOptions>))
    }

    pub(super) fn inspect(&self, id: &str) -> Result<ContainerInspectResponse, DockerFailure> {
        let ask = || self.api.inspect_container(id, None::<InspectContainerOptions>);
        let found = self.settled(ask);
        found.map_err(|cause| failure(Action::Inspect, cause))
    }

    /// Every container with a label, running or not.
    pub(super) fn labelled(&self, label: &str) -> Result<Vec<ContainerSummary>, DockerFailure> {
        let filters = HashMap::from([("label", vec![label])]);
        let options = || ListContainersOptionsBuilder::new().all(true).filters(&filters).build();
        let found = self.settled(|| self.api.list_containers(Some(options())));
        found.map_err(|cause| failure(Action::List, cause))
    }

    /// Kills a container, which stays.
    pub(super) fn kill(&self, id: &str) -> Result<(), DockerFailure> {
        self.run(Action::Stop, self.api.kill_container(id, None::<KillContainerOptions>))
    }

    /// Kills and removes a container and its own volumes. One that is gone already is no failure.
    pub(super) fn remove(&self, id: &str) -> Result<(), DockerFailure> {
        let mut tries = 0;
        loop {
            tries += 1;
            let options = RemoveContainerOptionsBuilder::new().force(true).v(true).build();
            match self.work(self.api.remove_container(id, Some(options))) {
                Ok(()) | Err(Error::DockerResponseServerError { status_code: 404, .. }) => {
                    return Ok(());
                }
                // Someone else's removal is under way, such as the container's own.
                Err(Error::DockerResponseServerError { status_code: 409, .. }) => {
                    return self.wait_until_gone(id);
                }
                // Podman cannot kill a container that is ending by itself; once it has ended, it goes.
                Err(Error::DockerResponseServerError { status_code: 500, .. })
                    if tries < REMOVE_TRIES => {}
                Err(cause) => return Err(failure(Action::Remove, cause)),
            }
        }
    }

    /// Waits for a removal that has begun: whoever asked for it may use the name again after this.
    fn wait_until_gone(&self, id: &str) -> Result<(), DockerFailure> {
        let options = WaitContainerOptionsBuilder::new().condition("removed").build();
        let mut ends = self.api.wait_container(id, Some(options));
        let gone = async {
            match ends.next().await {
                // Its exit code, whatever it is, or no such container any more.
                None
                | Some(
                    Ok(_)
                    | Err(
                        Error::DockerContainerWaitError { .. }
                        | Error::DockerResponseServerError { status_code: 404, .. },
                    ),
                ) => Ok(()),
                Some(Err(cause)) => Err(cause),
            }
        };
        self.run(Action::Remove, gone)
    }

    /// A file of a container; `None` if there is no plain file of that name, or a huge one.
    pub(super) fn file(&self, id: &str, path: &str) -> Result<Option<Vec<u8>>, DockerFailure> {
        let options = DownloadFromContainerOptionsBuilder::new().path(path).build();
        let mut stream = self.api.download_from_container(id, Some(options));
        let mut archive = Vec::new();
        let collect = async {
            while let Some(part) = stream.next().await {
                archive.extend_from_slice(&part?);
                if archive.len() > ARCHIVE_BYTES {
                    break;
                }
            }
            Ok(())
        };
        match self.work(collect) {
            Err(Error::DockerResponseServerError { status_code: 404, .. }) => Ok(None),
            Err(cause) => Err(failure(Action::ReadFile, cause)),
            Ok(()) => Ok(user::first_file(&archive).map(<[u8]>::to_vec)),
        }
    }

    /// The last words of a container; empty if there are none.
    pub(super) fn said(&self, id: &str) -> String {
        let options = LogsOptionsBuilder::new().stdout(true).stderr(true).tail("20").build();
        let mut stream = self.api.logs(id, Some(options));
        let mut text = String::new();
        let collect = async {
            while let Some(Ok(part)) = stream.next().await {
                text.push_str(&part.to_string());
                if text.len() > LOG_BYTES {
                    break;
                }
            }
            Ok(())
        };
        // What there is of them will do.
        let _all = self.answer(collect);
        text
    }

    /// Has the engine do something.
    fn run<T>(
        &self,
        action: Action,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, DockerFailure> {
        self.work(call).map_err(|cause| failure(action, cause))
    }

    /// Asks how containers stand. Between the end of a container and its clearing up, Podman calls it
    /// `stopped`, a word that the API does not have; that is over in a moment.
    fn settled<T, F>(&self, ask: impl Fn() -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let until = Instant::now() + SETTLED_WITHIN;
        loop {
            match self.answer(ask()) {
                Err(Error::JsonDataError { message, .. })
                    if message.contains("`stopped`") && Instant::now() < until =>
                {
                    std::thread::sleep(ASKED_AGAIN);
                }
                answer => return answer,
            }
        }
    }

    /// Asks for something that the engine has at hand.
    fn answer<T>(&self, call: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        self.wait(self.patience.answer(), call)
    }

    fn work<T>(&self, call: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        self.wait(self.patience.work(), call)
    }

    /// Waits for all of an answer. The library's own deadline ends with the first line of it.
    fn wait<T>(
        &self,
        limit: Duration,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let frozen = || self.frozen.lock().unwrap_or_else(PoisonError::into_inner);
        if frozen().is_some_and(|since| since.elapsed() < LEFT_ALONE) {
            return Err(Error::RequestTimeoutError);
        }
        let answer = within(&self.runtime, limit, call);
        if matches!(answer, Err(Error::RequestTimeoutError)) {
            *frozen() = Some(Instant::now());
        }
        answer
    }
}

fn within<T>(
    runtime: &Runtime,
    limit: Duration,
    call: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let bounded = async { tokio::time::timeout(limit, call).await };
    runtime.block_on(bounded).unwrap_or(Err(Error::RequestTimeoutError))
}

/// The next piece of a stream that may take as long as it likes, as long as there is one now and then.
async fn next_within<T>(
    stream: &mut (impl Stream<Item = Result<T, Error>> + Unpin),
    limit: Duration,
) -> Result<Option<T>, Error> {
    match tokio::time::timeout(limit, stream.next()).await {
        Ok(piece) => piece.transpose(),
        Err(_elapsed) => Err(Error::RequestTimeoutError),
    }
}

/// Tells the ways apart in which an engine is not there, or is somebody else's; the client library does
/// not.
fn reach(
    runtime: &Runtime,
    way: &Way,
    endpoint: &Endpoint,
    patience: Patience,
) -> Result<(), DockerFailure> {
    let open = async { tokio::time::timeout(patience.greeting(), way.open()).await };
    let Err(cause) = runtime.block_on(open).unwrap_or(Err(io::ErrorKind::TimedOut.into())) else {
        return Ok(());
    };
    let engine = endpoint.text();
    if let Some(Stranger { uid }) = cause.get_ref().and_then(|cause| cause.downcast_ref()) {
        return Err(DockerFailure::OfAnotherUser { engine, uid: *uid });
    }
    Err(match cause.kind() {
        io::ErrorKind::NotFound => {
            let others = endpoint::others(|name| std::env::var(name).ok());
            DockerFailure::NoEngine { engine, others }
        }
        io::ErrorKind::PermissionDenied => DockerFailure::NoPermission { engine },
        io::ErrorKind::ConnectionRefused => DockerFailure::EngineDown { engine },
        // Its queue is full, or it does not finish its greeting.
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            DockerFailure::Frozen { action: Action::Connect }
        }
        _ => DockerFailure::Local { what: "connect to", path: engine.into(), cause },
    })
}

/// Says whether somebody but root may have started it. Asking the engine costs more.
fn is_somebodys(endpoint: &Endpoint) -> bool {
    let Some(socket) = endpoint.socket() else { return true };
    std::fs::metadata(socket).is_ok_and(|found| found.uid() != 0)
}

fn make(version: &SystemVersion) -> Make {
    let mut parts = version.components.iter().flatten();
    if parts.any(|part| part.name.to_ascii_lowercase().contains("podman")) {
        return Make::Podman;
    }
    Make::Docker
}

/// The supervisor is a program of this machine, and speaks to nothing older.
fn check_version(version: &SystemVersion, endpoint: &Endpoint) -> Result<(), DockerFailure> {
    let api = version.api_version.as_deref().unwrap_or_default();
    let number = |text: &str| text.parse::<u32>().ok();
    let api_number = api.split_once('.').and_then(|(a, b)| Some((number(a)?, number(b)?)));
    if api_number.is_some_and(|found| found < OLDEST_API) {
        let version = version.version.clone().unwrap_or_default();
        return Err(DockerFailure::TooOld { engine: endpoint.text(), version });
    }
    let os = version.os.as_deref().unwrap_or("linux");
    let architecture = version.arch.as_deref().unwrap_or(super::architecture());
    if os == "linux" && architecture == super::architecture() {
        return Ok(());
    }
    Err(DockerFailure::EngineKind {
        engine: endpoint.text(),
        kind: format!("{os}/{architecture}"),
        ours: format!("linux/{}", super::architecture()),
    })
}

fn failure(action: Action, cause: Error) -> DockerFailure {
    match cause {
        Error::DockerResponseServerError { status_code, message } => {
            DockerFailure::Refused { action, status: status_code, message }
        }
        Error::RequestTimeoutError => DockerFailure::Frozen { action },
        cause => DockerFailure::Talk { action, cause: Box::new(cause) },
    }
}

#[cfg(test)]
mod tests;
