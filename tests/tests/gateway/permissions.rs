//! What Studio does when a person changes what an agent may do, step by step.

use clawpen_tests::replay::gateway_frames::client::Client;
use serde_json::{Value, json};

use super::{ALL, Ground, call};

async fn payload(client: &mut Client, method: &str, params: Value) -> Value {
    let answer = call(client, method, params).await;
    assert_eq!(answer["ok"], true, "{method}: {answer}");
    answer["payload"].clone()
}

/// Sets the tools of an agent in the config, as Studio does: the whole of it goes back.
async fn set_tools(client: &mut Client, tools: Value) {
    let seen = payload(client, "config.get", json!({})).await;
    let mut config = seen["config"].clone();
    for agent in config["agents"]["list"].as_array_mut().unwrap() {
        if agent["id"] == "bot" {
            agent["tools"] = tools.clone();
        }
    }
    let set = json!({ "raw": config.to_string(), "baseHash": seen["hash"] });
    payload(client, "config.set", set).await;
}

async fn approvals(client: &mut Client, entry: Value) {
    let seen = payload(client, "exec.approvals.get", json!({})).await;
    let mut file = seen["file"].clone();
    file["agents"]["bot"] = entry;
    let set = json!({ "file": file, "baseHash": seen["hash"] });
    payload(client, "exec.approvals.set", set).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_command_mode_of_studio_is_stored_and_stays_in_the_sandbox() {
    // The mode comes from the defaults: Studio looks at the agent's own entry only and asks for the host.
    let ground = Ground::with(
        "agents: {defaults: {sandbox: {mode: 'all'}}, list: [{id: 'main'}, {id: 'bot'}]}",
    )
    .await;
    let mut client = ground.login(ALL).await;
    for (entry, tools, security, ask) in [
        (
            json!({ "security": "full", "ask": "off" }),
            json!({ "alsoAllow": ["group:runtime", "group:web", "group:fs"] }),
            "full",
            "off",
        ),
        (
            json!({ "security": "allowlist", "ask": "always" }),
            json!({ "alsoAllow": ["group:runtime"], "deny": ["group:web"] }),
            "allowlist",
            "always",
        ),
    ] {
        approvals(&mut client, entry).await;
        set_tools(&mut client, tools).await;
        let patch = json!({ "key": "agent:bot:main", "execHost": "gateway",
                            "execSecurity": security, "execAsk": ask });
        let patched = payload(&mut client, "sessions.patch", patch).await;
        let stored = &patched["entry"];
        assert_eq!(
            (&stored["execHost"], &stored["execSecurity"], &stored["execAsk"]),
            (&json!("sandbox"), &json!(security), &json!(ask))
        );
    }
    let off = json!({ "key": "agent:bot:main", "execHost": null, "execSecurity": "deny",
                      "execAsk": "off" });
    let patched = payload(&mut client, "sessions.patch", off).await;
    assert_eq!(patched["entry"].get("execHost"), None);
    let listed = payload(&mut client, "sessions.list", json!({ "agentId": "bot" })).await;
    assert_eq!(listed["sessions"][0]["execSecurity"], "deny", "{listed}");
    let effective =
        payload(&mut client, "tools.effective", json!({ "sessionKey": "agent:bot:main" })).await;
    assert_eq!(effective["agentId"], "bot");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_would_undo_another_is_refused() {
    let ground = Ground::new().await;
    let mut one = ground.login(ALL).await;
    let mut other = ground.login(ALL).await;
    let config = payload(&mut one, "config.get", json!({})).await;
    let file = payload(&mut one, "exec.approvals.get", json!({})).await;
    set_tools(&mut other, json!({ "deny": ["exec"] })).await;
    approvals(&mut other, json!({ "security": "deny" })).await;
    let set = json!({ "raw": config["config"].to_string(), "baseHash": config["hash"] });
    let lost = call(&mut one, "config.set", set).await;
    assert!(lost["error"]["message"].as_str().unwrap().contains("re-run config.get"), "{lost}");
    let set = json!({ "file": file["file"], "baseHash": file["hash"] });
    let lost = call(&mut one, "exec.approvals.set", set).await;
    assert!(lost["error"]["message"].as_str().unwrap().contains("changed since"), "{lost}");
    assert!(ground.config().contains("deny"), "{}", ground.config());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_allow_list_of_the_sandbox_is_repaired_by_one_write() {
    let ground = Ground::with(
        "agents: {list: [{id: 'main'}, {id: 'bot', sandbox: {mode: 'all'}, \
         tools: {sandbox: {tools: {allow: []}}}}]}",
    )
    .await;
    let mut client = ground.login(ALL).await;
    set_tools(&mut client, json!({ "sandbox": { "tools": { "allow": ["*"] } } })).await;
    let seen = payload(&mut client, "config.get", json!({})).await;
    let bot = &seen["config"]["agents"]["list"][1];
    assert_eq!(bot["tools"]["sandbox"]["tools"]["allow"], json!(["*"]), "{bot}");
    assert_eq!(bot["sandbox"]["mode"], "all");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_admin_scope_nothing_is_loosened() {
    let ground = Ground::new().await;
    let mut client = ground.login(&["operator.read", "operator.write", "operator.approvals"]).await;
    let loosen =
        json!({ "raw": "{agents: {defaults: {sandbox: {mode: 'off'}}}}", "baseHash": "x" });
    for (method, params) in [
        ("config.patch", loosen.clone()),
        ("config.set", loosen),
        ("exec.approvals.set", json!({ "file": { "version": 1 } })),
        ("sessions.patch", json!({ "key": "agent:bot:main", "execSecurity": "full" })),
        ("sandbox.exec", json!({ "command": "id" })),
        ("sandbox.recreate", json!({})),
        ("skills.update", json!({ "skillKey": "x", "enabled": true })),
        ("agents.update", json!({ "agentId": "bot", "workspace": "/" })),
    ] {
        let answer = call(&mut client, method, params).await;
        assert_eq!(answer["error"]["message"], "missing scope: operator.admin", "{method}");
    }
}
