//! A person is asked over the real door: what is allowed runs on the host as it was shown, and nothing else does.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::door::{CONFIG, Ground, Pipes};
use crate::talk::{Talk, eventually, lives, pending, resolve, waiting};

/// Commands of every session go to the host, and what no list covers is asked about.
const HOST: &str = "{tools: {exec: {host: 'gateway'}}, ";
/// The same, and nobody is asked.
const OPEN: &str = "{tools: {exec: {host: 'gateway', security: 'full', ask: 'off'}}, ";

fn ground(tools: &str, own: &str) -> Ground {
    let ground = Ground::new(&CONFIG.replacen('{', tools, 1));
    std::fs::write(ground.0.path(".openclaw/clawpen.json"), own).unwrap();
    std::fs::create_dir_all(ground.0.path(".openclaw/workspace")).unwrap();
    ground
}

/// Nobody waits longer than a second.
const SHORT: &str = "{defaults: {approvals: {timeoutSec: 1}}}";
const LONG: &str = "{defaults: {approvals: {timeoutSec: 50}}}";

fn canary(ground: &Ground) -> PathBuf {
    ground.0.path(".openclaw/workspace/canary")
}

fn script(ground: &Ground, name: &str, text: &str) {
    let path = ground.0.path(".openclaw/workspace").join(name);
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[track_caller]
fn refused(result: &Value, code: &str, part: &str) {
    assert_eq!(result["isError"], true, "{result}");
    assert_eq!(result["structuredContent"]["code"], code, "{result}");
    let text = result["content"][0]["text"].as_str().unwrap();
    assert!(text.contains(part), "{part} in {text}");
}

#[test]
fn b20_what_a_person_allows_runs_once_as_it_was_shown() {
    let ground = ground(HOST, LONG);
    let mut talk = Talk::open(&ground, &[]);
    let call = talk.begin("exec", json!({ "command": "touch canary" }));
    let asked = pending(&ground);
    assert_eq!((&asked["door"], &asked["client"]), (&json!("mcp"), &json!("raw")));
    assert_eq!(asked["plan"]["steps"][0]["argv"], json!(["touch", "canary"]));
    assert!(!canary(&ground).exists());
    assert_eq!(resolve(&ground, &asked, "allow-once").code, Some(0));
    let done = talk.result(call);
    assert_eq!(done["structuredContent"]["exitCode"], 0, "{done}");
    assert_eq!(done["structuredContent"]["host"], "gateway");
    assert_eq!(done["structuredContent"]["approvalId"], asked["id"]);
    assert!(canary(&ground).exists());
    // It was for once: the same text is asked about again.
    std::fs::remove_file(canary(&ground)).unwrap();
    let again = talk.begin("exec", json!({ "command": "touch canary" }));
    let asked = pending(&ground);
    assert_eq!(resolve(&ground, &asked, "deny").code, Some(0));
    refused(&talk.result(again), "user-denied", "a person said no");
    assert!(!canary(&ground).exists());
    assert_eq!(ground.0.run(&["audit", "--verify"]).code, Some(0));
}

#[test]
fn no_record_of_a_command_holds_its_words_however_they_are_written() {
    let ground = ground(HOST, SHORT);
    let mut talk = Talk::open(&ground, &[]);
    for arguments in [
        json!({ "command": "API_KEY='hunter2'-s3\"cr3t\" curl x" }),
        json!({ "command": "hunter2\\-s3cr3t now" }),
        json!({ "command": "./hunter2'-s3cr3t' `now`" }),
        json!({ "command": "python3 -c 'hunter2-s3cr3t'" }),
        json!({ "command": "sh -c 'echo hunter2-s3cr3t'" }),
        json!({ "command": "echo hunter2-s3cr3t; true" }),
        json!({ "command": "echo x", "workdir": "a/../hunter2-s3cr3t" }),
        json!({ "command": "echo x", "workdir": "`hunter2-s3cr3t`" }),
        json!({ "command": "echo x", "env": { "hunter2-s3cr3t": "1" } }),
        json!({ "command": "echo x", "env": { "LD_PRELOAD": "hunter2-s3cr3t" } }),
        json!({ "command": "echo x", "background": true, "env": { "A": "hunter2-s3cr3t" } }),
    ] {
        let done = talk.call("exec", arguments.clone());
        assert_eq!(done["isError"], true, "{arguments}: {done}");
    }
    for arguments in [
        json!({ "action": "poll", "sessionId": "hunter2-s3cr3t" }),
        json!({ "action": "send-keys", "sessionId": "x", "keys": ["hunter2-s3cr3t"] }),
    ] {
        assert_eq!(talk.call("process", arguments)["isError"], true);
    }
    let audit = ground.0.run(&["audit", "--json"]).stdout;
    assert!(audit.lines().count() > 20 && !audit.contains("hunter2"), "{audit}");
    assert!(!audit.contains("s3cr3t"), "{audit}");
}

#[test]
fn an_answer_after_the_time_out_changes_nothing() {
    let ground = ground(HOST, SHORT);
    let mut talk = Talk::open(&ground, &[]);
    let call = talk.begin("exec", json!({ "command": "touch canary" }));
    let asked = pending(&ground);
    refused(&talk.result(call), "approval-timeout", "clawpen approvals watch");
    let late = resolve(&ground, &asked, "allow-once");
    assert_eq!(late.code, Some(3), "{}", late.stdout);
    assert!(!canary(&ground).exists());
    assert_eq!(waiting(&ground), 0);
}

#[test]
fn whoever_leaves_takes_the_question_back() {
    let ground = ground(HOST, LONG);
    let mut talk = Talk::open(&ground, &[]);
    let call = talk.begin("exec", json!({ "command": "touch canary" }));
    let asked = pending(&ground);
    talk.cancel(call);
    eventually("the question is taken back", || waiting(&ground) == 0);
    assert_eq!(resolve(&ground, &asked, "allow-once").code, Some(3));
    // A client that is gone has left too.
    let other = talk.begin("exec", json!({ "command": "touch canary" }));
    let asked = pending(&ground);
    drop(talk);
    eventually("the second one too", || waiting(&ground) == 0);
    assert_eq!(resolve(&ground, &asked, "allow-once").code, Some(3), "{other}");
    assert!(!canary(&ground).exists());
}

#[test]
fn b11_allow_always_is_for_these_words_in_this_directory() {
    let ground = ground(HOST, LONG);
    let mut talk = Talk::open(&ground, &[]);
    let call = talk.begin("exec", json!({ "command": "touch canary" }));
    let asked = pending(&ground);
    assert_eq!(resolve(&ground, &asked, "allow-always").code, Some(0));
    assert_eq!(talk.result(call)["structuredContent"]["exitCode"], 0);
    let file = std::fs::read_to_string(ground.0.path(".openclaw/exec-approvals.json")).unwrap();
    assert!(file.contains("touch") && file.contains("canary"), "{file}");
    let again = talk.call("exec", json!({ "command": "touch canary" }));
    assert_eq!(again["structuredContent"]["exitCode"], 0, "{again}");
    assert_eq!(again["structuredContent"]["approvalId"], Value::Null);
    // Other words, and the same words elsewhere, are asked about.
    for other in [
        json!({ "command": "touch other" }),
        json!({ "command": "touch canary", "workdir": ground.0.path("").to_str().unwrap() }),
    ] {
        let call = talk.begin("exec", other);
        let asked = pending(&ground);
        assert_eq!(resolve(&ground, &asked, "deny").code, Some(0));
        refused(&talk.result(call), "user-denied", "a person said no");
    }
    assert!(!ground.0.path("canary").exists());
}

#[test]
fn b21_a_program_that_was_changed_while_a_person_thought_is_not_run() {
    let ground = ground(HOST, LONG);
    script(&ground, "tool", "#!/bin/sh\nexit 0\n");
    let mut talk = Talk::open(&ground, &[]);
    let call = talk.begin("exec", json!({ "command": "./tool" }));
    let asked = pending(&ground);
    script(&ground, "tool", "#!/bin/sh\ntouch canary\n");
    assert_eq!(resolve(&ground, &asked, "allow-once").code, Some(0));
    refused(&talk.result(call), "approval-stale", "not what it was");
    assert!(!canary(&ground).exists());
}

#[test]
fn a_policy_that_got_stricter_while_a_person_thought_counts() {
    for tools in
        ["{tools: {deny: ['exec']}, ", "{tools: {exec: {host: 'gateway', security: 'deny'}}, "]
    {
        let ground = ground(HOST, LONG);
        let mut talk = Talk::open(&ground, &[]);
        let call = talk.begin("exec", json!({ "command": "touch canary" }));
        let asked = pending(&ground);
        let stricter = CONFIG.replacen('{', tools, 1);
        std::fs::write(ground.0.path(".openclaw/openclaw.json"), stricter).unwrap();
        assert_eq!(resolve(&ground, &asked, "allow-once").code, Some(0));
        refused(&talk.result(call), "denied", "policy changed while it was asked");
        assert!(!canary(&ground).exists());
    }
}

#[test]
fn b23_nothing_that_an_agent_starts_answers_for_a_person() {
    let tools = "{tools: {exec: {host: 'gateway'}}, agents: {list: [{id: 'strict', default: true}, \
                 {id: 'loose', tools: {exec: {security: 'full', ask: 'off'}}}], ";
    let config = CONFIG.replacen("{agents: {", tools, 1);
    let ground = Ground::new(&config);
    std::fs::write(ground.0.path(".openclaw/clawpen.json"), LONG).unwrap();
    let binary = ground.0.command(&[]).get_program().to_str().unwrap().to_owned();
    let mut strict = Talk::open(&ground, &[]);
    let call = strict.begin(
        "exec",
        json!({ "command": "touch canary", "workdir": ground.0.path("").to_str().unwrap() }),
    );
    let asked = pending(&ground);
    let id = asked["id"].as_str().unwrap();
    // A command on the host of another session's door, also one that lets go of its parents.
    let mut loose = Talk::open(&ground, &["--agent", "loose"]);
    for command in [
        format!("{binary} approvals resolve {id} allow-once"),
        format!(
            "setsid sh -c 'sleep 0.2; {binary} approvals resolve {id} allow-once >out 2>&1; echo done >>out' & sleep 3"
        ),
        format!("{binary} approvals resolve {} allow-once", &id[..1]),
    ] {
        let done = loose.call("exec", json!({ "command": command }));
        assert_eq!(done["isError"], false, "{done}");
    }
    // One that ends the process that keeps it, to answer when nobody looks any more.
    let command = format!(
        "setsid sh -c 'sleep 1; {binary} approvals resolve {id} allow-once' >/dev/null 2>&1 & echo $!; kill -9 $PPID; sleep 9"
    );
    let lost = loose.call("exec", json!({ "command": command }));
    let said = lost["content"][0]["text"].as_str().unwrap();
    assert!(said.contains("this command is lost"), "{lost}");
    let left = lost["structuredContent"]["aggregated"].as_str().unwrap().trim();
    assert!(!left.is_empty() && !lives(left), "{lost}");
    assert!(ground.0.run(&["audit", "--json"]).stdout.contains("something of it may still run"));
    let heard = ground.0.run(&["audit", "--json"]).stdout;
    assert!(heard.matches("is not heard").count() >= 3, "{heard}");
    assert_eq!(waiting(&ground), 1, "an agent answered");
    // The client itself: here the test's own process is one.
    let client = Pipes::open(&ground, &["--session", "third"]);
    let own = resolve(&ground, &asked, "allow-once");
    assert_eq!(own.code, Some(3), "{}{}", own.stdout, own.stderr);
    assert!(own.stdout.contains("terminal of your own"), "{}", own.stdout);
    drop(client);
    assert_eq!(resolve(&ground, &asked, "deny").code, Some(0));
    refused(&strict.result(call), "user-denied", "a person said no");
    assert!(!ground.0.path("canary").exists());
}

#[test]
fn b23_nor_does_what_runs_in_a_sandbox() {
    let ground = ground("{", "{defaults: {askInSandbox: true, approvals: {timeoutSec: 50}}}");
    let binary = ground.0.command(&[]).get_program().to_owned();
    let inside = ground.0.path(".openclaw/workspace/clawpen");
    assert!(Command::new("install").arg(&binary).arg(&inside).status().unwrap().success());
    let mut talk = Talk::open(&ground, &[]);
    // Allowed once: a command that answers the next question from inside.
    let command = "for i in 1 2 3 4 5 6 7 8; do HOME=/workspace/.. ./clawpen approvals resolve a allow-once; sleep 0.2; done; true";
    let attack = talk.begin("exec", json!({ "command": command }));
    let asked = pending(&ground);
    assert_eq!(asked["request"]["host"], "sandbox");
    assert_eq!(resolve(&ground, &asked, "allow-once").code, Some(0));
    let next = talk.begin("exec", json!({ "command": "touch canary" }));
    let asked = pending(&ground);
    assert_eq!(talk.result(attack)["structuredContent"]["exitCode"], 0);
    assert_eq!(waiting(&ground), 1, "the sandbox answered");
    assert_eq!(resolve(&ground, &asked, "deny").code, Some(0));
    refused(&talk.result(next), "user-denied", "a person said no");
    assert!(!canary(&ground).exists());
}

#[test]
fn b27_elevated_goes_by_what_the_door_knows_and_never_by_a_name() {
    let elevated = |list: &str| {
        let tools = format!("{{tools: {{elevated: {{allowFrom: {{mcp: ['{list}']}}}}}}, ");
        let config = CONFIG.replacen('{', &tools, 1);
        config.replacen("defaults: {", "defaults: {elevatedDefault: 'ask', ", 1)
    };
    let uid = nix::unistd::getuid();
    for (list, is_let_out) in
        [(format!("uid:{uid}"), true), ("name:raw".to_owned(), false), ("raw".to_owned(), false)]
    {
        let ground = Ground::new(&elevated(&list));
        std::fs::write(ground.0.path(".openclaw/clawpen.json"), LONG).unwrap();
        let mut talk = Talk::open(&ground, &[]);
        let call = talk.begin("exec", json!({ "command": "touch canary", "elevated": true }));
        if is_let_out {
            let asked = pending(&ground);
            assert_eq!(resolve(&ground, &asked, "allow-once").code, Some(0));
            assert_eq!(talk.result(call)["structuredContent"]["host"], "gateway");
            assert!(canary(&ground).exists());
            // Whoever is let out and does not want to be stays inside.
            let inside = talk.call("exec", json!({ "command": "pwd", "elevated": false }));
            assert_eq!(inside["structuredContent"]["cwd"], "/workspace", "{inside}");
        } else {
            refused(&talk.result(call), "denied", "tools.elevated.allowFrom.mcp");
            assert!(!canary(&ground).exists());
        }
    }
}

#[test]
fn b26_a_persons_session_record_lets_no_client_out() {
    let ground = ground("{", SHORT);
    let records = json!({ "agent:main:main": {
        "execHost": "gateway", "execSecurity": "full", "execAsk": "off", "elevatedLevel": "full",
    } });
    let store = ground.0.path(".openclaw/agents/main/sessions");
    std::fs::create_dir_all(&store).unwrap();
    std::fs::write(store.join("sessions.json"), records.to_string()).unwrap();
    let mut talk = Talk::open(&ground, &["--session", "agent:main:main"]);
    let outside = ground.0.path("canary");
    let done = talk.call("exec", json!({ "command": format!("touch {}; pwd", outside.display()) }));
    assert_eq!(done["structuredContent"]["cwd"], "/workspace", "{done}");
    assert!(!outside.exists());
    refused(
        &talk.call("exec", json!({ "command": "true", "elevated": true })),
        "denied",
        "elevated",
    );
    // What holds back is believed.
    let open = CONFIG.replacen('{', OPEN, 1);
    std::fs::write(ground.0.path(".openclaw/openclaw.json"), open).unwrap();
    let strict = json!({ "agent:main:main": { "execSecurity": "deny" } });
    std::fs::write(store.join("sessions.json"), strict.to_string()).unwrap();
    refused(&talk.call("exec", json!({ "command": "touch canary" })), "denied", "security=deny");
}

#[test]
fn b19_variables_that_steer_programs_do_not_come_along() {
    let ground = ground(OPEN, SHORT);
    let mut talk = Talk::open(&ground, &[]);
    for name in
        ["PATH", "LD_PRELOAD", "BASH_ENV", "GIT_SSH_COMMAND", "OPENCLAW_HOME", "IFS", "HOME"]
    {
        let call = json!({ "command": "touch canary", "env": { name: "/evil" } });
        let refused = talk.call("exec", call);
        assert_eq!(refused["isError"], true, "{name}: {refused}");
        assert!(!canary(&ground).exists(), "{name}");
    }
    let done = talk.call("exec", json!({ "command": "printenv TZ", "env": { "TZ": "UTC" } }));
    assert_eq!(done["structuredContent"]["aggregated"], "UTC\n", "{done}");
}

#[test]
fn nothing_of_a_command_on_the_host_outlives_its_call_or_its_door() {
    let ground = ground(OPEN, SHORT);
    let workspace = ground.0.path(".openclaw/workspace");
    let pids = |count: usize| -> Vec<String> {
        let text = std::fs::read_to_string(workspace.join("pids")).unwrap_or_default();
        let found: Vec<String> = text.lines().map(str::to_owned).collect();
        if found.len() == count { found } else { Vec::new() }
    };
    let command = "rm -f pids; setsid sh -c 'echo $$ >> pids; exec sleep 1000' & (sleep 1000 & echo $! >> pids); sleep 1000";
    let mut talk = Talk::open(&ground, &[]);
    let call = talk.begin("exec", json!({ "command": command }));
    eventually("it runs", || !pids(2).is_empty());
    let started = pids(2);
    // It is in the record before it is over.
    let audit = ground.0.run(&["audit", "--json"]).stdout;
    assert!(audit.contains("starts on the host"), "{audit}");
    talk.cancel(call);
    eventually("a cancelled call ends all of it", || started.iter().all(|pid| !lives(pid)));
    let call = talk.begin("exec", json!({ "command": command }));
    eventually("it runs again", || pids(2).iter().any(|pid| lives(pid)));
    let started = pids(2);
    talk.kill_door();
    eventually("a killed door ends all of it", || started.iter().all(|pid| !lives(pid)));
    assert!(call > 0);
}

#[test]
fn a_command_on_the_host_is_cut_timed_and_kept_in_front() {
    let ground = ground(OPEN, SHORT);
    let mut talk = Talk::open(&ground, &[]);
    let sent = talk.call("exec", json!({ "command": "touch canary", "background": true }));
    refused(&sent, "denied", "background");
    let slow = talk.call("exec", json!({ "command": "echo begin; sleep 100", "timeout": 1 }));
    assert_eq!(slow["structuredContent"]["exitCode"], Value::Null, "{slow}");
    assert!(slow["content"][0]["text"].as_str().unwrap().contains("begin"), "{slow}");
    let flood = "head -c 3000000 /dev/zero | tr '\\0' a; echo end";
    let flood = talk.call("exec", json!({ "command": flood, "yieldMs": 10 }));
    let output = flood["structuredContent"]["aggregated"].as_str().unwrap();
    assert!(output.len() <= 200_000 && output.ends_with("end\n"), "{}", output.len());
    assert_eq!(flood["structuredContent"]["truncated"], true);
    let wrong = talk.call("exec", json!({ "command": "touch canary", "workdir": "/nonexistent" }));
    refused(&wrong, "denied", "/nonexistent");
    assert!(!canary(&ground).exists());
}

#[test]
fn a_session_that_asks_and_asks_is_bounded_and_others_are_served() {
    let ground = ground(HOST, LONG);
    let mut talk = Talk::open(&ground, &["--session", "loud"]);
    let calls: Vec<u64> = (0..40)
        .map(|number| talk.begin("exec", json!({ "command": format!("touch canary{number}") })))
        .collect();
    eventually("as many as may wait do", || waiting(&ground) == 16);
    let mut quiet = Talk::open(&ground, &["--session", "quiet"]);
    let listed = quiet.call("ls", json!({}));
    assert_eq!(listed["isError"], false, "{listed}");
    let call = quiet.begin("exec", json!({ "command": "touch canary" }));
    eventually("the other session may ask", || waiting(&ground) == 17);
    drop(talk);
    eventually("all questions of a client that left are taken back", || waiting(&ground) == 1);
    assert_eq!(resolve(&ground, &pending(&ground), "allow-once").code, Some(0));
    assert_eq!(quiet.result(call)["structuredContent"]["exitCode"], 0);
    assert_eq!(calls.len(), 40);
}

#[test]
fn a_door_that_was_killed_while_it_waited_is_not_run_for_and_goes_on_when_it_comes_back() {
    let ground = ground(HOST, LONG);
    let mut talk = Talk::open(&ground, &[]);
    talk.begin("exec", json!({ "command": "touch canary" }));
    let asked = pending(&ground);
    talk.kill_door();
    let gone = pending(&ground);
    assert_eq!((&gone["id"], &gone["asker"]), (&asked["id"], &json!("gone")));
    // The same client comes back with the same words: the question is still the one that the person has seen.
    let mut talk = Talk::open(&ground, &[]);
    let call = talk.begin("exec", json!({ "command": "touch canary" }));
    eventually("it is taken over", || pending(&ground)["asker"] == "running");
    assert_eq!(pending(&ground)["id"], asked["id"]);
    assert_eq!(resolve(&ground, &asked, "allow-once").code, Some(0));
    assert_eq!(talk.result(call)["structuredContent"]["exitCode"], 0);
    assert!(canary(&ground).exists());
    // Used up: nobody gets it a second time.
    std::fs::remove_file(canary(&ground)).unwrap();
    let again = talk.begin("exec", json!({ "command": "touch canary" }));
    let new = pending(&ground);
    assert_ne!(new["id"], asked["id"]);
    assert_eq!(resolve(&ground, &new, "deny").code, Some(0));
    refused(&talk.result(again), "user-denied", "a person said no");
    assert!(!canary(&ground).exists());
}

#[test]
fn b23_a_client_passes_a_word_on_only_as_far_as_the_user_said() {
    // By itself: not for the host. The question is not even put to it.
    let strict = ground(HOST, SHORT);
    let mut talk = Talk::asking(&strict, &[]);
    let done = talk.call("exec", json!({ "command": "touch canary" }));
    refused(&done, "approval-timeout", "nobody answered");
    assert!(talk.unasked().iter().all(|message| message["method"] != "elicitation/create"));
    assert!(!canary(&strict).exists());
    // Opened for the host: yes, no, closed, and words that were not offered.
    let own = "{defaults: {approvals: {timeoutSec: 50, elicitation: 'host'}}}";
    let open = ground(HOST, own);
    let mut talk = Talk::asking(&open, &[]);
    let accept = |word: &str| json!({ "action": "accept", "content": { "decision": word } });
    let call = talk.begin("exec", json!({ "command": "touch canary" }));
    let question = talk.question();
    let prompt = question["params"]["message"].as_str().unwrap();
    assert!(prompt.contains("touch canary") && prompt.contains("/usr/bin/touch"), "{prompt}");
    talk.reply(&question, json!({ "action": "decline" }));
    refused(&talk.result(call), "user-denied", "a person said no");
    for no_answer in [json!({ "action": "cancel" }), accept("allow-always"), accept("yes")] {
        let call = talk.begin("exec", json!({ "command": "touch canary" }));
        let question = talk.question();
        talk.reply(&question, no_answer);
        // Another door still answers, and the file of approvals knows nothing.
        assert_eq!(resolve(&open, &pending(&open), "deny").code, Some(0));
        refused(&talk.result(call), "user-denied", "a person said no");
    }
    assert!(!canary(&open).exists());
    let call = talk.begin("exec", json!({ "command": "touch canary" }));
    let question = talk.question();
    talk.reply(&question, accept("allow-once"));
    assert_eq!(talk.result(call)["structuredContent"]["exitCode"], 0);
    assert!(canary(&open).exists());
    let approvals = std::fs::read_to_string(open.0.path(".openclaw/exec-approvals.json"));
    assert!(!approvals.unwrap_or_default().contains("touch"));
}

#[test]
fn the_first_answer_wins_and_the_question_at_the_client_is_taken_back() {
    let own = "{defaults: {approvals: {timeoutSec: 50, elicitation: 'host'}}}";
    let ground = ground(HOST, own);
    let mut talk = Talk::asking(&ground, &[]);
    let call = talk.begin("exec", json!({ "command": "touch canary" }));
    let question = talk.question();
    assert_eq!(resolve(&ground, &pending(&ground), "deny").code, Some(0));
    refused(&talk.result(call), "user-denied", "a person said no");
    // Too late, and nobody's question any more.
    talk.reply(&question, json!({ "action": "accept", "content": { "decision": "allow-once" } }));
    let listed = talk.call("ls", json!({}));
    assert_eq!(listed["isError"], false);
    let taken_back = talk.unasked().iter().any(|message| {
        message["method"] == "notifications/cancelled"
            && message["params"]["requestId"] == question["id"]
    });
    assert!(taken_back, "{:?}", talk.unasked());
    assert!(!canary(&ground).exists());
}

#[test]
fn in_the_sandbox_a_client_asks_its_person_by_itself() {
    let ground = ground("{", "{defaults: {askInSandbox: true, approvals: {timeoutSec: 50}}}");
    let mut talk = Talk::asking(&ground, &[]);
    let env = json!({ "TZ": "zone-of-the-call" });
    let call = talk.begin("exec", json!({ "command": "touch canary; exit 5", "env": env }));
    let question = talk.question();
    let prompt = question["params"]["message"].as_str().unwrap();
    assert!(prompt.contains("\nvariables: TZ=zone-of-the-call"), "{prompt}");
    assert_eq!(pending(&ground)["request"]["envKeys"], json!(["TZ"]));
    assert!(!canary(&ground).exists());
    let yes = json!({ "action": "accept", "content": { "decision": "allow-once" } });
    talk.reply(&question, yes);
    let done = talk.result(call);
    assert_eq!(done["structuredContent"]["exitCode"], 5, "{done}");
    assert!(canary(&ground).exists());
    let all = ground.0.run(&["approvals", "list", "--all", "--json"]).json();
    let one = &all["approvals"][0];
    assert_eq!((&one["state"], &one["ending"]), (&json!("ended"), &json!("exit 5")), "{all}");
}

/// A directory that cannot be used is not what the command runs in, so it must not be what a person agrees to.
#[test]
fn in_the_sandbox_a_person_sees_where_the_command_really_runs() {
    let ground = ground("{", "{defaults: {askInSandbox: true, approvals: {timeoutSec: 50}}}");
    let mut talk = Talk::asking(&ground, &[]);
    let call = talk.begin("exec", json!({ "command": "pwd", "workdir": "/tmp/scratch" }));
    let question = talk.question();
    let prompt = question["params"]["message"].as_str().unwrap();
    let shown = pending(&ground)["request"]["cwd"].clone();
    talk.reply(&question, json!({ "action": "accept", "content": { "decision": "allow-once" } }));
    let done = talk.result(call);
    let ran_in = done["structuredContent"]["cwd"].as_str().unwrap();
    assert_eq!((shown.as_str(), ran_in), (Some("/workspace"), "/workspace"), "{done}");
    assert!(prompt.contains("/workspace") && !prompt.contains("/tmp/scratch"), "{prompt}");
}
