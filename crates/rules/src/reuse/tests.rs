//! What happens to a container that is already there, by table.

use super::*;
use crate::config::tree::{Node, Value};

const NOW: u64 = 1_700_000_000_000;

#[test]
fn what_is_not_there_is_created() {
    check_absent(Registry::NoEntry, Reuse::Create);
    check_absent(entry(Some(NOW), Some("old")), Reuse::Create);
}

#[test]
fn what_is_as_wanted_is_kept_however_long_it_was_idle() {
    check(running(Some(&wanted_label())), Registry::NoEntry, Reuse::Keep);
    check(running(Some(&wanted_label())), entry(Some(0), Some("old")), Reuse::Keep);
    check(stopped(Some(&wanted_label())), Registry::NoEntry, Reuse::Start);
}

#[test]
fn without_a_label_the_registry_says_what_it_was_made_from() {
    let label = wanted_label();
    check(running(None), entry(Some(NOW), Some(&label)), Reuse::Keep);
    check(stopped(None), entry(None, Some(&label)), Reuse::Start);
    check(running(Some("old")), entry(Some(NOW), Some(&label)), stale(Some("old")));
}

#[test]
fn a_changed_sandbox_is_kept_while_it_is_hot_and_replaced_once_the_window_has_passed() {
    let used = |ago: u64| entry(Some(NOW - ago), Some("old"));
    check(running(Some("old")), used(0), stale(Some("old")));
    check(running(Some("old")), used(299_999), stale(Some("old")));
    check(running(Some("old")), used(300_000), replaced(Difference::Changed, idle(300_000)));
    check(running(None), entry(Some(0), None), replaced(Difference::Unknown, idle(NOW)));
    check(stopped(Some("old")), used(0), replaced(Difference::Changed, Cold::Stopped));
    check(stopped(None), Registry::NoEntry, replaced(Difference::Unknown, Cold::Stopped));
}

#[test]
fn doubt_counts_as_hot() {
    check(running(Some("old")), Registry::NoEntry, stale(Some("old")));
    check(running(None), Registry::NoEntry, stale(None));
    check(running(Some("old")), entry(None, Some("old")), stale(Some("old")));
    // The clock was set back since.
    check(running(Some("old")), entry(Some(NOW + 999_999_999), None), stale(Some("old")));
}

#[test]
fn another_backend_or_protocol_is_never_gone_on_with() {
    let with = |reach| Container { reach, ..running(Some(&wanted_label())) };
    let stale = Stale {
        name: wanted().name,
        fingerprint: Some(wanted_label()),
        recreate: wanted().recreate,
    };
    let backend = Reuse::Refuse(RefuseReason::OtherBackend(stale.clone()));
    check(with(Reach::OtherBackend), entry(Some(NOW), None), backend);
    let cold = replaced(Difference::Changed, idle(300_000));
    check(with(Reach::OtherBackend), entry(Some(NOW - 300_000), None), cold);
    let at_once = replaced(Difference::Changed, Cold::OutOfReach);
    check(with(Reach::OtherProtocol), entry(Some(NOW), None), at_once);
    let seen = Seen {
        container: Some(with(Reach::OtherProtocol)),
        registry: entry(Some(0), None),
        activity: Activity::InUse,
    };
    let refused = Reuse::Refuse(RefuseReason::OtherProtocol(stale));
    assert_eq!(decide(&seen, &wanted(), Timestamp::from_millis(NOW)), refused);
}

#[test]
fn a_call_in_flight_keeps_a_sandbox_hot_for_as_long_as_it_takes() {
    let mut seen = Seen {
        container: Some(running(Some("old"))),
        registry: entry(Some(0), None),
        activity: Activity::InUse,
    };
    assert_eq!(decide(&seen, &wanted(), Timestamp::from_millis(NOW)), stale(Some("old")));
    seen.container = Some(stopped(Some("old")));
    let replaced = replaced(Difference::Changed, Cold::Stopped);
    assert_eq!(decide(&seen, &wanted(), Timestamp::from_millis(NOW)), replaced);
}

#[test]
fn a_hot_sandbox_with_other_mounts_is_refused_and_a_cold_one_replaced() {
    let container =
        |label, state| Container { state, mounts: Mounts::Differ, ..running(Some(label)) };
    let Reuse::KeepStale(kept) = stale(Some("old")) else { unreachable!() };
    check(
        container("old", State::Running),
        Registry::NoEntry,
        Reuse::Refuse(RefuseReason::MountsDiffer(kept)),
    );
    check(
        container("old", State::Stopped),
        Registry::NoEntry,
        replaced(Difference::Changed, Cold::Stopped),
    );
}

#[test]
fn nothing_is_made_that_could_not_be_written_down() {
    let registry = || Registry::Unreadable { file: "/r.json".to_owned() };
    let refused = || Reuse::Refuse(RefuseReason::RegistryUnreadable { file: "/r.json".to_owned() });
    check_absent(registry(), refused());
    check(running(Some(&wanted_label())), registry(), refused());
}

#[test]
fn only_what_is_created_starts_anew_in_the_registry() {
    assert!(Reuse::Create.makes_container());
    assert!(replaced(Difference::Changed, Cold::Stopped).makes_container());
    for kept in [Reuse::Keep, Reuse::Start, stale(None)] {
        assert!(!kept.makes_container());
    }
}

#[test]
fn the_command_names_the_sandbox_of_each_scope() {
    let line = |kind, target| Recreate { kind, target }.to_string();
    let agent = || RecreateTarget::Agent(AgentId::main());
    let session = |key: &str| RecreateTarget::Session(key.to_owned());
    assert_eq!(line(SandboxKind::Shell, agent()), "clawpen sandbox recreate --agent main");
    assert_eq!(
        line(SandboxKind::Browser, RecreateTarget::All),
        "clawpen sandbox recreate --browser --all"
    );
    assert_eq!(
        line(SandboxKind::Shell, session("agent:main:telegram:group:-1")),
        "clawpen sandbox recreate --session agent:main:telegram:group:-1"
    );
    assert_eq!(
        line(SandboxKind::Shell, session("x;rm -rf 'y'")),
        r"clawpen sandbox recreate --session 'x;rm -rf '\''y'\'''"
    );
}

fn wanted_label() -> String {
    wanted().fingerprint.as_str().to_owned()
}

fn wanted() -> Wanted {
    Wanted {
        name: "pen".to_owned(),
        fingerprint: Fingerprint::of_tree(&Node::synthetic(Value::Null)),
        recreate: Recreate {
            kind: SandboxKind::Shell,
            target: RecreateTarget::Agent(AgentId::main()),
        },
    }
}

fn running(label: Option<&str>) -> Container {
    Container {
        state: State::Running,
        label: label.map(str::to_owned),
        mounts: Mounts::Same,
        reach: Reach::Usable,
    }
}

fn stopped(label: Option<&str>) -> Container {
    Container { state: State::Stopped, ..running(label) }
}

fn entry(last_used: Option<u64>, fingerprint: Option<&str>) -> Registry {
    Registry::Entry {
        last_used: last_used.map(Timestamp::from_millis),
        fingerprint: fingerprint.map(str::to_owned),
    }
}

fn stale(fingerprint: Option<&str>) -> Reuse {
    let Wanted { name, fingerprint: _, recreate } = wanted();
    Reuse::KeepStale(Stale { name, fingerprint: fingerprint.map(str::to_owned), recreate })
}

fn replaced(difference: Difference, cold: Cold) -> Reuse {
    Reuse::Replace(ReplaceReason { difference, cold })
}

fn idle(millis: u64) -> Cold {
    Cold::Idle(Duration::from_millis(millis))
}

#[track_caller]
fn check_absent(registry: Registry, expected: Reuse) {
    let seen = Seen { container: None, registry, activity: Activity::Quiet };
    assert_eq!(decide(&seen, &wanted(), Timestamp::from_millis(NOW)), expected);
}

#[track_caller]
fn check(container: Container, registry: Registry, expected: Reuse) {
    let seen = Seen { container: Some(container), registry, activity: Activity::Quiet };
    assert_eq!(decide(&seen, &wanted(), Timestamp::from_millis(NOW)), expected);
}
