//! Supervisors of other releases that live: the previous protocol goes on, an older one is replaced.

use super::ground::Ground;

/// What tells one sandbox from the next of the same name.
fn made(ground: &Ground) -> serde_json::Value {
    let rows = ground.rows();
    assert_eq!(rows.len(), 1);
    rows[0]["createdAtMs"].clone()
}

#[test]
fn a_live_supervisor_of_the_previous_protocol_is_used_on() {
    let ground = Ground::new("");
    let created = ground.run("protocol:1", &["exec", "--", "echo", "made"]);
    assert_eq!(created.stdout, b"made\n", "{}", String::from_utf8_lossy(&created.stderr));
    let before = made(&ground);
    for _ in 0..3 {
        ground.works("protocol 1");
    }
    let piped = ground.run("", &["exec", "--", "sh", "-c", "echo out; echo err >&2; exit 7"]);
    assert_eq!((piped.status.code(), piped.stdout.as_slice()), (Some(7), &b"out\n"[..]));
    // Files go through the same connection.
    let written = ground.run("", &["fs", "write", "note"]);
    assert_eq!(written.status.code(), Some(0), "{}", String::from_utf8_lossy(&written.stderr));
    assert_eq!(ground.run("", &["fs", "ls"]).stdout, b"note\n");
    assert_eq!(made(&ground), before);
    ground.check("protocol 1");
    ground.clear("the end");
}

#[test]
fn a_live_supervisor_of_an_older_protocol_counts_as_another_config() {
    let ground = Ground::new("");
    let created = ground.run("sealed-protocol:0", &["exec", "--", "echo", "made"]);
    assert_eq!(created.stdout, b"made\n", "{}", String::from_utf8_lossy(&created.stderr));
    let before = made(&ground);
    ground.works("protocol 0");
    assert_ne!(made(&ground), before, "it was not replaced");
    ground.check("protocol 0");
    ground.works("after it");
    ground.clear("the end");
}
