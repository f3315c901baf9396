//! What time it is. The only place of the engine's state code that asks; everything else is told.

use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};
use std::{fs, io};

use clawpen_rules::timestamp::{Moment, SinceBoot, Timestamp};
use rustix::time::{ClockId, clock_gettime};

/// Says what time it is; tests bring their own.
pub trait Clock {
    fn now(&self) -> Moment;
}

/// The machine's clocks.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Moment {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let wall = Timestamp::from_millis(u64::try_from(wall.as_millis()).unwrap_or(u64::MAX));
        let boot = boot_id().ok().map(|id| SinceBoot { id: id.to_owned(), millis: uptime() });
        Moment { wall, boot }
    }
}

/// Which boot of the machine this is. Read once: it cannot change while we run.
pub fn boot_id() -> io::Result<&'static str> {
    static KNOWN: OnceLock<String> = OnceLock::new();
    if let Some(known) = KNOWN.get() {
        return Ok(known);
    }
    let read = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    Ok(KNOWN.get_or_init(|| read.trim().to_owned()))
}

/// Milliseconds since boot, sleep included.
fn uptime() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    let millis = u64::try_from(time.tv_nsec).unwrap_or_default() / 1_000_000;
    seconds.saturating_mul(1000).saturating_add(millis)
}
