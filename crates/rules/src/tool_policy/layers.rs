//! The layers of policy that one session is under, in the order they apply.
//!
//! ```text
//! workspace access ─ apply_patch ─ group names ─ memory flush ─ message provider ─ owner ─ profile
//!   ─ provider profile ─ global ─ global provider ─ agent ─ agent provider ─ chat ─ sandbox
//!   ─ sub-agent ─ direct call
//! ```
//!
//! Built once for a session from the config and the facts in [`Session`]; every tool, whatever its
//! source, is then asked of the same value. A layer can only take tools away.

use super::chat::Chat;
use super::list::{List, Named, Side, Written};
use super::name::{Tool, ToolName};
use super::sandbox::SandboxPolicy;
use super::section::Section;
use super::subagent::{SubagentPolicy, SubagentRole};
use super::warning::{self, Problem, Warning};
use crate::config::Config;
use crate::config::sandbox::WorkspaceAccess;
use crate::config::setting::{Layer, Origin, Setting};
use crate::ids::AgentId;

mod built_in;
mod profile;

/// What is known of a session and of who speaks in it.
#[derive(Debug, Clone)]
pub struct Session {
    pub agent: AgentId,
    pub placement: ToolPlacement,
    /// The model that will call the tools; `None` where no model of ours does, as over MCP.
    pub model: Option<Model>,
    pub sender: SenderStanding,
    pub trigger: Trigger,
    /// The channel the message came in by, such as `voice`.
    pub message_provider: Option<String>,
    pub chat: Option<Chat>,
    pub subagent: Option<SubagentRole>,
    pub door: Door,
    pub compat: Compat,
    /// Tools beyond the catalogue, so that their names are no mistakes in a list.
    pub offered: Vec<Tool>,
}

/// Where the tools of a session act.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolPlacement {
    Host,
    Sandbox { access: Setting<WorkspaceAccess> },
}

/// A model, as `tools.byProvider` names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Model {
    pub provider: String,
    pub id: Option<String>,
}

/// Whether the owner speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SenderStanding {
    Owner,
    Other,
}

/// What started the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trigger {
    Message,
    /// The run that writes down what should be remembered.
    MemoryFlush,
}

/// How the call reaches us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Door {
    /// From an agent's turn.
    Agent,
    /// `POST /tools/invoke`: a program calls one tool by name.
    DirectInvoke,
}

/// Switches that bring back unsafe behaviour of the reference; all off unless `clawpen.json` sets
/// them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Compat {
    /// A `tools.exec` or `tools.fs` section adds its tools to the profile.
    pub implicit_profile_widening: bool,
}

/// Which layer a rule belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LayerKind {
    /// Names that only groups have.
    GroupNames,
    WorkspaceAccess,
    ApplyPatch,
    MemoryFlush,
    MessageProvider,
    OwnerOnly,
    /// With the profile's name as written.
    Profile(String),
    ProviderProfile(String),
    Global,
    GlobalProvider,
    Agent(AgentId),
    AgentProvider(AgentId),
    Chat,
    Sandbox,
    Subagent,
    DirectInvoke,
}

/// What lets a tool through a layer that stops it, where no written deny entry is in the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Remedy {
    /// One more entry, the tool's name, in this list.
    AddTool {
        key: String,
    },
    /// One more entry in this list.
    AddEntry {
        key: String,
        entry: String,
    },
    Set {
        key: String,
        value: String,
    },
    /// Another profile: this scope has allow entries and so may not have `alsoAllow`.
    WiderProfile {
        key: String,
    },
    OwnerSpeaks,
    None,
}

/// One layer, compiled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyLayer {
    pub kind: LayerKind,
    pub(super) allow: List,
    pub(super) deny: List,
    /// Where the allow list is written.
    pub(super) allow_origin: Origin,
    pub(super) remedy: Remedy,
}

/// Every layer of one session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layers {
    pub(super) layers: Vec<PolicyLayer>,
    warnings: Vec<Warning>,
}

impl Session {
    /// The owner, at the host, in an agent's turn without a chat.
    pub fn host(agent: AgentId) -> Self {
        Self {
            agent,
            placement: ToolPlacement::Host,
            model: None,
            sender: SenderStanding::Owner,
            trigger: Trigger::Message,
            message_provider: None,
            chat: None,
            subagent: None,
            door: Door::Agent,
            compat: Compat::default(),
            offered: Vec::new(),
        }
    }
}

impl LayerKind {
    /// The layer's name in messages, in the reference's spelling where it has one.
    pub fn label(&self) -> String {
        match self {
            Self::GroupNames => "group-names".to_owned(),
            Self::WorkspaceAccess => "sandbox.workspaceAccess".to_owned(),
            Self::ApplyPatch => "tools.exec.applyPatch".to_owned(),
            Self::MemoryFlush => "memory-flush".to_owned(),
            Self::MessageProvider => "message-provider".to_owned(),
            Self::OwnerOnly => "owner-only".to_owned(),
            Self::Profile(name) => format!("tools.profile ({name})"),
            Self::ProviderProfile(name) => format!("tools.byProvider.profile ({name})"),
            Self::Global => "tools.allow".to_owned(),
            Self::GlobalProvider => "tools.byProvider.allow".to_owned(),
            Self::Agent(id) => format!("agents.{id}.tools.allow"),
            Self::AgentProvider(id) => format!("agents.{id}.tools.byProvider.allow"),
            Self::Chat => "group tools.allow".to_owned(),
            Self::Sandbox => "sandbox tools.allow".to_owned(),
            Self::Subagent => "subagent tools.allow".to_owned(),
            Self::DirectInvoke => "gateway.tools".to_owned(),
        }
    }
}

impl PolicyLayer {
    /// A layer of lists that are written in the config or built in.
    pub(super) fn new(kind: LayerKind, allow: &[Written], deny: &[Written]) -> Self {
        let allow_origin = allow.first().map(|entry| entry.origin.clone());
        Self {
            kind,
            allow: List::compile(Side::Allow, allow),
            deny: List::compile(Side::Deny, deny),
            allow_origin: allow_origin.unwrap_or_else(|| Origin::derived("")),
            remedy: Remedy::None,
        }
    }

    fn of_sandbox(policy: &SandboxPolicy) -> Self {
        Self {
            kind: LayerKind::Sandbox,
            allow: List::of(Side::Allow, &policy.allow),
            deny: List::of(Side::Deny, &policy.deny),
            allow_origin: policy.allow_origin(),
            remedy: Remedy::AddTool { key: policy.add_key.clone() },
        }
    }

    pub(super) fn with_remedy(self, remedy: Remedy) -> Self {
        Self { remedy, ..self }
    }
}

impl Layers {
    /// Every layer that a session is under.
    pub fn resolve(config: &Config, session: &Session) -> Self {
        let mut building = Building::new(config, session);
        building.push(built_in::workspace_access(&session.placement));
        building.push(built_in::apply_patch(config, session));
        building.pipeline();
        building.done()
    }

    /// The layers for tools that a caller has already built: without the two that say which file
    /// tools are made at all.
    pub fn pipeline(config: &Config, session: &Session) -> Self {
        let mut building = Building::new(config, session);
        building.pipeline();
        building.done()
    }

    /// One policy on its own, as a layer of the global section.
    pub fn of_policy(allow: &[&str], deny: &[&str]) -> Self {
        let written = |list: &[&str], key: &str| -> Vec<Written> {
            let entry = |text: &&str| Written {
                text: (*text).to_owned(),
                origin: Origin { layer: Layer::Defaults, key: key.to_owned(), place: None },
            };
            list.iter().map(entry).collect()
        };
        let layer = PolicyLayer::new(
            LayerKind::Global,
            &written(allow, "tools.allow"),
            &written(deny, "tools.deny"),
        );
        let remedy = Remedy::AddTool { key: "tools.allow".to_owned() };
        Self { layers: vec![layer.with_remedy(remedy)], warnings: Vec::new() }
    }

    /// The sandbox policy on its own.
    pub fn of_sandbox(policy: &SandboxPolicy) -> Self {
        let warnings = policy.warnings.clone();
        Self { layers: vec![PolicyLayer::of_sandbox(policy)], warnings }
    }

    /// What the author of the config should know.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    pub fn iter(&self) -> impl Iterator<Item = &PolicyLayer> {
        self.layers.iter()
    }
}

/// Collects the layers in order.
struct Building<'a> {
    config: &'a Config,
    session: &'a Session,
    layers: Vec<PolicyLayer>,
    warnings: Vec<Warning>,
}

impl<'a> Building<'a> {
    fn new(config: &'a Config, session: &'a Session) -> Self {
        Self { config, session, layers: Vec::new(), warnings: Vec::new() }
    }

    fn done(self) -> Layers {
        Layers { layers: self.layers, warnings: self.warnings }
    }

    fn push(&mut self, layer: Option<PolicyLayer>) {
        self.layers.extend(layer);
    }

    /// Adds the policy of a section, if it has one.
    fn push_section(&mut self, kind: LayerKind, section: Option<&Section>) {
        let Some((section, lists)) = section.and_then(|section| Some((section, section.pick()?)))
        else {
            return;
        };
        let allow = lists.allow.unwrap_or_default();
        let deny = lists.deny.unwrap_or_default();
        self.warn_about_allow(&allow);
        let remedy = Remedy::AddTool { key: format!("{}.allow", section.key) };
        let layer = PolicyLayer::new(kind, &allow, &deny).with_remedy(remedy);
        self.push_with_deny(layer, &deny);
    }

    fn warn_about_allow(&mut self, list: &[Written]) {
        self.warnings.extend(warning::check(list, &self.session.offered));
    }

    /// Adds a layer whose deny list was written as `deny`. A slip of the finger there must not open
    /// what it was meant to close, so the nearest tool is denied too, and the author is told.
    fn push_with_deny(&mut self, mut layer: PolicyLayer, deny: &[Written]) {
        for mut warning in warning::check(deny, &self.session.offered) {
            if let Problem::UnknownName { nearest: Some(nearest) } = &warning.problem {
                let nearest = ToolName::normalize(nearest).as_str().to_owned();
                layer.deny.push(&warning.entry, &warning.origin, nearest.clone());
                warning.problem = Problem::DeniesNearest { nearest };
            }
            self.warnings.push(warning);
        }
        self.layers.push(layer);
    }

    fn pipeline(&mut self) {
        let (config, session) = (self.config, self.session);
        self.push(Some(built_in::group_names()));
        self.push(built_in::memory_flush(session.trigger));
        self.push(built_in::message_provider(session.message_provider.as_deref()));
        self.push(built_in::owner_only(session.sender));
        let scopes = profile::Scopes::read(config, session);
        self.profile(LayerKind::Profile, scopes.profile(session.compat));
        self.profile(LayerKind::ProviderProfile, scopes.provider_profile());
        let id = || session.agent.clone();
        self.push_section(LayerKind::Global, scopes.global.section());
        self.push_section(LayerKind::GlobalProvider, scopes.global_provider.section());
        self.push_section(LayerKind::Agent(id()), scopes.agent.section());
        self.push_section(LayerKind::AgentProvider(id()), scopes.agent_provider.section());
        let chat = session.chat.as_ref().and_then(|chat| chat.section(config));
        self.push_section(LayerKind::Chat, chat.as_ref());
        match session.placement {
            ToolPlacement::Host => {}
            ToolPlacement::Sandbox { .. } => self.sandbox(),
        }
        if let Some(role) = session.subagent {
            self.subagent(role);
        }
        match session.door {
            Door::Agent => {}
            Door::DirectInvoke => self.layers.push(built_in::direct_invoke(config)),
        }
    }

    fn profile(&mut self, kind: fn(String) -> LayerKind, found: Option<profile::Found>) {
        let Some(found) = found else { return };
        self.warnings.extend(found.warning);
        let (allow, deny) = (found.allow, found.deny);
        self.warn_about_allow(&found.also_allow);
        let layer = PolicyLayer::new(kind(found.name), &allow, &deny);
        self.layers.push(layer.with_remedy(found.remedy));
    }

    fn sandbox(&mut self) {
        let policy = SandboxPolicy::resolve(self.config, &self.session.agent);
        self.warn_about_allow(&entries(&policy.allow));
        self.warnings.extend(policy.warnings.iter().cloned());
        self.push_with_deny(PolicyLayer::of_sandbox(&policy), &entries(&policy.deny));
    }

    fn subagent(&mut self, role: SubagentRole) {
        let policy = SubagentPolicy::resolve(self.config, role);
        let allow = policy.allow.unwrap_or_default();
        self.warn_about_allow(&allow);
        let layer = PolicyLayer::new(LayerKind::Subagent, &allow, &policy.deny);
        let layer = layer.with_remedy(Remedy::AddTool { key: policy.add_key });
        self.push_with_deny(layer, &policy.deny);
    }
}

/// The entries that a list of names came from; the names of one entry stand together.
fn entries(list: &[Named]) -> Vec<Written> {
    let mut written: Vec<Written> = Vec::new();
    for named in list {
        if written.last() != Some(&named.written) {
            written.push(named.written.clone());
        }
    }
    written
}
