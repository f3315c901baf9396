//! `cargo xtask test [ARGS]`: every test, with nextest where it is installed.

use std::process::ExitCode;

use anyhow::Result;

use crate::tools::{cargo, run as run_command, works};

pub(crate) fn run(args: &[String]) -> Result<ExitCode> {
    all(args)?;
    if args.is_empty() {
        documentation()?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Unit, property and integration tests of the workspace.
pub(crate) fn all(args: &[String]) -> Result<()> {
    // Tests start the real programs, and a test build does not make those.
    run_command(&mut cargo(&["build", "--quiet", "--workspace", "--bins"]))?;
    run_command(runner().arg("--workspace").args(args))
}

/// The tests that stand beside the code.
pub(crate) fn unit() -> Result<()> {
    run_command(runner().args(["--workspace", "--lib", "--bins"]))
}

/// The examples in comments; nextest does not run them.
pub(crate) fn documentation() -> Result<()> {
    run_command(&mut cargo(&["test", "--quiet", "--workspace", "--doc"]))
}

fn runner() -> std::process::Command {
    if works(&mut cargo(&["nextest", "--version"])) {
        // A crate without tests is no failure.
        return cargo(&["nextest", "run", "--no-fail-fast", "--no-tests", "pass"]);
    }
    cargo(&["test", "--quiet", "--no-fail-fast"])
}
