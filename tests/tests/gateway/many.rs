//! A hundred sessions at once, each with a tool call, over a few connections.

use clawpen_tests::model_server::{ModelServer, Reply};
use serde_json::{Value, json};

use super::chat::{WIRE, WRITER, config, end, login, over, run, said};
use super::{Ground, call};

const SESSIONS: usize = 100;
const CLIENTS: usize = 4;

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_sessions_call_tools_at_once_and_each_gets_its_own_answer() {
    let server = ModelServer::start(|received| {
        let messages = received.body["messages"].as_array().unwrap();
        let last = |role: &str| {
            let found = messages.iter().rev().find(|message| message["role"] == *role);
            found.map(|message| message["content"].as_str().unwrap().to_owned())
        };
        if let Some(result) = last("tool") {
            return Reply::text(&format!("it said {}", result.trim())).answer(WIRE);
        }
        let command = format!("echo {}", last("user").unwrap());
        Reply::default().call("exec", json!({ "command": command })).answer(WIRE)
    });
    let config = config(&server, "").replace("defaults: {", "defaults: {maxConcurrent: 100, ");
    let ground = Ground::with(&config).await;
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(login(&ground, WRITER).await);
    }
    for number in 0..SESSIONS {
        let params = json!({ "sessionKey": format!("agent:main:s{number}"),
                             "message": format!("mark-{number}"), "idempotencyKey": format!("r{number}") });
        let answer = call(&mut clients[number % CLIENTS], "chat.send", params).await;
        assert_eq!(answer["payload"]["status"], "started", "{answer}");
    }
    for number in 0..SESSIONS {
        // Every client that may read hears of every run.
        let told = end(&mut clients[(number + 1) % CLIENTS], &format!("r{number}")).await;
        assert_eq!(
            (&told["state"], said(&told)),
            (&json!("final"), format!("it said mark-{number}").as_str())
        );
        assert_eq!(told["sessionKey"], format!("agent:main:s{number}"));
    }
    let audit: Value =
        serde_json::from_str(&run(&ground, &["audit", "--json", "--limit", "1000"])).unwrap();
    let calls = audit["records"].as_array().unwrap().iter();
    assert_eq!(calls.filter(|record| record["tool"] == "exec").count(), SESSIONS);
    over(ground).await;
}
