//! Where we differ from the recordings on purpose.
//!
//! A rule looks at a row's `input` (never at its id), and turns the recorded answer into the one we
//! mean to give, by code that never calls the product. Each rule has a section of the same name in
//! `docs/compat.md` that gives the reason.

mod agents;
mod config_hash;
mod docker_create;
mod exec_allowlist;
mod exec_approvals;
mod explain;
mod fs_path;
pub mod gateway_frames;
mod session_key;
mod tool_policy;

use serde_json::Value;

use crate::replay::Row;

/// One deliberate difference.
#[derive(Debug)]
pub struct Rule {
    /// Its heading in `docs/compat.md`.
    pub name: &'static str,
    /// The category of rows it may concern, or [`ANY`].
    pub category: &'static str,
    /// Says whether it concerns a row with this input.
    pub applies: fn(input: &Value) -> bool,
    /// Gives the answer we mean to give. Receives the row's input and the recorded answer.
    pub transform: fn(input: &Value, expected: Value) -> Value,
}

/// Stands for every category.
pub const ANY: &str = "*";

/// Every rule of one corpus.
pub fn rules(corpus: &str) -> Vec<&'static Rule> {
    let tables: &[&'static [Rule]] = match corpus {
        "config-hash" => &[config_hash::RULES],
        "docker-create" => &docker_create::RULES,
        "exec-allowlist" => &[exec_allowlist::RULES, exec_allowlist::DECISIONS],
        "exec-approvals" => &[exec_approvals::RULES],
        "explain" => &[explain::RULES],
        "fs-path" => &[fs_path::RULES, fs_path::bridge::RULES],
        "gateway-frames" => {
            &[gateway_frames::newer::RULES, gateway_frames::runs::RULES, gateway_frames::RULES]
        }
        "session-key" => &[session_key::RULES],
        "tool-policy" => &[tool_policy::RULES],
        _ => &[],
    };
    tables.iter().copied().flatten().collect()
}

/// The answer we mean to give to a row, and the names of the rules that changed the recorded one.
pub fn apply(corpus: &str, row: &Row) -> (Value, Vec<&'static str>) {
    let mut expected = row.expected.clone();
    let mut used = Vec::new();
    for rule in rules(corpus) {
        let concerns = rule.category == ANY || rule.category == row.category();
        if !concerns || !(rule.applies)(&row.input) {
            continue;
        }
        let changed = (rule.transform)(&row.input, expected.clone());
        if changed != expected {
            used.push(rule.name);
            expected = changed;
        }
    }
    (expected, used)
}
