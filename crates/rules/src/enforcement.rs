//! Refuses what the config asks for and this build would not enforce.
//!
//! A key that is read and not honoured is a lie: the session would be called sandboxed in a way it
//! is not. So it stops the start, and its name says why.

use crate::config::Config;
use crate::config::setting::{Layer, Origin, Setting};
use crate::ids::AgentId;

/// What can run a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Backend {
    Docker,
    Native,
    Ssh,
    OpenShell,
    Kubernetes,
}

/// Why no sandbox can be started like this.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unenforced {
    #[error("`{}` is set, and this build does not enforce it; remove the key", .origin.key)]
    Key { origin: Origin },
    #[error(
        "`{name}` in `{}` is no backend of this build; use docker, native, ssh, openshell or kubernetes",
        .origin.key
    )]
    UnknownBackend { name: String, origin: Origin },
}

/// Keys that the loader accepts and nobody enforces yet.
const NOT_ENFORCED: [&str; 3] = ["networkAllow", "networkExecAllow", "networkDocker"];

impl Backend {
    pub const ALL: [Self; 5] =
        [Self::Docker, Self::Native, Self::Ssh, Self::OpenShell, Self::Kubernetes];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Native => "native",
            Self::Ssh => "ssh",
            Self::OpenShell => "openshell",
            Self::Kubernetes => "kubernetes",
        }
    }

    /// Case and blanks around it do not matter, as in the reference.
    pub fn parse(text: &str) -> Option<Self> {
        let name = text.trim().to_ascii_lowercase();
        Self::ALL.into_iter().find(|backend| backend.as_str() == name)
    }
}

/// Decides whether everything that `agent`'s sandbox asks for is enforced; otherwise says what not.
pub fn decide(
    config: &Config,
    agent: &AgentId,
    backend: &Setting<String>,
) -> Result<Backend, Vec<Unenforced>> {
    let blocks = [
        (Layer::Defaults, config.at(&["agents", "defaults", "sandbox"])),
        (Layer::Agent, config.agent(agent).and_then(|entry| entry.get("sandbox"))),
    ];
    let mut found = Vec::new();
    for (layer, block) in &blocks {
        for key in NOT_ENFORCED {
            let Some(at) = block.as_ref().and_then(|block| block.get(key)) else { continue };
            // An empty list asks for nothing.
            if at.node.as_array().is_none_or(|items| !items.is_empty()) {
                found.push(Unenforced::Key { origin: Origin::written(*layer, &at) });
            }
        }
    }
    let known = Backend::parse(&backend.value);
    if known.is_none() {
        let (name, origin) = (backend.value.clone(), backend.origin.clone());
        found.push(Unenforced::UnknownBackend { name, origin });
    }
    match known {
        Some(backend) if found.is_empty() => Ok(backend),
        Some(_) | None => Err(found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::json5;
    use crate::config::tree::FileId;

    #[track_caller]
    fn check(text: &str, backend: &str, expected: Result<Backend, &[&str]>) {
        let config = Config::from_tree(json5::parse(text, FileId(0)).unwrap().root, Vec::new());
        let backend = Setting::new(backend.to_owned(), Origin::built_in("b"));
        let found = decide(&config, &AgentId::main(), &backend).map_err(|found| {
            let key = |unenforced: Unenforced| match unenforced {
                Unenforced::Key { origin } | Unenforced::UnknownBackend { origin, .. } => {
                    origin.key
                }
            };
            found.into_iter().map(key).collect::<Vec<_>>()
        });
        let found = match &found {
            Ok(backend) => Ok(*backend),
            Err(keys) => Err(keys.iter().map(String::as_str).collect::<Vec<_>>()),
        };
        assert_eq!(found, expected.map_err(<[&str]>::to_vec), "{text}");
    }

    #[test]
    fn a_key_without_effect_stops_the_start() {
        check("{}", " Docker ", Ok(Backend::Docker));
        check("{}", "dokcer", Err(&["b"]));
        check(
            "{agents: {defaults: {sandbox: {networkAllow: ['x'], networkExecAllow: []}}, \
             list: [{id: 'main', sandbox: {networkDocker: {}}}]}}",
            "native",
            Err(&["agents.defaults.sandbox.networkAllow", "agents.list.0.sandbox.networkDocker"]),
        );
    }
}
