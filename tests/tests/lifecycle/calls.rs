//! Calls that share a sandbox: found again, made once, listed, removed.

use std::process::Stdio;

use clawpen_tests::home::{Home, Run};
use serde_json::{Value, json};

/// Which pid namespace a command of the session's sandbox is in: each pen has its own.
#[track_caller]
fn pen_of(home: &Home, args: &[&str]) -> String {
    let mut all = vec!["exec"];
    all.extend(args);
    all.extend(["--", "readlink", "/proc/self/ns/pid"]);
    let run = home.run(&all);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    run.stdout
}

#[track_caller]
pub(crate) fn rows(home: &Home) -> Vec<Value> {
    let run = home.run(&["sandbox", "list", "--json"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    run.json()["containers"].as_array().cloned().unwrap()
}

#[test]
fn a_second_call_finds_the_sandbox_of_the_first() {
    let home = Home::new();
    let first = home.run(&["exec", "--", "sh", "-c", "echo kept > /tmp/note"]);
    assert_eq!(first.code, Some(0), "{}", first.stderr);
    let second = home.run(&["exec", "--", "cat", "/tmp/note"]);
    assert_eq!((second.code, second.stdout.as_str()), (Some(0), "kept\n"), "{}", second.stderr);
    let read = home.run(&["fs", "read", "/tmp/note"]);
    assert_eq!(read.stdout, "kept\n", "{}", read.stderr);
    let listed = rows(&home);
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0]["sessionKey"], json!("agent:main"));
    assert_eq!(listed[0]["running"], json!(true));
    assert_eq!(listed[0]["backendId"], json!("native"));
    assert_eq!(listed[0]["clawpen"]["callsInFlight"], json!(0));
    assert_eq!(listed[0]["clawpen"]["configMatch"], json!(true));
    assert!(listed[0]["clawpen"]["memoryBytes"].as_u64().unwrap() > 0);
}

#[test]
fn a_fresh_sandbox_is_the_calls_own_and_leaves_nothing() {
    let home = Home::new();
    let kept = pen_of(&home, &[]);
    let fresh = pen_of(&home, &["--fresh"]);
    assert_ne!(kept, fresh);
    assert_eq!(pen_of(&home, &[]), kept);
    assert_eq!(rows(&home).len(), 1);
    let runs = std::fs::read_dir(home.path(".openclaw/clawpen/run")).unwrap().count();
    assert_eq!(runs, 1);
}

#[test]
fn a_removed_sandbox_is_gone_and_the_next_call_makes_another() {
    let home = Home::new();
    let first = pen_of(&home, &[]);
    let mistyped = home.run(&["sandbox", "remove", "openclaw-sbx-nobody", "--force"]);
    assert_eq!(mistyped.code, Some(1), "{}{}", mistyped.stdout, mistyped.stderr);
    assert!(mistyped.stderr.contains("no sandbox `openclaw-sbx-nobody`"), "{}", mistyped.stderr);
    assert_eq!(pen_of(&home, &[]), first);
    let removed = home.run(&["sandbox", "remove", "--all", "--force"]);
    assert_eq!(removed.code, Some(0), "{}{}", removed.stdout, removed.stderr);
    assert!(removed.stdout.contains("Done: 1 removed, 0 failed"), "{}", removed.stdout);
    assert_eq!(rows(&home), Vec::<Value>::new());
    for place in ["run", "locks"] {
        let left = std::fs::read_dir(home.path(".openclaw/clawpen").join(place)).unwrap();
        assert_eq!(left.count(), 0, "{place}");
    }
    assert_ne!(pen_of(&home, &[]), first);
}

#[test]
fn fifty_parallel_first_uses_make_one_sandbox_115252() {
    let config = "{agents: {defaults: {sandbox: {backend: 'native', \
                  docker: {setupCommand: 'echo made >> setups'}}}}}";
    let home = Home::with_config(config);
    let children: Vec<_> = (0..50)
        .map(|_| {
            let mut command = home.command(&["exec", "--", "readlink", "/proc/self/ns/pid"]);
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    let mut seen = Vec::new();
    for child in children {
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        seen.push(String::from_utf8(output.stdout).unwrap());
    }
    seen.dedup();
    assert_eq!(seen.len(), 1, "{seen:?}");
    assert_eq!(home.run(&["fs", "read", "setups"]).stdout, "made\n");
    assert_eq!(rows(&home).len(), 1);
}

#[test]
fn a_hundred_parallel_scopes_get_a_sandbox_each() {
    let config = "{agents: {defaults: {sandbox: {backend: 'native', scope: 'session'}}}}";
    let home = Home::with_config(config);
    let sessions: Vec<String> = (0..100).map(|number| format!("agent:main:s{number}")).collect();
    let children: Vec<_> = sessions
        .iter()
        .map(|session| {
            let args = ["exec", "--session", session, "--", "readlink", "/proc/self/ns/pid"];
            let mut command = home.command(&args);
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    let mut pens: Vec<String> = Vec::new();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        pens.push(String::from_utf8(output.stdout).unwrap());
    }
    pens.sort_unstable();
    pens.dedup();
    assert_eq!(pens.len(), 100);
    assert_eq!(rows(&home).len(), 100);
    // Found again, each by its own session.
    let seventh = pen_of(&home, &["--session", "agent:main:s7"]);
    assert!(pens.contains(&seventh));
}

#[test]
fn another_backend_by_name_is_another_sandbox() {
    let config = "{agents: {defaults: {sandbox: {backend: 'docker'}}}}";
    let home = Home::with_config(config);
    let run = home.run(&["exec", "--backend", "native", "--json", "--", "true"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let name = run.json()["sandbox"]["name"].as_str().unwrap().to_owned();
    assert_eq!(name, "openclaw-sbx-agent-main-f331f052-native");
    assert_eq!(rows(&home)[0]["clawpen"]["configMatch"], json!(true));
}

#[test]
fn a_command_left_running_is_seen_read_followed_and_killed() {
    let home = Home::new();
    let script = "echo one; echo two >&2; exec sleep 1000";
    let started = home.run(&["exec", "-d", "--", "sh", "-c", script]);
    assert_eq!(started.code, Some(0), "{}", started.stderr);
    let id = started.stdout.trim().to_owned();
    let shown = home.run(&["ps", "--json"]).json();
    assert_eq!(shown[0]["process"].to_string(), id);
    assert_eq!(shown[0]["running"], json!(true));
    assert_eq!(shown[0]["background"], json!(true));
    // What it wrote comes when it comes.
    let mut logs = home.run(&["logs", &id]);
    while logs.stdout.is_empty() || logs.stderr.is_empty() {
        logs = home.run(&["logs", &id]);
    }
    assert_eq!((logs.stdout.as_str(), logs.stderr.as_str()), ("one\n", "two\n"));
    // It is in use: a prune by age would not take it, and removing it takes a word more.
    let killed = home.run(&["kill", &id, "--signal", "9"]);
    assert_eq!(killed.code, Some(0), "{}", killed.stderr);
    let followed = home.run(&["attach", &id]);
    assert_eq!((followed.code, followed.stdout.as_str()), (Some(137), "one\n"));
    let nobody = home.run(&["logs", "4711"]);
    assert_eq!(nobody.code, Some(1));
    assert!(nobody.stderr.contains("4711"), "{}", nobody.stderr);
    let other = home.run(&["ps", "--agent", "other", "--json"]);
    assert_eq!(other.json(), json!([]));
}

#[test]
fn recreate_asks_and_takes_only_what_was_meant() {
    let config = "{agents: {defaults: {sandbox: {backend: 'native'}}, \
                  list: [{id: 'main'}, {id: 'work'}]}}";
    let home = Home::with_config(config);
    let (main, work) = (pen_of(&home, &[]), pen_of(&home, &["--agent", "work"]));
    check(&home, &[], 1, "say which");
    check(&home, &["--all", "--agent", "work"], 1, "only one");
    check(&home, &["--agent", "nobody"], 0, "No sandbox matches.");
    // Nobody can be asked here, so nothing happens.
    check(&home, &["--all"], 0, "nothing was done");
    assert_eq!(rows(&home).len(), 2);
    check(&home, &["--agent", "Work", "--force"], 0, "Done: 1 removed, 0 failed");
    assert_eq!(pen_of(&home, &[]), main);
    assert_ne!(pen_of(&home, &["--agent", "work"]), work);
    // A session's key leads to the scope that it shares.
    check(&home, &["--session", "main", "--force"], 0, "Done: 1 removed, 0 failed");
    assert_ne!(pen_of(&home, &[]), main);
    check(&home, &["--all", "--stale", "--force"], 0, "No sandbox matches.");
}

#[track_caller]
fn check(home: &Home, args: &[&str], code: i32, said: &str) {
    let mut all = vec!["sandbox", "recreate"];
    all.extend(args);
    let mut command = home.command(&all);
    let Run { code: found, stdout, stderr } = Run::of(command.stdin(Stdio::null()));
    assert_eq!(found, Some(code), "{args:?}: {stdout}{stderr}");
    assert!(format!("{stdout}{stderr}").contains(said), "{args:?}: {stdout}{stderr}");
}

#[test]
fn an_eager_sandbox_is_made_anew_at_once() {
    let config = "{agents: {defaults: {sandbox: {backend: 'native'}}}}";
    let home = Home::with_config(config)
        .with_file(".openclaw/clawpen.json", "{defaults: {start: 'eager'}}");
    pen_of(&home, &[]);
    check(&home, &["--all", "--force"], 0, "Done: 1 removed, 0 failed");
    assert_eq!(rows(&home).len(), 1);
}

#[test]
fn the_pen_stands_on_its_own_feet() {
    let home = Home::new();
    let run = home.run(&["exec", "--", "true"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let shown = home.run(&["sandbox", "explain", "--live", "--json"]).json();
    let pid = shown["firstProcess"].as_u64().unwrap();
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    // No terminal, a session of its own, and no descriptor that leads to whoever made it.
    assert_eq!(fields[4], "0", "terminal: {stat}");
    assert_ne!(fields[3], "0", "session: {stat}");
    for stream in 0..3 {
        let leads = std::fs::read_link(format!("/proc/{pid}/fd/{stream}")).unwrap();
        assert_eq!(leads.to_str(), Some("/dev/null"));
    }
    for fact in shown["facts"].as_array().unwrap() {
        assert!(fact["holds"] == json!(true) || fact["floor"] == json!(false), "{fact}");
    }
}

#[test]
fn a_registry_that_is_lost_is_written_anew_from_what_lives() {
    let home = Home::new();
    let pen = pen_of(&home, &[]);
    for name in ["clawpen.db", "clawpen.db-wal", "clawpen.db-shm"] {
        drop(std::fs::remove_file(home.path(".openclaw/clawpen").join(name)));
    }
    // A lost database is made anew by the next command.
    let made = home.run(&["exec", "--fresh", "--", "true"]);
    assert_eq!(made.code, Some(0), "{}", made.stderr);
    assert_eq!(rows(&home).len(), 1);
    assert_eq!(pen_of(&home, &[]), pen);
}
