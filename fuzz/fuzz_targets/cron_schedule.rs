//! Any text as a moment, a crontab expression and a zone: what is read leads ahead, in bounded time.
#![no_main]

use clawpen_rules::cron::{Schedule, Zone, default_stagger_ms};
use clawpen_rules::timestamp::Timestamp;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&str, &str, u32)| {
    let (text, zone, seconds) = input;
    let now = Timestamp::from_millis(u64::from(seconds) * 1000);
    let _ = Schedule::at(text).map(|schedule| schedule.check(now));
    let stagger = default_stagger_ms(text).unwrap_or_default();
    let zone = Zone::named(zone).unwrap_or_else(Zone::utc);
    let Ok(schedule) = Schedule::cron(text, zone, stagger) else { return };
    if let Some(next) = schedule.next("job", now, None) {
        assert!(next > now);
        assert!(schedule.next("job", next, None).is_none_or(|later| later > next));
    }
});
