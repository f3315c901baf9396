//! `sessions.patch` and `sessions.create`: what is set on a session, and a new one.

use clawpen_engine::approvals_file::now_ms;
use clawpen_engine::config_file::Sound;
use clawpen_engine::random;
use clawpen_engine::session_entries::Entry;
use clawpen_rules::config::sandbox::{SandboxConfig, SandboxMode};
use clawpen_rules::ids::AgentId;
use clawpen_rules::session::entry::{
    LINEAGE, Lineage, PatchRefusal, SETTINGS, decide_host, decide_lineage, decide_model,
    default_model,
};
use clawpen_rules::session::{self, Placement, Session};
use clawpen_wire::gateway::ErrorShape;
use serde_json::{Map, Value, json};

use super::{begin_transcript, change_error, filled, meant, model_of, tell};
use crate::dispatch::Caller;
use crate::methods::{chat, optional, text};
use crate::shared::Shared;

pub(crate) fn patch(shared: &Shared, caller: &Caller, params: &Value) -> Result<Value, ErrorShape> {
    if caller.is_plain_webchat() {
        let what =
            "webchat clients cannot patch sessions; use chat.send for session-scoped updates";
        return Err(ErrorShape::invalid(what));
    }
    let sound = shared.sound()?;
    let found = meant(&sound, text(params, "key"))?;
    let now = now_ms();
    let changed = found.sessions.change(|store| {
        check_label(store, &found.key, params)?;
        let entry = store.entry(found.key.clone()).or_insert_with(|| json!({}));
        if !entry.is_object() {
            *entry = json!({});
        }
        let Value::Object(entry) = entry else { return Ok(Map::new()) };
        if entry.get("sessionId").and_then(Value::as_str).is_none() {
            entry.insert("sessionId".into(), json!(random::uuid()));
        }
        let before = entry.get("updatedAt").and_then(Value::as_u64).unwrap_or(0);
        entry.insert("updatedAt".into(), json!(before.max(now)));
        apply(&sound, &found.session, entry, params)?;
        Ok(entry.clone())
    });
    let entry = changed.map_err(change_error)?;
    tell(shared, &sound, &found, "patch");
    let model = model_of(&sound, found.session.agent(), &entry);
    Ok(json!({
        "ok": true,
        "path": found.path(),
        "key": found.key,
        "entry": entry,
        "resolved": {
            "modelProvider": model.as_ref().map(|model| &model.provider),
            "model": model.as_ref().map(|model| &model.model),
        },
    }))
}

fn check_label(store: &Map<String, Value>, key: &str, params: &Value) -> Result<(), PatchRefusal> {
    let Some(label) = optional(params, "label").map(str::trim) else { return Ok(()) };
    let is_taken =
        store.iter().any(|(other, entry)| other != key && entry["label"].as_str() == Some(label));
    if is_taken { Err(PatchRefusal::Label { label: label.to_owned() }) } else { Ok(()) }
}

/// Sets what the parameters name; `null` clears.
fn apply(
    sound: &Sound,
    session: &Session,
    entry: &mut Entry,
    params: &Value,
) -> Result<(), PatchRefusal> {
    apply_lineage(session, entry, params)?;
    let placement = placement(sound, session);
    for setting in SETTINGS {
        match params.get(setting.key) {
            None => {}
            Some(Value::String(text)) => {
                let mut word = setting.accept(text)?;
                if setting.key == "execHost" {
                    word = decide_host(word, &placement);
                }
                // Telling nothing about usage is what every session does.
                if (setting.key, word) == ("responseUsage", "off") {
                    entry.remove(setting.key);
                } else {
                    entry.insert(setting.key.into(), json!(word));
                }
            }
            Some(_) => {
                entry.remove(setting.key);
            }
        }
    }
    for (key, empty) in [("label", PatchRefusal::EmptyLabel), ("execNode", PatchRefusal::EmptyNode)]
    {
        match params.get(key) {
            None => {}
            Some(Value::String(text)) if text.trim().is_empty() => return Err(empty),
            Some(Value::String(text)) => {
                entry.insert(key.into(), json!(text.trim()));
            }
            Some(_) => {
                entry.remove(key);
            }
        }
    }
    match params.get("fastMode") {
        None => {}
        Some(Value::Bool(value)) => {
            entry.insert("fastMode".into(), json!(value));
        }
        Some(_) => {
            entry.remove("fastMode");
        }
    }
    apply_model(sound, session, entry, params)
}

/// Where a session came from is said once.
fn apply_lineage(session: &Session, entry: &mut Entry, params: &Value) -> Result<(), PatchRefusal> {
    for key in LINEAGE {
        let Some(wanted) = params.get(key) else { continue };
        if wanted.as_str().is_some_and(|text| text.trim().is_empty()) {
            return Err(PatchRefusal::EmptyLineage { key });
        }
        let old = entry.get(key).filter(|old| !old.is_null());
        let asked = match (wanted.is_null(), old) {
            (true, None) => Lineage::ClearedAgain,
            (true, Some(_)) => Lineage::Cleared,
            (false, Some(old)) if old != wanted => Lineage::Other,
            (false, _) => Lineage::New,
        };
        decide_lineage(key, &session.store_key(), asked)?;
        if !wanted.is_null() {
            entry.insert(key.into(), wanted.clone());
        }
    }
    Ok(())
}

fn apply_model(
    sound: &Sound,
    session: &Session,
    entry: &mut Entry,
    params: &Value,
) -> Result<(), PatchRefusal> {
    let Some(wanted) = params.get("model") else { return Ok(()) };
    let config = &sound.store.loaded.config;
    let default = default_model(config, session.agent());
    let model = match wanted.as_str() {
        Some(text) => Some(decide_model(config, default.as_ref(), text)?),
        None => None,
    };
    let chosen = model.or(default.clone());
    let own = chosen.clone().filter(|model| Some(model) != default.as_ref());
    let before = overrides(entry);
    if let Some(model) = own {
        entry.insert("providerOverride".into(), json!(model.provider));
        entry.insert("modelOverride".into(), json!(model.model));
    } else {
        entry.remove("providerOverride");
        entry.remove("modelOverride");
    }
    // What answered last says nothing about what answers next.
    let last = |key: &str| entry.get(key).and_then(Value::as_str);
    let is_last = match (last("modelProvider"), last("model"), &chosen) {
        (None, None, _) => true,
        (provider, Some(model), Some(chosen)) => {
            model == chosen.model && provider.is_none_or(|provider| provider == chosen.provider)
        }
        _ => false,
    };
    if before != overrides(entry) || !is_last {
        for key in ["model", "modelProvider", "contextTokens"] {
            entry.remove(key);
        }
    }
    Ok(())
}

/// The model that a session has of its own.
fn overrides(entry: &Entry) -> [Option<Value>; 2] {
    ["providerOverride", "modelOverride"].map(|key| entry.get(key).cloned())
}

/// Where a session's tools run, by the config of this moment. A config that cannot be resolved runs
/// nothing on the host.
fn placement(sound: &Sound, session: &Session) -> Placement {
    let config = &sound.store.loaded.config;
    let state_dir = &sound.store.locations.state_dir;
    let mode = SandboxConfig::resolve(config, Some(session.agent()), state_dir)
        .map_or(SandboxMode::All, |resolved| resolved.mode.value);
    session::decide(mode, session)
}

/// Makes a session, and says something in it if there is something to say.
pub(crate) fn create(
    shared: &Shared,
    caller: &Caller,
    params: &Value,
) -> Result<Value, ErrorShape> {
    let sound = shared.sound()?;
    let wanted = filled(params, "agentId").map(AgentId::normalize);
    let agent = wanted.clone().unwrap_or_else(|| sound.store.loaded.config.default_agent());
    let key = match filled(params, "key") {
        Some(key) => key.to_owned(),
        None => format!("agent:{agent}:dashboard:{}", random::uuid()),
    };
    let found = meant(&sound, &key)?;
    if let Some(wanted) = wanted.filter(|wanted| wanted != found.session.agent()) {
        let of_key = found.session.agent();
        let what =
            format!("sessions.create key agent ({of_key}) does not match agentId ({wanted})");
        return Err(ErrorShape::invalid(what));
    }
    let parent = filled(params, "parentSessionKey").map(|key| parent(&sound, key)).transpose()?;
    let now = now_ms();
    let changed = found.sessions.change(|store| {
        check_label(store, &found.key, params)?;
        let old = store.get(&found.key).and_then(Value::as_object).cloned();
        let mut entry = old.unwrap_or_default();
        if entry.get("sessionId").and_then(Value::as_str).is_none() {
            entry.insert("sessionId".into(), json!(random::uuid()));
        }
        entry.insert("updatedAt".into(), json!(now));
        if let Some(label) = optional(params, "label") {
            entry.insert("label".into(), json!(label.trim()));
        }
        if let Some(parent) = &parent {
            entry.insert("parentSessionKey".into(), json!(parent));
        }
        apply_model(&sound, &found.session, &mut entry, params)?;
        let id = entry.get("sessionId").and_then(Value::as_str).unwrap_or_default();
        let file = found.sessions.transcript(id);
        if let Some(file) = file {
            entry.insert("sessionFile".into(), json!(file.to_string_lossy()));
        }
        store.insert(found.key.clone(), Value::Object(entry.clone()));
        Ok(entry)
    });
    let entry = changed.map_err(change_error)?;
    let id = entry.get("sessionId").and_then(Value::as_str).unwrap_or_default();
    begin_transcript(&sound, &found, id)?;
    tell(shared, &sound, &found, "create");
    let mut made = json!({
        "ok": true,
        "key": found.key,
        "sessionId": entry.get("sessionId"),
        "entry": entry,
        "runStarted": false,
    });
    begin(shared, caller, params, &mut made);
    Ok(made)
}

/// The name of a session that is there.
fn parent(sound: &Sound, key: &str) -> Result<String, ErrorShape> {
    let found = meant(sound, key)?;
    match found.entry()? {
        Some(_) => Ok(found.key),
        None => Err(ErrorShape::invalid(format!("unknown parent session: {key}"))),
    }
}

/// Says the first thing in a new session. The session is there also if nobody can answer.
fn begin(shared: &Shared, caller: &Caller, params: &Value, made: &mut Value) {
    let first = optional(params, "message").or_else(|| optional(params, "task"));
    let Some(first) = first.filter(|text| !text.trim().is_empty()) else { return };
    let message = json!({
        "sessionKey": made["key"], "message": first, "idempotencyKey": random::uuid(),
    });
    match chat::send(shared, caller, &message) {
        Ok(begun) => {
            made["runStarted"] = json!(begun["runId"].is_string());
            for key in ["runId", "status"] {
                made[key] = begun[key].clone();
            }
            made["messageSeq"] = json!(1);
        }
        Err(error) => {
            made["runError"] = json!({ "code": error.code.as_str(), "message": error.message });
        }
    }
}
