//! Answers the rows of `session-key.jsonl`.

use anyhow::{Context as _, Result, bail};
use clawpen_rules::config::sandbox::{SandboxMode, Scope};
use clawpen_rules::config::tree::FileId;
use clawpen_rules::config::{Config, json5};
use clawpen_rules::ids::AgentId;
use clawpen_rules::scope::{ScopeKey, slug};
use clawpen_rules::session::key::{ChatType, KeyShape, SessionKey};
use clawpen_rules::session::peer::{self, DmScope, Peer, PeerKind, PeerRules};
use clawpen_rules::session::{self, Session, SessionKind};
use serde_json::{Value, json};

use super::world::World;
use super::{Answer, Row};

/// The prefix that the recordings were made with.
const PREFIX: &str = "openclaw-sbx-";

/// The product's answer to one row.
pub fn answer(row: &Row, _world: &World) -> Result<Answer> {
    let input = &row.input;
    let text = |key: &str| input[key].as_str().unwrap_or_default();
    let given = match row.category() {
        "agent-id" => {
            let value = text("value");
            json!({"normalized": AgentId::normalize(value).as_str(), "valid": AgentId::is_valid(value)})
        }
        "slug" => json!({"slug": slug(text("value"))}),
        "prefix" => {
            let scope = Scope::parse(text("scope")).context("scope")?;
            let key = ScopeKey::new(scope, &Session::resolve(&config(input)?, text("sessionKey")));
            let name = key.container_name(scope, text("containerPrefix"));
            json!({"containerName": name.as_str()})
        }
        "peer" => json!({"sessionKey": peer_key(input)?.as_str()}),
        "agent-mode" => placement(&config(input)?, text("sessionKey"))?,
        "default-config" | "default-agent" | "global-scope" | "main-key" => {
            whole(&config(input)?, text("sessionKey"))
        }
        other => bail!("unknown category `{other}`"),
    };
    Ok(Answer::Given(given))
}

fn config(input: &Value) -> Result<Config> {
    if input["config"].is_null() {
        return Ok(Config::empty());
    }
    let parsed = json5::parse(&input["config"].to_string(), FileId(0))?;
    Ok(Config::from_tree(parsed.root, Vec::new()))
}

fn peer_key(input: &Value) -> Result<SessionKey> {
    let text = |key: &str| input[key].as_str().unwrap_or_default();
    let kind = match &input["peerKind"] {
        Value::Null => PeerKind::Direct,
        kind => PeerKind::parse(kind.as_str().unwrap_or_default()).context("peerKind")?,
    };
    let dm_scope = match &input["dmScope"] {
        Value::Null => DmScope::default(),
        scope => DmScope::parse(scope.as_str().unwrap_or_default()).context("dmScope")?,
    };
    let links: Vec<(String, Vec<String>)> = input["identityLinks"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, ids)| (name.clone(), ids.as_array().into_iter().flatten()))
        .map(|(name, ids)| (name, ids.filter_map(Value::as_str).map(str::to_owned).collect()))
        .collect();
    let peer =
        Peer { channel: text("channel"), account: text("accountId"), kind, id: text("peerId") };
    let rules = PeerRules { dm_scope, identity_links: &links, main_key: text("mainKey") };
    Ok(peer::build(&AgentId::normalize(text("agentId")), &peer, &rules))
}

fn placement(config: &Config, key: &str) -> Result<Value> {
    let session = Session::resolve(config, key);
    let entry = config.agent(session.agent()).and_then(|entry| entry.path(&["sandbox", "mode"]));
    let mode = entry.or_else(|| config.at(&["agents", "defaults", "sandbox", "mode"]));
    let mode = match mode {
        Some(at) => at.node.as_str().and_then(SandboxMode::parse).context("sandbox.mode")?,
        None => SandboxMode::Off,
    };
    Ok(json!({
        "agentId": session.agent().as_str(),
        "mode": mode.as_str(),
        "mainSessionKey": session.main_key().as_str(),
        "sandboxed": session::decide(mode, &session).is_sandboxed(),
    }))
}

/// Everything there is to say about one session.
fn whole(config: &Config, key: &str) -> Value {
    let session = Session::resolve(config, key);
    let key = session.key();
    let scopes = [Scope::Session, Scope::Agent, Scope::Shared]
        .map(|scope| (scope, ScopeKey::new(scope, &session)));
    let by_scope = |answer: &dyn Fn(Scope, &ScopeKey) -> Value| -> Value {
        scopes.iter().map(|(scope, key)| (scope.as_str().to_owned(), answer(*scope, key))).collect()
    };
    let by_mode: Value = [SandboxMode::Off, SandboxMode::NonMain, SandboxMode::All]
        .into_iter()
        .map(|mode| (mode.as_str().to_owned(), session::decide(mode, &session).is_sandboxed()))
        .map(|(mode, sandboxed)| (mode, Value::Bool(sandboxed)))
        .collect();
    let is = |question: fn(&SessionKey) -> bool| key.is_some_and(question);
    let owner =
        |key: &ScopeKey| key.owner(&config.default_agent()).map(|id| id.as_str().to_owned());
    json!({
        "shape": key.map_or("missing", |key| shape(key.shape())),
        "parsed": key.and_then(SessionKey::split)
            .map(|parts| json!({"agentId": parts.segment, "rest": parts.rest})),
        "agentIdFromKey": key.and_then(SessionKey::agent).unwrap_or_else(AgentId::main).as_str(),
        "agentId": session.agent().as_str(),
        "canonicalKey": session.canonical_key().map_or("", SessionKey::as_str),
        "mainSessionKey": session.main_key().as_str(),
        "isMain": session.kind() == SessionKind::Main,
        "sandboxedByMode": by_mode,
        "scopeKey": by_scope(&|_, key| json!(key.as_str())),
        "scopeAgentId": {"session": owner(&scopes[0].1), "agent": owner(&scopes[1].1)},
        "containerName": by_scope(&|scope, key| json!(key.container_name(scope, PREFIX).as_str())),
        "workspaceDirName": by_scope(&|scope, key| json!(key.workspace_directory(scope))),
        "storeKey": session.store_key().as_str(),
        "requestKey": key.map(SessionKey::request_key),
        "isSubagent": is(SessionKey::is_subagent),
        "subagentDepth": key.map_or(0, SessionKey::subagent_depth),
        "isCron": is(SessionKey::is_cron),
        "isCronRun": is(SessionKey::is_cron_run),
        "isAcp": is(SessionKey::is_acp),
        "chatType": key.map_or(ChatType::Unknown, SessionKey::chat_type).as_str(),
        "threadParent": key.and_then(SessionKey::thread_parent).map(|key| key.as_str().to_owned()),
    })
}

/// The recordings' word for a shape.
fn shape(shape: KeyShape) -> &'static str {
    match shape {
        KeyShape::Agent => "agent",
        KeyShape::MalformedAgent => "malformed_agent",
        KeyShape::LegacyOrAlias => "legacy_or_alias",
    }
}
