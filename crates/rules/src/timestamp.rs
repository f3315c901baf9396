//! A moment, as the registry stores it and as the caller passes it in. Rules have no clock.
//!
//! The wall clock can be set, so it says when, not how long. Between two moments of one boot the
//! time since boot is compared instead: nothing sets that clock, and it counts while the machine
//! sleeps. Only across a reboot is the wall clock all there is, and then a moment that lies ahead
//! counts as now: a doubt makes nothing look old.

use std::time::Duration;

/// Milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// The time that passed since `earlier`. Zero if `earlier` lies ahead: a clock that was set
    /// back must make nothing look old.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }

    /// The moment so long before this one, but never before 1970.
    pub fn before(self, passed: Duration) -> Self {
        let passed = u64::try_from(passed.as_millis()).unwrap_or(u64::MAX);
        Self(self.0.saturating_sub(passed))
    }
}

/// A moment on both clocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moment {
    pub wall: Timestamp,
    /// `None` for a moment that somebody else wrote down.
    pub boot: Option<SinceBoot>,
}

/// How long the machine had been up, and which of its boots that was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SinceBoot {
    pub id: String,
    pub millis: u64,
}

impl Moment {
    /// A moment of which only the wall clock is known.
    pub const fn wall(at: Timestamp) -> Self {
        Self { wall: at, boot: None }
    }

    /// The time that passed since `earlier`, whatever was done to the wall clock in between.
    pub fn since(&self, earlier: &Self) -> Duration {
        match (&self.boot, &earlier.boot) {
            (Some(now), Some(then)) if now.id == then.id => {
                Duration::from_millis(now.millis.saturating_sub(then.millis))
            }
            _ => self.wall.since(earlier.wall),
        }
    }

    /// `earlier` as today's wall clock would have shown it: what [`crate::reuse`] and
    /// [`crate::prune`] are to be asked with.
    pub fn place(&self, earlier: &Self) -> Timestamp {
        self.wall.before(self.since(earlier))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000;

    #[test]
    fn a_clock_that_is_set_makes_nothing_older_or_younger_within_one_boot() {
        let then = at(100 * HOUR, "a", HOUR);
        check(&then, &at(101 * HOUR, "a", 2 * HOUR), HOUR);
        check(&then, &at(9_000 * HOUR, "a", 2 * HOUR), HOUR);
        check(&then, &at(0, "a", 2 * HOUR), HOUR);
    }

    #[test]
    fn across_a_reboot_the_wall_clock_decides_and_the_future_counts_as_now() {
        let then = at(100 * HOUR, "a", HOUR);
        check(&then, &at(103 * HOUR, "b", 0), 3 * HOUR);
        check(&then, &at(99 * HOUR, "b", 0), 0);
        check(&Moment::wall(then.wall), &at(102 * HOUR, "a", 0), 2 * HOUR);
        check(&Moment::wall(then.wall), &Moment::wall(Timestamp(101 * HOUR)), HOUR);
    }

    #[track_caller]
    fn check(then: &Moment, now: &Moment, passed: u64) {
        assert_eq!(now.since(then), Duration::from_millis(passed));
        assert_eq!(now.place(then).as_millis(), now.wall.as_millis().saturating_sub(passed));
    }

    fn at(wall: u64, boot: &str, millis: u64) -> Moment {
        let boot = Some(SinceBoot { id: boot.to_owned(), millis });
        Moment { wall: Timestamp(wall), boot }
    }
}
