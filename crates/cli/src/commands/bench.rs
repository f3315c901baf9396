//! `clawpen bench`: measures sandboxes on this machine, beside bwrap, docker and a plain process in
//! the same run, against the budgets of the design.
//!
//! The measuring runs in a child of its own with a state directory that is thrown away, so that no
//! config and no workspace of the user is read or touched.

mod api;
mod docker;
mod gateway;
mod jobs;
mod mcp;
mod numbers;
mod reference;
mod rivals;
mod state;

use std::path::{Path, PathBuf};

use clawpen_engine::channel::CallError;
use clawpen_engine::machine;
use serde_json::{Value, json};

use super::CommandError;
use crate::args::{BenchArgs, Format};
use crate::exit::{self, Outcome};
use crate::output::Output;
use numbers::Summary;

/// Tells the child that it is the child.
const CHILD: &str = "CLAWPEN_BENCH_CHILD";

/// One line of the result.
struct Row {
    job: &'static str,
    ours: Measured,
    rival: Option<(&'static str, Summary)>,
    budget: String,
    verdict: Verdict,
}

/// What was measured of ours.
enum Measured {
    Times(Summary),
    /// A figure of another kind, in words.
    Figure(String),
    /// Why nothing was measured.
    Not(String),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Met,
    Missed,
    /// There is no budget, or nothing to compare with.
    Shown,
}

/// A measurement could not be made.
#[derive(Debug, thiserror::Error)]
enum BenchError {
    #[error(transparent)]
    Open(#[from] clawpen_engine::call::OpenError),
    #[error(transparent)]
    Database(#[from] clawpen_engine::database::DatabaseError),
    #[error(transparent)]
    Registry(#[from] clawpen_engine::registry::RegistryError),
    #[error(transparent)]
    Ensure(#[from] clawpen_engine::lifecycle::EnsureError),
    #[error(transparent)]
    Store(#[from] clawpen_engine::config_store::StoreError),
    #[error("a call failed")]
    Call(#[from] CallError),
    #[error("a sandbox could not be removed")]
    Remove(#[from] clawpen_engine::backend::RemoveError),
    #[error("cannot {what}")]
    System {
        what: &'static str,
        #[source]
        cause: std::io::Error,
    },
    #[error("`true` ended with something else than success")]
    NotTrue,
    #[error("a tool call failed: {0}")]
    Tool(String),
    #[error("a thread of the benchmark failed")]
    Thread,
}

fn system(what: &'static str) -> impl FnOnce(std::io::Error) -> BenchError {
    move |cause| BenchError::System { what, cause }
}

pub(crate) fn run(args: &BenchArgs, output: &Output) -> Result<Outcome, CommandError> {
    if std::env::var_os(CHILD).is_none() {
        return outer(args, output);
    }
    if cfg!(debug_assertions) {
        output.note("note: this is no release build; the figures mean little");
    }
    // A thousand pens need two descriptors each.
    machine::raise_open_files();
    let rows = match jobs::all(args, output) {
        Ok(rows) => rows,
        Err(error) => {
            return Err(CommandError::Question { what: crate::config_report::chain(&error) });
        }
    };
    match args.format.format() {
        Format::Json => output.json(&rows.iter().map(row_json).collect::<Vec<_>>())?,
        Format::Text => output.lines(&table(&rows, output))?,
    }
    let is_met = rows.iter().all(|row| row.verdict != Verdict::Missed);
    Ok(if is_met { Outcome::Done } else { Outcome::Code(exit::ERROR) })
}

/// Runs ourselves again with a state directory of its own, and clears up whatever happens to it.
fn outer(args: &BenchArgs, output: &Output) -> Result<Outcome, CommandError> {
    let state = Scratch::make()?;
    // A file that is there: without one every round would begin with a warning.
    let config = state.0.join("openclaw.json");
    let text = config_text(&args.image);
    std::fs::write(&config, text)
        .map_err(|cause| CommandError::Write { path: config.display().to_string(), cause })?;
    let us = std::env::current_exe()?;
    let status = std::process::Command::new(us)
        .args(std::env::args_os().skip(1))
        .env(CHILD, "1")
        .env("OPENCLAW_STATE_DIR", &state.0)
        .env("OPENCLAW_CONFIG_PATH", &config)
        .status()?;
    drop(state);
    let Some(code) = status.code() else {
        output.note("error: the measuring process was killed");
        return Ok(Outcome::Code(exit::ERROR));
    };
    Ok(Outcome::Code(u8::try_from(code).unwrap_or(exit::ERROR)))
}

/// Pens as everyone gets them, and an agent whose sandbox is a container: native knows no images.
fn config_text(image: &str) -> String {
    let container = json!({ "backend": "docker", "docker": { "image": image } });
    json!({ "agents": {
        "defaults": { "sandbox": { "backend": "native" } },
        "list": [
            { "id": "bench" },
            { "id": docker::AGENT, "sandbox": container },
            { "id": state::CROWD, "sandbox": { "scope": "session" } },
        ],
    } })
    .to_string()
}

/// A directory that goes with its value.
struct Scratch(PathBuf);

impl Scratch {
    fn make() -> Result<Self, CommandError> {
        use std::os::unix::fs::DirBuilderExt as _;
        let path = std::env::temp_dir().join(format!("clawpen-bench-{}", std::process::id()));
        std::fs::DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .map_err(|cause| CommandError::Write { path: path.display().to_string(), cause })?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed lies in the system's directory for such things.
        drop(std::fs::remove_dir_all(&self.0));
    }
}

fn summary_json(summary: &Summary) -> Value {
    json!({ "p50Ms": summary.p50, "p95Ms": summary.p95, "p99Ms": summary.p99, "rounds": summary.rounds })
}

fn row_json(row: &Row) -> Value {
    let (ours, figure, reason) = match &row.ours {
        Measured::Times(summary) => (Some(summary_json(summary)), None, None),
        Measured::Figure(text) => (None, Some(text), None),
        Measured::Not(reason) => (None, None, Some(reason)),
    };
    json!({
        "job": row.job,
        "ours": ours,
        "figure": figure,
        "notMeasured": reason,
        "rival": row.rival.as_ref().map(|(name, summary)| {
            let mut value = summary_json(summary);
            if let Some(fields) = value.as_object_mut() {
                fields.shift_insert(0, "name".to_owned(), json!(name));
            }
            value
        }),
        "ratio": ratio(row),
        "budget": row.budget,
        "met": match row.verdict {
            Verdict::Met => Some(true),
            Verdict::Missed => Some(false),
            Verdict::Shown => None,
        },
    })
}

fn ratio(row: &Row) -> Option<f64> {
    let Measured::Times(ours) = &row.ours else { return None };
    let (_, rival) = row.rival.as_ref()?;
    Some(ours.p50 / rival.p50)
}

fn table(rows: &[Row], output: &Output) -> Vec<String> {
    let mut lines = vec![output.dim(&format!(
        "{:34} {:>26}  {:24} {:>8}  budget",
        "job (milliseconds)", "p50 / p95 / p99", "beside (p50)", "ratio"
    ))];
    for row in rows {
        let ours = match &row.ours {
            Measured::Times(summary) => summary.to_string(),
            Measured::Figure(text) => text.clone(),
            Measured::Not(reason) => {
                lines.push(format!("{:34} not measured: {reason}", row.job));
                continue;
            }
        };
        let rival = row.rival.as_ref();
        let beside = rival.map(|(name, summary)| format!("{name} {:.3}", summary.p50));
        let ratio = ratio(row).map(|ratio| format!("{ratio:.3}"));
        let verdict = match row.verdict {
            Verdict::Met => "met",
            Verdict::Missed => "MISSED",
            Verdict::Shown => "",
        };
        lines.push(format!(
            "{:34} {ours:>26}  {:24} {:>8}  {} {verdict}",
            row.job,
            beside.unwrap_or_default(),
            ratio.unwrap_or_default(),
            row.budget
        ));
    }
    lines
}

/// Where a program is, if it is installed.
fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(name)).find(|file| is_program(file))
}

fn is_program(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(file)
        .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}
