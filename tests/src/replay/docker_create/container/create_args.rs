//! `create-args` rows: the options of `docker create`, as far as they do not depend on what the
//! container is for. The layout is imagined; its mounts are no part of the answer.

use anyhow::{Context as _, Result};
use clawpen_engine::host_files::RealFiles;
use clawpen_rules::config::fingerprint::Fingerprint;
use clawpen_rules::config::sandbox::{SandboxConfig, WorkspaceAccess};
use clawpen_rules::config::tree::{Node, Value as Tree};
use clawpen_rules::container::{ContainerRefused, ContainerSpec, Identity};
use clawpen_rules::environment::Filter;
use clawpen_rules::mounts::{
    BindPolicy, Blocklist, KnownPlaces, ReservedTargets, Roots, Sources, Targets,
};
use clawpen_rules::scope::ScopeKey;
use clawpen_rules::workspace::{Directories, Layout};
use serde_json::{Value, json};

use super::{any_name, config, pairs, replace};
use crate::replay::Answer;
use crate::replay::world::World;

pub(super) fn answer(input: &Value, world: &World) -> Result<Answer> {
    Ok(Answer::Given(match spec(input, world)? {
        Err(refused) => json!({ "error": refused.to_string() }),
        Ok(spec) => json!({ "argv": argv(input, &spec)? }),
    }))
}

fn spec(input: &Value, world: &World) -> Result<Result<ContainerSpec, ContainerRefused>> {
    let mut cfg = input["cfg"].clone();
    if is_set(input, "allowContainerNamespaceJoin") {
        cfg["dangerouslyAllowContainerNamespaceJoin"] = json!(true);
    }
    let tree = config(&json!({ "agents": { "defaults": { "sandbox": { "docker": cfg } } } }))?;
    let docker = SandboxConfig::resolve(&tree, None, world.get("STATE_DIR"))?.docker;
    let scope = ScopeKey::stored(input["scopeKey"].as_str().unwrap_or_default()).context("key")?;
    let identity = Identity {
        // Swapped for the row's below.
        name: any_name(),
        scope,
        created_at_ms: input["createdAtMs"].as_u64().context("createdAtMs")?,
        fingerprint: input["configHash"].as_str().map(|_| any_fingerprint()),
    };
    let directories = Directories {
        sandbox: world.get("STATE_DIR").to_owned(),
        agent: world.get("AGENT_WORKSPACE").to_owned(),
        workdir: "/workspace".to_owned(),
    };
    let layout = Layout::plan(WorkspaceAccess::ReadWrite, &directories);
    let filter = match input["envSanitizationOptions"]["strictMode"].as_bool() {
        Some(true) => Filter::plain_names_only(),
        Some(false) | None => Filter::except_credentials(),
    };
    let mut builder = ContainerSpec::locked_down(identity, &layout, docker.image.clone())
        .configured(&docker, &filter);
    for (name, value) in pairs(&input["labels"]) {
        builder = builder.label(name, value);
    }
    Ok(builder.build(&policy(input), &RealFiles))
}

fn argv(input: &Value, spec: &ContainerSpec) -> Result<Vec<String>> {
    let mut argv = spec.option_args();
    if input["includeBinds"].as_bool() != Some(false) {
        argv.extend(spec.bind_args());
    }
    let named = spec.identity().name.as_str();
    replace(&mut argv, named, input["name"].as_str().context("name")?);
    if let (Some(fingerprint), Some(wanted)) =
        (&spec.identity().fingerprint, input["configHash"].as_str())
    {
        let label = |hash: &str| format!("openclaw.configHash={hash}");
        replace(&mut argv, &label(fingerprint.as_str()), &label(wanted));
    }
    Ok(argv)
}

fn policy(input: &Value) -> BindPolicy {
    let cfg = &input["cfg"];
    let roots: Vec<&str> = input["bindSourceRoots"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let anywhere = is_set(input, "allowSourcesOutsideAllowedRoots")
        || is_set(cfg, "dangerouslyAllowExternalBindSources")
        // The function that was recorded knows no roots unless it is told.
        || input["bindSourceRoots"].is_null();
    let sources = if anywhere {
        Sources::Anywhere
    } else {
        Sources::Below(Roots::resolve(&roots, &RealFiles))
    };
    let over = is_set(input, "allowReservedContainerTargets")
        || is_set(cfg, "dangerouslyAllowReservedContainerTargets");
    let targets =
        if over { Targets::Anywhere } else { Targets::NotOver(ReservedTargets::new("/workspace")) };
    let blocklist = Blocklist::resolve(&KnownPlaces::default(), &RealFiles);
    BindPolicy { sources, targets, blocklist }
}

fn is_set(object: &Value, key: &str) -> bool {
    object[key].as_bool() == Some(true)
}

/// Rows give hashes that no config has; ours is swapped for theirs afterwards.
pub(super) fn any_fingerprint() -> Fingerprint {
    Fingerprint::of_tree(&Node::synthetic(Tree::Null))
}
