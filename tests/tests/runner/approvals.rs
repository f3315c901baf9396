//! A person must agree: the run goes on at once, and what came of the command is told later.

use clawpen_engine::runner::{Answers, Approvals, Ended, What};
use clawpen_tests::model_server::{ModelServer, Reply, Wire};
use serde_json::{Value, json};

use crate::{Stage, done, request, results};

const WIRE: Wire = Wire::OpenAi;

/// Has the model call `touch canary` where the config sends commands to the host; gives the approval's id.
fn asked() -> (Stage, ModelServer, String) {
    let server = ModelServer::start(|received| {
        let said = received.body["messages"].as_array().unwrap().last().unwrap().clone();
        match said["content"].as_str().unwrap_or_default() {
            text if text.contains("Exec finished") => Reply::text("it ran").answer(WIRE),
            text if text.contains("Exec denied") => Reply::text("it did not run").answer(WIRE),
            _ if received.results() == 0 => {
                Reply::default().call("exec", json!({ "command": "touch canary" })).answer(WIRE)
            }
            _ => Reply::text("I wait").answer(WIRE),
        }
    });
    let stage = Stage::new(&server, WIRE, ", tools: { exec: { host: \"gateway\" } }");
    std::fs::create_dir_all(stage.home.path(".openclaw/.openclaw/workspace")).unwrap();
    std::fs::create_dir_all(stage.home.path(".openclaw/workspace")).unwrap();
    let mut message = request("main", "touch it");
    message.approvals = Approvals::FollowUp;
    // What it says to the question is kept, and not told beside it.
    assert_eq!(done(stage.send(message)), "");
    let transcript = stage.transcript("main");
    let last = &transcript.last().unwrap()["message"];
    assert_eq!(last["content"][0]["text"], "I wait");
    let details = results(&transcript)[0]["details"].clone();
    assert_eq!(details["status"], "approval-pending", "{details}");
    assert_eq!(results(&transcript)[0]["isError"], false);
    let id = details["approvalId"].as_str().unwrap().to_owned();
    (stage, server, id)
}

fn answer(stage: &Stage, id: &str, word: &str) -> (String, String) {
    let mut message = request("main", &format!("/approve {id} {word}"));
    message.answers = Answers::PersonHere;
    let reply = done(stage.send(message));
    let told = stage.event(|event| match &event.what {
        What::Ended(Ended::Done { text, .. })
            if event.run == format!("exec-approval-followup:{id}") =>
        {
            Some(text.clone())
        }
        _ => None,
    });
    (reply, told)
}

#[test]
fn what_a_person_allows_runs_and_the_session_is_told_in_a_turn_of_its_own() {
    let (stage, server, id) = asked();
    let (reply, told) = answer(&stage, &id, "allow-once");
    assert!(reply.starts_with("allow-once"), "{reply}");
    assert_eq!(told, "it ran");
    // The model was told the truth about where its commands go.
    let system = server.received()[0].body["messages"][0]["content"].as_str().unwrap().to_owned();
    assert!(
        system.contains("sent out of it") && !system.contains("No command of yours leaves it"),
        "{system}"
    );
    let transcript = stage.transcript("main");
    let last_user: Vec<&Value> =
        transcript.iter().filter(|line| line["message"]["role"] == "user").collect();
    assert!(last_user[1].to_string().contains("not from a person"));
}

#[test]
fn what_a_person_denies_does_not_run_and_the_session_is_told() {
    let (stage, _server, id) = asked();
    let (reply, told) = answer(&stage, &id, "deny");
    assert!(reply.starts_with("deny"), "{reply}");
    assert_eq!(told, "it did not run");
    let found = std::process::Command::new("find")
        .arg(stage.home.path(""))
        .args(["-name", "canary"])
        .output()
        .unwrap();
    assert!(found.stdout.is_empty());
}
