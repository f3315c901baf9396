//! What users of the reference complained about, each by the number of its report.

use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::process::Stdio;

use clawpen_tests::home::Home;
use serde_json::json;

use crate::calls::rows;

const SETUP: &str = "{agents: {defaults: {sandbox: {backend: 'native', \
                     docker: {setupCommand: 'test -e /workspace/fixed || { echo no >&2; exit 9; }'}}}}}";

#[test]
fn a_failed_setup_command_leaves_nothing_and_runs_again_143685() {
    let home = Home::with_config(SETUP);
    for _ in 0..2 {
        let failed = home.run(&["exec", "--", "true"]);
        assert_eq!(failed.code, Some(125));
        assert!(failed.stderr.contains("code 9: no"), "{}", failed.stderr);
        assert_eq!(rows(&home), Vec::<serde_json::Value>::new());
        let runs = std::fs::read_dir(home.path(".openclaw/clawpen/run")).unwrap().count();
        assert_eq!(runs, 0);
    }
    let workspace = home.path(".openclaw/sandboxes/agent-main-f331f052/fixed");
    std::fs::write(workspace, "").unwrap();
    assert_eq!(home.run(&["exec", "--", "true"]).code, Some(0));
    assert_eq!(rows(&home).len(), 1);
}

#[test]
fn only_stale_sandboxes_are_renewed_21860_69327() {
    let config = |value: &str| {
        format!(
            "{{agents: {{defaults: {{sandbox: {{backend: 'native'}}}}, list: [{{id: 'main'}}, \
             {{id: 'work', sandbox: {{docker: {{env: {{A: '{value}'}}}}}}}}]}}}}"
        )
    };
    let home = Home::with_config(&config("1"));
    assert_eq!(home.run(&["exec", "--", "true"]).code, Some(0));
    assert_eq!(home.run(&["exec", "--agent", "work", "--", "true"]).code, Some(0));
    std::fs::write(home.path(".openclaw/openclaw.json"), config("2")).unwrap();
    // In use a moment ago, so it is kept, and the user is told.
    let kept = home.run(&["exec", "--agent", "work", "--", "sh", "-c", "echo $A"]);
    assert_eq!(kept.stdout, "1\n");
    assert!(kept.stderr.contains("clawpen sandbox recreate --agent work"), "{}", kept.stderr);
    let matches: Vec<_> =
        rows(&home).iter().map(|row| row["clawpen"]["configMatch"].clone()).collect();
    assert_eq!(matches, [json!(true), json!(false)]);
    let renewed = home.run(&["sandbox", "recreate", "--all", "--stale", "--force"]);
    assert!(renewed.stdout.contains("Done: 1 removed, 0 failed"), "{}", renewed.stdout);
    let run = home.run(&["exec", "--agent", "work", "--", "sh", "-c", "echo $A"]);
    assert_eq!((run.stdout.as_str(), run.stderr.as_str()), ("2\n", ""));
}

#[test]
fn nothing_of_a_call_that_timed_out_is_left_in_the_sandbox_110735_101247() {
    let home = Home::new();
    let script = "setsid sleep 1000 & sleep 1000";
    let run = home.run(&["exec", "--timeout", "0.3", "--", "sh", "-c", script]);
    assert_eq!(run.code, Some(124), "{}", run.stderr);
    let left = home.run(&["exec", "--", "sh", "-c", "grep -l sleep /proc/[0-9]*/comm"]);
    assert_eq!(left.stdout, "", "{}", left.stderr);
}

#[test]
fn two_instances_do_not_share_a_sandbox_51363() {
    let (one, other) = (Home::new(), Home::new());
    let namespace = |home: &Home| {
        let run = home.run(&["exec", "--", "readlink", "/proc/self/ns/pid"]);
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        run.stdout
    };
    assert_ne!(namespace(&one), namespace(&other));
    let removed = one.run(&["sandbox", "remove", "--all", "--force"]);
    assert!(removed.stdout.contains("1 removed"), "{}", removed.stdout);
    assert_eq!(rows(&other).len(), 1);
}

#[test]
fn a_workspace_stays_when_its_sandbox_goes_43797() {
    let home = Home::new();
    assert_eq!(home.run(&["exec", "--", "sh", "-c", "echo mine > note"]).code, Some(0));
    assert_eq!(home.run(&["sandbox", "remove", "--all", "--force"]).code, Some(0));
    let run = home.run(&["exec", "--", "cat", "note"]);
    assert_eq!(run.stdout, "mine\n", "{}", run.stderr);
    let renewed = home.run(&["sandbox", "recreate", "--all", "--reseed", "--force"]);
    assert_eq!(renewed.code, Some(0), "{}{}", renewed.stdout, renewed.stderr);
    assert_eq!(home.run(&["exec", "--", "cat", "note"]).code, Some(1));
    let trash = home.run(&["sandbox", "trash", "list", "--json"]);
    assert_eq!(trash.json()["trash"].as_array().map(Vec::len), Some(1), "{}", trash.stdout);
}

#[test]
fn the_default_workspace_can_be_written_46026_37634_59613() {
    let home = Home::with_config("{agents: {defaults: {sandbox: {backend: 'native'}}}}");
    let run = home.run(&["exec", "--", "sh", "-c", "echo x > made && cat made"]);
    assert_eq!(run.stdout, "x\n", "{}", run.stderr);
}

#[test]
fn a_write_keeps_mode_and_owner_44077_20979_124179_126631() {
    let home = Home::new();
    assert_eq!(home.run(&["exec", "--", "true"]).code, Some(0));
    let file = home.path(".openclaw/sandboxes/agent-main-f331f052/tool.sh");
    let facts = || {
        let found = std::fs::metadata(&file).unwrap();
        (found.mode() & 0o7777, found.uid(), found.gid())
    };
    let script = "echo old > tool.sh && chmod 0751 tool.sh";
    assert_eq!(home.run(&["exec", "--", "sh", "-c", script]).code, Some(0));
    let before = facts();
    assert_eq!(before.0, 0o751);
    let mut write = home.command(&["fs", "write", "tool.sh"]);
    let mut child = write.stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"new\n").unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!((facts(), std::fs::read_to_string(&file).unwrap().as_str()), (before, "new\n"));
}

#[test]
fn no_zombie_eats_up_the_process_limit_68691_121049() {
    let home = Home::with_config(
        "{agents: {defaults: {sandbox: {backend: 'native', docker: {pidsLimit: 40}}}}}",
    );
    // Orphans that end at once: whoever does not reap them has hundreds of dead ones.
    let script = "for n in 1 2 3 4 5 6 7 8 9 10; do ( ( : & ) & ) ; done; wait; echo done";
    for round in 0..10 {
        let run = home.run(&["exec", "--", "sh", "-c", script]);
        assert_eq!(run.stdout, "done\n", "round {round}: {}", run.stderr);
    }
    let look = "grep -l '^State:.Z' /proc/[0-9]*/status | wc -l";
    let left = home.run(&["exec", "--", "sh", "-c", look]);
    assert_eq!(left.stdout.trim(), "0", "{}", left.stderr);
}

#[test]
fn a_directory_and_a_file_with_two_names_are_ordinary_to_the_file_calls_30513_31438() {
    let home = Home::with_config("{agents: {defaults: {sandbox: {backend: 'native'}}}}");
    let made = home.run(&[
        "exec",
        "--",
        "sh",
        "-c",
        "mkdir -p dir/sub; echo text > one; ln one two; ln -s one link",
    ]);
    assert_eq!(made.code, Some(0), "{}", made.stderr);
    for name in ["one", "two", "link"] {
        let run = home.run(&["fs", "read", name]);
        assert_eq!((run.code, run.stdout.as_str()), (Some(0), "text\n"), "{name}: {}", run.stderr);
    }
    for args in [
        &["fs", "stat", "dir"][..],
        &["fs", "stat", "two"],
        &["fs", "rm", "two"],
        &["fs", "rm", "--recursive", "dir"],
    ] {
        let run = home.run(args);
        assert_eq!(run.code, Some(0), "{args:?}: {}", run.stderr);
    }
    assert_eq!(home.run(&["fs", "ls"]).stdout, "link\none\n");
}

#[test]
fn the_record_of_a_failed_start_has_every_cause_and_nothing_that_a_command_said() {
    let config = "{agents: {defaults: {sandbox: {backend: 'native', docker: {env: {COLOUR: 'very-blue-indeed'}, \
                  setupCommand: 'echo very-blue-indeed private words >&2; exit 9'}}}}}";
    let home = Home::with_config(config);
    let failed = home.run(&["exec", "--", "true"]);
    assert!(failed.stderr.contains("private words"), "{}", failed.stderr);
    let shown = home.run(&["audit", "--json"]).stdout;
    assert!(shown.contains("the setup command failed: it ended with code 9"), "{shown}");
    assert!(!shown.contains("private words") && !shown.contains("very-blue"), "{shown}");
}

#[test]
fn a_question_starts_no_sandbox_85768() {
    let home =
        Home::with_config("{agents: {defaults: {sandbox: {mode: 'all', backend: 'native'}}}}");
    for args in [
        &["sandbox", "explain"][..],
        &["sandbox", "list"],
        &["why", "tool", "exec"],
        &["sandbox", "prune"],
        &["ps"],
    ] {
        let run = home.run(args);
        assert_eq!(run.code, Some(0), "{args:?}: {}", run.stderr);
    }
    assert!(!home.path(".openclaw/clawpen/run").exists());
    assert!(!home.path(".openclaw/sandboxes").exists());
}
