//! Native pens, made by root, by a user with subordinate ids and by one without.

use clawpen_rules::facts::FactKind;

use super::starter::{Starter, Who, needs_root};
use super::{Shown, facts, kinds, limit_number, not_as_asked, unnoticed};

/// Asks for every kind of fact that a user can have.
const CONFIG: &str = "{agents: {defaults: {sandbox: {backend: 'native', docker: \
    {tmpfs: ['/scratch:noexec'], ulimits: {nofile: {soft: 100, hard: 200}, fsize: 100000000}}}}}}";
/// And what only root can: limits that need a control group.
const LIMITS: &str = "{agents: {defaults: {sandbox: {backend: 'native', docker: \
    {memory: '64m', cpus: 0.5, pidsLimit: 100}}}}}";

/// The switches of one fact. Matched without a catch-all: a new kind needs its own.
fn switches(fact: &Shown, who: Who) -> Vec<String> {
    let one = |name: &str| vec![name.to_owned()];
    match fact.kind {
        // Without it an ordinary user can make nothing at all; the kernel sees to that.
        FactKind::Namespace if fact.which == "user" && who != Who::Root => Vec::new(),
        FactKind::Namespace if fact.which == "mnt" => one("mount-namespace"),
        FactKind::Namespace => vec![format!("{}-namespace", fact.which)],
        FactKind::UidMap => one("uid-map"),
        FactKind::GidMap => one("gid-map"),
        FactKind::User => one("user"),
        // The kernel keeps them, and keeps others away.
        FactKind::Groups if who == Who::UserWithout => Vec::new(),
        FactKind::Groups => one("groups"),
        FactKind::Capabilities => {
            let sets = ["effective", "permitted", "inheritable", "bounding", "ambient"];
            let each = sets.into_iter().map(|set| format!("capabilities:{set}"));
            each.chain(one("capabilities")).collect()
        }
        FactKind::NoNewPrivs => one("no-new-privs"),
        FactKind::Seccomp => one("seccomp"),
        FactKind::Landlock => one("landlock"),
        FactKind::Mount => vec![format!("mount:{}", fact.which)],
        FactKind::Interfaces => one("interfaces"),
        FactKind::Rlimit => vec![format!("limit:{}", limit_number(&fact.which))],
        FactKind::Cgroup => vec![format!("cgroup:{}", fact.which), "cgroups".to_owned()],
        FactKind::Descriptors => one("descriptors"),
        FactKind::Memory => one("seal"),
    }
}

/// Every switch of every fact of a live pen, with the words by which its absence must be told.
fn all(facts: &[Shown], who: Who) -> Vec<(String, String)> {
    let each = |fact: &Shown| {
        let named = not_as_asked(&fact.name);
        switches(fact, who).into_iter().map(move |switch| (switch, named.clone()))
    };
    facts.iter().flat_map(each).collect()
}

fn check(who: Who, without: &[FactKind]) {
    needs_root();
    let starter = Starter::new(who, CONFIG);
    assert_eq!(starter.run(&["exec", "--", "true"], ""), (Some(0), String::new(), String::new()));
    let facts = facts(&starter);
    let expected = FactKind::ALL.into_iter().filter(|kind| !without.contains(kind)).collect();
    assert_eq!(kinds(&facts), expected);
    let mut faults = all(&facts, who);
    // What nobody asked for.
    faults.push(("extra-mount".into(), not_as_asked("mount `/extra`")));
    faults.push(("root".into(), not_as_asked("mount `/sys`")));
    for (class, named) in [
        ("read-only", "mount `/usr`"),
        ("nosuid", "mount `/workspace`"),
        ("nodev", "mount `/workspace`"),
        ("noexec", "mount `/scratch`"),
        ("masks", "mount `/proc/keys`"),
        ("rlimits", "limit `core`"),
    ] {
        faults.push((class.into(), not_as_asked(named)));
    }
    let wrong = unnoticed(&starter, &faults);
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), faults.len(), wrong.join("\n"));
}

#[test]
fn every_protection_that_is_left_out_of_roots_pen_is_named() {
    check(Who::Root, &[FactKind::Cgroup]);
}

#[test]
fn every_protection_that_is_left_out_of_a_users_pen_is_named() {
    check(Who::UserWithRange, &[FactKind::Cgroup]);
}

#[test]
fn every_protection_that_is_left_out_of_a_pen_with_a_single_id_is_named() {
    check(Who::UserWithout, &[FactKind::Cgroup]);
}

#[test]
fn every_limit_of_a_control_group_that_is_left_out_is_named() {
    needs_root();
    let starter = Starter::new(Who::Root, LIMITS);
    let facts: Vec<Shown> =
        facts(&starter).into_iter().filter(|fact| fact.kind == FactKind::Cgroup).collect();
    let names: Vec<&str> = facts.iter().map(|fact| fact.which.as_str()).collect();
    assert_eq!(names, ["memory", "pids", "cpu"]);
    let wrong = unnoticed(&starter, &all(&facts, Who::Root));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Whoever may make no user namespace can make no other either: there is nothing to be noticed.
#[test]
fn without_a_user_namespace_an_ordinary_user_has_no_pen() {
    needs_root();
    for who in [Who::UserWithRange, Who::UserWithout] {
        let starter = Starter::new(who, CONFIG);
        let (code, _, said) = starter.run(&["exec", "--", "true"], "user-namespace");
        assert_eq!(code, Some(125), "{said}");
        assert!(said.contains("clone into new namespaces: Operation not permitted"), "{said}");
    }
}
