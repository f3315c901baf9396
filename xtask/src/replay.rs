//! `cargo xtask replay [DIR] [--failures] [--only NAME]`: recorded rows through the product.
//!
//! Builds the product and the replay program, and gives the latter the path of the former: some
//! rows are answered by the real binary.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result, bail};

use crate::tools::{built, cargo, root, run as run_command, run_through};

/// The variable that tells tests where the product is.
const PRODUCT: &str = "CLAWPEN_BIN";

pub(crate) fn run(args: &[String]) -> Result<ExitCode> {
    let mut directory = default_directory();
    let mut rest = Vec::new();
    let mut words = args.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--failures" => rest.push(word.clone()),
            "--only" => {
                let name = words.next().context("--only needs a name")?;
                rest.extend([word.clone(), name.clone()]);
            }
            flag if flag.starts_with('-') => bail!("unknown option `{flag}`"),
            // Relative to where the user stands, which is our directory too.
            path => {
                let found = std::fs::canonicalize(path);
                directory = found.with_context(|| format!("cannot find `{path}`"))?;
            }
        }
    }
    run_through(program(&directory)?.args(rest))
}

/// The rows that are kept with the source.
pub(crate) fn corpus() -> Result<()> {
    run_command(&mut program(&default_directory())?)
}

fn default_directory() -> PathBuf {
    root().join("tests/corpus")
}

/// The replay program on one directory, built and told where the product is.
fn program(directory: &Path) -> Result<Command> {
    let build = ["build", "--quiet", "--bin", "clawpen", "--bin", "replay"];
    run_command(cargo(&build).args(["-p", "clawpen", "-p", "clawpen-tests"]))?;
    let product = built_program("clawpen")?;
    let mut command = Command::new(built_program("replay")?);
    command.arg(directory).env(PRODUCT, product).current_dir(root());
    Ok(command)
}

fn built_program(name: &str) -> Result<PathBuf> {
    let program = built()?.join(name);
    if !program.is_file() {
        bail!("cargo built `{name}`, but not to `{}`", program.display());
    }
    Ok(program)
}
