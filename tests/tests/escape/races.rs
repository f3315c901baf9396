//! Every file operation against a command that swaps names; and, as control, the same operations by someone
//! who checks a path and then uses it.

use std::fs;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use clawpen_tests::built;

use crate::bombs::all_is_well;

#[test]
fn no_race_leads_a_file_operation_out_of_its_root() -> Result<()> {
    all_is_well("races", 13)
}

/// How long the control may try each operation before it counts as lost.
const PATIENCE: Duration = Duration::from_secs(60);

/// Does it once by path, after the path was found to be inside; tells whether it came out outside.
type Naive = fn(&Path, &Path) -> io::Result<bool>;

const NAIVE: &[(&str, Naive)] = &[
    ("read", |path, _| Ok(fs::read(path.join("file"))? == b"outside")),
    ("write", |path, outside| {
        fs::write(path.join("made"), "x")?;
        Ok(outside.join("made").exists())
    }),
    ("append", |path, outside| {
        fs::OpenOptions::new().append(true).open(path.join("file"))?.write_all(b"x")?;
        Ok(fs::read(outside.join("file"))? != b"outside")
    }),
    ("stat", |path, _| Ok(fs::metadata(path.join("only-outside")).is_ok())),
    ("list", |path, _| {
        Ok(fs::read_dir(path)?.flatten().any(|entry| entry.file_name() == "only-outside"))
    }),
    ("mkdir", |path, outside| {
        fs::create_dir(path.join("directory"))?;
        Ok(outside.join("directory").exists())
    }),
    ("remove", |path, outside| {
        fs::remove_file(path.join("only-outside"))?;
        Ok(!outside.join("only-outside").exists())
    }),
    ("rename", |path, outside| {
        fs::rename(path.join("file"), path.join("moved"))?;
        Ok(outside.join("moved").exists())
    }),
    ("copy", |path, _| {
        let copy = path.with_file_name("copy");
        fs::copy(path.join("file"), &copy)?;
        Ok(fs::read(copy)?.starts_with(b"outside"))
    }),
    // Reading it all is what a hash does.
    ("hash", |path, _| Ok(fs::read(path.join("file"))?.starts_with(b"outside"))),
];

#[test]
fn whoever_checks_a_path_and_then_uses_it_loses_every_race() -> Result<()> {
    let directory = tempfile::tempdir()?;
    for (name, naive) in NAIVE {
        let (root, outside) = (directory.path().join(name), directory.path().join("outside"));
        let mut racer = Command::new(built("clawpen-attacks")?);
        racer.arg("race").args([&root, &outside]).stdout(Stdio::piped());
        let mut racer = racer.spawn()?;
        let output = racer.stdout.take().context("its output")?;
        BufReader::new(output).read_line(&mut String::new())?;
        let lost = loses(&root, &outside, *naive);
        racer.kill()?;
        racer.wait()?;
        let rounds = lost.with_context(|| format!("{name} was never led out"))?;
        println!("{name}: led out after {rounds} rounds");
        fs::remove_dir_all(&outside)?;
    }
    Ok(())
}

/// Checks, then uses, until it is led out; gives how many rounds that took.
fn loses(root: &Path, outside: &Path, naive: Naive) -> Result<u64> {
    let deadline = Instant::now() + PATIENCE;
    let place = root.join("place");
    let mut rounds = 0;
    loop {
        ensure!(Instant::now() < deadline, "{rounds} rounds");
        rounds += 1;
        let is_inside = fs::canonicalize(&place).is_ok_and(|real| real.starts_with(root));
        // Whoever checks has something to do before he uses; this is the least of it.
        std::thread::yield_now();
        if is_inside && naive(&place, outside).unwrap_or(false) {
            return Ok(rounds);
        }
    }
}
