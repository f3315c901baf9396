//! The effective sandbox config of one agent: every question answered, every answer with its origin.
//!
//! Made by [`super::resolve`] only. Key names and meanings are the reference's
//! (`agents.defaults.sandbox`, `agents.list[].sandbox`).

use super::defaults;
use super::setting::{Origin, Setting};

/// `sandbox.mode`: which sessions run in a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SandboxMode {
    Off,
    NonMain,
    All,
}

/// `sandbox.scope`: which sessions share one sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    Session,
    Agent,
    Shared,
}

/// `sandbox.workspaceAccess`: what of the agent's workspace the sandbox sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WorkspaceAccess {
    None,
    ReadOnly,
    ReadWrite,
}

/// Everything under `sandbox`.
#[derive(Debug, Clone, PartialEq)]
pub struct SandboxConfig {
    pub mode: Setting<SandboxMode>,
    /// Trimmed; compared without regard to case.
    pub backend: Setting<String>,
    pub scope: Setting<Scope>,
    pub workspace_access: Setting<WorkspaceAccess>,
    pub workspace_root: Setting<String>,
    pub docker: DockerConfig,
    pub ssh: SshConfig,
    pub browser: BrowserConfig,
    pub prune: PruneConfig,
}

/// `sandbox.docker`: the shape of the container, and of the native pen where the key has a meaning.
#[derive(Debug, Clone, PartialEq)]
pub struct DockerConfig {
    pub image: Setting<String>,
    pub container_prefix: Setting<String>,
    pub workdir: Setting<String>,
    pub read_only_root: Setting<bool>,
    pub tmpfs: Setting<Vec<String>>,
    pub network: Setting<String>,
    pub user: Option<Setting<String>>,
    pub cap_drop: Setting<Vec<String>>,
    /// In the order they reach the container; each variable has its own origin.
    pub env: Vec<(String, Setting<String>)>,
    /// A list is joined with newlines.
    pub setup_command: Option<Setting<String>>,
    /// Numbers stay as written; the config's schema checks their range, the spec uses only positive ones.
    pub pids_limit: Option<Setting<f64>>,
    pub memory: Option<Setting<Amount>>,
    pub memory_swap: Option<Setting<Amount>>,
    pub cpus: Option<Setting<f64>>,
    pub gpus: Option<Setting<String>>,
    pub ulimits: Option<Vec<(String, Setting<Ulimit>)>>,
    pub seccomp_profile: Option<Setting<String>>,
    pub apparmor_profile: Option<Setting<String>>,
    pub dns: Option<Setting<Vec<String>>>,
    pub extra_hosts: Option<Setting<Vec<String>>>,
    /// Defaults first, then the agent's; each bind has its own origin. An empty list only where a
    /// browser's own empty list replaced it.
    pub binds: Option<Vec<Setting<String>>>,
    pub allow_reserved_container_targets: Option<Setting<bool>>,
    pub allow_external_bind_sources: Option<Setting<bool>>,
    pub allow_container_namespace_join: Option<Setting<bool>>,
}

/// A size written as text (`"1g"`) or as a plain number; the two are told apart in the fingerprint.
#[derive(Debug, Clone, PartialEq)]
pub enum Amount {
    Text(String),
    Number(f64),
}

/// One entry of `docker.ulimits`.
#[derive(Debug, Clone, PartialEq)]
pub enum Ulimit {
    Text(String),
    Number(f64),
    Pair { soft: Option<f64>, hard: Option<f64> },
}

/// `sandbox.ssh`; blank strings count as absent.
#[derive(Debug, Clone, PartialEq)]
pub struct SshConfig {
    pub target: Option<Setting<String>>,
    pub command: Setting<String>,
    pub workspace_root: Setting<String>,
    pub strict_host_key_checking: Setting<bool>,
    pub update_host_keys: Setting<bool>,
    pub identity_file: Option<Setting<String>>,
    pub certificate_file: Option<Setting<String>>,
    pub known_hosts_file: Option<Setting<String>>,
    pub identity_data: Option<Setting<SecretInput>>,
    pub certificate_data: Option<Setting<SecretInput>>,
    pub known_hosts_data: Option<Setting<SecretInput>>,
}

/// A secret as the config gives it. The value itself is never printed.
#[derive(Clone, PartialEq)]
pub enum SecretInput {
    Inline(String),
    /// `{source, provider, id}`: looked up when it is needed.
    Reference {
        source: String,
        provider: Option<String>,
        id: String,
    },
}

impl std::fmt::Debug for SecretInput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Inline(_) => f.write_str("Inline(***)"),
            Self::Reference { source, provider, id } => f
                .debug_struct("Reference")
                .field("source", source)
                .field("provider", provider)
                .field("id", id)
                .finish(),
        }
    }
}

/// `sandbox.browser`.
#[derive(Debug, Clone, PartialEq)]
pub struct BrowserConfig {
    pub enabled: Setting<bool>,
    pub image: Setting<String>,
    pub container_prefix: Setting<String>,
    pub network: Setting<String>,
    pub cdp_port: Setting<f64>,
    pub vnc_port: Setting<f64>,
    pub no_vnc_port: Setting<f64>,
    pub cdp_source_range: Option<Setting<String>>,
    pub headless: Setting<bool>,
    /// Written as `enableNoVnc`, in newer configs as `noVncEnabled`.
    pub enable_no_vnc: Setting<bool>,
    pub allow_host_control: Setting<bool>,
    pub auto_start: Setting<bool>,
    pub auto_start_timeout_ms: Setting<f64>,
    /// Present (even empty) it replaces `docker.binds` for the browser; absent it inherits them.
    pub binds: Option<Vec<Setting<String>>>,
}

/// `sandbox.prune`; zero switches a rule off.
#[derive(Debug, Clone, PartialEq)]
pub struct PruneConfig {
    pub idle_hours: Setting<f64>,
    pub max_age_days: Setting<f64>,
}

/// Who owns a directory, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    pub uid: u32,
    pub gid: u32,
}

impl SandboxConfig {
    /// The shape of the browser's container: the shell's, with the browser's own image, network
    /// and, if it has any, binds.
    pub fn browser_docker(&self) -> DockerConfig {
        let network = match self.browser.network.value.trim() {
            "" => Setting::new(
                defaults::BROWSER_NETWORK.to_owned(),
                Origin::built_in("agents.defaults.sandbox.browser.network"),
            ),
            trimmed => Setting::new(trimmed.to_owned(), self.browser.network.origin.clone()),
        };
        let binds = self.browser.binds.clone().or_else(|| self.docker.binds.clone());
        let image = self.browser.image.clone();
        DockerConfig { image, network, binds, ..self.docker.clone() }
    }
}

impl DockerConfig {
    /// Fills a blank `user` with the owner of the directory that is mounted at the workdir, so
    /// that what the sandbox writes belongs to whom the workspace belongs.
    pub fn run_as_owner(&mut self, owner: Owner) {
        if self.user.as_ref().is_some_and(|user| !user.value.trim().is_empty()) {
            return;
        }
        let origin = Origin::derived("agents.defaults.sandbox.docker.user");
        self.user = Some(Setting::new(format!("{}:{}", owner.uid, owner.gid), origin));
    }
}

impl BrowserConfig {
    /// The addresses that may reach the browser's debug port; blank counts as absent.
    pub fn cdp_source(&self) -> Option<&str> {
        let range = self.cdp_source_range.as_ref()?.value.trim();
        Some(range).filter(|range| !range.is_empty())
    }
}

impl SecretInput {
    pub(super) fn is_blank(&self) -> bool {
        match self {
            Self::Inline(text) => text.trim().is_empty(),
            Self::Reference { source: _, provider: _, id } => id.trim().is_empty(),
        }
    }
}

impl SandboxMode {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::NonMain => "non-main",
            Self::All => "all",
        }
    }

    /// Exact spelling only: ` all` and `ALL` are mistakes, not modes.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Off, Self::NonMain, Self::All].into_iter().find(|mode| mode.as_str() == text)
    }
}

impl Scope {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Agent => "agent",
            Self::Shared => "shared",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        [Self::Session, Self::Agent, Self::Shared].into_iter().find(|scope| scope.as_str() == text)
    }
}

impl WorkspaceAccess {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::ReadOnly => "ro",
            Self::ReadWrite => "rw",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        [Self::None, Self::ReadOnly, Self::ReadWrite]
            .into_iter()
            .find(|access| access.as_str() == text)
    }
}
