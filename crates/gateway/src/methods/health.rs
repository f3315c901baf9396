//! `health`, `status`, `system-presence`: what is there and how it is.
//!
//! This build has no channels, and says so.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use clawpen_engine::approvals_file::now_ms;
use clawpen_engine::config_file::Sound;
use clawpen_engine::session_entries::{Entry, Sessions};
use clawpen_rules::agents as rule;
use clawpen_rules::heartbeat::Heartbeat;
use clawpen_rules::ids::AgentId;
use clawpen_rules::session::entry::{context_tokens, default_model};
use clawpen_wire::gateway::{COMPATIBLE_RELEASE, ErrorShape};
use serde_json::{Map, Value, json};

use super::{agents, heartbeat, sessions};
use crate::dispatch::Caller;
use crate::shared::{Shared, unavailable};

/// How many sessions are shown.
const RECENT: usize = 10;
const RECENT_IN_HEALTH: usize = 5;

/// How old an answer may be that is given again, while nothing was changed through this gateway.
const KEPT: Duration = Duration::from_secs(1);

/// The last answer. Many clients ask all the time, and each comes with a login.
#[derive(Debug, Default)]
pub(crate) struct LastHealth(Mutex<Option<(Instant, Arc<Value>)>>);

impl LastHealth {
    /// Something was changed: the next answer is a new one.
    pub(crate) fn forget(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn get(&self) -> Option<Arc<Value>> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.as_ref().filter(|(at, _)| at.elapsed() < KEPT).map(|(_, health)| health.clone())
    }

    fn keep(&self, health: &Arc<Value>) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *kept = Some((Instant::now(), health.clone()));
    }
}

pub(crate) fn health(shared: &Shared, params: &Value) -> Result<Value, ErrorShape> {
    if params["probe"] == json!(true) {
        shared.health.forget();
    }
    recent(shared).map(|health| Value::clone(&health))
}

/// The health of this moment, or of one just before it.
pub(crate) fn recent(shared: &Shared) -> Result<Arc<Value>, ErrorShape> {
    if let Some(health) = shared.health.get() {
        return Ok(health);
    }
    let health = Arc::new(of(shared)?);
    shared.health.keep(&health);
    Ok(health)
}

/// The health of this moment.
fn of(shared: &Shared) -> Result<Value, ErrorShape> {
    let start = now_ms();
    let sound = shared.sound()?;
    let config = &sound.store.loaded.config;
    let default = config.default_agent();
    let mut listed = Vec::new();
    let mut own = json!({});
    let mut seconds = 0;
    for id in agents::as_listed(&sound) {
        let (path, entries) = store(&sound, &id)?;
        let recent: Vec<Value> = newest(&entries)
            .into_iter()
            .take(RECENT_IN_HEALTH)
            .map(|(key, updated)| {
                json!({ "key": key, "updatedAt": updated, "age": start.saturating_sub(updated) })
            })
            .collect();
        let sessions = json!({ "path": path, "count": entries.len(), "recent": recent });
        if id == default {
            own = sessions.clone();
        }
        let mut agent = json!({ "agentId": id.as_str() });
        if let Some(name) = rule::name(config, &id) {
            agent["name"] = json!(name);
        }
        agent["isDefault"] = json!(id == default);
        let beat = Heartbeat::of(config, &id);
        let mut shown = heartbeat::shown(shared, &beat);
        if id == default {
            seconds = shown["everyMs"].as_u64().unwrap_or_default() / 1000;
        }
        shown["prompt"] = json!(beat.prompt);
        shown["target"] = json!(beat.target);
        shown["ackMaxChars"] = json!(beat.ack_characters);
        agent["heartbeat"] = shown;
        agent["sessions"] = sessions;
        listed.push(agent);
    }
    Ok(json!({
        "ok": true,
        "ts": start,
        "durationMs": now_ms().saturating_sub(start),
        "channels": {},
        "channelOrder": [],
        "channelLabels": {},
        "heartbeatSeconds": seconds,
        "defaultAgentId": default.as_str(),
        "agents": listed,
        "sessions": own,
    }))
}

/// The store of an agent and what is in it.
fn store(sound: &Sound, id: &AgentId) -> Result<(String, BTreeMap<String, Entry>), ErrorShape> {
    let path = sound.store.locations.session_store(&sound.store.loaded.config, id);
    let mut entries = Sessions::at(&path).read().map_err(|error| unavailable(&error))?;
    // Those are nobody's sessions.
    entries.retain(|key, _| !matches!(key.as_str(), "global" | "unknown"));
    Ok((path, entries))
}

/// The keys of entries, newest first, with their times.
fn newest(entries: &BTreeMap<String, Entry>) -> Vec<(&str, u64)> {
    let mut keys: Vec<(&str, u64)> = entries
        .iter()
        .map(|(key, entry)| {
            (key.as_str(), entry.get("updatedAt").and_then(Value::as_u64).unwrap_or(0))
        })
        .collect();
    keys.sort_by_key(|(_, updated)| std::cmp::Reverse(*updated));
    keys
}

pub(crate) fn status(shared: &Shared, caller: &Caller) -> Result<Value, ErrorShape> {
    let sound = shared.sound()?;
    let config = &sound.store.loaded.config;
    let default = config.default_agent();
    let is_admin = caller.is_admin();
    let (mut paths, mut all, mut by_agent, mut beats) = (vec![], vec![], vec![], vec![]);
    let mut count = 0;
    for id in agents::all(&sound) {
        let (path, entries) = store(&sound, &id)?;
        count += entries.len();
        let rows: Vec<(u64, Value)> = newest(&entries)
            .into_iter()
            .filter_map(|(key, updated)| {
                Some((updated, row(&sound, (&id, key), entries.get(key)?, updated)))
            })
            .collect();
        let recent: Vec<&Value> = rows.iter().take(RECENT).map(|(_, row)| row).collect();
        by_agent.push(json!({
            "agentId": id.as_str(),
            "path": if is_admin { path.as_str() } else { "[redacted]" },
            "count": entries.len(),
            "recent": if is_admin { json!(recent) } else { json!([]) },
        }));
        let mut beat = heartbeat::shown(shared, &Heartbeat::of(config, &id));
        beat["agentId"] = json!(id.as_str());
        beats.push(beat);
        paths.push(path);
        all.extend(rows);
    }
    all.sort_by_key(|(updated, _)| std::cmp::Reverse(*updated));
    let recent: Vec<Value> = all.into_iter().take(RECENT).map(|(_, row)| row).collect();
    let main = sessions::meant(&sound, "main")?;
    let queued = shared.runner.queued_lines(&main.key);
    let model = default_model(config, &default);
    let context = model.as_ref().map(|model| context_tokens(config, model));
    Ok(json!({
        "runtimeVersion": COMPATIBLE_RELEASE,
        "heartbeat": { "defaultAgentId": default.as_str(), "agents": beats },
        "channelSummary": [],
        "queuedSystemEvents": queued,
        "sessions": {
            "paths": if is_admin { paths } else { Vec::new() },
            "count": count,
            "defaults": {
                "model": model.filter(|_| is_admin).map(|model| model.model),
                "contextTokens": context.filter(|_| is_admin),
            },
            "recent": if is_admin { recent } else { Vec::new() },
            "byAgent": by_agent,
        },
    }))
}

/// A session as `status` shows it.
fn row(sound: &Sound, (id, key): (&AgentId, &str), entry: &Entry, updated: u64) -> Value {
    let config = &sound.store.loaded.config;
    let model = sessions::shown_model(sound, id, entry);
    let context = entry
        .get("contextTokens")
        .and_then(Value::as_u64)
        .or_else(|| model.as_ref().map(|model| context_tokens(config, model)));
    let total = sessions::fresh_total(entry);
    let left = total.zip(context).map(|(total, context)| context.saturating_sub(total));
    let used = total.zip(context).and_then(|(total, context)| percent(total, context));
    let mut row = Map::new();
    row.insert("agentId".into(), json!(id.as_str()));
    row.insert("key".into(), json!(key));
    row.insert("kind".into(), json!(sessions::kind(key, entry)));
    row.extend(entry.get("sessionId").map(|id| ("sessionId".to_owned(), id.clone())));
    let is_dated = entry.get("updatedAt").is_some_and(Value::is_number);
    row.insert("updatedAt".into(), json!(is_dated.then_some(updated)));
    row.insert("age".into(), json!(is_dated.then(|| now_ms().saturating_sub(updated))));
    for name in SHOWN {
        row.extend(entry.get(*name).map(|value| ((*name).to_owned(), value.clone())));
    }
    row.insert("totalTokens".into(), json!(total));
    row.insert("totalTokensFresh".into(), json!(total.is_some()));
    row.insert("remainingTokens".into(), json!(left));
    row.insert("percentUsed".into(), json!(used));
    row.insert("model".into(), json!(model.map(|model| model.model)));
    row.insert("contextTokens".into(), json!(context));
    row.insert("flags".into(), json!(flags(entry)));
    Value::Object(row)
}

/// What `status` shows of an entry as it is.
const SHOWN: &[&str] = &[
    "thinkingLevel",
    "fastMode",
    "verboseLevel",
    "reasoningLevel",
    "elevatedLevel",
    "systemSent",
    "abortedLastRun",
    "inputTokens",
    "outputTokens",
    "cacheRead",
    "cacheWrite",
];

/// How full a context is, in hundredths.
fn percent(total: u64, context: u64) -> Option<u64> {
    const MOST: u64 = 999;
    let rounded = total.saturating_mul(100).saturating_add(context / 2);
    rounded.checked_div(context).map(|percent| percent.min(MOST))
}

/// What is special about a session, in short.
fn flags(entry: &Entry) -> Vec<String> {
    let word = |key: &str, name: &str| {
        let said = entry.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        said.map(|text| format!("{name}:{text}"))
    };
    let is_on = |key: &str, flag: &str| {
        (entry.get(key).and_then(Value::as_bool) == Some(true)).then(|| flag.to_owned())
    };
    let fast = entry.get("fastMode").and_then(Value::as_bool);
    let all = [
        word("thinkingLevel", "think"),
        word("verboseLevel", "verbose"),
        fast.map(|fast| if fast { "fast" } else { "fast:off" }.to_owned()),
        word("reasoningLevel", "reasoning"),
        word("elevatedLevel", "elevated"),
        is_on("systemSent", "system"),
        is_on("abortedLastRun", "aborted"),
        word("sessionId", "id"),
    ];
    all.into_iter().flatten().collect()
}

/// No chat channel is built: every list is empty.
pub(crate) fn channels() -> Value {
    json!({
        "ts": now_ms(),
        "channelOrder": [],
        "channelLabels": {},
        "channelDetailLabels": {},
        "channelSystemImages": {},
        "channelMeta": [],
        "channels": {},
        "channelAccounts": {},
        "channelDefaultAccountId": {},
    })
}

/// No provider is asked for what is left of a quota.
pub(crate) fn quotas() -> Value {
    json!({ "updatedAt": now_ms(), "providers": [] })
}

pub(crate) fn presence(shared: &Shared) -> Value {
    shared.hub.presence(now_ms())
}
