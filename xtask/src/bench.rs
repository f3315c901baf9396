//! `cargo xtask bench [ARGS]`: micro-benchmarks; ARGS go to them (a name runs only what matches).

use std::process::ExitCode;

use anyhow::Result;

use crate::tools::{cargo, run_through};

pub(crate) fn run(args: &[String]) -> Result<ExitCode> {
    let mut command = cargo(&["bench", "--quiet", "--workspace", "--benches"]);
    if !args.is_empty() {
        command.arg("--").args(args);
    }
    run_through(&mut command)
}
