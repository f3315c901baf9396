//! Counts what the gateway does, for `/metrics` in Prometheus' text format.
//!
//! Labels are names of methods that exist: nothing that a client makes up becomes one.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Upper ends of the buckets, in microseconds and as they are written.
const BUCKETS: [(u64, &str); 7] = [
    (250, "0.00025"),
    (1_000, "0.001"),
    (5_000, "0.005"),
    (25_000, "0.025"),
    (100_000, "0.1"),
    (1_000_000, "1"),
    (10_000_000, "10"),
];

#[derive(Debug, Default)]
pub(crate) struct Metrics {
    methods: Mutex<BTreeMap<String, Count>>,
    /// Logins that were let in and those that were not.
    pub(crate) logins: AtomicU64,
    pub(crate) refused: AtomicU64,
}

#[derive(Debug, Clone, Default)]
struct Count {
    done: u64,
    failed: u64,
    micros: u64,
    buckets: [u64; BUCKETS.len()],
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done,
    Failed,
}

impl Outcome {
    pub(crate) fn of<T, E>(result: &Result<T, E>) -> Self {
        if result.is_ok() { Self::Done } else { Self::Failed }
    }
}

/// What is there at this moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Now {
    pub(crate) clients: usize,
    pub(crate) queued_bytes: usize,
    pub(crate) approvals: usize,
    pub(crate) uptime: Duration,
}

impl Metrics {
    pub(crate) fn note(&self, method: &str, outcome: Outcome, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let mut methods = self.methods.lock().unwrap_or_else(PoisonError::into_inner);
        if !methods.contains_key(method) {
            methods.insert(method.to_owned(), Count::default());
        }
        let Some(count) = methods.get_mut(method) else { return };
        match outcome {
            Outcome::Done => count.done += 1,
            Outcome::Failed => count.failed += 1,
        }
        count.micros = count.micros.saturating_add(micros);
        for (bucket, (end, _)) in count.buckets.iter_mut().zip(BUCKETS) {
            *bucket += u64::from(micros <= end);
        }
    }

    /// Everything as Prometheus reads it.
    pub(crate) fn text(&self, now: Now) -> String {
        let mut text = String::new();
        let mut single = |name: &str, kind: &str, help: &str, value: u64| {
            // Writing into a text does not fail.
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}");
        };
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        single("clawpen_gateway_uptime_seconds", "gauge", "Since the start.", now.uptime.as_secs());
        single(
            "clawpen_gateway_clients",
            "gauge",
            "Clients that are logged in.",
            count(now.clients),
        );
        let queued = count(now.queued_bytes);
        single("clawpen_gateway_queued_bytes", "gauge", "Bytes that wait for clients.", queued);
        let waiting = count(now.approvals);
        single(
            "clawpen_gateway_approvals_pending",
            "gauge",
            "Approvals that wait for a person.",
            waiting,
        );
        let logins = self.logins.load(Ordering::Relaxed);
        single("clawpen_gateway_logins_total", "counter", "Logins that were let in.", logins);
        let refused = self.refused.load(Ordering::Relaxed);
        single(
            "clawpen_gateway_logins_refused_total",
            "counter",
            "Logins that were refused.",
            refused,
        );
        let methods = self.methods.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let name = "clawpen_gateway_requests_total";
        let _ =
            writeln!(text, "# HELP {name} Requests by method and outcome.\n# TYPE {name} counter");
        for (method, count) in &methods {
            for (outcome, number) in [("ok", count.done), ("error", count.failed)] {
                let _ =
                    writeln!(text, "{name}{{method=\"{method}\",outcome=\"{outcome}\"}} {number}");
            }
        }
        let name = "clawpen_gateway_request_seconds";
        let _ = writeln!(text, "# HELP {name} How long requests took.\n# TYPE {name} histogram");
        for (method, count) in &methods {
            let total = count.done + count.failed;
            for (bucket, (_, end)) in count.buckets.iter().zip(BUCKETS) {
                let _ =
                    writeln!(text, "{name}_bucket{{method=\"{method}\",le=\"{end}\"}} {bucket}");
            }
            let _ = writeln!(text, "{name}_bucket{{method=\"{method}\",le=\"+Inf\"}} {total}");
            let seconds = Duration::from_micros(count.micros).as_secs_f64();
            let _ = writeln!(text, "{name}_sum{{method=\"{method}\"}} {seconds}");
            let _ = writeln!(text, "{name}_count{{method=\"{method}\"}} {total}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_method_outcome_and_time() {
        let metrics = Metrics::default();
        metrics.note("health", Outcome::Done, Duration::from_micros(300));
        metrics.note("health", Outcome::Failed, Duration::from_secs(20));
        let now = Now { clients: 2, queued_bytes: 0, approvals: 1, uptime: Duration::from_secs(9) };
        let text = metrics.text(now);
        for line in [
            "clawpen_gateway_clients 2",
            "clawpen_gateway_approvals_pending 1",
            "clawpen_gateway_requests_total{method=\"health\",outcome=\"error\"} 1",
            "clawpen_gateway_request_seconds_bucket{method=\"health\",le=\"0.00025\"} 0",
            "clawpen_gateway_request_seconds_bucket{method=\"health\",le=\"10\"} 1",
            "clawpen_gateway_request_seconds_bucket{method=\"health\",le=\"+Inf\"} 2",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }
}
