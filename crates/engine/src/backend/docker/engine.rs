//! Where the Docker engine is, and one thread's worth of talking to it.
//!
//! Calls are synchronous: each runs on a runtime of the calling thread and has a deadline. Only a
//! socket of this machine will do: the supervisor is reached through a directory that both sides
//! see, and proven by a process number that both sides know.

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bollard::errors::Error;
use bollard::models::{
    ContainerCreateBody, ContainerInspectResponse, ContainerSummary, ImageInspect, SystemInfo,
};
use bollard::query_parameters::{
    CreateContainerOptionsBuilder, DownloadFromContainerOptionsBuilder, InspectContainerOptions,
    ListContainersOptionsBuilder, LogsOptionsBuilder, RemoveContainerOptionsBuilder,
    StartContainerOptions, WaitContainerOptionsBuilder,
};
use bollard::{API_DEFAULT_VERSION, Docker};
use futures_util::StreamExt as _;

use super::failure::{Action, DockerFailure};
use super::user;

const DEFAULT_SOCKET: &str = "/var/run/docker.sock";
/// For every call; the slowest one (start) takes a fifth of a second, or some seconds on a busy disk.
const DEADLINE: Duration = Duration::from_secs(60);
/// As much as an error message can use.
const LOG_BYTES: usize = 2048;
/// A list of users longer than this is none.
const ARCHIVE_BYTES: usize = 4 * 1024 * 1024;
/// The image of a config that names none.
const DEFAULT_IMAGE: &str = "openclaw-sandbox:bookworm-slim";

/// Finds the engine's socket as its own command line would, from `DOCKER_HOST` and `DOCKER_CONTEXT`.
pub fn locate(variable: impl Fn(&str) -> Option<String>) -> Result<PathBuf, DockerFailure> {
    let set = |name| variable(name).filter(|value| !value.is_empty());
    if let Some(host) = set("DOCKER_HOST") {
        return match host.strip_prefix("unix://") {
            Some(path) if path.starts_with('/') => Ok(path.into()),
            _ => Err(DockerFailure::Remote { origin: "DOCKER_HOST", host }),
        };
    }
    // A context may lead anywhere; only its name is at hand.
    match set("DOCKER_CONTEXT") {
        Some(host) if host != "default" => {
            Err(DockerFailure::Remote { origin: "DOCKER_CONTEXT", host })
        }
        Some(_) | None => Ok(DEFAULT_SOCKET.into()),
    }
}

/// An engine that has answered.
#[derive(Debug)]
pub(super) struct Engine {
    api: Docker,
    runtime: tokio::runtime::Runtime,
}

impl Engine {
    /// Connects and agrees on a version of the API.
    pub(super) fn connect(socket: &Path) -> Result<Self, DockerFailure> {
        reach(socket)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(DockerFailure::Runtime)?;
        let path = socket.to_string_lossy();
        let docker = Docker::connect_with_unix(&path, DEADLINE.as_secs(), API_DEFAULT_VERSION)
            .map_err(|cause| failure(Action::Connect, cause))?;
        let api = runtime
            .block_on(docker.negotiate_version())
            .map_err(|cause| failure(Action::Connect, cause))?;
        Ok(Self { api, runtime })
    }

    pub(super) fn image(&self, name: &str) -> Result<ImageInspect, DockerFailure> {
        match self.runtime.block_on(self.api.inspect_image(name)) {
            Err(Error::DockerResponseServerError { status_code: 404, .. }) => {
                Err(DockerFailure::ImageMissing { image: name.to_owned(), build: build(name) })
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

    /// Kills and removes a container and its own volumes. One that is gone already is no failure.
    pub(super) fn remove(&self, id: &str) -> Result<(), DockerFailure> {
        let options = RemoveContainerOptionsBuilder::new().force(true).v(true).build();
        match self.runtime.block_on(self.api.remove_container(id, Some(options))) {
            Ok(()) | Err(Error::DockerResponseServerError { status_code: 404, .. }) => Ok(()),
            // Someone else's removal is under way, such as the container's own.
            Err(Error::DockerResponseServerError { status_code: 409, .. }) => {
                self.wait_until_gone(id)
            }
            Err(cause) => Err(failure(Action::Remove, cause)),
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
fn reach(socket: &Path) -> Result<(), DockerFailure> {
    let socket = socket.to_path_buf();
    match UnixStream::connect(&socket) {
        Ok(_) => Ok(()),
        Err(error) => Err(match error.kind() {
            io::ErrorKind::NotFound => DockerFailure::NoEngine { socket },
            io::ErrorKind::PermissionDenied => DockerFailure::NoPermission { socket },
            io::ErrorKind::ConnectionRefused => DockerFailure::EngineDown { socket },
            _ => DockerFailure::Local { what: "connect to", path: socket, cause: error },
        }),
    }
}

fn failure(action: Action, cause: Error) -> DockerFailure {
    match cause {
        Error::DockerResponseServerError { status_code, message } => {
            DockerFailure::Refused { action, status: status_code, message }
        }
        cause => DockerFailure::Talk { action, cause: Box::new(cause) },
    }
}

/// The command that makes an image.
fn build(image: &str) -> String {
    if image == DEFAULT_IMAGE {
        return format!(
            "mmdebstrap --variant=minbase --include=bash,ca-certificates,curl,git,jq,python3,ripgrep \
             bookworm - | docker import - {image}"
        );
    }
    format!("docker pull {image}` or `docker build -t {image} .")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_socket_of_this_machine_will_do() {
        check(&[], Ok("/var/run/docker.sock"));
        check(&[("DOCKER_HOST", "")], Ok("/var/run/docker.sock"));
        check(&[("DOCKER_CONTEXT", "default")], Ok("/var/run/docker.sock"));
        check(&[("DOCKER_HOST", "unix:///run/x.sock"), ("DOCKER_CONTEXT", "y")], Ok("/run/x.sock"));
        check(&[("DOCKER_HOST", "unix://x.sock")], Err("unix://x.sock"));
        check(&[("DOCKER_HOST", "tcp://10.0.0.1:2375")], Err("tcp://10.0.0.1:2375"));
        check(&[("DOCKER_HOST", "ssh://me@there")], Err("ssh://me@there"));
        check(&[("DOCKER_CONTEXT", "desktop-linux")], Err("desktop-linux"));
    }

    #[track_caller]
    fn check(variables: &[(&str, &str)], expected: Result<&str, &str>) {
        let variable = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let found = match locate(variable) {
            Ok(path) => Ok(path.display().to_string()),
            Err(DockerFailure::Remote { host, .. }) => Err(host),
            Err(other) => panic!("{other}"),
        };
        let expected = expected.map(str::to_owned).map_err(str::to_owned);
        assert_eq!(found, expected, "{variables:?}");
    }

    #[test]
    fn an_engine_that_is_not_there_is_told_from_one_that_is_down() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("s");
        assert!(matches!(Engine::connect(&socket), Err(DockerFailure::NoEngine { .. })));
        drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
        assert!(matches!(Engine::connect(&socket), Err(DockerFailure::EngineDown { .. })));
    }
}
