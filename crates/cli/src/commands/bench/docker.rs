//! The same jobs in a container of ours, beside the engine's bare API, its command line and a plain process,
//! and whether they cost more where many containers live. Without an engine, or without the image, one row
//! says why there are none.

use std::path::Path;
use std::thread;
use std::time::Instant;

use clawpen_engine::backend::Sandbox;
use clawpen_engine::call::{self, OpenError, Prepared, Target};

use super::api::BareApi;
use super::jobs::{
    Bench, at_most, crowd, file_times, is_true, measured, shared_memory, times, within,
};
use super::numbers::{Summary, Times};
use super::rivals::{self, DockerCli};
use super::{BenchError, Measured, Row, Verdict};

/// The agent whose sandbox is a container.
pub(super) const AGENT: &str = "bench-docker";
/// Containers are slow beside pens; fewer of them say as much.
const SHARE: usize = 20;
/// The smaller crowd is this part of the larger one.
const SMALLER: usize = 5;
/// What two equal jobs differ by here.
const SAME: f64 = 1.1;

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
        let plain = rivals::plain();
        let (mut ours, mut theirs) = <(Times, Times)>::default();
        for _ in 0..self.rounds {
            ours.measure(|| is_true(sandbox.channel()?))?;
            theirs.measure(|| plain.run())?;
        }
        let [read, write] = file_times(sandbox.channel()?, prepared.workdir(), self.rounds)?;
        sandbox.remove()?;
        let few = (self.rounds / SHARE).max(3);
        let by_exec = measured(&cli.exec(), few)?;
        let (ours, theirs) = (ours.summary(), theirs.summary());
        let mut exec = beside("docker: exec true", ours, (plain.name, theirs), |ours, plain| {
            within(ours.p50, plain.p50 + 0.25)
        });
        exec.budget = "<= fork+exec + 0.25 ms".into();
        let mut faster = beside(
            "docker: the same beside the CLI",
            ours,
            ("docker exec", by_exec),
            |ours, cli| within(ours.p50 * 70.0, cli.p50),
        );
        faster.budget = ">= 70x faster".into();
        let workspace = prepared.explanation.runtime.layout.mounted();
        let mut rows = match BareApi::new(image, Path::new(workspace)) {
            Ok(api) => vec![self.docker_create(&api, few)?],
            Err(reason) => vec![skipped(reason)],
        };
        rows.extend([
            exec,
            faster,
            at_most("docker: read 4 KiB", read, 0.05),
            at_most("docker: atomic write 4 KiB", write, 0.25),
        ]);
        Ok(rows)
    }

    /// From nothing to the first result, in turns with a plain container that is started and no more.
    fn docker_create(&self, api: &BareApi, rounds: usize) -> Result<Row, BenchError> {
        let (mut ours, mut theirs) = <(Times, Times)>::default();
        for _ in 0..rounds {
            ours.push(self.cold_container()?);
            let id = theirs.measure(|| api.start())?;
            api.remove(&id)?;
        }
        let bare = ("bare create+start", theirs.summary());
        let mut row =
            beside("docker: create to first output", ours.summary(), bare, |ours, bare| {
                within(ours.p50, SAME * bare.p50)
            });
        row.budget = "<= 1.1x".into();
        Ok(row)
    }

    /// The same jobs while `count` containers live, beside the same while a fifth of them do.
    pub(super) fn containers(&self, count: usize) -> Result<Vec<Row>, BenchError> {
        let (prepared, first) = match self.container() {
            Ok(found) => found,
            Err(error) => return Ok(vec![skipped(crate::config_report::chain(&error))]),
        };
        let few = count / SMALLER;
        let mut live = vec![first];
        live.extend(crowd(&prepared, few.saturating_sub(live.len()))?);
        let smaller = self.among(&prepared, &mut live)?;
        live.extend(crowd(&prepared, count.saturating_sub(live.len()))?);
        let larger = self.among(&prepared, &mut live)?;
        let processes: Vec<u32> = live.iter().map(Sandbox::first_process).collect();
        let memory = shared_memory(&processes);
        dissolve(live)?;
        let jobs = [
            "many containers: create",
            "many containers: exec true",
            "many containers: read 4 KiB",
            "many containers: atomic write",
        ];
        let mut rows: Vec<Row> = jobs
            .into_iter()
            .zip(larger.into_iter().zip(smaller))
            .map(|(job, (larger, smaller))| {
                let mut row =
                    beside(job, larger, ("a fifth of them", smaller), |larger, smaller| {
                        within(larger.p50, SAME * smaller.p50)
                    });
                row.budget = "does not grow (<= 1.1x)".into();
                row
            })
            .collect();
        rows.push(Row {
            job: "  memory of each, ours (PSS)",
            ours: match memory {
                Some(kib) => Measured::Figure(format!("{kib} KiB, {count} live")),
                None => Measured::Not("only root can see".into()),
            },
            rival: None,
            budget: String::new(),
            verdict: Verdict::Shown,
        });
        Ok(rows)
    }

    /// Create, exec, read and write among the containers that live.
    fn among(
        &self,
        prepared: &Prepared,
        live: &mut [Sandbox],
    ) -> Result<[Option<Summary>; 4], BenchError> {
        let (mut create, mut exec) = <(Times, Times)>::default();
        for _ in 0..(self.rounds / SHARE).max(3) {
            create.push(self.cold_container()?);
        }
        let mut read_write = [None, None];
        if let Some(one) = live.first_mut() {
            for _ in 0..self.rounds {
                exec.measure(|| is_true(one.channel()?))?;
            }
            read_write = file_times(one.channel()?, prepared.workdir(), self.rounds)?;
        }
        let [read, write] = read_write;
        Ok([create.summary(), exec.summary(), read, write])
    }

    /// A container from nothing to its first result, and its end.
    fn cold_container(&self) -> Result<std::time::Duration, BenchError> {
        let start = Instant::now();
        let (_, mut sandbox) = self.container()?;
        is_true(sandbox.channel()?)?;
        let took = start.elapsed();
        sandbox.remove()?;
        Ok(took)
    }

    /// From nothing, decisions included.
    fn container(&self) -> Result<(Prepared, Sandbox), OpenError> {
        let target = Target { session: None, agent: Some(AGENT), backend: Some("docker") };
        let prepared = call::prepare(&self.store, &target)?;
        let sandbox = prepared.make(&self.engines)?;
        Ok((prepared, sandbox))
    }
}

/// A row whose budget is measured beside it in the same run.
fn beside(
    job: &'static str,
    ours: Option<Summary>,
    (name, theirs): (&'static str, Option<Summary>),
    judge: impl FnOnce(&Summary, &Summary) -> Verdict,
) -> Row {
    let verdict = match (&ours, &theirs) {
        (Some(ours), Some(theirs)) => judge(ours, theirs),
        (Some(_) | None, None) | (None, Some(_)) => Verdict::Shown,
    };
    let mut row = times(job, ours, String::new(), verdict);
    row.rival = theirs.map(|theirs| (name, theirs));
    row
}

/// Removes many, on as many threads as there are processors.
fn dissolve(mut live: Vec<Sandbox>) -> Result<(), BenchError> {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let each = live.len().div_ceil(threads).max(1);
    thread::scope(|scope| {
        let mut running = Vec::new();
        while !live.is_empty() {
            let part = live.split_off(live.len().saturating_sub(each));
            running.push(scope.spawn(move || -> Result<(), BenchError> {
                part.into_iter().try_for_each(|sandbox| Ok(sandbox.remove()?))
            }));
        }
        running
            .into_iter()
            .try_for_each(|thread| thread.join().map_err(|_panic| BenchError::Thread)?)
    })
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
