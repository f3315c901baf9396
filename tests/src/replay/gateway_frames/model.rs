//! Stands in for the model that the recordings asked: the same words at the same pace.

use std::time::Duration;

use serde_json::{Value, json};

use crate::model_server::{Answer, ModelServer, Piece, Received};

const PACE: Duration = Duration::from_millis(60);
const SLOW: Duration = Duration::from_millis(600);
/// A model takes a while to write a call down.
const BEFORE_CALL: Duration = Duration::from_millis(200);
const HELLO: &str = "Hello from the mock model. This is a streamed reply.";
const NUMBERS: &str = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen";

pub(super) fn start() -> ModelServer {
    ModelServer::start(answer)
}

fn answer(asked: &Received) -> Answer {
    let messages = asked.body["messages"].as_array();
    let last = messages.and_then(|messages| messages.last()).cloned().unwrap_or_default();
    let said = text(&last["content"]);
    if last["role"] == "tool" {
        return spoken(&format!("Tool said: {said}"), PACE);
    }
    if said.contains("Exec finished") || said.contains("Exec denied") {
        // The recorded gateway lost this turn.
        return spoken("Noted.", PACE);
    }
    if said.contains("FAILME") {
        return Answer::error(400, "mock failure: bad request");
    }
    if let Some((_, command)) = said.split_once("RUN: ") {
        return call(command);
    }
    if said.contains("SLOW") { spoken(NUMBERS, SLOW) } else { spoken(HELLO, PACE) }
}

fn text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            parts.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

fn event(delta: Value, finish: Value) -> Piece {
    let choice = json!({ "index": 0, "delta": delta, "finish_reason": finish });
    send(&json!({ "id": "chatcmpl-x", "object": "chat.completion.chunk", "choices": [choice] }))
}

fn send(event: &Value) -> Piece {
    Piece::Send(format!("data: {event}\n\n").into_bytes())
}

fn ended(mut pieces: Vec<Piece>, finish: &str, (input, output): (u64, u64)) -> Answer {
    pieces.push(event(json!({}), json!(finish)));
    let usage = json!({ "prompt_tokens": input, "completion_tokens": output });
    pieces.push(send(&json!({ "id": "chatcmpl-x", "choices": [], "usage": usage })));
    pieces.push(Piece::Send(b"data: [DONE]\n\n".to_vec()));
    Answer { status: 200, headers: Vec::new(), pieces }
}

/// Says something word by word.
fn spoken(words: &str, pace: Duration) -> Answer {
    let mut pieces = Vec::new();
    for (index, word) in words.split_whitespace().enumerate() {
        let word = if index == 0 { word.to_owned() } else { format!(" {word}") };
        pieces.push(event(json!({ "content": word }), Value::Null));
        pieces.push(Piece::Pause(pace));
    }
    ended(pieces, "stop", (12, 9))
}

/// Says that it runs a command, and calls for it.
fn call(command: &str) -> Answer {
    let arguments = json!({ "command": command }).to_string();
    let call = json!({ "index": 0, "id": "call_1", "type": "function",
                       "function": { "name": "exec", "arguments": arguments } });
    let pieces = vec![
        event(json!({ "content": "I will run it." }), Value::Null),
        Piece::Pause(BEFORE_CALL),
        event(json!({ "tool_calls": [call] }), Value::Null),
    ];
    ended(pieces, "tool_calls", (10, 5))
}
