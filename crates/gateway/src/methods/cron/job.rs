//! A planned job, made or changed by a client, and whether it may be as it is.

use clawpen_engine::config_file::Sound;
use clawpen_engine::cron_store::{Job, schedule};
use clawpen_rules::cron::{Schedule, Zone, default_stagger_ms};
use clawpen_rules::ids::AgentId;
use clawpen_rules::session::entry::{decide_model, default_model};
use clawpen_rules::timestamp::Timestamp;
use clawpen_wire::gateway::ErrorShape;
use serde_json::{Map, Value, json};

use crate::methods::{agents, optional, text};

/// The name of a job that was given none: the beginning of what it says.
const DERIVED_NAME: usize = 60;

/// A new job of these parameters.
pub(super) fn new(
    sound: &Sound,
    params: &Value,
    (id, now): (String, Timestamp),
) -> Result<Job, ErrorShape> {
    let payload = payload(&params["payload"])?;
    let mut job = Map::new();
    let mut set = |key: &str, value: Value| {
        job.insert(key.to_owned(), value);
    };
    set("id", json!(id));
    if let Some(agent) = agent(sound, params)? {
        set("agentId", json!(agent.as_str()));
    }
    set("name", json!(name(params, &payload)));
    if let Some(words) = described(params) {
        set("description", json!(words));
    }
    set("enabled", json!(params["enabled"] != json!(false)));
    let is_once = params["schedule"]["kind"] == "at";
    match &params["deleteAfterRun"] {
        Value::Bool(deletes) => set("deleteAfterRun", json!(deletes)),
        _ if is_once => set("deleteAfterRun", json!(true)),
        _ => {}
    }
    set("createdAtMs", json!(now.as_millis()));
    set("updatedAtMs", json!(now.as_millis()));
    set("schedule", normal(&params["schedule"], now)?);
    let is_turn = payload["kind"] == "agentTurn";
    let target = optional(params, "sessionTarget");
    let target = target.unwrap_or(if is_turn { "isolated" } else { "main" });
    set("sessionTarget", json!(if target == "current" { "isolated" } else { target }));
    set("wakeMode", json!(optional(params, "wakeMode").unwrap_or("now")));
    set("payload", payload);
    match &params["delivery"] {
        Value::Null if is_turn => set("delivery", json!({ "mode": "announce" })),
        Value::Null => {}
        delivery => set("delivery", delivery.clone()),
    }
    set("state", json!({}));
    no_session(params)?;
    Ok(Job(job))
}

/// Changes a job by a patch.
pub(super) fn patch(job: &mut Job, patch: &Value, now: Timestamp) -> Result<(), ErrorShape> {
    no_session(patch)?;
    let mut set = |key: &str, value: Value| job.0.insert(key.to_owned(), value);
    for key in ["enabled", "deleteAfterRun", "wakeMode"] {
        if !patch[key].is_null() {
            set(key, patch[key].clone());
        }
    }
    if let Some(target) = optional(patch, "sessionTarget") {
        set("sessionTarget", json!(if target == "current" { "isolated" } else { target }));
    }
    if let Some(name) = optional(patch, "name").map(str::trim).filter(|name| !name.is_empty()) {
        set("name", json!(name));
    }
    if patch["schedule"].is_object() {
        set("schedule", normal(&patch["schedule"], now)?);
    }
    if let Some(words) = optional(patch, "description") {
        match words.trim() {
            "" => job.0.shift_remove("description"),
            words => job.0.insert("description".to_owned(), json!(words)),
        };
    }
    match patch.get("agentId") {
        None => {}
        Some(Value::String(id)) => {
            let id = AgentId::normalize(id);
            job.0.insert("agentId".to_owned(), json!(id.as_str()));
        }
        Some(_) => {
            job.0.shift_remove("agentId");
        }
    }
    for key in ["payload", "delivery"] {
        if let Value::Object(change) = &patch[key] {
            let merged = merged(job.0.get(key), change);
            let merged = if key == "payload" { payload(&merged)? } else { merged };
            job.0.insert(key.to_owned(), merged);
        }
    }
    // Where nothing can be delivered to, nothing is.
    if job.text("sessionTarget") == "main" && patch["delivery"].is_null() {
        job.0.shift_remove("delivery");
    }
    Ok(())
}

/// A change of the same kind changes what it names; one of another kind begins anew.
fn merged(before: Option<&Value>, change: &Map<String, Value>) -> Value {
    let before = before.and_then(Value::as_object).cloned().unwrap_or_default();
    let is_same = change.get("kind").is_none() || change.get("kind") == before.get("kind");
    let mut merged = if is_same { before } else { Map::new() };
    merged.extend(change.clone());
    Value::Object(merged)
}

/// A job cannot choose a session: its place in the sandbox would follow from that choice.
fn no_session(params: &Value) -> Result<(), ErrorShape> {
    if params["sessionKey"].is_string() {
        let what =
            "planned jobs run in the main session or in one of their own; leave sessionKey out";
        return Err(ErrorShape::invalid(what));
    }
    Ok(())
}

fn agent(sound: &Sound, params: &Value) -> Result<Option<AgentId>, ErrorShape> {
    let Some(id) = optional(params, "agentId") else { return Ok(None) };
    let id = AgentId::normalize(id);
    if agents::all(sound).contains(&id) {
        Ok(Some(id))
    } else {
        Err(ErrorShape::invalid(format!("unknown agent id \"{id}\"")))
    }
}

fn name(params: &Value, payload: &Value) -> String {
    let given = text(params, "name").trim();
    if !given.is_empty() {
        return given.to_owned();
    }
    let said = optional(payload, "text").or_else(|| optional(payload, "message"));
    let first = said.unwrap_or_default().lines().next().unwrap_or_default();
    first.chars().take(DERIVED_NAME).collect()
}

fn described(params: &Value) -> Option<&str> {
    optional(params, "description").map(str::trim).filter(|words| !words.is_empty())
}

/// What a job says, without blanks around it.
fn payload(payload: &Value) -> Result<Value, ErrorShape> {
    let mut payload = payload.clone();
    let key = if payload["kind"] == "agentTurn" { "message" } else { "text" };
    let said = text(&payload, key).trim().to_owned();
    if said.is_empty() || said.contains('\0') {
        let what = format!("payload.{key} must say something, and hold no null bytes");
        return Err(ErrorShape::invalid(what));
    }
    payload[key] = json!(said);
    Ok(payload)
}

/// A schedule as it is kept: a moment in one spelling, an anchor, a spread.
fn normal(value: &Value, now: Timestamp) -> Result<Value, ErrorShape> {
    let mut value = value.clone();
    match text(&value, "kind") {
        "at" => {
            let at = schedule(&value, &Zone::utc()).map_err(|why| refused(&why))?;
            if let Schedule::At(at) = at {
                value["at"] = json!(at.to_string());
            }
        }
        "every" if value["anchorMs"].is_null() => value["anchorMs"] = json!(now.as_millis()),
        "cron" => {
            let expr = text(&value, "expr").trim().to_owned();
            if let (true, Some(stagger)) = (value["staggerMs"].is_null(), default_stagger_ms(&expr))
            {
                value["staggerMs"] = json!(stagger);
            }
            value["expr"] = json!(expr);
        }
        _ => {}
    }
    Ok(value)
}

fn refused(why: &clawpen_rules::cron::Refusal) -> ErrorShape {
    use clawpen_rules::cron::Refusal as R;
    match why {
        R::NoMoment(_) | R::Past { .. } | R::TooFar { .. } | R::NoTime => {
            ErrorShape::invalid(why.to_string())
        }
        // The reference's code for these; its clients look at it.
        R::Expression { .. } | R::Never(_) | R::Zone(_) => ErrorShape::unavailable(why.to_string()),
    }
}

/// Says whether a job may be planned as it is.
pub(super) fn check(
    sound: &Sound,
    zone: &Zone,
    job: &Job,
    now: Timestamp,
) -> Result<(), ErrorShape> {
    let config = &sound.store.loaded.config;
    let planned = job.schedule(zone).map_err(|why| refused(&why))?;
    if job.is_enabled() || !matches!(planned, Schedule::At(_)) {
        planned.check(now).map_err(|why| refused(&why))?;
    }
    let payload = job.0.get("payload").unwrap_or(&Value::Null);
    let kind = text(payload, "kind");
    let agent = match job.text("agentId") {
        "" => config.default_agent(),
        id => AgentId::normalize(id),
    };
    if !agents::all(sound).contains(&agent) {
        return Err(ErrorShape::invalid(format!("unknown agent id \"{agent}\"")));
    }
    let refuse = |what: String| Err(ErrorShape::unavailable(what));
    match (job.text("sessionTarget"), kind) {
        ("main", "systemEvent") if agent == config.default_agent() => {}
        ("main", "systemEvent") => {
            return refuse(format!(
                "sessionTarget \"main\" is for the default agent; agentId {agent} needs \"isolated\" \
                 with payload.kind \"agentTurn\""
            ));
        }
        ("main", _) => {
            return refuse("sessionTarget \"main\" needs payload.kind \"systemEvent\"".to_owned());
        }
        ("isolated", "agentTurn") => {}
        ("isolated", _) => {
            return refuse(
                "sessionTarget \"isolated\" needs payload.kind \"agentTurn\"".to_owned(),
            );
        }
        (other, _) => return refuse(format!("there is no sessionTarget \"{other}\"")),
    }
    if job.text("sessionTarget") == "main" && job.0.contains_key("delivery") {
        return refuse("delivery is for sessionTarget \"isolated\" only".to_owned());
    }
    if let Some(model) = optional(payload, "model") {
        let default = default_model(config, &agent);
        let decided = decide_model(config, default.as_ref(), model);
        decided.map_err(|why| ErrorShape::invalid(why.to_string()))?;
    }
    Ok(())
}

/// Notes when a job runs next.
pub(super) fn plan(job: &mut Job, zone: &Zone, now: Timestamp) {
    let next = job.schedule(zone).ok().filter(|_| job.is_enabled());
    let next = next.and_then(|schedule| schedule.next(job.id(), now, job.last_run()));
    job.plan(next);
}
