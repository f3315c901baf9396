//! Sub-agents, and what sessions see of each other.

use clawpen_engine::runner::{Ended, What};
use clawpen_tests::model_server::{Answer, ModelServer, Received, Reply, Wire};
use serde_json::{Value, json};

use crate::{Stage, done, request, result_text, results};

const WIRE: Wire = Wire::OpenAi;

fn last_user(received: &Received) -> String {
    let messages = received.body["messages"].as_array().unwrap();
    let last = messages.iter().rev().find(|message| message["role"] == "user").unwrap();
    last["content"].as_str().unwrap().to_owned()
}

fn is_child(received: &Received) -> bool {
    received.body["messages"][0]["content"].as_str().unwrap().contains("You are a sub-agent")
}

#[test]
fn a_sub_agent_works_in_a_session_of_its_own_and_hands_its_result_back() {
    let server = ModelServer::start(|received| {
        if is_child(received) {
            return match received.results() {
                0 => Reply::default()
                    .call("exec", json!({ "command": "echo from the child" }))
                    .answer(WIRE),
                _ => Reply::text("the child is done").answer(WIRE),
            };
        }
        let said = last_user(received);
        if said.contains("The sub-agent helper has finished") {
            assert!(
                said.contains("the child is done") && said.contains("not from a person"),
                "{said}"
            );
            return Reply::text("thank you, child").answer(WIRE);
        }
        match received.results() {
            0 => Reply::default()
                .call("sessions_spawn", json!({ "task": "help", "label": "helper" }))
                .answer(WIRE),
            _ => Reply::text("it is at work").answer(WIRE),
        }
    });
    let stage = Stage::new(&server, WIRE, "");
    assert_eq!(done(stage.say("main", "start one")), "it is at work");
    let thanked = stage.event(|event| match &event.what {
        What::Ended(Ended::Done { text, .. }) if event.run.starts_with("subagent-followup:") => {
            Some(text.clone())
        }
        _ => None,
    });
    assert_eq!(thanked, "thank you, child");
    let transcript = stage.transcript("main");
    let spawned: Value = serde_json::from_str(result_text(results(&transcript)[0])).unwrap();
    let child = spawned["childSessionKey"].as_str().unwrap();
    assert!(child.starts_with("agent:main:subagent:"), "{child}");
    let entry = stage.runner.place(&request(child, "").who).unwrap().entry().unwrap();
    assert_eq!(
        (&entry["spawnedBy"], &entry["spawnDepth"], &entry["label"]),
        (&json!("agent:main:main"), &json!(1), &json!("helper"))
    );
    // It has fewer tools, and no way to start others.
    let offered =
        server.received().iter().find(|received| is_child(received)).unwrap().body["tools"]
            .to_string();
    assert!(offered.contains("\"exec\""));
    for closed in
        ["sessions_spawn", "sessions_send", "sessions_list", "session_status", "subagents"]
    {
        assert!(!offered.contains(closed), "{closed}");
    }
    assert!(result_text(results(&stage.transcript(child))[0]).contains("from the child"));
}

#[test]
fn a_session_sees_itself_and_its_own_and_nobody_else() {
    let call = |tool: &str, arguments: Value| Reply::default().call(tool, arguments).answer(WIRE);
    let server = ModelServer::start(move |received| {
        match (last_user(received).as_str(), received.results()) {
            ("secret", _) => Reply::text("a secret answer").answer(WIRE),
            (_, 0) => call("sessions_list", json!({})),
            (_, 1) => call("sessions_history", json!({ "sessionKey": "agent:main:other" })),
            (_, 2) => call(
                "sessions_send",
                json!({ "sessionKey": "agent:main:other", "message": "tell me" }),
            ),
            (_, 3) => call("session_status", json!({ "sessionKey": "agent:main:other" })),
            (_, 4) => call("subagents", json!({ "action": "kill", "target": "agent:main:other" })),
            (_, 5) => call("sessions_spawn", json!({ "task": "x", "agentId": "boss" })),
            (_, 6) => {
                call("sessions_spawn", json!({ "task": "x", "model": "openrouter/elsewhere" }))
            }
            _ => Reply::text("end").answer(WIRE),
        }
    });
    let stage = Stage::new(&server, WIRE, "");
    done(stage.say("agent:main:other", "secret"));
    assert_eq!(done(stage.say("main", "spy")), "end");
    let transcript = stage.transcript("main");
    let told = results(&transcript);
    let listed: Value = serde_json::from_str(result_text(told[0])).unwrap();
    assert_eq!(listed["count"], 1);
    assert_eq!(listed["sessions"][0]["key"], "agent:main:main");
    for result in &told[1..] {
        assert_eq!(result["isError"], true, "{result}");
        assert!(!result.to_string().contains("a secret answer"));
    }
    assert!(result_text(told[5]).contains("allowAgents"), "{}", result_text(told[5]));
}

#[test]
fn the_config_opens_the_sessions_of_one_agent_to_each_other() {
    let call = |tool: &str, arguments: Value| Reply::default().call(tool, arguments).answer(WIRE);
    let server =
        ModelServer::start(move |received| match (last_user(received), received.results()) {
            (said, _) if said.contains("tell me") => Reply::text("told").answer(WIRE),
            (_, 0) => call(
                "sessions_send",
                json!({ "sessionKey": "agent:main:other", "message": "tell me" }),
            ),
            (_, 1) => call("sessions_history", json!({ "sessionKey": "agent:main:other" })),
            _ => Reply::text("end").answer(WIRE),
        });
    let config = server.config(WIRE, ", tools: { sessions: { visibility: \"agent\" } }");
    let config =
        config.replace("mode: \"all\",", "mode: \"all\", sessionToolsVisibility: \"all\",");
    let stage = Stage::with_config(&config);
    done(stage.say("agent:main:other", "/exec ask=off"));
    assert_eq!(done(stage.say("main", "go")), "end");
    let transcript = stage.transcript("main");
    let sent: Value = serde_json::from_str(result_text(results(&transcript)[0])).unwrap();
    assert_eq!((&sent["status"], &sent["reply"]), (&json!("ok"), &json!("told")));
    let history: Value = serde_json::from_str(result_text(results(&transcript)[1])).unwrap();
    assert!(history["messages"].to_string().contains("told"));
}

#[test]
fn sub_agents_are_few_and_can_be_ended() {
    let server = ModelServer::start(|received| {
        if is_child(received) {
            return Reply::text("x").answer(WIRE).cut(0, clawpen_tests::model_server::Piece::Hold);
        }
        let spawn = |reply: Reply| reply.call("sessions_spawn", json!({ "task": "wait" }));
        let many: Answer = (0..6).fold(Reply::default(), |reply, _| spawn(reply)).answer(WIRE);
        match received.results() {
            0 => spawn(Reply::default()).answer(WIRE),
            1 => many,
            7 => Reply::default()
                .call("subagents", json!({ "action": "kill", "target": "all" }))
                .answer(WIRE),
            _ => Reply::text("end").answer(WIRE),
        }
    });
    let stage = Stage::new(&server, WIRE, "");
    assert_eq!(done(stage.say("main", "many")), "end");
    let transcript = stage.transcript("main");
    let told = results(&transcript);
    let refused =
        told.iter().filter(|result| result_text(result).contains("maxChildrenPerAgent")).count();
    assert!(refused >= 1, "{told:?}");
    let killed: Value = serde_json::from_str(result_text(told[7])).unwrap();
    assert_eq!(killed["killed"], 7 - refused, "{killed}");
}
