//! What is planned, and what came of it, a page at a time.

use std::cmp::Ordering;
use std::collections::HashMap;

use clawpen_engine::cron_store::{Job, is_plain_id};
use clawpen_rules::timestamp::Timestamp;
use clawpen_wire::gateway::ErrorShape;
use serde_json::{Value, json};

use crate::cron::Settings;
use crate::methods::optional;
use crate::shared::{Shared, unavailable};

const PAGE: u64 = 50;
const LARGEST_PAGE: u64 = 200;

/// A page of a list.
fn page(items: Vec<Value>, params: &Value, name: &str, size: u64) -> Value {
    let number = |key: &str, built_in: u64| params[key].as_u64().unwrap_or(built_in);
    let limit = number("limit", size).clamp(1, LARGEST_PAGE);
    let total = u64::try_from(items.len()).unwrap_or(u64::MAX);
    let offset = number("offset", 0).min(total);
    let next = offset.saturating_add(limit);
    let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let shown: Vec<Value> = items.into_iter().skip(count(offset)).take(count(limit)).collect();
    json!({
        name: shown,
        "total": total,
        "offset": offset,
        "limit": limit,
        "hasMore": next < total,
        "nextOffset": (next < total).then_some(next),
    })
}

/// What is searched for, in small letters.
fn query(params: &Value) -> Option<String> {
    let query = optional(params, "query").map(|text| text.trim().to_lowercase());
    query.filter(|text| !text.is_empty())
}

pub(crate) fn list(shared: &Shared, params: &Value) -> Result<Value, ErrorShape> {
    let settings = Settings::of(shared, &*shared.sound()?);
    let jobs = settings.store.read().map_err(|error| unavailable(&error))?;
    let search = query(params);
    let wants_all = params["includeDisabled"] == json!(true);
    let is_wanted = |job: &Job| {
        let is_on = match optional(params, "enabled") {
            Some("all") => true,
            Some("disabled") => !job.is_enabled(),
            Some(_) => job.is_enabled(),
            None => job.is_enabled() || wants_all,
        };
        let is_found = search.as_ref().is_none_or(|text| {
            let keys = ["name", "description", "agentId"];
            keys.iter().any(|key| job.text(key).to_lowercase().contains(text))
        });
        is_on && is_found
    };
    let mut jobs: Vec<Job> = jobs.into_iter().filter(is_wanted).collect();
    let by = optional(params, "sortBy").unwrap_or("nextRunAtMs").to_owned();
    jobs.sort_by(|one, other| order(&by, one, other));
    if optional(params, "sortDir") == Some("desc") {
        jobs.reverse();
    }
    // Without a limit all are shown, as far as a page goes.
    let size = u64::try_from(jobs.len()).ok().filter(|count| *count > 0).unwrap_or(PAGE);
    let jobs = jobs.into_iter().map(|job| Value::Object(job.0)).collect();
    Ok(page(jobs, params, "jobs", size))
}

/// Whoever has no next moment comes last.
fn order(by: &str, one: &Job, other: &Job) -> Ordering {
    let next = |job: &Job| job.next_run().map_or(u64::MAX, Timestamp::as_millis);
    let updated = |job: &Job| job.0.get("updatedAtMs").and_then(Value::as_u64).unwrap_or_default();
    let names = || {
        let name = |job: &Job| job.text("name").to_lowercase();
        name(one).cmp(&name(other)).then_with(|| one.id().cmp(other.id()))
    };
    match by {
        "name" => names(),
        "updatedAtMs" => updated(one).cmp(&updated(other)).then_with(names),
        _ => next(one).cmp(&next(other)).then_with(names),
    }
}

pub(crate) fn status(shared: &Shared) -> Result<Value, ErrorShape> {
    let settings = Settings::of(shared, &*shared.sound()?);
    let jobs = settings.store.read().map_err(|error| unavailable(&error))?;
    let next = jobs.iter().filter(|job| job.is_enabled()).filter_map(Job::next_run).min();
    Ok(json!({
        "enabled": settings.is_on,
        "storePath": settings.store.path().to_string_lossy(),
        "jobs": jobs.len(),
        "nextWakeAtMs": next.filter(|_| settings.is_on).map(Timestamp::as_millis),
    }))
}

pub(crate) fn runs(shared: &Shared, params: &Value) -> Result<Value, ErrorShape> {
    let id = optional(params, "id").or_else(|| optional(params, "jobId"));
    if id.is_some_and(|id| !is_plain_id(id)) {
        return Err(ErrorShape::invalid("invalid cron.runs params: at /id: must be a plain name"));
    }
    let settings = Settings::of(shared, &*shared.sound()?);
    let log = settings.store.log();
    let read = match (optional(params, "scope"), id) {
        (Some("job"), None) => {
            return Err(ErrorShape::invalid("invalid cron.runs params: missing id"));
        }
        (Some("job") | None, Some(id)) => log.of(id),
        (_, _) => log.of_all(),
    };
    let mut runs = read.map_err(|error| unavailable(&error))?;
    let of_all = id.is_none() || optional(params, "scope") == Some("all");
    let jobs = settings.store.read().unwrap_or_default();
    let names: HashMap<&str, &str> = jobs.iter().map(|job| (job.id(), job.text("name"))).collect();
    if of_all {
        for run in &mut runs {
            if let Some(name) = run["jobId"].as_str().and_then(|id| names.get(id)) {
                run["jobName"] = json!(name);
            }
        }
    }
    runs.retain(|run| is_wanted(run, params));
    runs.sort_by_key(|run| run["ts"].as_u64());
    if optional(params, "sortDir") != Some("asc") {
        runs.reverse();
    }
    Ok(page(runs, params, "entries", PAGE))
}

/// Says whether a run is asked for.
fn is_wanted(run: &Value, params: &Value) -> bool {
    let is_one_of = |one: &str, many: &str, field: &str| {
        if let Some(many) = params[many].as_array().filter(|many| !many.is_empty()) {
            return many.contains(&run[field]);
        }
        optional(params, one).is_none_or(|wanted| wanted == "all" || run[field] == *wanted)
    };
    let is_found = query(params).is_none_or(|text| {
        let keys = ["summary", "error", "jobId", "jobName"];
        keys.iter().any(|key| run[key].as_str().unwrap_or_default().to_lowercase().contains(&text))
    });
    is_one_of("status", "statuses", "status")
        && is_one_of("deliveryStatus", "deliveryStatuses", "deliveryStatus")
        && is_found
}
