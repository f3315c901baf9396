//! Refuses what the config asks for and this build would not enforce.
//!
//! A key that is read and not honoured is a lie: the session would be called sandboxed in a way it
//! is not. So it stops the start, and its name says why.

use crate::backend::{self, Backend, BackendRefused};
use crate::config::Config;
use crate::config::sandbox::SandboxConfig;
use crate::config::setting::{Layer, Origin};
use crate::ids::AgentId;

/// Why no sandbox can be started like this.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unenforced {
    #[error("`{}` is set, and this build does not enforce it; remove the key", .origin.key)]
    Key { origin: Origin },
    #[error("{0}")]
    Backend(BackendRefused),
}

/// Keys that the loader accepts and nobody enforces yet.
const NOT_ENFORCED: [&str; 4] =
    ["networkAllow", "networkExecAllow", "networkDocker", "sessionToolsVisibility"];

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
        Ok(backend) if found.is_empty() => Ok(backend),
        Ok(_) => Err(found),
        Err(refused) => {
            found.push(Unenforced::Backend(refused));
            Err(found)
        }
    }
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
                Unenforced::Backend(_) => "backend".to_owned(),
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
        check("{}", Ok(Backend::Docker));
        check("{agents: {defaults: {sandbox: {backend: 'dokcer'}}}}", Err(&["backend"]));
        check("{agents: {defaults: {sandbox: {backend: 'ssh'}}}}", Err(&["backend"]));
        check(
            "{agents: {defaults: {sandbox: {networkAllow: ['x'], networkExecAllow: []}}, \
             list: [{id: 'main', sandbox: {networkDocker: {}, sessionToolsVisibility: 'all'}}]}}",
            Err(&[
                "agents.defaults.sandbox.networkAllow",
                "agents.list.0.sandbox.networkDocker",
                "agents.list.0.sandbox.sessionToolsVisibility",
            ]),
        );
    }
}
