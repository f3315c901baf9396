//! How long `sandbox explain --json` takes as a whole process, against its budget.
//!
//! Prints medians beside the start of an empty program in the same run, and ends with an error if a
//! budget is missed. The reference CLI needs 3.2 s and 375 MiB for the same answer on the machine
//! where the budgets were set.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use clawpen_tests::home::Home;
use nix::sys::resource::{UsageWho, getrusage};

/// A 300th of the reference's 3.2 s.
const PLAIN_BUDGET: Duration = Duration::from_micros(10_600);
const MANY_AGENTS_BUDGET: Duration = Duration::from_millis(50);
const MEMORY_BUDGET_KIB: i64 = 20 * 1024;
const RUNS: usize = 200;

fn main() -> ExitCode {
    let plain =
        Home::with_config("{agents: {defaults: {sandbox: {mode: 'all', scope: 'session'}}}}");
    let agents: Vec<String> = (0..1000)
        .map(|n| format!("{{id: 'agent-{n}', sandbox: {{mode: 'all', docker: {{image: 'i:{n}', memory: '1g'}}}}}}"))
        .collect();
    let many = Home::with_config(&format!("{{agents: {{list: [{}]}}}}", agents.join(",\n")));
    let explain = |home: &Home, agent: &str| {
        let mut command = home.command(&["sandbox", "explain", "--json", "--agent", agent]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let empty = median(&mut Command::new("/bin/true"));
    let plain_time = median(&mut explain(&plain, "main"));
    let memory = getrusage(UsageWho::RUSAGE_CHILDREN).map_or(i64::MAX, |usage| usage.max_rss());
    let many_time = median(&mut explain(&many, "agent-999"));
    let many_memory =
        getrusage(UsageWho::RUSAGE_CHILDREN).map_or(i64::MAX, |usage| usage.max_rss());
    println!("empty program                {:>9.2} ms", ms(empty));
    let ok = [
        report("explain --json", plain_time, PLAIN_BUDGET),
        report("explain --json, 1,000 agents", many_time, MANY_AGENTS_BUDGET),
        memory <= MEMORY_BUDGET_KIB,
    ];
    println!(
        "peak memory                  {memory:>9} KiB (budget {MEMORY_BUDGET_KIB}); with 1,000 agents {many_memory} KiB"
    );
    if ok.iter().all(|ok| *ok) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn report(name: &str, time: Duration, budget: Duration) -> bool {
    println!("{name:28} {:>9.2} ms (budget {:.2})", ms(time), ms(budget));
    time <= budget
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

fn median(command: &mut Command) -> Duration {
    let mut times: Vec<Duration> = (0..RUNS)
        .filter_map(|_| {
            let start = Instant::now();
            let status = command.status().ok()?;
            status.success().then(|| start.elapsed())
        })
        .collect();
    times.sort();
    // No run succeeded: over every budget.
    times.get(times.len() / 2).copied().unwrap_or(Duration::MAX)
}
