//! `cargo xtask check`: what a commit must pass.

use std::process::ExitCode;

use crate::steps::Steps;
use crate::tools::{cargo, need, run as run_command};
use crate::{replay, test, tidy};

pub(crate) fn run() -> ExitCode {
    let mut steps = Steps::default();
    sources(&mut steps);
    steps.run("unit tests", test::unit);
    steps.run("recorded rows", replay::corpus);
    steps.finish()
}

/// What can be said without running anything: format, lints, tidy.
pub(crate) fn sources(steps: &mut Steps) {
    steps.run("format", || {
        need("fmt", "rustup component add rustfmt")?;
        run_command(&mut cargo(&["fmt", "--all", "--check"]))?;
        // A workspace of its own, so the line above does not see it.
        run_command(&mut cargo(&["fmt", "--manifest-path", "fuzz/Cargo.toml", "--", "--check"]))
    });
    steps.run("lints", || {
        need("clippy", "rustup component add clippy")?;
        let args = ["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"];
        run_command(&mut cargo(&args))
    });
    steps.run("tidy", tidy::check);
}
