//! `run_plans SECONDS [SEED]`: makes up commands, and runs those that the analyser allows.
//!
//! Every program of the pool is on the allowlist, shells and carriers among them. What is allowed is
//! frozen and run by the product's own runner, in a process that is confined to a directory of its
//! own; a tracer sees every program that is started below it. An allowed plan must start the programs
//! it lists, with the words it lists, and no other. Prints a tally; ends with 1 at the first other
//! program.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command of ours that prints")]

#[path = "run_plans/generate.rs"]
mod generate;
#[path = "run_plans/traced.rs"]
mod traced;
#[path = "run_plans/tracer.rs"]
mod tracer;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

/// The first word of the process that runs plans.
const TRACED: &str = "--traced";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let result = match words.first().map(String::as_str) {
        Some(TRACED) => traced::serve(&words),
        _ => trace(&words),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("run_plans: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn trace(words: &[String]) -> Result<()> {
    let (seconds, seed) = match words {
        [seconds] => (seconds, "1"),
        [seconds, seed] => (seconds, seed.as_str()),
        _ => bail!("usage: run_plans SECONDS [SEED]"),
    };
    let seconds = seconds.parse().with_context(|| format!("seconds: `{seconds}`"))?;
    let seed = seed.parse().with_context(|| format!("seed: `{seed}`"))?;
    let tally = tracer::run(Duration::from_secs(seconds), seed)?;
    println!("{tally}");
    Ok(())
}
