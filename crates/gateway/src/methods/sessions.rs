//! `sessions.*` and `chat.history`: the sessions that are stored, and what was said in them.
//!
//! A session is always meant by its key; where its entry and its transcript lie follows from the key
//! and the config, never from what a client or an entry says.

mod patch;
mod transcript;

use std::collections::BTreeMap;
use std::time::Duration;

use clawpen_engine::approvals_file::now_ms;
use clawpen_engine::config_file::Sound;
use clawpen_engine::random;
use clawpen_engine::runner::AbortReason;
use clawpen_engine::session_entries::{ChangeError, Entry, Message, Sessions};
use clawpen_engine::state_file::StateFileError;
use clawpen_engine::transcript::Transcript;
use clawpen_rules::ids::AgentId;
use clawpen_rules::session::Session;
use clawpen_rules::session::entry::{
    Model, PatchRefusal, context_tokens, default_model, known_context_tokens, shared_model,
};
use clawpen_rules::session::key::{ChatType, SessionKey};
use clawpen_rules::timestamp::Timestamp;
use clawpen_wire::gateway::ErrorShape;
use serde_json::{Map, Value, json};

use super::{agents, optional, text};
use crate::dispatch::Caller;
use crate::hub::Turn;
use crate::shared::{Shared, unavailable};

pub(crate) use patch::{create, patch};
pub(crate) use transcript::{Page, compact, displayed, history, messages, page, preview};

/// What is meant by a key: the session, its name in the store, and the store.
pub(crate) struct Meant {
    pub(crate) session: Session,
    pub(crate) key: String,
    pub(crate) sessions: Sessions,
}

pub(crate) fn meant(sound: &Sound, key: &str) -> Result<Meant, ErrorShape> {
    let config = &sound.store.loaded.config;
    if SessionKey::parse(key).is_none() {
        return Err(ErrorShape::invalid("key required"));
    }
    let session = Session::resolve(config, key);
    let path = sound.store.locations.session_store(config, session.agent());
    let key = session.store_key().as_str().to_owned();
    Ok(Meant { session, key, sessions: Sessions::at(&path) })
}

impl Meant {
    fn path(&self) -> String {
        self.sessions.path().to_string_lossy().into_owned()
    }

    pub(crate) fn entry(&self) -> Result<Option<Entry>, ErrorShape> {
        let entries = self.sessions.read().map_err(|error| unavailable(&error))?;
        Ok(entries.get(&self.key).cloned())
    }
}

/// Makes the transcript of a new session, with its head only.
fn begin_transcript(sound: &Sound, found: &Meant, id: &str) -> Result<(), ErrorShape> {
    let config = &sound.store.loaded.config;
    let cwd = sound.store.locations.agent_workspace(config, found.session.agent()).value;
    let Some(transcript) = Transcript::of(&found.sessions, id, &cwd) else { return Ok(()) };
    transcript.begin(Shared::now()).map_err(|error| unavailable(&error))
}

/// Tells those who follow sessions what became of one.
fn tell(shared: &Shared, sound: &Sound, found: &Meant, reason: &str) {
    let mut payload = json!({ "sessionKey": found.key, "reason": reason, "ts": now_ms() });
    let entry = found.entry().ok().flatten();
    let row = entry.map(|entry| row(sound, found.session.agent(), &found.key, &entry));
    add_row(&mut payload, row.unwrap_or_default());
    shared.hub.tell("sessions.changed", &found.key, &payload);
}

/// Adds a session's row to an event, whole and each of its keys.
pub(crate) fn add_row(payload: &mut Value, row: Value) {
    if !row.is_object() {
        return;
    }
    for (key, value) in row.as_object().into_iter().flatten().filter(|(key, _)| *key != "key") {
        payload[key] = value.clone();
    }
    payload["session"] = row;
}

/// A session's row, and whether what tools give is shown in it. `null` if it cannot be read.
pub(crate) fn shown(shared: &Shared, key: &str) -> (Value, bool) {
    let looked = || {
        let sound = shared.sound().ok()?;
        let found = meant(&sound, key).ok()?;
        let entry = found.entry().ok()??;
        let shows_all = entry.get("verboseLevel").and_then(Value::as_str) == Some("full");
        Some((row(&sound, found.session.agent(), &found.key, &entry), shows_all))
    };
    looked().unwrap_or_default()
}

/// How many messages a session has.
pub(crate) fn count(shared: &Shared, key: &str) -> usize {
    let looked = || {
        let sound = shared.sound().ok()?;
        let found = meant(&sound, key).ok()?;
        let entry = found.entry().ok()??;
        let id = entry.get("sessionId").and_then(Value::as_str)?;
        found.sessions.messages(id).ok().map(|messages| messages.len())
    };
    looked().unwrap_or_default()
}

/// An answer of the gateway itself, in the shape of a model's.
pub(crate) fn injected(text: &str) -> Value {
    json!({
        "role": "assistant",
        "content": [{ "type": "text", "text": text }],
        "timestamp": now_ms(),
        "stopReason": "stop",
        "usage": {
            "input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 0,
            "cost": { "input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0 },
        },
        "api": "openai-responses",
        "provider": "openclaw",
        "model": "gateway-injected",
    })
}

/// Ends what runs in a session before it is put aside: a run would write on into nothing.
fn end_runs(shared: &Shared, key: &str) -> Result<(), ErrorShape> {
    for run in shared.runner.abort(key, None, AbortReason::Rpc) {
        if shared.runner.wait_blocking(&run, RUNS_END).is_none() {
            let what = format!("Session {key} is still active; try again in a moment.");
            return Err(ErrorShape::unavailable(what));
        }
    }
    Ok(())
}

/// How long a run that is in the way has to end.
const RUNS_END: Duration = Duration::from_secs(15);

/// Begins or ends to tell a client of all sessions.
pub(crate) fn subscribe(shared: &Shared, caller: &Caller, turn: Turn) -> Value {
    shared.hub.follow_all(&caller.connection, turn);
    json!({ "subscribed": turn == Turn::On })
}

/// Begins or ends to tell a client what is said in a session.
pub(crate) fn follow(
    shared: &Shared,
    caller: &Caller,
    params: &Value,
    turn: Turn,
) -> Result<Value, ErrorShape> {
    let sound = shared.sound()?;
    let found = meant(&sound, text(params, "key"))?;
    let is_followed = shared.hub.follow(&caller.connection, &found.key, turn);
    Ok(json!({ "subscribed": is_followed, "key": found.key }))
}

/// What a session is, as its row says.
pub(crate) fn kind(key: &str, entry: &Entry) -> &'static str {
    match key {
        "global" => return "global",
        "unknown" => return "unknown",
        _ => {}
    }
    let is_group =
        matches!(entry.get("chatType").and_then(Value::as_str), Some("group" | "channel"));
    let by_key = SessionKey::parse(key).map(|key| key.chat_type());
    match by_key {
        Some(ChatType::Group | ChatType::Channel) => "group",
        Some(ChatType::Direct | ChatType::Unknown) | None if is_group => "group",
        Some(ChatType::Direct | ChatType::Unknown) | None => "direct",
    }
}

pub(crate) fn list(shared: &Shared, params: &Value) -> Result<Value, ErrorShape> {
    let sound = shared.sound()?;
    let config = &sound.store.loaded.config;
    let only = optional(params, "agentId").map(AgentId::normalize);
    let now = now_ms();
    let stores = stores(&sound)?;
    let families = families(&stores);
    let mut rows = Vec::new();
    for (id, entries) in &stores {
        if only.as_ref().is_some_and(|only| only != id) {
            continue;
        }
        let sessions = Sessions::at(&sound.store.locations.session_store(config, id));
        let kept = entries.iter().filter(|(key, entry)| is_wanted(params, key, entry, now));
        rows.extend(kept.map(|(key, entry)| {
            let mut row = row(&sound, id, key, entry);
            if let Some(children) = families.get(key.as_str()) {
                row["childSessions"] = json!(children);
            }
            add_words(&mut row, (&sessions, entry), params);
            row
        }));
    }
    rows.sort_by_key(|row| std::cmp::Reverse(row["updatedAt"].as_u64()));
    let limit = params["limit"].as_u64().and_then(|limit| usize::try_from(limit).ok());
    rows.truncate(limit.unwrap_or(usize::MAX));
    let model = shared_model(config);
    Ok(json!({
        "ts": now,
        "path": "(multiple)",
        "count": rows.len(),
        "defaults": {
            "modelProvider": model.as_ref().map(|model| &model.provider),
            "model": model.as_ref().map(|model| &model.model),
            "contextTokens": model.as_ref().map(|model| context_tokens(config, model)),
        },
        "sessions": rows,
    }))
}

/// The sessions that each session started or was asked to.
fn families(stores: &[Store]) -> BTreeMap<&str, Vec<&str>> {
    let mut families: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (key, entry) in stores.iter().flat_map(|(_, entries)| entries) {
        let mut parents: Vec<&str> = ["spawnedBy", "parentSessionKey"]
            .iter()
            .filter_map(|name| entry.get(*name).and_then(Value::as_str).map(str::trim))
            .filter(|parent| parent != key)
            .collect();
        parents.dedup();
        for parent in parents {
            families.entry(parent).or_default().push(key);
        }
    }
    families
}

/// Adds what a session is about and what was said last, for who asks for it.
fn add_words(row: &mut Value, (sessions, entry): (&Sessions, &Entry), params: &Value) {
    let is_asked = |key: &str| params[key] == json!(true);
    let (title, last) = (is_asked("includeDerivedTitles"), is_asked("includeLastMessage"));
    let id = entry.get("sessionId").and_then(Value::as_str);
    let Some(id) = id.filter(|_| title || last) else { return };
    let messages = sessions.messages(id).unwrap_or_default();
    let said = |message: &Message| {
        let role = message.body.get("role").and_then(Value::as_str).unwrap_or_default().to_owned();
        transcript::words(message).map(|words| (role, words))
    };
    if title {
        let named = |key: &str| entry.get(key).and_then(Value::as_str).map(str::to_owned);
        let first = || {
            let mut all = messages.iter().filter_map(said);
            all.find(|(role, _)| role == "user").map(|(_, words)| title_of(&words))
        };
        let plain = || {
            let updated = entry.get("updatedAt").and_then(Value::as_u64).unwrap_or_default();
            let day = Timestamp::from_millis(updated).to_string();
            let (id, day) = (id.get(..8).unwrap_or(id), day.get(..10).unwrap_or_default());
            format!("{id} ({day})")
        };
        let name = named("displayName").or_else(|| named("subject")).or_else(first);
        row["derivedTitle"] = json!(name.unwrap_or_else(plain));
    }
    if last {
        let words = messages.iter().rev().filter_map(said);
        let words = words.filter(|(role, _)| matches!(role.as_str(), "user" | "assistant"));
        if let Some((_, words)) = words.into_iter().next() {
            row["lastMessagePreview"] = json!(words);
        }
    }
}

/// So long is a title made of what was said.
const TITLE: usize = 60;

/// The start of a text on one line, at a word's end if one is near.
fn title_of(words: &str) -> String {
    let line = words.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= TITLE {
        return line;
    }
    let start: String = line.chars().take(TITLE - 1).collect();
    let end = start.rfind(' ').filter(|end| *end > TITLE * 6 / 10);
    format!("{}…", start.get(..end.unwrap_or(start.len())).unwrap_or(&start))
}

/// Says whether a session is asked for.
fn is_wanted(params: &Value, key: &str, entry: &Entry, now: u64) -> bool {
    let field = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default();
    let is_out = |key: &str| params[key] != json!(true) || params["agentId"].is_string();
    let is_hidden = match key {
        "global" => is_out("includeGlobal"),
        "unknown" => is_out("includeUnknown"),
        _ => SessionKey::parse(key).is_some_and(|key| key.is_cron_run()),
    };
    let updated = entry.get("updatedAt").and_then(Value::as_u64).unwrap_or(0);
    let is_active = params["activeMinutes"]
        .as_u64()
        .is_none_or(|minutes| now.saturating_sub(updated) <= minutes.saturating_mul(60_000));
    let label = optional(params, "label").map(str::trim).filter(|label| !label.is_empty());
    let is_labelled = label.is_none_or(|label| label == field("label"));
    let is_child = optional(params, "spawnedBy").is_none_or(|parent| is_child(entry, parent));
    let search = optional(params, "search").map(|text| text.trim().to_lowercase());
    let is_found = search.filter(|text| !text.is_empty()).is_none_or(|text| {
        ["displayName", "label", "subject", "sessionId"]
            .iter()
            .map(|name| field(name))
            .chain([key])
            .any(|value| value.to_lowercase().contains(&text))
    });
    !is_hidden && is_active && is_found && is_labelled && is_child
}

/// Says whether a session was started by another.
fn is_child(entry: &Entry, parent: &str) -> bool {
    let is_it = |name: &str| entry.get(name).and_then(Value::as_str) == Some(parent);
    is_it("spawnedBy") || is_it("parentSessionKey")
}

/// What a row takes from an entry as it is.
const PLAIN: &[&str] = &[
    "label",
    "channel",
    "subject",
    "groupChannel",
    "space",
    "chatType",
    "origin",
    "sessionId",
    "systemSent",
    "abortedLastRun",
    "thinkingLevel",
    "fastMode",
    "verboseLevel",
    "reasoningLevel",
    "elevatedLevel",
    "sendPolicy",
    "execHost",
    "execSecurity",
    "execAsk",
    "inputTokens",
    "outputTokens",
    "estimatedCostUsd",
    "status",
    "startedAt",
    "endedAt",
    "runtimeMs",
    "parentSessionKey",
    "responseUsage",
    "deliveryContext",
    "lastChannel",
    "lastTo",
    "lastAccountId",
    "lastThreadId",
    "spawnedBy",
    "spawnedWorkspaceDir",
    "forkedFromParent",
    "spawnDepth",
    "subagentRole",
    "subagentControlScope",
];

fn row(sound: &Sound, id: &AgentId, key: &str, entry: &Entry) -> Value {
    let config = &sound.store.loaded.config;
    let mut row = Map::new();
    row.insert("key".into(), json!(key));
    row.insert("kind".into(), json!(kind(key, entry)));
    for name in PLAIN {
        row.extend(entry.get(*name).map(|value| ((*name).to_owned(), value.clone())));
    }
    row.insert("updatedAt".into(), entry.get("updatedAt").cloned().unwrap_or_default());
    let named = ["displayName", "label"].iter().find_map(|name| entry.get(*name));
    let named = named.or_else(|| entry.get("origin").and_then(|origin| origin.get("label")));
    row.extend(named.map(|name| ("displayName".to_owned(), name.clone())));
    // Nothing that was counted is the same as nothing known.
    let total = fresh_total(entry).filter(|total| *total > 0);
    row.extend(total.map(|total| ("totalTokens".to_owned(), json!(total))));
    row.insert("totalTokensFresh".into(), json!(total.is_some()));
    if let Some(model) = shown_model(sound, id, entry) {
        let known = || known_context_tokens(config, &model).map(|tokens| json!(tokens));
        let context = entry.get("contextTokens").cloned().or_else(known);
        row.extend(context.map(|context| ("contextTokens".to_owned(), context)));
        row.insert("modelProvider".into(), json!(model.provider));
        row.insert("model".into(), json!(model.model));
    }
    Value::Object(row)
}

/// The model that a session uses.
pub(crate) fn model_of(sound: &Sound, id: &AgentId, entry: &Entry) -> Option<Model> {
    let text = |name: &str| entry.get(name).and_then(Value::as_str).map(str::to_owned);
    match (text("providerOverride"), text("modelOverride")) {
        (Some(provider), Some(model)) => Some(Model { provider, model }),
        _ => default_model(&sound.store.loaded.config, id),
    }
}

/// How much of its context a session has used, if that is known.
pub(crate) fn fresh_total(entry: &Entry) -> Option<u64> {
    let is_stale = entry.get("totalTokensFresh").and_then(Value::as_bool) == Some(false);
    entry.get("totalTokens").and_then(Value::as_u64).filter(|_| !is_stale)
}

/// The model that a session's row names: the one that answered last, else the one that it uses.
pub(crate) fn shown_model(sound: &Sound, id: &AgentId, entry: &Entry) -> Option<Model> {
    let text = |name: &str| entry.get(name).and_then(Value::as_str).map(str::to_owned);
    match (text("modelProvider"), text("model")) {
        (Some(provider), Some(model)) => Some(Model { provider, model }),
        _ => model_of(sound, id, entry),
    }
}

/// A text of the parameters that says something.
fn filled<'a>(params: &'a Value, key: &str) -> Option<&'a str> {
    optional(params, key).map(str::trim).filter(|text| !text.is_empty())
}

pub(crate) fn resolve(shared: &Shared, params: &Value) -> Result<Value, ErrorShape> {
    let sound = shared.sound()?;
    let named = (filled(params, "key"), filled(params, "sessionId"), filled(params, "label"));
    match named {
        (None, None, None) => {
            Err(ErrorShape::invalid("Either key, sessionId, or label is required"))
        }
        (Some(key), None, None) => {
            let found = meant(&sound, key)?;
            let parent = filled(params, "spawnedBy");
            let is_seen = |entry: &Entry| parent.is_none_or(|parent| is_child(entry, parent));
            match found.entry()?.filter(is_seen) {
                Some(_) => Ok(json!({ "ok": true, "key": found.key })),
                None => Err(ErrorShape::invalid(format!("No session found: {key}"))),
            }
        }
        (None, Some(id), None) => {
            let is_it = |key: &str, entry: &Entry| {
                key == id || entry.get("sessionId").and_then(Value::as_str) == Some(id)
            };
            only(seen(&sound, params, is_it)?, (": ", " for sessionId: "), id)
        }
        (None, None, Some(label)) => {
            // `seen` looks at the label too.
            only(seen(&sound, params, |_, _| true)?, (" with label: ", " with label: "), label)
        }
        _ => {
            let what = "Provide either key, sessionId, or label (not multiple)";
            Err(ErrorShape::invalid(what))
        }
    }
}

/// The names of the sessions that are asked for and fit, the newest first.
fn seen(
    sound: &Sound,
    params: &Value,
    fits: impl Fn(&str, &Entry) -> bool,
) -> Result<Vec<String>, ErrorShape> {
    let agent = optional(params, "agentId").map(AgentId::normalize);
    let now = now_ms();
    let mut found = Vec::new();
    for (id, entries) in stores(sound)? {
        if agent.as_ref().is_some_and(|agent| *agent != id) {
            continue;
        }
        for (key, entry) in entries {
            if is_wanted(params, &key, &entry, now) && fits(&key, &entry) {
                found.push((entry.get("updatedAt").and_then(Value::as_u64), key));
            }
        }
    }
    found.sort_by_key(|(updated, _)| std::cmp::Reverse(*updated));
    Ok(found.into_iter().map(|(_, key)| key).collect())
}

/// The one session that was found, else how many there are; `said` is how none and several are told.
fn only(found: Vec<String>, said: (&str, &str), wanted: &str) -> Result<Value, ErrorShape> {
    match found.as_slice() {
        [] => Err(ErrorShape::invalid(format!("No session found{}{wanted}", said.0))),
        [key] => Ok(json!({ "ok": true, "key": key })),
        [first, second, ..] => {
            let what = format!("Multiple sessions found{}{wanted} ({first}, {second})", said.1);
            Err(ErrorShape::invalid(what))
        }
    }
}

/// The sessions of an agent.
type Store = (AgentId, BTreeMap<String, Entry>);

fn stores(sound: &Sound) -> Result<Vec<Store>, ErrorShape> {
    let config = &sound.store.loaded.config;
    let mut all = Vec::new();
    for id in agents::with_state(sound) {
        let path = sound.store.locations.session_store(config, &id);
        let entries = Sessions::at(&path).read().map_err(|error| unavailable(&error))?;
        all.push((id, entries));
    }
    Ok(all)
}

fn change_error(error: ChangeError<PatchRefusal>) -> ErrorShape {
    match error {
        ChangeError::Asker(refusal) => ErrorShape::invalid(refusal.to_string()),
        ChangeError::File(error) => unavailable(&error),
    }
}

/// What a reset session keeps.
pub(crate) const KEPT: &[&str] = &[
    "thinkingLevel",
    "fastMode",
    "verboseLevel",
    "reasoningLevel",
    "elevatedLevel",
    "responseUsage",
    "execHost",
    "execSecurity",
    "execAsk",
    "execNode",
    "providerOverride",
    "modelOverride",
    "sendPolicy",
    "groupActivation",
    "label",
    "displayName",
    "chatType",
    "channel",
    "origin",
    "deliveryContext",
    "lastChannel",
    "lastTo",
    "spawnedBy",
];

pub(crate) fn reset(shared: &Shared, params: &Value) -> Result<Value, ErrorShape> {
    let sound = shared.sound()?;
    let found = meant(&sound, text(params, "key"))?;
    end_runs(shared, &found.key)?;
    let now = now_ms();
    let id = random::uuid();
    let file = found.sessions.transcript(&id);
    let changed = found.sessions.change(|store| {
        let old = store.get(&found.key).and_then(Value::as_object).cloned().unwrap_or_default();
        let model = model_of(&sound, found.session.agent(), &old);
        let mut new = Map::new();
        new.insert("sessionId".into(), json!(id));
        new.insert(
            "sessionFile".into(),
            json!(file.map(|file| file.to_string_lossy().into_owned())),
        );
        new.insert("updatedAt".into(), json!(now));
        new.insert("systemSent".into(), json!(false));
        new.insert("abortedLastRun".into(), json!(false));
        for key in KEPT {
            new.extend(old.get(*key).map(|value| ((*key).to_owned(), value.clone())));
        }
        if let Some(model) = model {
            new.insert("model".into(), json!(model.model));
            new.insert("modelProvider".into(), json!(model.provider));
        }
        for counter in ["inputTokens", "outputTokens", "totalTokens"] {
            new.insert(counter.into(), json!(0));
        }
        new.insert("totalTokensFresh".into(), json!(true));
        store.insert(found.key.clone(), Value::Object(new.clone()));
        Ok((old, new))
    });
    let (old, new) = changed.map_err(change_error)?;
    if let Some(old) = old.get("sessionId").and_then(Value::as_str) {
        found.sessions.archive(old, "reset", Shared::now()).map_err(|error| unavailable(&error))?;
    }
    begin_transcript(&sound, &found, &id)?;
    tell(shared, &sound, &found, "reset");
    Ok(json!({ "ok": true, "key": found.key, "entry": new }))
}

pub(crate) fn delete(
    shared: &Shared,
    caller: &Caller,
    params: &Value,
) -> Result<Value, ErrorShape> {
    if caller.is_plain_webchat() {
        let what =
            "webchat clients cannot delete sessions; use chat.send for session-scoped updates";
        return Err(ErrorShape::invalid(what));
    }
    let sound = shared.sound()?;
    let found = meant(&sound, text(params, "key"))?;
    let main = Session::resolve(&sound.store.loaded.config, "main");
    if found.key == main.store_key().as_str() || found.key == main.main_key().as_str() {
        let what = format!("Cannot delete the main session ({}).", found.key);
        return Err(ErrorShape::invalid(what));
    }
    end_runs(shared, &found.key)?;
    let removed: Option<Value> =
        found.sessions.change(|store| Ok(store.remove(&found.key))).map_err(change_error)?;
    let mut archived = Vec::new();
    let id = removed.as_ref().and_then(|entry| entry["sessionId"].as_str());
    if let Some(id) = id.filter(|_| params["deleteTranscript"] != json!(false)) {
        let aside: Result<_, StateFileError> = found.sessions.archive(id, "deleted", Shared::now());
        let aside = aside.map_err(|error| unavailable(&error))?;
        archived.extend(aside.map(|path| path.to_string_lossy().into_owned()));
    }
    tell(shared, &sound, &found, "delete");
    Ok(json!({
        "ok": true,
        "key": found.key,
        "deleted": removed.is_some(),
        "archived": archived,
    }))
}
