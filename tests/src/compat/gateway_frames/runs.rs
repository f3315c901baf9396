//! Where runs of agents are told otherwise than recorded. An event that becomes `null` is one that we do not send.

use clawpen_rules::chat_message;
use serde_json::{Value, json};

use super::super::{ANY, Rule};
use super::ANYTHING;

pub(in super::super) const RULES: &[Rule] = &[
    Rule {
        name: "approvals-are-asked-in-process",
        category: ANY,
        applies: |input| input["kind"] == "event",
        transform: |input, expected| {
            let payload = &expected["payload"];
            let mut known = input["devices"].as_array().into_iter().flatten();
            let is_strange = payload["deviceId"].is_string()
                && !known.any(|device| *device == payload["deviceId"]);
            let is_own = payload["presence"][1]["host"] == "agent";
            if is_strange || is_own { Value::Null } else { expected }
        },
    },
    Rule {
        name: "a-waiting-message-runs-under-its-own-name",
        category: "chat",
        applies: |input| input["kind"] == "event",
        transform: |_, expected| {
            let payload = &expected["payload"];
            let is_empty = payload["state"] == "final" && payload["message"].is_null();
            if is_empty { Value::Null } else { expected }
        },
    },
    Rule {
        name: "a-message-is-told-when-it-is-kept",
        category: ANY,
        applies: |input| {
            let event = input["method"].as_str();
            input["kind"] == "event"
                && matches!(event, Some("session.message" | "sessions.changed"))
        },
        transform: |_, mut expected| {
            let payload = &mut expected["payload"];
            if !payload["messageSeq"].is_number() {
                return expected;
            }
            if !payload["messageId"].is_string() {
                return Value::Null;
            }
            payload["messageSeq"] = json!(ANYTHING);
            // The run has begun by then.
            payload["status"] = json!("<OPTIONAL>");
            for key in ["startedAt", "endedAt", "runtimeMs"] {
                payload[key] = json!("<OPTIONAL>");
            }
            expected
        },
    },
    Rule {
        name: "the-end-of-a-run-counts-it",
        category: ANY,
        applies: |input| {
            let event = input["method"].as_str();
            input["kind"] == "event"
                && matches!(event, Some("session.message" | "sessions.changed"))
        },
        transform: |_, mut expected| {
            let payload = &mut expected["payload"];
            if payload["totalTokensFresh"].is_boolean() {
                for key in ["inputTokens", "outputTokens", "totalTokens", "estimatedCostUsd"] {
                    payload[key] = json!("<OPTIONAL>");
                }
                payload["totalTokensFresh"] = json!(ANYTHING);
            }
            expected
        },
    },
    Rule {
        name: "a-wake-up-call-is-a-message",
        category: ANY,
        applies: |input| input["kind"] == "event",
        transform: |_, mut expected| {
            if expected["payload"]["origin"]["provider"] != "heartbeat" {
                return expected;
            }
            let payload = &mut expected["payload"];
            if payload["message"].is_object() {
                payload["message"]["content"] = json!(ANYTHING);
            } else if let Some(payload) = payload.as_object_mut() {
                payload.remove("message");
            }
            no_heartbeat(payload);
            if payload["session"].is_object() {
                no_heartbeat(&mut payload["session"]);
            }
            expected
        },
    },
    Rule {
        name: "messages-carry-no-head",
        category: ANY,
        applies: |input| {
            matches!(input["method"].as_str(), Some("session.message" | "sessions.preview"))
        },
        transform: |_, mut expected| {
            let message = &mut expected["payload"]["message"];
            if message["role"] == "user"
                && let Some(text) = message["content"][0]["text"].as_str()
                && let (Some(label), rest) = chat_message::split_head(text)
            {
                let rest = rest.to_owned();
                message["content"][0]["text"] = json!(rest);
                message["senderLabel"] = json!(label);
            }
            for item in items(&mut expected) {
                let rest = item["text"].as_str().map(|text| chat_message::split_head(text).1);
                item["text"] = json!(rest);
            }
            without_null_message(expected)
        },
    },
    Rule {
        name: "an-aborted-run-is-noted",
        category: ANY,
        applies: |input| {
            let method = input["method"].as_str();
            matches!(method, Some("sessions.patch" | "chat.history")) && input["kind"] == "res"
        },
        transform: |_, expected| aborted(expected),
    },
    Rule {
        name: "what-a-prompt-held-is-not-stored",
        category: ANY,
        applies: |input| matches!(input["method"].as_str(), Some("sessions.patch" | "agent")),
        transform: |_, mut expected| {
            for place in ["/payload/entry", "/payload/result/meta"] {
                let object = expected.pointer_mut(place).and_then(Value::as_object_mut);
                if let Some(object) = object {
                    object.remove("skillsSnapshot");
                    object.remove("systemPromptReport");
                }
            }
            expected
        },
    },
    Rule {
        name: "failures-of-models-in-our-words",
        category: ANY,
        applies: |input| {
            matches!(input["method"].as_str(), Some("agent" | "chat" | "chat.history"))
        },
        transform: |_, mut expected| {
            for place in ["/payload/data/error", "/payload/errorMessage"] {
                if let Some(text) = expected.pointer_mut(place) {
                    *text = json!(ANYTHING);
                }
            }
            for message in messages(&mut expected) {
                if message["stopReason"] == "error" {
                    message["errorMessage"] = json!(ANYTHING);
                }
            }
            expected
        },
    },
    Rule {
        name: "questions-to-people-in-our-words",
        category: ANY,
        applies: |input| {
            matches!(input["method"].as_str(), Some("chat.history" | "sessions.preview"))
        },
        transform: |_, mut expected| {
            let mut was_question = false;
            let mut was_asked = false;
            for message in messages(&mut expected) {
                let text = message["content"][0]["text"].as_str().unwrap_or_default();
                let is_question = text.starts_with("Approval required");
                if is_question || was_question {
                    message["content"] = json!(ANYTHING);
                }
                was_question = is_question;
                was_asked |= is_question;
            }
            if was_asked && let Some(list) = expected["payload"]["messages"].as_array_mut() {
                // The turn that tells the session what came of it follows, or is about to.
                list.push(json!({ "__truncated__": 0 }));
            }
            let is_question = |item: &Value| {
                item["text"].as_str().is_some_and(|text| text.starts_with("Approval required"))
            };
            if items(&mut expected).any(|item| is_question(item)) {
                expected["payload"]["previews"][0]["items"] = json!(ANYTHING);
            }
            expected
        },
    },
    Rule {
        name: "a-call-is-told-by-its-arguments",
        category: "agent",
        applies: |input| input["kind"] == "event",
        transform: |_, mut expected| {
            if expected["payload"]["stream"] != "tool" {
                return expected;
            }
            if let Some(data) = expected["payload"]["data"].as_object_mut() {
                data.remove("meta");
            }
            for place in ["/payload/data/partialResult/details", "/payload/data/result/details"] {
                if let Some(details) = expected.pointer_mut(place) {
                    *details = json!(ANYTHING);
                }
            }
            expected
        },
    },
    Rule {
        name: "replies-of-the-gateway-in-our-words",
        category: "chat",
        applies: |input| input["kind"] == "event",
        transform: |_, mut expected| {
            if expected["payload"]["message"]["model"] == "gateway-injected" {
                expected["payload"]["message"]["content"][0]["text"] = json!(ANYTHING);
            }
            expected
        },
    },
    Rule {
        name: "approvals-name-no-channel",
        category: ANY,
        applies: |input| {
            input["method"].as_str().is_some_and(|method| method.starts_with("exec.approval."))
        },
        transform: |_, mut expected| {
            if let Some(request) =
                expected.pointer_mut("/payload/request").and_then(Value::as_object_mut)
            {
                request.insert("turnSourceChannel".to_owned(), json!("<OPTIONAL>"));
                // The command as it was cut into words, which is what would run.
                // The file behind the link, where `sh` is one.
                if request.get("resolvedPath").and_then(Value::as_str) == Some("/usr/bin/sh") {
                    request.insert("resolvedPath".to_owned(), json!(ANYTHING));
                }
                for key in ["commandArgv", "envKeys"] {
                    request.entry(key).or_insert_with(|| json!("<OPTIONAL>"));
                }
            }
            expected
        },
    },
    Rule {
        name: "a-page-may-say-that-it-wants-no-echo",
        category: "chat.send",
        applies: |input| input["params"]["echoUserMessage"].is_boolean(),
        transform: |_, expected| super::answered(expected),
    },
];

/// A row that says nothing of a heartbeat.
fn no_heartbeat(row: &mut Value) {
    for key in
        ["chatType", "origin", "displayName", "deliveryContext", "lastTo", "status", "startedAt"]
    {
        row[key] = json!("<OPTIONAL>");
    }
}

fn messages(expected: &mut Value) -> impl Iterator<Item = &mut Value> {
    let list = expected.pointer_mut("/payload/messages").and_then(Value::as_array_mut);
    list.into_iter().flatten()
}

fn items(expected: &mut Value) -> impl Iterator<Item = &mut Value> {
    let list = expected.pointer_mut("/payload/previews/0/items").and_then(Value::as_array_mut);
    list.into_iter().flatten()
}

/// Looking for a message puts a `null` where there is none.
fn without_null_message(mut expected: Value) -> Value {
    if let Some(payload) = expected["payload"].as_object_mut()
        && payload.get("message").is_some_and(Value::is_null)
    {
        payload.remove("message");
    }
    expected
}

fn aborted(mut expected: Value) -> Value {
    let entry = expected.pointer_mut("/payload/entry");
    if let Some(entry) = entry.filter(|entry| entry["status"] == "running") {
        entry["status"] = json!("killed");
        entry["abortedLastRun"] = json!(true);
        entry["endedAt"] = json!(0);
        entry["runtimeMs"] = json!(0);
        // Of a run without an answer no tokens are known; those of the one before stay.
        for key in ["inputTokens", "outputTokens"] {
            entry[key] = json!(ANYTHING);
        }
    }
    let list = expected.pointer_mut("/payload/messages").and_then(Value::as_array_mut);
    if let Some(list) = list {
        // The cut text stands there once.
        list.retain(|message| message["stopReason"] != "aborted");
        for message in list.iter_mut().filter(|message| message["openclawAbort"].is_object()) {
            message["stopReason"] = json!("aborted");
            message["api"] = json!(ANYTHING);
        }
    }
    expected
}
