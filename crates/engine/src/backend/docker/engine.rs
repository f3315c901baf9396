//! One thread's worth of talking to an engine: Docker 20.10 or newer, or Podman by its Docker socket.
//!
//! Calls are synchronous: each runs on a runtime of the calling thread and has a deadline. What kind
//! of engine it is ([`About`]) is asked once, at the start; an engine that we could not use anyway is
//! refused there, with what to do about it.

mod images;

pub use self::images::Gone;
pub(crate) use self::images::{Build, Import};

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::net::TcpStream;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use bollard::errors::Error;
use bollard::models::{
    ContainerCreateBody, ContainerInspectResponse, ContainerSummary, ImageInspect, NetworkInspect,
    SystemInfo, SystemVersion,
};
use bollard::query_parameters::{
    CreateContainerOptionsBuilder, DownloadFromContainerOptionsBuilder, InspectContainerOptions,
    InspectNetworkOptions, KillContainerOptions, ListContainersOptionsBuilder, LogsOptionsBuilder,
    RemoveContainerOptionsBuilder, StartContainerOptions, WaitContainerOptionsBuilder,
};
use bollard::{API_DEFAULT_VERSION, Docker};
use futures_util::StreamExt as _;

use super::endpoint::{self, Endpoint, TlsFiles};
use super::failure::{Action, DockerFailure};
use super::user;
use crate::images::how_to_make;

/// For every call; the slowest one (start) takes a fifth of a second, or some seconds on a busy disk.
const DEADLINE: Duration = Duration::from_secs(60);
/// As much as an error message can use.
const LOG_BYTES: usize = 2048;
/// A list of users longer than this is none.
const ARCHIVE_BYTES: usize = 4 * 1024 * 1024;
/// The API of Docker 20.10.
const OLDEST_API: (u32, u32) = (1, 41);
/// How often an engine is asked to remove a container before its error is believed.
const REMOVE_TRIES: u32 = 4;

/// An engine that has answered.
#[derive(Debug)]
pub(crate) struct Engine {
    api: Docker,
    runtime: tokio::runtime::Runtime,
    about: About,
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
    pub(crate) fn connect(endpoint: &Endpoint) -> Result<Self, DockerFailure> {
        reach(endpoint)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(DockerFailure::Runtime)?;
        let greet = |cause| failure(Action::Connect, cause);
        let docker = match endpoint {
            Endpoint::Unix(socket) => {
                let path = socket.to_string_lossy();
                Docker::connect_with_unix(&path, DEADLINE.as_secs(), API_DEFAULT_VERSION)
            }
            Endpoint::Tls { address, files } => connect_with_tls(address, files),
        };
        let docker = docker.map_err(greet)?;
        let version = runtime.block_on(docker.version()).map_err(greet)?;
        check_version(&version, endpoint)?;
        let api = runtime.block_on(docker.negotiate_version()).map_err(greet)?;
        let about = About {
            make: make(&version),
            version: version.version.unwrap_or_default(),
            owner: Owner::Root,
        };
        let mut engine = Self { api, runtime, about };
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
        match self.runtime.block_on(self.api.inspect_network(name, options)) {
            Err(Error::DockerResponseServerError { status_code: 404, .. }) => {
                Err(DockerFailure::NoNetwork { name: name.to_owned() })
            }
            found => found.map_err(|cause| failure(Action::Inspect, cause)),
        }
    }

    pub(crate) fn image(&self, name: &str) -> Result<ImageInspect, DockerFailure> {
        match self.runtime.block_on(self.api.inspect_image(name)) {
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
        self.run(Action::Connect, self.api.info())
    }

    /// Creates a container; gives its id.
    pub(super) fn create(
        &self,
        name: &str,
        body: ContainerCreateBody,
    ) -> Result<String, DockerFailure> {
        let options = CreateContainerOptionsBuilder::new().name(name).build();
        match self.runtime.block_on(self.api.create_container(Some(options), body)) {
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
        let options = None::<InspectContainerOptions>;
        self.run(Action::Inspect, self.api.inspect_container(id, options))
    }

    /// Every container with a label, running or not.
    pub(super) fn labelled(&self, label: &str) -> Result<Vec<ContainerSummary>, DockerFailure> {
        let filters = HashMap::from([("label", vec![label])]);
        let options = ListContainersOptionsBuilder::new().all(true).filters(&filters).build();
        self.run(Action::List, self.api.list_containers(Some(options)))
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
            match self.runtime.block_on(self.api.remove_container(id, Some(options))) {
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
        match self.runtime.block_on(collect) {
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
        };
        self.runtime.block_on(collect);
        text
    }

    fn run<T>(
        &self,
        action: Action,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, DockerFailure> {
        self.runtime.block_on(call).map_err(|cause| failure(action, cause))
    }
}

/// Tells the ways apart in which an engine is not there; the client library does not.
fn reach(endpoint: &Endpoint) -> Result<(), DockerFailure> {
    let reached = match endpoint {
        Endpoint::Unix(socket) => UnixStream::connect(socket).map(drop),
        Endpoint::Tls { address, files } => {
            for file in [&files.ca, &files.certificate, &files.key] {
                readable(file)?;
            }
            TcpStream::connect(address).map(drop)
        }
    };
    let Err(cause) = reached else { return Ok(()) };
    let engine = endpoint.text();
    Err(match cause.kind() {
        io::ErrorKind::NotFound => {
            let others = endpoint::others(|name| std::env::var(name).ok());
            DockerFailure::NoEngine { engine, others }
        }
        io::ErrorKind::PermissionDenied => DockerFailure::NoPermission { engine },
        io::ErrorKind::ConnectionRefused => DockerFailure::EngineDown { engine },
        _ => DockerFailure::Local { what: "connect to", path: engine.into(), cause },
    })
}

fn readable(file: &Path) -> Result<(), DockerFailure> {
    let failed =
        |cause| DockerFailure::Local { what: "read the certificate", path: file.into(), cause };
    std::fs::File::open(file).map(drop).map_err(failed)
}

fn connect_with_tls(address: &str, files: &TlsFiles) -> Result<Docker, Error> {
    // Fails if there is one already, which will do as well.
    let _set = rustls::crypto::ring::default_provider().install_default();
    let TlsFiles { ca, certificate, key } = files;
    Docker::connect_with_ssl(address, key, certificate, ca, DEADLINE.as_secs(), API_DEFAULT_VERSION)
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
        cause => DockerFailure::Talk { action, cause: Box::new(cause) },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_engine_that_is_not_there_is_told_from_one_that_is_down() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("s");
        let endpoint = Endpoint::Unix(socket.clone());
        assert!(matches!(Engine::connect(&endpoint), Err(DockerFailure::NoEngine { .. })));
        drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
        assert!(matches!(Engine::connect(&endpoint), Err(DockerFailure::EngineDown { .. })));
    }

    #[test]
    fn certificates_that_are_missing_are_named() {
        let directory = tempfile::tempdir().unwrap();
        let file = |name| directory.path().join(name);
        let files = TlsFiles { ca: file("ca"), certificate: file("c"), key: file("k") };
        let endpoint = Endpoint::Tls { address: "127.0.0.1:1".to_owned(), files };
        let failure = Engine::connect(&endpoint).unwrap_err();
        assert!(failure.to_string().contains(&file("ca").display().to_string()), "{failure}");
    }

    #[track_caller]
    fn check(version: serde_json::Value, expected: Result<Make, &str>) {
        let version: SystemVersion = serde_json::from_value(version).unwrap();
        let endpoint = Endpoint::Unix("/s".into());
        let found = check_version(&version, &endpoint).map(|()| make(&version));
        let found = found.map_err(|failure| failure.to_string());
        match (&found, expected) {
            (Ok(found), Ok(expected)) => assert_eq!(*found, expected),
            (Err(said), Err(part)) => assert!(said.contains(part), "{said}"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_engine_of_another_kind_or_age_is_refused() {
        let ours = crate::backend::docker::architecture();
        let engine = json!([{"Name": "Engine", "Version": "20.10.24"}]);
        check(
            json!({"ApiVersion": "1.41", "Os": "linux", "Arch": ours, "Components": engine}),
            Ok(Make::Docker),
        );
        let podman = json!([{"Name": "Podman Engine", "Version": "4.3.1"}]);
        check(json!({"ApiVersion": "1.41", "Components": podman}), Ok(Make::Podman));
        check(json!({"ApiVersion": "1.40", "Version": "19.03.1"}), Err("19.03.1"));
        check(json!({"ApiVersion": "1.54", "Os": "linux", "Arch": "s390x"}), Err("linux/s390x"));
        check(json!({"ApiVersion": "1.54", "Os": "windows", "Arch": ours}), Err("windows/"));
    }
}
