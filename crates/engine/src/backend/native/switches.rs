//! Test builds may leave a protection out, to prove that its absence is noticed: what the engine itself
//! does, here; what the maker and process 1 do, in the supervisor, which is told.
//!
//! Without the feature `fault-switches` nothing here does anything.

use std::ffi::CString;

use clawpen_os::cgroups::Limits;

/// What the maker is told by its environment.
#[cfg(feature = "fault-switches")]
pub(crate) fn switches() -> Vec<CString> {
    let fault = std::env::var("CLAWPEN_FAULT").ok();
    fault
        .and_then(|fault| CString::new(format!("CLAWPEN_FAULT={fault}")).ok())
        .into_iter()
        .collect()
}

#[cfg(not(feature = "fault-switches"))]
pub(crate) const fn switches() -> Vec<CString> {
    Vec::new()
}

/// The limits without the one that the test wants to lose.
#[cfg(feature = "fault-switches")]
pub(super) fn spoiled(mut limits: Limits) -> Limits {
    let faults = std::env::var("CLAWPEN_FAULT").unwrap_or_default();
    for fault in faults.split(',') {
        match fault {
            "cgroup:memory" => limits.memory_bytes = None,
            "cgroup:pids" => limits.pids = None,
            "cgroup:cpu" => limits.cpu_millis = None,
            _ => {}
        }
    }
    limits
}

#[cfg(not(feature = "fault-switches"))]
pub(super) const fn spoiled(limits: Limits) -> Limits {
    limits
}
