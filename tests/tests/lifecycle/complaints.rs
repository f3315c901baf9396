//! What users of the reference complained about, each by the number of its report.

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
