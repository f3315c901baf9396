//! Answers the rows of `config-hash.jsonl`: do two configs make the same sandbox?

use anyhow::{Result, bail};
use clawpen_rules::config::fingerprint::{Directories, Fingerprint};
use clawpen_rules::config::sandbox::SandboxConfig;
use clawpen_rules::config::setting::{Origin, Setting};
use clawpen_rules::config::tree::{FileId, Node};
use clawpen_rules::config::{Config, defaults, json5};
use clawpen_rules::ids::AgentId;
use serde_json::{Value, json};

use super::world::World;
use super::{Answer, Row};

/// The product's answer to one row.
pub fn answer(row: &Row, world: &World) -> Result<Answer> {
    let (a, b) = (&row.input["a"], &row.input["b"]);
    let fingerprint = |side: &Value| match row.category() {
        "raw" => Ok(Fingerprint::of_tree(&tree(side)?)),
        "container" => {
            shaped(side, world, |config, directories, _| Fingerprint::of_shell(config, directories))
        }
        "browser" => shaped(side, world, Fingerprint::of_browser),
        other => bail!("unknown category `{other}`"),
    };
    Ok(Answer::Given(json!({ "same": fingerprint(a)? == fingerprint(b)? })))
}

/// The fingerprint of one side of a row: a config and the facts that go with it.
fn shaped(
    side: &Value,
    world: &World,
    fingerprint: impl Fn(&SandboxConfig, Directories<'_>, &str) -> Fingerprint,
) -> Result<Fingerprint> {
    let config = Config::from_tree(tree(&side["config"])?, Vec::new());
    let agent = side["agentId"].as_str().map(AgentId::normalize);
    let mut config = SandboxConfig::resolve(&config, agent.as_ref(), world.get("STATE_DIR"))?;
    if let Some(user) = side["user"].as_str() {
        let origin = Origin::derived("agents.defaults.sandbox.docker.user");
        config.docker.user.get_or_insert_with(|| Setting::new(user.to_owned(), origin));
    }
    let directory = |key: &str| side["dirs"][key].as_str().unwrap_or("/somewhere");
    let directories = Directories {
        workspace: directory("workspaceDir"),
        agent_workspace: directory("agentWorkspaceDir"),
    };
    let epoch = side["epoch"].as_str().unwrap_or(defaults::BROWSER_SECURITY_EPOCH);
    Ok(fingerprint(&config, directories, epoch))
}

fn tree(value: &Value) -> Result<Node> {
    Ok(json5::parse(&value.to_string(), FileId(0))?.root)
}
