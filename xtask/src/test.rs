//! `cargo xtask test [SUITE] [ARGS]`: every test, or one suite against real services; with nextest
//! where it is installed.
//!
//! Without a suite no service is started, and a test that needs one says that it is skipped.

use std::process::{Command, ExitCode};

use anyhow::{Result, bail};

use crate::mcp_clients::Clients;
use crate::reference_cli::ReferenceCli;
use crate::services::Services;
use crate::tools::{cargo, root, run as run_command, works};

/// Kills at random moments when nobody says how many.
const FEW_KILLS: u32 = 10;

/// The suites that need more than this repository: a file or directory in `tests/tests` each.
const SUITES: &[&str] = &["docker", "native", "escape"];

pub(crate) fn run(args: &[String]) -> Result<ExitCode> {
    if let Some((suite, rest)) = args.split_first()
        && SUITES.contains(&suite.as_str())
    {
        one_suite(suite, rest)?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some((suite, rest)) = args.split_first()
        && suite == "faults"
    {
        let services = Services::start()?;
        let rounds = rest.first().and_then(|word| word.parse().ok()).unwrap_or(FEW_KILLS);
        let result = faults(&services, rounds);
        services.stop()?;
        result?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some((suite, rest)) = args.split_first()
        && suite == "mcp"
    {
        mcp(rest)?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some((suite, rest)) = args.split_first()
        && suite == "gateway"
    {
        gateway(rest)?;
        return Ok(ExitCode::SUCCESS);
    }
    programs()?;
    run_command(runner().arg("--workspace").args(args))?;
    if args.is_empty() {
        documentation()?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Tests start the real programs, and a test build does not make those.
fn programs() -> Result<()> {
    run_command(&mut cargo(&["build", "--quiet", "--workspace", "--bins"]))
}

/// Unit, property and integration tests of the workspace, with everything they may need.
pub(crate) fn with_services(services: &Services, args: &[String]) -> Result<()> {
    programs()?;
    services.add_browser()?;
    let clients = Clients::install()?;
    let reference = ReferenceCli::install()?;
    let mut tests = runner();
    tests.arg("--workspace").args(args);
    run_command(services.known_to(clients.known_to(reference.known_to(&mut tests))))
}

/// The gateway over a real socket, also with the reference's own command line. Needs no service.
fn gateway(args: &[String]) -> Result<()> {
    let reference = ReferenceCli::install()?;
    programs()?;
    let mut tests = runner();
    tests.args(["-p", "clawpen-tests", "--test", "gateway"]).args(args);
    run_command(reference.known_to(&mut tests))
}

/// The MCP door, with real clients in processes of their own. Needs no service.
fn mcp(args: &[String]) -> Result<()> {
    let clients = Clients::install()?;
    programs()?;
    let mut tests = runner();
    tests.args(["-p", "clawpen-tests", "--test", "mcp"]).args(args);
    run_command(clients.known_to(&mut tests))
}

/// The tests that leave protections out and kill processes at named moments, which no build that
/// people use can do. `rounds` kills come at random.
pub(crate) fn faults(services: &Services, rounds: u32) -> Result<()> {
    let mut tests = cargo(&["test", "--quiet", "-p", "clawpen", "--features", "fault-switches"]);
    tests.args(["--test", "faults", "--test", "kills", "--", "--test-threads=1"]);
    tests.env("CLAWPEN_KILL_ROUNDS", rounds.to_string());
    run_command(services.known_to(&mut tests))
}

/// Only the kills.
pub(crate) fn kills(services: &Services, rounds: u32) -> Result<()> {
    let mut tests = cargo(&["test", "--quiet", "-p", "clawpen", "--features", "fault-switches"]);
    tests.args(["--test", "kills", "--", "--test-threads=1"]);
    tests.env("CLAWPEN_KILL_ROUNDS", rounds.to_string());
    run_command(services.known_to(&mut tests))
}

/// Many pens at once, in the build that people use.
pub(crate) fn many_pens(count: u32) -> Result<()> {
    let mut tests = cargo(&["test", "--release", "--quiet", "-p", "clawpen-tests"]);
    tests.args(["--test", "lifecycle", "many", "--", "--nocapture"]);
    run_command(tests.env("CLAWPEN_MANY_PENS", count.to_string()))
}

/// Many containers at once.
pub(crate) fn many_containers(services: &Services, count: u32) -> Result<()> {
    let mut tests = cargo(&["test", "--quiet", "-p", "clawpen-tests", "--test", "docker", "many"]);
    tests.args(["--", "--nocapture"]).env("CLAWPEN_MANY_CONTAINERS", count.to_string());
    run_command(services.known_to(&mut tests))
}

/// The tests that stand beside the code.
pub(crate) fn unit() -> Result<()> {
    run_command(runner().args(["--workspace", "--lib", "--bins"]))
}

/// The examples in comments; nextest does not run them.
pub(crate) fn documentation() -> Result<()> {
    run_command(&mut cargo(&["test", "--quiet", "--workspace", "--doc"]))
}

fn one_suite(suite: &str, args: &[String]) -> Result<()> {
    let suites = root().join("tests/tests");
    if !suites.join(suite).is_dir() && !suites.join(format!("{suite}.rs")).is_file() {
        bail!("no suite `{suite}` in tests/tests");
    }
    let services = Services::start()?;
    // Tests start the real programs, and a test build does not make those.
    programs()?;
    if suite == "docker" {
        services.add_browser()?;
    }
    let mut tests = runner();
    tests.args(["-p", "clawpen-tests", "--test", suite]).args(args);
    if suite == "escape" {
        // Its table is wanted even though everything went well.
        show_output(&mut tests);
    }
    let result = run_command(services.known_to(&mut tests));
    services.stop()?;
    result
}

fn show_output(tests: &mut Command) {
    if has_nextest() {
        tests.args(["--success-output", "immediate"]);
    } else {
        tests.args(["--", "--nocapture"]);
    }
}

fn has_nextest() -> bool {
    works(&mut cargo(&["nextest", "--version"]))
}

fn runner() -> Command {
    if has_nextest() {
        // A crate without tests is no failure.
        return cargo(&["nextest", "run", "--no-fail-fast", "--no-tests", "pass"]);
    }
    cargo(&["test", "--quiet", "--no-fail-fast"])
}
