//! The acceptance points of the specification (01, section 13), and where each is proven.
//!
//! | Point | Proven by |
//! |---|---|
//! | 1 slugs and the hash vector | `rules::scope`, `rules::config::fingerprint`; end to end below |
//! | 2 arguments of `docker create` | recorded rows (`cargo xtask replay`) |
//! | 3 refused binds | recorded rows, `rules::mounts` |
//! | 4 hot, cold, stopped | `clock.rs`; for containers `docker/lifecycle.rs` |
//! | 5 a failed setup | `complaints.rs`, `docker/lifecycle.rs` |
//! | 6 two first uses at once | `calls.rs`, `docker/lifecycle.rs` |
//! | 7 a registry that survives | `state.rs`, `cli/tests/kills.rs` |
//! | 8 prune | `clock.rs`, `rules::prune` |
//! | 9 files | `supervisor/tests/pen/files.rs`, the escape suite |
//! | 10 the browser's viewer | with the browser, later |
//! | 11 list, recreate, explain | below, `calls.rs`, recorded rows |
//! | 12 session keys | `rules::session`, recorded rows; end to end below |

use clawpen_tests::home::Home;
use serde_json::json;

use crate::calls::rows;

const NATIVE: &str = "{agents: {defaults: {sandbox: {backend: 'native'}}, \
                      list: [{id: 'main'}, {id: 'work'}]}}";

#[test]
fn point_1_and_12_a_sandbox_has_the_references_name_whatever_the_key_is_written_like() {
    let home = Home::with_config(NATIVE);
    for session in ["main", "agent:main:main", "Agent:Main:Other"] {
        let run = home.run(&["exec", "--session", session, "--json", "--", "true"]);
        assert_eq!(run.code, Some(0), "{session}: {}", run.stderr);
        let name = run.json()["sandbox"]["name"].clone();
        assert_eq!(name, json!("openclaw-sbx-agent-main-f331f052"), "{session}");
    }
    let work = home.run(&["exec", "--agent", "work", "--session", "main", "--json", "--", "true"]);
    assert_ne!(work.json()["sandbox"]["name"], json!("openclaw-sbx-agent-main-f331f052"));
    let mut keys: Vec<_> = rows(&home).iter().map(|row| row["sessionKey"].clone()).collect();
    keys.sort_by_key(ToString::to_string);
    assert_eq!(keys, [json!("agent:main"), json!("agent:work")]);
}

#[test]
fn point_11_a_list_says_what_the_reference_says_and_makes_nothing() {
    let home = Home::new();
    let empty = home.run(&["sandbox", "list"]);
    assert_eq!((empty.code, empty.stdout.as_str()), (Some(0), "No sandboxes.\n"));
    let none = home.run(&["sandbox", "list", "--browser", "--json"]).json();
    assert_eq!((&none["containers"], &none["browsers"]), (&json!([]), &json!([])));
    assert!(!home.path(".openclaw/clawpen").exists());
    assert_eq!(home.run(&["exec", "--", "true"]).code, Some(0));
    let row = rows(&home).remove(0);
    let keys: Vec<&str> = row.as_object().unwrap().keys().map(String::as_str).collect();
    let expected = [
        "containerName",
        "backendId",
        "runtimeLabel",
        "sessionKey",
        "createdAtMs",
        "lastUsedAtMs",
        "image",
        "configLabelKind",
        "configHash",
        "running",
        "imageMatch",
        "clawpen",
    ];
    assert_eq!(keys, expected);
    let text = home.run(&["sandbox", "list"]).stdout;
    for part in
        ["Status:  🟢 running", "Backend: native", "Session: agent:main", "Total: 1 (1 running)"]
    {
        assert!(text.contains(part), "{part}\n{text}");
    }
    let invalid = Home::with_config("{agents: {defaults: {sandbox: {mode: 'bogus'}}}}");
    assert_eq!(invalid.run(&["sandbox", "list"]).code, Some(1));
}
