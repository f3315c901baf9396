//! Commands that end in the background, and the sessions that left them there.

use clawpen_engine::runner::{Ended, RunEvent, What};
use clawpen_tests::model_server::{ModelServer, Received, Reply, Wire};
use serde_json::{Value, json};

use crate::{Stage, done};

const WIRE: Wire = Wire::OpenAi;
/// What the model says when it is told.
const TOLD: &str = "so it has ended";

/// The last message of a person or a session, and the results that came after it.
fn last(received: &Received) -> (&str, &[Value]) {
    let messages = received.body["messages"].as_array().unwrap();
    let at = messages.iter().rposition(|message| message["role"] == "user").unwrap();
    let results = messages.iter().skip(at).position(|message| message["role"] == "tool");
    let results = results.map_or(&[][..], |first| &messages[at + first..]);
    (messages[at]["content"].as_str().unwrap(), results)
}

/// A model that leaves `command` in the background, then calls `process` with this action, if any. Told to leave
/// another, it leaves one that takes longer.
fn leaves(command: &'static str, action: Option<&'static str>) -> ModelServer {
    ModelServer::start(move |received| {
        let (said, results) = last(received);
        let command = match said {
            "build" => command,
            "another" => "sleep 2; echo later",
            _ => return Reply::text(TOLD).answer(WIRE),
        };
        match (results, action) {
            ([], _) => {
                let arguments = json!({ "command": command, "background": true });
                Reply::default().call("exec", arguments).answer(WIRE)
            }
            ([left], Some(action)) if said == "build" => {
                let left = left["content"].as_str().unwrap();
                let id = left.split("session ").nth(1).unwrap().split(',').next().unwrap();
                let arguments = json!({ "action": action, "sessionId": id, "timeout": 60_000 });
                Reply::default().call("process", arguments).answer(WIRE)
            }
            _ => Reply::text("left").answer(WIRE),
        }
    })
}

fn follow_up(event: &RunEvent) -> Option<String> {
    match &event.what {
        What::Ended(Ended::Done { text, .. }) if event.run.starts_with("exec-exit:") => {
            Some(text.clone())
        }
        _ => None,
    }
}

/// What the model was last told of an end.
fn told(server: &ModelServer) -> String {
    let asked = server.received();
    let (said, _) = last(asked.last().unwrap());
    said.to_owned()
}

#[test]
fn a_session_is_told_of_an_end_in_a_turn_of_its_own() {
    let server = leaves("echo built; exit 3", None);
    let stage = Stage::new(&server, WIRE, "");
    assert_eq!(done(stage.say("main", "build")), "left");
    assert_eq!(stage.event(follow_up), TOLD);
    let said = told(&server);
    assert!(said.starts_with("[Message from the command "), "{said}");
    assert!(said.contains("not from a person]\nExec completed ("), "{said}");
    assert!(said.ends_with(", code 3) :: built"), "{said}");
}

/// Of an end that is known nothing is said: a later one, that is told of, is the first that the model hears of.
#[test]
fn whoever_asked_or_ended_it_or_does_not_want_to_know_is_not_told() {
    for (command, action, later) in [
        ("echo built", Some("poll"), "main"),
        ("sleep 3600", Some("kill"), "main"),
        ("sleep 3600", Some("remove"), "main"),
        ("true", None, "main"),
        ("echo built", None, "agent:other:main"),
    ] {
        let server = leaves(command, action);
        let config = server.config(WIRE, "");
        let config = match later {
            "main" => config,
            _ => config.replace(
                "agents: { defaults:",
                "agents: { list: [{ id: 'main', default: true, \
                 tools: { exec: { notifyOnExit: false } } }, { id: 'other' }], defaults:",
            ),
        };
        let stage = Stage::with_config(&config);
        assert_eq!(done(stage.say("main", "build")), "left");
        assert_eq!(done(stage.say(later, "another")), "left");
        assert_eq!(stage.event(follow_up), TOLD);
        let said = told(&server);
        assert!(said.ends_with(", code 0) :: later"), "{command} {action:?}: {said}");
    }
}
