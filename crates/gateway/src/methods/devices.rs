//! `device.*`: who is paired, who waits, who goes.

use clawpen_engine::approvals_file::now_ms;
use clawpen_engine::state_file::StateFileError;
use clawpen_rules::access::{Role, Scopes};
use clawpen_wire::gateway::{ErrorShape, close};
use serde_json::{Value, json};

use super::text;
use crate::dispatch::Caller;
use crate::hub::Slow;
use crate::shared::{Shared, unavailable};

pub(crate) fn list(shared: &Shared) -> Result<Value, ErrorShape> {
    let (pending, paired) = shared.devices.list(now_ms()).map_err(fail)?;
    Ok(json!({ "pending": pending, "paired": paired }))
}

/// Agrees to a request. Nobody gives what he does not have.
pub(crate) fn approve(
    shared: &Shared,
    caller: &Caller,
    params: &Value,
) -> Result<Value, ErrorShape> {
    let id = text(params, "requestId");
    let unknown = || ErrorShape::invalid("unknown requestId");
    let request = shared.devices.request(id, now_ms()).map_err(fail)?.ok_or_else(unknown)?;
    let wanted = request["scopes"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let wanted = Scopes::of(wanted);
    if !caller.scopes.covers_all(&wanted) {
        let missing = wanted.words().into_iter().find(|word| {
            let one = Scopes::of([*word]);
            !caller.scopes.covers_all(&one)
        });
        let missing = missing.unwrap_or("operator.admin");
        return Err(ErrorShape::invalid(format!("missing scope: {missing}")));
    }
    let device = shared.devices.approve(id, now_ms()).map_err(fail)?.ok_or_else(unknown)?;
    resolved(shared, id, &device["deviceId"], "approved");
    Ok(json!({ "requestId": id, "device": device }))
}

pub(crate) fn reject(shared: &Shared, params: &Value) -> Result<Value, ErrorShape> {
    let id = text(params, "requestId");
    let device = shared.devices.reject(id, now_ms()).map_err(fail)?;
    let device = device.ok_or_else(|| ErrorShape::invalid("unknown requestId"))?;
    resolved(shared, id, &json!(device), "rejected");
    Ok(json!({ "requestId": id, "deviceId": device }))
}

pub(crate) fn remove(shared: &Shared, params: &Value) -> Result<Value, ErrorShape> {
    let device = text(params, "deviceId");
    if !shared.devices.remove(device).map_err(fail)? {
        return Err(ErrorShape::invalid("unknown deviceId"));
    }
    shared.hub.close_device(device, close::DEVICE_REMOVED, "device removed");
    Ok(json!({ "deviceId": device }))
}

/// Gives a device a new token, for as much as the old one or for less. The old one is worth nothing from then on, and
/// whoever used it is let go.
pub(crate) fn rotate(
    shared: &Shared,
    caller: &Caller,
    params: &Value,
) -> Result<Value, ErrorShape> {
    let (device, role) = (text(params, "deviceId").trim(), text(params, "role").trim());
    let denied = || ErrorShape::invalid("device token rotation denied");
    let role = Role::parse(role).ok_or_else(denied)?;
    let known = shared.devices.known(device).map_err(fail)?.ok_or_else(denied)?;
    if !caller.scopes.covers_all(&known.scopes) {
        return Err(ErrorShape::invalid("missing scope: operator.admin"));
    }
    let wanted = params["scopes"]
        .as_array()
        .map(|words| Scopes::of(words.iter().filter_map(serde_json::Value::as_str)));
    let issued = shared.devices.rotate((device, role), wanted, now_ms()).map_err(fail)?;
    let issued = issued.ok_or_else(denied)?;
    shared.hub.close_device(device, close::DEVICE_REMOVED, "device removed");
    Ok(json!({
        "deviceId": device,
        "role": role.as_str(),
        "token": issued.token,
        "scopes": issued.scopes.words(),
        "rotatedAtMs": issued.issued_at_ms,
    }))
}

pub(crate) fn revoke(shared: &Shared, params: &Value) -> Result<Value, ErrorShape> {
    let (device, role) = (text(params, "deviceId").trim(), text(params, "role").trim());
    let unknown = || ErrorShape::invalid("unknown deviceId/role");
    let role = Role::parse(role).ok_or_else(unknown)?;
    let now = now_ms();
    if !shared.devices.revoke(device, role, now).map_err(fail)? {
        return Err(unknown());
    }
    shared.hub.close_device(device, close::DEVICE_REMOVED, "device removed");
    Ok(json!({ "deviceId": device, "role": role.as_str(), "revokedAtMs": now }))
}

fn resolved(shared: &Shared, request: &str, device: &Value, decision: &str) {
    let payload = json!({
        "requestId": request,
        "deviceId": device,
        "decision": decision,
        "ts": now_ms(),
    });
    shared.hub.broadcast("device.pair.resolved", &payload, Slow::Drop);
}

fn fail(error: StateFileError) -> ErrorShape {
    unavailable(&error)
}
