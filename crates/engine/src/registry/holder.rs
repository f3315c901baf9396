//! Names this process, and says whether a process that was named earlier still runs.

use std::os::unix::fs::MetadataExt as _;
use std::sync::Mutex;
use std::{fs, io};

use super::row::{Holder, Liveness};
use crate::clock;

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
        let missing = || io::Error::other("`/proc/self/stat` makes no sense");
        let found = Self {
            pid,
            start_time: process(pid)?.ok_or_else(missing)?.start_time,
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
        match process(self.pid) {
            Ok(Some(found)) if found.start_time == self.start_time && !found.has_ended => {
                Liveness::Alive
            }
            Ok(_) => Liveness::Dead,
            Err(_) => Liveness::Unknown,
        }
    }
}

/// When a process began, in clock ticks since boot; `None` if there is none of that number.
pub fn start_time(pid: u32) -> io::Result<Option<u64>> {
    Ok(process(pid)?.map(|found| found.start_time))
}

struct Process {
    start_time: u64,
    /// Dead and not yet reaped.
    has_ended: bool,
}

fn process(pid: u32) -> io::Result<Option<Process>> {
    let stat = match fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => stat,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        // It went between open and read.
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Ok(None),
        Err(error) => return Err(error),
    };
    // The name in brackets may hold anything, brackets included.
    let parse = || {
        let (_, rest) = stat.rsplit_once(')')?;
        let mut fields = rest.split_ascii_whitespace();
        let state = fields.next()?;
        let start_time = fields.nth(18)?.parse().ok()?;
        Some(Process { start_time, has_ended: matches!(state, "Z" | "X" | "x") })
    };
    let found = parse();
    found.map(Some).ok_or_else(|| io::Error::other(format!("`/proc/{pid}/stat` makes no sense")))
}

fn pid_namespace() -> io::Result<u64> {
    Ok(fs::metadata("/proc/self/ns/pid")?.ino())
}
