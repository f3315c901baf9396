//! The result as a table on the terminal and as `docs/reference/escapes.md`.
//!
//! The page is measured, never written by hand: `CLAWPEN_BLESS=1 cargo xtask test escape` writes it, and
//! without that variable the run compares. On a machine with another kernel or other rivals, only what is
//! said about our own pens has to be the same.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::grounds::{Attempt, Attempts, Went};

/// One mechanism: its name, what it tries, and where it does not apply with the reason.
#[derive(Debug)]
pub(crate) struct Mechanism {
    pub(crate) name: String,
    pub(crate) about: String,
    pub(crate) exempt: Vec<(String, String)>,
}

/// All attempts on one ground.
#[derive(Debug)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) attempts: Attempts,
}

/// What each ground is, for the page.
const GROUNDS: &[(&str, &str)] = &[
    ("outside", "the control: as root of the host, in no sandbox at all"),
    ("root", "a native pen that root has made"),
    ("user", "a native pen of an ordinary user, with `newuidmap` as the only privileged helper"),
    ("docker", "a container of our Docker backend, with our supervisor as process 1"),
    ("bwrap", "`bwrap --unshare-all` with the mounts of a native pen, by an ordinary user"),
    (
        "docker run",
        "a container of `docker run` without options, as root, entered by `docker exec`",
    ),
];

fn word(mechanism: &Mechanism, column: &Column) -> &'static str {
    let is_exempt = mechanism.exempt.iter().any(|(ground, _)| ground == column.name);
    match column.attempts.get(&mechanism.name) {
        None => "?",
        Some(_) if is_exempt => "–",
        Some(Attempt { went: Went::Open, .. }) => "open",
        Some(Attempt { went: Went::Stopped, .. }) => "stopped",
        Some(Attempt { went: Went::CannotTry, .. }) => "–",
    }
}

/// For the terminal.
pub(crate) fn table(mechanisms: &[Mechanism], columns: &[Column]) -> String {
    let mut text = format!("{:24}", "mechanism");
    for column in columns {
        let _ = write!(text, "{:11}", column.name);
    }
    text.push_str("what it tries\n");
    for mechanism in mechanisms {
        let _ = write!(text, "{:24}", mechanism.name);
        for column in columns {
            let _ = write!(text, "{:11}", word(mechanism, column));
        }
        let _ = writeln!(text, "{}", mechanism.about);
    }
    text
}

/// How many work where.
pub(crate) fn summary(mechanisms: &[Mechanism], columns: &[Column]) -> String {
    let count = |column: &Column, wanted: &str| {
        mechanisms.iter().filter(|mechanism| word(mechanism, column) == wanted).count()
    };
    let mut text =
        String::from("| Ground | open | stopped | does not apply | |\n|---|---|---|---|---|\n");
    for column in columns {
        let about =
            GROUNDS.iter().find(|(name, _)| *name == column.name).map_or("", |(_, about)| about);
        let [open, stopped, none] = ["open", "stopped", "–"].map(|wanted| count(column, wanted));
        let _ = writeln!(text, "| {} | {open} | {stopped} | {none} | {about} |", column.name);
    }
    text
}

fn page(mechanisms: &[Mechanism], columns: &[Column]) -> Result<String> {
    let mut text = format!(
        "# Escapes, measured\n\n\
         Every mechanism of the escape suite ({} of them), tried on every ground. `open` means that it worked. Written by\n\
         `CLAWPEN_BLESS=1 cargo xtask test escape`; the same command without the variable measures again and compares.\n\n\
         {}\n\n{}\n",
        mechanisms.len(),
        measured_on()?,
        summary(mechanisms, columns)
    );
    text.push_str("## Mechanisms\n\n| Mechanism | What it tries |");
    for column in columns {
        let _ = write!(text, " {} |", column.name);
    }
    let _ = writeln!(text, "\n|---|---|{}", "---|".repeat(columns.len()));
    for mechanism in mechanisms {
        let _ = write!(text, "| `{}` | {} |", mechanism.name, mechanism.about);
        for column in columns {
            let _ = write!(text, " {} |", word(mechanism, column));
        }
        text.push('\n');
    }
    text.push_str(
        "\n## Where a mechanism does not apply\n\n| Mechanism | Ground | Why |\n|---|---|---|\n",
    );
    for mechanism in mechanisms {
        for (ground, why) in &mechanism.exempt {
            let _ = writeln!(text, "| `{}` | {ground} | {why} |", mechanism.name);
        }
    }
    text.push_str(
        "\n## Without a control here\n\nThis machine has not what they need, so that they are stopped in a pen proves nothing, and they\n\
         are not counted.\n\n| Mechanism | Why |\n|---|---|\n",
    );
    let outside = columns.iter().find(|column| column.name == "outside").context("no control")?;
    for (mechanism, attempt) in mechanisms.iter().filter_map(|mechanism| {
        let attempt = outside.attempts.get(&mechanism.name)?;
        (attempt.went == Went::CannotTry).then_some((mechanism, attempt))
    }) {
        let why = attempt.said.strip_prefix("cannot try: ").unwrap_or(&attempt.said);
        let _ = writeln!(text, "| `{}` | {why} |", mechanism.name);
    }
    Ok(text)
}

/// The kernel and the rivals, in one line.
fn measured_on() -> Result<String> {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let first = |command: &mut Command| -> Result<String> {
        let output = command.output().with_context(|| format!("{command:?}"))?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let bwrap = first(Command::new("bwrap").arg("--version"))?;
    let engine =
        first(Command::new("docker").args(["version", "--format", "{{.Server.Version}}"]))?;
    Ok(format!("Measured on Linux {}, {bwrap}, Docker engine {engine}.", kernel.trim()))
}

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/reference/escapes.md")
}

/// The names on the page, in its order.
pub(crate) fn names() -> Result<Vec<String>> {
    let text = std::fs::read_to_string(path()).context("docs/reference/escapes.md")?;
    Ok(rows(&text).into_iter().map(|row| row.name).collect())
}

/// A row of the page: the name, and what it says about pens of ours.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    name: String,
    ours: Vec<String>,
}

/// The rows of the main table. Its columns: name, about, outside, then our three.
fn rows(text: &str) -> Vec<Row> {
    let table = text.split("## Mechanisms").nth(1).unwrap_or_default();
    let table = table.split("\n## ").next().unwrap_or_default();
    let row = |line: &str| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let name = cells.get(1)?.strip_prefix('`')?.strip_suffix('`')?.to_owned();
        let ours = cells.get(4..7)?.iter().map(|cell| (*cell).to_owned()).collect();
        Some(Row { name, ours })
    };
    table.lines().filter_map(row).collect()
}

/// Writes the page if asked to; else it has to be current.
pub(crate) fn check(mechanisms: &[Mechanism], columns: &[Column]) -> Result<()> {
    let now = page(mechanisms, columns)?;
    if std::env::var_os("CLAWPEN_BLESS").is_some() {
        return std::fs::write(path(), now).context("docs/reference/escapes.md");
    }
    let known = std::fs::read_to_string(path()).context("docs/reference/escapes.md")?;
    let advice =
        "docs/reference/escapes.md is not current: run `CLAWPEN_BLESS=1 cargo xtask test escape`";
    if known.contains(&measured_on()?) {
        let difference = now.lines().zip(known.lines()).find(|(now, known)| now != known);
        ensure!(now == known, "{advice}\nfirst difference: {difference:?}");
    }
    ensure!(rows(&now) == rows(&known), "{advice}");
    Ok(())
}
