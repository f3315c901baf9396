//! What state costs a call: opening the database, a lease, a record, a list.
//!
//! `cargo bench -p clawpen-engine --bench state`. Budgets: a record 50 µs, a lease taken and released
//! 100 µs, a list of 1,000 rows 5 ms.
#![expect(clippy::unwrap_used, reason = "a bench without its database measures nothing")]

use std::time::Duration;

use clawpen_engine::audit::{Call, Door, Ending, Filter, Reason, Verdict};
use clawpen_engine::clock::{Clock as _, SystemClock};
use clawpen_engine::database::Database;
use clawpen_engine::registry::{Generation, Holder, Identity, Kind, NativeIdentity, NewRow, Use};
use clawpen_rules::backend::Backend;
use clawpen_rules::scope::ScopeKey;
use divan::Bencher;
use tempfile::TempDir;

fn main() {
    divan::main();
}

fn world(rows: usize) -> (TempDir, Database, Generation) {
    let state = tempfile::tempdir().unwrap();
    let database = Database::open(state.path()).unwrap();
    let mut last = None;
    for number in 0..rows {
        last = Some(ready(&database, &format!("pen-{number}")));
    }
    let generation = last.unwrap();
    (state, database, generation)
}

fn ready(database: &Database, name: &str) -> Generation {
    let now = SystemClock.now();
    let new = NewRow {
        name: name.to_owned(),
        kind: Kind::Sandbox,
        backend: Backend::Native,
        scope: ScopeKey::stored("agent:main").unwrap(),
        session: Some("agent:main:main".to_owned()),
        agent: None,
        image: String::new(),
        fingerprint: "f".repeat(64),
        workspace_dir: "/home/me/.openclaw/sandboxes/agent-main-f331f052".to_owned(),
    };
    let registry = database.registry();
    let generation = registry.begin(&new, &now).unwrap();
    let identity = Identity::Native(NativeIdentity {
        boot_id: "6b9e1b5e-6c5f-4c55-8a4e-8d3b8d6b2c11".to_owned(),
        pid: 4711,
        start_time: 123_456,
        socket: format!("/home/me/.openclaw/clawpen/run/{name}"),
    });
    registry.identify(name, generation, &identity).unwrap();
    registry.ready(name, generation, 1, &now).unwrap();
    generation
}

#[divan::bench]
fn open_and_close(bencher: Bencher<'_, '_>) {
    let (state, database, _) = world(1);
    bencher.bench_local(|| Database::open(state.path()).unwrap());
    drop(database);
}

#[divan::bench]
fn append(bencher: Bencher<'_, '_>) {
    let (_state, database, _) = world(1);
    let call = Call {
        call: "6b9e1b5e-6c5f-4c55-8a4e-8d3b8d6b2c11".to_owned(),
        session: Some("agent:main:main".to_owned()),
        agent: Some("main".to_owned()),
        scope: Some("agent:main".to_owned()),
        door: Door::Mcp,
        tool: "exec".to_owned(),
        verdict: Verdict::Allowed,
        reason: Reason::new("allowed by `exec` in `tools.sandbox.tools.allow`"),
        ending: Some(Ending::Exit(0)),
        duration: Duration::from_micros(812),
        bytes_in: 0,
        bytes_out: 4096,
    };
    bencher.bench_local(|| database.audit().append(&call, SystemClock.now().wall).unwrap());
}

#[divan::bench]
fn lease_and_release(bencher: Bencher<'_, '_>) {
    let (_state, database, generation) = world(1);
    let holder = Holder::this().unwrap();
    let usage = Use { holder: &holder, call: "c", session: Some("agent:main:main") };
    bencher.bench_local(|| {
        let registry = database.registry();
        let lease = registry.lease("pen-0", generation, &usage, &SystemClock.now()).unwrap();
        registry.release(&lease, &SystemClock.now()).unwrap();
    });
}

#[divan::bench]
fn list_1000_rows(bencher: Bencher<'_, '_>) {
    let (_state, database, _) = world(1000);
    bencher.bench_local(|| database.registry().list().unwrap());
}

#[divan::bench]
fn verify_10000_records(bencher: Bencher<'_, '_>) {
    let (_state, database, _) = world(1);
    let call = Call {
        call: "c".to_owned(),
        session: None,
        agent: None,
        scope: None,
        door: Door::Cli,
        tool: "exec".to_owned(),
        verdict: Verdict::Refused,
        reason: Reason::new("denied by `exec` in `tools.deny`"),
        ending: None,
        duration: Duration::ZERO,
        bytes_in: 0,
        bytes_out: 0,
    };
    for _ in 0..10_000 {
        database.audit().append(&call, SystemClock.now().wall).unwrap();
    }
    assert_eq!(database.audit().list(&Filter::default()).unwrap().len(), 10_000);
    bencher.bench_local(|| database.audit().verify(None).unwrap());
}
