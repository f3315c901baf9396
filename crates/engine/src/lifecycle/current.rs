//! What the config says now about a sandbox that is written down: is it still what it would be?

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::PathBuf;
use std::rc::Rc;

use clawpen_rules::backend::{self, Backend};
use clawpen_rules::config::defaults;
use clawpen_rules::config::fingerprint::{Directories, Fingerprint};
use clawpen_rules::config::own::OwnSettings;
use clawpen_rules::config::sandbox::{Owner, PruneConfig, SandboxConfig, Scope, WorkspaceAccess};
use clawpen_rules::container::WorkspaceLabel;
use clawpen_rules::explain::stronger;
use clawpen_rules::ids::AgentId;
use clawpen_rules::session::Session;
use clawpen_rules::workspace::{self, HostSkills, Layout};

use crate::config_store::Store;
use crate::explain::owner;
use crate::registry::{Kind, Row};
use crate::workspaces;

/// A sandbox as the config would make it now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Current {
    /// `None` if it names one that this build does not know.
    pub backend: Option<Backend>,
    pub image: String,
    /// `None` where it depends on who asks: a shared sandbox with an agent's workspace.
    pub fingerprint: Option<String>,
}

/// Answers for many rows; each agent's config is worked out once.
#[derive(Debug)]
pub struct Currents<'a> {
    store: &'a Store,
    agents: RefCell<HashMap<AgentId, Option<Rc<OfAgent>>>>,
    /// Whose directories there are, by agent: nearly always one owner's.
    owned: RefCell<HashMap<AgentId, (Owner, Rc<SandboxConfig>)>>,
}

#[derive(Debug)]
struct OfAgent {
    sandbox: Rc<SandboxConfig>,
    own: OwnSettings,
    workspace: String,
    host_skills: HostSkills,
}

impl<'a> Currents<'a> {
    pub fn new(store: &'a Store) -> Self {
        Self { store, agents: RefCell::default(), owned: RefCell::default() }
    }

    /// What the sandbox of a row would be now; `None` if the config has no answer.
    pub fn of(&self, row: &Row) -> Option<Current> {
        let id = self.owner(row);
        let agent = self.agent(&id)?;
        let scope = agent.sandbox.scope.value;
        let layout = layout(&agent.sandbox, row, &agent.workspace);
        let sandbox = match owner(layout.mounted()) {
            Some(owner) => self.owned_by(owner, &id, &agent),
            None => Rc::clone(&agent.sandbox),
        };
        let backend = row.backend;
        let is_everyones = match (scope, sandbox.workspace_access.value) {
            (Scope::Shared, WorkspaceAccess::ReadOnly | WorkspaceAccess::ReadWrite) => false,
            (Scope::Shared, WorkspaceAccess::None) | (Scope::Session | Scope::Agent, _) => true,
        };
        let fingerprint = is_everyones.then(|| {
            let directories =
                Directories { workspace: layout.mounted(), agent_workspace: layout.agent() };
            match row.kind {
                Kind::Sandbox => {
                    let shape = Fingerprint::of_shell(&sandbox, directories);
                    let layout = layout.with_host_skills(agent.host_skills);
                    shape.with_own(&own_settings(&agent.own, backend, &layout)).to_string()
                }
                Kind::Browser => {
                    let epoch = defaults::BROWSER_SECURITY_EPOCH;
                    let shape = Fingerprint::of_browser(&sandbox, directories, epoch);
                    // A browser reads no skills.
                    shape.with_own(&own_settings(&agent.own, backend, &layout)).to_string()
                }
            }
        });
        Some(Current {
            backend: self.backend(row, &agent),
            image: match row.kind {
                Kind::Sandbox => image(&agent, backend),
                Kind::Browser => agent.sandbox.browser.image.value.clone(),
            },
            fingerprint,
        })
    }

    /// The limits of the agent that owns a sandbox; `None` if its config has no meaning.
    pub fn limits(&self, row: &Row) -> Option<PruneConfig> {
        Some(self.agent(&self.owner(row))?.sandbox.prune.clone())
    }

    /// The private workspace of a row, if the config still says that it is that and no agent's own.
    pub fn private_directory(&self, row: &Row) -> Option<PathBuf> {
        let agent = self.agent(&self.owner(row))?;
        let layout = layout(&agent.sandbox, row, &agent.workspace);
        let directory = layout.private().filter(|private| *private == row.workspace_dir)?;
        Some(PathBuf::from(directory))
    }

    /// Where the host's skills for a row are kept, if it works in its agent's own workspace.
    pub fn skills_directory(&self, row: &Row) -> Option<PathBuf> {
        let agent = self.agent(&self.owner(row))?;
        let layout = layout(&agent.sandbox, row, &agent.workspace);
        layout.skills_directory().map(PathBuf::from)
    }

    /// The owner's own settings.
    pub fn own(&self, row: &Row) -> OwnSettings {
        self.store.loaded.own.resolve(&self.owner(row))
    }

    fn owner(&self, row: &Row) -> AgentId {
        let of_session = || {
            let session = row.session.as_deref().unwrap_or_default();
            Session::resolve(&self.store.loaded.config, session).agent().clone()
        };
        row.agent.clone().unwrap_or_else(of_session)
    }

    /// The settings of an agent whose directory belongs to `owner`.
    fn owned_by(&self, owner: Owner, id: &AgentId, agent: &OfAgent) -> Rc<SandboxConfig> {
        let mut known = self.owned.borrow_mut();
        if let Some((of, sandbox)) = known.get(id)
            && *of == owner
        {
            return Rc::clone(sandbox);
        }
        let mut sandbox = SandboxConfig::clone(&agent.sandbox);
        sandbox.docker.run_as_owner(owner);
        let sandbox = Rc::new(sandbox);
        known.insert(id.clone(), (owner, Rc::clone(&sandbox)));
        sandbox
    }

    fn agent(&self, id: &AgentId) -> Option<Rc<OfAgent>> {
        let mut known = self.agents.borrow_mut();
        if let Some(found) = known.get(id) {
            return found.clone();
        }
        let work_out = || {
            let Store { locations, loaded, .. } = self.store;
            let sandbox =
                SandboxConfig::resolve(&loaded.config, Some(id), &locations.state_dir).ok()?;
            let workspace = locations.agent_workspace(&loaded.config, id).value;
            // Any scope's will do: what is asked of it is the access.
            let directories = workspace::Directories {
                sandbox: sandbox.workspace_root.value.clone(),
                agent: workspace.clone(),
                workdir: sandbox.docker.workdir.value.clone(),
            };
            let layout = Layout::plan(sandbox.workspace_access.value, &directories);
            Some(Rc::new(OfAgent {
                sandbox: Rc::new(sandbox),
                own: loaded.own.resolve(id),
                workspace,
                host_skills: workspaces::host_skills(self.store, &layout),
            }))
        };
        let found = work_out();
        known.insert(id.clone(), found.clone());
        found
    }

    /// The configured backend. A sandbox that was asked for on another one has a name that says so,
    /// and stays there.
    fn backend(&self, row: &Row, agent: &OfAgent) -> Option<Backend> {
        let scope = agent.sandbox.scope.value;
        let prefix = match row.kind {
            Kind::Sandbox => &agent.sandbox.docker.container_prefix.value,
            Kind::Browser => &agent.sandbox.browser.container_prefix.value,
        };
        if row.name != row.scope.container_name(scope, prefix).as_str() {
            return Some(row.backend);
        }
        let configured = stronger(agent.own.backend.clone(), agent.sandbox.backend.clone());
        let mode = agent.sandbox.mode.value;
        Backend::parse(&backend::usual(&configured, mode, self.store.loaded.config.files()))
    }
}

fn layout(sandbox: &SandboxConfig, row: &Row, agent_workspace: &str) -> Layout {
    let (root, scope) = (&sandbox.workspace_root.value, sandbox.scope.value);
    let directories = workspace::Directories {
        sandbox: workspace::private_directory(root, &row.scope, scope),
        agent: agent_workspace.to_owned(),
        workdir: sandbox.docker.workdir.value.clone(),
    };
    Layout::plan(sandbox.workspace_access.value, &directories)
}

/// What a sandbox is made of: an image, or an unpacked one, or nothing but the host's programs.
fn image(agent: &OfAgent, backend: Backend) -> String {
    match backend {
        Backend::Native => {
            agent.own.native.rootfs.as_ref().map(|rootfs| rootfs.value.clone()).unwrap_or_default()
        }
        Backend::Docker | Backend::Ssh | Backend::OpenShell | Backend::Kubernetes => {
            agent.sandbox.docker.image.value.clone()
        }
    }
}

/// What of ours shapes a sandbox and is not in the reference's hash.
pub(crate) fn own_settings(
    own: &OwnSettings,
    backend: Backend,
    layout: &Layout,
) -> Vec<(&'static str, String)> {
    let mut settings = Vec::new();
    // The first skill of the host brings a mount that a sandbox made before has not.
    if let Some(mount) = layout.skills_mount() {
        settings.push(("hostSkills", mount.target));
    }
    if !own.env_allow.value.is_empty() {
        settings.push(("envAllow", own.env_allow.value.join(",")));
    }
    let label = own.docker.workspace_label.value;
    if backend == Backend::Docker && label != WorkspaceLabel::None {
        settings.push(("workspaceLabel", label.as_str().to_owned()));
    }
    if backend == Backend::Native {
        let rootfs = own.native.rootfs.as_ref().map(|rootfs| rootfs.value.clone());
        settings.extend(rootfs.map(|rootfs| ("rootfs", rootfs)));
        let require = own.native.require.as_ref().map(|require| require.value.join(","));
        settings.extend(require.map(|require| ("require", require)));
    }
    settings
}
