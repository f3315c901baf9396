//! The methods, one file per family. Each turns parameters into the engine's types, calls, and turns
//! the answer into JSON. Parameters have their shape by then; see `wire::gateway::params`.

pub(crate) mod agents;
pub(crate) mod chat;
pub(crate) mod config;
pub(crate) mod cron;
pub(crate) mod devices;
pub(crate) mod exec_approval;
pub(crate) mod exec_approvals;
pub(crate) mod health;
pub(crate) mod heartbeat;
pub(crate) mod identity;
pub(crate) mod logs;
pub(crate) mod models;
pub(crate) mod nodes;
pub(crate) mod sandbox;
pub(crate) mod sessions;
pub(crate) mod skills;
pub(crate) mod tools;
pub(crate) mod usage;

use serde_json::Value;

/// A text of the parameters; blank if it is not there.
fn text<'a>(params: &'a Value, key: &str) -> &'a str {
    params[key].as_str().unwrap_or_default()
}

/// A text that may be absent.
fn optional<'a>(params: &'a Value, key: &str) -> Option<&'a str> {
    params[key].as_str()
}
