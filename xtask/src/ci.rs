//! `cargo xtask ci`: all there is. Nothing is skipped: what is missing is installed or fails.

use std::process::ExitCode;

use anyhow::Context as _;

use crate::services::Services;
use crate::steps::Steps;
use crate::{check, fuzz, replay, test};

/// Kills at random moments.
const KILLS: u32 = 20;

pub(crate) fn run() -> ExitCode {
    let mut steps = Steps::default();
    check::sources(&mut steps);
    let mut services = None;
    steps.run("services", || {
        services = Some(Services::start()?);
        Ok(())
    });
    steps.run("tests", || {
        let services = services.as_ref().context("the services did not start")?;
        test::with_services(services, &[])
    });
    steps.run("faults and kills", || {
        let services = services.as_ref().context("the services did not start")?;
        test::faults(services, KILLS)
    });
    if let Some(services) = services {
        steps.run("services stopped", || services.stop());
    }
    steps.run("documentation tests", test::documentation);
    steps.run("fuzzing", || fuzz::every_target(fuzz::DEFAULT_SECONDS));
    // Last, so that the tally of the recorded rows stands right above the summary.
    steps.run("recorded rows", replay::corpus);
    steps.finish()
}
