//! Decides which backend a sandbox is made by.
//!
//! The set is closed: a name that is not in it refuses the start, nothing falls back.

pub mod choose;

use crate::config::sandbox::SandboxConfig;

/// Who makes and keeps sandboxes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Backend {
    Native,
    Docker,
    Ssh,
    OpenShell,
    Kubernetes,
}

/// A sandbox's backend cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BackendRefused {
    #[error(
        "there is no sandbox backend `{name}` here; set agents.defaults.sandbox.backend=docker, or \
         one of {}",
        names()
    )]
    Unknown { name: String },
    #[error("the sandbox backend `ssh` needs a host; set agents.defaults.sandbox.ssh.target")]
    NoSshTarget,
}

/// Decides on the backend that `config` names.
pub fn decide(config: &SandboxConfig) -> Result<Backend, BackendRefused> {
    let name = config.backend.value.trim();
    let backend = Backend::ALL
        .into_iter()
        .find(|backend| backend.as_str().eq_ignore_ascii_case(name))
        .ok_or_else(|| BackendRefused::Unknown { name: name.to_owned() })?;
    match backend {
        Backend::Ssh if config.ssh.target.is_none() => Err(BackendRefused::NoSshTarget),
        Backend::Native
        | Backend::Docker
        | Backend::Ssh
        | Backend::OpenShell
        | Backend::Kubernetes => Ok(backend),
    }
}

impl Backend {
    /// The backend of exactly this name, as a registry keeps it.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|backend| backend.as_str() == name)
    }

    const ALL: [Self; 5] =
        [Self::Native, Self::Docker, Self::Ssh, Self::OpenShell, Self::Kubernetes];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Docker => "docker",
            Self::Ssh => "ssh",
            Self::OpenShell => "openshell",
            Self::Kubernetes => "kubernetes",
        }
    }
}

fn names() -> String {
    Backend::ALL.map(Backend::as_str).join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tree::FileId;
    use crate::config::{Config, json5};

    #[test]
    fn names_are_found_in_any_case_and_unknown_ones_refused() {
        check(r"{}", Ok(Backend::Docker));
        check(r"{backend: ' Docker '}", Ok(Backend::Docker));
        check(r"{backend: 'native'}", Ok(Backend::Native));
        check(r"{backend: 'chroot'}", Err(BackendRefused::Unknown { name: "chroot".into() }));
        check(r"{backend: 'ssh'}", Err(BackendRefused::NoSshTarget));
        check(r"{backend: 'ssh', ssh: {target: 'u@h'}}", Ok(Backend::Ssh));
    }

    #[track_caller]
    fn check(sandbox: &str, expected: Result<Backend, BackendRefused>) {
        let text = format!("{{agents: {{defaults: {{sandbox: {sandbox}}}}}}}");
        let config = Config::from_tree(json5::parse(&text, FileId(0)).unwrap().root, vec![]);
        let config = SandboxConfig::resolve(&config, None, "/state").unwrap();
        assert_eq!(decide(&config), expected, "{sandbox}");
    }
}
