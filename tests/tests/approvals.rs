//! Approvals and `why command` through the real binary: codes, streams, files and what a person reads.
#![forbid(unsafe_code)]

use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::process::Stdio;

use clawpen_tests::home::{Home, Run};
use serde_json::json;

const FILE: &str = ".openclaw/exec-approvals.json";

/// A home whose file says this.
fn home(file: &str) -> Home {
    Home::new().with_file(FILE, file)
}

fn listed(patterns: &[&str]) -> Home {
    home(&json!({"version": 1, "agents": {"main": {"allowlist": patterns}}}).to_string())
}

#[track_caller]
fn check(home: &Home, command: &str, code: i32, decision: &str) -> Run {
    let run = home.run(&["why", "command", command, "--json"]);
    let found = (run.code, run.json()["decision"].clone());
    assert_eq!(found, (Some(code), json!(decision)), "{command}\n{}{}", run.stdout, run.stderr);
    run
}

#[test]
fn a_command_runs_is_asked_about_or_is_refused_each_with_its_code() {
    let home = listed(&["/usr/bin/ls", "/bin/ls"]);
    check(&home, "ls -la | head -n 5", 0, "run");
    check(&home, "cat /etc/passwd", 4, "ask");
    let silent = home.with_file(".openclaw/openclaw.json", "{tools: {exec: {ask: 'off'}}}");
    check(&silent, "ls -la | head -n 5", 0, "run");
    check(&silent, "cat /etc/passwd", 3, "refuse");
    check(&silent, "ls > x", 3, "refuse");
}

#[test]
fn the_text_shows_plan_verdict_rule_and_change() {
    let home = listed(&["/usr/bin/ls"]);
    let run = home.run(&["why", "command", "ls 'a b' && cat x"]);
    assert_eq!(run.code, Some(4), "{}", run.stderr);
    let lines: Vec<&str> = run.stdout.lines().collect();
    assert_eq!(lines[0], "ask: ls 'a b' && cat x");
    assert!(lines[1].starts_with("  where: gateway, in "), "{}", run.stdout);
    assert!(lines[2].starts_with("  policy: security allowlist (set by the default of"));
    assert!(lines[3].starts_with("  plan: these words, nothing expanded, no shell; "));
    assert_eq!(lines[4], "    ls 'a b'");
    assert!(lines[5].starts_with("      file: /usr/bin/ls (sha256 "), "{}", run.stdout);
    assert_eq!(lines[6], "      by: entry /usr/bin/ls");
    assert_eq!(lines[7], "    && cat x");
    assert_eq!(lines[9], "      not covered: no entry of the allowlist matches `/usr/bin/cat`");
    assert_eq!(lines[10], "  rule: no entry of the allowlist matches `/usr/bin/cat`");
    assert_eq!(lines[11], "  change: clawpen approvals allowlist add /usr/bin/cat --agent main");
}

#[test]
fn the_change_that_is_advised_is_enough() {
    let home = listed(&[]);
    let run = check(&home, "cat x", 4, "ask");
    let change = run.json()["changes"][0].as_str().unwrap_or_default().to_owned();
    let words: Vec<&str> = change.split(' ').skip(1).collect();
    assert_eq!(home.run(&words).code, Some(0), "{change}");
    check(&home, "cat x", 0, "run");
}

#[test]
fn b24_the_plan_hides_no_character() {
    let home = listed(&["/usr/bin/echo"]);
    for (text, shown) in [
        ("echo \u{202e}gpj", "'\\u{202E}gpj'"),
        ("echo a\u{200b}b", "'a\\u{200B}b'"),
        ("echo '\u{3164}'", "'\\u{3164}'"),
        ("echo '\u{1b}[2J'", "'\\u{1B}[2J'"),
        ("echo 'a\\u{202e}b'", "'a\\\\u{202e}b'"),
    ] {
        let run = home.run(&["why", "command", text]);
        assert!(run.stdout.contains(shown), "{text:?}\n{}", run.stdout);
        let is_visible =
            |c: char| c == '\n' || !(c.is_control() || "\u{202e}\u{200b}\u{3164}".contains(c));
        assert!(run.stdout.chars().all(is_visible), "{:?}", run.stdout);
    }
}

#[test]
fn b26_an_unset_host_means_sandbox_or_approvals_and_node_is_refused() {
    let home = listed(&["/usr/bin/ls"]);
    let run = check(&home, "ls", 0, "run");
    assert_eq!(run.json()["host"], json!("gateway"));
    // Said as well: the agents that we serve ourselves have it in a sandbox, until somebody names the host.
    let note = |run: &Run| run.json()["warnings"].to_string().contains("in a sandbox all the same");
    assert!(note(&run), "{}", run.stdout);
    let sent = Home::with_config("{tools: {exec: {host: 'gateway'}}}");
    assert!(!note(&check(&sent, "ls", 4, "ask")));
    let config = |text: &str| Home::with_config(text);
    let boxed = config("{agents: {defaults: {sandbox: {mode: 'all'}}}}");
    assert_eq!(check(&boxed, "rm -rf /", 0, "run").json()["host"], json!("sandbox"));
    let explicit = config("{tools: {exec: {host: 'sandbox'}}}");
    assert_eq!(check(&explicit, "ls", 3, "refuse").json()["host"], json!(null));
    check(&config("{tools: {exec: {host: 'node'}}}"), "ls", 3, "refuse");
    // A sandbox that may not be made is no reason to go to the host.
    let refused = config("{agents: {defaults: {sandbox: {mode: 'all', networkAllow: ['x']}}}}");
    check(&refused, "ls", 3, "refuse");
    check(&config("{tools: {deny: ['exec']}}"), "ls", 3, "refuse");
}

#[test]
fn b30_a_file_that_cannot_be_used_refuses_and_stays_as_it_is() {
    for text in ["{broken", "{\"version\":2}", "{\"version\":1,\"agents\":{\"main\":\"deny\"}}"] {
        let home = home(text);
        let run = check(&home, "ls", 3, "refuse");
        assert!(run.stdout.contains("exec-approvals.json"), "{}", run.stdout);
        assert_eq!(home.run(&["approvals", "check"]).code, Some(3));
        for args in [
            &["approvals", "get"][..],
            &["approvals", "allowlist", "add", "/bin/ls"],
            &["approvals", "allowlist", "remove", "/bin/ls"],
        ] {
            let run = home.run(args);
            assert_eq!((run.code, run.stdout.as_str()), (Some(1), ""), "{args:?}");
        }
        assert_eq!(std::fs::read_to_string(home.path(FILE)).unwrap_or_default(), text);
    }
}

#[test]
fn b36_a_tool_that_the_agent_can_write_is_pinned_when_it_is_added() {
    let home = Home::new().with_file("bin/tool", "#!/bin/sh\necho 1\n");
    let tool = home.path("bin/tool");
    let for_all = std::fs::Permissions::from_mode(0o777);
    assert!(std::fs::set_permissions(&tool, for_all.clone()).is_ok());
    let path = tool.to_string_lossy().into_owned();
    let added = home.run(&["approvals", "allowlist", "add", &path, "--json"]);
    assert!(added.json()["clawpen"]["pinned"].is_string(), "{}", added.stdout);
    check(&home, &path, 0, "run");
    assert!(std::fs::write(&tool, "#!/bin/sh\necho 2\n").is_ok());
    let changed = check(&home, &path, 4, "ask");
    assert!(
        changed.stdout.contains("is not what it was when it was allowed"),
        "{}",
        changed.stdout
    );
    // In a workspace a pin is worth nothing: what the tool loads lies beside it.
    let home = home.with_file(".openclaw/workspace/tool", "#!/bin/sh\n. ./helper\n");
    let tool = home.path(".openclaw/workspace/tool");
    assert!(std::fs::set_permissions(&tool, for_all).is_ok());
    let path = tool.to_string_lossy().into_owned();
    assert_eq!(home.run(&["approvals", "allowlist", "add", &path]).code, Some(0));
    check(&home, &path, 4, "ask");
    // A pattern for everything in a place that agents write covers nothing there.
    let wide = listed(&["~/**"]);
    let tool = wide.path(".openclaw/workspace/t");
    assert!(std::fs::create_dir_all(wide.path(".openclaw/workspace")).is_ok());
    assert!(std::fs::write(&tool, "x").is_ok());
    assert!(std::fs::set_permissions(&tool, std::fs::Permissions::from_mode(0o755)).is_ok());
    check(&wide, &tool.to_string_lossy(), 4, "ask");
}

#[test]
fn entries_come_and_go_in_a_private_file() {
    let home = Home::new();
    let run = home.run(&["approvals", "get", "--json"]);
    assert_eq!((run.code, run.json()["exists"].clone()), (Some(0), json!(false)));
    assert!(!home.path(FILE).exists());
    let run = home.run(&["approvals", "allowlist", "add", "/usr/bin/uname"]);
    assert_eq!(
        (run.code, run.stdout.as_str()),
        (Some(0), "added: /usr/bin/uname for every agent\n")
    );
    let mode = std::fs::metadata(home.path(FILE)).map(|facts| facts.mode() & 0o777);
    assert_eq!(mode.unwrap_or_default(), 0o600);
    let again = home.run(&["approvals", "allowlist", "add", "/usr/bin/uname", "--agent", "*"]);
    assert_eq!(again.stdout, "already there: /usr/bin/uname for every agent\n");
    let got = home.run(&["approvals", "get", "--json"]).json();
    assert_eq!(got["file"]["agents"]["*"]["allowlist"][0]["pattern"], json!("/usr/bin/uname"));
    assert_eq!(home.run(&["approvals", "allowlist", "check", "uname -a"]).code, Some(0));
    assert_eq!(home.run(&["approvals", "allowlist", "check", "uname && id"]).code, Some(3));
    let gone = home.run(&["approvals", "allowlist", "remove", "/usr/bin/uname"]);
    assert_eq!(gone.stdout, "removed: /usr/bin/uname for every agent\n");
    assert_eq!(home.run(&["approvals", "allowlist", "remove", "/usr/bin/uname"]).code, Some(1));
    for args in [["add", "uname"], ["add", ""]] {
        let run = home.run(&["approvals", "allowlist", args[0], args[1]]);
        assert_eq!((run.code, run.stdout.as_str()), (Some(1), ""), "{args:?}");
    }
    let odd = home.run(&["approvals", "allowlist", "add", "/x", "--agent", "My Agent"]);
    assert_eq!(odd.code, Some(1));
}

#[test]
fn set_replaces_what_was_seen_keeps_the_token_and_never_shows_it() {
    let home =
        home("{\"version\":1,\"socket\":{\"path\":\"/s\",\"token\":\"hunter2\"},\"kept\":1}");
    let before = home.run(&["approvals", "get", "--json"]);
    assert!(!before.stdout.contains("hunter2"), "{}", before.stdout);
    assert!(!home.run(&["approvals", "get"]).stdout.contains("hunter2"));
    let set = |hash: &str, text: &str| {
        let mut command =
            home.command(&["approvals", "set", "--stdin", "--base-hash", hash, "--json"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{error}"));
        let written = child.stdin.take().map(|mut stdin| stdin.write_all(text.as_bytes()));
        assert!(matches!(written, Some(Ok(()))));
        child.wait_with_output().unwrap_or_else(|error| panic!("{error}"))
    };
    let new = before.json()["file"].to_string();
    assert_eq!(set("0", &new).status.code(), Some(1));
    let hash = before.json()["hash"].as_str().unwrap_or_default().to_owned();
    assert_eq!(set(&hash, "{\"version\":9}").status.code(), Some(1));
    let done = set(&hash, &new);
    assert_eq!(done.status.code(), Some(0), "{}", String::from_utf8_lossy(&done.stderr));
    assert!(!String::from_utf8_lossy(&done.stdout).contains("hunter2"));
    let text = std::fs::read_to_string(home.path(FILE)).unwrap_or_default();
    assert!(text.contains("hunter2") && text.contains("\"kept\": 1"), "{text}");
    assert_eq!(set(&hash, &new).status.code(), Some(1));
}

#[test]
fn the_file_is_below_the_home_whatever_the_state_directory_is() {
    let home = listed(&["/usr/bin/ls"]);
    let mut command = home.command(&["approvals", "get", "--json"]);
    let run = Run::of(command.env("OPENCLAW_STATE_DIR", home.path("elsewhere")));
    assert_eq!(run.json()["exists"], json!(true), "{}", run.stdout);
    let mut command = home.command(&["approvals", "get", "--json"]);
    let run = Run::of(command.env("OPENCLAW_HOME", home.path("elsewhere")));
    assert_eq!(run.json()["exists"], json!(false), "{}", run.stdout);
}

#[test]
fn a_session_that_loosens_the_config_is_said() {
    let record = json!({"agent:main:main": {"execSecurity": "full", "execAsk": "off"}}).to_string();
    let home = Home::with_config("{tools: {exec: {security: 'deny'}}}");
    check(&home, "ls > x", 3, "refuse");
    let home = home.with_file(".openclaw/agents/main/sessions/sessions.json", &record);
    let run = check(&home, "ls > x", 0, "run");
    assert!(run.stdout.contains("loosens `security` from `deny` to `full`"), "{}", run.stdout);
    let odd = record.replace("\"full\"", "\"everything\"");
    let home = home.with_file(".openclaw/agents/main/sessions/sessions.json", &odd);
    check(&home, "ls", 3, "refuse");
}

#[test]
fn b28_a_closed_tool_is_closed_for_every_command() {
    for policy in ["deny: ['exec']", "deny: ['group:runtime']", "allow: ['read']"] {
        let home = Home::with_config(&format!("{{tools: {{{policy}}}}}"));
        let run = check(&home, "ls", 3, "refuse");
        assert!(run.stdout.contains("the tool `exec` is closed"), "{policy}\n{}", run.stdout);
    }
}

#[test]
fn b28_neither_an_entry_nor_an_open_policy_opens_a_closed_tool() {
    let home = listed(&["*"]);
    check(&home, "uname", 0, "run");
    let config = "{tools: {deny: ['exec'], exec: {security: 'full', ask: 'off'}}}";
    check(&home.with_file(".openclaw/openclaw.json", config), "uname", 3, "refuse");
}

#[test]
fn b28_the_sandbox_has_lists_of_its_own() {
    let config = "{agents: {defaults: {sandbox: {mode: 'all'}}}, \
                  tools: {sandbox: {tools: {deny: ['exec']}}}}";
    check(&Home::with_config(config), "uname", 3, "refuse");
    let direct = config.replace("'all'", "'off'");
    check(&Home::with_config(&direct), "uname", 4, "ask");
}

#[test]
fn b33_a_sandbox_that_is_not_made_runs_nothing() {
    for setting in ["networkAllow: ['x']", "backend: 'dokcer'", "docker: {network: 'host'}"] {
        let config = format!("{{agents: {{defaults: {{sandbox: {{mode: 'all', {setting}}}}}}}}}");
        let run = Home::with_config(&config).run(&["why", "command", "uname", "--json"]);
        assert!(matches!(run.code, Some(1 | 3)), "{setting}\n{}", run.stdout);
        assert!(!run.stdout.contains("\"run\""), "{setting}\n{}", run.stdout);
    }
}

#[test]
fn b33_what_is_said_about_a_command_is_what_explain_says_about_the_session() {
    for (mode, host) in [("all", "sandbox"), ("non-main", "gateway"), ("off", "gateway")] {
        let config = format!("{{agents: {{defaults: {{sandbox: {{mode: '{mode}'}}}}}}}}");
        let home = Home::with_config(&config);
        let explained = home.run(&["sandbox", "explain", "--json"]).json();
        let asked = home.run(&["why", "command", "uname", "--json"]).json();
        assert_eq!(asked["host"], json!(host), "{mode}");
        assert_eq!(explained["sandbox"]["sessionIsSandboxed"], json!(host == "sandbox"), "{mode}");
    }
}

#[test]
fn b33_exec_that_leaves_a_sandbox_by_config_is_said() {
    let config = "{agents: {defaults: {sandbox: {mode: 'all'}}}, tools: {exec: {host: 'gateway'}}}";
    let run = check(&Home::with_config(config), "uname", 4, "ask");
    assert_eq!(run.json()["host"], json!("gateway"));
    assert!(run.stdout.contains("exec leaves the sandbox"), "{}", run.stdout);
    let explained = Home::with_config(config).run(&["sandbox", "explain"]);
    assert!(explained.stdout.contains("exec leaves the sandbox"), "{}", explained.stdout);
}

#[test]
fn a_sandbox_is_asked_about_only_if_our_own_config_says_so() {
    let config = "{agents: {defaults: {sandbox: {mode: 'all', backend: 'native'}}}}";
    let home = Home::new().with_file(".openclaw/openclaw.json", config);
    let run = check(&home, "rm -rf x", 0, "run");
    assert_eq!(run.json()["host"], json!("sandbox"));
    let asks = home.with_file(".openclaw/clawpen.json", "{defaults: {askInSandbox: true}}");
    let run = check(&asks, "rm -rf x", 4, "ask");
    assert_eq!(
        run.json()["changes"],
        json!(["set `defaults.askInSandbox` to false in clawpen.json"])
    );
    let text = asks.run(&["sandbox", "explain"]).stdout;
    assert!(text.contains("askInSandbox"), "{text}");
    let odd = asks.with_file(".openclaw/clawpen.json", "{defaults: {askInSandbox: 'no'}}");
    assert_ne!(odd.run(&["why", "command", "ls"]).code, Some(0));
}

#[test]
fn b11_edits_at_the_same_time_are_all_kept() {
    let home = listed(&[]);
    let add = |number: usize| {
        let pattern = format!("/usr/bin/tool-{number}");
        home.run(&["approvals", "allowlist", "add", &pattern, "--agent", "main"]).code
    };
    let codes: Vec<Option<i32>> = std::thread::scope(|scope| {
        let started: Vec<_> = (0..8).map(|number| scope.spawn(move || add(number))).collect();
        started.into_iter().map(|thread| thread.join().unwrap_or_default()).collect()
    });
    assert_eq!(codes, vec![Some(0); 8]);
    let file = home.run(&["approvals", "get", "--json"]).stdout;
    for number in 0..8 {
        assert!(file.contains(&format!("/usr/bin/tool-{number}\"")), "{number} is lost: {file}");
    }
}
