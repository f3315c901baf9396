//! Decides which backend a sandbox is made by.
//!
//! The set is closed: a name that is not in it refuses the start, nothing falls back.

pub mod choose;

use crate::config::sandbox::{SandboxConfig, SandboxMode};
use crate::config::setting::{Layer, Setting};

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

/// What is used where the caller does not choose. Nobody chose where the built-in value stands and no sandbox is asked for,
/// because there is no config or its mode is off; whoever is put into one all the same gets a native one, which needs
/// nothing installed. One answer for all sessions of an agent: they may share a sandbox.
pub fn usual(configured: &Setting<String>, mode: SandboxMode, files: &[String]) -> String {
    let is_asked_for = match mode {
        SandboxMode::Off => false,
        SandboxMode::NonMain | SandboxMode::All => !files.is_empty(),
    };
    if configured.origin.layer == Layer::BuiltIn && !is_asked_for {
        return Backend::Native.as_str().to_owned();
    }
    configured.value.clone()
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

    #[test]
    fn where_nobody_chose_and_no_sandbox_is_asked_for_it_is_native() {
        let files = ["openclaw.json".to_owned()];
        let usual_of = |sandbox: &str, files: &[String]| {
            let config = resolve(sandbox);
            usual(&config.backend, config.mode.value, files)
        };
        for (sandbox, expected) in [
            ("{}", "native"),
            ("{mode: 'off'}", "native"),
            ("{mode: 'non-main'}", "docker"),
            ("{mode: 'all'}", "docker"),
            ("{mode: 'off', backend: 'docker'}", "docker"),
            ("{mode: 'all', backend: 'native'}", "native"),
        ] {
            assert_eq!(usual_of(sandbox, &files), expected, "{sandbox}");
        }
        assert_eq!(usual_of("{mode: 'all'}", &[]), "native", "there is no config");
    }

    #[track_caller]
    fn check(sandbox: &str, expected: Result<Backend, BackendRefused>) {
        assert_eq!(decide(&resolve(sandbox)), expected, "{sandbox}");
    }

    fn resolve(sandbox: &str) -> SandboxConfig {
        let text = format!("{{agents: {{defaults: {{sandbox: {sandbox}}}}}}}");
        let config = Config::from_tree(json5::parse(&text, FileId(0)).unwrap().root, vec![]);
        SandboxConfig::resolve(&config, None, "/state").unwrap()
    }
}
