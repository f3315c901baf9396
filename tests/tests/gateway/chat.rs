//! Agents over the gateway: a scripted model, real sandboxes, clients that may and clients that may not.

use std::process::Command;
use std::time::Duration;

use clawpen_tests::model_server::{ModelServer, Piece, Reply, Wire};
use clawpen_tests::replay::explain::binary;
use clawpen_tests::replay::gateway_frames::client::{Client, Devices, Headers};
use serde_json::{Value, json};

use super::{ALL, Farewell, Ground, TOKEN, WAIT, call, connect};

pub(super) const WIRE: Wire = Wire::OpenAi;
pub(super) const WRITER: &[&str] = &["operator.read", "operator.write"];

/// A gateway whose agents ask this model and work in sandboxes of their own.
pub(super) async fn ground(server: &ModelServer, more: &str) -> Ground {
    Ground::with(&config(server, more)).await
}

pub(super) fn config(server: &ModelServer, more: &str) -> String {
    let url = server.url();
    format!(
        "models: {{providers: {{mock: {{baseUrl: '{url}', api: 'openai-completions', apiKey: 'k',
             models: [{{id: 'm', name: 'M', contextWindow: 100000, maxTokens: 1000}}]}}}}}},
         agents: {{defaults: {{model: {{primary: 'mock/m'}}, sandbox: {{mode: 'all', backend: 'native'}}}},
             list: [{{id: 'main'}}]}}{more}"
    )
}

/// A client with a device that wants to hear of tools.
pub(super) async fn login(ground: &Ground, scopes: &[&str]) -> Client {
    let mut client = Client::connect(ground.address(), &Headers::default()).await.unwrap();
    let challenge = client.challenge(WAIT).await.unwrap();
    let mut connect = connect(scopes, TOKEN);
    connect["params"]["caps"] = json!(["tool-events"]);
    connect["params"]["device"] = json!({ "id": "d", "signedAt": 0, "nonce": "<NONCE>" });
    Devices::default().sign(&mut connect, &challenge, None, None).unwrap();
    client.send(connect.to_string()).await;
    assert_eq!(client.response(&json!("c"), WAIT).await.unwrap()["ok"], true);
    client
}

pub(super) async fn say(client: &mut Client, run: &str, message: &str) -> Value {
    let params = json!({ "sessionKey": "main", "message": message, "idempotencyKey": run });
    call(client, "chat.send", params).await
}

/// The end of a run, as `chat` tells it.
pub(super) async fn end(client: &mut Client, run: &str) -> Value {
    let is_end = |frame: &Value| {
        let payload = &frame["payload"];
        frame["event"] == "chat" && payload["runId"] == *run && payload["state"] != "delta"
    };
    client.take(WAIT, is_end).await.unwrap()["payload"].clone()
}

pub(super) fn said(payload: &Value) -> &str {
    payload["message"]["content"][0]["text"].as_str().unwrap_or_default()
}

/// The binary in the home of a gateway.
pub(super) fn run(ground: &Ground, args: &[&str]) -> String {
    let mut command = Command::new(binary().unwrap());
    command.args(args).env_clear().env("HOME", ground.home.path()).env("PATH", "/usr/bin:/bin");
    String::from_utf8(command.output().unwrap().stdout).unwrap()
}

/// Sandboxes outlive whoever made them; those of a test go with it.
pub(super) async fn over(ground: Ground) {
    run(&ground, &["sandbox", "remove", "--all", "--force"]);
    ground.running.stop(Farewell::Stop).await;
}

/// Processes of the machine with this word in their command line.
pub(super) fn count(marker: &str) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| String::from_utf8_lossy(line).contains(marker)).count()
}

pub(super) fn entry(ground: &Ground) -> Value {
    let path = ground.home.path().join(".openclaw/agents/main/sessions/sessions.json");
    let text = std::fs::read_to_string(path).unwrap_or_else(|_| "{}".to_owned());
    serde_json::from_str::<Value>(&text).unwrap()["agent:main:main"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_model_calls_lands_in_the_sandbox_and_in_the_record() {
    let canary = tempfile::NamedTempFile::new().unwrap();
    let path = canary.path().to_str().unwrap().to_owned();
    let command = format!("echo reached > {path}; readlink /proc/self/ns/pid");
    let server = ModelServer::scripted(vec![
        Reply::text("I look.").call("exec", json!({ "command": command })).answer(WIRE),
        Reply::text("That is all.").answer(WIRE),
    ]);
    let ground = ground(&server, "").await;
    let mut client = login(&ground, WRITER).await;
    let mut reader = ground.login(&["operator.read"]).await;
    let mut stranger = ground.login(&["operator.approvals"]).await;
    let answer = say(&mut client, "run-1", "look around").await;
    assert_eq!(answer["payload"], json!({ "runId": "run-1", "status": "started" }));
    let phases: Vec<Value> = vec![
        client.event("agent", WAIT).await.unwrap()["payload"]["data"]["phase"].clone(),
        client.event("agent", WAIT).await.unwrap()["payload"]["data"]["delta"].clone(),
    ];
    assert_eq!(phases, [json!("start"), json!("I look.")]);
    let tool = |frame: &Value| frame["payload"]["stream"] == "tool";
    let started = client.take(WAIT, tool).await.unwrap();
    assert_eq!(started["payload"]["data"]["args"]["command"], json!(command));
    assert_eq!((&started["seq"], &started["payload"]["status"]), (&Value::Null, &json!("running")));
    let ended = end(&mut client, "run-1").await;
    assert_eq!((&ended["state"], said(&ended)), (&json!("final"), "I look.That is all."));
    // Whoever may read hears it, without the tools; whoever may not hears nothing.
    assert_eq!(said(&end(&mut reader, "run-1").await), "I look.That is all.");
    assert!(reader.take(Duration::from_millis(50), tool).await.is_err());
    for event in ["agent", "chat"] {
        assert!(stranger.event(event, Duration::from_millis(50)).await.is_err(), "{event}");
    }
    let history = call(&mut reader, "chat.history", json!({ "sessionKey": "main" })).await;
    let messages = history["payload"]["messages"].as_array().unwrap();
    let roles: Vec<&str> = messages.iter().map(|one| one["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "toolResult", "assistant"], "{history}");
    assert_eq!(messages[0]["senderLabel"], "gateway-client");
    let result = messages[2]["content"][0]["text"].as_str().unwrap();
    let own = std::fs::read_link("/proc/self/ns/pid").unwrap();
    assert!(result.contains("pid:[") && !result.contains(own.to_str().unwrap()), "{result}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "", "the host was reached");
    let audit: Value = serde_json::from_str(&run(&ground, &["audit", "--json"])).unwrap();
    let (entered, called) = (&audit["records"][0], &audit["records"][1]);
    let fields = ["door", "session", "tool", "verdict", "ending"].map(|key| called[key].clone());
    let expected = ["websocket", "agent:main:main", "exec", "allowed", "exit 0"].map(Value::from);
    assert_eq!(fields, expected, "{audit}");
    assert_eq!(called["previous"], entered["hash"], "{audit}");
    over(ground).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_is_one_run_however_often_it_is_given() {
    let server = ModelServer::scripted(vec![Reply::text("hi").answer(WIRE)]);
    let ground = ground(&server, "").await;
    let mut client = login(&ground, WRITER).await;
    let statuses = [
        say(&mut client, "same", "hello").await["payload"]["status"].clone(),
        say(&mut client, "same", "hello").await["payload"]["status"].clone(),
    ];
    assert_eq!(statuses, [json!("started"), json!("in_flight")]);
    end(&mut client, "same").await;
    let wait = call(&mut client, "agent.wait", json!({ "runId": "same" })).await;
    assert_eq!(wait["payload"]["status"], "ok", "{wait}");
    assert_eq!(say(&mut client, "same", "hello").await["payload"]["status"], "ok");
    let other = json!({ "sessionKey": "agent:main:x", "message": "m", "idempotencyKey": "same" });
    assert_eq!(call(&mut client, "chat.send", other).await["ok"], false);
    let taken = say(&mut client, "exec-approval-followup:1", "m").await;
    assert_eq!(taken["ok"], false, "{taken}");
    assert_eq!(server.received().len(), 1);
    let unknown = json!({ "runId": "nope", "timeoutMs": 1 });
    let wait = call(&mut client, "agent.wait", unknown).await;
    assert_eq!(wait["payload"], json!({ "runId": "nope", "status": "timeout" }));
    over(ground).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_abort_kills_the_tree_and_only_its_owner_or_an_admin_may() {
    let marker = format!("3601.{}", std::process::id());
    let command =
        format!("(setsid sleep {marker} &) ; sleep {marker} & echo ready; sleep {marker}");
    let call_it = Reply::text("wait").call("exec", json!({ "command": command })).answer(WIRE);
    let server = ModelServer::scripted(vec![call_it]);
    let ground = ground(&server, "").await;
    let mut owner = login(&ground, WRITER).await;
    let mut other = login(&ground, WRITER).await;
    say(&mut owner, "long", "go").await;
    let is_update = |frame: &Value| frame["payload"]["data"]["phase"] == "update";
    owner.take(WAIT, is_update).await.unwrap();
    assert!(count(&marker) >= 3);
    let params = json!({ "sessionKey": "agent:main:main" });
    let refused = call(&mut other, "chat.abort", params.clone()).await;
    assert_eq!(refused["error"]["message"], "unauthorized", "{refused}");
    let stop = say(&mut other, "s", "stop").await;
    assert_eq!(stop["error"]["message"], "unauthorized", "{stop}");
    assert!(count(&marker) >= 3);
    let aborted = call(&mut owner, "chat.abort", params.clone()).await;
    assert_eq!(aborted["payload"], json!({ "ok": true, "aborted": true, "runIds": ["long"] }));
    assert_eq!(count(&marker), 0);
    let told = end(&mut other, "long").await;
    assert_eq!((&told["state"], &told["stopReason"]), (&json!("aborted"), &json!("rpc")));
    assert_eq!(said(&told), "wait");
    let wait = json!({ "runId": "long", "timeoutMs": 1 });
    assert_eq!(call(&mut owner, "agent.wait", wait).await["payload"]["status"], "ok");
    assert_eq!(entry(&ground)["status"], "killed");
    let nothing = call(&mut owner, "chat.abort", params).await;
    assert_eq!(nothing["payload"]["aborted"], false);
    over(ground).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_only_read_starts_nothing_and_changes_nothing() {
    let server = ModelServer::scripted(vec![Reply::text("hi").answer(WIRE)]);
    let ground = ground(&server, "").await;
    let mut reader = ground.login(&["operator.read"]).await;
    let message = json!({ "sessionKey": "main", "message": "m", "idempotencyKey": "k" });
    for (method, params, scope) in [
        ("chat.send", message.clone(), "operator.write"),
        ("agent", message, "operator.write"),
        ("chat.abort", json!({ "sessionKey": "main" }), "operator.write"),
        ("agent.wait", json!({ "runId": "k" }), "operator.write"),
        ("sessions.send", json!({ "key": "main", "message": "m" }), "operator.write"),
        ("wake", json!({ "mode": "now", "text": "m" }), "operator.write"),
        ("chat.inject", json!({ "sessionKey": "main", "message": "m" }), "operator.admin"),
    ] {
        let answer = call(&mut reader, method, params).await;
        assert_eq!(answer["error"]["message"], format!("missing scope: {scope}"), "{method}");
    }
    assert_eq!(server.received().len(), 0);
    assert_eq!(entry(&ground), Value::Null);
    over(ground).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn directives_follow_the_credential_and_nothing_that_a_client_says() {
    let server = ModelServer::scripted(vec![Reply::text("hi").answer(WIRE)]);
    let ground = ground(&server, ", tools: {elevated: {allowFrom: {webchat: ['*']}}}").await;
    let mut writer = login(&ground, WRITER).await;
    for (run, directive) in [
        ("1", "/exec security=full"),
        ("2", "/elevated full"),
        ("3", "/new"),
        ("4", "/approve x deny"),
    ] {
        say(&mut writer, run, directive).await;
        let told = end(&mut writer, run).await;
        assert!(said(&told).contains("operator."), "{directive}: {told}");
    }
    let set = entry(&ground);
    assert_eq!((&set["execSecurity"], &set["elevatedLevel"]), (&Value::Null, &Value::Null));
    let mut admin = login(&ground, ALL).await;
    say(&mut admin, "5", "/exec ask=always").await;
    end(&mut admin, "5").await;
    assert_eq!(entry(&ground)["execAsk"], "always");
    say(&mut writer, "6", "/status").await;
    let told = end(&mut writer, "6").await;
    assert!(said(&told).contains("agent:main:main"), "{told}");
    assert_eq!(told["message"]["model"], "gateway-injected");
    say(&mut writer, "7", "/help").await;
    let told = end(&mut writer, "7").await;
    assert!(said(&told).contains("/approve"), "{told}");
    assert_eq!(server.received().len(), 0);
    over(ground).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_answers_and_the_session_is_told_while_others_see_no_approval() {
    let server = ModelServer::start(|received| {
        let last = received.body["messages"].as_array().unwrap().last().unwrap().clone();
        match last["content"].as_str().unwrap_or_default() {
            text if text.contains("Exec denied") => Reply::text("it did not run").answer(WIRE),
            _ if received.results() == 0 => {
                Reply::default().call("exec", json!({ "command": "touch canary" })).answer(WIRE)
            }
            _ => Reply::text("I wait").answer(WIRE),
        }
    });
    let ground = ground(&server, ", tools: {exec: {host: 'gateway'}}").await;
    let mut writer = login(&ground, WRITER).await;
    let mut person = login(&ground, ALL).await;
    say(&mut writer, "ask", "touch it").await;
    // What the model says to a question for people stands beside the question: it is kept, and not told.
    let ended = end(&mut writer, "ask").await;
    assert_eq!((&ended["state"], &ended["message"]), (&json!("final"), &Value::Null));
    let asked = person.event("exec.approval.requested", WAIT).await.unwrap();
    let id = asked["payload"]["id"].as_str().unwrap().to_owned();
    assert_eq!(asked["payload"]["request"]["command"], "touch canary", "{asked}");
    for (method, params) in [
        ("exec.approval.list", json!({})),
        ("exec.approval.get", json!({ "id": id })),
        ("exec.approval.resolve", json!({ "id": id, "decision": "allow-once" })),
    ] {
        let answer = call(&mut writer, method, params).await;
        assert_eq!(answer["error"]["message"], "missing scope: operator.approvals", "{method}");
    }
    say(&mut writer, "own", &format!("/approve {id} allow-once")).await;
    assert!(said(&end(&mut writer, "own").await).contains("operator.approvals"));
    assert!(writer.event("exec.approval.requested", Duration::from_millis(50)).await.is_err());
    let deny = json!({ "id": id, "decision": "deny" });
    assert_eq!(call(&mut person, "exec.approval.resolve", deny).await["ok"], true);
    let follow_up = format!("exec-approval-followup:{id}");
    assert_eq!(said(&end(&mut writer, &follow_up).await), "it did not run");
    let found = Command::new("find").arg(ground.home.path()).args(["-name", "canary"]).output();
    assert!(found.unwrap().stdout.is_empty());
    over(ground).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_outlives_its_client() {
    let server = ModelServer::scripted(vec![
        Reply::default().call("exec", json!({ "command": "sleep 1; echo slept" })).answer(WIRE),
        Reply::text("awake").answer(WIRE),
    ]);
    let ground = ground(&server, "").await;
    let mut first = login(&ground, WRITER).await;
    say(&mut first, "on", "sleep").await;
    first.close().await;
    drop(first);
    let mut second = login(&ground, WRITER).await;
    let wait = json!({ "runId": "on", "timeoutMs": 25_000 });
    assert_eq!(call(&mut second, "agent.wait", wait).await["payload"]["status"], "ok");
    let history = call(&mut second, "chat.history", json!({ "sessionKey": "main" })).await;
    let last = history["payload"]["messages"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(last["content"][0]["text"], "awake", "{history}");
    over(ground).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_ends_runs_with_whole_transcripts() {
    let reply = Reply { text: vec!["the beginning".into(), "never".into()], calls: Vec::new() };
    let server = ModelServer::scripted(vec![reply.answer(WIRE).cut(4, Piece::Hold)]);
    let ground = ground(&server, "").await;
    let mut client = login(&ground, WRITER).await;
    say(&mut client, "cut", "go").await;
    let is_text = |frame: &Value| frame["payload"]["stream"] == "assistant";
    client.take(WAIT, is_text).await.unwrap();
    let Ground { home, running } = ground;
    let stopping = tokio::spawn(running.stop(Farewell::Stop));
    let told = end(&mut client, "cut").await;
    assert_eq!((&told["state"], &told["stopReason"]), (&json!("aborted"), &json!("stop")));
    assert_eq!(client.closing(WAIT).await.unwrap().0, 1012);
    client.close().await;
    stopping.await.unwrap();
    let sessions = home.path().join(".openclaw/agents/main/sessions");
    let store = std::fs::read_to_string(sessions.join("sessions.json")).unwrap();
    let store: Value = serde_json::from_str(&store).unwrap();
    let entry = &store["agent:main:main"];
    assert_eq!(entry["status"], "killed", "{entry}");
    let id = entry["sessionId"].as_str().unwrap();
    let text = std::fs::read_to_string(sessions.join(format!("{id}.jsonl"))).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 3);
    assert_eq!(lines[2]["message"]["content"][0]["text"], "the beginning");
    assert_eq!(lines[2]["message"]["openclawAbort"]["runId"], "cut");
    Command::new(binary().unwrap())
        .args(["sandbox", "remove", "--all", "--force"])
        .env_clear()
        .env("HOME", home.path())
        .env("PATH", "/usr/bin:/bin")
        .output()
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_answers_twice_with_files_and_a_failure_is_told() {
    let server = ModelServer::start(|received| {
        let text = received.body.to_string();
        if text.contains("FAIL") {
            clawpen_tests::model_server::Answer::error(400, "no")
        } else if received.results() == 0 {
            let command = json!({ "command": "cat media/inbound/*" });
            Reply::default().call("exec", command).answer(WIRE)
        } else {
            Reply::text("seen").answer(WIRE)
        }
    });
    let ground = ground(&server, "").await;
    let mut client = login(&ground, WRITER).await;
    let file =
        json!({ "fileName": "../../a b.txt", "mimeType": "text/plain", "content": "aGVsbG8=" });
    let params = json!({ "message": "look", "agentId": "main", "idempotencyKey": "files",
                         "attachments": [file] });
    client
        .send(json!({ "type": "req", "id": "a", "method": "agent", "params": params }).to_string())
        .await;
    let accepted = client.response(&json!("a"), WAIT).await.unwrap();
    assert_eq!(accepted["payload"]["status"], "accepted", "{accepted}");
    let done = client.response(&json!("a"), WAIT).await.unwrap();
    assert_eq!(
        done["payload"]["result"]["payloads"],
        json!([{ "text": "seen", "mediaUrl": null }])
    );
    assert_eq!(done["payload"]["result"]["meta"]["agentMeta"]["model"], "m", "{done}");
    let asked = server.received()[0].body.to_string();
    assert!(asked.contains("media/inbound/") && !asked.contains("inbound/.."), "{asked}");
    let history = call(&mut client, "chat.history", json!({ "sessionKey": "main" })).await;
    assert_eq!(history["payload"]["messages"][2]["content"][0]["text"], "hello", "{history}");
    for (attachments, why) in [
        (json!([{ "content": "%%" }]), "invalid base64"),
        (json!([{ "content": "A".repeat(7_000_000) }]), "size limit"),
    ] {
        let params = json!({ "sessionKey": "main", "message": "x", "idempotencyKey": "bad",
                             "attachments": attachments });
        let answer = call(&mut client, "chat.send", params).await;
        assert!(answer["error"]["message"].as_str().unwrap().contains(why), "{answer}");
    }
    say(&mut client, "f", "FAIL").await;
    let told = end(&mut client, "f").await;
    assert_eq!(told["state"], "error", "{told}");
    let again = say(&mut client, "f", "FAIL").await;
    assert_eq!((&again["ok"], &again["payload"]["status"]), (&json!(false), &json!("error")));
    over(ground).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_injected_is_kept_and_told() {
    let server = ModelServer::scripted(vec![Reply::text("hi").answer(WIRE)]);
    let ground = ground(&server, "").await;
    let mut admin = login(&ground, ALL).await;
    let inject = json!({ "sessionKey": "main", "message": "note this", "label": "ops" });
    let early = call(&mut admin, "chat.inject", inject.clone()).await;
    assert_eq!(early["error"]["message"], "session not found", "{early}");
    say(&mut admin, "h", "hello").await;
    end(&mut admin, "h").await;
    let done = call(&mut admin, "chat.inject", inject).await;
    let id = done["payload"]["messageId"].as_str().unwrap().to_owned();
    let told = end(&mut admin, &format!("inject-{id}")).await;
    assert_eq!((&told["seq"], said(&told)), (&json!(0), "[ops]\n\nnote this"));
    let history = call(&mut admin, "chat.history", json!({ "sessionKey": "main" })).await;
    let last = history["payload"]["messages"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(last["__openclaw"]["id"], json!(id), "{history}");
    over(ground).await;
}
