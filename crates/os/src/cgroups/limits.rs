//! Limits, in the words of both generations.

use std::fs;
use std::io;
use std::path::Path;

use super::{Controller, Version};

/// What a leaf is to enforce; `None` is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    /// Bytes of memory. Swap does not add to it where the kernel counts swap.
    pub memory_bytes: Option<u64>,
    /// Tasks.
    pub pids: Option<u64>,
    /// Thousandths of one processor.
    pub cpu_millis: Option<u64>,
}

impl Limits {
    /// What is needed to enforce them.
    pub fn controllers(&self) -> impl Iterator<Item = Controller> {
        [
            self.memory_bytes.map(|_| Controller::Memory),
            self.pids.map(|_| Controller::Pids),
            self.cpu_millis.map(|_| Controller::Cpu),
        ]
        .into_iter()
        .flatten()
    }
}

/// The time over which processor shares are counted, in microseconds.
const PERIOD: u64 = 100_000;
/// The kernel refuses shares below this.
const SMALLEST_QUOTA: u64 = 1_000;
/// v1 has no word for "unlimited memory": it rounds a huge number down to pages.
const HUGE: u64 = 1 << 62;

pub(super) fn write(
    directory: &Path,
    version: Version,
    controllers: &[Controller],
    limits: &Limits,
) -> io::Result<()> {
    let set = |file: &str, value: String| fs::write(directory.join(file), value);
    for controller in controllers {
        match (controller, version) {
            (Controller::Memory, Version::V1) => {
                let Some(bytes) = limits.memory_bytes else { continue };
                set("memory.limit_in_bytes", bytes.to_string())?;
                // After the first: it must not be smaller. Absent without swap accounting.
                optional(set("memory.memsw.limit_in_bytes", bytes.to_string()))?;
            }
            (Controller::Memory, Version::V2) => {
                let Some(bytes) = limits.memory_bytes else { continue };
                set("memory.max", bytes.to_string())?;
                optional(set("memory.swap.max", "0".to_owned()))?;
            }
            (Controller::Pids, _) => {
                let Some(count) = limits.pids else { continue };
                set("pids.max", count.to_string())?;
            }
            (Controller::Cpu, Version::V1) => {
                let Some(quota) = limits.cpu_millis.map(quota) else { continue };
                set("cpu.cfs_period_us", PERIOD.to_string())?;
                set("cpu.cfs_quota_us", quota.to_string())?;
            }
            (Controller::Cpu, Version::V2) => {
                let Some(quota) = limits.cpu_millis.map(quota) else { continue };
                set("cpu.max", format!("{quota} {PERIOD}"))?;
            }
            (Controller::Freezer, _) => {}
        }
    }
    Ok(())
}

fn quota(millis: u64) -> u64 {
    (millis.saturating_mul(PERIOD) / 1000).max(SMALLEST_QUOTA)
}

fn optional(written: io::Result<()>) -> io::Result<()> {
    match written {
        // cgroup files cannot be made, so the kernel says EACCES or ENOENT for those it lacks.
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied
            ) =>
        {
            Ok(())
        }
        other => other,
    }
}

pub(super) fn read(
    directory: &Path,
    version: Version,
    controllers: &[Controller],
    limits: &mut Limits,
) -> io::Result<()> {
    let get = |file: &str| fs::read_to_string(directory.join(file));
    for controller in controllers {
        match (controller, version) {
            (Controller::Memory, Version::V1) => {
                let bytes = number(&get("memory.limit_in_bytes")?);
                limits.memory_bytes = bytes.filter(|bytes| *bytes < HUGE);
            }
            (Controller::Memory, Version::V2) => limits.memory_bytes = number(&get("memory.max")?),
            (Controller::Pids, _) => limits.pids = number(&get("pids.max")?),
            (Controller::Cpu, Version::V1) => {
                let text = format!("{} {}", get("cpu.cfs_quota_us")?, get("cpu.cfs_period_us")?);
                limits.cpu_millis = share(&text);
            }
            (Controller::Cpu, Version::V2) => limits.cpu_millis = share(&get("cpu.max")?),
            (Controller::Freezer, _) => {}
        }
    }
    Ok(())
}

/// `None` for `max`, `-1` and the like.
fn number(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

/// `quota period` as thousandths of one processor.
fn share(text: &str) -> Option<u64> {
    let mut words = text.split_ascii_whitespace();
    let quota = number(words.next()?)?;
    let period = number(words.next()?)?;
    quota.saturating_mul(1000).checked_div(period)
}
