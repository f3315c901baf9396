//! `cargo xtask tidy`: the rules of this house that no compiler knows.
//!
//! Reads the tree once; each part below takes the files and gives [`Problem`]s. Nothing is changed.

mod compat;
mod crates;
mod map;
mod sources;

use std::fmt;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};

use crate::tools::root;

/// A file of the tree: its path from the root, with `/`, and its text.
#[derive(Debug)]
pub(crate) struct File {
    pub path: String,
    pub text: String,
}

/// Something that must not stay as it is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    path: String,
    /// Counted from 1; 0 for the file as a whole.
    line: usize,
    what: String,
}

impl Problem {
    pub(crate) fn new(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, what: what.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.what),
            line => write!(f, "{}:{line}: {}", self.path, self.what),
        }
    }
}

pub(crate) fn run() -> Result<ExitCode> {
    check()?;
    println!("tidy");
    Ok(ExitCode::SUCCESS)
}

/// Prints every problem; fails if there is one.
pub(crate) fn check() -> Result<()> {
    let mut files = Vec::new();
    read(root(), "", &mut files)?;
    files.sort_by(|a, b| a.path.cmp(&b.path));
    let parts = [sources::check, crates::check, map::check, compat::check];
    let problems: Vec<Problem> = parts.iter().flat_map(|part| part(&files)).collect();
    for problem in &problems {
        println!("{problem}");
    }
    if !problems.is_empty() {
        bail!("{} to tidy up", problems.len());
    }
    Ok(())
}

/// Directories that hold nothing of ours to read: builds, and data that others wrote.
const SKIPPED: &[&str] = &[
    ".git",
    "target",
    "fuzz/target",
    "fuzz/corpus",
    "fuzz/artifacts",
    "fuzz/coverage",
    "fuzz/seeds",
];

/// Reads every text file below a directory. What is no text is left out.
fn read(directory: &Path, prefix: &str, files: &mut Vec<File>) -> Result<()> {
    let listing = std::fs::read_dir(directory).with_context(|| directory.display().to_string())?;
    for entry in listing {
        let entry = entry?;
        let path = format!("{prefix}{}", entry.file_name().to_string_lossy());
        let kind = entry.file_type()?;
        if kind.is_dir() && !SKIPPED.contains(&path.as_str()) {
            read(&entry.path(), &format!("{path}/"), files)?;
        } else if kind.is_file()
            && let Ok(text) = std::fs::read_to_string(entry.path())
        {
            files.push(File { path, text });
        }
    }
    Ok(())
}
