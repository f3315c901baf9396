//! `cargo xtask bench [ARGS]`: the benchmarks, in a release build, against their budgets.
//!
//! ARGS go to the micro-benchmarks (a name runs only what matches).

use std::process::ExitCode;

use anyhow::Result;

use crate::tools::{cargo, run as run_command, run_through};

pub(crate) fn run(args: &[String]) -> Result<ExitCode> {
    let mut micro = cargo(&["bench", "--quiet", "-p", "clawpen-rules", "--bench", "tool_policy"]);
    if !args.is_empty() {
        micro.arg("--").args(args);
    }
    run_command(&mut micro)?;
    // Whole processes: the benchmark starts the release binary that stands beside it.
    run_command(&mut cargo(&["build", "--quiet", "--release", "-p", "clawpen"]))?;
    run_through(&mut cargo(&["bench", "--quiet", "-p", "clawpen-tests", "--bench", "explain"]))
}
