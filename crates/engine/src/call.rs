//! From a session to a sandbox that is proven, as a straight line.
//!
//! ```text
//! config ─► explain ─► backend ─► keys enforced? ─► spec ─► workspace on disk ─► make ─► observe ─► Sandbox
//!             └──────────────── any refusal stops here, by name ────────────┘
//! ```
//!
//! Every verdict comes from `rules`; this looks facts up, makes directories and calls the backend.
//! Nothing falls back: a session that was to get a sandbox gets it or an error. What runs in the
//! sandbox goes through [`Sandbox::channel`].

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, chown};
use std::path::{Path, PathBuf};

use clawpen_rules::backend::Backend;
use clawpen_rules::config::sandbox::DockerConfig;
use clawpen_rules::config::setting::{Layer, Origin, Setting};
use clawpen_rules::container::ContainerRefused;
use clawpen_rules::enforcement::{self, Unenforced};
use clawpen_rules::environment::{Filter, Filtered};
use clawpen_rules::explain::Explanation;
use clawpen_rules::native::{self as native_rules, KeyRefused, Offer};
use clawpen_wire::pen::Lifetime;

use crate::backend::docker::DockerFailure;
use crate::backend::native::Requirement;
use crate::backend::{self, Engines, Plan, Sandbox};
use crate::config_store::Store;
use crate::explain::{self, Question, QuestionError};
use crate::machine;

/// Whose sandbox, and on which backend if not the configured one.
#[derive(Debug, Clone, Copy, Default)]
pub struct Target<'a> {
    pub session: Option<&'a str>,
    pub agent: Option<&'a str>,
    pub backend: Option<&'a str>,
}

/// A sandbox that may be made: everything is decided, nothing is done yet.
#[derive(Debug)]
pub struct Prepared {
    pub explanation: Explanation,
    pub plan: Plan,
    /// What may enter with a single command.
    pub filter: Filter,
    state_dir: String,
}

/// There is no sandbox.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(transparent)]
    Question(#[from] QuestionError),
    #[error("the sandbox is refused: {}", .0.join("; "))]
    Refused(Vec<String>),
    #[error("cannot make the workspace `{}`", .path.display())]
    Workspace {
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error(transparent)]
    Start(#[from] backend::StartError),
}

impl OpenError {
    /// The image that is not there, if that is all there is to it.
    pub fn missing_image(&self) -> Option<&str> {
        match self {
            Self::Start(backend::StartError::Docker(error)) => match &error.cause {
                DockerFailure::ImageMissing { image, .. } => Some(image),
                _ => None,
            },
            Self::Start(backend::StartError::Native(_))
            | Self::Question(_)
            | Self::Refused(_)
            | Self::Workspace { .. } => None,
        }
    }
}

/// Decides on the sandbox of a session.
pub fn prepare(store: &Store, target: &Target<'_>) -> Result<Prepared, OpenError> {
    let question = Question { agent: target.agent, session: target.session, channels: &[] };
    let mut explanation = explain::explain(store, &question)?;
    choose_backend(&mut explanation, store, target);
    let config = &store.loaded.config;
    let agent = explanation.session.agent().clone();
    let backend = enforcement::decide(config, &agent, &explanation.sandbox);
    let refused = |list: Vec<String>| OpenError::Refused(list);
    let backend =
        backend.map_err(|found| refused(found.iter().map(Unenforced::to_string).collect()))?;
    let spec = explanation.runtime.spec.clone();
    let spec = spec.map_err(|found: ContainerRefused| refused(vec![found.to_string()]))?;
    let own = store.loaded.own.resolve(&agent);
    let docker = &explanation.sandbox.docker;
    let plan = match backend {
        Backend::Native => {
            let offer = if needs_cgroup(docker) { machine::offer() } else { Offer::default() };
            let pen = native_rules::decide(&spec, docker, &own.native, offer);
            let pen =
                pen.map_err(|found| refused(found.iter().map(KeyRefused::to_string).collect()))?;
            let require = requirements(own.native.require.as_ref())?;
            Plan::Native(Box::new(backend::NativePlan { pen, require }))
        }
        Backend::Docker => Plan::Docker(Box::new(spec)),
        Backend::Ssh | Backend::OpenShell | Backend::Kubernetes => {
            let name = backend.as_str();
            return Err(refused(vec![format!(
                "the sandbox backend `{name}` is not part of this build; use native or docker"
            )]));
        }
    };
    let filter = Filter::except_credentials().with_opt_in(own.env_allow.value);
    Ok(Prepared { explanation, plan, filter, state_dir: store.locations.state_dir.clone() })
}

/// The caller's choice, else the config's; without any config, native: it needs nothing installed.
fn choose_backend(explanation: &mut Explanation, store: &Store, target: &Target<'_>) {
    let configured = &explanation.sandbox.backend;
    let is_built_in = configured.origin.layer == Layer::BuiltIn;
    let chosen = match target.backend {
        Some(name) => name,
        None if is_built_in && store.loaded.config.files().is_empty() => Backend::Native.as_str(),
        None => return,
    };
    explanation.sandbox.backend = Setting::new(chosen.to_owned(), Origin::derived("--backend"));
}

fn needs_cgroup(docker: &DockerConfig) -> bool {
    docker.pids_limit.is_some()
        || docker.memory.is_some()
        || docker.memory_swap.is_some()
        || docker.cpus.is_some()
}

fn requirements(setting: Option<&Setting<Vec<String>>>) -> Result<Vec<Requirement>, OpenError> {
    let Some(setting) = setting else { return Ok(Vec::new()) };
    let parse = |name: &String| {
        Requirement::parse(name).ok_or_else(|| {
            let known = Requirement::ALL.map(Requirement::as_str).join(", ");
            OpenError::Refused(vec![format!(
                "`{}` asks for `{name}`, which is no layer we know; write one of {known}",
                setting.origin.key
            )])
        })
    };
    setting.value.iter().map(parse).collect()
}

impl Prepared {
    /// Makes the sandbox and proves it.
    pub fn open(&self, engines: &Engines, lifetime: Lifetime) -> Result<Sandbox, OpenError> {
        self.ensure_workspace()?;
        let name = self.explanation.runtime.name.as_str();
        let place = backend::Place { name, state_dir: &self.state_dir };
        Ok(engines.start(&self.plan, place, lifetime)?)
    }

    /// Where we keep things.
    pub fn state_dir(&self) -> &str {
        &self.state_dir
    }

    /// Judges variables that come with one command.
    pub fn environment<'a>(
        &self,
        variables: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Filtered {
        self.filter.apply(variables)
    }

    /// Where commands start and relative paths begin.
    pub fn workdir(&self) -> &str {
        self.explanation.runtime.layout.workdir()
    }

    /// Makes the directories that are mounted: private, and the container's user's if that is
    /// another one.
    fn ensure_workspace(&self) -> Result<(), OpenError> {
        for mount in self.explanation.runtime.layout.mounts() {
            let path = Path::new(&mount.source);
            let failed = |cause| OpenError::Workspace { path: path.to_owned(), cause };
            match fs::metadata(path) {
                Ok(found) if found.is_dir() => continue,
                Ok(_) => return Err(failed(io::ErrorKind::NotADirectory.into())),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(failed(error)),
            }
            DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed)?;
            if let Some((uid, gid)) = self.foreign_user() {
                chown(path, Some(uid), Some(gid)).map_err(failed)?;
            }
        }
        Ok(())
    }

    /// The user of a container whose ids are the host's own. A native pen maps ids, so there the
    /// directory belongs to whoever makes it.
    fn foreign_user(&self) -> Option<(u32, u32)> {
        let Plan::Docker(spec) = &self.plan else { return None };
        let (uid, gid) = spec.user()?.split_once(':')?;
        let (uid, gid) = (uid.parse().ok()?, gid.parse().ok()?);
        let own = fs::metadata("/proc/self").ok()?;
        (own.uid() == 0 && uid != 0).then_some((uid, gid))
    }
}
