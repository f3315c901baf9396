//! Answers the rows about one agent's config, the reuse of its container, and pruning.

mod shape;

use anyhow::{Context as _, Result, bail};
use clawpen_rules::config::fingerprint::{Directories, Fingerprint};
use clawpen_rules::config::sandbox::{PruneConfig, SandboxConfig, Scope};
use clawpen_rules::config::setting::{Origin, Setting};
use clawpen_rules::config::tree::FileId;
use clawpen_rules::config::{Config, json5};
use clawpen_rules::ids::AgentId;
use clawpen_rules::prune::{self, Lifetime, Prune};
use clawpen_rules::reuse::{
    self, Activity, Container, Mounts, Reach, Recreate, RecreateTarget, Registry, Reuse,
    SandboxKind, Seen, State, Wanted,
};
use clawpen_rules::scope::ScopeKey;
use clawpen_rules::session::Session;
use clawpen_rules::timestamp::Timestamp;
use clawpen_rules::tool_policy::SandboxPolicy;
use serde_json::{Value, json};

use crate::replay::world::{NOW_MS, World};
use crate::replay::{Answer, Row};

pub(super) fn answer(row: &Row, world: &World) -> Result<Answer> {
    let given = match row.category() {
        "resolve" => resolve(&row.input, world)?,
        "lifecycle" => lifecycle(&row.input, world)?,
        "prune" => prune(&row.input)?,
        other => bail!("unknown category `{other}`"),
    };
    Ok(Answer::Given(given))
}

fn config(value: &Value) -> Result<Config> {
    let parsed = json5::parse(&value.to_string(), FileId(0))?;
    Ok(Config::from_tree(parsed.root, Vec::new()))
}

fn resolve(input: &Value, world: &World) -> Result<Value> {
    let agent = input["agentId"].as_str().filter(|id| !id.is_empty()).map(AgentId::normalize);
    let config = config(&input["config"])?;
    let resolved = SandboxConfig::resolve(&config, agent.as_ref(), world.get("STATE_DIR"));
    Ok(match resolved {
        Ok(sandbox) => {
            let mut shape = shape::sandbox(&sandbox);
            // Without an agent no entry counts.
            let agent = agent.unwrap_or_else(|| AgentId::normalize("nobody"));
            let policy = SandboxPolicy::resolve(&config, &agent);
            shape["tools"] = json!({ "allow": policy.allow_names(), "deny": policy.deny_names() });
            shape
        }
        Err(error) => json!({ "error": error.to_string() }),
    })
}

/// A fingerprint that no config has.
const OTHER: &str = "other";

fn lifecycle(input: &Value, world: &World) -> Result<Value> {
    let scope = input["scope"].as_str().context("scope")?;
    let config =
        config(&json!({"agents": {"defaults": {"sandbox": {"mode": "all", "scope": scope}}}}))?;
    let agent = AgentId::main();
    let sandbox = SandboxConfig::resolve(&config, Some(&agent), world.get("STATE_DIR"))?;
    let scope = sandbox.scope.value;
    let scope_key = ScopeKey::new(scope, &Session::resolve(&config, "agent:main:main"));
    let name = scope_key.container_name(scope, &sandbox.docker.container_prefix.value);
    let directories = Directories {
        workspace: &sandbox.workspace_root.value,
        agent_workspace: world.get("AGENT_WORKSPACE"),
    };
    let target = match scope {
        Scope::Session => RecreateTarget::Session(scope_key.as_str().to_owned()),
        Scope::Agent => RecreateTarget::Agent(agent),
        Scope::Shared => RecreateTarget::All,
    };
    let wanted = Wanted {
        name: name.as_str().to_owned(),
        fingerprint: Fingerprint::of_shell(&sandbox, directories),
        recreate: Recreate { kind: SandboxKind::Shell, target },
    };
    let seen = seen(input, world, &wanted)?;
    let decision = reuse::decide(&seen, &wanted, Timestamp::from_millis(NOW_MS));
    let (message, hash) = match &decision {
        Reuse::Refuse(reason) => {
            // Decided before docker was asked to do anything.
            return Ok(json!({ "error": reason.to_string(), "verbs": [] }));
        }
        Reuse::KeepStale(stale) => {
            let hash = if stale.fingerprint.is_some() { OTHER } else { "none" };
            (Some(stale.to_string()), hash)
        }
        Reuse::Create | Reuse::Keep | Reuse::Start | Reuse::Replace(_) => (None, "match"),
    };
    let had_entry = matches!(seen.registry, Registry::Entry { .. });
    let made = decision.makes_container();
    let image = if had_entry && !made { "old:1" } else { &sandbox.docker.image.value };
    Ok(json!({
        "containerName": wanted.name,
        "verbs": verbs(&seen, &decision),
        "message": message,
        "registry": {
            "entries": 1,
            "sessionKey": scope_key.as_str(),
            "image": image,
            "backendId": sandbox.backend.value,
            "hash": hash,
            "createdKept": had_entry.then_some(!made),
        },
    }))
}

/// The facts of a row.
fn seen(input: &Value, world: &World, wanted: &Wanted) -> Result<Seen> {
    let fingerprint = |hash: &Value| match hash.as_str() {
        None | Some("none") => Ok(None),
        Some("match") => Ok(Some(wanted.fingerprint.as_str().to_owned())),
        Some(OTHER) => Ok(Some(OTHER.to_owned())),
        Some(other) => bail!("unknown hash `{other}`"),
    };
    let state = match input["state"].as_str() {
        Some("absent") => None,
        Some("running") => Some(State::Running),
        Some("stopped") => Some(State::Stopped),
        _ => bail!("unknown state {}", input["state"]),
    };
    let label = fingerprint(&input["labelHash"])?;
    let container =
        state.map(|state| Container { state, label, mounts: Mounts::Same, reach: Reach::Usable });
    let registry = match &input["registry"] {
        Value::Null => Registry::NoEntry,
        Value::String(text) if is_empty_registry(text) => Registry::NoEntry,
        Value::String(_) => Registry::Unreadable {
            file: format!("{}/sandbox/containers.json", world.get("STATE_DIR")),
        },
        entry => Registry::Entry {
            last_used: entry["lastUsedAgoSec"].as_f64().map(|seconds| ago(seconds * 1000.0)),
            fingerprint: fingerprint(&entry["hash"])?,
        },
    };
    Ok(Seen { container, registry, activity: Activity::Quiet })
}

/// The text of a sound registry file that lists nothing.
fn is_empty_registry(text: &str) -> bool {
    serde_json::from_str(text).is_ok_and(|file: Value| file["entries"] == json!([]))
}

/// The docker calls of the reference that look and act in this way.
fn verbs(seen: &Seen, decision: &Reuse) -> Vec<&'static str> {
    let look: &[&str] =
        if seen.container.is_some() { &["inspect", "inspect"] } else { &["inspect"] };
    let act: &[&str] = match decision {
        Reuse::Create => &["image", "create", "start"],
        Reuse::Replace(_) => &["rm", "image", "create", "start"],
        Reuse::Start => &["start"],
        Reuse::Keep | Reuse::KeepStale(_) | Reuse::Refuse(_) => &[],
    };
    [look, act].concat()
}

fn prune(input: &Value) -> Result<Value> {
    let number = |value: &Value| value.as_f64().with_context(|| format!("no number: {value}"));
    let limit = |key: &str| {
        Ok::<_, anyhow::Error>(Setting::new(number(&input["prune"][key])?, Origin::built_in(key)))
    };
    let limits =
        PruneConfig { idle_hours: limit("idleHours")?, max_age_days: limit("maxAgeDays")? };
    let sandbox = Lifetime {
        created: Some(ago(number(&input["ageDays"])? * 86_400_000.0)),
        last_used: Some(ago(number(&input["idleForHours"])? * 3_600_000.0)),
        activity: Activity::Quiet,
    };
    let verdict = prune::decide(&sandbox, &limits, Timestamp::from_millis(NOW_MS));
    Ok(json!({ "prune": matches!(verdict, Prune::Remove(_)) }))
}

/// A moment that long before now.
fn ago(millis: f64) -> Timestamp {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "rows hold a few years at most; what lies ahead of now saturates to zero ago"
    )]
    let millis = millis.round() as u64;
    Timestamp::from_millis(NOW_MS.saturating_sub(millis))
}
