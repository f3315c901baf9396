//! Buries the dead, and the undead: every ended child is reaped, what has lost its shim is killed, and a shim that
//! was stopped goes on.
//!
//! While a shim lives, everything of its command is below it. A child of process 1 that is no shim is
//! therefore an orphan of a shim that was killed, by us or by its own command, and goes.

use clawpen_os::process::{self, Pid, Reaped, Signal};
use clawpen_os::tree;

use crate::processes;

/// Reaps everything that has ended; gives each number to `ended`.
pub(crate) fn reap(mut ended: impl FnMut(Pid)) {
    // An error other than "no children" cannot happen to a caller that only waits for its own.
    while let Ok(Reaped::Ended(child)) = process::reap_any() {
        ended(child.pid);
    }
}

/// Has every shim go on that somebody has stopped: nobody has a reason to, and its report is waited for. Other
/// stopped children are orphans, which stay so until they are killed.
pub(crate) fn wake(is_shim: impl Fn(Pid) -> bool) {
    while let Ok(Some(pid)) = process::stopped_any() {
        if is_shim(pid) {
            // Our child, and not reaped: the number is still its own.
            let _ = process::kill(pid, Signal::CONT);
        }
    }
}

/// Kills every child that `is_shim` does not know, with all its descendants. Says whether there was none.
pub(crate) fn kill_orphans(is_shim: impl Fn(Pid) -> bool) -> bool {
    let orphans = || -> Vec<Pid> {
        let children = tree::children_of(Pid::this()).unwrap_or_default();
        children.into_iter().filter(|pid| !is_shim(*pid)).collect()
    };
    if orphans().is_empty() {
        return true;
    }
    processes::stop_and_kill(|| {
        let mut found = orphans();
        let below: Vec<Pid> =
            found.iter().flat_map(|pid| tree::descendants_of(*pid).unwrap_or_default()).collect();
        found.extend(below);
        found
    });
    false
}
