//! Turns the config as written into the effective config of one agent: built-in < defaults < agent.
//!
//! Takes the loaded [`Config`], the agent (or none) and the state directory; gives a
//! [`SandboxConfig`] in which every value knows which layer set it, under which key, in which line.
//! Reads no file. A value of the wrong type counts as absent; validation is the schema's work.
//!
//! A shared sandbox belongs to no agent, so with scope `shared` the agent's `docker`, `ssh`,
//! `browser` and `prune` blocks are left out; [`ignored_by_shared_scope`] names them.

mod layers;

#[cfg(test)]
pub(crate) mod tests;

use super::defaults;
use super::sandbox::{
    Amount, BrowserConfig, DockerConfig, PruneConfig, SandboxConfig, SandboxMode, Scope,
    SecretInput, SshConfig, Ulimit, WorkspaceAccess,
};
use super::setting::{Layer, Origin, Setting};
use super::tree::{Node, Value};
use super::{Config, tree};
use crate::ids::AgentId;
use crate::posix;
use layers::{Layers, overlay};

/// The config has no meaning for this agent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    #[error("`{}` must be an absolute POSIX path, not `{value}`; start it with `/`", origin.key)]
    RelativeSshRoot { value: String, origin: Origin },
}

impl SandboxConfig {
    /// The effective sandbox config of `agent`; without an agent, of whoever has no entry.
    pub fn resolve(
        config: &Config,
        agent: Option<&AgentId>,
        state_dir: &str,
    ) -> Result<Self, ResolveError> {
        let layers = Layers::sandbox(config, agent);
        let scope = scope(&layers);
        let shaping = match scope.value {
            Scope::Shared => layers.without_agent(),
            Scope::Session | Scope::Agent => layers.clone(),
        };
        let mode = |node: &Node| SandboxMode::parse(node.as_str()?);
        let access = |node: &Node| WorkspaceAccess::parse(node.as_str()?);
        let root = || posix::join(state_dir, defaults::WORKSPACE_ROOT);
        Ok(Self {
            mode: layers.pick_or("mode", mode, defaults::MODE),
            backend: layers
                .pick("backend", trimmed)
                .unwrap_or_else(|| layers.built_in("backend", defaults::BACKEND.to_owned())),
            scope,
            workspace_access: layers.pick_or("workspaceAccess", access, defaults::WORKSPACE_ACCESS),
            workspace_root: layers.pick_or("workspaceRoot", text, root()),
            docker: docker(&shaping.block("docker")),
            ssh: ssh(&shaping.block("ssh"))?,
            browser: browser(&shaping.block("browser")),
            prune: prune(&shaping.block("prune")),
        })
    }
}

/// The blocks that `agent` wrote but that have no effect, because its sandbox is a shared one.
pub fn ignored_by_shared_scope(config: &Config, agent: &AgentId) -> Vec<Origin> {
    let layers = Layers::sandbox(config, Some(agent));
    match scope(&layers).value {
        Scope::Session | Scope::Agent => Vec::new(),
        Scope::Shared => ["docker", "ssh", "browser", "prune"]
            .iter()
            .filter_map(|block| layers.agent_origin(block))
            .collect(),
    }
}

/// `scope` of either layer comes before `perSession` of either: the old key counts only where
/// nobody uses the new one.
fn scope(layers: &Layers<'_>) -> Setting<Scope> {
    let scope = layers.pick("scope", |node| Scope::parse(node.as_str()?));
    let legacy = || {
        let per_session = layers.pick("perSession", Node::as_bool)?;
        Some(per_session.map(|each| if each { Scope::Session } else { Scope::Shared }))
    };
    scope.or_else(legacy).unwrap_or_else(|| layers.built_in("scope", defaults::SCOPE))
}

fn docker(layers: &Layers<'_>) -> DockerConfig {
    let text_or = |key, built_in: &str| layers.pick_or(key, text, built_in.to_owned());
    let list_or = |key, built_in: &[&str]| layers.pick_or(key, texts, owned(built_in));
    DockerConfig {
        image: text_or("image", defaults::IMAGE),
        container_prefix: text_or("containerPrefix", defaults::CONTAINER_PREFIX),
        workdir: text_or("workdir", defaults::WORKDIR),
        read_only_root: layers.pick_or("readOnlyRoot", Node::as_bool, defaults::READ_ONLY_ROOT),
        tmpfs: list_or("tmpfs", &defaults::TMPFS),
        network: text_or("network", defaults::NETWORK),
        user: layers.pick("user", text),
        cap_drop: list_or("capDrop", &defaults::CAP_DROP),
        env: env(layers),
        setup_command: layers.pick("setupCommand", lines),
        pids_limit: layers.pick("pidsLimit", Node::as_number),
        memory: layers.pick("memory", amount),
        memory_swap: layers.pick("memorySwap", amount),
        cpus: layers.pick("cpus", Node::as_number),
        gpus: layers.pick("gpus", text),
        ulimits: ulimits(layers),
        seccomp_profile: layers.pick("seccompProfile", text),
        apparmor_profile: layers.pick("apparmorProfile", text),
        dns: layers.pick("dns", texts),
        extra_hosts: layers.pick("extraHosts", texts),
        binds: layers.joined("binds").filter(|binds| !binds.is_empty()),
        allow_reserved_container_targets: layers
            .pick("dangerouslyAllowReservedContainerTargets", Node::as_bool),
        allow_external_bind_sources: layers
            .pick("dangerouslyAllowExternalBindSources", Node::as_bool),
        allow_container_namespace_join: layers
            .pick("dangerouslyAllowContainerNamespaceJoin", Node::as_bool),
    }
}

/// The defaults' variables, or the built-in ones if there are none, under the agent's.
fn env(layers: &Layers<'_>) -> Vec<(String, Setting<String>)> {
    let built_in = || {
        let setting = |(name, value): &(&str, &str)| {
            let key = tree::join_key("env", name);
            ((*name).to_owned(), layers.built_in(&key, (*value).to_owned()))
        };
        defaults::ENV.iter().map(setting).collect()
    };
    let mut env = layers.members(Layer::Defaults, "env", text).unwrap_or_else(built_in);
    env.extend(layers.members(Layer::Agent, "env", text).unwrap_or_default());
    overlay(env)
}

fn ulimits(layers: &Layers<'_>) -> Option<Vec<(String, Setting<Ulimit>)>> {
    let defaults = layers.members(Layer::Defaults, "ulimits", ulimit);
    let agent = layers.members(Layer::Agent, "ulimits", ulimit);
    if defaults.is_none() && agent.is_none() {
        return None;
    }
    Some(overlay(defaults.into_iter().chain(agent).flatten().collect()))
}

fn ssh(layers: &Layers<'_>) -> Result<SshConfig, ResolveError> {
    // The agent's value is taken even if it is blank: so an agent can drop a value of the defaults.
    let optional = |key| {
        let picked = layers.pick(key, text)?.map(|value| value.trim().to_owned());
        Some(picked).filter(|picked| !picked.value.is_empty())
    };
    let data = |key| layers.pick(key, secret).filter(|picked| !picked.value.is_blank());
    Ok(SshConfig {
        target: optional("target"),
        command: optional("command")
            .unwrap_or_else(|| layers.built_in("command", defaults::SSH_COMMAND.to_owned())),
        workspace_root: match optional("workspaceRoot") {
            Some(written) => ssh_root(written)?,
            None => layers.built_in("workspaceRoot", defaults::SSH_WORKSPACE_ROOT.to_owned()),
        },
        strict_host_key_checking: layers.pick_or(
            "strictHostKeyChecking",
            Node::as_bool,
            defaults::SSH_STRICT_HOST_KEY_CHECKING,
        ),
        update_host_keys: layers.pick_or(
            "updateHostKeys",
            Node::as_bool,
            defaults::SSH_UPDATE_HOST_KEYS,
        ),
        identity_file: optional("identityFile"),
        certificate_file: optional("certificateFile"),
        known_hosts_file: optional("knownHostsFile"),
        identity_data: data("identityData"),
        certificate_data: data("certificateData"),
        known_hosts_data: data("knownHostsData"),
    })
}

/// Slashes forward, none at the end. `..` stays: only the remote host knows where a link leads.
fn ssh_root(written: Setting<String>) -> Result<Setting<String>, ResolveError> {
    let forward = written.value.replace('\\', "/");
    if !forward.starts_with('/') {
        let Setting { value, origin } = written;
        return Err(ResolveError::RelativeSshRoot { value, origin });
    }
    let root = forward.trim_end_matches('/');
    Ok(written.map(|_| if root.is_empty() { "/".to_owned() } else { root.to_owned() }))
}

fn browser(layers: &Layers<'_>) -> BrowserConfig {
    let text_or = |key, built_in: &str| layers.pick_or(key, text, built_in.to_owned());
    let flag_or = |key, built_in| layers.pick_or(key, Node::as_bool, built_in);
    let number_or = |key, built_in| layers.pick_or(key, Node::as_number, built_in);
    BrowserConfig {
        enabled: flag_or("enabled", defaults::BROWSER_ENABLED),
        image: text_or("image", defaults::BROWSER_IMAGE),
        container_prefix: text_or("containerPrefix", defaults::BROWSER_CONTAINER_PREFIX),
        network: text_or("network", defaults::BROWSER_NETWORK),
        cdp_port: number_or("cdpPort", defaults::BROWSER_CDP_PORT),
        vnc_port: number_or("vncPort", defaults::BROWSER_VNC_PORT),
        no_vnc_port: number_or("noVncPort", defaults::BROWSER_NO_VNC_PORT),
        cdp_source_range: layers.pick("cdpSourceRange", text),
        headless: flag_or("headless", defaults::BROWSER_HEADLESS),
        enable_no_vnc: layers
            .pick_named(&["noVncEnabled", "enableNoVnc"], Node::as_bool)
            .unwrap_or_else(|| layers.built_in("enableNoVnc", defaults::BROWSER_ENABLE_NO_VNC)),
        allow_host_control: flag_or("allowHostControl", defaults::BROWSER_ALLOW_HOST_CONTROL),
        auto_start: flag_or("autoStart", defaults::BROWSER_AUTO_START),
        auto_start_timeout_ms: number_or(
            "autoStartTimeoutMs",
            defaults::BROWSER_AUTO_START_TIMEOUT_MS,
        ),
        binds: layers.joined("binds"),
    }
}

fn prune(layers: &Layers<'_>) -> PruneConfig {
    let hours = defaults::PRUNE_IDLE_HOURS;
    let days = defaults::PRUNE_MAX_AGE_DAYS;
    PruneConfig {
        idle_hours: layers.pick_or("idleHours", Node::as_number, hours),
        max_age_days: layers.pick_or("maxAgeDays", Node::as_number, days),
    }
}

fn text(node: &Node) -> Option<String> {
    node.as_str().map(str::to_owned)
}

/// A text without the space around it; blank counts as absent.
fn trimmed(node: &Node) -> Option<String> {
    node.as_str().map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned)
}

/// The strings of a list; other items were reported by the schema.
fn texts(node: &Node) -> Option<Vec<String>> {
    Some(node.as_array()?.iter().filter_map(text).collect())
}

/// A text, or a list of its lines.
fn lines(node: &Node) -> Option<String> {
    text(node).or_else(|| Some(texts(node)?.join("\n")))
}

fn amount(node: &Node) -> Option<Amount> {
    let number = || node.as_number().map(Amount::Number);
    text(node).map(Amount::Text).or_else(number)
}

fn ulimit(node: &Node) -> Option<Ulimit> {
    match &node.value {
        Value::String(text) => Some(Ulimit::Text(text.clone())),
        Value::Number(number) => Some(Ulimit::Number(*number)),
        Value::Object(pair) => {
            let part = |key| pair.get(key).and_then(Node::as_number);
            Some(Ulimit::Pair { soft: part("soft"), hard: part("hard") })
        }
        Value::Null | Value::Bool(_) | Value::Array(_) => None,
    }
}

fn secret(node: &Node) -> Option<SecretInput> {
    if let Some(inline) = node.as_str() {
        return Some(SecretInput::Inline(inline.trim().to_owned()));
    }
    let part = |key| node.get(key).and_then(text);
    Some(SecretInput::Reference {
        source: part("source")?,
        provider: part("provider"),
        id: part("id")?,
    })
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&text| text.to_owned()).collect()
}
