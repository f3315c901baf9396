//! `cargo xtask <command>`: everything this repository can do to itself. One file per command.
//!
//! Nothing has to be installed first: what a command needs and may fetch, it puts below `target/`;
//! what it may not, it names and fails.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "commands of ours that print")]

mod bench;
mod check;
mod ci;
mod docs;
mod fuzz;
mod mcp_clients;
mod reference_cli;
mod replay;
mod services;
mod soak;
mod steps;
mod test;
mod tidy;
mod tools;

use std::process::ExitCode;

use anyhow::{Result, bail};

const USAGE: &str = "\
cargo xtask <command>

  check                                 what a commit must pass: format, lints, tidy, unit tests, corpus
  ci                                    check, every test, recorded rows, 15 s of fuzzing per target
  test [ARGS]                           every test; ARGS go to the runner (a name runs only what matches)
  test gateway [ARGS]                   the gateway with the reference's own command line, which is installed into the target directory
  test mcp [ARGS]                       the MCP door with the official clients, which are installed into the target directory
  test docker|native|escape|faults [ARGS]
                                        one suite against real services (root installs what is missing)
  services [COMMAND…]                   a command, or a shell, while those services run
  replay [DIR] [--failures] [--only NAME]
                                        recorded rows through the product; DIR defaults to tests/corpus
  tidy                                  the rules of this house that no compiler knows
  fuzz [TARGET] [--seconds N]           every fuzz target, or one; 15 s each
  soak [MINUTES]                        long fuzzing (10 minutes per target), 100,000 cases per property, an hour of plans that run
  soak lifecycle [--rounds N] [--pens N] [--containers N]
                                        kills at random (200), pens (1,000) and containers (100) at once
  bench [ARGS]                          micro-benchmarks
  docs                                  API documentation; a broken link is an error
";

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let command = args.next().unwrap_or_default();
    match run(&command, &args.collect::<Vec<_>>()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("xtask {command}: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: &str, args: &[String]) -> Result<ExitCode> {
    match command {
        "check" => no_args(args).map(|()| check::run()),
        "ci" => no_args(args).map(|()| ci::run()),
        "test" => test::run(args),
        "replay" => replay::run(args),
        "tidy" => no_args(args).and_then(|()| tidy::run()),
        "services" => services::run(args),
        "fuzz" => fuzz::run(args),
        "soak" => soak::run(args),
        "bench" => bench::run(args),
        "docs" => no_args(args).and_then(|()| docs::run()),
        "" | "help" | "--help" | "-h" => {
            println!("{USAGE}");
            Ok(ExitCode::SUCCESS)
        }
        other => bail!("unknown command `{other}`\n\n{USAGE}"),
    }
}

fn no_args(args: &[String]) -> Result<()> {
    match args.first() {
        None => Ok(()),
        Some(extra) => bail!("takes no argument, got `{extra}`"),
    }
}
