//! Answers the rows of `tool-policy.jsonl`.

use anyhow::{Result, bail};
use clawpen_rules::config::sandbox::{SandboxMode, WorkspaceAccess};
use clawpen_rules::config::setting::{Layer, Origin, Setting};
use clawpen_rules::config::tree::FileId;
use clawpen_rules::config::{Config, json5};
use clawpen_rules::elevated::{self, ElevatedVerdict, GateFailure, Sender};
use clawpen_rules::ids::AgentId;
use clawpen_rules::tool_policy::catalogue::Profile;
use clawpen_rules::tool_policy::chat::Chat;
use clawpen_rules::tool_policy::section::Section;
use clawpen_rules::tool_policy::subagent::{SpawnDepth, SubagentPolicy, SubagentRole};
use clawpen_rules::tool_policy::{
    self, Block, BlockReason, Layers, Model, SandboxPolicy, SandboxRefusal, SenderStanding,
    Session, Tool, ToolPlacement, Verdict, Written,
};
use serde_json::{Map, Value, json};

use super::world::World;
use super::{Answer, Row};

/// What the recorded runtime offered, in its order: no image model and no search keys were set up.
const OFFERED: &[&str] = &[
    "read",
    "edit",
    "write",
    "apply_patch",
    "exec",
    "process",
    "canvas",
    "nodes",
    "cron",
    "message",
    "tts",
    "gateway",
    "agents_list",
    "sessions_list",
    "sessions_history",
    "sessions_send",
    "sessions_yield",
    "sessions_spawn",
    "subagents",
    "session_status",
    "web_search",
    "web_fetch",
    "browser",
    "memory_search",
    "memory_get",
];

/// The product's answer to one row.
pub fn answer(row: &Row, _world: &World) -> Result<Answer> {
    let input = &row.input;
    let answer = match row.category() {
        "expand" => json!({ "expanded": tool_policy::expand(strings(&input["list"])) }),
        "pick" => pick(input)?,
        "profile" => profile(input)?,
        "plain-decision" => json!({ "allowed": decision(input).0 }),
        "sandbox-decision" => sandbox_decision(input),
        "sandbox-resolve" => sandbox_resolve(input)?,
        "subagent" => subagent(input)?,
        "pipeline" => pipeline(input)?,
        "assembled" => assembled(input)?,
        "blocked-message" => blocked_message(input)?,
        "elevated" => elevated(input)?,
        other => bail!("no answer for category `{other}`"),
    };
    Ok(Answer::Given(answer))
}

fn strings(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

fn config(value: &Value) -> Result<Config> {
    let parsed = json5::parse(&value.to_string(), FileId(0))?;
    Ok(Config::from_tree(parsed.root, vec![]))
}

fn texts(list: Option<&[Written]>) -> Value {
    list.map_or(Value::Null, |list| list.iter().map(|entry| entry.text.clone()).collect())
}

fn pick(input: &Value) -> Result<Value> {
    let config = config(&input["section"])?;
    let lists = Section::read(Layer::Defaults, &config.root()).pick();
    let policy = lists.map(|lists| {
        json!({ "allow": texts(lists.allow.as_deref()), "deny": texts(lists.deny.as_deref()) })
    });
    Ok(json!({ "policy": policy }))
}

fn profile(input: &Value) -> Result<Value> {
    if input["profile"].as_str().and_then(Profile::parse).is_none() {
        return Ok(json!({ "policy": null }));
    }
    let config = config(&json!({ "tools": input }))?;
    let layers = Layers::pipeline(&config, &Session::host(AgentId::main()));
    let policy = layers.iter().find(|layer| layer.kind.label().starts_with("tools.profile"));
    Ok(json!({ "policy": policy.map(|layer| json!({ "allow": layer.allow_entries() })) }))
}

/// Whether the tool is allowed by the row's policy, and if not, whether the deny list says so.
fn decision(input: &Value) -> (bool, bool) {
    let policy = &input["policy"];
    let layers = Layers::of_policy(&strings(&policy["allow"]), &strings(&policy["deny"]));
    let tool = Tool::core(input["tool"].as_str().unwrap_or_default());
    match tool_policy::decide(&layers, &tool) {
        Verdict::Allowed(_) => (true, false),
        Verdict::Blocked(Block { reason, .. }) => match reason {
            BlockReason::Denied(_) | BlockReason::DeniedWithPartner(_) => (false, true),
            BlockReason::NotListed(_) => (false, false),
        },
    }
}

fn sandbox_decision(input: &Value) -> Value {
    let (allowed, denied) = decision(input);
    let reason = if allowed { None } else { Some(if denied { "deny" } else { "allow" }) };
    json!({
        "allowed": allowed,
        "blockedByDeny": denied,
        "blockedByAllow": !allowed && !denied,
        "reason": reason,
    })
}

fn sandbox_resolve(input: &Value) -> Result<Value> {
    let agent = AgentId::normalize(input["agentId"].as_str().unwrap_or_default());
    let policy = SandboxPolicy::resolve(&config(&input["config"])?, &agent);
    let source = |source: tool_policy::ListSource| json!({ "source": source.scope.as_str(), "key": source.key });
    Ok(json!({
        "allow": policy.allow_names(),
        "deny": policy.deny_names(),
        "sources": { "allow": source(policy.allow_source), "deny": source(policy.deny_source) },
    }))
}

fn subagent(input: &Value) -> Result<Value> {
    let config = config(&input["config"])?;
    let depth = input["depth"].as_u64().and_then(|depth| u32::try_from(depth).ok());
    let depth = depth.map_or_else(SpawnDepth::default, SpawnDepth::recorded);
    let policy = SubagentPolicy::resolve(&config, SubagentRole::at_depth(&config, depth));
    Ok(json!({ "allow": texts(policy.allow.as_deref()), "deny": texts(Some(&policy.deny)) }))
}

/// The session that a row of `pipeline` or `assembled` describes.
fn session(input: &Value, config: &Config, placement: ToolPlacement) -> Session {
    let key = input["sessionKey"].as_str().unwrap_or_default();
    let model = input["modelProvider"].as_str().map(|provider| Model {
        provider: provider.to_owned(),
        id: input["modelId"].as_str().map(str::to_owned),
    });
    let owner = input["senderIsOwner"].as_bool().unwrap_or(false);
    Session {
        placement,
        model,
        sender: if owner { SenderStanding::Owner } else { SenderStanding::Other },
        chat: Chat::of_session_key(key),
        subagent: SpawnDepth::of_session_key(key)
            .map(|depth| SubagentRole::at_depth(config, depth)),
        ..Session::host(agent_of(key).unwrap_or_else(AgentId::main))
    }
}

fn pipeline(input: &Value) -> Result<Value> {
    let config = config(&input["config"])?;
    let placement = match input["sandboxed"].as_bool() {
        Some(true) => sandbox(WorkspaceAccess::ReadWrite),
        _ => ToolPlacement::Host,
    };
    let session = session(input, &config, placement);
    let mut tools: Vec<Tool> = strings(&input["coreTools"]).into_iter().map(Tool::core).collect();
    for plugin in input["pluginTools"].as_array().into_iter().flatten() {
        let text = |key: &str| plugin[key].as_str().unwrap_or_default();
        tools.push(Tool::of_plugin(text("name"), text("pluginId")));
    }
    let layers = Layers::pipeline(&config, &session);
    let mut allowed = Vec::new();
    let mut blocked = Map::new();
    for tool in &tools {
        match tool_policy::decide(&layers, tool) {
            Verdict::Allowed(_) => allowed.push(tool.name().as_str()),
            Verdict::Blocked(block) => {
                blocked.insert(tool.name().to_string(), block.layer.label().into());
            }
        }
    }
    Ok(json!({ "agentId": session.agent.as_str(), "allowed": allowed, "blockedBy": blocked }))
}

fn assembled(input: &Value) -> Result<Value> {
    let config = config(&input["config"])?;
    let place = Place::of(&config, input["sessionKey"].as_str().unwrap_or_default());
    let placement = if place.sandboxed { sandbox(place.access) } else { ToolPlacement::Host };
    let layers = Layers::resolve(&config, &session(input, &config, placement));
    let is_allowed = |name: &&&str| tool_policy::decide(&layers, &Tool::core(name)).is_allowed();
    let tools: Vec<&&str> = OFFERED.iter().filter(is_allowed).collect();
    Ok(json!({ "sandboxed": place.sandboxed, "tools": tools }))
}

fn blocked_message(input: &Value) -> Result<Value> {
    let config = config(&input["config"])?;
    let key = input["sessionKey"].as_str().unwrap_or_default();
    let place = Place::of(&config, key);
    if !place.sandboxed {
        return Ok(json!({ "message": null }));
    }
    let policy = SandboxPolicy::resolve(&config, &place.agent);
    let refusal = SandboxRefusal {
        asked: input["tool"].as_str().unwrap_or_default(),
        mode: place.mode,
        session_key: key,
        agent: &place.agent,
    };
    Ok(json!({ "message": tool_policy::sandbox_refusal(&policy, refusal) }))
}

fn elevated(input: &Value) -> Result<Value> {
    let config = config(&input["config"])?;
    let agent = AgentId::normalize(input["agentId"].as_str().unwrap_or_default());
    let fact = |key: &str| input["ctx"][key].as_str().map(str::to_owned);
    let sender = Sender {
        id: fact("SenderId"),
        from: fact("From"),
        e164: fact("SenderE164"),
        name: fact("SenderName"),
        username: fact("SenderUsername"),
        tag: fact("SenderTag"),
    };
    let provider = input["provider"].as_str().unwrap_or_default();
    let verdict = elevated::decide(&config, &agent, provider, &sender);
    let failure = |failure: &GateFailure| json!({ "gate": failure.gate(), "key": failure.key() });
    Ok(json!({
        "enabled": verdict.is_enabled(),
        "allowed": matches!(verdict, ElevatedVerdict::Allowed(_)),
        "failures": verdict.failures().iter().map(failure).collect::<Vec<_>>(),
    }))
}

fn sandbox(access: WorkspaceAccess) -> ToolPlacement {
    let origin = Origin::built_in("agents.defaults.sandbox.workspaceAccess");
    ToolPlacement::Sandbox { access: Setting::new(access, origin) }
}

/// The agent that a session key names.
fn agent_of(key: &str) -> Option<AgentId> {
    let (id, rest) = key.trim().strip_prefix("agent:")?.split_once(':')?;
    (!id.trim().is_empty() && !rest.is_empty()).then(|| AgentId::normalize(id))
}

/// Where the session of a row runs. The rows of this corpus take that as given, so the few facts
/// are read straight from their configs.
struct Place {
    agent: AgentId,
    mode: SandboxMode,
    access: WorkspaceAccess,
    sandboxed: bool,
}

impl Place {
    fn of(config: &Config, key: &str) -> Self {
        let key = key.trim();
        let agent = agent_of(key).unwrap_or_else(|| config.default_agent());
        let setting = |name: &str| {
            let own = config.agent(&agent).and_then(|entry| entry.path(&["sandbox", name]));
            let found = own.or_else(|| config.at(&["agents", "defaults", "sandbox", name]))?;
            found.node.as_str().map(str::to_owned)
        };
        let mode = setting("mode").and_then(|text| SandboxMode::parse(&text));
        let mode = mode.unwrap_or(SandboxMode::Off);
        let access = setting("workspaceAccess").and_then(|text| WorkspaceAccess::parse(&text));
        let is_main = key == "main" || key == format!("agent:{agent}:main");
        let sandboxed = match mode {
            SandboxMode::Off => false,
            SandboxMode::NonMain => !key.is_empty() && !is_main,
            SandboxMode::All => !key.is_empty(),
        };
        Self { agent, mode, access: access.unwrap_or(WorkspaceAccess::None), sandboxed }
    }
}
