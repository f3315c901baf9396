//! Decides whether a model that failed is asked once more, and when.
//!
//! Only what may pass by itself is tried again: too many requests, a server that is overloaded or broken, a connection
//! that was not made. What was refused for what it says (a wrong key, a request that is too long) is not, and neither is
//! an answer of which something was shown already: it would be said twice.

use std::time::Duration;

/// Attempts in all.
pub const ATTEMPTS: u32 = 4;
/// The first pause; each one after it is twice as long.
const FIRST: Duration = Duration::from_millis(500);
/// No pause is longer. A server that wants more gets no further request.
pub const LONGEST: Duration = Duration::from_secs(60);

/// How a request failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failed {
    /// The server answered with this status, and perhaps with how long to wait.
    Status { code: u16, wait: Option<Duration> },
    /// No connection, or none of the answer in time.
    Unreachable,
    /// The server began to answer and broke off, or said that it failed.
    Broken,
}

/// Whether anything of the answer was shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    Nothing,
    Something,
}

/// What to do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    After(Duration),
    /// It would fail again, or say something twice.
    No,
}

/// Decides after `attempts` failures. `jitter` is a number below 1000 that tells one client from the next.
#[must_use]
pub fn decide(failed: Failed, attempts: u32, shown: Shown, jitter: u64) -> Retry {
    if attempts >= ATTEMPTS || shown == Shown::Something {
        return Retry::No;
    }
    let doubled = FIRST.saturating_mul(1 << attempts.saturating_sub(1).min(16));
    // Up to a quarter more, so that many who were refused at once do not come back at once.
    let spread = doubled.saturating_add(doubled / 4000 * u32::try_from(jitter % 1000).unwrap_or(0));
    match failed {
        Failed::Status { code: 408 | 409 | 425 | 429 | 500..=599, wait: Some(wait) } => {
            if wait > LONGEST { Retry::No } else { Retry::After(wait.max(spread)) }
        }
        Failed::Status { code: 408 | 409 | 425 | 429 | 500..=599, wait: None }
        | Failed::Unreachable
        | Failed::Broken => Retry::After(spread.min(LONGEST)),
        Failed::Status { .. } => Retry::No,
    }
}

/// `Retry-After` in seconds, or `retry-after-ms`. A date says nothing here: clocks differ.
pub fn wait(seconds: Option<&str>, millis: Option<&str>) -> Option<Duration> {
    let number = |text: &str| text.trim().parse::<f64>().ok().filter(|n| (0.0..=1e9).contains(n));
    let millis = millis.and_then(number).map(|n| Duration::from_secs_f64(n / 1000.0));
    millis.or_else(|| seconds.and_then(number).map(Duration::from_secs_f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(failed: Failed, attempts: u32, expected: Retry) {
        assert_eq!(decide(failed, attempts, Shown::Nothing, 0), expected);
        assert_eq!(decide(failed, attempts, Shown::Something, 0), Retry::No);
    }

    #[test]
    fn what_may_pass_is_tried_again_with_growing_pauses() {
        let status =
            |code, wait: Option<u64>| Failed::Status { code, wait: wait.map(Duration::from_secs) };
        let after = |millis| Retry::After(Duration::from_millis(millis));
        check(status(429, None), 1, after(500));
        check(status(503, None), 2, after(1000));
        check(status(529, None), 3, after(2000));
        check(status(500, None), 4, Retry::No);
        check(status(429, Some(7)), 1, after(7000));
        check(status(429, Some(61)), 1, Retry::No);
        check(status(400, None), 1, Retry::No);
        check(status(401, Some(1)), 1, Retry::No);
        check(Failed::Unreachable, 1, after(500));
        check(Failed::Broken, 1, after(500));
        let spread = decide(status(429, None), 1, Shown::Nothing, 999);
        assert!(matches!(spread, Retry::After(pause) if pause > Duration::from_millis(600)));
    }

    #[test]
    fn a_server_says_how_long_to_wait() {
        assert_eq!(wait(Some("3"), None), Some(Duration::from_secs(3)));
        assert_eq!(wait(Some("3"), Some("250")), Some(Duration::from_millis(250)));
        assert_eq!(wait(Some("Wed, 21 Oct 2026 07:28:00 GMT"), None), None);
        assert_eq!(wait(Some("-1"), Some("inf")), None);
    }
}
