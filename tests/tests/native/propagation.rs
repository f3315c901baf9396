//! What is mounted on the host stays there, and what a pen mounts stays in the pen, also where the host's mounts are
//! shared, as they are on most machines.

use std::process::Command;

use clawpen_tests::home::{Home, Run};

/// Runs a script in a mount namespace of its own, whose mounts are all shared. `$PEN` is the binary.
fn shared(home: &Home, script: &str) -> Run {
    let binary = home.command(&[]).get_program().to_owned();
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "shared", "sh", "-ec", script]).env_clear();
    command.env("HOME", home.path("")).env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    command.env("PEN", binary).current_dir(home.path(""));
    Run::of(&mut command)
}

#[test]
fn what_is_mounted_after_the_proof_is_on_its_own_side_only() {
    let config = "{agents: {defaults: {workspace: 'WS', sandbox: {mode: 'all', backend: 'native', workspaceAccess: 'rw'}}}}";
    let home = Home::new();
    let workspace = home.path("ws");
    std::fs::create_dir_all(workspace.join("vault")).unwrap();
    let home = home
        .with_file(".openclaw/openclaw.json", &config.replace("WS", workspace.to_str().unwrap()));
    let home =
        home.with_file(".openclaw/skills/one/SKILL.md", "---\nname: one\ndescription: x\n---\n");
    let script = "\"$PEN\" exec -- true
        mount -t tmpfs none ws/vault
        echo secret > ws/vault/key
        \"$PEN\" exec -- sh -c 'ls vault; grep -c -e shared: -e master: /proc/self/mountinfo' || true
        grep -c sandbox-skills /proc/self/mountinfo || true
        \"$PEN\" sandbox remove --all --force >/dev/null";
    let run = shared(&home, script);
    // Nothing in the pen's directory, none of its mounts joined; none of its mounts on the host.
    assert_eq!((run.stdout.as_str(), run.code), ("0\n0\n", Some(0)), "{}", run.stderr);
}
