//! What can be looked at: the journal, metrics, histories, and only methods that are there.

use clawpen_tests::replay::gateway_frames::client::http;
use clawpen_wire::gateway::params;
use clawpen_wire::gateway::shape::Shape;
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

use super::{ALL, Ground, TOKEN, WAIT, call};

#[tokio::test(flavor = "multi_thread")]
async fn every_method_that_is_listed_is_there() {
    let ground = Ground::new().await;
    let mut client = ground.login(ALL).await;
    for (method, shape) in params::METHODS {
        // Wrong on purpose: nothing is to happen.
        let answer = call(&mut client, method, json!({ "no-such-key": 1 })).await;
        let said = answer["error"]["message"].as_str().unwrap_or_default();
        if matches!(shape, Shape::Open(_)) {
            assert!(!said.contains("unknown method"), "{method}: {answer}");
        } else {
            assert!(said.contains("unexpected property 'no-such-key'"), "{method}: {answer}");
        }
    }
    for (method, params) in [
        ("models.list", json!({})),
        ("tools.catalog", json!({})),
        ("skills.status", json!({})),
        ("cron.list", json!({})),
        ("usage.cost", json!({})),
        ("sessions.usage", json!({})),
        ("node.list", json!({})),
        ("sandbox.list", json!({})),
        ("sandbox.explain", json!({ "sessionKey": "agent:bot:main" })),
        ("last-heartbeat", json!({})),
        ("channels.status", json!({})),
    ] {
        let answer = call(&mut client, method, params).await;
        assert_eq!(answer["ok"], true, "{method}: {answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_are_followed_by_those_who_asked() {
    let ground = Ground::new().await;
    let mut client = ground.login(ALL).await;
    let answer = call(&mut client, "sessions.subscribe", json!({})).await;
    assert_eq!(answer["payload"], json!({ "subscribed": true }));
    let patch = json!({ "key": "agent:main:main", "label": "side" });
    assert_eq!(call(&mut client, "sessions.patch", patch).await["ok"], true);
    let told = client.event("sessions.changed", WAIT).await.unwrap();
    assert_eq!(told["payload"]["session"]["label"], "side", "{told}");
    assert_eq!(told.get("seq"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_journal_tells_who_came_and_no_secret() {
    let ground = Ground::new().await;
    let mut client = ground.login(ALL).await;
    let tail = call(&mut client, "logs.tail", json!({})).await;
    let lines = tail["payload"]["lines"].to_string();
    assert!(lines.contains("a client logged in"), "{tail}");
    assert!(!lines.contains(TOKEN), "{tail}");
    let identity = call(&mut client, "gateway.identity.get", json!({})).await;
    let again = call(&mut client, "gateway.identity.get", json!({})).await;
    assert_eq!(identity["payload"], again["payload"]);
    assert_eq!(identity["payload"]["deviceId"].as_str().map(str::len), Some(64), "{identity}");
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_are_for_those_who_know_the_secret() {
    let ground = Ground::new().await;
    let mut client = ground.login(ALL).await;
    call(&mut client, "health", json!({})).await;
    let ask = |headers| json!({ "method": "GET", "path": "/metrics", "headers": headers });
    let closed = http(ground.address(), &ask(json!({}))).await.unwrap();
    assert_eq!(closed["status"], 401);
    let headers = json!({ "Authorization": format!("Bearer {TOKEN}") });
    let open = http(ground.address(), &ask(headers)).await.unwrap();
    let text = open["body"].as_str().unwrap();
    let line = "clawpen_gateway_requests_total{method=\"health\",outcome=\"ok\"} 1";
    assert!(text.lines().any(|found| found == line), "{text}");
    assert!(text.contains("clawpen_gateway_clients 1"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_history_is_streamed_and_goes_on_when_something_happens() {
    let ground = Ground::new().await;
    let mut client = ground.login(ALL).await;
    let patch = json!({ "key": "agent:main:main", "label": "one" });
    assert_eq!(call(&mut client, "sessions.patch", patch).await["ok"], true);
    let stream = tokio::net::TcpStream::connect(ground.address()).await.unwrap();
    let mut stream = BufReader::new(stream);
    let head = format!(
        "GET /sessions/agent%3Amain%3Amain/history HTTP/1.1\r\nHost: localhost\r\n\
         Authorization: Bearer {TOKEN}\r\nx-openclaw-scopes: operator.read\r\n\
         Accept: text/event-stream\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut events = 0;
    let mut lines = String::new();
    while events < 2 {
        let mut line = String::new();
        tokio::time::timeout(WAIT, stream.read_line(&mut line)).await.unwrap().unwrap();
        lines.push_str(&line);
        if line.starts_with("event: history") {
            events += 1;
            if events == 1 {
                let patch = json!({ "key": "agent:main:main", "label": "two" });
                assert_eq!(call(&mut client, "sessions.patch", patch).await["ok"], true);
            }
        }
    }
    assert!(lines.contains("content-type: text/event-stream"), "{lines}");
    assert!(lines.contains("\"sessionKey\":\"agent:main:main\""), "{lines}");
}
