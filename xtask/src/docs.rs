//! `cargo xtask docs`: the API documentation of our crates; a broken link is an error.

use std::process::ExitCode;

use anyhow::Result;

use crate::tools::{cargo, run as run_command};

pub(crate) fn run() -> Result<ExitCode> {
    let mut command = cargo(&["doc", "--quiet", "--workspace", "--no-deps"]);
    run_command(command.arg("--document-private-items").env("RUSTDOCFLAGS", "-D warnings"))?;
    Ok(ExitCode::SUCCESS)
}
