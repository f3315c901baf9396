//! How long answers took: of a session, of a day, of all of them.
//!
//! Takes moments, gives figures. Several sessions are put together by their figures, not by their answers: the slowest
//! twentieth of all is the worst of theirs.

use serde_json::{Map, Value, json};

/// An answer that took longer belongs to no question: somebody came back another day.
const LONGEST: u64 = 12 * 60 * 60 * 1000;

/// The waits for answers, in milliseconds.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Waits {
    waits: Vec<u64>,
}

impl Waits {
    /// Notes an answer to what was asked at `asked`.
    pub(super) fn note(&mut self, asked: Option<u64>, answered: u64) {
        let wait = asked.map(|asked| answered.saturating_sub(asked));
        self.waits.extend(wait.filter(|wait| *wait <= LONGEST));
    }

    pub(super) fn figures(&self) -> Option<Figures> {
        let mut sorted = self.waits.clone();
        sorted.sort_unstable();
        let (least, most) = (*sorted.first()?, *sorted.last()?);
        // So many are at most as slow as nineteen of twenty.
        let twentieth = (sorted.len() * 19).div_ceil(20).saturating_sub(1);
        Some(Figures {
            count: sorted.len() as u64,
            sum: sorted.iter().sum(),
            slow: sorted.get(twentieth).copied().unwrap_or(most),
            least,
            most,
        })
    }
}

/// What there is to say about waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Figures {
    count: u64,
    sum: u64,
    /// As long as it took at most in nineteen of twenty cases.
    slow: u64,
    least: u64,
    most: u64,
}

impl Figures {
    pub(super) fn merge(all: Option<Self>, one: Self) -> Self {
        let Some(all) = all else { return one };
        Self {
            count: all.count + one.count,
            sum: all.sum + one.sum,
            slow: all.slow.max(one.slow),
            least: all.least.min(one.least),
            most: all.most.max(one.most),
        }
    }

    pub(super) fn shown(self) -> Map<String, Value> {
        #[expect(clippy::cast_precision_loss, reason = "a mean of waits needs no more digits")]
        let mean = self.sum as f64 / self.count.max(1) as f64;
        let mut shown = Map::new();
        shown.insert("count".into(), json!(self.count));
        shown.insert("avgMs".into(), json!(mean));
        for (key, value) in [("p95Ms", self.slow), ("minMs", self.least), ("maxMs", self.most)] {
            shown.insert(key.into(), json!(value));
        }
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_told_by_their_figures() {
        let mut waits = Waits::default();
        assert_eq!(waits.figures(), None);
        waits.note(None, 5);
        waits.note(Some(10), 5);
        waits.note(Some(0), LONGEST + 1);
        for wait in [1000, 1000, 1000, 3000] {
            waits.note(Some(1), 1 + wait);
        }
        let all = waits.figures().unwrap();
        assert_eq!(
            Value::Object(all.shown()),
            json!({ "count": 5, "avgMs": 1200.0, "p95Ms": 3000, "minMs": 0, "maxMs": 3000 })
        );
        let other = Figures { count: 1, sum: 100, slow: 100, least: 100, most: 100 };
        let both = Figures::merge(Some(other), all);
        assert_eq!((both.count, both.sum, both.slow, both.least), (6, 6100, 3000, 0));
    }
}
