//! Why a container could not be made, reached or removed.

use std::io;
use std::path::PathBuf;

use clawpen_rules::container::engine_limits::LimitProblem;

use clawpen_rules::facts::Mismatch;

use super::inspection::Difference;
use crate::backend::WitnessError;
use crate::channel::{CallError, ConnectError};
use crate::facts::ObserveError;

/// What we asked of the engine when it failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Connect,
    InspectImage,
    Create,
    ReadFile,
    Start,
    Inspect,
    List,
    Remove,
}

impl Action {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Connect => "greet it",
            Self::InspectImage => "inspect the image",
            Self::Create => "create the container",
            Self::ReadFile => "read the image's list of users",
            Self::Start => "start the container",
            Self::Inspect => "inspect the container",
            Self::List => "list containers",
            Self::Remove => "remove the container",
        }
    }
}

/// A failure of the Docker backend. Whatever was made on the way is gone again, unless it says so.
#[derive(Debug, thiserror::Error)]
pub enum DockerFailure {
    #[error("no Docker engine at `{}`; install and start Docker, or set DOCKER_HOST to its socket", .socket.display())]
    NoEngine { socket: PathBuf },
    #[error("the Docker engine at `{}` does not answer; start it, for example with `systemctl start docker`", .socket.display())]
    EngineDown { socket: PathBuf },
    #[error("may not use the Docker engine at `{}`; join its group (`usermod -aG docker $USER`) and log in again", .socket.display())]
    NoPermission { socket: PathBuf },
    #[error(
        "{origin} names the remote engine `{host}`; this build reaches engines on this machine only (`unix:///var/run/docker.sock`)"
    )]
    Remote { origin: &'static str, host: String },
    #[error("image `{image}` is missing; make it with `{build}`")]
    ImageMissing { image: String, build: String },
    #[error("image `{image}` is for {kind}, this machine is {ours}")]
    ImageKind { image: String, kind: String, ours: String },
    #[error(
        "the name `{name}` is taken by a container that is not of this state directory, and it is \
         left alone; rename or remove it yourself, or set another `docker.containerPrefix`"
    )]
    NameTaken { name: String },
    #[error(
        "container `{name}` was made by the reference and is left alone; to let clawpen replace \
         it, run `clawpen sandbox remove --adopt {name}`"
    )]
    OfReference { name: String },
    #[error("the container cannot be written down, so it was removed")]
    Witness(#[source] WitnessError),
    #[error("the Docker engine did not {} (status {status}): {message}", .action.as_str())]
    Refused { action: Action, status: u16, message: String },
    #[error("cannot {} at the Docker engine", .action.as_str())]
    Talk {
        action: Action,
        #[source]
        cause: Box<bollard::errors::Error>,
    },
    #[error("{0}")]
    Limit(#[source] LimitProblem),
    #[error("`docker.{key}` is set, and this engine does not enforce it; remove the key")]
    Unenforced { key: &'static str },
    #[error(
        "`{path}` is taken: the supervisor's own files are mounted there; choose another place"
    )]
    PlaceTaken { path: String },
    #[error("cannot read the seccomp profile `{}`", .path.display())]
    Profile {
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error(
        "image `{image}` has no user or group `{name}`; set `docker.user` to numbers like `1000:1000`"
    )]
    UnknownUser { image: String, name: String },
    #[error("the container is not what was asked for: {}; it was removed", list(.0))]
    Differs(Vec<Difference>),
    #[error("cannot write the supervisor's plan")]
    Plan(#[source] clawpen_wire::supervisor::codec::EncodeError),
    #[error("the container's supervisor did not answer within {seconds} s{}", last_words(.said))]
    Silent { seconds: u64, said: String },
    #[error("the container ended at once{}{}", exit_code(*.code), last_words(.said))]
    Ended { code: Option<i64>, said: String },
    #[error("cannot {what} `{}`", .path.display())]
    Local {
        what: &'static str,
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("the supervisor did not report what is in force")]
    Report(#[source] CallError),
    #[error("what is in force cannot be observed")]
    Observe(#[from] ObserveError),
    #[error("the container is not what was asked for: {}; it was removed", list(.0))]
    Facts(Vec<Mismatch>),
    #[error("the setup command could not be run")]
    Setup(#[source] CallError),
    #[error("the setup command failed: {0}")]
    SetupFailed(String),
    #[error("cannot start the thread that talks to the Docker engine")]
    Runtime(#[source] io::Error),
}

fn exit_code(code: Option<i64>) -> String {
    code.map(|code| format!(" (exit code {code})")).unwrap_or_default()
}

fn last_words(text: &str) -> String {
    match text.trim() {
        "" => String::new(),
        text => format!("; it said: {text}"),
    }
}

fn list<T: ToString>(items: &[T]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
