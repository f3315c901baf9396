//! `clawpen-attack-pen BACKEND [attacks|bombs|races]`: attacks a pen, as whoever runs this.
//!
//! Opens pens of the config in `HOME`, which must bind the attacks to `/attacks`. Prints a line for each
//! attempt: its name, how it ended, what it said. A program of its own, because an ordinary user's pens
//! are made by a process of that user.
//!
//! - `attacks`: every mechanism, beside a second command (the victim) and another pen (the neighbour);
//!   ends with an exit code, `signal N` or `pen-ended`;
//! - `bombs`: commands that take all they can get; ends with `ok` or `failed`;
//! - `races`: every file operation against a command that swaps names; the same.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "a program of the tests that prints its result")]

mod bombs;
mod races;

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use clawpen_engine::backend::{Engines, Sandbox};
use clawpen_engine::call::{self, Target};
use clawpen_engine::channel::{Captured, Command};
use clawpen_engine::config_store::{self, Store};
use clawpen_wire::supervisor::{Depth, End, EnvVar, Links, Place, ProcessId};

const ATTACK: &str = "/attacks/attack";
/// What the harness tells the attacks.
const TOLD: [&str; 4] = ["CANARY_", "HOST_PID", "NEIGHBOUR", "ATTACK_"];
const LONGEST: Duration = Duration::from_secs(20);
const READY_WITHIN: Duration = Duration::from_secs(20);

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let backend = args.next().context("which backend?")?;
    let pens = Pens { store: config_store::open()?, backend, engines: Engines::default() };
    match args.next().as_deref() {
        None | Some("attacks") => attacks(&pens),
        Some("bombs") => bombs::run(&pens),
        Some("races") => races::run(&pens),
        Some(other) => bail!("attacks, bombs or races, not `{other}`"),
    }
}

fn attacks(pens: &Pens) -> Result<()> {
    let mut neighbour = pens.open("neighbour")?;
    start(&mut neighbour, &["neighbour"])?;
    let mut pen = pens.attacked()?;
    for name in names(&mut pen)? {
        let (how, said) = match run(&mut pen, &[&name]) {
            Ok(ended) => ended,
            Err(error) => {
                // Whatever ended process 1 is an escape; the rest is tried in a new pen.
                drop(pen);
                pen = pens.attacked()?;
                ("pen-ended".to_owned(), format!("{error:#}"))
            }
        };
        tell(&name, &how, &said);
    }
    pen.remove()?;
    neighbour.remove()?;
    Ok(())
}

/// One line of the result.
fn tell(name: &str, how: &str, said: &str) {
    println!("{name}\t{how}\t{}", said.replace(['\n', '\t'], " "));
}

struct Pens {
    store: Store,
    backend: String,
    engines: Engines,
}

impl Pens {
    fn open(&self, session: &str) -> Result<Sandbox> {
        let session = format!("agent:main:{session}");
        let target = Target { session: Some(&session), agent: None, backend: Some(&self.backend) };
        let prepared = call::prepare(&self.store, &target)?;
        Ok(prepared.make(&self.engines)?)
    }

    /// A pen with a victim in it.
    fn attacked(&self) -> Result<Sandbox> {
        let mut pen = self.open("attacked")?;
        start(&mut pen, &["victim"])?;
        Ok(pen)
    }
}

/// Starts a command in the background and waits until it says that it is ready.
fn start(pen: &mut Sandbox, words: &[&str]) -> Result<ProcessId> {
    let mut command = command(words);
    let variable = |name: &str, value: &str| EnvVar { name: name.into(), value: value.into() };
    let file = format!("/workspace/{}-is-ready", words.first().unwrap_or(&""));
    command.env.push(variable("SIBLING_SECRET", "the sibling's secret"));
    command.env.push(variable("READY_FILE", &file));
    let started = pen.channel()?.start(&command, 1 << 16)?;
    let place = || Place::InPen(file.clone().into());
    let deadline = Instant::now() + READY_WITHIN;
    while pen.channel()?.stat(place(), Links::Follow).is_err() {
        if Instant::now() > deadline {
            bail!("`{}` is not ready after {READY_WITHIN:?}", words.join(" "));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    // The next one in this workspace has a file of its own.
    pen.channel()?.remove(place(), Depth::One)?;
    Ok(started.process)
}

fn names(pen: &mut Sandbox) -> Result<Vec<String>> {
    let (how, list) = run(pen, &["list"])?;
    if how != "0" {
        bail!("the attacks do not start: {how} {list}");
    }
    Ok(list.lines().filter_map(|line| line.split('\t').next()).map(str::to_owned).collect())
}

fn command(words: &[&str]) -> Command {
    let mut command = Command::new([&[ATTACK], words].concat());
    let is_told = |name: &str| TOLD.iter().any(|start| name.starts_with(start));
    let told = std::env::vars().filter(|(name, _)| is_told(name));
    command.env =
        told.map(|(name, value)| EnvVar { name: name.into(), value: value.into() }).collect();
    command.timeout = Some(LONGEST);
    command
}

/// Runs the attacks' program. An error means that process 1 does not answer any more.
fn run(pen: &mut Sandbox, words: &[&str]) -> Result<(String, String)> {
    let mut output = Captured::new(1 << 20);
    let exited = pen.channel()?.exec(&command(words), &mut output)?;
    pen.channel()?.ping()?;
    let how = match exited.end {
        End::Code(code) => code.to_string(),
        End::Signal(signal) => format!("signal {signal}"),
    };
    output.stdout.extend(output.stderr);
    Ok((how, String::from_utf8_lossy(&output.stdout).trim().to_owned()))
}
