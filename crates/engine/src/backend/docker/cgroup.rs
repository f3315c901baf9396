//! The limits that really hold a container's first process, from the kernel's own files.
//!
//! An engine says what it was asked; the group that the process is in says what is enforced. Read
//! from the host's mounts, so only where the host shows them.

use std::fs;
use std::io;
use std::path::Path;

use clawpen_os::cgroups::{Controller, Hierarchies, Version};
use clawpen_rules::facts::CgroupLimits;

use crate::kernel_text;

/// The limits of the groups that hold `process`. A group or file that cannot be read gives none.
pub(super) fn limits(process: u32) -> io::Result<CgroupLimits> {
    let groups = kernel_text::read(format!("/proc/{process}/cgroup"))?;
    let mounts = kernel_text::read("/proc/self/mountinfo")?;
    let hierarchies = Hierarchies::parse(&groups, &mounts);
    let find = |controller| match hierarchies.place(controller) {
        Some(place) => Some(place),
        None => hierarchies.unified().map(|path| (path, Version::V2)),
    };
    let pick = |controller, read: fn(&Path, Version) -> Option<u64>| {
        let (path, version) = find(controller)?;
        read(path, version)
    };
    Ok(CgroupLimits {
        memory: pick(Controller::Memory, memory),
        pids: pick(Controller::Pids, |path, _| number(path, "pids.max")),
        cpu_millis: pick(Controller::Cpu, cpu_millis),
    })
}

fn memory(path: &Path, version: Version) -> Option<u64> {
    match version {
        Version::V1 => number(path, "memory.limit_in_bytes"),
        Version::V2 => number(path, "memory.max"),
    }
}

fn cpu_millis(path: &Path, version: Version) -> Option<u64> {
    let (quota, period) = match version {
        Version::V1 => (number(path, "cpu.cfs_quota_us")?, number(path, "cpu.cfs_period_us")?),
        Version::V2 => {
            let text = fs::read_to_string(path.join("cpu.max")).ok()?;
            let (quota, period) = text.trim().split_once(' ')?;
            (quota.parse().ok()?, period.parse().ok()?)
        }
    };
    quota.checked_mul(1000)?.checked_div(period)
}

/// A number; `None` for `max`, `-1` and what cannot be read.
fn number(path: &Path, file: &str) -> Option<u64> {
    fs::read_to_string(path.join(file)).ok()?.trim().parse().ok()
}
