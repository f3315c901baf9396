//! Where runs of agents are told otherwise than recorded. An event that becomes `null` is one that we do not send.

use serde_json::{Value, json};

use super::super::{ANY, Rule};
use super::ANYTHING;

pub(in super::super) const RULES: &[Rule] = &[
    Rule {
        name: "approvals-are-asked-in-process",
        category: ANY,
        applies: |input| {
            let event = input["method"].as_str();
            input["kind"] == "event"
                && matches!(
                    event,
                    Some("device.pair.requested" | "device.pair.resolved" | "presence")
                )
        },
        transform: |input, expected| {
            let payload = &expected["payload"];
            let mut known = input["devices"].as_array().into_iter().flatten();
            // The one device that no client of the recording has is the gateway's own.
            let is_own = payload["deviceId"].is_string()
                && !known.any(|device| *device == payload["deviceId"]);
            let is_presence = payload["presence"][1]["host"] == "agent";
            if is_own || is_presence { Value::Null } else { expected }
        },
    },
    Rule {
        name: "a-waiting-message-runs-under-its-own-name",
        category: "chat",
        applies: |input| input["kind"] == "event",
        transform: |_, expected| {
            let payload = &expected["payload"];
            let is_final = payload["state"] == "final" && payload["seq"] == 1;
            if is_final && payload["message"].is_null() { Value::Null } else { expected }
        },
    },
    Rule {
        name: "a-message-is-kept-when-its-run-has-begun",
        category: ANY,
        applies: tells_of_a_session,
        transform: |_, mut expected| {
            let payload = &mut expected["payload"];
            if !payload["messageSeq"].is_number() {
                return expected;
            }
            payload["messageSeq"] = json!(ANYTHING);
            if !payload["messageId"].is_string() {
                // Told when it was taken; the run before it may have begun.
                for key in ["status", "startedAt", "endedAt", "runtimeMs"] {
                    payload[key] = json!("<OPTIONAL>");
                }
                return expected;
            }
            if let Some(payload) = payload.as_object_mut() {
                // The run has begun by then.
                payload.insert("status".to_owned(), json!("running"));
                payload.insert("startedAt".to_owned(), json!(0));
                payload.remove("endedAt");
                payload.remove("runtimeMs");
            }
            expected
        },
    },
    Rule {
        name: "the-end-of-a-run-counts-it",
        category: ANY,
        applies: tells_of_a_session,
        transform: |_, mut expected| {
            let payload = &mut expected["payload"];
            let is_end = payload["phase"] == "end" || payload["messageId"].is_string();
            if is_end && payload["totalTokensFresh"].is_boolean() {
                for key in ["inputTokens", "outputTokens", "totalTokens", "estimatedCostUsd"] {
                    payload[key] = json!("<OPTIONAL>");
                }
                payload["totalTokensFresh"] = json!(ANYTHING);
            }
            expected
        },
    },
    Rule {
        name: "the-follow-up-is-not-lost",
        category: ANY,
        applies: |input| {
            let method = input["method"].as_str();
            input["answered"] == true
                && matches!(
                    method,
                    Some("chat.history" | "sessions.preview" | "sessions.list" | "status")
                )
        },
        transform: |_, mut expected| {
            let list = expected.pointer_mut("/payload/messages").and_then(Value::as_array_mut);
            if let Some(list) = list {
                list.push(json!({ "__truncated__": 0 }));
            }
            // The newest few of a longer talk.
            if let Some(items) = expected.pointer_mut("/payload/previews/0/items") {
                *items = json!(ANYTHING);
            }
            for list in ["/payload/sessions", "/payload/sessions/recent"] {
                let rows = expected.pointer_mut(list).and_then(Value::as_array_mut);
                rows.into_iter().flatten().for_each(counted_again);
            }
            let agents = expected.pointer_mut("/payload/sessions/byAgent");
            for agent in agents.and_then(Value::as_array_mut).into_iter().flatten() {
                let rows = agent["recent"].as_array_mut();
                rows.into_iter().flatten().for_each(counted_again);
            }
            expected
        },
    },
    Rule {
        name: "a-heartbeat-does-not-rename-its-session",
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
                && let Some((label, rest)) = head(text)
            {
                let (label, rest) = (label.to_owned(), rest.to_owned());
                message["content"][0]["text"] = json!(rest);
                message["senderLabel"] = json!(label);
            }
            for item in items(&mut expected) {
                let rest = item["text"].as_str().and_then(head).map(|(_, rest)| rest.to_owned());
                if let Some(rest) = rest {
                    item["text"] = json!(rest);
                }
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
        name: "questions-to-people-in-our-words",
        category: ANY,
        applies: |input| {
            matches!(input["method"].as_str(), Some("chat.history" | "sessions.preview"))
        },
        transform: |_, mut expected| {
            // The question, and the model that repeats it.
            let is_question = |text: &Value| {
                text.as_str().is_some_and(|text| text.contains("Approval required (id "))
            };
            for message in messages(&mut expected) {
                let text = message.pointer_mut("/content/0/text");
                if let Some(text) = text.filter(|text| is_question(text)) {
                    *text = json!(ANYTHING);
                }
            }
            for item in items(&mut expected).filter(|item| is_question(&item["text"])) {
                item["text"] = json!(ANYTHING);
            }
            expected
        },
    },
    Rule {
        name: "a-command-has-no-name-while-it-is-waited-for",
        category: "agent",
        applies: |input| input["kind"] == "event",
        transform: |_, mut expected| {
            let details = expected.pointer_mut("/payload/data/partialResult/details");
            if let Some(details) = details.and_then(Value::as_object_mut) {
                details.remove("sessionId");
                details.remove("pid");
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
        name: "the-file-behind-a-link-is-shown",
        category: ANY,
        applies: |input| {
            input["method"].as_str().is_some_and(|method| method.starts_with("exec.approval."))
        },
        transform: |_, mut expected| {
            let path = expected.pointer_mut("/payload/request/resolvedPath");
            if let Some(path) = path.filter(|path| **path == "/usr/bin/sh") {
                *path = json!(ANYTHING);
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
    }
    let list = expected.pointer_mut("/payload/messages").and_then(Value::as_array_mut);
    if let Some(list) = list {
        // The cut text stands there once.
        list.retain(|message| message["stopReason"] != "aborted");
    }
    expected
}

/// A session whose last run was the one that told it what came of an approval.
fn counted_again(row: &mut Value) {
    for key in ["inputTokens", "outputTokens", "totalTokens", "remainingTokens"] {
        if row[key].is_number() {
            row[key] = json!(ANYTHING);
        }
    }
}

/// A recorded message that begins with who sent it and when: the sender's label, and what was said.
fn head(text: &str) -> Option<(&str, &str)> {
    let (_, rest) = text.split_once("Sender (untrusted metadata):\n```json\n")?;
    let (facts, rest) = rest.split_once("\n```\n\n")?;
    let label = facts.split_once("\"label\": \"")?.1.split_once('"')?.0;
    let said = match rest.strip_prefix('[').and_then(|rest| rest.split_once("] ")) {
        Some((_, said)) => said,
        None => rest,
    };
    Some((label, said))
}

/// An event about a session, or about a message in one.
fn tells_of_a_session(input: &Value) -> bool {
    let event = input["method"].as_str();
    input["kind"] == "event" && matches!(event, Some("session.message" | "sessions.changed"))
}
