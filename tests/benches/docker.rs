//! A Docker pen beside the bare engine: how long from nothing to the first output, and what a command
//! or a file costs afterwards. Run it with `cargo xtask services cargo bench --bench docker`.
#![expect(clippy::print_stdout, reason = "a benchmark prints what it measured")]

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command as Plain;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use clawpen_engine::backend::docker::Pen;
use clawpen_engine::channel::{Captured, Command, WriteOptions};
use clawpen_engine::supervisor_image;
use clawpen_tests::docker::{BASE, Place};
use clawpen_wire::pen::Lifetime;
use clawpen_wire::supervisor::Place as In;

const STARTS: usize = 20;
const CALLS: usize = 500;

fn main() -> Result<()> {
    let Some(place) = Place::new()? else { return Ok(()) };
    place.owned_by(1000, 1000)?;
    let backend = place.backend(supervisor_image::IMAGE)?;
    let spec = place.spec("{}")?;
    let (mut bare, mut ours) = (Vec::new(), Vec::new());
    // By turns, so that both see the same moods of the machine.
    for _ in 0..STARTS {
        bare.push(bare_start(&place)?);
        let begin = Instant::now();
        let mut pen = Pen::start(&backend, &spec, Lifetime::UntilDisconnect)?;
        let mut output = Captured::new(64);
        pen.channel()?.exec(&Command::new(["echo", "first"]), &mut output)?;
        ours.push(begin.elapsed());
        assert_eq!(output.stdout, b"first\n");
        pen.remove()?;
    }
    let bare = report("bare create and start by the API", bare);
    let ours = report("nothing to first output", ours);
    println!("{:44} {:.2} x (budget 1.1)", "", ours.as_secs_f64() / bare.as_secs_f64());

    let mut pen = Pen::start(&backend, &spec, Lifetime::UntilDisconnect)?;
    let channel = pen.channel()?;
    let spawned = report(
        "fork, exec and wait for true, on the host",
        repeat(CALLS, || {
            anyhow::ensure!(Plain::new("/bin/true").status()?.success());
            Ok(())
        })?,
    );
    let command = Command::new(["/bin/true"]);
    let run = report(
        "exec true",
        repeat(CALLS, || {
            channel.exec(&command, &mut Captured::new(64))?;
            Ok(())
        })?,
    );
    let over = run.as_secs_f64() * 1e3 - spawned.as_secs_f64() * 1e3;
    println!("{:44} {over:+.3} ms over the host's (budget 0.25)", "");
    let name = place.name()?;
    let by_engine = report(
        "docker exec true, by its command line",
        repeat(20, || {
            let mut exec = Plain::new("docker");
            exec.args(["exec", &name, "/bin/true"]);
            exec.env("DOCKER_HOST", format!("unix://{}", place.socket.display()));
            anyhow::ensure!(exec.status()?.success());
            Ok(())
        })?,
    );
    println!("{:44} {:.0} x ours", "", by_engine.as_secs_f64() / run.as_secs_f64());
    let contents = vec![7_u8; 4096];
    let file = || In::Below { root: 0, path: "file".into() };
    report(
        "write 4 KiB",
        repeat(CALLS, || {
            channel.write(file(), WriteOptions::default(), &mut contents.as_slice())?;
            Ok(())
        })?,
    );
    report(
        "read 4 KiB",
        repeat(CALLS, || {
            channel.read(file(), 0, 4096, &mut std::io::sink())?;
            Ok(())
        })?,
    );
    pen.remove()?;
    Ok(())
}

fn repeat(times: usize, mut call: impl FnMut() -> Result<()>) -> Result<Vec<Duration>> {
    let mut took = Vec::with_capacity(times);
    for _ in 0..times {
        let begin = Instant::now();
        call()?;
        took.push(begin.elapsed());
    }
    Ok(took)
}

/// Prints the quantiles; gives the median.
fn report(what: &str, mut took: Vec<Duration>) -> Duration {
    took.sort_unstable();
    let at = |percent: usize| took[(took.len() - 1) * percent / 100];
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    println!("{what:44} p50 {:8.3}  p95 {:8.3}  p99 {:8.3} ms", ms(at(50)), ms(at(95)), ms(at(99)));
    at(50)
}

/// Create and start of the same container without any of ours, and its removal, not counted.
fn bare_start(place: &Place) -> Result<Duration> {
    let workspace = place.path("workspace");
    let body = serde_json::json!({
        "Image": BASE,
        "User": "1000:1000",
        "Entrypoint": ["sleep", "infinity"],
        "WorkingDir": "/workspace",
        "HostConfig": {
            "NetworkMode": "none",
            "ReadonlyRootfs": true,
            "CapDrop": ["ALL"],
            "SecurityOpt": ["no-new-privileges"],
            "Tmpfs": {"/tmp": "", "/var/tmp": "", "/run": ""},
            "Binds": [format!("{}:/workspace", workspace.display())],
        },
    });
    let begin = Instant::now();
    let created = call(&place.socket, "POST", "/containers/create", &body.to_string())?;
    let created: serde_json::Value = serde_json::from_str(&created)?;
    let id = created["Id"].as_str().context("no id")?;
    call(&place.socket, "POST", &format!("/containers/{id}/start"), "")?;
    let took = begin.elapsed();
    call(&place.socket, "DELETE", &format!("/containers/{id}?force=1"), "")?;
    Ok(took)
}

/// One call of the engine's API; gives the body.
fn call(socket: &Path, method: &str, path: &str, body: &str) -> Result<String> {
    let mut stream = UnixStream::connect(socket)?;
    let length = body.len();
    write!(
        stream,
        "{method} /v1.41{path} HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("no answer")?;
    if !head.split(' ').nth(1).is_some_and(|status| status.starts_with('2')) {
        bail!("{method} {path}: {answer}");
    }
    Ok(body.to_owned())
}
