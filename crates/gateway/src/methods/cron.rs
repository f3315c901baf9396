//! `cron.*`: what is planned in the state directory, and what came of it. Jobs are run by `crate::cron`.
//!
//! Only who may change everything plans: a job's words become a model's orders while nobody looks. What a job may say is
//! checked here in full before it is kept.

mod job;
mod look;

use clawpen_engine::config_file::Sound;
use clawpen_engine::cron_store::{Job, is_plain_id};
use clawpen_engine::random;
use clawpen_engine::session_entries::ChangeError;
use clawpen_wire::gateway::ErrorShape;
use serde_json::{Map, Value, json};

use super::optional;
use crate::cron::{Settings, tell};
use crate::dispatch::Caller;
use crate::shared::{Shared, unavailable};

pub(crate) use look::{list, runs, status};

/// More jobs than this are not planned.
const MOST_JOBS: usize = 1000;

/// The job that is meant.
fn id(params: &Value) -> Result<&str, ErrorShape> {
    let id = optional(params, "id").or_else(|| optional(params, "jobId"));
    id.ok_or_else(|| ErrorShape::invalid("invalid cron params: must have required property 'id'"))
}

fn unknown(id: &str) -> ErrorShape {
    ErrorShape::unavailable(format!("unknown cron job id: {id}"))
}

/// A page that only chats plans nothing, whatever its credential would allow.
fn admit(caller: &Caller) -> Result<(), ErrorShape> {
    if caller.is_plain_webchat() {
        return Err(ErrorShape::invalid("webchat clients cannot change planned jobs"));
    }
    Ok(())
}

fn changed(error: ChangeError<ErrorShape>) -> ErrorShape {
    match error {
        ChangeError::File(error) => unavailable(&error),
        ChangeError::Asker(refused) => refused,
    }
}

/// When a job runs next, for an event.
fn next_of(job: &Job) -> Value {
    match job.next_run() {
        Some(next) => json!({ "nextRunAtMs": next.as_millis() }),
        None => json!({}),
    }
}

pub(crate) fn add(shared: &Shared, caller: &Caller, params: &Value) -> Result<Value, ErrorShape> {
    admit(caller)?;
    let sound = shared.sound()?;
    let settings = Settings::of(shared, &sound);
    let now = Shared::now();
    let mut job = job::new(&sound, params, (random::uuid(), now))?;
    job::check(&sound, &settings.zone, &job, now)?;
    job::plan(&mut job, &settings.zone, now);
    let added = settings.store.change(|jobs| {
        if jobs.len() >= MOST_JOBS {
            let what = format!("{MOST_JOBS} jobs are planned already; remove some first");
            return Err(ErrorShape::unavailable(what));
        }
        jobs.push(job.clone());
        Ok(())
    });
    added.map_err(changed)?;
    tell(shared, job.id(), "added", next_of(&job));
    shared.cron.wake();
    Ok(Value::Object(job.0))
}

pub(crate) fn update(
    shared: &Shared,
    caller: &Caller,
    params: &Value,
) -> Result<Value, ErrorShape> {
    admit(caller)?;
    let id = id(params)?;
    let sound = shared.sound()?;
    let settings = Settings::of(shared, &sound);
    let now = Shared::now();
    let updated = settings.store.change(|jobs| {
        let Some(job) = jobs.iter_mut().find(|job| job.id() == id) else { return Err(unknown(id)) };
        let before = job.clone();
        job::patch(job, &params["patch"], now)?;
        check_change(&sound, &settings, (&before, job), now)?;
        let is_replanned =
            ["schedule", "enabled"].iter().any(|key| before.0.get(*key) != job.0.get(*key));
        if is_replanned {
            job::plan(job, &settings.zone, now);
        }
        job.0.insert("updatedAtMs".to_owned(), json!(now.as_millis()));
        Ok(job.clone())
    });
    let job = updated.map_err(changed)?;
    tell(shared, id, "updated", next_of(&job));
    shared.cron.wake();
    Ok(Value::Object(job.0))
}

/// Checks a changed job. One that is only switched off may be wrong otherwise: that must always be possible.
fn check_change(
    sound: &Sound,
    settings: &Settings,
    (before, job): (&Job, &Job),
    now: clawpen_rules::timestamp::Timestamp,
) -> Result<(), ErrorShape> {
    let is_only_off = !job.is_enabled() && {
        let rest = |job: &Job| {
            let mut rest: Map<String, Value> = job.0.clone();
            rest.remove("enabled");
            rest
        };
        rest(before) == rest(job)
    };
    if is_only_off { Ok(()) } else { job::check(sound, &settings.zone, job, now) }
}

pub(crate) fn remove(
    shared: &Shared,
    caller: &Caller,
    params: &Value,
) -> Result<Value, ErrorShape> {
    admit(caller)?;
    let id = id(params)?;
    let settings = Settings::of(shared, &*shared.sound()?);
    let removed = settings.store.change(|jobs| {
        let before = jobs.len();
        jobs.retain(|job| job.id() != id);
        Ok::<_, ErrorShape>(jobs.len() != before)
    });
    let removed = removed.map_err(changed)?;
    if removed {
        tell(shared, id, "removed", json!({}));
        shared.cron.wake();
    }
    Ok(json!({ "ok": true, "removed": removed }))
}

/// Runs a job now, or only if it is due.
pub(crate) fn run(shared: &Shared, caller: &Caller, params: &Value) -> Result<Value, ErrorShape> {
    admit(caller)?;
    let id = id(params)?;
    let sound = shared.sound()?;
    let settings = Settings::of(shared, &sound);
    let jobs = settings.store.read().map_err(|error| unavailable(&error))?;
    let job = jobs.iter().find(|job| job.id() == id).ok_or_else(|| unknown(id))?;
    if !is_plain_id(id) {
        return Err(ErrorShape::invalid(format!(
            "the id `{id}` is no plain name; it does not run"
        )));
    }
    let now = Shared::now();
    let is_due = job.is_enabled() && job.next_run().is_some_and(|next| next <= now);
    if optional(params, "mode") == Some("due") {
        if job.running_since().is_some() {
            return Ok(json!({ "ok": true, "ran": false, "reason": "already-running" }));
        }
        if !is_due {
            return Ok(json!({ "ok": true, "ran": false, "reason": "not-due" }));
        }
    }
    let run = shared.cron.ask(&settings, id)?;
    Ok(json!({ "ok": true, "enqueued": true, "runId": run }))
}
