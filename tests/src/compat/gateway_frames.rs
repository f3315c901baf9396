//! Where the gateway differs from the recorded one. The input of a row is what led to it: the release,
//! the kind of row, the method or event, the parameters, and what came before on that recording.

pub(super) mod newer;
pub(super) mod runs;

use serde_json::{Value, json};

use super::{ANY, Rule};

/// Stands for any value.
pub const ANYTHING: &str = "<ANYTHING>";

pub(super) const RULES: &[Rule] = &[
    Rule {
        name: "hello-lists-what-is-built",
        category: "connect",
        applies: |input| input["kind"] == "res" && !newer::is_newer(input),
        transform: |_, expected| hello(expected),
    },
    Rule {
        name: "the-newer-protocol-is-spoken",
        category: "connect",
        applies: |input| {
            let number = |key: &str| input["params"][key].as_u64().unwrap_or_default();
            let is_offered = number("maxProtocol") >= 4 && number("minProtocol") <= 4;
            input["kind"] == "res" && is_offered && !newer::is_newer(input)
        },
        transform: |_, mut expected| {
            if expected["ok"] == json!(false) && expected["error"]["message"] == "protocol mismatch"
            {
                return json!({ "type": "res", "id": expected["id"], "ok": true, "payload": ANYTHING });
            }
            if expected["payload"]["protocol"].is_number() {
                expected["payload"]["protocol"] = json!(4);
            }
            if expected["payload"]["auth"].is_object() {
                expected["payload"]["auth"]["method"] = json!("token");
            }
            expected
        },
    },
    Rule {
        name: "health-is-looked-up",
        category: "health",
        applies: |input| input["kind"] == "res" && input["wrote"] == json!(true),
        transform: |_, expected| with(expected, &["agents", "sessions"], &json!(ANYTHING)),
    },
    Rule {
        name: "changes-need-no-restart",
        category: ANY,
        applies: |input| {
            matches!(input["method"].as_str(), Some("config.patch" | "config.apply"))
                && input["kind"] == "res"
        },
        transform: |_, mut expected| {
            if expected["payload"]["restart"].is_object() {
                expected["payload"]["restart"] = json!({
                    "ok": true, "pid": 1, "signal": "none", "delayMs": 0,
                    "reason": expected["payload"]["restart"]["reason"], "mode": "none",
                    "coalesced": true, "cooldownMsApplied": 0,
                });
                expected["payload"]["sentinel"]["path"] = Value::Null;
                expected["payload"]["sentinel"]["payload"]["doctorHint"] = json!(ANYTHING);
            }
            expected
        },
    },
    Rule {
        name: "no-restart-is-told",
        category: ANY,
        applies: |input| {
            let is = |kind: &str, name: &str| input["kind"] == kind && input["method"] == name;
            (is("event", "shutdown") || is("close", "close")) && input["wrote"] == json!(true)
        },
        transform: |_, expected| match expected["code"].as_u64() {
            None | Some(1006 | 1012) => json!({}),
            Some(_) => expected,
        },
    },
    Rule {
        name: "who-offers-the-newer-protocol-stays",
        category: "close",
        applies: |input| input["kind"] == "close" && input["isIn"] == json!(true),
        transform: |_, expected| match expected["code"].as_u64() {
            Some(1002) => json!({}),
            Some(_) | None => expected,
        },
    },
    Rule {
        name: "no-voice-wakes-us",
        category: "voicewake.changed",
        applies: |input| input["kind"] == "event",
        transform: |_, _| json!({}),
    },
    Rule {
        name: "there-is-no-page",
        category: "http",
        applies: |input| input["isPage"] == json!(true),
        transform: |_, mut expected| {
            expected["status"] = json!(404);
            expected["body"] = json!("Not Found");
            expected["headers"]["content-type"] = json!("text/plain; charset=utf-8");
            if let Some(headers) = expected["headers"].as_object_mut() {
                headers.retain(|name, _| {
                    !matches!(
                        name.as_str(),
                        "x-frame-options" | "cache-control" | "content-security-policy"
                    )
                });
            }
            expected
        },
    },
    Rule {
        name: "newer-clients-hear-more",
        category: "chat",
        applies: |input| input["kind"] == "event",
        transform: |_, mut expected| {
            if let Some(payload) = expected["payload"].as_object_mut() {
                let keys: &[&str] = match payload.get("state").and_then(Value::as_str) {
                    Some("delta") => &["deltaText", "agentId"],
                    _ => &["agentId"],
                };
                for key in keys {
                    payload.entry(*key).or_insert_with(|| json!("<OPTIONAL>"));
                }
            }
            expected
        },
    },
    Rule {
        name: "defaults-stay-out-of-the-file",
        category: "config.get",
        applies: |input| input["wrote"] == json!(true) && input["kind"] == "res",
        transform: |_, mut expected| {
            // What stands in the file is compared through what it means.
            for key in ["raw", "parsed", "resolved"] {
                expected["payload"][key] = json!(ANYTHING);
            }
            expected
        },
    },
    Rule {
        name: "session-rows-show-exec-settings",
        category: ANY,
        applies: |input| {
            let method = input["method"].as_str().unwrap_or_default();
            matches!(
                (input["kind"].as_str(), method),
                (Some("res"), "sessions.list")
                    | (Some("event"), "agent" | "session.message" | "sessions.changed")
            )
        },
        transform: |_, mut expected| {
            let payload = &mut expected["payload"];
            if let Some(rows) = payload.get_mut("sessions").and_then(Value::as_array_mut) {
                rows.iter_mut().for_each(exec_settings);
            }
            if payload.get("session").is_some() {
                exec_settings(payload);
                exec_settings(&mut payload["session"]);
            }
            expected
        },
    },
    Rule {
        name: "the-schema-is-our-own-table",
        category: "config.schema",
        applies: |input| input["kind"] == "res",
        transform: |_, mut expected| {
            if expected["payload"]["generatedAt"].is_string() {
                expected["payload"]["generatedAt"] = json!(ANYTHING);
            }
            expected
        },
    },
    Rule {
        name: "the-schema-knows-more-keys",
        category: "config.schema.lookup",
        applies: |input| input["kind"] == "res",
        transform: |_, mut expected| {
            let children = expected.pointer_mut("/payload/children").and_then(Value::as_array_mut);
            if let Some(children) = children {
                children.push(json!({ "__truncated__": 0 }));
            }
            expected
        },
    },
    Rule {
        name: "devices-of-other-recordings",
        category: "device.pair.list",
        applies: |input| input["kind"] == "res",
        transform: |input, mut expected| {
            for list in ["/payload/pending", "/payload/paired"] {
                let devices = expected.pointer_mut(list).and_then(Value::as_array_mut);
                let Some(devices) = devices else { continue };
                devices.retain(|device| {
                    let known = input["devices"].as_array().into_iter().flatten();
                    known.into_iter().any(|known| *known == device["deviceId"])
                });
            }
            expected
        },
    },
    Rule {
        name: "models-are-those-of-the-config",
        category: "models.list",
        applies: |input| input["kind"] == "res",
        transform: |_, expected| with(expected, &["models"], &json!(ANYTHING)),
    },
    Rule {
        name: "no-skills-come-along",
        category: "skills.status",
        applies: |input| input["kind"] == "res",
        transform: |_, expected| with(expected, &["skills"], &json!(ANYTHING)),
    },
    Rule {
        name: "tools-in-our-words",
        category: "tools.catalog",
        applies: |input| input["kind"] == "res",
        transform: |_, mut expected| {
            let groups = expected.pointer_mut("/payload/groups").and_then(Value::as_array_mut);
            for group in groups.into_iter().flatten() {
                for tool in group["tools"].as_array_mut().into_iter().flatten() {
                    tool["description"] = json!(ANYTHING);
                }
            }
            expected
        },
    },
    Rule {
        name: "a-session-gets-tools-that-exist",
        category: "tools.effective",
        applies: |input| input["kind"] == "res",
        transform: |_, expected| with(expected, &["groups"], &json!(ANYTHING)),
    },
    Rule {
        name: "the-log-is-our-own",
        category: "logs.tail",
        applies: |input| input["kind"] == "res",
        transform: |_, expected| with(expected, &["file", "lines", "truncated"], &json!(ANYTHING)),
    },
    Rule {
        name: "approvals-can-be-listed",
        category: "exec.approval.list",
        applies: |input| input["kind"] == "res",
        transform: |_, expected| answered(expected),
    },
    Rule {
        name: "sandboxes-are-shown",
        category: "sandbox.list",
        applies: |input| input["kind"] == "res",
        transform: |_, expected| answered(expected),
    },
    Rule {
        name: "the-status-of-a-session-in-our-words",
        category: "http",
        applies: |input| input["path"] == "/tools/invoke",
        transform: |_, mut expected| {
            for place in ["/body/result/details/statusText", "/body/result/content/0/text"] {
                if let Some(text) = expected.pointer_mut(place) {
                    *text = json!(ANYTHING);
                }
            }
            expected
        },
    },
    Rule {
        name: "long-histories-are-cut",
        category: "chat.history",
        applies: |input| input["params"]["limit"].as_u64().is_some_and(|limit| limit > 1000),
        transform: |_, expected| json!({ "type": "res", "id": expected["id"], "ok": true, "payload": ANYTHING }),
    },
    Rule {
        name: "presence-tells-no-address",
        category: ANY,
        applies: |input| matches!(input["method"].as_str(), Some("system-presence" | "presence")),
        transform: |_, mut expected| {
            let list = if expected["payload"].is_array() {
                &mut expected["payload"]
            } else {
                &mut expected["payload"]["presence"]
            };
            if list.is_array() {
                // Who else was there depends on the recording before this one.
                let own = list[0].clone();
                *list = json!([own, { "__truncated__": 0 }]);
                if let Some(own) = list[0].as_object_mut() {
                    own.remove("ip");
                    own.insert("text".to_owned(), json!(ANYTHING));
                }
            }
            expected
        },
    },
];

/// A row may say how commands run.
fn exec_settings(row: &mut Value) {
    let Some(row) = row.as_object_mut() else { return };
    for key in ["execHost", "execSecurity", "execAsk"] {
        row.entry(key).or_insert_with(|| json!("<OPTIONAL>"));
    }
}

/// An answer in which some values are others.
fn with(mut expected: Value, keys: &[&str], value: &Value) -> Value {
    if let Some(payload) = expected.get_mut("payload").and_then(Value::as_object_mut) {
        for key in keys {
            payload.insert((*key).to_owned(), value.clone());
        }
    }
    expected
}

/// What the reference does not know is answered.
fn answered(expected: Value) -> Value {
    json!({ "type": "res", "id": expected["id"], "ok": true, "payload": ANYTHING })
}

fn hello(mut expected: Value) -> Value {
    if expected["payload"]["type"] != "hello-ok" {
        return expected;
    }
    let payload = &mut expected["payload"];
    for key in ["methods", "events"] {
        payload["features"][key] = json!(ANYTHING);
    }
    payload["snapshot"]["presence"] = json!(ANYTHING);
    payload["snapshot"]["health"] = json!(ANYTHING);
    if let Some(snapshot) = payload["snapshot"].as_object_mut() {
        snapshot.remove("updateAvailable");
    }
    if let Some(payload) = payload.as_object_mut() {
        payload.remove("canvasHostUrl");
    }
    expected
}
