//! `node.list`: the machines that were paired to run commands. This build sends them none.

use clawpen_engine::approvals_file::now_ms;
use clawpen_wire::gateway::ErrorShape;
use serde_json::{Map, Value, json};

use crate::shared::{Shared, unavailable};

pub(crate) fn list(shared: &Shared) -> Result<Value, ErrorShape> {
    let now = now_ms();
    let (_, paired) = shared.devices.list(now).map_err(|error| unavailable(&error))?;
    let connected = shared.hub.nodes();
    let is_node = |device: &&Value| {
        let roles = device["roles"].as_array().into_iter().flatten();
        roles.into_iter().any(|role| role == "node")
    };
    let nodes: Vec<Value> = paired
        .iter()
        .filter(is_node)
        .map(|device| {
            let id = device["deviceId"].as_str().unwrap_or_default();
            let mut node = Map::new();
            node.insert("nodeId".into(), json!(id));
            for key in ["displayName", "platform", "deviceFamily"] {
                node.extend(device[key].as_str().map(|text| (key.to_owned(), json!(text))));
            }
            node.insert("caps".into(), json!([]));
            node.insert("commands".into(), json!([]));
            node.insert("paired".into(), json!(true));
            node.insert("connected".into(), json!(connected.iter().any(|one| one == id)));
            Value::Object(node)
        })
        .collect();
    Ok(json!({ "ts": now, "nodes": nodes }))
}
