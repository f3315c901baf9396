//! The command line through the real binary: codes, streams and what a person reads.
#![forbid(unsafe_code)]

use std::process::Stdio;

use clawpen_tests::home::{Home, Run};
use serde_json::json;

const ALL: &str = "{agents: {defaults: {sandbox: {mode: 'all'}}}}";

#[track_caller]
fn check(home: &Home, args: &[&str], code: i32, stdout: &str) {
    let run = home.run(args);
    assert_eq!((run.code, run.stdout.as_str()), (Some(code), stdout), "{args:?}: {}", run.stderr);
}

#[test]
fn why_answers_with_verdict_rule_origin_and_smallest_change() {
    let home = Home::with_config(
        "{\n  agents: {defaults: {sandbox: {mode: 'all'}}},\n  tools: {deny: ['exec']},\n}",
    );
    check(
        &home,
        &["why", "tool", "bash"],
        3,
        "no: exec in agent:main:main (in a sandbox: mode `all` sandboxes every session)\n  \
         rule: denied by `exec` in `tools.deny`\n  \
         from: tools.deny ~/.openclaw/openclaw.json:3:18\n  \
         change: take \"exec\" out of tools.deny\n",
    );
    check(
        &home,
        &["why", "tool", "read"],
        0,
        "yes: read in agent:main:main (in a sandbox: mode `all` sandboxes every session)\n  \
         rule: allowed by `read` in `tools.sandbox.tools.allow`\n  \
         from: built in\n",
    );
}

#[test]
fn why_path_and_bind_speak_of_the_sessions_own_sandbox() {
    let home = Home::with_config(ALL);
    let run = home.run(&["why", "path", "/workspace/a/../b", "--json"]);
    assert_eq!(run.code, Some(0));
    assert_eq!(run.json()["containerPath"], json!("/workspace/b"));
    assert_eq!(run.json()["writable"], json!(true));
    assert_eq!(home.run(&["why", "path", "/etc/passwd"]).code, Some(3));
    for bind in ["/etc:/x", "/var/run/docker.sock:/s", "/:/host:ro", "/var:/v"] {
        let run = home.run(&["why", "bind", bind, "--json"]);
        assert_eq!((run.code, run.json()["allowed"].clone()), (Some(3), json!(false)), "{bind}");
    }
    let run = home.run(&["why", "bind", "/srv/data:/data", "--json"]);
    assert_eq!(run.code, Some(3));
    assert!(
        run.json()["changes"].to_string().contains("dangerouslyAllowExternalBindSources"),
        "{}",
        run.stdout
    );
}

#[test]
fn usage_mistakes_end_with_one_and_help_with_zero() {
    let home = Home::new();
    for args in [
        &["sandbox"][..],
        &["sandbox", "explain", "--bogus"],
        &["nonsense"],
        &["sandbox", "explain", "--session"],
        &[],
    ] {
        let run = home.run(args);
        assert_eq!((run.code, run.stdout.as_str()), (Some(1), ""), "{args:?}");
        assert!(!run.stderr.is_empty(), "{args:?}");
    }
    for args in [&["--help"][..], &["--version"], &["why", "tool", "--help"]] {
        assert_eq!(home.run(args).code, Some(0), "{args:?}");
    }
    // A misspelt option is not a program; what comes after the program is its own.
    let run = home.run(&["exec", "--time-out", "5", "--", "true"]);
    assert_eq!(run.code, Some(125));
    assert!(run.stderr.contains("--time-out"), "{}", run.stderr);
    check(&home, &["exec", "--", "echo", "--json"], 0, "--json\n");
    check(&home, &["exec", "echo", "--json"], 0, "--json\n");
}

#[test]
fn an_invalid_config_is_shown_with_place_and_guess() {
    let home = Home::with_config("{\n  agents: {defaults: {sandbox: {moed: 'all'}}},\n}");
    let run = home.run(&["sandbox", "explain"]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(1), ""));
    assert_eq!(
        run.stderr,
        "config not valid: ~/.openclaw/openclaw.json\n\n  \
         - agents.defaults.sandbox: unknown key \"moed\"\n      \
         at ~/.openclaw/openclaw.json:2:33\n      \
         hint: `moed` may be meant to be `mode`\n\n\
         mend the file, then check it with `clawpen config validate`\n"
    );
    let run = home.run(&["config", "validate", "--json"]);
    assert_eq!(run.code, Some(1));
    assert_eq!(run.json()["problems"][0]["line"], json!(2));
}

#[test]
fn a_hostile_config_cannot_paint_the_terminal() {
    let home = Home::with_config(
        "{'\\u001b[2J\\u202e': 1, agents: {list: [{id: 'a\\u001b]0;x\\u0007'}]}}",
    );
    for args in [&["sandbox", "explain"][..], &["config", "validate"]] {
        let run = home.run(args);
        let printed = format!("{}{}", run.stdout, run.stderr);
        assert!(
            !printed.contains('\u{1b}') && !printed.contains('\u{202e}'),
            "{args:?}: {printed:?}"
        );
    }
    let home = Home::with_config(ALL);
    let run = home.run(&["sandbox", "explain", "--session", "agent:main:\u{1b}[2Jx"]);
    assert!(!run.stdout.contains('\u{1b}'), "{:?}", run.stdout);
}

#[test]
fn secrets_are_not_shown() {
    let home = Home::with_config(
        "{gateway: {auth: {token: 'hunter2'}}, agents: {defaults: {sandbox: {mode: 'all', \
         docker: {env: {MY_PASSWORD: 'hunter2', PLAIN: 'hunter2'}}, ssh: {identityData: 'hunter2'}}}}}",
    );
    for args in [
        &["config", "show", "gateway"][..],
        &["config", "show", "gateway.auth.token"],
        &["sandbox", "explain"],
        &["sandbox", "explain", "--json"],
    ] {
        let run = home.run(args);
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        assert!(!run.stdout.contains("hunter2"), "{args:?}: {}", run.stdout);
    }
}

#[test]
fn a_config_that_cannot_be_read_is_an_error_and_not_an_empty_one() {
    let home = Home::new();
    std::fs::create_dir(home.path(".openclaw/openclaw.json")).expect("directory");
    let run = home.run(&["sandbox", "explain"]);
    assert_eq!(run.code, Some(1), "{}", run.stdout);
    assert!(run.stderr.contains("openclaw.json"), "{}", run.stderr);

    let home = Home::new();
    std::fs::write(home.path(".openclaw/openclaw.json"), b"{a: '\xff'}").expect("file");
    let run = home.run(&["sandbox", "explain"]);
    assert_eq!(run.code, Some(1));
    assert!(run.stderr.contains("UTF-8"), "{}", run.stderr);
}

#[test]
fn deep_nesting_and_huge_files_are_refused_quickly() {
    let home = Home::with_config(&format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000)));
    let run = home.run(&["sandbox", "explain"]);
    assert_eq!(run.code, Some(1));
    assert!(run.stderr.contains("nesting"), "{}", run.stderr);
    let home = Home::with_config(&format!("{{a: '{}'}}", "x".repeat(9 * 1024 * 1024)));
    assert_eq!(home.run(&["sandbox", "explain"]).code, Some(1));
}

#[test]
fn the_working_directory_cannot_switch_the_sandbox_off() {
    let home = Home::with_config("{agents: {defaults: {sandbox: {mode: '${SBX_MODE}'}}}}")
        .with_file(".env", "SBX_MODE=off\n");
    let run = home.run(&["sandbox", "explain"]);
    assert_eq!(run.code, Some(1), "{}", run.stdout);
    assert!(run.stderr.contains("SBX_MODE"), "{}", run.stderr);
    let home = home.with_file(".openclaw/.env", "SBX_MODE=all\n");
    assert_eq!(home.run(&["sandbox", "explain", "--json"]).json()["sandbox"]["mode"], json!("all"));
}

#[test]
fn our_own_file_may_name_the_backend_and_says_so() {
    let home = Home::with_config(ALL)
        .with_file(".openclaw/clawpen.json", "{defaults: {backend: 'native'}}");
    let answer = home.run(&["sandbox", "explain", "--json"]).json();
    let origin = &answer["clawpen"]["origins"]["backend"];
    assert_eq!(origin["value"], json!("native"));
    assert!(origin["file"].as_str().is_some_and(|file| file.ends_with("clawpen.json")), "{origin}");
    let home = home.with_file(".openclaw/clawpen.json", "{defaults: {backnd: 'native'}}");
    let run = home.run(&["sandbox", "explain"]);
    assert_eq!(run.code, Some(1));
    assert!(run.stderr.contains("clawpen.json:1:13"), "{}", run.stderr);
}

#[test]
fn docker_args_show_one_argument_a_line_and_nothing_for_a_refused_spec() {
    let home = Home::with_config(ALL);
    let run = home.run(&["sandbox", "explain", "--docker-args"]);
    assert_eq!(run.code, Some(0));
    let lines: Vec<&str> = run.stdout.lines().collect();
    assert_eq!(lines[..4], ["docker", "create", "--name", "openclaw-sbx-agent-main-f331f052"]);
    assert_eq!(lines[lines.len() - 2..], ["sleep", "infinity"]);
    let home = Home::with_config(
        "{agents: {defaults: {sandbox: {mode: 'all', docker: {binds: ['/etc:/e']}}}}}",
    );
    let run = home.run(&["sandbox", "explain", "--docker-args"]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(1), ""));
}

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    let home = Home::with_config(ALL);
    let mut command = home.command(&["config", "schema"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("start");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("end");
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
}

#[test]
fn schema_completions_and_manual_are_printed() {
    let home = Home::new();
    let schema = home.run(&["config", "schema"]).json();
    let sandbox =
        &schema["properties"]["agents"]["properties"]["defaults"]["properties"]["sandbox"];
    assert_eq!(sandbox["properties"]["mode"]["enum"], json!(["off", "non-main", "all"]));
    assert!(home.run(&["config", "schema", "--own"]).json()["properties"]["defaults"].is_object());
    for shell in ["bash", "zsh", "fish"] {
        let run = home.run(&["completions", shell]);
        assert!(run.code == Some(0) && run.stdout.contains("explain"), "{shell}");
    }
    assert!(home.run(&["man"]).stdout.starts_with(".ie"));
    let pages = home.path("man");
    let run = Run::of(&mut home.command(&["man", "--out", pages.to_str().expect("UTF-8")]));
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(pages.join("clawpen-sandbox-explain.1").is_file());
}

/// As an ordinary user: other people's homes may not be searched, and that must stop nothing.
#[test]
fn an_ordinary_user_gets_the_same_answer() {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    use std::os::unix::process::CommandExt as _;
    const NOBODY: u32 = 65_534;
    let home = Home::with_config(ALL);
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(home.path(""), open).expect("permissions");
    // The build directory may be closed to others: take the program along. Another process copies
    // it: a copy that is still open for writing in some fork of ours could not be started.
    let program = home.path("clawpen");
    let mut copy = std::process::Command::new("install");
    copy.args(["-m", "0755"]).arg(home.command(&[]).get_program()).arg(&program);
    assert!(copy.status().expect("install").success());
    let mut command = std::process::Command::new(&program);
    command
        .args(["sandbox", "explain", "--json"])
        .env_clear()
        .env("HOME", home.path(""))
        .current_dir("/");
    if std::fs::metadata("/proc/self").expect("proc").uid() == 0 {
        command.uid(NOBODY).gid(NOBODY);
    }
    let run = Run::of(&mut command);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert_eq!(run.json()["sandbox"]["sessionIsSandboxed"], json!(true));
}

#[test]
fn a_sandbox_that_is_refused_shows_no_file_and_no_arguments() {
    let home = Home::with_config(
        "{agents: {defaults: {sandbox: {mode: 'all', docker: {binds: ['/etc:/e']}}}}}",
    );
    let run = home.run(&["why", "path", "/e/passwd"]);
    assert_eq!(run.code, Some(3), "{}", run.stdout);
    assert!(run.stdout.contains("/etc:/e"), "{}", run.stdout);
    let answer = home.run(&["sandbox", "explain", "--json"]).json();
    assert!(!answer["clawpen"]["runtime"]["mounts"].to_string().contains("/e\""), "{answer}");
    for config in [
        "{agents: {defaults: {sandbox: {mode: 'all', networkAllow: ['x']}}}}",
        "{agents: {defaults: {sandbox: {mode: 'all', backend: 'dokcer'}}}}",
        "{agents: {defaults: {sandbox: {mode: 'all', backend: 'ssh'}}}}",
    ] {
        let home = Home::with_config(config);
        let run = home.run(&["sandbox", "explain", "--docker-args"]);
        assert_eq!((run.code, run.stdout.as_str()), (Some(1), ""), "{config}");
        let refusals =
            home.run(&["sandbox", "explain", "--json"]).json()["clawpen"]["refusals"].clone();
        assert_eq!(refusals.as_array().map(Vec::len), Some(1), "{config}: {refusals}");
    }
}

#[test]
fn a_config_behind_a_broken_link_is_an_error_and_not_an_empty_one() {
    let home = Home::new();
    std::os::unix::fs::symlink("/nowhere/openclaw.json", home.path(".openclaw/openclaw.json"))
        .expect("link");
    let run = home.run(&["sandbox", "explain"]);
    assert_eq!(run.code, Some(1), "{}", run.stdout);
    assert!(run.stderr.contains("/nowhere/openclaw.json"), "{}", run.stderr);

    let home = Home::new();
    std::fs::remove_dir(home.path(".openclaw")).expect("directory");
    std::os::unix::fs::symlink("/nowhere", home.path(".openclaw")).expect("link");
    assert_eq!(home.run(&["config", "validate"]).code, Some(1));
}

#[test]
fn a_state_env_file_behind_a_link_still_counts() {
    let home = Home::with_config("{tools: {deny: ['${DEN}']}}").with_file("real", "DEN=exec\n");
    std::os::unix::fs::symlink(home.path("real"), home.path(".openclaw/.env")).expect("link");
    assert_eq!(home.run(&["why", "tool", "exec"]).code, Some(3));
    assert_eq!(home.run(&["why", "tool", "read"]).code, Some(0));
}

#[test]
fn a_project_cannot_change_a_verdict_with_its_env_file() {
    let config = "{env: {vars: {DEN: 'exec'}}, tools: {deny: ['${DEN}']}, \
                  channels: {telegram: {groups: {'1': {tools: {allow: ['${GRANT}']}}}}}}";
    let plain = Home::with_config(config);
    let hostile =
        Home::with_config(config).with_file(".env", "DEN=x\nGRANT=exec\nOPENCLAW_STATE_DIR=/x\n");
    for args in [
        &["why", "tool", "exec"][..],
        &["why", "tool", "read"],
        &["why", "tool", "exec", "--session", "agent:main:telegram:group:1"],
        &["why", "tool", "write", "--session", "agent:main:telegram:group:1"],
    ] {
        assert_eq!(hostile.run(args).code, plain.run(args).code, "{args:?}");
    }
    assert_eq!(plain.run(&["why", "tool", "exec"]).code, Some(3));
}

#[test]
fn a_pipe_in_place_of_the_session_store_is_not_waited_for() {
    let home = Home::with_config(ALL);
    let store = home.path(".openclaw/agents/main/sessions");
    std::fs::create_dir_all(&store).expect("directory");
    let made = std::process::Command::new("mkfifo")
        .arg(store.join("sessions.json"))
        .status()
        .expect("mkfifo");
    assert!(made.success());
    assert_eq!(home.run(&["sandbox", "explain"]).code, Some(0));
}

#[test]
fn without_a_home_the_user_database_counts_and_not_the_working_directory() {
    let home = Home::new();
    for value in ["undefined", "", "relative"] {
        let mut command = home.command(&["config", "path", "--json"]);
        let run = Run::of(command.env("HOME", value));
        let config = run.json()["config"].as_str().expect("path").to_owned();
        let here = home.path("").to_string_lossy().into_owned();
        assert!(!config.starts_with(&here), "HOME={value}: {config}");
    }
}

#[test]
fn many_unknown_keys_are_answered_in_time_and_space() {
    let keys: Vec<String> = (0..100_000).map(|n| format!("unknown{n}: 1")).collect();
    let run = Home::with_config(&format!("{{{}}}", keys.join(","))).run(&["config", "validate"]);
    assert_eq!(run.code, Some(1));
    assert!(run.stderr.len() < 10_000, "{} bytes", run.stderr.len());
}

#[test]
fn an_enabled_browser_is_explained_as_far_as_it_goes() {
    let explained = |tools: &str, browser: &str| {
        let home = Home::with_config(&format!(
            "{{tools: {{sandbox: {{tools: {{{tools}}}}}}}, agents: {{defaults: {{sandbox: {{mode: 'all', \
             browser: {{{browser}}}}}}}}}}}"
        ));
        let run = home.run(&["sandbox", "explain", "--json"]);
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        run.json()["clawpen"]["browser"].clone()
    };
    assert_eq!(explained("alsoAllow: ['browser']", ""), serde_json::Value::Null);
    let closed = explained("", "enabled: true").to_string();
    assert!(closed.contains("closes `browser`"), "{closed}");
    let open = explained("alsoAllow: ['browser']", "enabled: true").to_string();
    assert!(open.contains("openclaw-sbx-browser-agent-main-f331f052"), "{open}");
    assert!(open.contains("agents have no tool `browser`"), "{open}");
    let refused = explained("alsoAllow: ['browser']", "enabled: true, network: 'none'").to_string();
    assert!(refused.contains("refused at start"), "{refused}");
}
