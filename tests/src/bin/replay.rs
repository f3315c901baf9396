//! `cargo xtask replay DIR [--failures] [--only NAME]`: runs recorded rows through the product.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command of ours that prints")]

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use clawpen_tests::replay;

struct Args {
    directory: PathBuf,
    show_failures: bool,
    only: Option<String>,
}

fn main() -> ExitCode {
    match parse().and_then(|args| run(&args)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("replay: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

fn parse() -> Result<Args> {
    let mut args = Args { directory: corpus(), show_failures: false, only: None };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--failures" => args.show_failures = true,
            "--only" => args.only = Some(words.next().context("--only needs a name")?),
            flag if flag.starts_with('-') => bail!("unknown option `{flag}`"),
            directory => args.directory = PathBuf::from(directory),
        }
    }
    Ok(args)
}

/// Runs the files; says whether every row passed.
fn run(args: &Args) -> Result<bool> {
    let corpus = corpus();
    let fixtures = [args.directory.as_path(), corpus.as_path()];
    let listing = std::fs::read_dir(&args.directory)
        .with_context(|| format!("cannot read `{}`", args.directory.display()))?;
    let mut files: Vec<PathBuf> =
        listing.collect::<Result<Vec<_>, _>>()?.into_iter().map(|entry| entry.path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "jsonl"));
    files.sort();
    let (mut passed, mut failed, mut not_yet, mut matched) = (0, 0, 0, 0);
    for file in &files {
        let name = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        // NAME may be a corpus (`explain`) or one of its categories (`explain/invalid`).
        let (wanted, category) = match args.only.as_deref().map(|only| only.split_once('/')) {
            Some(Some((corpus, category))) => (Some(corpus), Some(category)),
            Some(None) => (args.only.as_deref(), None),
            None => (None, None),
        };
        if wanted.is_some_and(|wanted| wanted != name) {
            continue;
        }
        matched += 1;
        let tally = replay::run_file(file, category, &fixtures)?;
        if args.show_failures {
            for (id, why) in &tally.failures {
                println!("FAILED {id}\n  {}\n", why.replace('\n', "\n  "));
            }
        }
        println!(
            "{name}: {} passed, {} failed{}",
            tally.passed,
            tally.failed,
            later(tally.not_yet)
        );
        for (rule, rows) in &tally.rules {
            println!("    compat rule `{rule}`: {rows} rows");
        }
        passed += tally.passed;
        failed += tally.failed;
        not_yet += tally.not_yet;
    }
    if matched == 0 {
        bail!("no recording to run in `{}`", args.directory.display());
    }
    if not_yet > 0 {
        println!("not yet: {not_yet} rows belong to parts that are not built yet");
    }
    println!("{passed} passed, {failed} failed");
    Ok(failed == 0)
}

fn later(not_yet: usize) -> String {
    if not_yet == 0 { String::new() } else { format!(", {not_yet} not yet") }
}
