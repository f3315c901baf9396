//! Tells that a running sandbox is out of date: one hash over everything that shaped it.
//!
//! Takes the effective config and the directories that are mounted; gives a [`Fingerprint`], the
//! SHA-256 of their canonical JSON. It stands on the container as a label, and a later look compares
//! it with what the config asks for by then. What does not shape a container (mode, prune limits,
//! tool lists, the way it is reached) is left out, so that changing it replaces nothing.
//!
//! Keys are sorted bytewise, where the reference sorts by the machine's locale: a container that
//! the reference made with unusual variable names is replaced once.

mod canonical;

#[cfg(test)]
mod tests;

use std::fmt::{self, Write as _};

use sha2::{Digest as _, Sha256};

use super::sandbox::{
    Amount, BrowserConfig, DockerConfig, SandboxConfig, Scope, Ulimit, WorkspaceAccess,
};
use super::setting::Setting;
use super::tree::Node;
use canonical::Canonical;

/// The hash of a sandbox's shape, in lower-case hex. Made from a shape only.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Fingerprint(String);

/// The host directories that a sandbox may mount.
#[derive(Debug, Clone, Copy)]
pub struct Directories<'a> {
    /// Mounted at the workdir.
    pub workspace: &'a str,
    /// The agent's own; mounted if the access says so.
    pub agent_workspace: &'a str,
}

impl Fingerprint {
    /// The shape of a shell sandbox. A derived user must already be in `config.docker`.
    pub fn of_shell(config: &SandboxConfig, directories: Directories<'_>) -> Self {
        let mut members = placement(config, directories);
        members.push(("docker", Some(docker(&config.docker))));
        Self::of(&Canonical::object(members))
    }

    /// The shape of a browser sandbox, locked down in the way that `epoch` names
    /// ([`super::defaults::BROWSER_SECURITY_EPOCH`]).
    pub fn of_browser(config: &SandboxConfig, directories: Directories<'_>, epoch: &str) -> Self {
        let mut members = placement(config, directories);
        members.push(("docker", Some(docker(&config.browser_docker()))));
        members.push(("browser", Some(browser(&config.browser))));
        members.push(("securityEpoch", Some(Canonical::from(epoch))));
        Self::of(&Canonical::object(members))
    }

    /// The same with settings that only clawpen has, as `(key, value)`. Without any it stays what it
    /// is: whoever uses none of them has the reference's fingerprint.
    #[must_use]
    pub fn with_own(self, settings: &[(&str, String)]) -> Self {
        if settings.is_empty() {
            return self;
        }
        let own = settings.iter().map(|(key, value)| (*key, Some(Canonical::from(value))));
        Self::of(&Canonical::object([
            ("reference", Some(Canonical::from(&self.0))),
            ("own", Some(Canonical::object(own))),
        ]))
    }

    /// Any value of a config, however it is written.
    pub fn of_tree(node: &Node) -> Self {
        Self::of(&Canonical::from(node))
    }

    fn of(shape: &Canonical) -> Self {
        let digest = Sha256::digest(shape.to_json());
        let mut hex = String::with_capacity(2 * digest.len());
        for byte in digest {
            // Writing to a String cannot fail.
            let _ = write!(hex, "{byte:02x}");
        }
        Self(hex)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

type Members = Vec<(&'static str, Option<Canonical>)>;

/// What is mounted, and how.
///
/// A shared sandbox that mounts no agent's workspace is the same one for all agents: with their
/// directories in the hash they would take turns replacing it.
fn placement(config: &SandboxConfig, directories: Directories<'_>) -> Members {
    let access = config.workspace_access.value;
    let agent_workspace = match (config.scope.value, access) {
        (Scope::Shared, WorkspaceAccess::None) => None,
        (Scope::Shared, WorkspaceAccess::ReadOnly | WorkspaceAccess::ReadWrite)
        | (Scope::Session | Scope::Agent, _) => Some(Canonical::from(directories.agent_workspace)),
    };
    vec![
        ("workspaceAccess", Some(Canonical::from(access.as_str()))),
        ("workspaceDir", Some(Canonical::from(directories.workspace))),
        ("agentWorkspaceDir", agent_workspace),
    ]
}

fn docker(docker: &DockerConfig) -> Canonical {
    // Taken apart in full: a new key must be thought about here.
    let DockerConfig {
        image,
        container_prefix,
        workdir,
        read_only_root,
        tmpfs,
        network,
        user,
        cap_drop,
        env,
        setup_command,
        pids_limit,
        memory,
        memory_swap,
        cpus,
        gpus,
        ulimits,
        seccomp_profile,
        apparmor_profile,
        dns,
        extra_hosts,
        binds,
        allow_reserved_container_targets,
        allow_external_bind_sources,
        allow_container_namespace_join,
    } = docker;
    Canonical::object([
        ("image", Some(value(image))),
        ("containerPrefix", Some(value(container_prefix))),
        ("workdir", Some(value(workdir))),
        ("readOnlyRoot", Some(value(read_only_root))),
        ("tmpfs", Some(value(tmpfs))),
        ("network", Some(value(network))),
        ("user", user.as_ref().map(value)),
        ("capDrop", Some(value(cap_drop))),
        ("env", Some(map(env))),
        ("setupCommand", setup_command.as_ref().map(value)),
        ("pidsLimit", pids_limit.as_ref().map(value)),
        ("memory", memory.as_ref().map(value)),
        ("memorySwap", memory_swap.as_ref().map(value)),
        ("cpus", cpus.as_ref().map(value)),
        ("gpus", gpus.as_ref().map(value)),
        ("ulimits", ulimits.as_deref().map(map)),
        ("seccompProfile", seccomp_profile.as_ref().map(value)),
        ("apparmorProfile", apparmor_profile.as_ref().map(value)),
        ("dns", dns.as_ref().map(value)),
        ("extraHosts", extra_hosts.as_ref().map(value)),
        ("binds", binds.as_ref().map(|all| Canonical::List(all.iter().map(value).collect()))),
        (
            "dangerouslyAllowReservedContainerTargets",
            allow_reserved_container_targets.as_ref().map(value),
        ),
        ("dangerouslyAllowExternalBindSources", allow_external_bind_sources.as_ref().map(value)),
        (
            "dangerouslyAllowContainerNamespaceJoin",
            allow_container_namespace_join.as_ref().map(value),
        ),
    ])
}

fn browser(browser: &BrowserConfig) -> Canonical {
    // Image, network and binds are part of the container; the rest does not shape it.
    let BrowserConfig {
        enabled: _,
        image: _,
        container_prefix: _,
        network: _,
        cdp_port,
        vnc_port,
        no_vnc_port,
        cdp_source_range: _,
        headless,
        enable_no_vnc,
        allow_host_control: _,
        auto_start: _,
        auto_start_timeout_ms: _,
        binds: _,
    } = browser;
    Canonical::object([
        ("cdpPort", Some(value(cdp_port))),
        ("vncPort", Some(value(vnc_port))),
        ("noVncPort", Some(value(no_vnc_port))),
        ("headless", Some(value(headless))),
        ("enableNoVnc", Some(value(enable_no_vnc))),
        ("cdpSourceRange", browser.cdp_source().map(Canonical::from)),
    ])
}

fn value<'a, T>(setting: &'a Setting<T>) -> Canonical
where
    Canonical: From<&'a T>,
{
    Canonical::from(&setting.value)
}

fn map<'a, T>(members: &'a [(String, Setting<T>)]) -> Canonical
where
    Canonical: From<&'a T>,
{
    Canonical::object(members.iter().map(|(key, setting)| (key.as_str(), Some(value(setting)))))
}

impl From<&Amount> for Canonical {
    fn from(amount: &Amount) -> Self {
        match amount {
            Amount::Text(text) => Self::from(text),
            Amount::Number(number) => Self::Number(*number),
        }
    }
}

impl From<&Ulimit> for Canonical {
    fn from(ulimit: &Ulimit) -> Self {
        match ulimit {
            Ulimit::Text(text) => Self::from(text),
            Ulimit::Number(number) => Self::Number(*number),
            Ulimit::Pair { soft, hard } => Self::object([
                ("soft", soft.as_ref().map(Self::from)),
                ("hard", hard.as_ref().map(Self::from)),
            ]),
        }
    }
}
