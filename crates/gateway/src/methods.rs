//! The methods, one file per family. Each turns parameters into the engine's types, calls, and turns
//! the answer into JSON. Parameters have their shape by then; see `wire::gateway::params`.

pub(crate) mod agents;
pub(crate) mod config;
pub(crate) mod devices;
pub(crate) mod exec_approvals;
pub(crate) mod health;
pub(crate) mod sessions;

use serde_json::Value;

/// A text of the parameters; blank if it is not there.
fn text<'a>(params: &'a Value, key: &str) -> &'a str {
    params[key].as_str().unwrap_or_default()
}

/// A text that may be absent.
fn optional<'a>(params: &'a Value, key: &str) -> Option<&'a str> {
    params[key].as_str()
}
