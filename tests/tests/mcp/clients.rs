//! The official clients: list, call, files, progress, cancel.
//!
//! `cargo xtask test mcp` installs them and says where they are.

use std::path::{Path, PathBuf};
use std::process::Command;

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
