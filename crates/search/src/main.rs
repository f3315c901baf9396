//! The program behind `grep` and `find`: searches a tree and prints records.
//!
//! ```text
//! grep [--limit=N] [--context=N] [--ignore-case] [--literal] [--glob=GLOB] -- PATTERN ROOT
//! find [--limit=N] -- GLOB ROOT
//! ```
//!
//! The engine gives it to the sandbox's supervisor, which runs it there like any command: confined, with the sandbox's own view and
//! limits. It never runs in process 1 and never on the host. Its answer (the records of `rules/tools/search.rs`) is
//! believed in nothing but what the model is shown.
#![forbid(unsafe_code)]

mod options;
mod pattern;
mod records;
mod tree;
mod walk;

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Instant;

use options::{Options, Tool};
use records::{End, Records};

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    match run(&words, io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        // Nobody reads any more.
        Err(_) => ExitCode::FAILURE,
    }
}

fn run(words: &[OsString], out: impl Write) -> io::Result<()> {
    let started = Instant::now();
    let mut records = Records::new(io::BufWriter::new(out));
    let searched = Options::parse(words).and_then(|options| match options.tool {
        Tool::Grep => tree::grep(&options, started, &mut records),
        Tool::Find => tree::find(&options, started, &mut records),
    });
    let end = searched.unwrap_or_else(End::Failed);
    records.finish(&end)
}

#[cfg(test)]
mod tests;
