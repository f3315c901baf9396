//! From a session to a result, as a straight line.
//!
//! ```text
//! prepare ─► ensure ─► lease ─► job on the channel ─► audit ─► release ─► now and then: prune
//!    └ config ─► explain ─► backend ─► keys enforced? ─► spec; any refusal stops here, by name
//! ```
//!
//! Every verdict comes from `rules`; this looks facts up, makes directories and calls the backend.
//! Nothing falls back: a session that was to get a sandbox gets it or an error. What runs in the
//! sandbox goes through its channel. A tool that an agent calls comes in through [`Desk::call`], which asks the tool
//! policy and the exec rules first.

mod ask;
mod background;
mod desk;
mod exec;
mod failure;
mod fetch;
mod host;
mod image;
mod look;
mod manage;
mod policy;
mod process;
mod ready;
mod record;
mod runs;
mod session;
mod stock;
mod stop;

use std::path::Path;
use std::time::{Duration, Instant};

use clawpen_rules::backend::{self as backend_rules, Backend};
use clawpen_rules::browser::BrowserSpec;
use clawpen_rules::config::own::OwnSettings;
use clawpen_rules::config::sandbox::{DockerConfig, Scope};
use clawpen_rules::config::setting::{Origin, Setting};
use clawpen_rules::container::ContainerRefused;
use clawpen_rules::enforcement::{self, Unenforced};
use clawpen_rules::environment::{Filter, Filtered};
use clawpen_rules::explain::Explanation;
use clawpen_rules::native::{self as native_rules, KeyRefused, Offer, Root};
use clawpen_rules::reuse::{self, Recreate, RecreateTarget, SandboxKind};
use clawpen_rules::session::key::SessionKey;
use clawpen_rules::workspace::HostSkills;
use clawpen_wire::pen::Lifetime;

use crate::audit::{AuditError, Ending, owed};
use crate::backend::docker::DockerFailure;
use crate::backend::native::Requirement;
use crate::backend::{self, Engines, Plan, Sandbox};
use crate::clock::{Clock, SystemClock};
use crate::config_store::Store;
use crate::database::DatabaseError;
use crate::error_text::chain;
use crate::explain::{self, Question, QuestionError};
use crate::faults;
use crate::lifecycle::current::{self, Currents};
use crate::lifecycle::{Caller, EnsureError, Held, How, Lifecycle, Throttle, Wanted};
use crate::machine;
use crate::random;
use crate::registry::{Identity, Kind, NewRow, Row};
use crate::workspaces::{self, Ready, Released, WorkspaceError, Workspaces};
use crate::yard::Yard;

pub use ask::{PassingOn, Pending};
pub(crate) use background::Standing;
pub use desk::{Desk, PolicyOf, Quiet, RecordDoor, ToolRequest, Watch, Who};
pub use failure::{NotApproved, ToolCallError};
pub use image::{ImageNote, ToLookAt};
pub use look::{fact_json, look_again};
pub use manage::Job;
pub use session::{Attachment, Placed, SessionView};
pub use stop::Stop;

pub use record::{About, Counted, Tally, refusal as record_refusal};

/// Whose sandbox, and on which backend if not the configured one.
#[derive(Debug, Clone, Copy, Default)]
pub struct Target<'a> {
    pub session: Option<&'a str>,
    pub agent: Option<&'a str>,
    pub backend: Option<&'a str>,
}

/// How long the sandbox of a call lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeping {
    /// It is the scope's: found again, or made for all that come later.
    Scope,
    /// One of its own, gone with the call.
    Fresh,
}

/// A sandbox that may be made: everything is decided, nothing is done yet.
#[derive(Debug)]
pub struct Prepared {
    pub explanation: Explanation,
    pub plan: Plan,
    /// What may enter with a single command.
    pub filter: Filter,
    pub own: OwnSettings,
    /// What it sees of the host's directories.
    pub workspace: workspaces::Wanted,
    /// Whether it was seen to be as it should be.
    settled: workspaces::Settled,
    /// The scope's own, or one that says on which other backend it was asked for.
    name: String,
    kind: Kind,
    state_dir: String,
}

/// There is no sandbox.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(transparent)]
    Question(#[from] QuestionError),
    #[error("the sandbox is refused: {}", .0.join("; "))]
    Refused(Vec<String>),
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    #[error(transparent)]
    Start(#[from] backend::StartError),
    #[error(transparent)]
    Ensure(#[from] EnsureError),
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// What is not recorded is not done.
    #[error("the call cannot be recorded")]
    Audit(#[from] crate::audit::AuditError),
}

/// A sandbox for one call, or a share in the scope's.
#[derive(Debug)]
pub enum Open<'a> {
    Held(Box<Held<'a>>),
    Fresh(Sandbox),
}

impl Open<'_> {
    pub fn sandbox(&mut self) -> &mut Sandbox {
        match self {
            Self::Held(held) => &mut held.sandbox,
            Self::Fresh(sandbox) => sandbox,
        }
    }

    /// What the registry knows it by; nothing for one that goes with the call.
    pub fn identity(&self) -> Option<&Identity> {
        match self {
            Self::Held(held) => Some(&held.identity),
            Self::Fresh(_) => None,
        }
    }
}

/// What a call came to.
#[derive(Debug)]
pub struct Done<T> {
    pub value: T,
    pub backend: Backend,
    /// How the sandbox came to be; `None` for one of the call's own.
    pub how: Option<How>,
    /// The call's id, in leases and audit records.
    pub id: String,
    /// What did not work and did not matter to the call.
    pub notes: Vec<String>,
}

impl OpenError {
    /// What a command in the sandbox said, if the error quotes it: content, which no record keeps.
    pub fn quoted(&self) -> Option<&str> {
        match self {
            Self::Start(error)
            | Self::Ensure(EnsureError::Start(error) | EnsureError::Left { start: error, .. }) => {
                error.quoted()
            }
            Self::Ensure(_)
            | Self::Question(_)
            | Self::Refused(_)
            | Self::Workspace(_)
            | Self::Database(_)
            | Self::Audit(_) => None,
        }
    }

    /// The image that is not there, if that is all there is to it.
    pub fn missing_image(&self) -> Option<&str> {
        let start = match self {
            Self::Start(error) | Self::Ensure(EnsureError::Start(error)) => error,
            Self::Ensure(_)
            | Self::Question(_)
            | Self::Refused(_)
            | Self::Workspace(_)
            | Self::Database(_)
            | Self::Audit(_) => return None,
        };
        match start {
            backend::StartError::Docker(error) => match &error.cause {
                DockerFailure::ImageMissing { image, .. } => Some(image),
                _ => None,
            },
            backend::StartError::Native(_) => None,
        }
    }
}

/// Decides on the sandbox of a session.
pub fn prepare(store: &Store, target: &Target<'_>) -> Result<Prepared, OpenError> {
    let question = Question { agent: target.agent, session: target.session, channels: &[] };
    let mut explanation = explain::explain(store, &question)?;
    let configured = choose_backend(&mut explanation, store, target);
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
    let filter = Filter::except_credentials().with_opt_in(own.env_allow.value.clone());
    let name = explanation.runtime.name.as_str();
    let name = match configured {
        // The scope's own sandbox is another one, and neither replaces the other.
        Some(configured) if Backend::parse(&configured) != Some(backend) => {
            format!("{name}-{}", backend.as_str())
        }
        Some(_) | None => name.to_owned(),
    };
    let state_dir = store.locations.state_dir.clone();
    let workspace = workspaces::Wanted::of(&explanation, store);
    let settled = workspaces::Settled::default();
    let kind = Kind::Sandbox;
    Ok(Prepared { explanation, plan, filter, own, workspace, settled, name, kind, state_dir })
}

/// The caller's choice, else the usual one, which is given.
fn choose_backend(
    explanation: &mut Explanation,
    store: &Store,
    target: &Target<'_>,
) -> Option<String> {
    let configured = &explanation.sandbox.backend;
    let mode = explanation.sandbox.mode.value;
    let usual = backend_rules::usual(configured, mode, store.loaded.config.files());
    let chosen = target.backend.unwrap_or(&usual);
    if chosen != configured.value {
        explanation.sandbox.backend = Setting::new(chosen.to_owned(), Origin::derived("--backend"));
    }
    target.backend.map(|_| usual)
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

/// Runs one call in a sandbox and records it.
///
/// The sandbox is found or made; while `job` runs nobody removes it. Whatever `job` gives is given
/// back, with the record written before the sandbox may be removed again.
pub fn run<T>(
    yard: &Yard,
    prepared: &Prepared,
    about: &About<'_>,
    job: impl FnOnce(&mut Open<'_>, &mut Tally) -> T,
) -> Result<Done<T>, OpenError> {
    owed::settle(&yard.database, yard.clock())?;
    let id = random::uuid();
    let start = Instant::now();
    let (mut open, trouble) = match prepared.open_and_tell(yard, about.keeping, &id) {
        Ok(open) => open,
        Err(error) => {
            record::not_run(yard, prepared, about, &id, &error)?;
            return Err(error);
        }
    };
    let backend = prepared.plan.backend();
    let how = match &open {
        Open::Held(held) => Some(held.how.clone()),
        Open::Fresh(_) => None,
    };
    let mut tally = Tally::default();
    let value = job(&mut open, &mut tally);
    faults::reached("call.ran");
    let ran = record::ran(prepared, about, &id, (start.elapsed(), tally));
    let mut notes: Vec<String> = trouble.into_iter().collect();
    match open {
        Open::Held(held) => held.close(&ran)?,
        Open::Fresh(sandbox) => {
            let written = record::append(yard, &ran);
            if written.is_err() {
                owed::keep(&yard.database, &ran, yard.clock().now().wall, None);
            }
            written?;
            if let Err(error) = sandbox.remove() {
                notes.push(error.to_string());
            }
        }
    }
    Ok(Done { value, backend, how, id, notes })
}

/// Records what begins in a sandbox and may last: whoever is killed on the way records no end.
pub(crate) fn record_begun(
    yard: &Yard,
    prepared: &Prepared,
    about: &About<'_>,
    what: &str,
) -> Result<(), AuditError> {
    record::beside(yard, prepared, about, (what, (Duration::ZERO, Tally::default())))
}

/// Removes what is due, if nobody has for a while; also what killed processes left. Never fails a
/// call: what did not work is told.
pub fn tidy_now_and_then(yard: &Yard, store: &Store) -> Vec<String> {
    // The caller has his answer and wants to go on: an engine that hangs must not keep him.
    let engines = Engines::hurried();
    let lifecycle = Lifecycle { engines: &engines, ..yard.lifecycle() };
    match lifecycle.throttle() {
        Throttle::TooSoon => return Vec::new(),
        Throttle::Due => {}
    }
    let currents = Currents::new(store);
    let mut notes = Vec::new();
    match lifecycle.recover() {
        Ok(recovered) => notes.extend(recovered.problems),
        Err(error) => notes.push(error.to_string()),
    }
    match lifecycle.prune(|row| currents.limits(row)) {
        Ok(pruned) => {
            for (row, _) in &pruned.removed {
                notes.extend(release_workspace(yard, &currents, row).err());
            }
            notes.extend(pruned.failed.into_iter().map(|(_, problem)| problem));
        }
        Err(error) => notes.push(error.to_string()),
    }
    notes.extend(sweep_workspaces(yard, store).err());
    notes
}

/// To be called when a sandbox was removed: what becomes of its workspace is its owner's setting.
/// Gives a note if that did not work; the workspace is still there then.
pub fn release_workspace(yard: &Yard, currents: &Currents<'_>, row: &Row) -> Result<(), String> {
    let agent = row.agent.as_ref().map_or("", |agent| agent.as_str());
    let workspaces = Workspaces::new(&yard.state_dir);
    let released = |directory| Released { directory, scope_key: row.scope.as_str(), agent };
    // A shell and its browser share one: whoever goes last gives it back.
    let rows = yard.database.registry().list().map_err(|error| error.to_string())?;
    let shares = |other: &Row| other.kind != row.kind && other.workspace_dir == row.workspace_dir;
    if rows.iter().any(shares) {
        return Ok(());
    }
    // An agent's own directory is never ours to move, and what it is not now it may have been.
    let Some(directory) = currents.private_directory(row) else {
        let Some(skills) = currents.skills_directory(row) else { return Ok(()) };
        // The same scope may have another sandbox, on another backend.
        if rows.iter().any(|other| other.scope == row.scope && other.name != row.name) {
            return Ok(());
        }
        return workspaces.forget_skills(&released(&skills)).map_err(|error| chain(&error));
    };
    let released = released(&directory);
    let policy = currents.own(row).workspaces;
    workspaces
        .release(&released, &policy, yard.clock().now().wall)
        .map(drop)
        .map_err(|error| error.to_string())
}

/// Moves workspaces aside that nobody has used for long, and empties the trash of what is due.
fn sweep_workspaces(yard: &Yard, store: &Store) -> Result<(), String> {
    let rows = yard.database.registry().list().map_err(|error| error.to_string())?;
    let is_in_use =
        |directory: &Path| rows.iter().any(|row| Path::new(&row.workspace_dir) == directory);
    Workspaces::new(&yard.state_dir)
        .sweep(&store.loaded.own, &is_in_use, yard.clock().now().wall)
        .map(drop)
        .map_err(|error| error.to_string())
}

/// For a sandbox that is to be made.
fn unobstructed(ready: Ready) -> Result<(), WorkspaceError> {
    ready.obstacle.map_or(Ok(()), |obstacle| Err(obstacle.into()))
}

impl Prepared {
    /// Opens the scope's sandbox, or one for this call. Nothing is recorded.
    pub fn open<'a>(
        &self,
        yard: &'a Yard,
        keeping: Keeping,
        call: &str,
    ) -> Result<Open<'a>, OpenError> {
        self.open_and_tell(yard, keeping, call).map(|(open, _)| open)
    }

    /// The same, with what could not be brought up to date in its workspace.
    fn open_and_tell<'a>(
        &self,
        yard: &'a Yard,
        keeping: Keeping,
        call: &str,
    ) -> Result<(Open<'a>, Option<String>), OpenError> {
        // Before it is found again as well: what was copied in is kept in step.
        let mut ready = self.ready_workspace(yard.clock())?;
        let trouble = ready.trouble.take();
        let open = match keeping {
            Keeping::Scope => {
                let session = self.explanation.session.key().map(SessionKey::as_str);
                let caller = Caller { call, session };
                let in_the_way = |found| Err(WorkspaceError::Obstacle(found).into());
                // Only a sandbox that is to be made needs the place: an agent must not lock itself out of its own.
                if let Some(found) = &ready.obstacle
                    && yard
                        .database
                        .registry()
                        .get(&self.name)
                        .map_err(EnsureError::from)?
                        .is_none()
                {
                    return in_the_way(found.clone());
                }
                match (yard.lifecycle().ensure(&self.wanted(), &caller), ready.obstacle) {
                    // What was there is gone, and the mount of a new one did not come to its place.
                    (Err(EnsureError::Start(_)), Some(found)) => return in_the_way(found),
                    (held, _) => Open::Held(Box::new(held?)),
                }
            }
            Keeping::Fresh => {
                unobstructed(ready)?;
                Open::Fresh(self.start_fresh(&yard.engines)?)
            }
        };
        Ok((open, trouble))
    }

    /// Makes a sandbox that goes with its value and is written down nowhere.
    pub fn make(&self, engines: &backend::Engines) -> Result<Sandbox, OpenError> {
        unobstructed(self.ready_workspace(&SystemClock)?)?;
        self.start_fresh(engines)
    }

    /// Sees to it that `count` sandboxes of this kind wait for whoever asks next. For doors that live long.
    pub fn stock(
        &self,
        engines: &backend::Engines,
        keeping: Keeping,
        count: usize,
    ) -> Result<(), OpenError> {
        unobstructed(self.ready_workspace(&SystemClock)?)?;
        let lifetime = match keeping {
            Keeping::Scope => Lifetime::Persistent,
            Keeping::Fresh => Lifetime::UntilDisconnect,
        };
        Ok(engines.stock(&self.plan, self.place(), lifetime, count)?)
    }

    /// The same session's browser in place of its shell.
    pub(crate) fn for_browser(self, spec: &BrowserSpec) -> Self {
        let container = spec.container();
        let name = container.identity().name.as_str().to_owned();
        let plan = Plan::Docker(Box::new(container.clone()));
        Self { plan, name, kind: Kind::Browser, ..self }
    }

    /// Makes the directories that are mounted, and what is to be in them.
    pub fn ready_workspace(&self, clock: &dyn Clock) -> Result<Ready, WorkspaceError> {
        let wanted = (&self.workspace, &self.settled);
        Workspaces::new(&self.state_dir).prepare_again(wanted, clock.now().wall)
    }

    fn start_fresh(&self, engines: &backend::Engines) -> Result<Sandbox, OpenError> {
        let name = match &self.plan {
            Plan::Native(_) => self.name.clone(),
            // An engine has room for one of a name.
            Plan::Docker(_) => format!("{}-{}", self.name, random::short_id()),
        };
        let place = backend::Place { name: &name, state_dir: &self.state_dir, about: "" };
        Ok(engines.start(&self.plan, place, Lifetime::UntilDisconnect, &mut |_| Ok(()))?)
    }

    /// What the sandbox is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where the backend looks for this sandbox.
    pub fn place(&self) -> backend::Place<'_> {
        backend::Place { name: &self.name, state_dir: &self.state_dir, about: "" }
    }

    /// The sandbox that is to be there.
    pub fn wanted(&self) -> Wanted<'_> {
        let Explanation { session, sandbox, runtime, .. } = &self.explanation;
        let backend = self.plan.backend();
        let (shape, layout, kind) = match (self.kind, &self.plan) {
            (Kind::Browser, Plan::Docker(spec)) => {
                // A browser reads no skills.
                let layout = runtime.layout.clone().with_host_skills(HostSkills::None);
                let shape = spec.identity().fingerprint.clone();
                let shape = shape.unwrap_or_else(|| runtime.fingerprint.clone());
                (shape, layout, SandboxKind::Browser)
            }
            (Kind::Sandbox | Kind::Browser, _) => {
                (runtime.fingerprint.clone(), runtime.layout.clone(), SandboxKind::Shell)
            }
        };
        let fingerprint = shape.with_own(&current::own_settings(&self.own, backend, &layout));
        let agent = match sandbox.scope.value {
            Scope::Shared => None,
            Scope::Session | Scope::Agent => Some(session.agent().clone()),
        };
        let target = match sandbox.scope.value {
            Scope::Session => RecreateTarget::Session(runtime.scope_key.as_str().to_owned()),
            Scope::Agent => RecreateTarget::Agent(session.agent().clone()),
            Scope::Shared => RecreateTarget::All,
        };
        Wanted {
            row: NewRow {
                name: self.name.clone(),
                kind: self.kind,
                backend,
                scope: runtime.scope_key.clone(),
                session: session.key().map(|key| key.as_str().to_owned()),
                agent,
                image: self.plan.image(),
                fingerprint: fingerprint.to_string(),
                workspace_dir: runtime.layout.mounted().to_owned(),
            },
            plan: &self.plan,
            rules: reuse::Wanted {
                name: self.name.clone(),
                fingerprint,
                recreate: Recreate { kind, target },
            },
        }
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
}

impl Plan {
    pub const fn backend(&self) -> Backend {
        match self {
            Self::Native(_) => Backend::Native,
            Self::Docker(_) => Backend::Docker,
        }
    }

    /// The image or the directory of the root; blank for the host's own programs.
    fn image(&self) -> String {
        match self {
            Self::Native(plan) => match plan.pen.root() {
                Root::HostView => String::new(),
                Root::Directory(path) => path.clone(),
            },
            Self::Docker(spec) => spec.image().to_owned(),
        }
    }
}

/// How a command's end is recorded.
pub fn ending(exited: &clawpen_wire::supervisor::Exited) -> Ending {
    use clawpen_wire::supervisor::End;
    match (exited.timed_out, exited.end) {
        (true, _) => Ending::TimedOut,
        (false, End::Code(code)) => Ending::Exit(code),
        (false, End::Signal(signal)) => Ending::Signal(signal),
    }
}

type Elapsed = (Duration, Tally);
