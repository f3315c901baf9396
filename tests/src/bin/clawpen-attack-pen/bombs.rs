//! Whether a pen can still be used and ended while a command takes all it can get.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use clawpen_engine::backend::Sandbox;
use clawpen_engine::channel::{CallError, Captured, WriteOptions};
use clawpen_wire::supervisor::{ErrorCode, Links, Place, ProcessId, Reach};

use crate::{Pens, command, run as run_attack, start, tell};

const KILL: i32 = 9;
const PATIENCE: Duration = Duration::from_secs(20);
/// More than process 1 ever needs, whatever a command writes.
const PROCESS_1_KIB: u64 = 32 << 10;

type Trial = fn(&mut Sandbox) -> Result<()>;

const TRIALS: &[(&str, Trial)] = &[
    ("fork", fork),
    ("memory", memory),
    ("descriptors", descriptors),
    ("output-background", output_in_the_background),
    ("output-foreground", output_in_the_foreground),
    ("tmpfs", tmpfs),
    ("ignored-time-out", ignored_time_out),
    ("daemons", daemons),
    ("stopped", stopped),
];

pub(crate) fn run(pens: &Pens) -> Result<()> {
    for (name, trial) in TRIALS {
        let mut pen = pens.open("bombed")?;
        match trial(&mut pen).and_then(|()| is_well(&mut pen)) {
            Ok(()) => tell(name, "ok", ""),
            Err(error) => tell(name, "failed", &format!("{error:#}")),
        }
        pen.remove()?;
    }
    Ok(())
}

/// Files, commands and the host itself work as before, and nothing of the bomb is left.
fn is_well(pen: &mut Sandbox) -> Result<()> {
    files_work(pen)?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        match run_attack(pen, &["count"]) {
            Ok((how, left)) if how == "0" && left == "0" => break,
            other if Instant::now() > deadline => bail!("after the bomb: {other:?}"),
            _ => std::thread::sleep(Duration::from_millis(10)),
        }
    }
    host_is_well()
}

fn host_is_well() -> Result<()> {
    let start = Instant::now();
    let done = std::process::Command::new("/bin/true").status().context("the host cannot fork")?;
    ensure!(done.success() && start.elapsed() < PATIENCE, "the host took {:?}", start.elapsed());
    Ok(())
}

fn files_work(pen: &mut Sandbox) -> Result<()> {
    let place = || Place::Below { root: 0, path: "during-the-bomb".into() };
    let channel = pen.channel()?;
    channel.write(place(), WriteOptions::default(), &mut &b"written"[..])?;
    let mut back = Vec::new();
    channel.read(place(), 0, 100, &mut back)?;
    ensure!(back == b"written", "read {back:?}");
    ensure!(channel.stat(place(), Links::Follow)?.metadata.size == 7, "another size");
    Ok(())
}

fn kill(pen: &mut Sandbox, bomb: ProcessId) -> Result<()> {
    Ok(pen.channel()?.kill(bomb, KILL, Reach::Tree)?)
}

fn fork(pen: &mut Sandbox) -> Result<()> {
    let bomb = pen.channel()?.start(&command(&["bomb", "fork"]), 1 << 16)?.process;
    let deadline = Instant::now() + PATIENCE;
    loop {
        match pen.channel()?.exec(&command(&["count"]), &mut Captured::new(1024)) {
            Err(CallError::Failed(failure)) if failure.code == ErrorCode::CannotStart => {
                ensure!(!failure.message.is_empty(), "no word about it");
                break;
            }
            Err(error) => bail!("a new command failed otherwise: {error:#}"),
            Ok(_) if Instant::now() > deadline => bail!("the bomb never reached the limit"),
            Ok(_) => {}
        }
    }
    files_work(pen)?;
    host_is_well()?;
    kill(pen, bomb)
}

/// Where `memory` cannot be configured there is nothing to see, and the harness does not ask.
fn memory(pen: &mut Sandbox) -> Result<()> {
    if std::env::var_os("CLAWPEN_WITHOUT_CGROUP").is_some() {
        return Ok(());
    }
    let (how, _) = run_attack(pen, &["bomb", "memory"])?;
    ensure!(how == "signal 9", "it ended with {how}");
    Ok(())
}

fn descriptors(pen: &mut Sandbox) -> Result<()> {
    let bomb = start(pen, &["bomb", "descriptors"])?;
    files_work(pen)?;
    ensure!(run_attack(pen, &["count"])?.0 == "0", "no new command");
    kill(pen, bomb)
}

fn process_1_is_small(pen: &Sandbox) -> Result<()> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", pen.first_process()))?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = peak.and_then(|peak| peak.split_whitespace().next()?.parse::<u64>().ok());
    let peak = peak.context("the peak memory of process 1")?;
    ensure!(peak < PROCESS_1_KIB, "process 1 has used {peak} KiB");
    Ok(())
}

fn output_in_the_background(pen: &mut Sandbox) -> Result<()> {
    let bomb = pen.channel()?.start(&command(&["bomb", "output"]), 1 << 16)?.process;
    // As much output as a minute of an ordinary command.
    for _ in 0..100 {
        files_work(pen)?;
    }
    process_1_is_small(pen)?;
    kill(pen, bomb)
}

fn output_in_the_foreground(pen: &mut Sandbox) -> Result<()> {
    let mut command = command(&["bomb", "output"]);
    command.timeout = Some(Duration::from_millis(700));
    let mut output = Captured::new(1024);
    let exited = pen.channel()?.exec(&command, &mut output)?;
    ensure!(exited.timed_out && output.stdout.len() == 1024, "{exited:?}");
    ensure!(output.dropped > 0, "nothing was dropped");
    process_1_is_small(pen)
}

fn tmpfs(pen: &mut Sandbox) -> Result<()> {
    let bomb = start(pen, &["bomb", "tmpfs"])?;
    files_work(pen)?;
    let place = Place::InPen("/tmp/more".into());
    let big = vec![0; 1 << 20];
    let refused = pen.channel()?.write(place, WriteOptions::default(), &mut big.as_slice());
    match refused {
        Err(CallError::Failed(failure)) if failure.code == ErrorCode::NoSpace => {}
        other => bail!("a write into the full memory: {other:?}"),
    }
    ensure!(run_attack(pen, &["count"])?.0 == "0", "no new command");
    kill(pen, bomb)
}

fn ignored_time_out(pen: &mut Sandbox) -> Result<()> {
    let mut command = command(&["bomb", "deaf"]);
    command.timeout = Some(Duration::from_millis(300));
    command.grace = Duration::from_millis(200);
    let started = Instant::now();
    let exited = pen.channel()?.exec(&command, &mut Captured::new(1024))?;
    ensure!(exited.timed_out, "{exited:?}");
    ensure!(started.elapsed() < PATIENCE, "it took {:?}", started.elapsed());
    nothing_is_left(pen)
}

/// Not after a while: when the call is over, the tree is gone.
fn nothing_is_left(pen: &mut Sandbox) -> Result<()> {
    let (_, left) = run_attack(pen, &["count"])?;
    ensure!(left == "0", "{left} processes are left");
    Ok(())
}

fn daemons(pen: &mut Sandbox) -> Result<()> {
    let (how, said) = run_attack(pen, &["bomb", "daemon"])?;
    ensure!(how == "0", "{how}: {said}");
    nothing_is_left(pen)
}

/// A stopped process takes no signal but this one.
fn stopped(pen: &mut Sandbox) -> Result<()> {
    let bomb = pen.channel()?.start(&command(&["bomb", "stopped"]), 1 << 16)?.process;
    files_work(pen)?;
    kill(pen, bomb)
}
