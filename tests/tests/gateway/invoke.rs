//! `/tools/invoke`: what programs get, in the reference's shapes, and what they do not.

use clawpen_tests::model_server::{ModelServer, Reply};
use clawpen_tests::replay::gateway_frames::client::http;
use serde_json::{Value, json};

use super::chat::{WIRE, config, end, login, over, run, say};
use super::{ALL, Ground, TOKEN};

async fn invoke(ground: &Ground, body: Value) -> Value {
    let request = json!({ "method": "POST", "path": "/tools/invoke", "body": body.to_string(),
        "headers": { "Authorization": format!("Bearer {TOKEN}") } });
    http(ground.address(), &request).await.unwrap()
}

async fn details(ground: &Ground, body: Value) -> Value {
    let answer = invoke(ground, body).await;
    assert_eq!((&answer["status"], &answer["body"]["ok"]), (&json!(200), &json!(true)), "{answer}");
    let result = &answer["body"]["result"];
    assert_eq!(result["content"][0]["type"], "text", "{answer}");
    result["details"].clone()
}

fn keys(value: &Value) -> Vec<&str> {
    let mut keys: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_about_sessions_answer_in_the_references_shapes() {
    let server = ModelServer::start(|_| Reply::text("heard").answer(WIRE));
    let agents = config(&server, "").replace(
        "list: [{id: 'main'}]",
        "list: [{id: 'main', subagents: {allowAgents: ['bot']}}, {id: 'bot', name: 'Bot'}]",
    );
    let agents = agents.replace("mode: 'all'", "mode: 'off'");
    let ground = Ground::with(&agents).await;
    let mut client = login(&ground, ALL).await;
    say(&mut client, "r", "hi").await;
    end(&mut client, "r").await;
    let status = details(&ground, json!({ "tool": "session_status" })).await;
    assert_eq!(keys(&status), ["changedModel", "ok", "sessionKey", "statusText"]);
    assert_eq!(status["sessionKey"], "agent:main:main");
    assert!(status["statusText"].as_str().unwrap().contains("mock/m"), "{status}");
    let list =
        details(&ground, json!({ "tool": "sessions_list", "args": { "messageLimit": 1 } })).await;
    assert_eq!(keys(&list), ["count", "sessions"]);
    let row = &list["sessions"][0];
    assert_eq!(
        (&row["key"], &row["kind"], &row["channel"]),
        (&json!("agent:main:main"), &json!("main"), &json!("webchat"))
    );
    assert!(row["transcriptPath"].as_str().unwrap().contains("/agents/main/sessions/"), "{row}");
    assert_eq!(row["messages"][0]["role"], "assistant", "{row}");
    let history = json!({ "tool": "sessions_history", "args": { "sessionKey": "main" } });
    let history = details(&ground, history).await;
    assert_eq!(
        keys(&history),
        [
            "bytes",
            "contentRedacted",
            "contentTruncated",
            "droppedMessages",
            "messages",
            "sessionKey",
            "truncated"
        ]
    );
    assert_eq!(history["messages"].as_array().unwrap().len(), 2, "{history}");
    assert_eq!(history["messages"][1].get("usage"), None);
    let agents = details(&ground, json!({ "tool": "agents_list" })).await;
    assert_eq!(
        agents,
        json!({ "requester": "main", "allowAny": false, "agents": [
            { "id": "main", "configured": true }, { "id": "bot", "name": "Bot", "configured": true }] })
    );
    let below = details(&ground, json!({ "tool": "subagents", "action": "list" })).await;
    assert_eq!(
        (&below["status"], &below["action"], &below["total"], &below["callerIsSubagent"]),
        (&json!("ok"), &json!("list"), &json!(0), &json!(false))
    );
    // Another agent's session is closed to this one, and that is an answer.
    let other = json!({ "tool": "sessions_history", "args": { "sessionKey": "agent:bot:main" } });
    let other = details(&ground, other).await;
    assert_eq!(keys(&other), ["error", "status"], "{other}");
    let bad = invoke(&ground, json!({ "tool": "sessions_history" })).await;
    assert_eq!(
        (&bad["status"], &bad["body"]["error"]["type"]),
        (&json!(400), &json!("tool_error"))
    );
    assert!(
        run(&ground, &["audit", "--json"]).contains("agents_list"),
        "what was done is recorded"
    );
    over(ground).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_config_lets_a_program_run_commands_here() {
    let more = "tools: {allow: ['*']}, agents: {list: [{id: 'main'}]}";
    let door = "tools: {allow: ['exec', 'read', 'cron', 'gateway', '*'], deny: ['agents_*']}";
    let ground = Ground::of(&format!(
        "{{gateway: {{mode: 'local', auth: {{token: '{TOKEN}'}}, {door}}}, {more}}}"
    ))
    .await;
    for tool in [
        "exec",
        "Exec",
        "bash",
        "process",
        "read",
        "write",
        "edit",
        "apply_patch",
        "ls",
        "grep",
        "find",
        "cron",
        "gateway",
        "whatsapp_login",
        "memory_search",
        "memory_get",
        "sessions_send",
        "sessions_spawn",
        "agents_list",
        "nosuch",
    ] {
        let body = json!({ "tool": tool, "args": { "command": "id", "path": "/etc/passwd", "task": "x" } });
        let answer = invoke(&ground, body).await;
        assert_eq!(answer["status"], 404, "{tool}: {answer}");
        let expected = format!("Tool not available: {tool}");
        assert_eq!(answer["body"]["error"]["message"], expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sub_agents_are_steered_only_where_the_config_says_so() {
    let body = |action: &str| json!({ "tool": "subagents", "args": { "action": action, "target": "all", "message": "x" } });
    let beside = json!({ "tool": "subagents", "action": "kill", "args": { "target": "all" } });
    let door = |lists: &str| {
        format!("{{gateway: {{mode: 'local', auth: {{token: '{TOKEN}'}}, tools: {lists}}}}}")
    };
    let shut = Ground::of(&door("{allow: ['*', 'sessions_send']}")).await;
    for body in [body("kill"), body("steer"), beside.clone()] {
        assert_eq!(invoke(&shut, body.clone()).await["status"], 404, "{body}");
    }
    assert_eq!(invoke(&shut, body("list")).await["status"], 200);
    let open = Ground::of(&door("{allow: ['subagents']}")).await;
    assert_eq!(details(&open, beside).await["killed"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_are_fetched_under_the_same_rules_as_for_agents() {
    let ground = Ground::new().await;
    let fetch = |url: &str| json!({ "tool": "web_fetch", "args": { "url": url } });
    let secret = ground.address();
    for url in [
        format!("http://{secret}/"),
        "http://169.254.169.254/x".to_owned(),
        "http://[::1]/".to_owned(),
    ] {
        let answer = invoke(&ground, fetch(&url)).await;
        assert_eq!(
            (&answer["status"], &answer["body"]["error"]["type"]),
            (&json!(403), &json!("tool_error")),
            "{url}: {answer}"
        );
    }
    assert_eq!(invoke(&ground, json!({ "tool": "web_fetch" })).await["status"], 400);
    // A sandboxed session's own policy holds here too.
    let mut inside = fetch("http://169.254.169.254/");
    inside["sessionKey"] = json!("agent:bot:main");
    assert_eq!(invoke(&ground, inside).await["status"], 404);
    let off = Ground::with("tools: {web: {fetch: {enabled: false}}}").await;
    assert_eq!(invoke(&off, fetch("http://example.com/")).await["status"], 404);
}
