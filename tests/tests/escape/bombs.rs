//! While a command takes all it can get: files, kill and the host go on, a new command fails clearly, and
//! with the call everything of it is gone.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use crate::stage::{Stage, assert_root, makers};
use crate::user::User;

/// Runs one part of the play on every ground; each line of it must say `ok`.
pub(crate) fn all_is_well(part: &str, expected: usize) -> Result<()> {
    assert_root()?;
    let stage = Stage::new()?;
    let user = User::new(part)?;
    for (name, maker) in makers(&user)? {
        let mut command = stage.attack_pen(maker)?;
        let output = command.arg(part).stdin(Stdio::null()).output()?;
        let text = String::from_utf8(output.stdout)?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        println!("{name}:\n{text}");
        ensure!(output.status.success(), "{name}: {text}{said}");
        let is_ok = |line: &&str| line.split('\t').nth(1) == Some("ok");
        let failed: Vec<&str> = text.lines().filter(|line| !is_ok(line)).collect();
        ensure!(failed.is_empty(), "{name}: {failed:?}");
        assert_eq!(text.lines().count(), expected, "{name}: {text}");
    }
    Ok(())
}

#[test]
fn a_bomb_stops_neither_files_nor_kill_nor_the_host() -> Result<()> {
    all_is_well("bombs", 9)
}

/// The control: without a pen, what a time-out and the end of a command leave behind lives on.
#[test]
fn without_a_pen_daemons_survive() -> Result<()> {
    let stage = Stage::new()?;
    let script = "\"$0\" bomb daemon; \"$0\" count";
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--mount-proc", "sh", "-c", script]).arg(stage.attack());
    let output = command.output()?;
    assert_eq!(String::from_utf8(output.stdout)?.trim(), "3");
    // SIGTERM is what an ordinary time-out sends.
    let mut deaf = Command::new("unshare");
    deaf.args(["--pid", "--fork", "--kill-child", "timeout", "0.3"]).arg(stage.attack());
    let mut deaf = deaf.args(["bomb", "deaf"]).spawn()?;
    let deadline = Instant::now() + Duration::from_millis(1500);
    while Instant::now() < deadline {
        ensure!(deaf.try_wait()?.is_none(), "it heard the signal");
        std::thread::sleep(Duration::from_millis(50));
    }
    deaf.kill().context("the control does not end")?;
    deaf.wait()?;
    Ok(())
}
