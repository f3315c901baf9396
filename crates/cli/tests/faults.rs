//! For each protection: a build that leaves this one out does not start, and names it.
//!
//! `cargo test -p clawpen --features fault-switches --test faults`

use std::path::Path;
use std::process::Command;

/// A protection, and the words by which its absence is told.
const FAULTS: &[(&str, &str)] = &[
    ("net-namespace", "namespace `net`"),
    ("ipc-namespace", "namespace `ipc`"),
    ("uts-namespace", "namespace `uts`"),
    ("cgroup-namespace", "namespace `cgroup`"),
    ("capabilities", "capabilities"),
    ("no-new-privs", "no-new-privs"),
    ("seccomp", "seccomp"),
    ("landlock", "landlock"),
    ("read-only", "mount `/usr`"),
    ("nosuid", "mount `/workspace`"),
    ("nodev", "mount `/workspace`"),
    ("noexec", "mount `/scratch`"),
    ("masks", "mount `/proc/keys`"),
    ("rlimits", "limit `core`"),
    ("seal", "process 1 closed to others"),
];

fn exec(state: &Path, config: &str, fault: &str) -> (Option<i32>, String) {
    std::fs::write(state.join("openclaw.json"), config).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_clawpen"))
        .args(["exec", "--", "true"])
        .env("OPENCLAW_STATE_DIR", state)
        .env("OPENCLAW_CONFIG_PATH", state.join("openclaw.json"))
        .env("CLAWPEN_FAULT", fault)
        .output()
        .unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn every_missing_protection_is_noticed_and_named() {
    let state = tempfile::tempdir().unwrap();
    let config = "{agents: {defaults: {sandbox: {backend: 'native', \
                  docker: {tmpfs: ['/scratch:noexec']}}}}}";
    assert_eq!(exec(state.path(), config, ""), (Some(0), String::new()));
    let mut wrong = Vec::new();
    for (fault, named) in FAULTS {
        let (code, said) = exec(state.path(), config, fault);
        if code != Some(125) || !said.contains(&format!("{named} is not as asked")) {
            wrong.push(format!("{fault}: {code:?} {said}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_pen_outside_its_control_group_is_noticed() {
    let state = tempfile::tempdir().unwrap();
    let config = "{agents: {defaults: {sandbox: {backend: 'native', docker: {memory: '64m'}}}}}";
    let (code, said) = exec(state.path(), config, "");
    if said.contains("needs a cgroup of our own") {
        // An ordinary user's machine: the limit is refused, which is just as well.
        return;
    }
    assert_eq!(code, Some(0), "{said}");
    let (code, said) = exec(state.path(), config, "cgroups");
    assert_eq!(code, Some(125), "{said}");
    assert!(said.contains("cgroup limit `memory` is not as asked"), "{said}");
}
