//! What becomes of a job after a run: when it runs again, and whether it stays.

use super::schedule::Schedule;
use crate::timestamp::Timestamp;

/// How long a job that failed waits before it is tried again: after the first time, the second, …
const BACKOFF_MS: [u64; 5] = [30_000, 60_000, 300_000, 900_000, 3_600_000];
/// No job begins again sooner after its end, whatever its schedule says: `everyMs: 1` would do nothing else.
const LEAST_GAP_MS: u64 = 2_000;

/// How a run went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ran {
    Well,
    Badly,
    /// Nobody knows how: the process died in the middle of it. What it did is not done twice.
    Unknown,
}

/// Why a run began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    Due,
    /// Somebody wanted it now; the plan stays as it was.
    ByHand,
}

/// A run that has ended.
#[derive(Debug, Clone, Copy)]
pub struct Run {
    pub ran: Ran,
    pub asked: Asked,
    pub started: Timestamp,
    pub ended: Timestamp,
    /// How often it has failed in a row, this time included.
    pub failures: u64,
    /// When it was to run next, before.
    pub planned: Option<Timestamp>,
}

/// What becomes of the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    Again(Timestamp),
    /// It stays and does not run by itself any more.
    Off,
    Remove,
}

/// How long a job waits after so many failures in a row.
fn backoff(failures: u64) -> u64 {
    let step = usize::try_from(failures.saturating_sub(1)).unwrap_or(usize::MAX);
    let [.., longest] = BACKOFF_MS;
    if failures == 0 { 0 } else { BACKOFF_MS.get(step).copied().unwrap_or(longest) }
}

/// Decides what becomes of a job. `deletes` is its `deleteAfterRun`.
pub fn decide(schedule: &Schedule, job: &str, run: &Run, deletes: Deletes) -> Then {
    if run.ran == Ran::Well && deletes == Deletes::Yes {
        return Then::Remove;
    }
    if matches!(schedule, Schedule::At(_)) {
        return Then::Off;
    }
    if let (Asked::ByHand, Some(planned)) = (run.asked, run.planned)
        && planned > run.ended
    {
        return Then::Again(planned);
    }
    let Some(next) = schedule.next(job, run.ended, Some(run.started)) else { return Then::Off };
    let pause = match run.ran {
        Ran::Badly => backoff(run.failures).max(LEAST_GAP_MS),
        Ran::Well | Ran::Unknown => LEAST_GAP_MS,
    };
    let soonest = Timestamp::from_millis(run.ended.as_millis().saturating_add(pause));
    Then::Again(next.max(soonest))
}

/// Whether a job goes once it has run well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deletes {
    Yes,
    No,
}

#[cfg(test)]
mod tests {
    use super::super::schedule::Zone;
    use super::*;

    const fn ms(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn run(ran: Ran, asked: Asked, failures: u64) -> Run {
        let planned = Some(ms(1_200_000));
        Run { ran, asked, started: ms(1_000_000), ended: ms(1_001_000), failures, planned }
    }

    #[test]
    fn after_a_run_a_job_goes_rests_or_comes_again() {
        let at = Schedule::At(ms(1_000_000));
        let hourly = Schedule::every(3_600_000, ms(0)).unwrap();
        let fast = Schedule::every(1, ms(0)).unwrap();
        let cron = Schedule::cron("* * * * * *", Zone::utc(), 0).unwrap();
        let never = Schedule::cron("0 0 30 2 *", Zone::utc(), 0).unwrap();
        let well = run(Ran::Well, Asked::Due, 0);
        let badly = |failures| run(Ran::Badly, Asked::Due, failures);
        let again = |millis| Then::Again(ms(millis));
        for (schedule, run, deletes, expected) in [
            (&at, well, Deletes::Yes, Then::Remove),
            (&at, well, Deletes::No, Then::Off),
            // What failed is kept, for whoever wants to know why.
            (&at, badly(1), Deletes::Yes, Then::Off),
            (&at, run(Ran::Unknown, Asked::Due, 0), Deletes::Yes, Then::Off),
            (&hourly, well, Deletes::Yes, Then::Remove),
            (&hourly, well, Deletes::No, again(4_600_000)),
            (&hourly, badly(1), Deletes::No, again(4_600_000)),
            (&hourly, run(Ran::Well, Asked::ByHand, 0), Deletes::No, again(1_200_000)),
            (&fast, well, Deletes::No, again(1_003_000)),
            (&fast, badly(1), Deletes::No, again(1_031_000)),
            (&fast, badly(2), Deletes::No, again(1_061_000)),
            (&fast, badly(3), Deletes::No, again(1_301_000)),
            (&fast, badly(4), Deletes::No, again(1_901_000)),
            (&fast, badly(5), Deletes::No, again(4_601_000)),
            (&fast, badly(u64::MAX), Deletes::No, again(4_601_000)),
            (&cron, well, Deletes::No, again(1_003_000)),
            (&never, well, Deletes::No, Then::Off),
        ] {
            let then = decide(schedule, "job", &run, deletes);
            assert_eq!(then, expected, "{schedule:?} {run:?}");
        }
        assert_eq!(backoff(0), 0);
    }
}
