//! `wake`, `system-event`, `set-heartbeats`, `last-heartbeat`: lines for the main session, and when it is asked.

use clawpen_engine::runner::Queued;
use clawpen_rules::heartbeat::{Every, Heartbeat, Switch};
use clawpen_rules::ids::AgentId;
use clawpen_rules::system_line::SystemLine;
use clawpen_wire::gateway::ErrorShape;
use serde_json::{Map, Value, json};

use super::{optional, sessions, text};
use crate::dispatch::Caller;
use crate::hub::Slow;
use crate::shared::Shared;

/// What somebody may tell of a machine, besides what it is called. Roles and scopes are taken and not shown: they are what
/// a login proves, and nobody's word.
const TOLD: &[&str] = &[
    "host",
    "ip",
    "version",
    "platform",
    "deviceFamily",
    "modelIdentifier",
    "mode",
    "reason",
    "deviceId",
    "instanceId",
];

/// Lets a line wait for the default agent's main session, and asks that agent at once if it is to be now.
pub(crate) fn wake(shared: &Shared, params: &Value) -> Result<Value, ErrorShape> {
    let agent = queue(shared, text(params, "text"))?;
    if text(params, "mode") == "now" {
        shared.heart.ask(&agent);
    }
    Ok(json!({ "ok": true }))
}

/// How the signs of life begin that a machine's app sends: they say who is present, and nothing to an agent.
const SIGN_OF_LIFE: &str = "Node:";

/// Lets a line wait, and shows who it speaks of.
pub(crate) fn event(shared: &Shared, caller: &Caller, params: &Value) -> Result<Value, ErrorShape> {
    if !text(params, "text").trim_start().starts_with(SIGN_OF_LIFE) {
        queue(shared, text(params, "text"))?;
    }
    let now = Shared::now();
    let mut entry = Map::new();
    let plain = |text: &str| SystemLine::of(text, now).map(|line| line.text().to_owned());
    for key in TOLD {
        let told = optional(params, key).and_then(plain);
        entry.extend(told.map(|told| ((*key).to_owned(), json!(told))));
    }
    if let Some(seconds) = params["lastInputSeconds"].as_u64() {
        entry.insert("lastInputSeconds".to_owned(), json!(seconds));
    }
    let tags: Vec<String> = params["tags"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|tag| plain(tag.as_str()?))
        .take(20)
        .collect();
    if !tags.is_empty() {
        entry.insert("tags".to_owned(), json!(tags));
    }
    let shown: String = plain(text(params, "text")).unwrap_or_default().chars().take(200).collect();
    entry.insert("text".to_owned(), json!(shown));
    entry.insert("ts".to_owned(), json!(now.as_millis()));
    let name =
        ["deviceId", "instanceId", "host", "ip"].iter().find_map(|key| optional(params, key));
    let name = name.map_or_else(|| caller.connection.clone(), str::to_lowercase);
    shared.hub.note_told(&name, Value::Object(entry));
    let presence = json!({ "presence": shared.hub.presence(now.as_millis()) });
    shared.hub.broadcast("presence", &presence, Slow::Drop);
    Ok(json!({ "ok": true }))
}

/// Queues a line for the default agent's main session; gives the agent.
fn queue(shared: &Shared, text: &str) -> Result<AgentId, ErrorShape> {
    let sound = shared.sound()?;
    let agent = sound.store.loaded.config.default_agent();
    let main = sessions::meant(&sound, "main")?;
    let line = SystemLine::of(text, Shared::now());
    let line = line.ok_or_else(|| ErrorShape::invalid("text required"))?;
    match shared.runner.queue_line(&main.key, line) {
        Queued::Yes | Queued::Known => Ok(agent),
        Queued::Full => Err(ErrorShape::unavailable("too many lines wait already")),
    }
}

/// Switches all heartbeats on or off.
pub(crate) fn set(shared: &Shared, params: &Value) -> Value {
    let is_on = params["enabled"] == json!(true);
    shared.heart.turn(if is_on { Switch::On } else { Switch::Off });
    json!({ "ok": true, "enabled": is_on })
}

pub(crate) fn last(shared: &Shared) -> Value {
    shared.heart.last()
}

/// How often an agent is asked, as `status` and `health` show it.
pub(crate) fn shown(shared: &Shared, heartbeat: &Heartbeat) -> Value {
    match &heartbeat.every {
        Every::Off => json!({ "enabled": false, "every": "disabled", "everyMs": Value::Null }),
        Every::Each { words, time } => json!({
            "enabled": shared.heart.switch() == Switch::On,
            "every": words,
            "everyMs": u64::try_from(time.as_millis()).unwrap_or(u64::MAX),
        }),
    }
}
