//! Answers down to their keys, as the reference gives them: what lists show, what is remembered, and who is told.

use clawpen_tests::replay::gateway_frames::client::{Client, Devices, Headers};
use serde_json::{Value, json};

use super::{ALL, Ground, TOKEN, WAIT, call, connect, device};

fn said(answer: &Value) -> &str {
    answer["error"]["message"].as_str().unwrap_or_default()
}

/// Writes a session with its transcript, as the reference leaves it.
fn stored(ground: &Ground) {
    let directory = ground.home.path().join(".openclaw/agents/main/sessions");
    std::fs::create_dir_all(&directory).unwrap();
    let id = "11111111-1111-4111-8111-111111111111";
    let store = json!({
        "agent:main:main": { "sessionId": id, "updatedAt": 5, "thinkingLevel": "low",
            "systemSent": true, "totalTokens": 1500, "contextTokens": 128_000,
            "providerOverride": "two", "modelOverride": "m2", "origin": { "label": "Desk" } },
        "agent:main:subagent:1": { "updatedAt": 4, "spawnedBy": "agent:main:main", "label": "sub" },
        "global": { "sessionId": "g", "updatedAt": 3 },
    });
    std::fs::write(directory.join("sessions.json"), store.to_string()).unwrap();
    let long = "y".repeat(12_001);
    let mut lines =
        vec![json!({ "type": "session", "version": 3, "id": id, "timestamp": "x", "cwd": "/" })];
    for (number, message) in [
        json!({ "role": "user", "content": "[Sun 2026-11-15 10:00 UTC] hi" }),
        json!({ "role": "assistant", "content": [{ "type": "text", "text": "[[reply_to_current]]yes" }] }),
        json!({ "role": "assistant", "content": [{ "type": "text", "text": "NO_REPLY" }] }),
        json!({ "role": "user", "content": [{ "type": "text", "text": long },
            { "type": "image", "data": "AAAA", "mimeType": "image/png" }] }),
    ]
    .into_iter()
    .enumerate()
    {
        let time = format!("2026-11-15T10:00:0{number}.000Z");
        lines.push(json!({ "type": "message", "id": format!("m{number}"), "timestamp": time, "message": message }));
    }
    lines.push(json!({ "type": "compaction", "id": "c", "timestamp": "2026-11-15T10:00:09.000Z" }));
    let text: Vec<String> = lines.iter().map(ToString::to_string).collect();
    std::fs::write(directory.join(format!("{id}.jsonl")), text.join("\n") + "\n").unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stored_session_is_shown_as_its_entry_and_transcript_say() {
    let ground = Ground::new().await;
    stored(&ground);
    let mut client = ground.login(ALL).await;
    let listed = call(&mut client, "sessions.list", json!({})).await["payload"].clone();
    assert_eq!(listed["count"], 2, "nobody's sessions are shown to who asks for them: {listed}");
    let main = &listed["sessions"][0];
    assert_eq!(
        (&main["displayName"], &main["childSessions"], &main["model"], &main["totalTokens"]),
        (&json!("Desk"), &json!(["agent:main:subagent:1"]), &json!("m2"), &json!(1500))
    );
    let asked = json!({ "includeGlobal": true });
    assert_eq!(call(&mut client, "sessions.list", asked).await["payload"]["count"], 3);

    let status = call(&mut client, "status", json!({})).await["payload"].clone();
    let recent = &status["sessions"]["recent"][0];
    assert_eq!(status["sessions"]["count"], 2);
    assert_eq!(
        recent["flags"],
        json!(["think:low", "system", "id:11111111-1111-4111-8111-111111111111"])
    );
    assert_eq!((&recent["percentUsed"], &recent["model"]), (&json!(1), &json!("m2")));

    let history = call(&mut client, "chat.history", json!({ "sessionKey": "main" })).await;
    let messages = history["payload"]["messages"].as_array().unwrap().clone();
    let long = format!("{}\n...(truncated)...", "y".repeat(12_000));
    assert_eq!(messages[0]["content"], "hi");
    assert_eq!(messages[1]["content"][0]["text"], "yes");
    assert_eq!(
        messages[2]["content"],
        json!([{ "type": "text", "text": long },
               { "type": "image", "mimeType": "image/png", "omitted": true, "bytes": 4 }])
    );
    assert_eq!(messages[2]["__openclaw"], json!({ "id": "m3", "seq": 4 }));
    assert_eq!(messages[3]["__openclaw"], json!({ "kind": "compaction", "id": "c", "seq": 5 }));
    let preview = json!({ "keys": ["agent:main:main", " ", "agent:main:subagent:1"] });
    let previews =
        call(&mut client, "sessions.preview", preview).await["payload"]["previews"].clone();
    assert_eq!(previews[0]["items"].as_array().unwrap().len(), 4, "{previews}");
    assert_eq!(
        previews[1],
        json!({ "key": "agent:main:subagent:1", "status": "missing", "items": [] })
    );

    let used = call(&mut client, "sessions.usage", json!({})).await["payload"].clone();
    assert_eq!(used["sessions"].as_array().unwrap().len(), 1, "what said nothing used nothing");
    assert_eq!(used["sessions"][0]["usage"]["latency"]["maxMs"], 2000, "{used}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_value_is_told_with_those_that_are_right() {
    let ground = Ground::new().await;
    let mut client = ground.login(ALL).await;
    let seen = call(&mut client, "config.get", json!({})).await["payload"].clone();
    for (path, part, allowed) in [
        ("logging.level", json!({ "logging": { "level": "loud" } }), 7),
        ("cron.enabled", json!({ "cron": { "enabled": "yes" } }), 2),
        (
            "models.providers.p.models.0.id",
            json!({ "models": { "providers": { "p": { "models": [{ "name": "x" }] } } } }),
            0,
        ),
        ("bindings.0", json!({ "bindings": [{ "agentId": "bot" }] }), 0),
        ("agents.defaults.model", json!({ "agents": { "defaults": { "model": 5 } } }), 0),
    ] {
        let set = json!({ "raw": part.to_string(), "baseHash": seen["hash"] });
        let answer = call(&mut client, "config.set", set).await;
        let issue = &answer["error"]["details"]["issues"][0];
        let values = issue["allowedValues"].as_array().map_or(0, Vec::len);
        assert_eq!((&issue["path"], values), (&json!(path), allowed), "{answer}");
    }
    let mut config = seen["config"].clone();
    config["session"] = json!({ "mainKey": "other" });
    let set = json!({ "raw": config.to_string(), "baseHash": seen["hash"] });
    let answer = call(&mut client, "config.set", set).await;
    assert_eq!(answer["payload"]["config"]["session"]["mainKey"], "main", "{answer}");
    assert_eq!(answer["payload"]["config"].get("meta"), None, "nobody said who wrote last");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_is_found_by_the_name_that_its_asker_gave_it() {
    let ground = Ground::new().await;
    let (mut asker, mut person) = (ground.login(ALL).await, ground.login(ALL).await);
    for name in ["amb-1", "amb-2", "amb-3", "amb-4", "Own-Name"] {
        let ask = json!({ "command": "ls", "id": name, "timeoutMs": 20_000, "twoPhase": true });
        assert_eq!(call(&mut asker, "exec.approval.request", ask).await["payload"]["id"], name);
    }
    let several =
        call(&mut person, "exec.approval.resolve", json!({ "id": "AMB", "decision": "deny" }))
            .await;
    assert_eq!(
        said(&several),
        "ambiguous approval id prefix; matches: amb-1, amb-2, amb-3 (+1 more). Use the full id."
    );
    let answer = json!({ "id": "own-", "decision": "allow-once" });
    assert_eq!(call(&mut person, "exec.approval.resolve", answer).await["ok"], true);
    for _ in 0..2 {
        let waited =
            call(&mut person, "exec.approval.waitDecision", json!({ "id": "Own-Name" })).await;
        assert_eq!(waited["payload"]["decision"], "allow-once", "{waited}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_narrower_token_opens_no_more_than_it_says() {
    let ground = Ground::new().await;
    let mut admin = ground.login(ALL).await;
    let mut devices = Devices::default();
    let mut first = Client::connect(ground.address(), &Headers::default()).await.unwrap();
    let challenge = first.challenge(WAIT).await.unwrap();
    let mut login = connect(&["operator.write"], TOKEN);
    login["params"]["device"] = device();
    devices.sign(&mut login, &challenge, None, None).unwrap();
    first.send(login.to_string()).await;
    assert_eq!(first.response(&json!("c"), WAIT).await.unwrap()["ok"], true);
    let id = login["params"]["device"]["id"].clone();

    let rotate = |scopes: Value| json!({ "deviceId": id, "role": " operator ", "scopes": scopes });
    let more = call(&mut admin, "device.token.rotate", rotate(json!(["operator.admin"]))).await;
    assert_eq!(said(&more), "device token rotation denied");
    let less = call(&mut admin, "device.token.rotate", rotate(json!(["operator.read"]))).await;
    assert_eq!(less["payload"]["scopes"], json!(["operator.read"]), "{less}");
    assert_eq!(first.closing(WAIT).await.unwrap().0, 4001);
    for (scope, comes_in) in [("operator.read", true), ("operator.write", false)] {
        let mut client = Client::connect(ground.address(), &Headers::default()).await.unwrap();
        let challenge = client.challenge(WAIT).await.unwrap();
        let mut login = connect(&[scope], "");
        login["params"]["auth"] = json!({ "deviceToken": less["payload"]["token"] });
        login["params"]["device"] = device();
        devices.sign(&mut login, &challenge, None, None).unwrap();
        client.send(login.to_string()).await;
        let answer = client.response(&json!("c"), WAIT).await.unwrap();
        assert_eq!(answer["ok"], comes_in, "{scope}: {answer}");
        if comes_in {
            assert_eq!(answer["payload"]["auth"]["scopes"], json!(["operator.read"]), "{answer}");
        }
    }
    let listed = call(&mut admin, "device.pair.list", json!({})).await;
    let tokens = listed["payload"]["paired"].as_array().unwrap().iter();
    let token =
        tokens.filter(|one| one["deviceId"] == id).map(|one| &one["tokens"][0]).next().unwrap();
    assert!(token["rotatedAtMs"].is_u64() && token["lastUsedAtMs"].is_u64(), "{listed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_sent_away_for_asking_too_much_is_told_why_first() {
    let ground = Ground::new().await;
    let mut node = Client::connect(ground.address(), &Headers::default()).await.unwrap();
    let challenge = node.challenge(WAIT).await.unwrap();
    let mut login = connect(&[], TOKEN);
    login["params"]["role"] = json!("node");
    login["params"]["device"] = device();
    Devices::default().sign(&mut login, &challenge, None, None).unwrap();
    node.send(login.to_string()).await;
    assert_eq!(node.response(&json!("c"), WAIT).await.unwrap()["ok"], true);
    for _ in 0..11 {
        let answer = call(&mut node, "config.get", json!({})).await;
        assert_eq!(said(&answer), "unauthorized role: node");
    }
    assert_eq!(node.closing(WAIT).await.unwrap(), (1008, "repeated unauthorized calls".to_owned()));
}
