//! `cron.list` and `cron.status`: the jobs that are planned in the state directory. This build runs
//! none of them, and says so.

use std::path::{Path, PathBuf};

use clawpen_engine::state_file;
use clawpen_wire::gateway::ErrorShape;
use serde_json::{Value, json};

use super::optional;
use crate::shared::{Shared, unavailable};

const MAX_BYTES: u64 = 16 * 1024 * 1024;
const PAGE: u64 = 50;
const LARGEST_PAGE: u64 = 200;

fn path(shared: &Shared) -> PathBuf {
    Path::new(&shared.locations.state_dir).join("cron/jobs.json")
}

fn jobs(shared: &Shared) -> Result<Vec<Value>, ErrorShape> {
    let read = state_file::read(&path(shared), MAX_BYTES).map_err(|error| unavailable(&error))?;
    let Some(text) = read else { return Ok(Vec::new()) };
    let file: Value = serde_json::from_str(&text).map_err(|error| {
        let path = path(shared);
        ErrorShape::unavailable(format!("`{}` is not valid: {error}", path.display()))
    })?;
    Ok(file["jobs"].as_array().cloned().unwrap_or_default())
}

pub(crate) fn list(shared: &Shared, params: &Value) -> Result<Value, ErrorShape> {
    let wants_all = params["includeDisabled"] == json!(true);
    let search = optional(params, "query").map(str::to_lowercase);
    let is_wanted = |job: &Value| {
        let is_on = job["enabled"] != json!(false);
        let name = job["name"].as_str().unwrap_or_default().to_lowercase();
        (is_on || wants_all) && search.as_ref().is_none_or(|text| name.contains(text.trim()))
    };
    let jobs: Vec<Value> = jobs(shared)?.into_iter().filter(is_wanted).collect();
    let number = |key: &str, built_in: u64| params[key].as_u64().unwrap_or(built_in);
    let limit = number("limit", PAGE).clamp(1, LARGEST_PAGE);
    let total = u64::try_from(jobs.len()).unwrap_or(u64::MAX);
    let offset = number("offset", 0).min(total);
    let next = offset.saturating_add(limit);
    let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let shown: Vec<Value> = jobs.into_iter().skip(count(offset)).take(count(limit)).collect();
    Ok(json!({
        "jobs": shown,
        "total": total,
        "offset": offset,
        "limit": limit,
        "hasMore": next < total,
        "nextOffset": (next < total).then_some(next),
    }))
}

pub(crate) fn status(shared: &Shared) -> Result<Value, ErrorShape> {
    Ok(json!({
        "enabled": false,
        "storePath": path(shared).to_string_lossy(),
        "jobs": jobs(shared)?.len(),
        "nextWakeAtMs": Value::Null,
    }))
}
