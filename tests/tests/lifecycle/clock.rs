//! Time passes by our own clock: the hot window, idle and old sandboxes, a whole week.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clawpen_engine::call::{self, Keeping, Open, Prepared, Target};
use clawpen_engine::clock::Clock;
use clawpen_engine::config_store::Store;
use clawpen_engine::lifecycle::current::Currents;
use clawpen_engine::lifecycle::{How, Throttle};
use clawpen_engine::yard::Yard;
use clawpen_rules::reuse::Cold;
use clawpen_rules::timestamp::{Moment, Timestamp};

const START: u64 = 1_800_000_000_000;
const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;

/// Shows what it is told to; both clocks of the machine at once.
#[derive(Debug, Clone)]
struct Hands(Arc<AtomicU64>);

impl Hands {
    fn new() -> Self {
        Self(Arc::new(AtomicU64::new(START)))
    }

    fn forward(&self, millis: u64) {
        self.0.fetch_add(millis, Ordering::SeqCst);
    }
}

impl Clock for Hands {
    fn now(&self) -> Moment {
        Moment::wall(Timestamp::from_millis(self.0.load(Ordering::SeqCst)))
    }
}

/// A state directory, a config that can be changed, and hands to turn.
struct World {
    directory: tempfile::TempDir,
    hands: Hands,
    yard: Yard,
}

impl World {
    fn new() -> Self {
        let directory = tempfile::Builder::new().prefix("pen").tempdir().unwrap();
        let hands = Hands::new();
        let state = directory.path().to_str().unwrap();
        let yard = Yard::open(state).unwrap().with_clock(hands.clone());
        Self { directory, hands, yard }
    }

    fn store(&self, sandbox: &str) -> Store {
        let path = self.directory.path().join("openclaw.json");
        let text =
            format!("{{agents: {{defaults: {{sandbox: {{backend: 'native', {sandbox}}}}}}}}}");
        std::fs::write(&path, text).unwrap();
        let state = self.directory.path().to_str().unwrap();
        clawpen_engine::config_store::open_in(state).unwrap()
    }

    fn prepare(store: &Store, session: &str) -> Prepared {
        let target = Target { session: Some(session), agent: None, backend: None };
        call::prepare(store, &target).unwrap()
    }

    /// Opens the session's sandbox; how it came to be and which pen it is.
    fn open(&self, store: &Store, session: &str) -> (How, u32) {
        let mut open = Self::prepare(store, session).open(&self.yard, Keeping::Scope, "t").unwrap();
        let pid = open.sandbox().first_process();
        let Open::Held(held) = open else { panic!("the scope's own") };
        (held.how.clone(), pid)
    }

    fn names(&self) -> Vec<String> {
        let rows = self.yard.database.registry().list().unwrap();
        rows.into_iter().map(|row| row.scope.as_str().to_owned()).collect()
    }

    fn prune(&self, store: &Store) -> usize {
        let currents = Currents::new(store);
        let pruned = self.yard.lifecycle().prune(|row| currents.limits(row)).unwrap();
        assert!(pruned.failed.is_empty(), "{pruned:?}");
        pruned.removed.len()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for row in self.yard.database.registry().list().unwrap() {
            let in_flight = clawpen_engine::registry::InFlight::CutOff;
            self.yard.lifecycle().remove(&row, in_flight).unwrap();
        }
    }
}

#[test]
fn a_changed_config_waits_while_the_sandbox_is_hot_and_replaces_it_when_cold_132725() {
    let world = World::new();
    let old = world.store("docker: {env: {A: '1'}}");
    let (how, first) = world.open(&old, "main");
    assert_eq!(how, How::Created);
    assert_eq!(world.open(&old, "main"), (How::Kept, first));
    let new = world.store("docker: {env: {A: '2'}}");
    world.hands.forward(299_999);
    let (how, pid) = world.open(&new, "main");
    let How::KeptStale(stale) = how else { panic!("{how:?}") };
    assert_eq!(pid, first);
    assert!(stale.to_string().contains("clawpen sandbox recreate --agent main"), "{stale}");
    // Each use makes it hot anew.
    world.hands.forward(299_999);
    assert_eq!(world.open(&new, "main").1, first);
    world.hands.forward(300_000);
    let (how, second) = world.open(&new, "main");
    let How::Replaced(reason) = how else { panic!("{how:?}") };
    assert_eq!(reason.cold, Cold::Idle(Duration::from_secs(300)));
    assert_ne!(second, first);
    assert_eq!(world.open(&new, "main"), (How::Kept, second));
}

#[test]
fn a_call_in_flight_keeps_the_old_sandbox_however_long_it_takes() {
    let world = World::new();
    let old = world.store("docker: {env: {A: '1'}}");
    let held = World::prepare(&old, "main").open(&world.yard, Keeping::Scope, "long").unwrap();
    let new = world.store("docker: {env: {A: '2'}}");
    world.hands.forward(48 * HOUR);
    assert!(matches!(world.open(&new, "main").0, How::KeptStale(_)));
    assert_eq!(world.prune(&new), 0);
    drop(held);
    world.hands.forward(300_000);
    assert!(matches!(world.open(&new, "main").0, How::Replaced(_)));
}

#[test]
fn other_mounts_are_never_gone_on_with_13437() {
    let world = World::new();
    let old = world.store("workspaceAccess: 'none'");
    let (_, first) = world.open(&old, "main");
    let new = world.store("workspaceAccess: 'rw'");
    let error = World::prepare(&new, "main").open(&world.yard, Keeping::Scope, "t").unwrap_err();
    assert!(error.to_string().contains("other directories mounted"), "{error}");
    world.hands.forward(300_000);
    let (how, second) = world.open(&new, "main");
    assert!(matches!(how, How::Replaced(_)), "{how:?}");
    assert_ne!(first, second);
}

#[test]
fn zero_limits_prune_nothing_and_the_limit_itself_is_fine() {
    let world = World::new();
    let never = world.store("scope: 'session', prune: {idleHours: 0, maxAgeDays: 0}");
    world.open(&never, "agent:main:a");
    world.hands.forward(10_000 * HOUR);
    assert_eq!(world.prune(&never), 0);
    world.open(&never, "agent:main:a");
    let idle = world.store("scope: 'session', prune: {idleHours: 1, maxAgeDays: 0}");
    world.hands.forward(HOUR);
    assert_eq!(world.prune(&idle), 0);
    world.hands.forward(1);
    assert_eq!(world.prune(&idle), 1);
    assert_eq!(world.names(), Vec::<String>::new());
}

#[test]
fn a_command_left_running_keeps_its_sandbox_from_being_pruned_131935_98516() {
    let world = World::new();
    let store = world.store("prune: {idleHours: 1, maxAgeDays: 1}");
    let mut open = World::prepare(&store, "main").open(&world.yard, Keeping::Scope, "t").unwrap();
    let command = clawpen_engine::channel::Command::new(["sleep", "1000"]);
    let channel = open.sandbox().channel().unwrap();
    let started = channel.start(&command, 100).unwrap();
    drop(open);
    world.hands.forward(100 * HOUR);
    assert_eq!(world.prune(&store), 0);
    let mut open = World::prepare(&store, "main").open(&world.yard, Keeping::Scope, "t").unwrap();
    let channel = open.sandbox().channel().unwrap();
    let reach = clawpen_wire::supervisor::Reach::Tree;
    channel.kill(started.process, 9, reach).unwrap();
    let mut rest = clawpen_engine::channel::Captured::new(10);
    let null = clawpen_wire::supervisor::StdinMode::Null;
    channel.attach(started.process, 0, null, &mut rest).unwrap();
    drop(open);
    world.hands.forward(100 * HOUR);
    assert_eq!(world.prune(&store), 1);
}

#[test]
fn each_owner_decides_when_its_sandbox_is_pruned_153752() {
    let world = World::new();
    let path = world.directory.path().join("openclaw.json");
    let config = "{agents: {defaults: {sandbox: {backend: 'native', prune: {idleHours: 1}}}, \
                  list: [{id: 'main'}, {id: 'work', sandbox: {prune: {idleHours: 100}}}]}}";
    std::fs::write(path, config).unwrap();
    let store = clawpen_engine::config_store::open_in(world.directory.path().to_str().unwrap());
    let store = store.unwrap();
    world.open(&store, "agent:main:main");
    world.open(&store, "agent:work:main");
    world.hands.forward(2 * HOUR);
    assert_eq!((world.prune(&store), world.names()), (1, vec!["agent:work".to_owned()]));
    world.hands.forward(100 * HOUR);
    assert_eq!((world.prune(&store), world.names()), (1, Vec::new()));
}

#[test]
fn a_week_goes_by() {
    let world = World::new();
    let store = world.store("scope: 'session', prune: {idleHours: 24, maxAgeDays: 3}");
    let (daily, once) = ("agent:main:daily", "agent:main:once");
    world.open(&store, once);
    let mut pens = Vec::new();
    let mut pruned = 0;
    for hour in 0..7 * 24 {
        if hour % 12 == 0 {
            let (_, pid) = world.open(&store, daily);
            pens.push(pid);
        }
        pruned += world.prune(&store);
        world.hands.forward(HOUR);
    }
    // Used twice a day it is never idle. It goes by age an hour after its third day, is made anew at
    // its next use (hour 84) and goes again (hour 157); the other one was idle after its first day.
    pens.dedup();
    assert_eq!((pens.len(), pruned), (2, 3), "{pens:?}");
    assert_eq!(world.names(), Vec::<String>::new());
    // The clock is set back by a month: nothing looks old.
    world.open(&store, daily);
    world.hands.0.fetch_sub(30 * 24 * HOUR, Ordering::SeqCst);
    assert_eq!(world.prune(&store), 0);
}

#[test]
fn nobody_prunes_twice_within_five_minutes_by_itself() {
    let world = World::new();
    let lifecycle = world.yard.lifecycle();
    assert_eq!(lifecycle.throttle(), Throttle::Due);
    assert_eq!(lifecycle.throttle(), Throttle::TooSoon);
    world.hands.forward(299_999);
    assert_eq!(lifecycle.throttle(), Throttle::TooSoon);
    world.hands.forward(1);
    assert_eq!(lifecycle.throttle(), Throttle::Due);
    world.hands.0.fetch_sub(100 * HOUR, Ordering::SeqCst);
    assert_eq!(lifecycle.throttle(), Throttle::Due);
}
