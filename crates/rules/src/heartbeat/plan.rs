//! When the next beat is due, by a clock that nobody can set.

use std::time::Duration;

/// A beat that is planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Planned {
    pub every: Duration,
    /// By the clock that counts since the gateway began.
    pub at: Duration,
}

/// Whether a beat is due, and when the next one is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    Later(Planned),
    /// Now; this is the one after it.
    Now(Planned),
}

/// Decides whether a beat is due. The first is due one interval after it was planned, and so is the next after the
/// interval was changed. Those that were missed are not made up for: the next one keeps its place in the row.
#[must_use]
pub fn decide_due(planned: Option<Planned>, every: Duration, now: Duration) -> Due {
    let every = every.max(Duration::from_millis(1));
    let anew = || Planned { every, at: now.saturating_add(every) };
    match planned.filter(|planned| planned.every == every) {
        None => Due::Later(anew()),
        Some(planned) if planned.at > now => Due::Later(planned),
        Some(planned) => {
            let late = now.saturating_sub(planned.at).as_nanos() % every.as_nanos();
            let late = u64::try_from(late).map_or(Duration::ZERO, Duration::from_nanos);
            Due::Now(Planned { every, at: now.saturating_add(every).saturating_sub(late) })
        }
    }
}
