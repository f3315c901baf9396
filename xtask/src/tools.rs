//! The programs that commands run: where they are, how they are called, what to do if one is
//! missing.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context as _, Result, bail};

/// The directory that holds `Cargo.toml`.
pub(crate) fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here)
}

/// The directory of this program: what cargo builds for us lands beside it.
pub(crate) fn built() -> Result<PathBuf> {
    let here = std::env::current_exe().context("cannot find this program")?;
    Ok(here.parent().context("this program has no directory")?.to_owned())
}

/// Cargo, at the root. A run that `CI` names starts from a clean checkout: there the records for
/// the next build would never be read, and they are a third of what the run puts on the disk.
pub(crate) fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args).current_dir(root());
    if std::env::var_os("CI").is_some() {
        command.env("CARGO_INCREMENTAL", "0");
    }
    command
}

/// Runs a command with our input and output; anything but success is an error.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let line = show(command);
    println!("$ {line}");
    let status = command.status().with_context(|| format!("cannot start `{line}`"))?;
    if !status.success() {
        bail!("`{line}` failed ({status})");
    }
    Ok(())
}

/// Runs a command with our input and output and gives its exit code.
pub(crate) fn run_through(command: &mut Command) -> Result<ExitCode> {
    let line = show(command);
    let status = command.status().with_context(|| format!("cannot start `{line}`"))?;
    let code = status.code().with_context(|| format!("`{line}` was killed ({status})"))?;
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

/// Says whether a command can be started and succeeds; prints nothing.
pub(crate) fn works(command: &mut Command) -> bool {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

/// Fails unless a cargo subcommand is there.
pub(crate) fn need(subcommand: &str, install: &str) -> Result<()> {
    if works(&mut cargo(&[subcommand, "--version"])) {
        return Ok(());
    }
    bail!("`cargo {subcommand}` is missing; install it with `{install}`")
}

/// `cargo fuzz`, installed below `target/tools` if it is nowhere else.
pub(crate) fn cargo_fuzz() -> Result<PathBuf> {
    let directory = root().join("target/tools");
    let ours = directory.join("bin/cargo-fuzz");
    for program in [Path::new("cargo-fuzz"), &ours] {
        if works(Command::new(program).args(["fuzz", "--version"])) {
            return Ok(program.to_owned());
        }
    }
    println!("cargo-fuzz is missing; it goes to {}", directory.display());
    let mut install = cargo(&["install", "cargo-fuzz", "--locked", "--root"]);
    run(install.arg(&directory)).context(
        "fuzzing needs cargo-fuzz, and installing it failed; \
         run `cargo install cargo-fuzz --locked` where there is a network",
    )?;
    Ok(ours)
}

fn show(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}
