//! The official clients: list, call, files, progress, cancel, and the person behind them.
//!
//! `cargo xtask test mcp` installs them and says where they are.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::door::{CONFIG, Ground, Http};

/// Where the SDKs are, or a note that they are not.
#[expect(clippy::print_stderr, reason = "whoever runs the tests should know what was left out")]
fn sdk(variable: &str) -> Option<PathBuf> {
    let place = std::env::var_os(variable).map(PathBuf::from);
    if place.is_none() {
        eprintln!("skipped: {variable} is not set; run `cargo xtask test mcp`");
    }
    place
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("clients").join(name)
}

#[track_caller]
fn check(command: &mut Command) {
    let ran = command.output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success() && out.trim_end().ends_with("ok"), "{out}\n{err}");
}

fn over_stdio(client: &mut Command, ground: &Ground) {
    let door = ground.0.command(&["mcp"]);
    client.arg("stdio").arg(door.get_program()).args(door.get_args());
    client.env("HOME", ground.0.path(""));
    check(client);
}

fn over_http(client: &mut Command, ground: &Ground) {
    let door = Http::open(ground);
    check(client.args(["http", &door.url, &door.token]));
}

#[test]
fn the_python_sdk_works_over_stdio_and_http() {
    let Some(python) = sdk("CLAWPEN_MCP_PYTHON") else { return };
    let client = || {
        let mut client = Command::new(&python);
        client.arg(script("client.py"));
        client
    };
    let ground = Ground::new(CONFIG);
    over_stdio(&mut client(), &ground);
    over_http(&mut client(), &ground);
}

#[test]
fn the_typescript_sdk_works_over_stdio_and_http() {
    let Some(packages) = sdk("CLAWPEN_MCP_NODE") else { return };
    let client = || {
        let mut client = Command::new("node");
        client.arg(script("client.mjs")).env("CLAWPEN_MCP_NODE", &packages);
        client
    };
    let ground = Ground::new(CONFIG);
    over_stdio(&mut client(), &ground);
    over_http(&mut client(), &ground);
}

/// Commands go to the host, and a client may pass on what its person says about them.
const ASKING: &str = "{defaults: {approvals: {timeoutSec: 6, elicitation: 'host'}}}";

fn asking() -> Ground {
    let host = "{tools: {exec: {host: 'gateway'}}, ";
    let ground = Ground::new(&CONFIG.replacen('{', host, 1));
    std::fs::write(ground.0.path(".openclaw/clawpen.json"), ASKING).unwrap();
    ground
}

/// Runs a client, and is the person at another door meanwhile: says yes to `by-person`, and to `restarted` once its
/// door was killed and another has taken the question over.
fn attend(client: &mut Command, ground: &Ground) {
    let client = client.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = client.id();
    let over = Arc::new(AtomicBool::new(false));
    let ended = Arc::clone(&over);
    let waiting = std::thread::spawn(move || {
        let ran = client.wait_with_output().unwrap();
        ended.store(true, Ordering::Release);
        ran
    });
    let mut was_killed = false;
    while !over.load(Ordering::Acquire) {
        let listed = ground.0.run(&["approvals", "list", "--json"]).json();
        for approval in listed["approvals"].as_array().unwrap() {
            let command = approval["request"]["command"].as_str().unwrap();
            if command.contains("restarted") && !was_killed {
                was_killed = true;
                kill_door_of(pid);
            } else if command.contains("by-person")
                || command.contains("restarted") && approval["asker"] == "running"
            {
                let id = approval["id"].as_str().unwrap();
                ground.0.run(&["approvals", "resolve", id, "allow-once"]);
            }
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let ran = waiting.join().unwrap();
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success() && out.trim_end().ends_with("ok"), "{out}\n{err}");
    let workspace = ground.0.path(".openclaw/workspace");
    for name in ["declined", "refused", "closed"] {
        assert!(!workspace.join(name).exists(), "{name} ran");
    }
    assert!(workspace.join("accepted").exists() && workspace.join("by-person").exists());
}

/// Kills the door that a client has started.
fn kill_door_of(client: u32) {
    let children = std::fs::read_to_string(format!("/proc/{client}/task/{client}/children"));
    for child in children.unwrap_or_default().split_whitespace() {
        let words = std::fs::read(format!("/proc/{child}/cmdline")).unwrap_or_default();
        if String::from_utf8_lossy(&words).contains("clawpen\0mcp") {
            let _gone = Command::new("kill").args(["-9", child]).status();
        }
    }
}

fn asks(client: impl Fn() -> Command) {
    let ground = asking();
    let door = ground.0.command(&["mcp"]);
    let mut stdio = client();
    stdio.arg("stdio").arg(door.get_program()).args(door.get_args());
    stdio.env("HOME", ground.0.path(""));
    attend(&mut stdio, &ground);
    let ground = asking();
    let door = Http::open(&ground);
    attend(client().args(["http", &door.url, &door.token]), &ground);
}

#[test]
fn the_python_sdk_asks_its_person_over_stdio_and_http() {
    let Some(python) = sdk("CLAWPEN_MCP_PYTHON") else { return };
    asks(|| {
        let mut client = Command::new(&python);
        client.arg(script("elicit.py"));
        client
    });
}

#[test]
fn the_typescript_sdk_asks_its_person_over_stdio_and_http() {
    let Some(packages) = sdk("CLAWPEN_MCP_NODE") else { return };
    asks(|| {
        let mut client = Command::new("node");
        client.arg(script("elicit.mjs")).env("CLAWPEN_MCP_NODE", &packages);
        client
    });
}
