//! One run from the message to the last word.

use clawpen_engine::call::Attachment;
use clawpen_engine::models::talk::Usage;
use clawpen_engine::runner::{Ended, What};
use clawpen_rules::directives::Authority;
use clawpen_tests::model_server::{Answer, KEY, ModelServer, Reply, Wire};
use serde_json::{Value, json};

use crate::{Stage, done, request, result_text, results};

#[test]
fn every_providers_calls_land_in_a_sandbox_and_in_the_audit_chain() {
    let own = std::fs::read_link("/proc/self/ns/pid").unwrap();
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    for wire in Wire::ALL {
        let canary = tempfile::NamedTempFile::new_in("/var/tmp").unwrap();
        std::fs::write(canary.path(), "untouched").unwrap();
        let command = format!(
            "readlink /proc/self/ns/pid; cat /proc/sys/kernel/hostname; pwd; echo gone > {} 2>&1; echo $?",
            canary.path().display()
        );
        let server = ModelServer::scripted(vec![
            Reply::text("I look.").call("exec", json!({ "command": command })).answer(wire),
            Reply::text("Done.").answer(wire),
        ]);
        let stage = Stage::new(&server, wire, "");
        let ended = stage.say("main", "where are you?");
        let Ended::Done { text, usage, .. } = ended else { panic!("{wire:?} {ended:?}") };
        assert_eq!(text, "I look.Done.", "{wire:?}");
        let expected = match wire {
            Wire::Ollama => Usage { input: 22, output: 14, ..Usage::default() },
            _ => Usage { input: 16, output: 14, cache_read: 6, cache_write: 0 },
        };
        assert_eq!(usage, expected, "{wire:?}");
        let transcript = stage.transcript("main");
        let seen = result_text(results(&transcript)[0]).to_owned();
        let lines: Vec<&str> = seen.lines().collect();
        assert_ne!(lines[0], own.to_str().unwrap(), "{wire:?} {seen}");
        assert_ne!(lines[1], host.trim(), "{wire:?} {seen}");
        assert_eq!(std::fs::read_to_string(canary.path()).unwrap(), "untouched");
        // The model is told where it is, and that is so.
        let told = server.received()[0].body.to_string();
        assert!(told.contains(&format!("The working directory is `{}`", lines[2])), "{told}");
        assert!(told.contains("There is no network in it."), "{told}");
        // And it got back what the command said.
        assert!(server.received()[1].body.to_string().contains(lines[0]), "{wire:?}");
        let audit = stage.audit();
        let tools: Vec<&str> = audit.iter().filter_map(|record| record["tool"].as_str()).collect();
        assert!(tools.contains(&"exec"), "{tools:?}");
        assert!(stage.home.run(&["audit", "--verify"]).code == Some(0));
    }
}

#[test]
fn a_transcript_is_as_the_reference_writes_it() {
    let wire = Wire::OpenAi;
    let server = ModelServer::scripted(vec![
        Reply::text("I run it.").call("exec", json!({ "command": "echo hi" })).answer(wire),
        Reply::text("It said hi.").answer(wire),
    ]);
    let stage = Stage::new(&server, wire, "");
    done(stage.say("main", "say hi"));
    let transcript = stage.transcript("main");
    let kinds: Vec<&str> = transcript.iter().map(|line| line["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["session", "message", "message", "message", "message"]);
    assert_eq!(transcript[0]["version"], 3);
    let roles: Vec<&Value> = transcript[1..].iter().map(|line| &line["message"]["role"]).collect();
    assert_eq!(roles, ["user", "assistant", "toolResult", "assistant"]);
    for (line, next) in transcript[1..].iter().zip(&transcript[2..]) {
        assert_eq!(next["parentId"], line["id"]);
    }
    let assistant = &transcript[2]["message"];
    assert_eq!(
        assistant["content"],
        json!([
            { "type": "text", "text": "I run it." },
            { "type": "toolCall", "id": "call_1", "name": "exec", "arguments": { "command": "echo hi" } },
        ])
    );
    assert_eq!(assistant["stopReason"], "toolUse");
    assert_eq!(assistant["provider"], "mock");
    assert_eq!(assistant["usage"]["totalTokens"], 18);
    let result = &transcript[3]["message"];
    assert_eq!(result["toolCallId"], "call_1");
    assert_eq!(result["toolName"], "exec");
    assert_eq!(result["isError"], false);
    assert_eq!(result["details"]["exitCode"], 0);
    let store =
        std::fs::read_to_string(stage.home.path(".openclaw/agents/main/sessions/sessions.json"))
            .unwrap();
    let store: Value = serde_json::from_str(&store).unwrap();
    let entry = &store["agent:main:main"];
    assert_eq!(entry["status"], "done");
    assert_eq!(entry["model"], "m");
    assert_eq!(entry["totalTokens"], 11);
    assert_eq!(entry["abortedLastRun"], false);
}

#[test]
fn events_come_in_order_and_without_holes() {
    let wire = Wire::Anthropic;
    let server = ModelServer::scripted(vec![
        Reply::text("one").call("exec", json!({ "command": "true" })).answer(wire),
        Reply::text("two").answer(wire),
    ]);
    let stage = Stage::new(&server, wire, "");
    let started = stage.runner.start(request("main", "go")).unwrap();
    let mut kinds = Vec::new();
    for expected in 1.. {
        let event = stage.events.recv_timeout(crate::LONG).unwrap();
        assert_eq!((event.run.as_str(), event.seq), (started.run.as_str(), expected));
        kinds.push(match &event.what {
            What::Started => "started",
            What::Text(_) => "text",
            What::ToolStarted { .. } => "tool",
            What::ToolEnded { .. } => "result",
            What::Ended(_) => "ended",
            other => panic!("{other:?}"),
        });
        if matches!(event.what, What::Ended(_)) {
            break;
        }
    }
    assert_eq!(kinds, ["started", "text", "tool", "result", "text", "ended"]);
}

#[test]
fn calls_of_one_answer_run_at_the_same_time() {
    // Each waits for what the other makes.
    let wait = |own: &str, other: &str| json!({ "command": format!("touch {own}; while [ ! -e {other} ]; do sleep 0.02; done; echo met") });
    let wire = Wire::Gemini;
    let server = ModelServer::scripted(vec![
        Reply::default().call("exec", wait("a", "b")).call("exec", wait("b", "a")).answer(wire),
        Reply::text("both").answer(wire),
    ]);
    let stage = Stage::new(&server, wire, "");
    assert_eq!(done(stage.say("main", "go")), "both");
    let transcript = stage.transcript("main");
    let texts: Vec<&str> =
        results(&transcript).into_iter().map(|result| result_text(result).trim()).collect();
    assert_eq!(texts, ["met", "met"]);
}

#[test]
fn what_was_said_before_is_said_again_to_the_model() {
    let wire = Wire::OpenAi;
    let server = ModelServer::scripted(vec![
        Reply::text("first").answer(wire),
        Reply::text("second").answer(wire),
    ]);
    let stage = Stage::new(&server, wire, "");
    done(stage.say("main", "question one"));
    done(stage.say("main", "question two"));
    let messages = server.received()[1].body["messages"].clone();
    let said: Vec<&str> = messages
        .as_array()
        .unwrap()
        .iter()
        .skip(1)
        .map(|m| m["content"].as_str().unwrap())
        .collect();
    assert_eq!(said, ["question one", "first", "question two"]);
}

#[test]
fn without_a_model_the_message_says_what_to_write_and_all_else_works() {
    let stage = Stage::with_config(
        "{ agents: { defaults: { sandbox: { mode: \"all\", backend: \"native\" } } } }",
    );
    let Ended::Failed { error } = stage.say("main", "hello") else { panic!("no failure") };
    assert!(error.contains("agents.defaults.model.primary"), "{error}");
    assert!(done(stage.say("main", "/status")).contains("session: agent:main:main"));
    assert_eq!(stage.home.run(&["exec", "--", "true"]).code, Some(0));
}

#[test]
fn a_fallback_is_asked_when_the_first_model_fails_for_good() {
    let wire = Wire::OpenAi;
    let server = ModelServer::start(move |received| match received.body["model"].as_str() {
        Some("m") => Answer::error(400, "no such model"),
        _ => Reply::text("from the other").answer(wire),
    });
    let config = server
        .config(wire, "")
        .replace("primary: \"mock/m\"", "primary: \"mock/m\", fallbacks: [\"mock/n\"]");
    let stage = Stage::with_config(&config);
    assert_eq!(done(stage.say("main", "go")), "from the other");
}

#[test]
fn a_model_that_fails_leaves_a_whole_transcript_and_no_key() {
    let wire = Wire::Anthropic;
    let server = ModelServer::scripted(vec![
        Answer::error(403, &format!("bad {KEY}")),
        Reply::text("ok").answer(wire),
    ]);
    let stage = Stage::new(&server, wire, "");
    let Ended::Failed { error } = stage.say("main", "one") else { panic!("no failure") };
    assert!(error.contains("403") && !error.contains(KEY), "{error}");
    assert_eq!(done(stage.say("main", "two")), "ok");
    assert_eq!(stage.transcript("main")[2]["message"]["stopReason"], "error");
}

#[test]
fn a_talk_that_is_too_long_is_summed_up() {
    let wire = Wire::OpenAi;
    let server = ModelServer::start(move |received| {
        let is_summary = received.body.to_string().contains("Sum this conversation up");
        Reply::text(if is_summary { "THE SUMMARY" } else { "noted" }).answer(wire)
    });
    let config = server.config(wire, "").replace("contextWindow: 100000", "contextWindow: 12000");
    let stage = Stage::with_config(&config);
    for round in 0..4 {
        assert_eq!(
            done(stage.say("main", &format!("round {round} {}", "word ".repeat(2000)))),
            "noted"
        );
    }
    let transcript = stage.transcript("main");
    let compaction = transcript.iter().find(|line| line["type"] == "compaction").unwrap();
    assert_eq!(compaction["summary"], "THE SUMMARY");
    let last = server.received().last().unwrap().body.to_string();
    assert!(last.contains("THE SUMMARY") && !last.contains("round 0"));
    // Asked for by hand as well.
    assert_eq!(done(stage.say("main", "/compact")), "What was said before is summed up.");
}

#[test]
fn attachments_are_in_the_workspace_and_images_are_shown() {
    let wire = Wire::OpenAi;
    let server = ModelServer::scripted(vec![
        Reply::default()
            .call("exec", json!({ "command": "cat media/inbound/note.txt" }))
            .answer(wire),
        Reply::text("read").answer(wire),
    ]);
    let stage = Stage::new(&server, wire, "");
    let mut request = request("main", "look");
    request.attachments = vec![
        Attachment {
            name: "note.txt".into(),
            mime_type: "text/plain".into(),
            bytes: b"the note".to_vec(),
        },
        Attachment {
            name: "dot.png".into(),
            mime_type: "image/png".into(),
            bytes: b"\x89PNG\r\n\x1a\n".to_vec(),
        },
        // A name is no proof, and a server refuses a talk with an image that is none.
        Attachment {
            name: "text.png".into(),
            mime_type: "image/png".into(),
            bytes: b"text".to_vec(),
        },
        Attachment { name: "big".into(), mime_type: "text/plain".into(), bytes: vec![0; 6 << 20] },
    ];
    assert_eq!(done(stage.send(request)), "read");
    let transcript = stage.transcript("main");
    assert_eq!(result_text(results(&transcript)[0]).trim(), "the note");
    let sent = server.received()[0].body.to_string();
    assert!(sent.contains("[Attached file: media/inbound/note.txt (text/plain)]"), "{sent}");
    assert!(sent.contains("data:image/png;base64,iVBORw0KGgo="), "{sent}");
    assert_eq!(sent.matches("base64,").count(), 1, "{sent}");
    assert!(sent.contains("The attached file big is not here"), "{sent}");
}

#[test]
fn directives_are_for_people_who_may_give_them() {
    let wire = Wire::OpenAi;
    let server = ModelServer::scripted(vec![Reply::text("hi").answer(wire)]);
    let stage = Stage::new(&server, wire, "");
    done(stage.say("main", "hello"));
    let mut writer = request("main", "/exec security=full host=gateway");
    writer.authority = Authority::Writer;
    assert!(done(stage.send(writer)).contains("operator.admin"));
    let place = stage.runner.place(&request("main", "").who).unwrap();
    assert_eq!(place.entry().unwrap().get("execSecurity"), None);
    let set = done(stage.say("main", "/exec security=deny ask=always"));
    assert_eq!(set, "exec: host as configured, security deny, ask always.");
    let entry = place.entry().unwrap();
    assert_eq!((&entry["execSecurity"], &entry["execAsk"]), (&json!("deny"), &json!("always")));
    // Nobody is on the list, so nobody is let out.
    assert!(done(stage.say("main", "/elevated full")).contains("tools.elevated.allowFrom.cli"));
    assert_eq!(place.entry().unwrap().get("elevatedLevel"), None);
    let old = entry["sessionId"].clone();
    done(stage.say("main", "/new"));
    let entry = place.entry().unwrap();
    assert_ne!(entry["sessionId"], old);
    assert_eq!(entry["execSecurity"], "deny");
    // None of this asked a model.
    assert_eq!(server.received().len(), 1);
    let kept = std::fs::read_dir(stage.home.path(".openclaw/agents/main/sessions")).unwrap();
    let names: Vec<String> =
        kept.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert!(names.iter().any(|name| name.contains(".jsonl.reset.")), "{names:?}");
}
