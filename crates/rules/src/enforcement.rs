//! Refuses what the config asks for and this build would not enforce.
//!
//! A key that is read and not honoured is a lie: the session would be called sandboxed in a way it
//! is not. So it stops the start, and its name says why.

use crate::backend::{self, Backend, BackendRefused};
use crate::config::Config;
use crate::config::sandbox::SandboxConfig;
use crate::config::setting::{Layer, Origin, Setting};
use crate::ids::AgentId;

/// Why no sandbox can be started like this.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unenforced {
    #[error("`{}` is set, and this build does not enforce it; remove the key", .origin.key)]
    Key { origin: Origin },
    #[error("{refused}")]
    Backend { refused: BackendRefused, origin: Origin },
    #[error(
        "the sandbox backend `{}` has nothing for what `{}` asks; remove the key, or use the backend \
         `docker`",
        .backend.as_str(), .origin.key
    )]
    NotOnBackend { backend: Backend, origin: Origin },
}

impl Unenforced {
    /// What asked for it.
    pub const fn origin(&self) -> &Origin {
        match self {
            Self::Key { origin }
            | Self::Backend { origin, .. }
            | Self::NotOnBackend { origin, .. } => origin,
        }
    }
}

/// Keys that the loader accepts and nobody enforces yet.
const NOT_ENFORCED: [&str; 3] = ["networkAllow", "networkExecAllow", "networkDocker"];

/// Decides whether everything that `agent`'s sandbox asks for is enforced; otherwise says what not.
pub fn decide(
    config: &Config,
    agent: &AgentId,
    sandbox: &SandboxConfig,
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
    match backend::decide(sandbox) {
        Ok(backend) => {
            let missing = missing_on(backend, sandbox).into_iter();
            found.extend(missing.map(|origin| Unenforced::NotOnBackend { backend, origin }));
            if found.is_empty() { Ok(backend) } else { Err(found) }
        }
        Err(refused) => {
            let origin = sandbox.backend.origin.clone();
            found.push(Unenforced::Backend { refused, origin });
            Err(found)
        }
    }
}

/// What a sandbox asks for and its backend cannot give. Only Docker has browsers. Where the workspace
/// is copied to another machine there is nothing to bind; without an engine there are neither its
/// networks and name servers nor its profiles: a native pen has a filter of its own and no network.
fn missing_on(backend: Backend, sandbox: &SandboxConfig) -> Vec<Origin> {
    let docker = &sandbox.docker;
    let browser = sandbox.browser.enabled.value.then(|| sandbox.browser.enabled.origin.clone());
    let binds = docker.binds.iter().flatten().next().map(|bind| bind.origin.clone());
    let missing = match backend {
        Backend::Docker => Vec::new(),
        Backend::Ssh | Backend::OpenShell | Backend::Kubernetes => vec![browser, binds],
        Backend::Native => {
            let network = &docker.network;
            let is_none = network.value.trim().eq_ignore_ascii_case("none");
            let text = |setting: &Option<Setting<String>>| {
                setting.as_ref().map(|setting| setting.origin.clone())
            };
            let list = |setting: &Option<Setting<Vec<String>>>| {
                let setting = setting.as_ref().filter(|setting| !setting.value.is_empty());
                setting.map(|setting| setting.origin.clone())
            };
            vec![
                browser,
                (!is_none).then(|| network.origin.clone()),
                text(&docker.seccomp_profile),
                text(&docker.apparmor_profile),
                text(&docker.gpus),
                list(&docker.dns),
                list(&docker.extra_hosts),
            ]
        }
    };
    missing.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::json5;
    use crate::config::tree::FileId;

    #[track_caller]
    fn check(text: &str, expected: Result<Backend, &[&str]>) {
        let config = Config::from_tree(json5::parse(text, FileId(0)).unwrap().root, Vec::new());
        let sandbox = SandboxConfig::resolve(&config, Some(&AgentId::main()), "/s").unwrap();
        let found = decide(&config, &AgentId::main(), &sandbox).map_err(|found| {
            let key = |unenforced: Unenforced| match unenforced {
                Unenforced::Key { origin } => origin.key,
                Unenforced::Backend { .. } => "backend".to_owned(),
                Unenforced::NotOnBackend { backend, origin } => {
                    format!("{} {}", backend.as_str(), origin.key)
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
    fn what_a_backend_lacks_stops_the_start() {
        let ssh = "backend: 'ssh', ssh: {target: 'u@h'}";
        let sandbox = |keys: &str| format!("{{agents: {{defaults: {{sandbox: {{{keys}}}}}}}}}");
        check(&sandbox(ssh), Ok(Backend::Ssh));
        let keys = "browser: {enabled: true}, docker: {binds: ['/a:/b']}";
        check(
            &sandbox(&format!("{ssh}, {keys}")),
            Err(&[
                "ssh agents.defaults.sandbox.browser.enabled",
                "ssh agents.defaults.sandbox.docker.binds.0",
            ]),
        );
        check(&sandbox(&format!("backend: 'docker', {keys}")), Ok(Backend::Docker));
        check(
            &sandbox("backend: 'native', docker: {network: 'none', dns: [], binds: ['/a:/b']}"),
            Ok(Backend::Native),
        );
        check(
            &sandbox("backend: 'native', docker: {network: 'bridge', seccompProfile: '/p.json'}"),
            Err(&[
                "native agents.defaults.sandbox.docker.network",
                "native agents.defaults.sandbox.docker.seccompProfile",
            ]),
        );
    }

    #[test]
    fn a_key_without_effect_stops_the_start() {
        check("{}", Ok(Backend::Docker));
        check("{agents: {defaults: {sandbox: {backend: 'dokcer'}}}}", Err(&["backend"]));
        check("{agents: {defaults: {sandbox: {backend: 'ssh'}}}}", Err(&["backend"]));
        check(
            "{agents: {defaults: {sandbox: {networkAllow: ['x'], networkExecAllow: []}}, \
             list: [{id: 'main', sandbox: {networkDocker: {}, sessionToolsVisibility: 'all'}}]}}",
            Err(&["agents.defaults.sandbox.networkAllow", "agents.list.0.sandbox.networkDocker"]),
        );
    }
}
