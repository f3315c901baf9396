//! `/v1/responses`: a message to an agent, in the shapes of `OpenAI`'s newer API, and what is refused by name.

use std::time::Duration;

use clawpen_tests::model_server::{ModelServer, Piece, Reply};
use clawpen_tests::replay::gateway_frames::client::http;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use super::chat::{WIRE, config, over};
use super::{Ground, TOKEN};

async fn ground(server: &ModelServer, more: &str) -> Ground {
    let door = format!("http: {{endpoints: {{responses: {{enabled: true{more}}}}}}}");
    let agents = config(server, "");
    Ground::of(&format!(
        "{{gateway: {{mode: 'local', auth: {{token: '{TOKEN}'}}, {door}}}, {agents}}}"
    ))
    .await
}

fn request(path: &str, body: &Value) -> Value {
    json!({ "method": "POST", "path": path, "body": body.to_string(), "headers": {
        "Authorization": format!("Bearer {TOKEN}"), "x-openclaw-scopes": "operator.write" } })
}

async fn ask(ground: &Ground, body: Value) -> Value {
    http(ground.address(), &request("/v1/responses", &body)).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_response_is_an_agents_answer_and_can_be_gone_on_from() {
    let server = ModelServer::start(|_| Reply::text("Hello there.").answer(WIRE));
    let ground = ground(&server, "").await;
    let first = ask(
        &ground,
        json!({ "model": "openclaw", "input": "hi", "instructions": "Be brief.", "max_output_tokens": 9 }),
    )
    .await;
    let body = &first["body"];
    assert_eq!(
        (&first["status"], &body["object"], &body["status"]),
        (&json!(200), &json!("response"), &json!("completed")),
        "{first}"
    );
    assert_eq!(body["output"][0]["content"][0]["text"], "Hello there.");
    assert!(body["usage"]["total_tokens"].as_u64().unwrap() > 0, "{first}");
    assert!(server.received()[0].body.to_string().contains("Be brief."));
    let next = json!({ "model": "openclaw", "input": "more", "previous_response_id": body["id"] });
    assert_eq!(ask(&ground, next.clone()).await["status"], 200);
    let told = server.received()[1].body.to_string();
    assert!(told.contains("Hello there.") && !told.contains("Be brief."), "{told}");
    // Somebody else does not go on from it, and neither does anybody from one that never was.
    let mut other = next.clone();
    other["user"] = json!("eve");
    let mut guess = next;
    guess["previous_response_id"] = json!("resp_0");
    for body in [other, guess] {
        let answer = ask(&ground, body).await;
        assert_eq!(answer["status"], 400, "{answer}");
        assert!(answer.to_string().contains("previous_response_id"), "{answer}");
    }
    over(ground).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_streamed_response_tells_its_events_in_order() {
    let server = ModelServer::start(|_| Reply::text("Hello there.").answer(WIRE));
    let ground = ground(&server, "").await;
    let body = json!({ "model": "openclaw/main", "stream": true,
        "input": [{ "type": "message", "role": "user", "content": [{ "type": "input_text", "text": "hi" }] }] });
    let answer = ask(&ground, body).await;
    let text = answer["body"].as_str().unwrap();
    let events: Vec<Value> = text
        .lines()
        .filter_map(|line| serde_json::from_str(line.strip_prefix("data: ")?).ok())
        .collect();
    let mut names: Vec<&str> = events.iter().filter_map(|event| event["type"].as_str()).collect();
    names.dedup();
    assert_eq!(
        names,
        [
            "response.created",
            "response.in_progress",
            "response.output_item.added",
            "response.content_part.added",
            "response.output_text.delta",
            "response.output_text.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.completed",
        ],
        "{text}"
    );
    let pieces: String = events.iter().filter_map(|event| event["delta"].as_str()).collect();
    assert_eq!(pieces, "Hello there.");
    assert_eq!(
        events.last().unwrap()["response"]["output"][0]["content"][0]["text"],
        "Hello there."
    );
    assert!(text.contains("data: [DONE]"), "{text}");
    over(ground).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_fails_is_a_failed_response() {
    use clawpen_tests::model_server::Answer;
    let server = ModelServer::start(|_| Answer::error(400, "no such model"));
    let ground = ground(&server, "").await;
    let answer = ask(&ground, json!({ "model": "openclaw", "input": "hi" })).await;
    assert_eq!(
        (&answer["status"], &answer["body"]["status"]),
        (&json!(500), &json!("failed")),
        "{answer}"
    );
    let answer = ask(&ground, json!({ "model": "openclaw", "input": "hi", "stream": true })).await;
    let text = answer["body"].as_str().unwrap();
    assert!(text.contains("response.failed") && text.contains("data: [DONE]"), "{text}");
    over(ground).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_response_cannot_do_is_refused_by_name() {
    let server = ModelServer::start(|_| Reply::text("x").answer(WIRE));
    let ground = ground(&server, ", maxBodyBytes: 5000").await;
    let image = |url: &str| json!([{ "role": "user", "content": [{ "type": "input_image", "image_url": url }] }]);
    for (more, expected) in [
        (json!({}), "Missing user message"),
        (json!({ "input": "x", "tools": [{ "type": "function", "name": "f" }] }), "`tools`"),
        (json!({ "input": "x", "tool_choice": "required" }), "`tool_choice`"),
        (json!({ "input": image("http://169.254.169.254/x.png") }), "`input[0].content[0]`"),
        (
            json!({ "input": [{ "type": "function_call_output", "call_id": "c", "output": "y" }] }),
            "`input[0]`",
        ),
        (json!({ "input": "x", "instructions": 7 }), "`instructions`"),
        (json!({ "input": "x", "previous_response_id": {} }), "`previous_response_id`"),
        (json!({ "input": "x", "model": "gpt-9" }), "Invalid `model`"),
    ] {
        let mut body = json!({ "model": "openclaw" });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let answer = ask(&ground, body).await;
        let said = answer["body"]["error"]["message"].as_str().unwrap_or_default();
        assert!(answer["status"] == 400 && said.contains(expected), "{more}: {answer}");
    }
    let large = json!({ "model": "openclaw", "input": "x".repeat(6000) });
    assert_eq!(ask(&ground, large).await["status"], 413);
    let hi = json!({ "model": "openclaw", "input": "hi" });
    let mut chosen = request("/v1/responses", &hi);
    chosen["headers"]["x-openclaw-model"] = json!("mock/other");
    let answer = http(ground.address(), &chosen).await.unwrap();
    assert!(answer["status"] == 400 && answer.to_string().contains("x-openclaw-model"), "{answer}");
    let mut unscoped = request("/v1/responses", &hi);
    unscoped["headers"]["x-openclaw-scopes"] = json!("operator.read");
    assert_eq!(http(ground.address(), &unscoped).await.unwrap()["status"], 403);
    unscoped["headers"] = json!({});
    assert_eq!(http(ground.address(), &unscoped).await.unwrap()["status"], 401);
    let numbers = json!({ "model": "openclaw", "input": ["x"] });
    let answer = http(ground.address(), &request("/v1/embeddings", &numbers)).await.unwrap();
    assert_eq!(
        (&answer["status"], &answer["body"]["error"]["code"]),
        (&json!(400), &json!("embeddings_not_available"))
    );
    // One switch opens one of the two.
    let chat = request("/v1/chat/completions", &hi);
    assert_eq!(http(ground.address(), &chat).await.unwrap()["status"], 404);
    assert!(server.received().is_empty());
    over(ground).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_leaves_at_once_leaves_no_run_behind() {
    let server = ModelServer::start(|received| {
        if received.body.to_string().contains("gone by then") {
            Reply::text("I think").answer(WIRE).cut(1, Piece::Hold)
        } else {
            Reply::text("heard").answer(WIRE)
        }
    });
    let ground = ground(&server, "").await;
    let body = json!({ "model": "openclaw", "input": "gone by then", "stream": true }).to_string();
    let head = format!(
        "POST /v1/responses HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\
         x-openclaw-scopes: operator.write\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    // Before the run is known, while it is made known, and after that: far more than there are places to run.
    for number in 0..60 {
        let mut stream = TcpStream::connect(ground.address()).await.unwrap();
        stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
        tokio::time::sleep(Duration::from_micros(number * 200)).await;
        drop(stream);
    }
    let answer = ask(&ground, json!({ "model": "openclaw", "input": "hi" })).await;
    assert_eq!(answer["status"], 200, "{answer}");
    over(ground).await;
}
