//! What a run leaves behind when somebody ends its keeper.
//!
//! While programs run on the host, this process is a subreaper: whatever loses its keeper becomes a child of ours
//! instead of process 1's, where nobody could tell it from the rest of the machine. It is known by its session: keeper
//! and program each begin one, and no process can go back into ours, which is where all that we start otherwise stays.
//! What runs our own image (other keepers, makers of pens) and what has a pid namespace of its own (pens) is not meant.
//!
//! A program that has somebody else start something (`systemd-run`, `at`, a container daemon), or that ends this
//! process too, is out of reach: it runs as the same user.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use clawpen_os::process::{self, Pid, Signal};
use clawpen_os::tree;

use super::Left;
use crate::supervisor_image;

/// How long what is left is tried to be ended.
const LIMIT: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(5);

/// Runs at work in this process.
static RUNS: Mutex<usize> = Mutex::new(0);
/// Keepers that are waited for elsewhere: how they ended matters there.
static KEEPERS: Mutex<BTreeSet<Pid>> = Mutex::new(BTreeSet::new());

/// Leaves the remains of a keeper to whoever waits for it.
pub(super) fn know(keeper: Pid) {
    KEEPERS.lock().unwrap_or_else(PoisonError::into_inner).insert(keeper);
}

pub(super) fn forget(keeper: Pid) {
    KEEPERS.lock().unwrap_or_else(PoisonError::into_inner).remove(&keeper);
}

/// Makes orphans come to this process until it goes out of scope. Only while it is needed: a pen that is made
/// meanwhile becomes our child too, and stays one.
#[derive(Debug)]
pub(super) struct Gathering(());

impl Gathering {
    pub(super) fn begin() -> std::io::Result<Self> {
        let mut runs = RUNS.lock().unwrap_or_else(PoisonError::into_inner);
        if *runs == 0 {
            process::set_child_subreaper()?;
        }
        *runs += 1;
        Ok(Self(()))
    }
}

impl Drop for Gathering {
    fn drop(&mut self) {
        let mut runs = RUNS.lock().unwrap_or_else(PoisonError::into_inner);
        *runs = runs.saturating_sub(1);
        if *runs == 0 {
            // If that fails, orphans go on coming to us.
            let _kept = process::unset_child_subreaper();
            reap();
        }
    }
}

/// Ends what lost its keeper, which must have been reaped: its children come to us before that.
pub(super) fn end() -> Left {
    let end = Instant::now() + LIMIT;
    // Whoever forks while we look is found the next time; only two looks in a row that find nobody prove it.
    let mut clean = 0;
    while clean < 2 {
        let Some(found) = left() else { return Left::Unknown };
        clean = if found.is_empty() { clean + 1 } else { 0 };
        // Parents are stopped before their children are counted, so that none forks away.
        for signal in [Signal::STOP, Signal::KILL] {
            for pid in &found {
                let below = tree::descendants_of(*pid).unwrap_or_default();
                for pid in std::iter::once(*pid).chain(below) {
                    let _gone = process::kill(pid, signal);
                }
            }
        }
        reap();
        if Instant::now() >= end {
            return Left::Unknown;
        }
        std::thread::sleep(PAUSE);
    }
    Left::Nothing
}

/// Children of ours that nobody keeps; `None` if it cannot be told.
fn left() -> Option<Vec<Pid>> {
    let children = tree::own_children().ok()?;
    let ours = Ours::look()?;
    let left = children.iter().filter(|child| !child.has_ended && child.is_elsewhere);
    Some(left.map(|child| child.pid).filter(|pid| !ours.is(*pid)).collect())
}

/// Reaps what came to us and has ended. A maker of pens may be among it, for which nothing depends on that.
fn reap() {
    let keepers = KEEPERS.lock().unwrap_or_else(PoisonError::into_inner);
    for child in tree::own_children().unwrap_or_default() {
        if child.has_ended && child.is_elsewhere && !keepers.contains(&child.pid) {
            let _gone = process::adopted(child.pid).and_then(|child| child.try_wait());
        }
    }
}

/// How our own processes are known.
struct Ours {
    image: (u64, u64),
    /// One that has forked from us and not yet become another.
    itself: ((u64, u64), Vec<u8>),
}

impl Ours {
    fn look() -> Option<Self> {
        let image = fs::File::from(supervisor_image::program().ok()?.try_clone_to_owned().ok()?);
        let image = image.metadata().ok()?;
        let own = std::process::id();
        Some(Self { image: (image.dev(), image.ino()), itself: (program(own)?, words(own)?) })
    }

    fn is(&self, pid: Pid) -> bool {
        let number = pid.get().unsigned_abs();
        if is_deeper(number) {
            return true;
        }
        let Some(found) = program(number) else {
            // Gone meanwhile, or not to be looked at: then it is none of ours.
            return false;
        };
        let is_fork = found == self.itself.0 && words(number).as_ref() == Some(&self.itself.1);
        found == self.image || is_fork
    }
}

fn program(pid: u32) -> Option<(u64, u64)> {
    let found = fs::metadata(format!("/proc/{pid}/exe")).ok()?;
    Some((found.dev(), found.ino()))
}

/// Whether a process has a pid namespace below ours. `status` tells everybody; the link of the namespace does not.
fn is_deeper(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    numbers.is_some_and(|numbers| numbers.split_whitespace().count() > 1)
}

fn words(pid: u32) -> Option<Vec<u8>> {
    fs::read(format!("/proc/{pid}/cmdline")).ok()
}
