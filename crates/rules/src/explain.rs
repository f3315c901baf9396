//! All decisions for one session, put together for `explain` and `why`.
//!
//! Nothing is decided here: each answer comes from the function that also decides when a tool is
//! called, so what is explained is what will happen. Facts about the machine come in as [`Facts`].

pub mod origins;

use std::fmt;

use crate::browser::{self, BrowserDecision, BrowserPlan, BrowserRefused, BrowserSpec};
use crate::config::Config;
use crate::config::defaults;
use crate::config::fingerprint::{self, Fingerprint};
use crate::config::own::OwnConfig;
use crate::config::resolve::{ResolveError, ignored_by_shared_scope};
use crate::config::sandbox::{Owner, SandboxConfig, Scope};
use crate::config::setting::{Layer, Origin, Setting};
use crate::container::{
    ContainerRefused, ContainerSpec, DirectoryOrigins, Identity, WorkspaceLabel,
};
use crate::elevated::{self, Channel, ElevatedReport};
use crate::enforcement::{self, Unenforced};
use crate::environment::Filter;
use crate::host_files::HostFiles;
use crate::mounts::{BindPolicy, CheckedBind, KnownPlaces, MountTable, TablePlan};
use crate::scope::{ContainerName, ScopeKey};
use crate::session::{self, Placement, Session};
use crate::tool_policy::subagent::{SpawnDepth, SubagentRole};
use crate::tool_policy::{self, Compat, Layers, SandboxPolicy, Tool, ToolPlacement, chat::Chat};
use crate::workspace::{self, Directories, HostSkills, Layout};

/// What has been read.
#[derive(Debug, Clone, Copy)]
pub struct Configs<'a> {
    pub config: &'a Config,
    pub own: &'a OwnConfig,
}

/// What has been found out on the machine.
#[derive(Debug, Clone)]
pub struct Facts {
    pub state_dir: String,
    pub agent_workspace: Setting<String>,
    /// Owner of the directory that is mounted at the workdir, or of whoever would make it.
    pub owner: Option<Owner>,
    pub known_places: KnownPlaces,
    pub host_skills: HostSkills,
    /// The channel that the session's record names.
    pub recorded_channel: Option<String>,
    /// Channels that exist here.
    pub channels: Vec<String>,
    pub now_ms: u64,
}

/// Everything that is in force for one session.
#[derive(Debug, Clone)]
pub struct Explanation {
    pub session: Session,
    pub sandbox: SandboxConfig,
    pub placement: Placement,
    pub policy: SandboxPolicy,
    pub layers: Layers,
    pub elevated: ElevatedReport,
    /// The sandbox that a sandboxed session uses, or would use.
    pub runtime: Runtime,
    /// Keys that are set and would not be honoured, and unknown backends.
    pub unenforced: Vec<Unenforced>,
    /// Blocks that the agent wrote and that a shared sandbox ignores.
    pub ignored: Vec<Origin>,
}

/// The sandbox of a session.
#[derive(Debug, Clone)]
pub struct Runtime {
    pub scope_key: ScopeKey,
    pub name: ContainerName,
    pub layout: Layout,
    pub fingerprint: Fingerprint,
    /// The container, or why it may not be made.
    pub spec: Result<ContainerSpec, ContainerRefused>,
    /// The browser's container, or why it may not be made; `None` if the session gets no browser.
    pub browser: Option<Result<BrowserSpec, BrowserRefused>>,
    pub bind_policy: BindPolicy,
}

/// Why the sandbox of a session would not be started.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum StartRefused<'a> {
    Unenforced(&'a Unenforced),
    Container(&'a ContainerRefused),
    Browser(&'a BrowserRefused),
}

/// Without the key that set it: see [`Explanation::refusals`].
impl fmt::Display for StartRefused<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unenforced(unenforced) => unenforced.fmt(f),
            Self::Container(refused) => refused.problem.fmt(f),
            Self::Browser(BrowserRefused::Container(refused)) => refused.problem.fmt(f),
            Self::Browser(refused) => refused.fmt(f),
        }
    }
}

/// A question that has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExplainError {
    #[error("the config has no meaning for this agent")]
    Resolve(#[source] ResolveError),
}

/// Where the sandbox of a session would be mounted from; needed to look up [`Facts::owner`].
pub fn layout(
    configs: Configs<'_>,
    session: &Session,
    state_dir: &str,
    agent_workspace: &str,
) -> Result<Layout, ExplainError> {
    let sandbox = SandboxConfig::resolve(configs.config, Some(session.agent()), state_dir)
        .map_err(ExplainError::Resolve)?;
    Ok(plan(&sandbox, session, agent_workspace))
}

/// Puts everything together.
pub fn explain(
    configs: Configs<'_>,
    session: Session,
    facts: &Facts,
    files: &impl HostFiles,
) -> Result<Explanation, ExplainError> {
    let agent = session.agent().clone();
    let mut sandbox = SandboxConfig::resolve(configs.config, Some(&agent), &facts.state_dir)
        .map_err(ExplainError::Resolve)?;
    let own = configs.own.resolve(&agent);
    sandbox.backend = stronger(own.backend.clone(), sandbox.backend);
    if let Some(owner) = facts.owner {
        sandbox.docker.run_as_owner(owner);
    }
    let placement = session::decide(sandbox.mode.value, &session);
    let registered: Vec<&str> = facts.channels.iter().map(String::as_str).collect();
    let key = session.key().map_or("", |key| key.as_str());
    let channel = Channel::of_session(facts.recorded_channel.as_deref(), key, &registered);
    let layers = layers(configs, &session, place_of_tools(&placement, &sandbox));
    let filter = Filter::except_credentials().with_opt_in(own.env_allow.value);
    let policy = SandboxPolicy::resolve(configs.config, &agent);
    let made = Made {
        session: &session,
        sandbox: &sandbox,
        policy: &policy,
        filter: &filter,
        label: own.docker.workspace_label.value,
    };
    let runtime = made.runtime(facts, files);
    let unenforced = enforcement::decide(configs.config, &agent, &sandbox).err();
    Ok(Explanation {
        policy,
        elevated: elevated::report(configs.config, &agent, channel),
        unenforced: unenforced.unwrap_or_default(),
        ignored: ignored_by_shared_scope(configs.config, &agent),
        session,
        sandbox,
        placement,
        layers,
        runtime,
    })
}

impl Explanation {
    /// Says whether the session's tools run in a sandbox.
    pub const fn is_sandboxed(&self) -> bool {
        match self.placement {
            Placement::Direct(_) => false,
            Placement::Sandboxed(_) => true,
        }
    }

    /// The layers of policy for tools that act in the sandbox although the mode does not ask for one:
    /// a door that only has sandboxes holds its sessions to the sandbox's policy.
    pub fn layers_inside(&self, configs: Configs<'_>) -> Layers {
        layers(configs, &self.session, inside(&self.sandbox))
    }

    /// Whether the session's sandbox has a browser.
    pub fn browser(&self) -> BrowserDecision {
        let layers = Layers::of_sandbox(&self.policy);
        let tool = tool_policy::decide(&layers, &Tool::core("browser"));
        browser::decide(&self.sandbox.browser, &tool)
    }

    /// Why the session's sandbox would not be started, each with what set the value if that is known.
    /// What stops the shell and the browser alike is named once.
    pub fn refusals(&self) -> Vec<(StartRefused<'_>, Option<&Origin>)> {
        let unenforced = self.unenforced.iter();
        let mut refusals: Vec<(StartRefused<'_>, Option<&Origin>)> = unenforced
            .map(|unenforced| (StartRefused::Unenforced(unenforced), Some(unenforced.origin())))
            .collect();
        if let Err(refused) = &self.runtime.spec {
            refusals.push((StartRefused::Container(refused), refused.origin.as_ref()));
        }
        if let Some(Err(refused)) = &self.runtime.browser {
            let refusal = StartRefused::Browser(refused);
            let is_known =
                |(known, _): &(StartRefused<'_>, _)| known.to_string() == refusal.to_string();
            if !refusals.iter().any(is_known) {
                refusals.push((refusal, refused.origin(&self.sandbox)));
            }
        }
        refusals
    }

    /// The host directories that the sandbox sees. A spec that is refused shows no binds: nothing
    /// of it will ever be mounted.
    pub fn mount_table(&self) -> MountTable {
        let layout = &self.runtime.layout;
        let (binds, tmpfs): (Vec<&str>, &[String]) = match &self.runtime.spec {
            Ok(spec) => (spec.binds().iter().map(CheckedBind::text).collect(), spec.tmpfs()),
            Err(_) => (Vec::new(), &[]),
        };
        MountTable::new(&TablePlan {
            workspace: layout.mounted(),
            agent_workspace: layout.agent(),
            access: layout.access(),
            workdir: layout.workdir(),
            binds: &binds,
            tmpfs,
        })
        .with_skills(layout.skills_mount())
    }
}

/// The more specific layer wins; within one layer our own file does.
pub fn stronger(own: Option<Setting<String>>, other: Setting<String>) -> Setting<String> {
    match own {
        Some(own)
            if own.origin.layer >= other.origin.layer || other.origin.layer == Layer::BuiltIn =>
        {
            own
        }
        Some(_) | None => other,
    }
}

fn place_of_tools(placement: &Placement, sandbox: &SandboxConfig) -> ToolPlacement {
    match placement {
        Placement::Direct(_) => ToolPlacement::Host,
        Placement::Sandboxed(_) => inside(sandbox),
    }
}

fn inside(sandbox: &SandboxConfig) -> ToolPlacement {
    ToolPlacement::Sandbox { access: sandbox.workspace_access.clone() }
}

fn layers(configs: Configs<'_>, session: &Session, placement: ToolPlacement) -> Layers {
    let key = session.key().map_or("", |key| key.as_str());
    let own = configs.own.resolve(session.agent());
    let facts = tool_policy::Session {
        placement,
        chat: Chat::of_session_key(key),
        subagent: session
            .key()
            .filter(|key| key.is_subagent())
            .and_then(|key| SpawnDepth::of_session_key(key.as_str()))
            .map(|depth| SubagentRole::at_depth(configs.config, depth)),
        compat: Compat { implicit_profile_widening: own.implicit_tool_grants.value },
        ..tool_policy::Session::host(session.agent().clone())
    };
    Layers::resolve(configs.config, &facts)
}

fn plan(sandbox: &SandboxConfig, session: &Session, agent_workspace: &str) -> Layout {
    let scope = sandbox.scope.value;
    let key = ScopeKey::new(scope, session);
    Layout::plan(
        sandbox.workspace_access.value,
        &Directories {
            sandbox: workspace::private_directory(&sandbox.workspace_root.value, &key, scope),
            agent: agent_workspace.to_owned(),
            workdir: sandbox.docker.workdir.value.clone(),
        },
    )
}

/// What a sandbox is made from, as far as the config says.
struct Made<'a> {
    session: &'a Session,
    /// With the derived user in it.
    sandbox: &'a SandboxConfig,
    policy: &'a SandboxPolicy,
    filter: &'a Filter,
    label: WorkspaceLabel,
}

impl Made<'_> {
    fn runtime(&self, facts: &Facts, files: &impl HostFiles) -> Runtime {
        let sandbox = self.sandbox;
        let scope: Scope = sandbox.scope.value;
        let scope_key = ScopeKey::new(scope, self.session);
        let name = scope_key.container_name(scope, &sandbox.docker.container_prefix.value);
        // A browser reads no skills.
        let plain = plan(sandbox, self.session, &facts.agent_workspace.value);
        let layout = plain.clone().with_host_skills(facts.host_skills);
        let directories = fingerprint::Directories {
            workspace: layout.mounted(),
            agent_workspace: layout.agent(),
        };
        let fingerprint = Fingerprint::of_shell(sandbox, directories);
        let known = self.known_places(facts);
        let bind_policy = BindPolicy::resolve(&sandbox.docker, &layout.bind_roots(), &known, files);
        let bind_policy = match layout.skills_mount() {
            Some(mount) => bind_policy.with_own(&mount.source, files),
            None => bind_policy,
        };
        let identity = Identity {
            name: name.clone(),
            scope: scope_key.clone(),
            created_at_ms: facts.now_ms,
            fingerprint: Some(fingerprint.clone()),
        };
        let origins = DirectoryOrigins {
            root: sandbox.workspace_root.origin.clone(),
            agent: facts.agent_workspace.origin.clone(),
        };
        let image = sandbox.docker.image.clone();
        let spec = ContainerSpec::locked_down(identity.clone(), &layout, image)
            .configured(&sandbox.docker, self.filter)
            .label_workspace(self.label)
            .directories_set_by(origins)
            .build(&bind_policy, files);
        let browser_name = scope_key.container_name(scope, &sandbox.browser.container_prefix.value);
        let of_browser =
            Fingerprint::of_browser(sandbox, directories, defaults::BROWSER_SECURITY_EPOCH);
        let identity = Identity { name: browser_name, fingerprint: Some(of_browser), ..identity };
        let browser = self.browser(identity, &plain, &known, files);
        Runtime { scope_key, name, layout, fingerprint, spec, browser, bind_policy }
    }

    /// The machine's places, and the workspaces of other sandboxes.
    fn known_places(&self, facts: &Facts) -> KnownPlaces {
        let mut known = facts.known_places.clone();
        known.private.push(self.sandbox.workspace_root.value.clone());
        known
    }

    fn browser(
        &self,
        identity: Identity,
        layout: &Layout,
        known: &KnownPlaces,
        files: &impl HostFiles,
    ) -> Option<Result<BrowserSpec, BrowserRefused>> {
        let layers = Layers::of_sandbox(self.policy);
        let tool = tool_policy::decide(&layers, &Tool::core("browser"));
        match browser::decide(&self.sandbox.browser, &tool) {
            BrowserDecision::Start => {}
            BrowserDecision::NotEnabled(_) | BrowserDecision::ToolDenied => return None,
        }
        let docker = self.sandbox.browser_docker();
        let policy = BindPolicy::resolve(&docker, &layout.bind_roots(), known, files);
        let plan = BrowserPlan {
            identity,
            layout,
            config: self.sandbox,
            filter: self.filter,
            password: None,
        };
        Some(BrowserSpec::build(plan, &policy, files))
    }
}
