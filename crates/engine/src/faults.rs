//! Moments at which a test can stop or kill this process, each with a name.
//!
//! Every change of state has one: what a kill there leaves behind must be found and put right by the
//! next call. Only in builds with the feature `fault-switches`, and in tests of this crate, is any
//! variable read; in every other build [`reached`] is nothing.
//!
//! ```text
//! CLAWPEN_FAULT=kill:native.made   dies there at once, as by kill -9
//! CLAWPEN_FAULT=stop:native.made   stops there until it is told to go on, so that others can be killed
//! ```

/// Every moment, for tests that try them all.
pub const ALL: &[&str] = &[
    "native.directory",
    "native.planned",
    "native.made",
    "native.proven",
    "native.written",
    "native.sealed",
    "native.set-up",
    "docker.placed",
    "docker.created",
    "docker.planned",
    "docker.started",
    "docker.met",
    "docker.proven",
    "docker.written",
    "docker.sealed",
    "docker.set-up",
    "ensure.locked",
    "ensure.reserved",
    "ensure.made",
    "ensure.ready",
    "ensure.connected",
    "call.leased",
    "call.ran",
    "call.released",
    "remove.marked",
    "remove.gone",
    "remove.forgotten",
    "workspace.made",
    "workspace.recorded",
    "workspace.seeded",
    "workspace.released",
    "skills.built",
    "skills.announced",
    "skills.swapped",
    "skills.recorded",
    "skills.trashed",
    "media.copied",
    "trash.reserved",
    "trash.moved",
    "trash.restored",
    "trash.restore-noted",
    "trash.doomed",
    "trash.deleted",
    "reseed.built",
    "reseed.swapped",
    "reseed.recorded",
];

/// The process gets to the moment called `name`.
#[cfg(any(test, feature = "fault-switches"))]
pub(crate) fn reached(name: &str) {
    use clawpen_os::process::{self, Pid, Signal};

    let Ok(list) = std::env::var("CLAWPEN_FAULT") else { return };
    debug_assert!(ALL.contains(&name), "{name} is not in the list");
    for fault in list.split(',') {
        let signal = match fault.split_once(':') {
            Some(("kill", point)) if point == name => Some(Signal::KILL),
            Some(("stop", point)) if point == name => Signal::new(libc::SIGSTOP),
            _ => None,
        };
        if let Some(signal) = signal {
            // There is nothing to tell anybody: either it works or the test notices.
            let _ = process::kill(Pid::this(), signal);
        }
    }
}

/// Nothing: this build has no switches.
#[cfg(not(any(test, feature = "fault-switches")))]
pub(crate) const fn reached(_: &str) {}
