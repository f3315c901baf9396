//! `env` rows: which variables pass the filter.

use clawpen_rules::environment::Filter;
use serde_json::{Map, Value, json};

use super::pairs;
use crate::replay::Answer;

pub(super) fn answer(input: &Value) -> Answer {
    let filter = match input["options"]["strictMode"].as_bool() {
        Some(true) => Filter::plain_names_only(),
        Some(false) | None => Filter::except_credentials(),
    };
    let filtered = filter.apply(pairs(&input["env"]));
    let allowed: Map<String, Value> =
        filtered.kept.iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
    let blocked: Vec<&String> = filtered.blocked.iter().map(|(name, _)| name).collect();
    let warnings: Vec<String> =
        filtered.remarks.iter().map(|(name, remark)| format!("{name}: {remark}")).collect();
    Answer::Given(json!({ "allowed": allowed, "blocked": blocked, "warnings": warnings }))
}
