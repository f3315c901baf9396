//! `clawpen chat` through the real binary.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use clawpen_tests::home::{Home, Run};
use clawpen_tests::model_server::{KEY, ModelServer, Reply, Wire};
use serde_json::{Value, json};

fn talk(wire: Wire) -> ModelServer {
    ModelServer::scripted(vec![
        Reply::text("I look.\x1b[2J").call("exec", json!({ "command": "echo hi" })).answer(wire),
        Reply::text("It says hi.").answer(wire),
    ])
}

#[test]
fn one_message_prints_its_answer_and_nothing_that_steers_the_terminal() {
    for wire in Wire::ALL {
        let server = talk(wire);
        let home = Home::with_config(&server.config(wire, ""));
        let run = home.run(&["chat", "--message", "go"]);
        assert_eq!(
            (run.code, run.stdout.as_str()),
            (Some(0), "I look.\\u{1b}[2J\nIt says hi.\n"),
            "{}",
            run.stderr
        );
        assert!(
            run.stderr.contains("[exec] echo hi") && run.stderr.contains("ok: hi"),
            "{}",
            run.stderr
        );
    }
}

#[test]
fn one_message_as_json_says_what_was_done() {
    let server = talk(Wire::Anthropic);
    let home = Home::with_config(&server.config(Wire::Anthropic, ""));
    let run = home.run(&["chat", "--json", "--message", "go", "--session", "side"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let said = run.json();
    assert_eq!(said["status"], "ok");
    assert_eq!(said["sessionKey"], "agent:main:side");
    assert_eq!(said["usage"]["totalTokens"], 36);
    assert_eq!(
        said["tools"],
        json!([{ "id": "call_1", "name": "exec", "isError": false, "status": "completed", "exitCode": 0 }])
    );
    let history =
        home.run(&["chat", "--session", "side", "--history", "10", "--message", "/status"]);
    assert!(
        history.stderr.contains("you: go") && history.stderr.contains("agent: I look."),
        "{}",
        history.stderr
    );
    assert!(history.stdout.contains("model: mock/m"), "{}", history.stdout);
}

#[test]
fn without_a_model_or_with_a_bad_key_the_exit_code_tells() {
    let home = Home::new();
    let run = home.run(&["chat", "--message", "hi"]);
    assert_eq!(run.code, Some(1));
    assert!(run.stderr.contains("agents.defaults.model.primary"), "{}", run.stderr);
    let server = ModelServer::scripted(vec![clawpen_tests::model_server::Answer::error(
        401,
        &format!("bad key {KEY}"),
    )]);
    let home = Home::with_config(&server.config(Wire::OpenAi, ""));
    let run = home.run(&["chat", "--message", "hi", "--json"]);
    assert_eq!((run.code, run.json()["status"].as_str()), (Some(1), Some("error")));
    assert!(!run.stdout.contains(KEY) && !run.stderr.contains(KEY));
    // What stands in the config for a variable that nobody has set is no key.
    let server = ModelServer::scripted(Vec::new());
    let home = Home::with_config(&server.config(Wire::OpenAi, "").replace(KEY, "${NOBODY_SET_IT}"));
    let run = home.run(&["chat", "--message", "hi"]);
    assert_eq!(run.code, Some(1));
    assert!(run.stderr.contains("variable `NOBODY_SET_IT`, which is not set"), "{}", run.stderr);
    assert!(server.received().is_empty());
}

#[test]
fn lines_are_messages_and_files_go_along() {
    let wire = Wire::OpenAi;
    let server = ModelServer::scripted(vec![
        Reply::text("one").answer(wire),
        Reply::text("two").answer(wire),
    ]);
    let home = Home::with_config(&server.config(wire, "")).with_file("note.txt", "text");
    let mut child = home
        .command(&["chat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let path = home.path("note.txt");
    let mut input = child.stdin.take().unwrap();
    write!(input, "hello\n/attach {}\nsecond\n/quit\n", path.display()).unwrap();
    let done = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(done.stdout).unwrap(), "one\ntwo\n");
    assert!(server.received()[1].body.to_string().contains("media/inbound/note.txt"));
}

#[test]
fn killed_in_the_middle_the_transcript_is_whole_and_the_sandbox_is_still_there() {
    let wire = Wire::OpenAi;
    let server = ModelServer::start(move |received| {
        let said = received.body.to_string();
        if said.contains("after the kill") {
            assert!(said.contains("The call was interrupted"), "{said}");
            return Reply::text("I go on").answer(wire);
        }
        Reply::text("wait").call("exec", json!({ "command": "sleep 3600" })).answer(wire)
    });
    let home = Home::with_config(&server.config(wire, ""));
    let mut child = home
        .command(&["chat", "--message", "start"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut errors = BufReader::new(child.stderr.take().unwrap()).lines();
    let is_call = |line: &String| line.contains("[exec] sleep");
    errors.by_ref().map(Result::unwrap).find(is_call).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let sessions = home.path(".openclaw/agents/main/sessions");
    let transcript = std::fs::read_dir(&sessions).unwrap().flatten().map(|entry| entry.path());
    let is_transcript =
        |path: &std::path::PathBuf| path.extension().is_some_and(|end| end == "jsonl");
    let transcript = transcript.into_iter().find(is_transcript).unwrap();
    let text = std::fs::read_to_string(&transcript).unwrap();
    assert!(text.ends_with('\n'));
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.last().unwrap()["message"]["role"], "assistant");
    let listed = home.run(&["sandbox", "list", "--json"]);
    assert!(listed.stdout.contains("openclaw-sbx-"), "{}", listed.stdout);
    let again = Run::of(&mut home.command(&["chat", "--message", "after the kill"]));
    assert_eq!((again.code, again.stdout.as_str()), (Some(0), "I go on\n"), "{}", again.stderr);
}

#[test]
fn ctrl_c_at_the_prompt_leaves_at_once() {
    let wire = Wire::OpenAi;
    let server = ModelServer::scripted(vec![Reply::text("one").answer(wire)]);
    let home = Home::with_config(&server.config(wire, ""));
    let mut child = home
        .command(&["chat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"hello\n").unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "one\n");
    // The run may have a moment to go: then it is that which ends, and the next one leaves.
    let number = child.id().to_string();
    let code = loop {
        let sent = Command::new("kill").args(["-INT", &number]).status().unwrap();
        assert!(sent.success());
        if let Some(status) = waited(&mut child) {
            break status.code();
        }
    };
    assert_eq!(code, Some(0));
    drop(input);
}

/// The end of a child, if it comes within a moment.
fn waited(child: &mut std::process::Child) -> Option<std::process::ExitStatus> {
    let until = Instant::now() + Duration::from_secs(5);
    while Instant::now() < until {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status);
        }
        std::thread::yield_now();
    }
    None
}

#[test]
fn what_cannot_be_sent_is_said_before_a_model_is_asked() {
    let wire = Wire::OpenAi;
    let server = ModelServer::scripted(Vec::new());
    let large = "x".repeat((5 << 20) + 1);
    let home = Home::with_config(&server.config(wire, "")).with_file("large.txt", &large);
    let path = home.path("large.txt");
    let run = home.run(&["chat", "--message", "look", "--attach", path.to_str().unwrap()]);
    assert_eq!(run.code, Some(1));
    assert!(run.stderr.contains("more than 5 MiB"), "{}", run.stderr);
    let run = home.run(&["chat", "--message", " "]);
    assert_eq!(
        (run.code, run.stderr.as_str()),
        (Some(1), "error: write a message or attach a file\n")
    );
    let broken = Home::with_config("{ agents: ");
    let run = broken.run(&["chat", "--message", "hi"]);
    assert_eq!(run.code, Some(1));
    assert!(
        run.stderr.contains("openclaw.json") && run.stderr.contains("config validate"),
        "{}",
        run.stderr
    );
    assert!(server.received().is_empty());
}
