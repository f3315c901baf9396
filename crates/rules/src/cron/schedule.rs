//! When a job is due: once, every so often, or by a crontab expression in a zone.
//!
//! The expressions are croner's, the library family that the reference uses too. Zones come from the database that is
//! built in, so the answer does not depend on the machine's files.

use std::sync::LazyLock;

use croner::errors::CronError;
use croner::parser::{CronParser, Year};
use jiff::tz::{TimeZone, TimeZoneDatabase};
use sha2::{Digest as _, Sha256};

use crate::timestamp::Timestamp;

/// An expression that has not come true within so many years never does: the rarest that can, a 29 February on a given
/// weekday, comes back after at most forty.
const HORIZON_YEARS: i16 = 41;
/// A longer expression says nothing that a shorter one could not.
const MOST_CHARACTERS: usize = 128;
/// So long ago a one-time job may lie when it is planned: the request was on its way.
const GRACE_MS: u64 = 60_000;
/// So far ahead a one-time job may lie.
const FARTHEST_MS: u64 = 10 * 366 * 86_400_000;
/// Jobs of a full hour are spread over so long, or all agents of a machine would begin at once.
const FULL_HOUR_MS: u64 = 300_000;

static ZONES: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// A zone by its name in the IANA database.
#[derive(Debug, Clone, PartialEq)]
pub struct Zone(TimeZone);

impl Zone {
    pub fn named(name: &str) -> Option<Self> {
        (name.len() <= 64).then(|| ZONES.get(name).ok()).flatten().map(Self)
    }

    pub fn utc() -> Self {
        Self(TimeZone::UTC)
    }

    /// The minutes since midnight that its clocks show at a moment.
    pub fn minute_of_day(&self, moment: Timestamp) -> Option<u16> {
        let millis = i64::try_from(moment.as_millis()).ok()?;
        let there = jiff::Timestamp::from_millisecond(millis).ok()?.to_zoned(self.0.clone());
        u16::try_from(i16::from(there.hour()) * 60 + i16::from(there.minute())).ok()
    }
}

/// Why something is no schedule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("schedule.at: `{0}` is no moment; write it like `2026-12-01T10:00:00Z`")]
    NoMoment(String),
    #[error("schedule.at is in the past: {at}, and it is {now} now")]
    Past { at: Timestamp, now: Timestamp },
    #[error("schedule.at is too far in the future: {at}; the longest is 10 years")]
    TooFar { at: Timestamp },
    #[error("schedule.everyMs must be at least 1")]
    NoTime,
    #[error("schedule.expr: `{expr}` is no crontab expression: {why}")]
    Expression { expr: String, why: String },
    #[error("schedule.expr: `{0}` never comes true")]
    Never(String),
    #[error("schedule.tz: there is no time zone `{0}`; write it like `Europe/Berlin`")]
    Zone(String),
}

/// When a job is due.
#[derive(Debug, Clone, PartialEq)]
pub enum Schedule {
    At(Timestamp),
    Every { every_ms: u64, anchor: Timestamp },
    Cron(Expression),
}

/// A crontab expression that can be read, in a zone.
#[derive(Debug, Clone, PartialEq)]
pub struct Expression {
    /// Second, minute, hour, day, month, weekday.
    fields: [String; 6],
    zone: Zone,
    /// Spread over so long, each job at its own moment.
    stagger_ms: u64,
}

impl Schedule {
    /// A moment as text or as milliseconds since 1970.
    pub fn at(text: &str) -> Result<Self, Refusal> {
        let trimmed = text.trim();
        let is_number = !trimmed.is_empty() && trimmed.bytes().all(|byte| byte.is_ascii_digit());
        let at = if is_number {
            // Beyond this no date has four digits for its year.
            trimmed.parse().ok().filter(|ms| *ms < 253_402_300_800_000).map(Timestamp::from_millis)
        } else {
            Timestamp::parse(trimmed)
        };
        at.map(Self::At).ok_or_else(|| Refusal::NoMoment(text.chars().take(64).collect()))
    }

    pub fn every(every_ms: u64, anchor: Timestamp) -> Result<Self, Refusal> {
        if every_ms == 0 { Err(Refusal::NoTime) } else { Ok(Self::Every { every_ms, anchor }) }
    }

    /// Five fields, or six with seconds first, or one of `@yearly`, `@monthly`, `@weekly`, `@daily`, `@hourly`.
    pub fn cron(expr: &str, zone: Zone, stagger_ms: u64) -> Result<Self, Refusal> {
        let refused = |why: &str| {
            let expr = expr.chars().take(64).collect();
            Refusal::Expression { expr, why: why.to_owned() }
        };
        let fields = fields(expr).map_err(refused)?;
        let expression = Expression { fields, zone, stagger_ms };
        expression.read("*").map_err(|error| refused(&error.to_string()))?;
        Ok(Self::Cron(expression))
    }

    /// Says whether it may be planned at this moment.
    pub fn check(&self, now: Timestamp) -> Result<(), Refusal> {
        match self {
            Self::At(at) if at.as_millis().saturating_add(GRACE_MS) < now.as_millis() => {
                Err(Refusal::Past { at: *at, now })
            }
            Self::At(at) if at.as_millis().saturating_sub(now.as_millis()) > FARTHEST_MS => {
                Err(Refusal::TooFar { at: *at })
            }
            Self::At(_) | Self::Every { .. } => Ok(()),
            Self::Cron(expression) => match expression.after(now) {
                Some(_) => Ok(()),
                None => Err(Refusal::Never(expression.fields.join(" "))),
            },
        }
    }

    /// The next moment after `now`; `None` if there is none. A moment of a one-time job that has passed and was not used
    /// is still its next one. `job` is the job's id: jobs that are spread are told apart by it.
    pub fn next(&self, job: &str, now: Timestamp, last: Option<Timestamp>) -> Option<Timestamp> {
        match self {
            Self::At(at) => last.is_none_or(|last| last < *at).then_some(*at),
            Self::Every { every_ms, anchor } => {
                let from_last = last.and_then(|last| last.as_millis().checked_add(*every_ms));
                let grid = || {
                    let (now, anchor) = (now.as_millis(), anchor.as_millis());
                    let passed = now.checked_sub(anchor).map_or(0, |since| since / every_ms + 1);
                    // The first is due one span after the anchor, also when the anchor lies ahead.
                    anchor.checked_add(every_ms.checked_mul(passed.max(1))?)
                };
                let next = from_last.filter(|next| *next > now.as_millis()).or_else(grid);
                next.map(Timestamp::from_millis)
            }
            Self::Cron(expression) => {
                let spread = spread(job, expression.stagger_ms);
                let from = now.as_millis().saturating_sub(spread);
                let next = expression.after(Timestamp::from_millis(from))?;
                next.as_millis().checked_add(spread).map(Timestamp::from_millis)
            }
        }
    }
}

impl Expression {
    fn read(&self, years: &str) -> Result<croner::Cron, CronError> {
        let text = format!("{} {years}", self.fields.join(" "));
        CronParser::builder().year(Year::Required).build().parse(&text)
    }

    /// The first moment after this one.
    fn after(&self, moment: Timestamp) -> Option<Timestamp> {
        let millis = i64::try_from(moment.as_millis()).ok()?;
        let from = jiff::Timestamp::from_millisecond(millis).ok()?.to_zoned(self.zone.0.clone());
        let years = format!("{}-{}", from.year(), from.year().checked_add(HORIZON_YEARS)?);
        let cron = self.read(&years).ok()?;
        // A day that a zone left out altogether ends croner's search; the day behind it begins another.
        let tomorrow = || from.tomorrow().and_then(|day| day.start_of_day()).ok();
        let found = cron.find_next_occurrence(&from, false).ok();
        let found = found.or_else(|| cron.find_next_occurrence(&tomorrow()?, true).ok())?;
        let next = u64::try_from(found.timestamp().as_millisecond()).ok()?;
        // Whole seconds are searched; a moment within one is not after itself.
        (next > moment.as_millis()).then(|| Timestamp::from_millis(next))
    }
}

/// The six fields of an expression.
fn fields(expr: &str) -> Result<[String; 6], &'static str> {
    let expr = expr.trim();
    let is_known = |c: char| c.is_ascii_alphanumeric() || " \t*/,-?#+@".contains(c);
    if expr.len() > MOST_CHARACTERS || !expr.chars().all(is_known) {
        return Err("it is too long or has characters that mean nothing there");
    }
    let expanded = match expr.to_ascii_lowercase().as_str() {
        "@yearly" | "@annually" => "0 0 1 1 *",
        "@monthly" => "0 0 1 * *",
        "@weekly" => "0 0 * * 0",
        "@daily" | "@midnight" => "0 0 * * *",
        "@hourly" => "0 * * * *",
        _ => expr,
    };
    if expanded.contains('@') {
        return Err("there is no such shorthand");
    }
    let parts: Vec<String> = expanded.split_whitespace().map(str::to_owned).collect();
    let parts = if parts.len() == 5 {
        std::iter::once("0".to_owned()).chain(parts).collect()
    } else {
        parts
    };
    parts
        .try_into()
        .map_err(|_others: Vec<String>| "it must have five fields, or six with seconds first")
}

/// How far a job is put off within its spread: the same for one job always, different for two.
fn spread(job: &str, stagger_ms: u64) -> u64 {
    if stagger_ms == 0 {
        return 0;
    }
    let digest = Sha256::digest(job.as_bytes());
    let first = digest.iter().take(4).fold(0u64, |number, byte| number << 8 | u64::from(*byte));
    first % stagger_ms
}

/// How long a job that does not say is spread: those of every full hour are, others are not.
pub fn default_stagger_ms(expr: &str) -> Option<u64> {
    let fields = fields(expr).ok()?;
    let [second, minute, hour, ..] = &fields;
    let is_full =
        expr.trim_start().starts_with(|c: char| c != '@') && second == "0" && minute == "0";
    (is_full && hour.contains('*')).then_some(FULL_HOUR_MS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const JOB: &str = "09efc713-05c3-45c8-9dc2-3092279bc439";

    fn moment(text: &str) -> Timestamp {
        Timestamp::parse(text).unwrap()
    }

    fn cron(expr: &str, zone: &str) -> Result<Schedule, Refusal> {
        Schedule::cron(expr, Zone::named(zone).unwrap(), 0)
    }

    /// The next moments of an expression.
    #[track_caller]
    fn check(expr: &str, zone: &str, from: &str, expected: &[&str]) {
        let schedule = cron(expr, zone).unwrap();
        let mut now = moment(from);
        let mut seen = Vec::new();
        for _ in expected {
            let Some(next) = schedule.next(JOB, now, None) else { break };
            seen.push(next.to_string());
            now = next;
        }
        let expected: Vec<String> = expected.iter().map(|at| moment(at).to_string()).collect();
        assert_eq!(seen, expected, "{expr} in {zone} from {from}");
    }

    #[test]
    fn an_expression_comes_true_where_it_says() {
        let from = "2026-11-16T12:53:47.5Z";
        check("*/5 * * * *", "UTC", from, &["2026-11-16T12:55Z", "2026-11-16T13:00Z"]);
        check("*/20 * * * * *", "UTC", from, &["2026-11-16T12:54:00Z", "2026-11-16T12:54:20Z"]);
        check("0 9 * * *", "Europe/Berlin", from, &["2026-11-17T08:00Z", "2026-11-18T08:00Z"]);
        check("0 9 * * MON-FRI", "UTC", "2026-11-20T10:00Z", &["2026-11-23T09:00Z"]);
        check("0 0 1,15 jan,jul *", "UTC", from, &["2027-01-01", "2027-01-15", "2027-07-01"]);
        check("0 0 13 * 5", "UTC", from, &["2026-11-20", "2026-11-27", "2026-12-04"]);
        check("0 0 13 * +5", "UTC", from, &["2027-08-13", "2028-10-13"]);
        check("0 0 L * *", "UTC", from, &["2026-11-30", "2026-12-31"]);
        check("0 0 * * 7", "UTC", from, &["2026-11-22"]);
        check("59 23 31 12 *", "UTC", "2026-12-31T23:59:30Z", &["2027-12-31T23:59Z"]);
        for (name, next) in [
            ("@yearly", "2027-01-01"),
            ("@Monthly", "2026-12-01"),
            ("@weekly", "2026-11-22"),
            ("@daily", "2026-11-17"),
            ("@hourly", "2026-11-16T13:00Z"),
        ] {
            check(name, "UTC", from, &[next]);
        }
    }

    #[test]
    fn rare_days_are_found_and_days_that_are_none_end_the_search() {
        check("0 0 29 2 *", "UTC", "2026-03-01", &["2028-02-29", "2032-02-29"]);
        check("0 0 29 2 +1", "UTC", "2028-03-01", &["2044-02-29"]);
        // Twelve years without one, and then the weekday too.
        check("0 0 29 2 +1", "UTC", "2072-03-01", &["2112-02-29"]);
        for never in ["0 0 30 2 *", "0 0 31 4,6,9,11 *", "0 0 30 2 +1"] {
            let schedule = cron(never, "UTC").unwrap();
            assert_eq!(schedule.next(JOB, moment("2026-11-16"), None), None, "{never}");
            let refused = schedule.check(moment("2026-11-16"));
            assert_eq!(refused, Err(Refusal::Never(format!("0 {never}"))));
        }
    }

    #[test]
    fn a_clock_that_is_put_forward_or_back_loses_no_day_and_doubles_none() {
        let berlin = "Europe/Berlin";
        // 2027-03-28: 02:00 is followed by 03:00.
        check(
            "30 2 * * *",
            berlin,
            "2027-03-27T12:00Z",
            &["2027-03-28T01:00Z", "2027-03-29T00:30Z"],
        );
        // 2027-10-31: 03:00 is followed by 02:00.
        check(
            "30 2 * * *",
            berlin,
            "2027-10-30T12:00Z",
            &["2027-10-31T00:30Z", "2027-11-01T01:30Z"],
        );
        let hours = ["2027-10-31T00:00Z", "2027-10-31T01:00Z", "2027-10-31T02:00Z"];
        check("0 * * * *", berlin, "2027-10-30T23:30Z", &hours);
        // A whole day that a country left out.
        check("0 12 * * *", "Pacific/Apia", "2011-12-29T23:00Z", &["2011-12-30T22:00Z"]);
        check("0 0 * * *", "Asia/Kathmandu", "2026-11-16", &["2026-11-16T18:15Z"]);
    }

    #[test]
    fn what_is_no_expression_is_refused_with_a_reason() {
        for bad in [
            "",
            "nonsense",
            "* * * *",
            "* * * * * * *",
            "60 * * * *",
            "* 24 * * *",
            "* * 0 * *",
            "* * * 13 *",
            "*/0 * * * *",
            "5-1 * * * *",
            "@reboot",
            "@daily x",
            "1\u{661} * * * *",
            "* * * * mon#9",
        ] {
            assert!(matches!(cron(bad, "UTC"), Err(Refusal::Expression { .. })), "{bad}");
        }
        assert!(cron(&format!("{} * * * *", ["1"; 100].join(",")), "UTC").is_err());
        for zone in ["Mars/Base", "", "../../etc/passwd", "/etc/localtime"] {
            assert_eq!(Zone::named(zone), None, "{zone}");
        }
        assert_eq!(Zone::named("europe/berlin"), Zone::named("Europe/Berlin"));
    }

    #[test]
    fn a_moment_is_planned_if_it_lies_ahead_and_not_too_far() {
        let now = moment("2026-11-16T12:00Z");
        let past = |at: &str| Err(Refusal::Past { at: moment(at), now });
        let far = |at: &str| Err(Refusal::TooFar { at: moment(at) });
        for (text, expected) in [
            ("2026-12-01T10:00:00Z", Ok(())),
            ("2026-12-01", Ok(())),
            ("1999999999000", Ok(())),
            ("2026-11-16T11:59:00Z", Ok(())),
            ("2026-11-16T11:58:59Z", past("2026-11-16T11:58:59Z")),
            ("2020-01-01", past("2020-01-01")),
            ("2046-01-01", far("2046-01-01")),
            ("hello", Err(Refusal::NoMoment("hello".to_owned()))),
            ("99999999999999999999", Err(Refusal::NoMoment("99999999999999999999".to_owned()))),
        ] {
            let checked = Schedule::at(text).and_then(|schedule| schedule.check(now));
            assert_eq!(checked, expected, "{text}");
        }
    }

    #[test]
    fn a_one_time_job_that_was_missed_is_still_due_and_one_that_ran_is_not() {
        let at = Schedule::at("2026-12-01").unwrap();
        let (before, after) = (moment("2026-11-01"), moment("2026-12-09"));
        let due = Some(moment("2026-12-01"));
        assert_eq!(at.next(JOB, before, None), due);
        assert_eq!(at.next(JOB, after, None), due);
        assert_eq!(at.next(JOB, after, Some(before)), due);
        assert_eq!(at.next(JOB, after, due), None);
    }

    #[test]
    fn every_so_often_counts_from_the_last_run_or_from_the_anchor() {
        let ms = Timestamp::from_millis;
        let every = |anchor| Schedule::every(100, ms(anchor)).unwrap();
        for (anchor, now, last, expected) in [
            (1000, 1000, None, 1100),
            (1000, 1099, None, 1100),
            (1000, 1100, None, 1200),
            (1000, 5050, None, 5100),
            // Not begun yet.
            (9000, 1000, None, 9100),
            (1000, 5050, Some(5040), 5140),
            // Long ago: the grid counts, and what was missed is missed once.
            (1000, 5050, Some(1100), 5100),
        ] {
            let next = every(anchor).next(JOB, ms(now), last.map(ms));
            assert_eq!(next, Some(ms(expected)), "{anchor} {now} {last:?}");
        }
        assert_eq!(Schedule::every(0, ms(0)), Err(Refusal::NoTime));
        let longest = Schedule::every(u64::MAX, ms(1)).unwrap();
        assert_eq!(longest.next(JOB, ms(5), Some(ms(5))), None);
    }

    #[test]
    fn jobs_of_a_full_hour_are_spread_as_the_reference_spreads_them() {
        let stagger = default_stagger_ms("0 * * * *").unwrap();
        let hourly = Schedule::cron("0 * * * *", Zone::utc(), stagger).unwrap();
        let now = Timestamp::from_millis(1_794_833_764_986);
        let next = hourly.next(JOB, now, None).unwrap();
        assert_eq!(next.as_millis(), 1_794_834_257_232);
        // Within the hour's spread the moment of this hour is not lost.
        let full = Timestamp::from_millis(1_794_834_000_001);
        assert_eq!(hourly.next(JOB, full, None), Some(next));
        let other = "59fc6b9a-cd0a-43c8-a742-3451f67d5308";
        let daily = Schedule::cron("7 3 * * *", Zone::utc(), 60_000).unwrap();
        assert_eq!(daily.next(other, now, None).unwrap().as_millis(), 1_794_884_873_704);
        for (expr, expected) in [
            ("0 */2 * * *", Some(300_000)),
            ("0 0 * * * *", Some(300_000)),
            ("0 9 * * *", None),
            ("5 * * * *", None),
            ("30 0 * * * *", None),
            ("@hourly", None),
        ] {
            assert_eq!(default_stagger_ms(expr), expected, "{expr}");
        }
    }

    proptest! {
        #[test]
        fn no_text_breaks_the_reader(text in "\\PC{0,40}", zone in "\\PC{0,20}") {
            let _refused = cron(&text, "UTC");
            let _none = Zone::named(&zone);
            let _no = Schedule::at(&text);
        }

        #[test]
        fn what_looks_like_fields_never_breaks_the_search(
            fields in proptest::collection::vec("[0-9*/,?#L W+-]{1,6}", 5..7), now in 0u64..4_102_444_800_000,
        ) {
            if let Ok(schedule) = cron(&fields.join(" "), "America/New_York") {
                let now = Timestamp::from_millis(now);
                if let Some(next) = schedule.next(JOB, now, None) {
                    prop_assert!(next > now);
                }
            }
        }

        #[test]
        fn the_next_moment_lies_ahead_and_nothing_is_passed_over(
            minute in 0u8..60, step in 1u8..30, now in 1_700_000_000_000u64..2_500_000_000_000,
        ) {
            let schedule = cron(&format!("{minute}/{step} * * * *"), "UTC");
            let schedule = schedule.or_else(|_| cron(&format!("{minute} * * * *"), "UTC")).unwrap();
            let now = Timestamp::from_millis(now);
            let next = schedule.next(JOB, now, None).unwrap();
            prop_assert!(next > now);
            prop_assert!(next.as_millis() - now.as_millis() <= 3_600_000);
            let between = Timestamp::from_millis(u64::midpoint(now.as_millis(), next.as_millis() - 1));
            prop_assert_eq!(schedule.next(JOB, between, None), Some(next));
        }

        #[test]
        fn every_span_leads_ahead(every in 1u64..1_000_000, anchor in 0u64..10_000_000, now in 0u64..10_000_000) {
            let schedule = Schedule::every(every, Timestamp::from_millis(anchor)).unwrap();
            let next = schedule.next(JOB, Timestamp::from_millis(now), None).unwrap().as_millis();
            prop_assert!(next > now && next > anchor);
            prop_assert_eq!((next - anchor) % every, 0);
            prop_assert!(next <= now.max(anchor) + every);
        }
    }
}
