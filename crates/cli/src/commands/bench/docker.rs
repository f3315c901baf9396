//! The same jobs in a container of ours, beside docker's own command line. Without an engine, or without the
//! image, one row says why there are none.

use std::time::Instant;

use clawpen_engine::backend::Sandbox;
use clawpen_engine::call::{self, OpenError, Prepared, Target};

use super::jobs::{Bench, at_most, file_times, is_true, measured, times, within};
use super::numbers::Times;
use super::rivals::DockerCli;
use super::{BenchError, Measured, Row, Verdict};

/// The agent whose sandbox is a container.
pub(super) const AGENT: &str = "bench-docker";
/// Containers are slow beside pens; fewer of them say as much.
const SHARE: usize = 20;

impl Bench {
    pub(super) fn docker(&self, image: &str) -> Result<Vec<Row>, BenchError> {
        let cli = match DockerCli::start(image) {
            Ok(cli) => cli,
            Err(reason) => return Ok(vec![skipped(reason)]),
        };
        let (prepared, mut sandbox) = match self.container() {
            Ok(found) => found,
            Err(error) => return Ok(vec![skipped(crate::config_report::chain(&error))]),
        };
        let mut ours = Times::default();
        for _ in 0..self.rounds {
            ours.measure(|| is_true(sandbox.channel()?))?;
        }
        let [read, write] = file_times(sandbox.channel()?, prepared.workdir(), self.rounds)?;
        sandbox.remove()?;
        let few = (self.rounds / SHARE).max(3);
        let mut cold = Times::default();
        for _ in 0..few {
            let start = Instant::now();
            let (_, mut sandbox) = self.container()?;
            is_true(sandbox.channel()?)?;
            cold.push(start.elapsed());
            sandbox.remove()?;
        }
        let by_run = measured(&cli.run(image), few)?;
        let by_exec = measured(&cli.exec(), few)?;
        let mut first =
            times("docker: nothing to first result", cold.summary(), String::new(), Verdict::Shown);
        first.rival = by_run.map(|run| ("docker run", run));
        let ours = ours.summary();
        let verdict = match (&ours, &by_exec) {
            (Some(ours), Some(cli)) => within(ours.p50 * 70.0, cli.p50),
            _ => Verdict::Shown,
        };
        let mut exec = times("docker: exec true", ours, ">= 70x faster".into(), verdict);
        exec.rival = by_exec.map(|cli| ("docker exec", cli));
        Ok(vec![
            first,
            exec,
            at_most("docker: read 4 KiB", read, 0.05),
            at_most("docker: atomic write 4 KiB", write, 0.25),
        ])
    }

    /// From nothing, decisions included.
    fn container(&self) -> Result<(Prepared, Sandbox), OpenError> {
        let target = Target { session: None, agent: Some(AGENT), backend: Some("docker") };
        let prepared = call::prepare(&self.store, &target)?;
        let sandbox = prepared.make(&self.engines)?;
        Ok((prepared, sandbox))
    }
}

fn skipped(reason: String) -> Row {
    Row {
        job: "docker",
        ours: Measured::Not(reason),
        rival: None,
        budget: String::new(),
        verdict: Verdict::Shown,
    }
}
