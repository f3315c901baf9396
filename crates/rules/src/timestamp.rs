//! A moment, as the registry stores it and as the caller passes it in. Rules have no clock.
//!
//! The wall clock can be set, so it says when, not how long. Between two moments of one boot the
//! time since boot is compared instead: nothing sets that clock, and it counts while the machine
//! sleeps. Only across a reboot is the wall clock all there is, and then a moment that lies ahead
//! counts as now: a doubt makes nothing look old.

use std::fmt;
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
    #[must_use]
    pub fn before(self, passed: Duration) -> Self {
        let passed = u64::try_from(passed.as_millis()).unwrap_or(u64::MAX);
        Self(self.0.saturating_sub(passed))
    }
}

const DAY: u64 = 86_400_000;

impl Timestamp {
    /// Reads a date, or a date and a time, as [RFC 3339] writes them: `2026-11-15`,
    /// `2026-11-15T23:30`, `2026-11-15 23:30:24.5Z`, `…+01:00`. Without a zone it is UTC.
    ///
    /// [RFC 3339]: https://www.rfc-editor.org/rfc/rfc3339
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let (date, time) = match text.split_once(['T', 't', ' ']) {
            Some((date, time)) => (date, time),
            None => (text, "00:00"),
        };
        let mut date = date.splitn(3, '-').map(digits);
        let (year, month, day) = (date.next()??, date.next()??, date.next()??);
        let known = (1970..=9999).contains(&year) && (1..=12).contains(&month);
        if !known || day < 1 || day > month_length(year, month) {
            return None;
        }
        let (time, offset) = zone(time)?;
        let (clock, fraction) = time.split_once('.').unwrap_or((time, "0"));
        let mut clock = clock.splitn(3, ':').map(digits);
        let (hour, minute) = (clock.next()??, clock.next()??);
        let second = clock.next().map_or(Some(0), |second| second)?;
        if hour > 23 || minute > 59 || second > 59 {
            return None;
        }
        let fraction: String = fraction.chars().chain("000".chars()).take(3).collect();
        let seconds = (hour * 60 + minute) * 60 + second;
        let millis = days(year, month, day) * DAY + seconds * 1000 + digits(&fraction)?;
        millis.checked_add_signed(-offset).map(Self)
    }
}

impl fmt::Display for Timestamp {
    /// `2026-11-15T23:30:24.123Z`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut day, rest) = (self.0 / DAY, self.0 % DAY);
        // Whole cycles of 400 years are all alike.
        let mut year = 1970 + day / 146_097 * 400;
        day %= 146_097;
        while day >= year_length(year) {
            day -= year_length(year);
            year += 1;
        }
        let mut month = 1;
        while day >= month_length(year, month) {
            day -= month_length(year, month);
            month += 1;
        }
        let (seconds, millis) = (rest / 1000, rest % 1000);
        let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        let day = day + 1;
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
    }
}

/// A time without its zone, and the zone as milliseconds ahead of UTC.
fn zone(time: &str) -> Option<(&str, i64)> {
    if let Some(time) = time.strip_suffix(['Z', 'z']) {
        return Some((time, 0));
    }
    let Some(sign) = time.find(['+', '-']) else { return Some((time, 0)) };
    let (time, zone) = time.split_at(sign);
    let (hours, minutes) = zone.get(1..)?.split_once(':')?;
    let (hours, minutes) = (digits(hours)?, digits(minutes)?);
    if hours > 23 || minutes > 59 {
        return None;
    }
    let offset = i64::try_from((hours * 60 + minutes) * 60_000).ok()?;
    Some((time, if zone.starts_with('-') { -offset } else { offset }))
}

/// At most four digits and nothing else.
fn digits(text: &str) -> Option<u64> {
    let plain = (1..=4).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    if plain { text.parse().ok() } else { None }
}

/// The days from 1970 to a date.
fn days(year: u64, month: u64, day: u64) -> u64 {
    let years: u64 = (1970..year).map(year_length).sum();
    let months: u64 = (1..month).map(|month| month_length(year, month)).sum();
    years + months + day - 1
}

const fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400)
}

const fn year_length(year: u64) -> u64 {
    if is_leap(year) { 366 } else { 365 }
}

const fn month_length(year: u64, month: u64) -> u64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
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

    #[test]
    fn times_are_written_and_read_as_rfc_3339() {
        for (millis, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_700_000_000_123, "2023-11-14T22:13:20.123Z"),
            (4_102_444_799_999, "2099-12-31T23:59:59.999Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(Timestamp(millis).to_string(), text);
            assert_eq!(Timestamp::parse(text), Some(Timestamp(millis)));
        }
        let read = |text| Timestamp::parse(text).map(Timestamp::as_millis);
        assert_eq!(read("2023-11-14"), Some(1_699_920_000_000));
        assert_eq!(read("2023-11-14 22:13"), Some(1_699_999_980_000));
        assert_eq!(read("2023-11-14T23:13:20+01:00"), Some(1_700_000_000_000));
        assert_eq!(read("2023-11-14T21:43:20.5-00:30"), Some(1_700_000_000_500));
        for text in [
            "",
            "now",
            "2023-13-01",
            "2023-02-29",
            "2023-11-14T24:00",
            "1969-12-31",
            "1970-01-01T00:00+01:00",
            "2023-11-14T1",
            "20231114",
            "2023-11-14T22:13:20.x",
            "2023-11-14T22:13+1",
            "-1-1-1",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
        // However far ahead, it prints.
        assert_eq!(Timestamp(u64::MAX).to_string(), "584556019-04-03T14:25:51.615Z");
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
