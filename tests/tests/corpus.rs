//! Every recorded row that this build answers must be answered as meant.
#![forbid(unsafe_code)]
#![expect(clippy::expect_used, reason = "a test without its recording cannot go on")]

use std::path::Path;

use clawpen_tests::replay;

#[track_caller]
fn check(corpus: &str, at_least: usize) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let file = directory.join(format!("{corpus}.jsonl"));
    let tally = replay::run_file(&file, None, &[&directory]).expect("the recording can be read");
    assert_eq!(tally.failures, [], "{corpus}");
    assert!(tally.passed >= at_least, "{corpus}: only {} rows were answered", tally.passed);
}

#[test]
fn config_hash() {
    check("config-hash", 75);
}

#[test]
fn docker_create() {
    check("docker-create", 253);
}

#[test]
fn exec_allowlist() {
    check("exec-allowlist", 592);
}

#[test]
fn exec_approvals() {
    check("exec-approvals", 82);
}

#[test]
fn explain() {
    check("explain", 307);
}

#[test]
fn fs_path() {
    check("fs-path", 255);
}

#[test]
fn session_key() {
    check("session-key", 201);
}

#[test]
fn tool_policy() {
    check("tool-policy", 394);
}

#[test]
fn gateway_frames() {
    check("gateway-frames", 550);
}

#[test]
fn what_is_not_built_yet_is_counted_and_not_dropped() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let file = directory.join("gateway-frames.jsonl");
    // Of the newer release: a run that somebody outside the recording had begun.
    let tally = replay::run_file(&file, Some("chat-protocol-4"), &[&directory]);
    let tally = tally.expect("the recording can be read");
    assert_eq!((tally.passed, tally.not_yet), (45, 15));
}

#[test]
fn every_compat_rule_names_a_real_difference_or_a_hidden_one() {
    // A rule whose predicate looks at ids or notes could not exist: it receives the input only. What
    // is left to check is that names are unique headings.
    for corpus in [
        "config-hash",
        "docker-create",
        "exec-approvals",
        "explain",
        "fs-path",
        "gateway-frames",
        "session-key",
        "tool-policy",
    ] {
        for rule in clawpen_tests::compat::rules(corpus) {
            let is_heading = rule
                .name
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
            assert!(is_heading, "{corpus}: `{}` is no heading", rule.name);
        }
    }
}
