//! Many pens at once. A hundred in every run; a thousand with `CLAWPEN_MANY_PENS=1000`, as the soak does.

use std::time::{Duration, Instant};

use clawpen_engine::call::{self, Keeping, Target};
use clawpen_engine::lifecycle::current::Currents;
use clawpen_engine::lifecycle::{Condition, Listing};
use clawpen_engine::registry::{InFlight, Kind};
use clawpen_engine::yard::Yard;

#[test]
fn all_live_pens_are_listed_in_no_time_and_leave_nothing() {
    let count = std::env::var("CLAWPEN_MANY_PENS").ok().and_then(|text| text.parse().ok());
    let count: u32 = count.unwrap_or(100);
    let directory = tempfile::Builder::new().prefix("pen").tempdir().unwrap();
    let state = directory.path().to_str().unwrap();
    let config = "{agents: {defaults: {sandbox: {backend: 'native', scope: 'session'}}}}";
    std::fs::write(directory.path().join("openclaw.json"), config).unwrap();
    let store = clawpen_engine::config_store::open_in(state).unwrap();
    let yard = Yard::open(state).unwrap();
    let start = Instant::now();
    for number in 0..count {
        let session = format!("agent:main:s{number}");
        let target = Target { session: Some(&session), agent: None, backend: None };
        let prepared = call::prepare(&store, &target).unwrap();
        drop(prepared.open(&yard, Keeping::Scope, "many").unwrap());
    }
    let made = start.elapsed();
    let lifecycle = yard.lifecycle();
    let list = || {
        let start = Instant::now();
        let listing = lifecycle.list(Kind::Sandbox, &Currents::new(&store)).unwrap();
        (listing, start.elapsed())
    };
    let (Listing { sandboxes, problems, .. }, _) = list();
    assert_eq!((sandboxes.len(), problems), (count as usize, Vec::new()));
    assert!(sandboxes.iter().all(|one| one.condition == Condition::Running));
    let took = (0..5).map(|_| list().1).min().unwrap();
    println!("{count} pens made in {made:?}, listed in {took:?}");
    // The budget is 50 ms for a thousand, of a release build.
    if !cfg!(debug_assertions) {
        assert!(took <= Duration::from_millis(50) * count.max(200) / 1000, "{took:?}");
    }
    let rows = yard.database.registry().list().unwrap();
    for row in &rows {
        lifecycle.remove(row, InFlight::Respect).unwrap();
    }
    let (Listing { sandboxes, recovered, .. }, _) = list();
    assert_eq!((sandboxes.len(), recovered.leftovers), (0, 0));
    for place in ["run", "locks"] {
        let left = std::fs::read_dir(directory.path().join("clawpen").join(place)).unwrap();
        assert_eq!(left.count(), 0, "{place}");
    }
}
