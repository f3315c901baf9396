//! Models as their servers speak: whole and split answers, parallel calls, errors, slow and broken streams.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a test without its set-up cannot go on")]

use std::time::Duration;

use clawpen_engine::config_store::{self, Store};
use clawpen_engine::models::talk::{
    Call, Delta, Part, Piece as Said, Said as Message, StopReason, Success, Talk, Tool, ToolResult,
    Turn, Usage,
};
use clawpen_engine::models::{AskError, AskFailure, Client, HttpError, Keys, StreamError, Times};
use clawpen_rules::ids::AgentId;
use clawpen_rules::models;
use clawpen_tests::home::Home;
use clawpen_tests::model_server::{Answer, KEY, ModelServer, Piece, Reply, Wire};
use serde_json::json;

fn store(config: &str) -> (Home, Store) {
    let home = Home::with_config(config);
    let state = home.path(".openclaw");
    let store = config_store::open_in(state.to_str().unwrap()).unwrap();
    (home, store)
}

fn talk() -> Talk {
    let call = Call {
        id: "call_0".into(),
        name: "exec".into(),
        arguments: json!({ "command": "id" }),
        signature: None,
    };
    Talk {
        system: "You are in a pen.".into(),
        messages: vec![
            Message::User(vec![
                Part::Text("hello".into()),
                Part::Image { mime_type: "image/png".into(), data: "aGk=".into() },
            ]),
            Message::Assistant(vec![Said::Text("I look.".into()), Said::Call(call)]),
            Message::Result(ToolResult {
                call: "call_0".into(),
                tool: "exec".into(),
                content: vec![Part::Text("uid=1000".into())],
                success: Success::Yes,
            }),
        ],
        tools: vec![Tool {
            name: "exec".into(),
            description: "Runs".into(),
            schema: json!({ "type": "object" }),
        }],
    }
}

fn ask(server: &ModelServer, wire: Wire, times: Times) -> (Result<Turn, AskError>, Vec<Delta>) {
    let (_home, store) = store(&server.config(wire, ""));
    let model = models::decide(&store.loaded.config, &AgentId::main(), None).unwrap().model;
    let keys = Keys::find(&store, &model).unwrap();
    let mut deltas = Vec::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let client = Client { times };
    let turn =
        runtime.block_on(client.ask(&model, &keys, &talk(), &mut |delta| deltas.push(delta)));
    (turn, deltas)
}

#[test]
fn every_provider_streams_text_and_parallel_calls_split_anywhere() {
    let arguments = json!({ "command": "printf 'ä \"x\"'", "timeout": 5 });
    let reply = Reply { text: vec!["Let me ".into(), "see.".into()], calls: Vec::new() };
    let reply = reply.call("exec", arguments.clone()).call("read", json!({ "path": "a/b" }));
    for wire in Wire::ALL {
        let server = ModelServer::scripted(vec![reply.answer(wire)]);
        let (turn, deltas) = ask(&server, wire, Times::default());
        let turn = turn.unwrap();
        let text: Vec<Delta> =
            ["Let me ", "see."].map(|text| Delta::Text(text.to_owned())).to_vec();
        assert_eq!(deltas, text, "{wire:?}");
        assert_eq!(turn.text(), "Let me see.", "{wire:?}");
        let calls: Vec<_> =
            turn.calls().map(|call| (call.name.as_str(), call.arguments.clone())).collect();
        assert_eq!(
            calls,
            [("exec", arguments.clone()), ("read", json!({ "path": "a/b" }))],
            "{wire:?}"
        );
        let ids: Vec<&str> = turn.calls().map(|call| call.id.as_str()).collect();
        assert!(ids[0] != ids[1] && ids.iter().all(|id| !id.is_empty()), "{wire:?} {ids:?}");
        assert_eq!(turn.stop, StopReason::ToolUse, "{wire:?}");
        let expected = match wire {
            Wire::Ollama => Usage { input: 11, output: 7, ..Usage::default() },
            _ => Usage { input: 8, output: 7, cache_read: 3, cache_write: 0 },
        };
        assert_eq!(turn.usage, expected, "{wire:?}");
    }
}

#[test]
fn every_provider_gets_its_own_words_and_the_key_in_its_header_only() {
    for wire in Wire::ALL {
        let server = ModelServer::scripted(vec![Reply::text("ok").answer(wire)]);
        ask(&server, wire, Times::default()).0.unwrap();
        let sent = &server.received()[0];
        let (path, header, value) = match wire {
            Wire::OpenAi => ("/chat/completions", "authorization", format!("Bearer {KEY}")),
            Wire::Responses => ("/responses", "authorization", format!("Bearer {KEY}")),
            Wire::Anthropic => ("/v1/messages", "x-api-key", KEY.to_owned()),
            Wire::Gemini => {
                ("/models/m:streamGenerateContent?alt=sse", "x-goog-api-key", KEY.to_owned())
            }
            Wire::Ollama => ("/api/chat", "authorization", format!("Bearer {KEY}")),
        };
        assert_eq!(sent.path, path);
        assert_eq!(sent.header(header), Some(value.as_str()));
        assert!(!sent.body.to_string().contains(KEY));
        assert_eq!(sent.results(), 1, "{wire:?} {}", sent.body);
        for part in ["You are in a pen.", "hello", "aGk=", "I look.", "uid=1000", "\"exec\""] {
            assert!(sent.body.to_string().contains(part), "{wire:?} has no {part}: {}", sent.body);
        }
    }
}

#[test]
fn too_many_requests_are_asked_again_after_the_time_that_the_server_names() {
    for wire in Wire::ALL {
        let busy = Answer::error(429, "slow down").with_header("retry-after-ms", "20");
        let broken = Answer::error(503, "overloaded").with_header("retry-after", "0");
        let server = ModelServer::scripted(vec![busy, broken, Reply::text("at last").answer(wire)]);
        let (turn, _) = ask(&server, wire, Times::default());
        assert_eq!(turn.unwrap().text(), "at last", "{wire:?}");
        assert_eq!(server.received().len(), 3, "{wire:?}");
    }
}

#[test]
fn what_is_refused_for_good_is_said_without_the_key() {
    for wire in Wire::ALL {
        let server = ModelServer::scripted(vec![Answer::error(401, &format!("wrong key {KEY}"))]);
        let (turn, _) = ask(&server, wire, Times::default());
        let error = turn.unwrap_err();
        let AskFailure::Status { code: 401, words, .. } = &error.cause else { panic!("{error:?}") };
        assert_eq!(words, "wrong key ***");
        assert!(!format!("{error:?}").contains(KEY));
        assert_eq!(server.received().len(), 1, "{wire:?}");
    }
}

#[test]
fn an_answer_that_breaks_off_is_no_answer() {
    for wire in Wire::ALL {
        let reply = Reply { text: vec!["half".into(), " of it".into()], calls: Vec::new() };
        let whole = reply.call("exec", json!({ "command": "rm -rf /" })).answer(wire);
        // After its text, before its end: closed in order, and torn.
        let most = whole.pieces.len() * 2 / 3;
        for then in [Piece::Send(b"\n".to_vec()), Piece::Break] {
            let answer = whole.clone().cut(most, then);
            let server = ModelServer::scripted(vec![answer]);
            let (turn, _) = ask(&server, wire, Times::default());
            let cause = turn.unwrap_err().cause;
            let is_told = matches!(
                cause,
                AskFailure::Stream(StreamError::Broken | StreamError::Malformed { .. })
                    | AskFailure::Http(HttpError::Broke { .. })
            );
            assert!(is_told, "{wire:?} {cause:?}");
            // Something was shown: asking again would say it twice.
            assert_eq!(server.received().len(), 1, "{wire:?}");
        }
    }
}

#[test]
fn an_error_in_the_stream_and_noise_are_errors() {
    for wire in Wire::ALL {
        let prefix = if wire == Wire::Ollama { "" } else { "data: " };
        let text = |data: &str| Answer {
            status: 200,
            headers: Vec::new(),
            pieces: vec![Piece::Send(format!("{prefix}{data}\n\n").into_bytes())],
        };
        let server = ModelServer::scripted(vec![text("no json")]);
        let cause = ask(&server, wire, Times::default()).0.unwrap_err().cause;
        assert!(matches!(cause, AskFailure::Stream(StreamError::Malformed { .. })), "{cause:?}");
        let failing =
            text(r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#);
        let server = ModelServer::scripted(vec![failing, Reply::text("better").answer(wire)]);
        assert_eq!(ask(&server, wire, Times::default()).0.unwrap().text(), "better", "{wire:?}");
    }
}

#[test]
fn a_server_that_falls_silent_is_left() {
    let times = Times { idle: Duration::from_millis(50), ..Times::default() };
    for wire in Wire::ALL {
        let reply = Reply { text: vec!["one".into(), "two".into()], calls: Vec::new() };
        let server = ModelServer::scripted(vec![reply.answer(wire).cut(4, Piece::Hold)]);
        let cause = ask(&server, wire, times).0.unwrap_err().cause;
        assert!(matches!(cause, AskFailure::Http(HttpError::Late { .. })), "{cause:?}");
        server.wait_until_left(1);
    }
}

#[test]
fn a_stream_without_end_does_not_fill_the_memory() {
    let endless = vec![b'a'; 5 << 20];
    let server = ModelServer::scripted(vec![Answer {
        status: 200,
        headers: Vec::new(),
        pieces: vec![Piece::Send(endless)],
    }]);
    let cause = ask(&server, Wire::OpenAi, Times::default()).0.unwrap_err().cause;
    assert!(matches!(cause, AskFailure::Stream(StreamError::TooLarge { .. })), "{cause:?}");
}

#[test]
fn calls_without_a_number_are_kept_apart() {
    // As some compatible servers send them: whole, and no index.
    let call = |id: &str, name: &str| json!({ "id": id, "type": "function", "function": { "name": name, "arguments": "{}" } });
    let chunk = json!({ "choices": [{ "delta": { "tool_calls": [call("a", "read"), call("b", "exec")] }, "finish_reason": "tool_calls" }] });
    let server = ModelServer::scripted(vec![Answer {
        status: 200,
        headers: Vec::new(),
        pieces: vec![Piece::Send(format!("data: {chunk}\n\n").into_bytes())],
    }]);
    let turn = ask(&server, Wire::OpenAi, Times::default()).0.unwrap();
    let calls: Vec<_> = turn.calls().map(|call| (call.id.as_str(), call.name.as_str())).collect();
    assert_eq!(calls, [("a", "read"), ("b", "exec")]);
}

#[test]
fn keys_come_from_the_environment_or_a_file_that_is_ones_own() {
    use std::os::unix::fs::PermissionsExt as _;
    let config = |key: &str| {
        format!(
            "{{ secrets: {{ providers: {{ vault: {{ source: \"file\", path: \"~/keys.json\" }} }} }},
               models: {{ providers: {{ p: {{ baseUrl: \"http://127.0.0.1:1\", apiKey: {key} }} }} }},
               agents: {{ defaults: {{ model: \"p/m\" }} }} }}"
        )
    };
    let found = |home: &Home| {
        let store = config_store::open_in(home.path(".openclaw").to_str().unwrap()).unwrap();
        let model = models::decide(&store.loaded.config, &AgentId::main(), None).unwrap().model;
        Keys::find(&store, &model)
            .map(|keys| format!("{keys:?}"))
            .map_err(|error| error.to_string())
    };
    let file =
        Home::with_config(&config("{ source: \"file\", provider: \"vault\", id: \"/p/key\" }"))
            .with_file(".openclaw/keys.json", r#"{ "p": { "key": "sk-file" } }"#);
    // The state directory is the home here. Others may read it: refused, with the command that helps.
    let path = file.path(".openclaw/keys.json");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    assert!(found(&file).unwrap_err().contains("chmod 600"));
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(found(&file).unwrap(), "Keys(***)");
    let variable = Home::with_config("{ agents: { defaults: { model: \"openai/m\" } } }");
    assert!(found(&variable).unwrap_err().contains("OPENAI_API_KEY"));
    let variable = variable.with_file(".openclaw/.env", "OPENAI_API_KEY=sk-env\n");
    assert_eq!(found(&variable).unwrap(), "Keys(***)");
}
