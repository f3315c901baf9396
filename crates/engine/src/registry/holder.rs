//! Names this process, and says whether a process that was named earlier still runs.

use std::os::unix::fs::MetadataExt as _;
use std::sync::Mutex;
use std::{fs, io};

use super::row::{Holder, Liveness};
use crate::clock;
use crate::process_identity::{self, Life};

impl Holder {
    /// This process. Looked up once.
    pub fn this() -> io::Result<Self> {
        static KNOWN: Mutex<Option<Holder>> = Mutex::new(None);
        let pid = std::process::id();
        let mut known = KNOWN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // A fork has another number.
        if let Some(known) = known.as_ref().filter(|known| known.pid == pid) {
            return Ok(known.clone());
        }
        let missing = || io::Error::other("this process is not listed in `/proc`");
        let found = Self {
            pid,
            start_time: process_identity::listed(pid)?.ok_or_else(missing)?.start_time,
            boot_id: clock::boot_id()?.to_owned(),
            pid_namespace: pid_namespace()?,
        };
        *known = Some(found.clone());
        Ok(found)
    }

    /// Says whether this process still runs. What cannot be found out is not dead.
    pub fn liveness(&self) -> Liveness {
        let Ok(boot) = clock::boot_id() else { return Liveness::Unknown };
        // A state directory is one machine's, so another boot is an earlier one.
        if boot != self.boot_id {
            return Liveness::Dead;
        }
        match pid_namespace() {
            Ok(own) if own == self.pid_namespace => {}
            Ok(_) | Err(_) => return Liveness::Unknown,
        }
        match process_identity::listed(self.pid) {
            Ok(Some(found)) if found.start_time == self.start_time => match found.life {
                // Until it is gone it may still hold what it held.
                Life::Lives | Life::Ends => Liveness::Alive,
                Life::Remains => Liveness::Dead,
            },
            Ok(_) => Liveness::Dead,
            Err(_) => Liveness::Unknown,
        }
    }
}

fn pid_namespace() -> io::Result<u64> {
    Ok(fs::metadata("/proc/self/ns/pid")?.ino())
}
