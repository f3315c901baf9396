//! Rows, leases and what the reference left, through a real database.

use std::fs;
use std::time::Duration;

use clawpen_rules::backend::Backend;
use clawpen_rules::ids::AgentId;
use clawpen_rules::scope::ScopeKey;
use clawpen_rules::timestamp::{Moment, SinceBoot, Timestamp};
use tempfile::TempDir;

use super::*;
use crate::process_identity;

struct World {
    state: TempDir,
    database: Database,
}

impl World {
    fn new() -> Self {
        let state = tempfile::tempdir().unwrap();
        let database = Database::open(state.path()).unwrap();
        Self { state, database }
    }

    fn registry(&self) -> Registry<'_> {
        self.database.registry()
    }

    /// A sandbox that is ready.
    fn ready(&self, name: &str) -> Generation {
        let generation = self.registry().begin(&new_row(name), &at(1)).unwrap();
        self.registry().identify(name, generation, &native()).unwrap();
        self.registry().ready(name, generation, 3, &at(2)).unwrap();
        generation
    }

    fn lease(&self, name: &str, generation: Generation) -> Result<Taken, RegistryError> {
        let usage = Use { holder: &holder(7), call: "c1", session: Some("agent:main:x") };
        self.registry().lease(name, generation, &usage, &at(5))
    }

    fn reference(&self, name: &str, text: &str) {
        let directory = self.state.path().join("sandbox");
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join(name), text).unwrap();
    }
}

#[test]
fn a_row_goes_from_creating_to_ready_to_removing_and_every_value_comes_back() {
    let world = World::new();
    let registry = world.registry();
    let generation = registry.begin(&new_row("a"), &at(1)).unwrap();
    let mut expected = Row {
        name: "a".to_owned(),
        kind: Kind::Browser,
        backend: Backend::Native,
        scope: ScopeKey::stored("agent:main").unwrap(),
        session: Some("agent:main:main".to_owned()),
        agent: Some(AgentId::main()),
        image: "/rootfs".to_owned(),
        fingerprint: "f00".to_owned(),
        workspace_dir: "/w".to_owned(),
        state: State::Creating,
        generation,
        identity: None,
        protocol: 0,
        created: at(1),
        last_used: at(1),
    };
    assert_eq!(registry.get("a").unwrap().as_ref(), Some(&expected));
    registry.identify("a", generation, &native()).unwrap();
    registry.ready("a", generation, 3, &at(2)).unwrap();
    expected.identity = Some(native());
    (expected.state, expected.protocol, expected.last_used) = (State::Ready, 3, at(2));
    assert_eq!(registry.list().unwrap(), [expected.clone()]);
    registry.touch("a", generation, Some("agent:main:y"), &at(9)).unwrap();
    registry.restarted("a", generation, &docker(), 4).unwrap();
    registry.begin_removal("a", generation, InFlight::Respect, |_| Liveness::Alive).unwrap();
    (expected.session, expected.last_used) = (Some("agent:main:y".to_owned()), at(9));
    (expected.identity, expected.protocol) = (Some(docker()), 4);
    expected.state = State::Removing;
    assert_eq!(registry.list().unwrap(), [expected]);
    registry.forget("a", generation).unwrap();
    registry.forget("a", generation).unwrap();
    assert_eq!(registry.get("a").unwrap(), None);
}

#[test]
fn a_name_is_taken_once_and_an_old_generation_changes_nothing() {
    let world = World::new();
    let registry = world.registry();
    let old = world.ready("a");
    let taken = registry.begin(&new_row("a"), &at(3)).unwrap_err().to_string();
    assert_eq!(taken, "a sandbox `a` is written down already, as ready");
    registry.forget("a", old).unwrap();
    let new = world.ready("a");
    assert!(new > old);
    let before = registry.list().unwrap();
    let changed = |result: Result<(), RegistryError>| {
        assert!(matches!(result, Err(RegistryError::Changed { .. })), "{result:?}");
    };
    changed(registry.identify("a", old, &docker()));
    changed(registry.ready("a", old, 9, &at(9)));
    changed(registry.touch("a", old, None, &at(9)));
    changed(registry.begin_removal("a", old, InFlight::CutOff, |_| Liveness::Dead));
    changed(world.lease("a", old).map(drop));
    registry.forget("a", old).unwrap();
    assert_eq!(registry.list().unwrap(), before);
}

#[test]
fn only_a_ready_sandbox_is_leased_and_a_leased_one_is_not_removed() {
    let world = World::new();
    let registry = world.registry();
    let creating = registry.begin(&new_row("b"), &at(1)).unwrap();
    let refused = world.lease("b", creating).unwrap_err();
    assert!(matches!(refused, RegistryError::WrongState { state: State::Creating, .. }));
    let generation = world.ready("a");
    let lease = world.lease("a", generation).unwrap();
    let expected = Lease {
        id: lease.id,
        name: "a".to_owned(),
        holder: holder(7),
        call: "c1".to_owned(),
        since: at(5),
    };
    assert_eq!(registry.all_leases().unwrap(), std::slice::from_ref(&expected));
    let row = registry.get("a").unwrap().unwrap();
    assert_eq!((row.last_used, row.session.as_deref()), (at(5), Some("agent:main:x")));
    // Who cannot be told from alive counts as alive.
    for liveness in [Liveness::Alive, Liveness::Unknown] {
        let refused = registry.begin_removal("a", generation, InFlight::Respect, |_| liveness);
        match refused {
            Err(RegistryError::InUse { leases, .. }) => {
                assert_eq!(leases, std::slice::from_ref(&expected));
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(registry.get("a").unwrap().unwrap().state, State::Ready);
    }
    registry.release(&lease, &at(8)).unwrap();
    assert_eq!(registry.get("a").unwrap().unwrap().last_used, at(8));
    registry.begin_removal("a", generation, InFlight::Respect, |_| Liveness::Alive).unwrap();
    assert!(matches!(world.lease("a", generation), Err(RegistryError::WrongState { .. })));
}

#[test]
fn a_sandbox_is_leased_at_once_if_it_is_ready_and_as_wanted() {
    let world = World::new();
    let registry = world.registry();
    let NewRow { backend, fingerprint, .. } = new_row("a");
    let ask = |name, backend, fingerprint| {
        let usage = Use { holder: &holder(7), call: "c1", session: Some("agent:main:y") };
        registry.lease_as_is(&AsWanted { name, backend, fingerprint }, &usage, &at(5)).unwrap()
    };
    registry.begin(&new_row("b"), &at(1)).unwrap();
    let generation = world.ready("a");
    assert_eq!(ask("b", backend, &fingerprint), None, "it is being made");
    assert_eq!(ask("c", backend, &fingerprint), None, "there is none");
    assert_eq!(ask("a", Backend::Docker, &fingerprint), None, "another backend's");
    assert_eq!(ask("a", backend, "other"), None, "another config's");
    assert_eq!(registry.all_leases().unwrap(), []);
    let leased = ask("a", backend, &fingerprint).unwrap();
    assert_eq!((leased.generation, leased.identity), (generation, native()));
    let row = registry.get("a").unwrap().unwrap();
    assert_eq!((row.last_used, row.session.as_deref()), (at(5), Some("agent:main:y")));
    let ids: Vec<LeaseId> = registry.leases("a").unwrap().iter().map(|lease| lease.id).collect();
    assert_eq!(ids, [leased.lease.id]);
}

#[test]
fn the_lease_of_a_dead_caller_keeps_nothing_and_force_cuts_off_a_living_one() {
    let world = World::new();
    let registry = world.registry();
    let a = world.ready("a");
    world.lease("a", a).unwrap();
    registry.begin_removal("a", a, InFlight::Respect, |_| Liveness::Dead).unwrap();
    assert_eq!(registry.leases("a").unwrap(), []);
    let b = world.ready("b");
    let lease = world.lease("b", b).unwrap();
    registry.begin_removal("b", b, InFlight::CutOff, |_| Liveness::Alive).unwrap();
    registry.forget("b", b).unwrap();
    assert_eq!(registry.all_leases().unwrap(), []);
    registry.release(&lease, &at(9)).unwrap();
    let c = world.ready("c");
    let kept = world.lease("c", c).unwrap();
    let usage = Use { holder: &holder(8), call: "c2", session: None };
    registry.lease("c", c, &usage, &at(6)).unwrap();
    let gone = registry.sweep(|holder| match holder.pid {
        8 => Liveness::Dead,
        _ => Liveness::Unknown,
    });
    assert_eq!(gone.unwrap(), 1);
    let ids: Vec<LeaseId> = registry.leases("c").unwrap().iter().map(|lease| lease.id).collect();
    assert_eq!(ids, [kept.id]);
}

#[test]
fn a_process_is_told_from_another_of_the_same_number() {
    let this = Holder::this().unwrap();
    assert_eq!(this.liveness(), Liveness::Alive);
    let other = |change: fn(&mut Holder)| {
        let mut other = this.clone();
        change(&mut other);
        other.liveness()
    };
    assert_eq!(other(|holder| holder.start_time += 1), Liveness::Dead);
    assert_eq!(other(|holder| holder.boot_id = "another".to_owned()), Liveness::Dead);
    assert_eq!(other(|holder| holder.pid_namespace += 1), Liveness::Unknown);
    let mut child = std::process::Command::new("true").spawn().unwrap();
    let mut dead = this.clone();
    dead.pid = child.id();
    dead.start_time = process_identity::listed(child.id()).unwrap().unwrap().start_time;
    child.wait().unwrap();
    assert_eq!(dead.liveness(), Liveness::Dead);
}

#[test]
fn the_last_use_is_the_one_written_last_whatever_the_clock_says() {
    let world = World::new();
    let registry = world.registry();
    let generation = world.ready("a");
    let on = |wall: u64, boot: &str, minutes: u64| Moment {
        wall: Timestamp::from_millis(wall * 60_000),
        boot: Some(SinceBoot { id: boot.to_owned(), millis: minutes * 60_000 }),
    };
    let idle = |used: Moment, now: Moment, minutes: u64| {
        registry.touch("a", generation, None, &used).unwrap();
        let row = registry.get("a").unwrap().unwrap();
        assert_eq!(row.last_used, used);
        assert_eq!(now.since(&row.last_used), Duration::from_secs(minutes * 60));
    };
    // Set forward by years, set back by years, and right.
    idle(on(1_000, "x", 10), on(9_000_000, "x", 12), 2);
    idle(on(9_000_000, "x", 10), on(1_000, "x", 12), 2);
    idle(on(1_000, "x", 10), on(1_002, "x", 12), 2);
    // After a reboot only the wall clock is left; what lies ahead of it is not old.
    idle(on(1_000, "x", 10), on(1_007, "y", 0), 7);
    idle(on(9_000_000, "x", 10), on(1_000, "y", 0), 0);
}

const CONTAINERS: &str = r#"{
  "entries": [
    {"containerName": "openclaw-sbx-agent-main-f331f052", "backendId": "docker",
     "runtimeLabel": "label", "sessionKey": "agent:main", "createdAtMs": 1700000000000,
     "lastUsedAtMs": 1700000001000.5, "image": "openclaw-sandbox:bookworm-slim",
     "configLabelKind": "Image", "configHash": "75db", "future": {"kept": true}},
    {"containerName": "old", "sessionKey": "shared", "createdAtMs": 1, "lastUsedAtMs": 2,
     "image": "i"}
  ]
}
"#;
const BROWSERS: &str = r#"{"entries": [{"containerName": "b", "sessionKey": "agent:main",
    "createdAtMs": 3, "lastUsedAtMs": 4, "image": "i", "cdpPort": 32768, "noVncPort": 32769}]}"#;

#[test]
fn the_sandboxes_of_the_reference_are_listed_with_its_defaults_and_follow_its_files() {
    let world = World::new();
    let registry = world.registry();
    world.reference("containers.json", CONTAINERS);
    world.reference("browsers.json", BROWSERS);
    let imported = registry.import(world.state.path()).unwrap();
    assert_eq!((imported.found, imported.problems.len()), (3, 0));
    let found = registry.foreign().unwrap();
    let file = |name: &str| world.state.path().join("sandbox").join(name).display().to_string();
    let old = Foreign {
        name: "old".to_owned(),
        kind: Kind::Sandbox,
        backend: "docker".to_owned(),
        label: "old".to_owned(),
        session_key: "shared".to_owned(),
        created: millis(1),
        last_used: millis(2),
        image: "i".to_owned(),
        config_label_kind: "Image".to_owned(),
        config_hash: None,
        cdp_port: None,
        no_vnc_port: None,
        file: file("containers.json"),
    };
    assert_eq!(found[0], old);
    assert_eq!(found[1].cdp_port.zip(found[1].no_vnc_port), Some((32768, 32769)));
    assert_eq!(
        (found[2].label.as_str(), found[2].last_used.clone()),
        ("label", millis(1_700_000_001_000))
    );
    assert_eq!(registry.list().unwrap(), []);
    world.reference("containers.json", r#"{"entries": []}"#);
    registry.import(world.state.path()).unwrap();
    assert_eq!(registry.foreign().unwrap().len(), 1);
    fs::remove_file(file("browsers.json")).unwrap();
    registry.import(world.state.path()).unwrap();
    assert_eq!(registry.foreign().unwrap(), []);
}

#[test]
fn a_malformed_file_of_the_reference_is_reported_and_what_it_said_stays() {
    let world = World::new();
    let registry = world.registry();
    world.reference("containers.json", CONTAINERS);
    registry.import(world.state.path()).unwrap();
    for text in ["{", "[]", r#"{"entries": 1}"#, r#"{"entries": [{"containerName": 1}]}"#] {
        world.reference("containers.json", text);
        let imported = registry.import(world.state.path()).unwrap();
        let told: Vec<String> = imported.problems.iter().map(ToString::to_string).collect();
        assert_eq!(told.len(), 1, "{text}");
        assert!(told[0].contains("containers.json") && told[0].contains("left as it is"));
        assert_eq!(registry.foreign().unwrap().len(), 2);
        let path = world.state.path().join("sandbox/containers.json");
        assert_eq!(fs::read_to_string(path).unwrap(), text);
    }
    let path = world.state.path().join("sandbox/browsers.json");
    fs::create_dir(path).unwrap();
    assert_eq!(registry.import(world.state.path()).unwrap().problems.len(), 2);
}

#[test]
fn an_adopted_sandbox_is_ours_and_listed_once() {
    let world = World::new();
    let registry = world.registry();
    world.reference("containers.json", CONTAINERS);
    registry.import(world.state.path()).unwrap();
    let foreign = registry.foreign().unwrap().remove(0);
    let ours = |name: &str| Survivor {
        row: new_row(name),
        identity: docker(),
        protocol: 0,
        created: millis(1),
    };
    let generation = registry.adopt(&foreign, &ours("old")).unwrap();
    let row = registry.get("old").unwrap().unwrap();
    assert_eq!(
        (row.generation, row.state, row.identity),
        (generation, State::Ready, Some(docker()))
    );
    assert_eq!(registry.foreign().unwrap().len(), 1);
    world.reference("containers.json", &CONTAINERS.replace("75db", "ffff"));
    registry.import(world.state.path()).unwrap();
    assert_eq!(registry.foreign().unwrap().len(), 1);
    // Neither twice, nor over a row of ours, nor what is not there.
    assert!(matches!(registry.adopt(&foreign, &ours("old")), Err(RegistryError::Taken { .. })));
    assert!(matches!(registry.adopt(&foreign, &ours("x")), Err(RegistryError::Changed { .. })));
    assert_eq!(registry.list().unwrap().len(), 1);
}

fn at(seconds: u64) -> Moment {
    let boot = SinceBoot { id: "boot".to_owned(), millis: seconds * 1000 };
    Moment { wall: Timestamp::from_millis(1_000_000 + seconds * 1000), boot: Some(boot) }
}

fn millis(millis: u64) -> Moment {
    Moment::wall(Timestamp::from_millis(millis))
}

fn holder(pid: u32) -> Holder {
    Holder { pid, start_time: 1, boot_id: "boot".to_owned(), pid_namespace: 1 }
}

fn native() -> Identity {
    Identity::Native(NativeIdentity {
        boot_id: "boot".to_owned(),
        pid: 12,
        start_time: 34,
        socket: "/run/s".to_owned(),
    })
}

fn docker() -> Identity {
    Identity::Docker(DockerIdentity {
        container_id: "c0ffee".to_owned(),
        endpoint: "/run/docker.sock".to_owned(),
        state_label: "label".to_owned(),
    })
}

fn new_row(name: &str) -> NewRow {
    NewRow {
        name: name.to_owned(),
        kind: Kind::Browser,
        backend: Backend::Native,
        scope: ScopeKey::stored("agent:main").unwrap(),
        session: Some("agent:main:main".to_owned()),
        agent: Some(AgentId::main()),
        image: "/rootfs".to_owned(),
        fingerprint: "f00".to_owned(),
        workspace_dir: "/w".to_owned(),
    }
}
