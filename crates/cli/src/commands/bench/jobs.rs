//! The jobs of the design's budgets, each with its rival in turns.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clawpen_engine::backend::{Engines, Sandbox};
use clawpen_engine::call::{self, Keeping, OpenError, Prepared, Target};
use clawpen_engine::channel::{Captured, Channel, Command, WriteOptions};
use clawpen_engine::config_store::{self, Store};
use clawpen_wire::supervisor::{End, Place};

use super::numbers::{Summary, Times};
use super::reference::Reference;
use super::rivals::{self, Rival};
use super::{BenchError, Measured, Row, Verdict, system};
use crate::args::BenchArgs;
use crate::output::Output;

/// One page, the size that file tools mostly move.
const FILE_BYTES: usize = 4096;
/// Cold starts are slow beside execs; fewer of them say as much.
const COLD_SHARE: usize = 2;
/// What a command in a live sandbox may take beside a plain one, in milliseconds.
pub(super) const OVER_PLAIN: f64 = 0.25;
/// The jobs that need an engine.
const DOCKER_JOBS: [&str; 2] = ["docker", "containers"];

pub(super) fn all(args: &BenchArgs, output: &Output) -> Result<Vec<Row>, BenchError> {
    let store = config_store::open()?;
    let wants = |job: &str| {
        let backend = if DOCKER_JOBS.contains(&job) { "docker" } else { "native" };
        let is_named = match (args.mcp, args.gateway, args.only.is_empty()) {
            (true, _, _) => job == "mcp",
            (false, true, _) => job == "gateway",
            (false, false, true) => true,
            (false, false, false) => args.only.iter().any(|only| only == job),
        };
        is_named && args.backend.as_deref().is_none_or(|only| only == backend)
    };
    let bench = Bench { store, engines: Engines::default(), rounds: args.rounds.max(1) };
    let mut rows = Vec::new();
    if wants("create") {
        output.status("create");
        rows.extend(bench.create()?);
    }
    if wants("exec") {
        output.status("exec");
        rows.extend(bench.exec()?);
    }
    if wants("files") {
        output.status("files");
        rows.extend(bench.files()?);
    }
    if wants("mcp") {
        output.status("mcp");
        rows.extend(bench.mcp()?);
    }
    if wants("gateway") {
        output.status("gateway");
        rows.extend(bench.gateway(reference(args)?.as_ref())?);
    }
    if wants("docker") {
        output.status("docker");
        rows.extend(bench.docker(&args.image)?);
    }
    if wants("containers") {
        output.status("containers");
        rows.extend(bench.containers(args.containers)?);
    }
    if wants("pens") {
        output.status("pens");
        rows.extend(bench.pens(args.pens)?);
    }
    if wants("state") {
        output.status("state");
        rows.extend(bench.state(args.pens)?);
    }
    if wants("workspace") {
        output.status("workspace");
        rows.extend(bench.workspace(args.files, output)?);
    }
    output.status("");
    Ok(rows)
}

/// The reference that was named; one that is named and not there is an error, not an empty column.
fn reference(args: &BenchArgs) -> Result<Option<Reference>, BenchError> {
    let named = || std::env::var_os("CLAWPEN_REFERENCE_CLI").map(PathBuf::from);
    let Some(place) = args.reference.clone().or_else(named) else { return Ok(None) };
    let missing = || BenchError::Tool(format!("the reference is not in `{}`", place.display()));
    Reference::at(&place).map(Some).ok_or_else(missing)
}

pub(super) struct Bench {
    pub(super) store: Store,
    pub(super) engines: Engines,
    pub(super) rounds: usize,
}

pub(super) fn is_true(channel: &mut Channel) -> Result<(), BenchError> {
    let mut output = Captured::new(0);
    let exited = channel.exec(&Command::new(["/bin/true"]), &mut output)?;
    if exited.end == End::Code(0) { Ok(()) } else { Err(BenchError::NotTrue) }
}

pub(super) fn within(ours: f64, budget: f64) -> Verdict {
    if ours <= budget { Verdict::Met } else { Verdict::Missed }
}

pub(super) fn times(
    row: &'static str,
    summary: Option<Summary>,
    budget: String,
    verdict: Verdict,
) -> Row {
    let ours = summary.map_or_else(|| Measured::Not("no rounds".to_owned()), Measured::Times);
    Row { job: row, ours, rival: None, budget, verdict }
}

/// A row whose budget is a time.
pub(super) fn at_most(job: &'static str, summary: Option<Summary>, budget: f64) -> Row {
    let verdict = summary.map_or(Verdict::Shown, |found| within(found.p50, budget));
    times(job, summary, format!("<= {budget} ms"), verdict)
}

/// Reads and writes of one page in turns.
pub(super) fn file_times(
    channel: &mut Channel,
    workdir: &str,
    rounds: usize,
) -> Result<[Option<Summary>; 2], BenchError> {
    let place = || Place::InPen(Path::new(workdir).join("bench-file"));
    let contents = vec![b'x'; FILE_BYTES];
    let (mut reads, mut writes) = <(Times, Times)>::default();
    for _ in 0..rounds {
        writes.measure(|| {
            channel.write(place(), WriteOptions::default(), &mut contents.as_slice())
        })?;
        let mut read = Vec::with_capacity(FILE_BYTES);
        reads.measure(|| channel.read(place(), 0, u64::MAX, &mut read))?;
    }
    Ok([reads.summary(), writes.summary()])
}

impl Bench {
    fn prepare(&self, agent: &str) -> Result<Prepared, BenchError> {
        let target = Target { session: None, agent: Some(agent), backend: Some("native") };
        Ok(call::prepare(&self.store, &target)?)
    }

    fn open(&self, agent: &str) -> Result<Sandbox, BenchError> {
        self.open_by(agent, &self.engines)
    }

    fn open_by(&self, agent: &str, engines: &Engines) -> Result<Sandbox, BenchError> {
        Ok(self.prepare(agent)?.make(engines)?)
    }

    fn workspace_of(&self, agent: &str) -> Result<PathBuf, BenchError> {
        Ok(self.prepare(agent)?.explanation.runtime.layout.mounted().into())
    }

    /// With nothing made ahead.
    fn cold(&self, agent: &str) -> Result<Duration, BenchError> {
        self.first_result(agent, &self.engines)
    }

    /// From nothing to the end of the first command, decisions included.
    fn first_result(&self, agent: &str, engines: &Engines) -> Result<Duration, BenchError> {
        let start = Instant::now();
        // As `exec --fresh` does.
        engines.begin();
        let mut sandbox = self.open_by(agent, engines)?;
        is_true(sandbox.channel()?)?;
        let time = start.elapsed();
        sandbox.remove()?;
        Ok(time)
    }

    fn create(&self) -> Result<Vec<Row>, BenchError> {
        self.cold("bench")?;
        let bwrap = rivals::bwrap(&self.workspace_of("bench")?);
        let (mut ours, mut theirs, mut whole) = <(Times, Times, Times)>::default();
        let (mut ready, mut pool) = <(Times, Times)>::default();
        // As a door that lives long has them; cold starts get by without.
        let door = Engines::default();
        for _ in 0..(self.rounds / COLD_SHARE).max(1) {
            ours.push(self.cold("bench")?);
            self.prepare("bench")?.stock(&door, Keeping::Fresh, 1)?;
            pool.push(self.first_result("bench", &door)?);
            door.keep_ready(1);
            ready.push(self.first_result("bench", &door)?);
            if let Some(bwrap) = &bwrap {
                theirs.measure(|| bwrap.run())?;
            }
            whole.measure(own_process)?;
        }
        let rival = bwrap.as_ref().map(|bwrap| bwrap.name).zip(theirs.summary());
        let ours = ours.summary();
        let verdict = match (&ours, &rival) {
            (Some(ours), Some((_, bwrap))) => within(ours.p50, 0.8 * bwrap.p50),
            _ => Verdict::Shown,
        };
        let mut first =
            times("native: nothing to first result", ours, "<= 0.8x bwrap".into(), verdict);
        first.rival = rival;
        let process = times(
            "the same as a process: clawpen exec",
            whole.summary(),
            String::new(),
            Verdict::Shown,
        );
        let pool = at_most("native: the same, from a warm pool", pool.summary(), 1.5);
        let ready = times(
            "native: the same, a maker waits",
            ready.summary(),
            String::new(),
            Verdict::Shown,
        );
        Ok(vec![first, pool, ready, process])
    }

    fn exec(&self) -> Result<Vec<Row>, BenchError> {
        let mut sandbox = self.open("bench")?;
        let plain = rivals::plain();
        let (mut ours, mut theirs) = <(Times, Times)>::default();
        for _ in 0..self.rounds {
            ours.measure(|| is_true(sandbox.channel()?))?;
            theirs.measure(|| plain.run())?;
        }
        sandbox.remove()?;
        let (ours, theirs) = (ours.summary(), theirs.summary());
        let verdict = match (&ours, &theirs) {
            (Some(ours), Some(plain)) => within(ours.p50, plain.p50 + OVER_PLAIN),
            _ => Verdict::Shown,
        };
        let mut row = times("native: exec true", ours, "<= fork+exec + 0.25 ms".into(), verdict);
        row.rival = theirs.map(|theirs| (plain.name, theirs));
        Ok(vec![row])
    }

    fn files(&self) -> Result<Vec<Row>, BenchError> {
        let prepared = self.prepare("bench")?;
        let mut sandbox = prepared.make(&self.engines)?;
        let [read, write] = file_times(sandbox.channel()?, prepared.workdir(), self.rounds)?;
        sandbox.remove()?;
        Ok(vec![
            at_most("native: read 4 KiB", read, 0.05),
            at_most("native: atomic write 4 KiB", write, 0.25),
        ])
    }

    fn pens(&self, count: usize) -> Result<Vec<Row>, BenchError> {
        let prepared = self.prepare("bench")?;
        let start = Instant::now();
        let mut pens = crowd(&prepared, count)?;
        let created = start.elapsed();
        for pen in &mut pens {
            pen.channel()?.ping()?;
        }
        let processes: Vec<u32> = pens.iter().map(Sandbox::first_process).collect();
        let memory = shared_memory(&processes);
        let start = Instant::now();
        for pen in pens {
            pen.remove()?;
        }
        let removed = start.elapsed();
        let left = processes.iter().filter(|pid| is_alive(**pid)).count();
        let scale = |budget: f64| {
            u32::try_from(count).map_or(f64::MAX, |count| budget * f64::from(count) / 1000.0)
        };
        let figure = |job, text, budget: String, verdict| Row {
            job,
            ours: Measured::Figure(text),
            rival: None,
            budget,
            verdict,
        };
        let memory_row = match memory {
            Some(kib) => figure(
                "  memory of each (PSS)",
                format!("{kib} KiB"),
                "<= 512 KiB".into(),
                if kib <= 512 { Verdict::Met } else { Verdict::Missed },
            ),
            None => figure(
                "  memory of each (PSS)",
                "only root can see".into(),
                String::new(),
                Verdict::Shown,
            ),
        };
        Ok(vec![
            figure(
                "idle pens, all answer",
                format!("{count} in {:.2} s", created.as_secs_f64()),
                format!("<= {:.1} s", scale(3.0)),
                within(created.as_secs_f64(), scale(3.0)),
            ),
            memory_row,
            figure(
                "  closing them leaves",
                format!("{left} in {:.2} s", removed.as_secs_f64()),
                "nothing".into(),
                if left == 0 { Verdict::Met } else { Verdict::Missed },
            ),
        ])
    }

    fn workspace(&self, count: usize, output: &Output) -> Result<Vec<Row>, BenchError> {
        self.cold("bench")?;
        self.cold("large")?;
        fill(&self.workspace_of("large")?, count)?;
        output.status("workspace: measuring");
        let rounds = (self.rounds / COLD_SHARE).max(1);
        let (mut small, mut large) = <(Times, Times)>::default();
        for _ in 0..rounds {
            small.push(self.cold("bench")?);
            large.push(self.cold("large")?);
        }
        let (mut small_exec, mut large_exec) = <(Times, Times)>::default();
        let mut empty = self.open("bench")?;
        let mut full = self.open("large")?;
        for _ in 0..self.rounds {
            small_exec.measure(|| is_true(empty.channel()?))?;
            large_exec.measure(|| is_true(full.channel()?))?;
        }
        empty.remove()?;
        full.remove()?;
        let row = |job, large: Times, small: Times| {
            let (large, small) = (large.summary(), small.summary());
            let verdict = match (&large, &small) {
                // A tenth is what two equal jobs differ by here.
                (Some(large), Some(small)) => within(large.p50, small.p50 * 1.1),
                _ => Verdict::Shown,
            };
            let mut row = times(job, large, "costs nothing (<= 1.1x)".into(), verdict);
            row.rival = small.map(|small| ("empty workspace", small));
            row
        };
        Ok(vec![
            row("large workspace: create", large, small),
            row("large workspace: exec true", large_exec, small_exec),
        ])
    }
}

/// Makes many pens as a door that lives long makes them: its makers come from one that was started once, and each
/// pen is made from nothing. On two threads a processor, because each of them waits for its pen's own processes
/// most of the time.
pub(super) fn crowd(prepared: &Prepared, count: usize) -> Result<Vec<Sandbox>, BenchError> {
    let threads = 2 * std::thread::available_parallelism().map_or(1, usize::from);
    let make = |count: usize| -> Result<Vec<Sandbox>, OpenError> {
        let engines = Engines::default();
        engines.keep_ready(1);
        (0..count).map(|_| prepared.make(&engines)).collect()
    };
    let share = |thread: usize| count / threads + usize::from(thread < count % threads);
    std::thread::scope(|scope| {
        let makers: Vec<_> =
            (0..threads).map(|thread| scope.spawn(move || make(share(thread)))).collect();
        let mut pens = Vec::with_capacity(count);
        for maker in makers {
            let joined = maker.join().map_err(|_panic| BenchError::Thread)?;
            pens.extend(joined?);
        }
        Ok(pens)
    })
}

pub(super) fn measured(rival: &Rival, rounds: usize) -> Result<Option<Summary>, BenchError> {
    let mut times = Times::default();
    for _ in 0..rounds {
        times.measure(|| rival.run())?;
    }
    Ok(times.summary())
}

/// The whole program, as a person starts it.
fn own_process() -> Result<(), BenchError> {
    let us = std::env::current_exe().map_err(system("find ourselves"))?;
    let status = std::process::Command::new(us)
        .args(["exec", "--fresh", "--backend", "native", "--", "/bin/true"])
        .status()
        .map_err(system("start ourselves"))?;
    if status.success() { Ok(()) } else { Err(BenchError::NotTrue) }
}

/// Whether a process still does something. One that has ended and waits for the machine's init to take
/// note of it does not.
fn is_alive(pid: u32) -> bool {
    let Ok(text) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    let state = text.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    !matches!(state, Some('Z' | 'X') | None)
}

/// Mean proportional memory of a pen in KiB, with all its processes; `None` if it may not be read.
pub(super) fn shared_memory(processes: &[u32]) -> Option<u64> {
    let mut sum: u64 = 0;
    let below = processes.iter().flat_map(|pid| {
        let list = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        let list = list.unwrap_or_default();
        list.split_whitespace().filter_map(|child| child.parse().ok()).collect::<Vec<u32>>()
    });
    for pid in processes.iter().copied().chain(below) {
        let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
        sum += line.split_whitespace().next()?.parse::<u64>().ok()?;
    }
    sum.checked_div(processes.len() as u64)
}

/// Files in directories of a thousand.
fn fill(directory: &Path, count: usize) -> Result<(), BenchError> {
    const EACH: usize = 1000;
    let fail = || system("fill the large workspace");
    for start in (0..count).step_by(EACH) {
        let below = directory.join(format!("d{start}"));
        fs::create_dir_all(&below).map_err(fail())?;
        for number in start..count.min(start + EACH) {
            fs::File::create(below.join(format!("f{number}"))).map_err(fail())?;
        }
    }
    Ok(())
}
