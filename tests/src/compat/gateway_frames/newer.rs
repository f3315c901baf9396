//! What the newer release says and we do not: our state, our words and our methods are those of the older one. What both
//! releases know is compared; the rest is turned into what the older one says, row by row.

use serde_json::{Value, json};

use super::super::{ANY, Rule};
use super::ANYTHING;

pub(super) fn is_newer(input: &Value) -> bool {
    input["ver"] == "2026.9.6"
}

pub(in super::super) const RULES: &[Rule] = &[
    Rule {
        name: "the-greeting-of-the-newer-release",
        category: ANY,
        applies: |input| {
            is_newer(input)
                && matches!(input["method"].as_str(), Some("connect" | "connect.challenge"))
        },
        transform: |input, expected| greeting(input, expected),
    },
    Rule {
        name: "the-older-release-counts",
        category: ANY,
        applies: |input| is_newer(input) && input["kind"] == "res" && input["method"] != "connect",
        transform: |input, expected| answer(input, expected),
    },
    Rule {
        name: "fewer-events-are-told",
        category: ANY,
        applies: |input| {
            is_newer(input) && input["kind"] == "event" && input["method"] != "connect.challenge"
        },
        transform: |_, expected| event(expected),
    },
];

fn greeting(input: &Value, mut expected: Value) -> Value {
    if let Some(payload) = expected["payload"].as_object_mut()
        && input["kind"] == "event"
    {
        payload.remove("capabilities");
        return expected;
    }
    let number = |key: &str| input["params"][key].as_u64().unwrap_or_default();
    let chosen = number("maxProtocol").min(4);
    if chosen < 3 || chosen < number("minProtocol") {
        expected["error"]["details"] = json!({ "expectedProtocol": 3 });
        return expected;
    }
    let mut hello = json!({ "type": "hello-ok", "protocol": chosen });
    for key in ["server", "features", "snapshot", "policy"] {
        hello[key] = json!(ANYTHING);
    }
    // Who speaks the newer protocol is told how he came in.
    let auth = &expected["payload"]["auth"];
    hello["auth"] = if chosen == 4 && auth.is_object() {
        json!({ "method": auth["method"], "role": auth["role"], "scopes": ANYTHING,
                "deviceToken": "<OPTIONAL>", "issuedAtMs": "<OPTIONAL>" })
    } else {
        json!(ANYTHING)
    };
    json!({ "type": "res", "id": expected["id"], "ok": true, "payload": hello })
}

fn failed(expected: &Value, message: &str) -> Value {
    json!({ "type": "res", "id": expected["id"], "ok": false,
            "error": { "code": "INVALID_REQUEST", "message": message } })
}

fn answer(input: &Value, mut expected: Value) -> Value {
    let params = &input["params"];
    let payload = &mut expected["payload"];
    match input["method"].as_str().unwrap_or_default() {
        "agents.list" => {
            *payload = json!({ "defaultId": payload["defaultId"], "mainKey": payload["mainKey"],
                               "scope": payload["scope"], "agents": ANYTHING });
        }
        "agents.create" if params["workspace"].is_null() => {
            let message = "invalid agents.create params: must have required property 'workspace'";
            return failed(&expected, message);
        }
        "agents.create" if params["name"] == "Main" => {
            return failed(&expected, "\"main\" is reserved");
        }
        "exec.approvals.get" | "exec.approvals.set" => {
            if let Some(payload) = payload.as_object_mut() {
                payload.remove("resolvedDefaults");
                payload.insert("path".to_owned(), json!(ANYTHING));
            }
        }
        "sessions.patch" => return patched(params, &expected),
        "chat.send" => {
            if let Some(payload) = payload.as_object_mut() {
                payload.retain(|key, _| matches!(key.as_str(), "runId" | "status"));
            }
        }
        // Its hashes are keyed, so none of them is ours.
        "config.set"
            if params["baseHash"].as_str().is_some_and(|hash| hash.starts_with("hmac-")) =>
        {
            let message = "config changed since last load; re-run config.get and retry";
            return failed(&expected, message);
        }
        _ => {}
    }
    expected
}

/// Settings of a session: the older release has no permission modes and keeps the three of `exec`.
fn patched(params: &Value, expected: &Value) -> Value {
    if params["key"].is_null() {
        return expected.clone();
    }
    if params.get("permissionMode").is_some() {
        let message =
            "invalid sessions.patch params: at root: unexpected property 'permissionMode'";
        return failed(expected, message);
    }
    if params["execHost"] == "mars" {
        return failed(expected, "invalid execHost (use \"sandbox\"|\"gateway\"|\"node\")");
    }
    if params["thinkingLevel"] == "galaxy" {
        let message = "invalid thinkingLevel (use off|minimal|low|medium|high|adaptive)";
        return failed(expected, message);
    }
    json!({ "type": "res", "id": expected["id"], "ok": true, "payload": {
        "ok": true, "path": ANYTHING, "key": params["key"], "entry": ANYTHING,
        "resolved": ANYTHING } })
}

/// The text so far and the end are told as in both releases; how a run prepares itself is not.
fn event(mut expected: Value) -> Value {
    if let Some(frame) = expected.as_object_mut() {
        frame.remove("recipientProfileId");
    }
    let state = expected["payload"]["state"].as_str();
    let is_told = matches!(state, Some("delta" | "final" | "aborted" | "error"));
    if expected["event"] != "chat" || !is_told {
        return json!({});
    }
    let payload = &mut expected["payload"];
    payload["seq"] = json!(ANYTHING);
    if let Some(payload) = payload.as_object_mut() {
        payload.remove("stopReason");
        if payload.contains_key("deltaText") {
            payload.insert("deltaText".to_owned(), json!("<OPTIONAL>"));
        }
    }
    expected
}
