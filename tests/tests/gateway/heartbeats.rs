//! Heartbeats and system lines over the gateway: who may wake whom, what a model is told, what clients hear.

mod attacks;

use std::path::PathBuf;
use std::time::Duration;

use clawpen_engine::config_store::Surroundings;
use clawpen_gateway::{Options, start};
use clawpen_tests::model_server::{ModelServer, Piece, Reply};
use clawpen_tests::replay::gateway_frames::client::Client;
use serde_json::{Value, json};

use super::chat::{WIRE, WRITER, config, end, login, over, said, say};
use super::{ALL, Ground, WAIT, call};

/// A gateway whose agents have this heartbeat.
async fn ground(server: &ModelServer, heartbeat: &str) -> Ground {
    Ground::with(&with(server, heartbeat)).await
}

fn with(server: &ModelServer, heartbeat: &str) -> String {
    let model = "model: {primary: 'mock/m'},";
    config(server, "").replace(model, &format!("{model} heartbeat: {{{heartbeat}}},"))
}

fn acks() -> ModelServer {
    ModelServer::start(|_| Reply::text("HEARTBEAT_OK").answer(WIRE))
}

/// A file of the default agent's workspace.
fn file(ground: &Ground, name: &str) -> PathBuf {
    let workspace = ground.home.path().join(".openclaw/workspace");
    std::fs::create_dir_all(&workspace).unwrap();
    workspace.join(name)
}

async fn wake(client: &mut Client, mode: &str, text: &str) {
    let answer = call(client, "wake", json!({ "mode": mode, "text": text })).await;
    assert_eq!(answer["payload"], json!({ "ok": true }), "{answer}");
}

/// The next heartbeat that says this.
async fn told(client: &mut Client, key: &str, word: &str) -> Value {
    let is_it = |frame: &Value| frame["event"] == "heartbeat" && frame["payload"][key] == *word;
    client.take(WAIT, is_it).await.unwrap()["payload"].clone()
}

async fn queued(client: &mut Client) -> Value {
    call(client, "status", json!({})).await["payload"]["queuedSystemEvents"].clone()
}

/// What the model was asked at last by a user's message.
fn asked(server: &ModelServer) -> String {
    let all = server.received();
    let messages = all.last().unwrap().body["messages"].as_array().unwrap().clone();
    let last = messages.iter().rev().find(|message| message["role"] == "user").unwrap();
    match &last["content"] {
        Value::String(text) => text.clone(),
        parts => parts[0]["text"].as_str().unwrap().to_owned(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_woken_is_told_why_and_everybody_who_may_read_hears_the_answer() {
    let server = ModelServer::start(|_| Reply::text("The build needs you.").answer(WIRE));
    let ground = ground(&server, "every: '1h'").await;
    let mut client = login(&ground, WRITER).await;
    let mut stranger = ground.login(&["operator.approvals"]).await;
    assert_eq!(call(&mut client, "last-heartbeat", json!({})).await["payload"], Value::Null);
    wake(&mut client, "now", "the build is done").await;
    let sent = told(&mut client, "status", "sent").await;
    assert_eq!(
        sent,
        json!({ "ts": sent["ts"], "status": "sent", "reason": "wake", "hasMedia": false,
                "durationMs": sent["durationMs"], "preview": "The build needs you.",
                "indicatorType": "alert" })
    );
    let last = call(&mut client, "last-heartbeat", json!({})).await["payload"].clone();
    assert_eq!(last, sent);
    let is_end = |frame: &Value| frame["event"] == "chat" && frame["payload"]["state"] == "final";
    let ended = client.take(WAIT, is_end).await.unwrap();
    assert_eq!(said(&ended["payload"]), "The build needs you.");
    assert_eq!(ended["payload"]["sessionKey"], "agent:main:main");
    let text = asked(&server);
    let (line, rest) = text.split_once("\n\n").unwrap();
    assert!(line.starts_with("System: [20") && line.ends_with(" UTC] the build is done"), "{text}");
    assert!(rest.starts_with("[Heartbeat, not from a person]\n"), "{text}");
    assert!(rest.contains("HEARTBEAT.md") && rest.contains("HEARTBEAT_OK"), "{text}");
    assert_eq!(queued(&mut client).await, json!([]));
    // What was told before has come by now.
    call(&mut stranger, "health", json!({})).await;
    for event in ["heartbeat", "chat", "agent"] {
        assert!(!stranger.has(|frame| frame["event"] == *event), "{event}");
    }
    over(ground).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_for_the_next_heartbeat_waits_and_comes_with_whoever_speaks_first() {
    let server = ModelServer::start(|_| Reply::text("Noted.").answer(WIRE));
    let ground = ground(&server, "every: '1h'").await;
    let mut client = login(&ground, WRITER).await;
    for text in ["one", "one", "two"] {
        wake(&mut client, "next-heartbeat", text).await;
    }
    assert_eq!(queued(&mut client).await, json!(["one", "two"]));
    assert_eq!(server.received().len(), 0);
    say(&mut client, "r", "hello").await;
    end(&mut client, "r").await;
    let text = asked(&server);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].ends_with("] one") && lines[1].ends_with("] two"), "{text}");
    assert_eq!(&lines[2..], ["", "hello"], "{text}");
    assert_eq!(queued(&mut client).await, json!([]));
    // Brought once, and not again.
    say(&mut client, "s", "again").await;
    end(&mut client, "s").await;
    assert_eq!(asked(&server), "again");
    over(ground).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_is_asked_again_and_again_and_one_that_has_nothing_to_say_is_not_heard() {
    let server = acks();
    let ground = ground(&server, "every: '1s'").await;
    let mut client = login(&ground, ALL).await;
    let status = call(&mut client, "status", json!({})).await["payload"]["heartbeat"].clone();
    let row = json!({ "agentId": "main", "enabled": true, "every": "1s", "everyMs": 1000 });
    assert_eq!(status, json!({ "defaultAgentId": "main", "agents": [row] }));
    for _ in 0..2 {
        let ok = told(&mut client, "status", "ok-token").await;
        assert_eq!(
            ok,
            json!({ "ts": ok["ts"], "status": "ok-token", "reason": "interval", "silent": true,
                    "durationMs": ok["durationMs"], "indicatorType": "ok" })
        );
    }
    // Their runs are told, their words are not; the transcript keeps them.
    assert!(client.has(|frame| frame["payload"]["data"]["phase"] == "end"));
    assert!(!client.has(|frame| frame["event"] == "chat"));
    assert!(!client.has(|frame| frame["payload"]["stream"] == "assistant"));
    let history = call(&mut client, "chat.history", json!({ "sessionKey": "main" })).await;
    assert!(history["payload"]["messages"].to_string().contains("HEARTBEAT_OK"), "{history}");

    // Switched off, nobody is asked, whoever wants it.
    let is_answered =
        |frame: &Value| frame["event"] == "heartbeat" && frame["payload"]["status"] != "skipped";
    let off = call(&mut client, "set-heartbeats", json!({ "enabled": false })).await;
    assert_eq!(off["payload"], json!({ "ok": true, "enabled": false }));
    // What had begun before comes to its end, and then there is silence.
    let mut late = 0;
    while client.take(Duration::from_millis(2500), is_answered).await.is_ok() {
        late += 1;
        assert!(late < 20, "heartbeats go on");
    }
    let before = server.received().len();
    wake(&mut client, "now", "anybody there?").await;
    told(&mut client, "reason", "disabled").await;
    assert_eq!(server.received().len(), before);
    assert_eq!(queued(&mut client).await, json!(["anybody there?"]));
    let health = call(&mut client, "health", json!({})).await["payload"]["agents"][0].clone();
    assert_eq!(health["heartbeat"]["enabled"], false, "{health}");
    let on = call(&mut client, "set-heartbeats", json!({ "enabled": true })).await;
    assert_eq!(on["payload"], json!({ "ok": true, "enabled": true }));
    told(&mut client, "status", "ok-token").await;
    let next = server.received()[before].body.to_string();
    assert!(next.contains("] anybody there?"), "{next}");
    over(ground).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_the_config_counts_without_a_restart() {
    let server = acks();
    let ground = ground(&server, "every: '0m'").await;
    let mut client = login(&ground, ALL).await;
    let health = call(&mut client, "health", json!({})).await["payload"].clone();
    assert_eq!(health["heartbeatSeconds"], 0, "{health}");
    assert_eq!(health["agents"][0]["heartbeat"]["every"], "disabled", "{health}");
    wake(&mut client, "now", "x").await;
    told(&mut client, "reason", "disabled").await;
    // By hand, and through the gateway.
    let path = ground.home.path().join(".openclaw/openclaw.json");
    std::fs::write(&path, ground.config().replace("'0m'", "'1s'")).unwrap();
    told(&mut client, "status", "ok-token").await;
    let base = call(&mut client, "config.get", json!({})).await["payload"]["hash"].clone();
    let raw = "{agents: {defaults: {heartbeat: {every: '2h'}}}}";
    let patched = json!({ "raw": raw, "baseHash": base });
    let patched = call(&mut client, "config.patch", patched).await;
    assert_eq!(patched["ok"], true, "{patched}");
    let health = call(&mut client, "health", json!({})).await["payload"].clone();
    assert_eq!(health["heartbeatSeconds"], 7200, "{health}");
    let bad = json!({ "raw": "{agents: {defaults: {heartbeat: {every: 'often', evry: '1h',
                              activeHours: {start: '8'}}}}}",
                      "baseHash": call(&mut client, "config.get", json!({})).await["payload"]["hash"] });
    let bad = call(&mut client, "config.patch", bad).await;
    let why = bad["error"].to_string();
    assert!(why.contains("`often` is no time") && why.contains("`8` is no time of day"), "{why}");
    assert!(why.contains("evry"), "{why}");
    over(ground).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_is_busy_is_left_alone_and_woken_right_after() {
    let server = ModelServer::start(|received| {
        let text = received.body["messages"].as_array().unwrap().last().unwrap().to_string();
        let is_held = text.contains("take your time");
        let answer = Reply::text(if is_held { "I think" } else { "HEARTBEAT_OK" }).answer(WIRE);
        if is_held { answer.cut(1, Piece::Hold) } else { answer }
    });
    let ground = ground(&server, "every: '1s'").await;
    let mut client = login(&ground, WRITER).await;
    told(&mut client, "status", "ok-token").await;
    say(&mut client, "slow", "take your time").await;
    let has_begun = |frame: &Value| {
        frame["payload"]["runId"] == "slow" && frame["payload"]["data"]["phase"] == "start"
    };
    client.take(WAIT, has_begun).await.unwrap();
    while client.take(Duration::ZERO, |frame| frame["event"] == "heartbeat").await.is_ok() {}
    told(&mut client, "reason", "requests-in-flight").await;
    wake(&mut client, "now", "hurry").await;
    wake(&mut client, "now", "hurry up").await;
    let stop = json!({ "sessionKey": "main", "runId": "slow" });
    assert_eq!(call(&mut client, "chat.abort", stop).await["payload"]["aborted"], true);
    let woken = told(&mut client, "reason", "wake").await;
    assert_eq!(woken["status"], "ok-token", "{woken}");
    let bodies: Vec<String> =
        server.received().iter().map(|request| request.body.to_string()).collect();
    let brought = bodies.iter().find(|body| body.contains("] hurry\\n")).unwrap();
    assert!(brought.contains("] hurry up"), "{brought}");
    over(ground).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_file_wakes_nobody_and_a_line_does() {
    let server = acks();
    let ground = ground(&server, "every: '1s'").await;
    std::fs::write(file(&ground, "HEARTBEAT.md"), "# What to look after\n\n- [ ]\n").unwrap();
    let mut client = login(&ground, WRITER).await;
    let skipped = told(&mut client, "reason", "empty-heartbeat-file").await;
    assert_eq!(skipped["status"], "skipped", "{skipped}");
    wake(&mut client, "next-heartbeat", "look once").await;
    told(&mut client, "status", "ok-token").await;
    assert!(asked(&server).contains("] look once\n\n[Heartbeat"), "{}", asked(&server));
    over(ground).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_heartbeat_of_its_own_session_model_and_words() {
    let server = ModelServer::start(|_| Reply::text("Look here.").answer(WIRE));
    let own = "every: '1h', isolatedSession: true, lightContext: true, prompt: 'Just look.',
               model: 'mock/o', target: 'telegram', to: '1', ackMaxChars: 5";
    let listed = "models: [{id: 'm', name: 'M',";
    let both = "models: [{id: 'o', name: 'O', contextWindow: 100000, maxTokens: 1000}, {id: 'm', name: 'M',";
    let ground = Ground::with(&with(&server, own).replace(listed, both)).await;
    std::fs::write(file(&ground, "AGENTS.md"), "the-word-of-agents").unwrap();
    std::fs::write(file(&ground, "HEARTBEAT.md"), "the-word-of-heartbeats").unwrap();
    let mut client = login(&ground, ALL).await;
    let mut sessions = Vec::new();
    for text in ["first", "second"] {
        wake(&mut client, "now", text).await;
        told(&mut client, "preview", "Look here.").await;
        let request = server.received().last().unwrap().body.clone();
        assert_eq!(request["model"], "o", "{request}");
        // Each time a talk of its own, with little beside it.
        assert!(asked(&server).contains("\nJust look.\n"), "{request}");
        let all = request.to_string();
        assert!(all.contains("the-word-of-heartbeats"), "{all}");
        assert!(!all.contains("the-word-of-agents"), "{all}");
        assert_eq!(all.matches("Just look.").count(), 1, "{all}");
        let listed = call(&mut client, "sessions.list", json!({})).await;
        let rows = listed["payload"]["sessions"].as_array().unwrap().clone();
        let row = rows.iter().find(|row| row["key"] == "agent:main:main:heartbeat").unwrap();
        sessions.push(row["sessionId"].clone());
        let limit = json!({ "key": "agent:main:main:heartbeat", "execSecurity": "deny" });
        let patched = call(&mut client, "sessions.patch", limit).await;
        assert_eq!(patched["payload"]["entry"]["execSecurity"], "deny", "{patched}");
    }
    assert_ne!(sessions[0], sessions[1]);
    // A limit that somebody set for it outlasts the talk.
    wake(&mut client, "now", "third").await;
    told(&mut client, "preview", "Look here.").await;
    let store = ground.home.path().join(".openclaw/agents/main/sessions/sessions.json");
    let store: Value = serde_json::from_str(&std::fs::read_to_string(store).unwrap()).unwrap();
    let entry = &store["agent:main:main:heartbeat"];
    assert_eq!(
        (&entry["execSecurity"], &entry["label"]),
        (&json!("deny"), &json!("Heartbeat")),
        "{entry}"
    );
    assert_ne!(entry["sessionId"], sessions[1]);
    // What means nothing here is written down.
    let tail = call(&mut client, "logs.tail", json!({})).await["payload"]["lines"].to_string();
    assert!(tail.contains("keys of a heartbeat mean nothing here"), "{tail}");
    assert!(tail.contains("target") && tail.contains("to"), "{tail}");
    over(ground).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_cannot_be_asked_is_told_as_a_failure() {
    let server = acks();
    let ground = ground(&server, "every: '1h', model: 'nobody/knows'").await;
    let mut client = login(&ground, WRITER).await;
    wake(&mut client, "now", "stay").await;
    let failed = told(&mut client, "status", "failed").await;
    assert_eq!(failed["indicatorType"], "error", "{failed}");
    assert!(failed["reason"].as_str().unwrap().contains("nobody"), "{failed}");
    // What was not brought still waits.
    assert_eq!(queued(&mut client).await, json!(["stay"]));
    assert_eq!(server.received().len(), 0);
    over(ground).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_planned_job_may_wait_for_the_heartbeat() {
    let server = acks();
    let ground = ground(&server, "every: '1h'").await;
    let mut client = login(&ground, ALL).await;
    let job = json!({ "name": "later", "schedule": { "kind": "every", "everyMs": 3_600_000 },
                      "sessionTarget": "main", "wakeMode": "next-heartbeat",
                      "payload": { "kind": "systemEvent", "text": "water the plants" } });
    let job = call(&mut client, "cron.add", job).await["payload"].clone();
    assert_eq!(job["wakeMode"], "next-heartbeat", "{job}");
    call(&mut client, "cron.run", json!({ "id": job["id"] })).await;
    let is_end = |frame: &Value| frame["payload"]["action"] == "finished";
    let finished = client.take(WAIT, is_end).await.unwrap()["payload"].clone();
    assert_eq!(
        (&finished["status"], &finished["summary"]),
        (&json!("ok"), &json!("water the plants")),
        "{finished}"
    );
    assert_eq!(queued(&mut client).await, json!(["water the plants"]));
    assert_eq!(server.received().len(), 0);
    wake(&mut client, "now", "and the cat").await;
    told(&mut client, "status", "ok-token").await;
    let text = asked(&server);
    assert!(text.contains("] water the plants\nSystem: [") && text.contains("] and the cat\n"));
    over(ground).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_asked_at_night() {
    let server = acks();
    let ground = ground(&server, "every: '1s', activeHours: {start: '00:00', end: '00:00'}").await;
    let mut client = login(&ground, WRITER).await;
    let skipped = told(&mut client, "reason", "quiet-hours").await;
    assert_eq!(skipped["status"], "skipped", "{skipped}");
    wake(&mut client, "now", "in the morning").await;
    told(&mut client, "reason", "quiet-hours").await;
    assert_eq!(queued(&mut client).await, json!(["in the morning"]));
    assert_eq!(server.received().len(), 0);
    over(ground).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_those_who_have_a_heartbeat_of_their_own_are_asked() {
    let server = acks();
    let agents = "[{id: 'main'}, {id: 'bot', heartbeat: {every: '1s'}}]";
    let ground = Ground::with(&config(&server, "").replace("[{id: 'main'}]", agents)).await;
    let mut client = login(&ground, WRITER).await;
    let status = call(&mut client, "status", json!({})).await["payload"]["heartbeat"].clone();
    assert_eq!(
        status["agents"],
        json!([{ "agentId": "main", "enabled": false, "every": "disabled", "everyMs": null },
               { "agentId": "bot", "enabled": true, "every": "1s", "everyMs": 1000 }])
    );
    told(&mut client, "status", "ok-token").await;
    let begun = |frame: &Value| frame["payload"]["data"]["phase"] == "start";
    let begun = client.take(WAIT, begun).await.unwrap();
    assert_eq!(begun["payload"]["sessionKey"], "agent:bot:main", "{begun}");
    wake(&mut client, "now", "for the default agent").await;
    told(&mut client, "reason", "disabled").await;
    assert_eq!(queued(&mut client).await, json!(["for the default agent"]));
    over(ground).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_gateways_one_asks_and_the_other_takes_over() {
    let server = acks();
    let first = ground(&server, "every: '1s'").await;
    let mut client = login(&first, WRITER).await;
    told(&mut client, "status", "ok-token").await;
    let around = Surroundings::of_home(first.home.path().to_str().unwrap());
    let second = start(Options { port: Some(0), ..Options::new(around) }).await.unwrap();
    let Ground { home, running } = first;
    let second = Ground { home, running: second };
    let mut other = login(&second, WRITER).await;
    let told_there = other.event("heartbeat", Duration::from_millis(2500)).await;
    assert!(told_there.is_err(), "{told_there:?}");
    // Whoever asks it is heard all the same.
    wake(&mut other, "now", "here").await;
    told(&mut other, "reason", "wake").await;
    running.stop(super::Farewell::Stop).await;
    told(&mut other, "reason", "interval").await;
    over(second).await;
}
