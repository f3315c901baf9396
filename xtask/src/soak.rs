//! `cargo xtask soak [MINUTES]`: what is too slow for every commit. Ten minutes of fuzzing per
//! target, 100,000 cases per property, 100,000 commands cut as two shell grammars cut them, an hour (six
//! times MINUTES) of made-up commands whose allowed plans really run, under a tracer, 200 kills at random
//! moments, a thousand pens at once.

use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};

use crate::fuzz;
use crate::services::Services;
use crate::steps::Steps;
use crate::test;
use crate::tools::{cargo, run as run_command};

const DEFAULT_MINUTES: u64 = 10;
/// Kills at random moments.
const KILLS: u32 = 200;

pub(crate) fn run(args: &[String]) -> Result<ExitCode> {
    let minutes = match args {
        [] => DEFAULT_MINUTES,
        [minutes] => minutes.parse().with_context(|| format!("minutes: `{minutes}`"))?,
        [_, extra, ..] => bail!("takes one argument, got `{extra}` too"),
    };
    let mut steps = Steps::default();
    steps.run("properties", || {
        let mut tests = cargo(&["test", "--release", "--quiet", "--workspace", "--lib"]);
        run_command(tests.env("PROPTEST_CASES", "100000"))
    });
    steps.run("shell grammars", || {
        let mut tests = cargo(&[
            "test",
            "--release",
            "--quiet",
            "--package",
            "clawpen-tests",
            "--test",
            "oracle",
        ]);
        run_command(tests.env("CLAWPEN_ORACLE_COMMANDS", "100000"))
    });
    steps.run("plans that run", || {
        let seconds = minutes.saturating_mul(6 * 60).to_string();
        // Another seed each day; it is printed, so that a failure can be had again.
        let seed = (now_seconds() / 86_400).to_string();
        let run =
            ["run", "--release", "--quiet", "--package", "clawpen-tests", "--bin", "run_plans"];
        run_command(cargo(&run).args(["--", &seconds, &seed]))
    });
    steps.run("kills", || {
        let services = Services::start()?;
        let killed = test::faults(&services, KILLS);
        services.stop()?;
        killed
    });
    steps.run("a thousand pens", test::many_pens);
    steps.run("fuzzing", || fuzz::every_target(minutes.saturating_mul(60)));
    Ok(steps.finish())
}

fn now_seconds() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.unwrap_or_default().as_secs()
}
