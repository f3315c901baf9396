//! The process that runs plans: confined first, then traced, then at the tracer's service.
//!
//! Reads commands as JSON lines; for each writes a line with the plan that is about to run, or `null`,
//! runs it, and stops itself with a signal that the tracer waits for.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, Write as _};
use std::os::fd::AsFd as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clawpen_engine::host_exec::{self, Errors, Limits, Unseen};
use clawpen_engine::program_files::{RealPrograms, Writers};
use clawpen_os::landlock::{self, Access, Ruleset};
use clawpen_os::process as os;
use clawpen_rules::command::{Entry, Pattern, Plan, Request, SafeBins, Trust, analyse, decide};
use nix::sys::ptrace;
use nix::sys::signal::{Signal, raise};
use serde_json::{Value, json};

use super::generate::PROGRAMS;

/// Said to the tracer when a command is done.
pub(super) const DONE: Signal = Signal::SIGUSR1;
const NOBODY: u32 = 65_534;

/// Serves until the tracer closes the input. `words`: the mark, and the directory.
pub(super) fn serve(words: &[String]) -> Result<()> {
    let directory = words.get(1).context("no directory")?;
    let entries = entries();
    confine(Path::new(directory))?;
    ptrace::traceme().context("cannot be traced")?;
    raise(Signal::SIGSTOP)?;
    let environment = BTreeMap::from([
        ("PATH".to_owned(), "/usr/bin:/bin".to_owned()),
        ("HOME".to_owned(), directory.clone()),
    ]);
    // Only the directory itself is the agent's; it runs as somebody who owns nothing else.
    let programs = RealPrograms::new(Writers::of_process(vec![directory.clone()]));
    let errors = Errors::Apart;
    let limits = Limits { time: Duration::from_millis(800), output_bytes: 1 << 14, errors };
    let mut output = std::io::stdout();
    for line in std::io::stdin().lock().lines() {
        let text: String = serde_json::from_str(&line?)?;
        let plan = allowed(&text, directory, &environment, &entries, &programs);
        writeln!(output, "{}", plan.as_ref().map_or(Value::Null, shape))?;
        output.flush()?;
        if let Some(plan) = plan {
            let ended = host_exec::run(&plan, &programs, limits, &mut Unseen);
            let ended =
                ended.map_or_else(|error| format!("{error:#}"), |run| format!("{:?}", run.end));
            writeln!(output, "{}", json!(ended))?;
            output.flush()?;
        }
        raise(DONE)?;
    }
    Ok(())
}

/// Every program of the pool that is here and is no script.
fn entries() -> Vec<Entry> {
    let found = PROGRAMS.iter().map(|name| format!("/usr/bin/{name}")).filter(|path| {
        let start = std::fs::read(path).unwrap_or_default();
        start.starts_with(b"\x7fELF")
    });
    found
        .map(|path| Entry { pattern: Pattern::compile(&path, None), binding: None, pin: None })
        .collect()
}

/// Writes nowhere but in the directory, as nobody if we are root.
fn confine(directory: &Path) -> Result<()> {
    let root = File::open("/")?;
    let own = File::open(directory)?;
    let null = File::open("/dev/null")?;
    os::set_no_new_privs()?;
    if os::identity()?.uid == 0 {
        os::set_groups(&[])?;
        os::set_gid(NOBODY)?;
        os::set_uid(NOBODY)?;
    }
    let request = landlock::Request {
        paths: vec![
            (root.as_fd(), Access::READ | Access::EXECUTE),
            (own.as_fd(), Access::READ | Access::WRITE | Access::EXECUTE),
            (null.as_fd(), Access::READ | Access::WRITE_EXISTING),
        ],
        tcp: Some(landlock::TcpPorts::default()),
        scope: landlock::Scope::default(),
    };
    let ruleset = Ruleset::build(&request)?.context("this kernel has no Landlock")?;
    ruleset.restrict_self()?;
    std::env::set_current_dir(directory)?;
    Ok(())
}

/// The plan of a command that may run without asking.
fn allowed(
    text: &str,
    cwd: &str,
    environment: &BTreeMap<String, String>,
    entries: &[Entry],
    programs: &RealPrograms,
) -> Option<Plan> {
    let request = Request { text, cwd, home: Some(cwd), environment };
    let analysis = analyse(&request, programs).ok()?;
    let safe_bins = SafeBins::default();
    let trust = Trust { entries, safe_bins: &safe_bins, skills: &[] };
    decide(&analysis, &trust, programs).is_satisfied().then_some(())?;
    analysis.freeze(programs).ok()
}

/// What a plan says that it starts.
fn shape(plan: &Plan) -> Value {
    let steps = plan.steps().iter().map(|step| {
        let others: Vec<&String> = step.others.iter().map(|file| &file.real_path).collect();
        json!({
            "joint": step.joint.as_str(),
            "file": step.file.real_path,
            "argv": step.argv,
            "others": others,
        })
    });
    steps.collect()
}
