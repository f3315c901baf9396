//! `cargo xtask fuzz [TARGET] [--seconds N]`: the fuzz targets, on the stable toolchain.
//!
//! A target is a file in `fuzz/fuzz_targets` and a `[[bin]]` of the same name in `fuzz/Cargo.toml`.
//! Inputs to start from stand in `fuzz/seeds/<target>`; what the fuzzer learns stays in
//! `fuzz/corpus/<target>`, and a crash in `fuzz/artifacts/<target>`. The last two are not committed.

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result, bail};

use crate::tools::{cargo_fuzz, root, run as run_command, works};

/// Enough to notice a parser that breaks on the first odd byte.
pub(crate) const DEFAULT_SECONDS: u64 = 15;

pub(crate) fn run(args: &[String]) -> Result<ExitCode> {
    let mut seconds = DEFAULT_SECONDS;
    let mut target = None;
    let mut words = args.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--seconds" => {
                let number = words.next().context("--seconds needs a number")?;
                seconds = number.parse().with_context(|| format!("--seconds {number}"))?;
            }
            flag if flag.starts_with('-') => bail!("unknown option `{flag}`"),
            name => target = Some(name.to_owned()),
        }
    }
    let Some(target) = target else {
        every_target(seconds)?;
        return Ok(ExitCode::SUCCESS);
    };
    let known = targets()?;
    if !known.contains(&target) {
        bail!("no fuzz target `{target}`; there are {}", known.join(", "));
    }
    one_target(&tool()?, &target, seconds)?;
    Ok(ExitCode::SUCCESS)
}

/// Fuzzes each target for a time; stops at the first crash.
pub(crate) fn every_target(seconds: u64) -> Result<()> {
    let tool = tool()?;
    for target in targets()? {
        one_target(&tool, &target, seconds)?;
    }
    Ok(())
}

/// Makes sure of what a fuzz build needs.
fn tool() -> Result<std::path::PathBuf> {
    if !works(Command::new("c++").arg("--version")) {
        bail!(
            "`c++` is missing: the fuzzer's runtime is compiled from source; install a C++ compiler"
        );
    }
    cargo_fuzz()
}

fn one_target(tool: &Path, target: &str, seconds: u64) -> Result<()> {
    let corpus = root().join("fuzz/corpus").join(target);
    std::fs::create_dir_all(&corpus).with_context(|| format!("{}", corpus.display()))?;
    let seeds = root().join("fuzz/seeds").join(target);
    let mut command = Command::new(tool);
    // The sanitizer flags are unstable; this variable lets the stable compiler take them.
    command.current_dir(root()).env("RUSTC_BOOTSTRAP", "1");
    command.args(["fuzz", "run", target]).arg(&corpus);
    if seeds.is_dir() {
        command.arg(&seeds);
    }
    // Zero would mean "for ever".
    let time = format!("-max_total_time={}", seconds.max(1));
    command.args(["--", &time, "-rss_limit_mb=2048", "-timeout=10", "-verbosity=0"]);
    command.arg("-print_final_stats=1");
    run_command(&mut command).with_context(|| {
        format!(
            "fuzz target `{target}` failed; if it crashed, the input is in fuzz/artifacts/{target}"
        )
    })
}

/// The names of all targets, sorted.
fn targets() -> Result<Vec<String>> {
    let directory = root().join("fuzz/fuzz_targets");
    let listing =
        std::fs::read_dir(&directory).with_context(|| format!("{}", directory.display()))?;
    let mut names = Vec::new();
    for entry in listing {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "rs") {
            names.extend(path.file_stem().and_then(|stem| stem.to_str()).map(str::to_owned));
        }
    }
    if names.is_empty() {
        bail!("no fuzz target in `{}`", directory.display());
    }
    names.sort();
    Ok(names)
}
