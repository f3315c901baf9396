//! Which sandboxes are too idle or too old.
//!
//! Takes what the registry knows about one sandbox, the limits of the agent that owns it, and the
//! time; gives a [`Prune`] with its reason. Removes nothing.
//!
//! A sandbox in use stays, however old. A limit of zero (or of nonsense) is no limit. The limit
//! itself is still fine: only more than that is too much. What lies in the future, because the clock
//! was set back, is not old.

use std::fmt;
use std::time::Duration;

use crate::config::sandbox::PruneConfig;
use crate::config::setting::{Origin, Setting};
use crate::reuse::Activity;
use crate::timestamp::Timestamp;

const HOUR_SECONDS: f64 = 3600.0;
const DAY_SECONDS: f64 = 86_400.0;

/// What is known about a sandbox; a time that nobody wrote down prunes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lifetime {
    pub created: Option<Timestamp>,
    pub last_used: Option<Timestamp>,
    pub activity: Activity,
}

/// What to do with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Prune {
    Keep(KeepReason),
    Remove(RemoveReason),
}

/// Why it stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeepReason {
    InUse,
    /// Both limits are switched off.
    NoLimits,
    WithinLimits,
}

/// Why it goes, and the setting that says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RemoveReason {
    Idle { since: Duration, limit: Limit },
    TooOld { age: Duration, limit: Limit },
}

/// A limit and where it is set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limit {
    pub length: Duration,
    pub origin: Origin,
}

/// Decides whether a sandbox is removed. `limits` are those of its owner, not of whoever asks.
#[must_use]
pub fn decide(sandbox: &Lifetime, limits: &PruneConfig, now: Timestamp) -> Prune {
    match sandbox.activity {
        Activity::InUse => return Prune::Keep(KeepReason::InUse),
        Activity::Quiet => {}
    }
    let idle = limit(&limits.idle_hours, HOUR_SECONDS);
    let age = limit(&limits.max_age_days, DAY_SECONDS);
    if idle.is_none() && age.is_none() {
        return Prune::Keep(KeepReason::NoLimits);
    }
    if let Some((since, limit)) = exceeded(sandbox.last_used, idle, now) {
        return Prune::Remove(RemoveReason::Idle { since, limit });
    }
    if let Some((age, limit)) = exceeded(sandbox.created, age, now) {
        return Prune::Remove(RemoveReason::TooOld { age, limit });
    }
    Prune::Keep(KeepReason::WithinLimits)
}

/// A setting in some unit as a length of time; `None` if it is switched off.
fn limit(setting: &Setting<f64>, unit_seconds: f64) -> Option<Limit> {
    if setting.value <= 0.0 {
        return None;
    }
    // What is no number, or longer than time can be, is never exceeded.
    let length = Duration::try_from_secs_f64(setting.value * unit_seconds).ok()?;
    Some(Limit { length, origin: setting.origin.clone() })
}

fn exceeded(
    start: Option<Timestamp>,
    limit: Option<Limit>,
    now: Timestamp,
) -> Option<(Duration, Limit)> {
    let (passed, limit) = (now.since(start?), limit?);
    (passed > limit.length).then_some((passed, limit))
}

impl fmt::Display for KeepReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InUse => "a call is running in it",
            Self::NoLimits => "both limits are switched off",
            Self::WithinLimits => "it is within its limits",
        })
    }
}

impl fmt::Display for RemoveReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, passed, limit) = match self {
            Self::Idle { since, limit } => ("idle", since, limit),
            Self::TooOld { age, limit } => ("old", age, limit),
        };
        let hours = passed.as_secs() / 3600;
        write!(f, "it is {hours} h {word}, more than `{}` allows", limit.origin.key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_700_000_000_000;
    const HOUR: u64 = 3_600_000;
    const DAY: u64 = 24 * HOUR;

    #[test]
    fn only_more_than_the_limit_is_too_much() {
        check((24.0, 7.0), 24 * HOUR, 7 * DAY, Prune::Keep(KeepReason::WithinLimits));
        check((24.0, 7.0), 24 * HOUR + 1, DAY, idle(24 * HOUR + 1, 24));
        check((24.0, 7.0), HOUR, 7 * DAY + 1, too_old(7 * DAY + 1, 7));
        check((24.0, 7.0), 25 * HOUR, 8 * DAY, idle(25 * HOUR, 24));
    }

    #[test]
    fn zero_and_nonsense_are_no_limits() {
        check((0.0, 0.0), 999 * DAY, 999 * DAY, Prune::Keep(KeepReason::NoLimits));
        check((-1.0, f64::NAN), 999 * DAY, 999 * DAY, Prune::Keep(KeepReason::NoLimits));
        check((f64::INFINITY, 1e300), 999 * DAY, 999 * DAY, Prune::Keep(KeepReason::NoLimits));
        check((0.0, 7.0), 6 * DAY, 6 * DAY, Prune::Keep(KeepReason::WithinLimits));
        check((24.0, 0.0), DAY, 999 * DAY, Prune::Keep(KeepReason::WithinLimits));
    }

    #[test]
    fn a_sandbox_in_use_stays_however_old() {
        let sandbox = Lifetime {
            created: Some(Timestamp::from_millis(0)),
            last_used: Some(Timestamp::from_millis(0)),
            activity: Activity::InUse,
        };
        let verdict = decide(&sandbox, &limits((1.0, 1.0)), Timestamp::from_millis(NOW));
        assert_eq!(verdict, Prune::Keep(KeepReason::InUse));
    }

    #[test]
    fn unknown_and_future_times_prune_nothing() {
        for time in [None, Some(Timestamp::from_millis(NOW + DAY))] {
            let sandbox = Lifetime { created: time, last_used: time, activity: Activity::Quiet };
            let verdict = decide(&sandbox, &limits((1.0, 1.0)), Timestamp::from_millis(NOW));
            assert_eq!(verdict, Prune::Keep(KeepReason::WithinLimits));
        }
    }

    fn limits((hours, days): (f64, f64)) -> PruneConfig {
        PruneConfig {
            idle_hours: Setting::new(hours, Origin::built_in("idleHours")),
            max_age_days: Setting::new(days, Origin::built_in("maxAgeDays")),
        }
    }

    fn idle(since: u64, hours: u64) -> Prune {
        let length = Duration::from_millis(hours * HOUR);
        let limit = Limit { length, origin: Origin::built_in("idleHours") };
        Prune::Remove(RemoveReason::Idle { since: Duration::from_millis(since), limit })
    }

    fn too_old(age: u64, days: u64) -> Prune {
        let length = Duration::from_millis(days * DAY);
        let limit = Limit { length, origin: Origin::built_in("maxAgeDays") };
        Prune::Remove(RemoveReason::TooOld { age: Duration::from_millis(age), limit })
    }

    #[track_caller]
    fn check(written: (f64, f64), idle: u64, age: u64, expected: Prune) {
        let sandbox = Lifetime {
            created: Some(Timestamp::from_millis(NOW - age)),
            last_used: Some(Timestamp::from_millis(NOW - idle)),
            activity: Activity::Quiet,
        };
        let verdict = decide(&sandbox, &limits(written), Timestamp::from_millis(NOW));
        assert_eq!(verdict, expected);
    }
}
