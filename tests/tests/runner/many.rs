//! Many runs at once.

use std::collections::BTreeSet;
use std::sync::Mutex;

use clawpen_engine::runner::{Ended, StartStatus};
use clawpen_tests::model_server::{ModelServer, Piece, Reply, Wire};
use serde_json::json;

use crate::{LONG, Stage, done, request, result_text, results};

#[test]
fn a_hundred_sessions_call_tools_at_once() {
    let wire = Wire::OpenAi;
    let server = ModelServer::start(move |received| {
        let text = received.body["messages"].as_array().unwrap().iter().rev();
        let asked = text
            .filter(|message| message["role"] == "user")
            .find_map(|message| message["content"].as_str());
        let number = asked.unwrap_or_default().to_owned();
        match received.results() {
            0 => Reply::default()
                .call("exec", json!({ "command": format!("echo did {number}") }))
                .answer(wire),
            _ => Reply::text(&format!("said {number}")).answer(wire),
        }
    });
    let config = server.config(wire, "").replace("defaults: {", "defaults: { maxConcurrent: 100,");
    let stage = Stage::with_config(&config);
    let started: Vec<_> = (0..100)
        .map(|number| {
            let session = format!("agent:main:s{number}");
            (
                number,
                session.clone(),
                stage.runner.start(request(&session, &number.to_string())).unwrap(),
            )
        })
        .collect();
    for (number, session, started) in &started {
        let ended = stage.runner.wait_blocking(&started.run, LONG).unwrap();
        assert!(
            matches!(&ended, Ended::Done { text, .. } if *text == format!("said {number}")),
            "{ended:?}"
        );
        let transcript = stage.transcript(session);
        assert_eq!(result_text(results(&transcript)[0]).trim(), format!("did {number}"));
    }
    let audit = stage.home.run(&["audit", "--verify"]);
    assert_eq!(audit.code, Some(0), "{}", audit.stderr);
    let execs = stage.audit().iter().filter(|record| record["tool"] == "exec").count();
    assert!(execs >= 1);
}

#[test]
fn one_session_runs_one_thing_at_a_time_in_the_order_of_its_messages() {
    let wire = Wire::OpenAi;
    let inside: Mutex<BTreeSet<String>> = Mutex::default();
    let server = ModelServer::start(move |received| {
        let messages = received.body["messages"].as_array().unwrap();
        let users: Vec<String> = messages
            .iter()
            .filter(|message| message["role"] == "user")
            .map(|message| message["content"].as_str().unwrap().to_owned())
            .collect();
        inside.lock().unwrap().insert(users.join(","));
        Reply::text("ok").answer(wire)
    });
    let stage = Stage::new(&server, wire, "");
    let runs: Vec<_> = (0..5)
        .map(|number| stage.runner.start(request("main", &number.to_string())).unwrap())
        .collect();
    for run in &runs {
        stage.runner.wait_blocking(&run.run, LONG).unwrap();
    }
    // Each was asked after all those before it had been answered.
    for (index, received) in server.received().iter().enumerate() {
        let answers = received.body["messages"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|m| m["role"] == "assistant");
        assert_eq!(answers.count(), index);
    }
}

#[test]
fn the_same_message_twice_is_one_run() {
    let wire = Wire::OpenAi;
    let server = ModelServer::scripted(vec![Reply::text("x").answer(wire).cut(0, Piece::Hold)]);
    let stage = Stage::new(&server, wire, "");
    let mut request = request("main", "go");
    request.run = Some("key-1".into());
    assert_eq!(stage.runner.start(request.clone()).unwrap().status, StartStatus::Started);
    assert_eq!(stage.runner.start(request).unwrap().status, StartStatus::Known);
    server.wait_for(1);
    assert_eq!(done(stage.say("main", "/stop")), "Stopped.");
    assert_eq!(server.received().len(), 1);
}
