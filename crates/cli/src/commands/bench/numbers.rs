//! Times and what they come to.

use std::fmt;
use std::time::{Duration, Instant};

/// Percentiles in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Summary {
    pub(super) p50: f64,
    pub(super) p95: f64,
    pub(super) p99: f64,
    pub(super) rounds: usize,
}

/// Times of one job.
#[derive(Debug, Default)]
pub(super) struct Times(Vec<Duration>);

impl Times {
    pub(super) fn push(&mut self, time: Duration) {
        self.0.push(time);
    }

    /// Measures one run of `job`.
    pub(super) fn measure<T, E>(&mut self, job: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let start = Instant::now();
        let done = job()?;
        self.push(start.elapsed());
        Ok(done)
    }

    /// The nearest measured value at each percentile; none if nothing was measured.
    pub(super) fn summary(mut self) -> Option<Summary> {
        self.0.sort_unstable();
        let at = |percent: usize| {
            let index = (self.0.len() * percent).div_ceil(100).saturating_sub(1);
            self.0.get(index).map(|time| time.as_secs_f64() * 1000.0)
        };
        Some(Summary { p50: at(50)?, p95: at(95)?, p99: at(99)?, rounds: self.0.len() })
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} / {:.3} / {:.3}", self.p50, self.p95, self.p99)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_measured_values() {
        let mut times = Times::default();
        for millis in (1..=200).rev() {
            times.push(Duration::from_millis(millis));
        }
        let expected = Summary { p50: 100.0, p95: 190.0, p99: 198.0, rounds: 200 };
        assert_eq!(times.summary(), Some(expected));
        assert_eq!(Times::default().summary(), None);
    }
}
