//! `cargo xtask soak [MINUTES]`, `cargo xtask soak lifecycle`: what is too slow for every commit. Ten minutes of fuzzing per
//! target, 100,000 cases per property, 100,000 commands cut as two shell grammars cut them, an hour (six
//! times MINUTES) of made-up commands whose allowed plans really run, under a tracer, 200 kills at random
//! moments, a thousand pens and a hundred containers at once. `lifecycle` is only these last three.

use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};

use crate::fuzz;
use crate::services::Services;
use crate::steps::Steps;
use crate::test;
use crate::tools::{cargo, run as run_command};

const DEFAULT_MINUTES: u64 = 10;

/// How much of what concerns sandboxes that stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Lifecycle {
    /// Kills at random moments, of pens and of containers each.
    rounds: u32,
    pens: u32,
    containers: u32,
}

const LIFECYCLE: Lifecycle = Lifecycle { rounds: 200, pens: 1000, containers: 100 };

pub(crate) fn run(args: &[String]) -> Result<ExitCode> {
    if let Some((name, rest)) = args.split_first()
        && name == "lifecycle"
    {
        let mut steps = Steps::default();
        lifecycle(Lifecycle::parse(rest)?, &mut steps);
        return Ok(steps.finish());
    }
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
    lifecycle(LIFECYCLE, &mut steps);
    steps.run("fuzzing", || fuzz::every_target(minutes.saturating_mul(60)));
    Ok(steps.finish())
}

impl Lifecycle {
    fn parse(args: &[String]) -> Result<Self> {
        let mut wanted = LIFECYCLE;
        for pair in args.chunks(2) {
            let [name, number] = pair else { bail!("`{}` needs a number", pair.join(" ")) };
            let number = number.parse().with_context(|| format!("{name}: `{number}`"))?;
            match name.as_str() {
                "--rounds" => wanted.rounds = number,
                "--pens" => wanted.pens = number,
                "--containers" => wanted.containers = number,
                other => {
                    bail!("unknown option `{other}`; there are --rounds, --pens, --containers")
                }
            }
        }
        Ok(wanted)
    }
}

/// Each test compares processes, mounts, control groups, sockets, files and rows before and after.
fn lifecycle(wanted: Lifecycle, steps: &mut Steps) {
    let mut services = None;
    steps.run("services", || {
        services = Some(Services::start()?);
        Ok(())
    });
    let Some(services) = services else { return };
    steps.run("kills", || test::kills(&services, wanted.rounds));
    steps.run("many pens at once", || test::many_pens(wanted.pens));
    steps.run("many containers at once", || test::many_containers(&services, wanted.containers));
    steps.run("services stopped", || services.stop());
}

fn now_seconds() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.unwrap_or_default().as_secs()
}
