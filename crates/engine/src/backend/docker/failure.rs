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
    PullImage,
    BuildImage,
    ImportImage,
    ListImages,
    RemoveImage,
    ExportImage,
    Create,
    MakeNetwork,
    ReadFile,
    Start,
    Inspect,
    List,
    Stop,
    Remove,
}

impl Action {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Connect => "greet it",
            Self::InspectImage => "inspect the image",
            Self::PullImage => "pull the image",
            Self::BuildImage => "build the image",
            Self::ImportImage => "import the image",
            Self::ListImages => "list its images",
            Self::RemoveImage => "remove the image",
            Self::ExportImage => "export the image",
            Self::Create => "create the container",
            Self::MakeNetwork => "make the browser's network",
            Self::ReadFile => "read the image's list of users",
            Self::Start => "start the container",
            Self::Inspect => "inspect the container",
            Self::List => "list containers",
            Self::Stop => "stop the container",
            Self::Remove => "remove the container",
        }
    }
}

/// A failure of the Docker backend. Whatever was made on the way is gone again, unless it says so.
#[derive(Debug, thiserror::Error)]
pub enum DockerFailure {
    #[error("no container engine at `{engine}`; {}", find(.others))]
    NoEngine { engine: String, others: Vec<PathBuf> },
    #[error(
        "the container engine at `{engine}` does not answer; start it, for example with `systemctl start docker`"
    )]
    EngineDown { engine: String },
    #[error(
        "may not use the container engine at `{engine}`; join its group (`usermod -aG docker $USER`) and log in again"
    )]
    NoPermission { engine: String },
    #[error(
        "the engine at `{engine}` belongs to another user (id {uid}), who would see all that a sandbox is made of; use one that runs as root or as you"
    )]
    OfAnotherUser { engine: String, uid: u32 },
    #[error(
        "the engine does not answer (it was to {}); see whether it hangs, for example with `docker version`, and start it anew",
        .action.as_str()
    )]
    Frozen { action: Action },
    #[error(
        "{origin} names the engine `{host}`, which is not on this machine; the supervisor cannot be reached there: use an engine here (`unix:///var/run/docker.sock`)"
    )]
    Remote { origin: &'static str, host: String },
    #[error(
        "{origin} names the engine `{host}`, and nothing proves who is at its other end; use its socket, or set DOCKER_TLS_VERIFY=1 and DOCKER_CERT_PATH"
    )]
    Unprotected { origin: &'static str, host: String },
    #[error(
        "the registry names an engine as `{text}`, which this release cannot read; use the one that made the sandbox"
    )]
    Recorded { text: String },
    #[error("{origin} is `{name}`, and there is no such context (`{}`); see `docker context ls`", .path.display())]
    NoContext { name: String, origin: &'static str, path: PathBuf },
    #[error(
        "the engine at `{engine}` is version {version}; Docker 20.10 or newer is needed, or Podman 4"
    )]
    TooOld { engine: String, version: String },
    #[error(
        "the engine at `{engine}` is for {kind}, this machine is {ours}; use an engine of this machine"
    )]
    EngineKind { engine: String, kind: String, ours: String },
    #[error(
        "the engine does not see `{}`: it runs on another machine or in a virtual one, or may not look there; use an engine of this machine that runs as root or as you",
        .path.display()
    )]
    Elsewhere { path: PathBuf },
    #[error(
        "there is no network `{name}`; make it with `docker network create --internal {name}`, or set `docker.network` to `none`"
    )]
    NoNetwork { name: String },
    #[error(
        "network `{name}` is refused: it is the host's own under another name; use `none`, `bridge` or a network of your own"
    )]
    HostNetwork { name: String },
    #[error("`docker.network` joins the container `{name}`, and there is none of that name")]
    NoSuchContainer { name: String },
    #[error(
        "`{}` was put in the place of a directory after it was checked; look who may write beside it",
        .path.display()
    )]
    SourceChanged { path: PathBuf },
    #[error("image `{image}` is missing; {build}")]
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
    #[error(
        "container `{name}` bears the mark of this state directory, but what it is met by is not \
         here, so it may be somebody else's and is left alone; if nobody uses it, remove it with \
         `docker rm --force {name}`"
    )]
    Unclear { name: String },
    #[error(
        "container `{name}` runs unproven and does not end when it is killed; remove it yourself \
         with `docker rm --force`"
    )]
    Unstoppable { name: String },
    #[error("the container cannot be written down, so it was removed")]
    Witness(#[source] WitnessError),
    #[error("the engine did not {} (status {status}): {message}", .action.as_str())]
    Refused { action: Action, status: u16, message: String },
    #[error("cannot {} at the engine", .action.as_str())]
    Talk {
        action: Action,
        #[source]
        cause: Box<bollard::errors::Error>,
    },
    #[error("{0}")]
    Limit(#[source] LimitProblem),
    #[error(
        "`docker.gpus` is set, and this engine has nothing that could give a container a GPU ({said}); install the vendor's container toolkit, or remove the key"
    )]
    NoGpus { said: String },
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
    #[error(
        "the container is not what was asked for: {}; it was stopped and kept, and \
         `clawpen sandbox recreate` replaces it",
        list(.0)
    )]
    DiffersKept(Vec<Difference>),
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
    #[error("the setup command failed: {how}{}", crate::backend::native::said_by(.said))]
    SetupFailed { how: String, said: String },
    #[error("the engine did not publish the container's port {port}; see `docker port`")]
    NotPublished { port: u16 },
    #[error(
        "the engine published the container's port {port} at `{address}`, where other machines may reach it; it is not used"
    )]
    Exposed { port: u16, address: String },
    #[error(
        "image `{image}` names no program to start; build it with `clawpen image build browser`"
    )]
    NoProgram { image: String },
    #[error("a browser's sandbox needs Docker; this engine is Podman")]
    NoBrowserHere,
    #[error("cannot start the thread that talks to the engine")]
    Runtime(#[source] io::Error),
}

impl DockerFailure {
    /// Whether a start failed because the engine's own runtime holds an earlier start of the same container, which the
    /// engine does not know of.
    pub(super) fn is_begun_already(&self) -> bool {
        matches!(
            self,
            Self::Refused { action: Action::Start, status: 500, message }
                if message.starts_with("task ") && message.ends_with("already exists")
        )
    }
}

/// Other engines of this machine, or what to do without any.
fn find(others: &[PathBuf]) -> String {
    match others.first() {
        Some(socket) => format!("set DOCKER_HOST=unix://{}", socket.display()),
        None => "install and start Docker or Podman, set DOCKER_HOST to its socket, or have pens without an \
                 engine: `agents.defaults.sandbox.backend: \"native\"`"
            .to_owned(),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_that_was_begun_by_a_killed_engine_is_told_from_all_others() {
        let refused = |action, status, message: &str| DockerFailure::Refused {
            action,
            status,
            message: message.to_owned(),
        };
        let begun = "task 45ae4864fe78: already exists";
        assert!(refused(Action::Start, 500, begun).is_begun_already());
        for other in [
            refused(Action::Create, 500, begun),
            refused(Action::Start, 409, begun),
            refused(Action::Start, 500, "network x already exists"),
            refused(Action::Start, 500, "task 45ae4864fe78: not found"),
        ] {
            assert!(!other.is_begun_already(), "{other}");
        }
    }
}
