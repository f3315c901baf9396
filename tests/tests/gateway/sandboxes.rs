//! A sandbox over the gateway: a command with its output while it runs, what is in force, a new one.

use serde_json::json;

use super::{ALL, Ground, WAIT, call};

#[tokio::test(flavor = "multi_thread")]
async fn a_command_runs_in_the_sandbox_and_is_heard_while_it_runs() {
    let ground = Ground::with(
        "agents: {defaults: {sandbox: {mode: 'all', backend: 'native'}}, list: [{id: 'main'}]}",
    )
    .await;
    let mut client = ground.login(ALL).await;
    let run = json!({ "sessionKey": "agent:main:main", "command": "echo heard; cat /proc/1/comm" });
    let answer = call(&mut client, "sandbox.exec", run).await;
    assert_eq!(answer["payload"]["details"]["exitCode"], 0, "{answer}");
    let heard = client.event("sandbox.output", WAIT).await.unwrap();
    assert!(heard["payload"]["text"].as_str().unwrap().contains("heard"), "{heard}");
    assert_eq!(heard["payload"]["call"], answer["id"]);
    let who = json!({ "sessionKey": "agent:main:main" });
    let facts = call(&mut client, "sandbox.facts", who.clone()).await;
    let lines = facts["payload"]["facts"].as_array().unwrap();
    assert!(lines.len() > 10 && lines.iter().all(|line| line["holds"] == true), "{facts}");
    let listed = call(&mut client, "sandbox.list", json!({})).await;
    assert_eq!(listed["payload"]["sandboxes"][0]["condition"], "running", "{listed}");
    let gone = call(&mut client, "sandbox.recreate", who).await;
    assert_eq!(gone["payload"]["removed"], true, "{gone}");
}
