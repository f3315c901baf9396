//! What the method `agent` takes for one run: a model, instructions, where a message came from; and who may not.

use clawpen_tests::model_server::{ModelServer, Reply};
use serde_json::{Value, json};

use super::chat::{WIRE, WRITER, config, login, over};
use super::{ALL, Client, Ground, WAIT};

async fn ground(server: &ModelServer) -> Ground {
    let agents = config(server, "").replace(
        "model: {primary: 'mock/m'}",
        "model: {primary: 'mock/m'}, models: {'mock/m': {}, 'mock/other': {alias: 'o'}}",
    );
    Ground::with(&agents).await
}

/// The last of the answers to `agent`.
async fn agent(client: &mut Client, mut params: Value) -> Value {
    let id = clawpen_engine::random::uuid();
    params["idempotencyKey"] = json!(id);
    let frame = json!({ "type": "req", "id": id, "method": "agent", "params": params });
    client.send(frame.to_string()).await;
    let is_last = |frame: &Value| frame["id"] == *id && frame["payload"]["status"] != "accepted";
    client.take(WAIT, is_last).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_for_one_run_takes_an_admin_and_a_listed_model() {
    let server = ModelServer::start(|_| Reply::text("heard").answer(WIRE));
    let ground = ground(&server).await;
    let mut writer = login(&ground, WRITER).await;
    for wish in [json!({ "model": "mock/other" }), json!({ "provider": "mock", "model": "other" })]
    {
        let mut params = wish.clone();
        params["message"] = json!("x");
        let answer = agent(&mut writer, params).await;
        let said = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(said.contains("operator.admin"), "{wish}: {answer}");
    }
    let mut admin = login(&ground, ALL).await;
    for (wish, expected) in [
        (json!({ "model": "mock/expensive" }), "mock/expensive"),
        (json!({ "provider": "openrouter", "model": "x/y" }), "openrouter/x/y"),
        (json!({ "provider": "mock" }), "`provider` without `model`"),
    ] {
        let mut params = wish.clone();
        params["message"] = json!("x");
        let answer = agent(&mut admin, params).await;
        let said = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(said.contains(expected), "{wish}: {answer}");
    }
    assert!(server.received().is_empty());
    for (number, wish) in [json!({ "model": "mock/other" }), json!({ "model": "o" }), json!({})]
        .into_iter()
        .enumerate()
    {
        let mut params = wish.clone();
        params["message"] = json!("x");
        let answer = agent(&mut admin, params).await;
        assert_eq!(answer["payload"]["status"], "ok", "{wish}: {answer}");
        let asked = server.received()[number].body["model"].clone();
        assert_eq!(asked, if number < 2 { "other" } else { "m" }, "{wish}");
    }
    over(ground).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn instructions_of_a_message_hold_for_its_run() {
    let server = ModelServer::start(|_| Reply::text("heard").answer(WIRE));
    let ground = ground(&server).await;
    let mut writer = login(&ground, WRITER).await;
    let answer =
        agent(&mut writer, json!({ "message": "x", "extraSystemPrompt": "Speak in rhymes." }))
            .await;
    assert_eq!(answer["payload"]["status"], "ok", "{answer}");
    assert_eq!(agent(&mut writer, json!({ "message": "y" })).await["payload"]["status"], "ok");
    let told: Vec<bool> = server
        .received()
        .iter()
        .map(|one| one.body.to_string().contains("Speak in rhymes."))
        .collect();
    assert_eq!(told, [true, false]);
    let long = json!({ "message": "x", "extraSystemPrompt": "x".repeat(20_001) });
    let answer = agent(&mut writer, long).await;
    assert!(answer["error"]["message"].as_str().unwrap().contains("extraSystemPrompt"), "{answer}");
    for (name, value) in [
        ("groupId", json!("g")),
        ("groupChannel", json!("g")),
        ("internalEvents", json!([{}])),
        ("channel", json!("telegram")),
        ("replyChannel", json!("slack")),
        ("deliver", json!(true)),
    ] {
        let mut params = json!({ "message": "x" });
        params[name] = value;
        let answer = agent(&mut writer, params).await;
        let said = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(said.contains(&format!("`{name}`")), "{name}: {answer}");
    }
    over(ground).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_says_it_is_no_persons_gives_no_orders() {
    let server = ModelServer::start(|_| Reply::text("heard").answer(WIRE));
    let ground = ground(&server).await;
    let mut admin = login(&ground, ALL).await;
    let from = json!({ "kind": "inter_session", "sourceSessionKey": "agent:x:main" });
    let params = json!({ "message": "/elevated full", "inputProvenance": from, "label": "side" });
    let answer = agent(&mut admin, params).await;
    assert_eq!(answer["payload"]["result"]["payloads"][0]["text"], "heard", "{answer}");
    let said = server.received()[0].body.to_string();
    assert!(
        said.contains("/elevated full") && said.contains("agent:x:main, not from a person"),
        "{said}"
    );
    over(ground).await;
}
