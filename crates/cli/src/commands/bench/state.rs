//! What state costs: a call with lease and record, and a list of many live pens.

use std::time::Instant;

use clawpen_engine::audit::Door;
use clawpen_engine::call::{self, About, Keeping, Target};
use clawpen_engine::lifecycle::current::Currents;
use clawpen_engine::registry::{InFlight, Kind};
use clawpen_engine::yard::Yard;

use super::jobs::{Bench, OVER_PLAIN, at_most, is_true, times, within};
use super::numbers::Times;
use super::{BenchError, Row, Verdict, rivals};

/// The agent whose every session has a pen of its own.
pub(super) const CROWD: &str = "crowd";
/// What a list of a thousand may take, in milliseconds.
const LIST: f64 = 50.0;
/// Lists are much alike.
const LISTS: usize = 20;

impl Bench {
    pub(super) fn state(&self, count: usize) -> Result<Vec<Row>, BenchError> {
        let yard = Yard::open(&self.store.locations.state_dir)?;
        let made = self.state_rows(&yard, count);
        // Pens that stay would stay beyond the benchmark.
        for row in yard.database.registry().list()? {
            yard.lifecycle().remove(&row, InFlight::CutOff)?;
        }
        made
    }

    fn state_rows(&self, yard: &Yard, count: usize) -> Result<Vec<Row>, BenchError> {
        let (mut ours, mut theirs) = <(Times, Times)>::default();
        let plain = rivals::plain();
        // As a door decides it: once, while nothing that it rests on has changed.
        let target = Target { session: None, agent: Some("bench"), backend: None };
        let prepared = call::prepare(&self.store, &target)?;
        let call = || -> Result<(), BenchError> {
            let about = About { door: Door::Cli, tool: "exec", keeping: Keeping::Scope };
            let done = call::run(yard, &prepared, &about, |open, _tally| {
                open.sandbox().channel().map_err(BenchError::from).and_then(is_true)
            })?;
            done.value
        };
        call()?;
        for _ in 0..self.rounds {
            ours.measure(call)?;
            theirs.measure(|| plain.run())?;
        }
        let (ours, theirs) = (ours.summary(), theirs.summary());
        let verdict = match (&ours, &theirs) {
            (Some(ours), Some(plain)) => within(ours.p50, plain.p50 + OVER_PLAIN),
            _ => Verdict::Shown,
        };
        let budget = format!("<= fork+exec + {OVER_PLAIN} ms");
        let mut calls = times("a call: lease, exec, record", ours, budget, verdict);
        calls.rival = theirs.map(|theirs| (plain.name, theirs));
        Ok(vec![calls, self.list(yard, count)?])
    }

    fn list(&self, yard: &Yard, count: usize) -> Result<Row, BenchError> {
        for number in 0..count {
            let session = format!("agent:{CROWD}:s{number}");
            let target = Target { session: Some(&session), agent: None, backend: None };
            drop(call::prepare(&self.store, &target)?.open(yard, Keeping::Scope, "bench")?);
        }
        let mut lists = Times::default();
        for _ in 0..LISTS {
            let start = Instant::now();
            yard.lifecycle().list(Kind::Sandbox, &Currents::new(&self.store))?;
            lists.push(start.elapsed());
        }
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let budget = (LIST * f64::from(count) / 1000.0).max(LIST / 10.0);
        Ok(at_most("sandbox list, all live pens", lists.summary(), budget))
    }
}
