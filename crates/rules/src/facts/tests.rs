//! What was asked beside what was seen, and each difference that must stop a start.

use super::*;
use crate::native::Bound;
use kernel::{Capabilities, KernelText};

const STATUS: &str = "Name:\tx\nUid:\t1000\t1000\t1000\t1000\nGid:\t1000\t1000\t1000\t1000\nGroups:\t \n\
    CapInh:\t0000000000000000\nCapPrm:\t0000000000000000\nCapEff:\t0000000000000000\n\
    CapBnd:\t0000000000000000\nCapAmb:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t1\n";

fn status() -> Status {
    Status::parse(STATUS).unwrap()
}

fn names(first: u64) -> Vec<(String, u64)> {
    ["user", "pid", "net"].iter().zip(first..).map(|(name, n)| ((*name).to_owned(), n)).collect()
}

fn asked() -> Asked {
    Asked {
        backend: Backend::Native,
        user: PenUser { uid: 1000, gid: 1000 },
        outside_uid: None,
        groups: GroupsAsked::None,
        ids: Some(MapsAsked { uids: map(), gids: map() }),
        namespaces: vec!["user", "pid", "net"],
        mounts: MountsAsked::Exactly(vec![
            MountAsked {
                target: "/".into(),
                flags: vec!["ro", "nosuid"],
                below: Below::Nothing,
                source: SourceAsked::Any,
            },
            MountAsked {
                target: "/usr".into(),
                flags: vec!["ro", "nodev"],
                below: Below::Submounts,
                source: SourceAsked::Is(FileId { device: 8, inode: 7 }),
            },
        ]),
        interfaces: Interfaces::LoopbackOnly,
        rlimits: vec![Rlimit { kind: RlimitKind::Core, soft: Bound::At(1), hard: Bound::At(1) }],
        cgroup: CgroupLimits { memory: Some(1 << 30), pids: None, cpu_millis: None },
        landlock: LandlockAsked::IfPresent,
    }
}

fn map() -> Vec<Range> {
    vec![Range { inside: 0, outside: 0x7000_0000, count: 65_536 }]
}

fn mounts() -> Vec<MountFact> {
    let mut mounts = kernel::mounts(
        "1 0 0:30 / / ro,nosuid,relatime - tmpfs tmpfs rw,size=5\n\
         2 1 8:1 /usr /usr ro,nodev - ext4 /dev/sda1 rw\n\
         3 2 8:2 / /usr/my\\040local rw,nodev - ext4 /dev/sda2 ro\n",
    )
    .unwrap();
    mounts[1].source = Some(FileId { device: 8, inode: 7 });
    mounts
}

fn process(status: Status) -> Process {
    Process {
        status,
        limits: vec![(RlimitKind::Core, Limit { soft: Some(1), hard: Some(1) })],
        namespaces: names(10),
        memory: Memory::Open,
        descriptors: vec![0, 1, 2],
    }
}

fn observed() -> Observed {
    let one = Status { seccomp: 0, seccomp_filters: Some(0), ..status() };
    let seen =
        Status { uids: [0x7000_0000 + 1000; 4], gids: [0x7000_0000 + 1000; 4], ..one.clone() };
    Observed {
        host_namespaces: names(1),
        outside: Some(Outside {
            status: seen,
            namespaces: names(10),
            uid_map: map(),
            gid_map: map(),
            mounts: mounts(),
        }),
        cgroup: Some(CgroupLimits { memory: Some(1 << 30), pids: None, cpu_millis: None }),
        inside: Inside {
            supervisor: process(one),
            workload: process(status()),
            uid_map: map(),
            gid_map: map(),
            mounts: mounts(),
            interfaces: vec![Interface { name: "lo".into(), kind: InterfaceKind::Loopback }],
            landlock: Landlock { abi: 7, effect: LandlockEffect::Refuses },
            sealing: Sealing::Before,
        },
    }
}

/// Changes one observation; the refusal must name exactly these facts.
#[track_caller]
fn check(change: impl FnOnce(&mut Observed), expected: &[Fact]) {
    let mut found = observed();
    change(&mut found);
    let mismatches = decide(&asked(), &found).err().unwrap_or_default();
    let facts: Vec<Fact> = mismatches.into_iter().map(|mismatch| mismatch.fact).collect();
    assert_eq!(facts, expected);
}

fn outside(found: &mut Observed) -> &mut Outside {
    found.outside.as_mut().unwrap()
}

#[test]
fn what_is_as_asked_holds() {
    check(|_| {}, &[]);
    let lines = decide(&asked(), &observed()).unwrap();
    assert!(lines.iter().all(|line| line.holds == Holds::Yes));
}

#[test]
fn every_single_protection_that_is_gone_is_named() {
    check(|found| found.inside.workload.status.no_new_privs = false, &[Fact::NoNewPrivs]);
    check(|found| found.inside.supervisor.status.no_new_privs = false, &[Fact::NoNewPrivs]);
    check(|found| outside(found).status.no_new_privs = false, &[Fact::NoNewPrivs]);
    check(|found| found.inside.workload.status.seccomp = 0, &[Fact::Seccomp]);
    check(|found| found.inside.supervisor.status.seccomp_filters = Some(1), &[Fact::Seccomp]);
    for set in 0..5 {
        let drop = |status: &mut Status| {
            let Capabilities { inheritable, permitted, effective, bounding, ambient } =
                &mut status.capabilities;
            *[inheritable, permitted, effective, bounding, ambient][set] = 1;
        };
        check(|found| drop(&mut found.inside.workload.status), &[Fact::Capabilities]);
        check(|found| drop(&mut outside(found).status), &[Fact::Capabilities]);
    }
    check(|found| found.inside.landlock.effect = LandlockEffect::Nothing, &[Fact::Landlock]);
    check(|found| found.inside.workload.descriptors.push(7), &[Fact::Descriptors]);
    check(|found| found.inside.workload.limits.clear(), &[Fact::Rlimit(RlimitKind::Core)]);
    check(|found| found.cgroup = None, &[Fact::Cgroup("memory")]);
    check(|found| found.inside.sealing = Sealing::After, &[Fact::Memory]);
    let eth = Interface { name: "eth0".into(), kind: InterfaceKind::Other };
    check(|found| found.inside.interfaces.push(eth), &[Fact::Interfaces]);
}

#[test]
fn process_one_must_be_closed_after_the_seal() {
    assert_eq!(decide_sealed(Memory::Closed, Seen::Outside).unwrap().holds, Holds::Yes);
    assert_eq!(decide_sealed(Memory::Open, Seen::Outside).unwrap_err().fact, Fact::Memory);
}

#[test]
fn a_namespace_of_the_host_or_of_somebody_else_is_named() {
    check(|found| outside(found).namespaces[2].1 = 3, &[Fact::Namespace("net")]);
    check(|found| found.inside.workload.namespaces[1].1 = 2, &[Fact::Namespace("pid")]);
    check(|found| found.inside.workload.namespaces[1].1 = 99, &[Fact::Namespace("pid")]);
    check(
        |found| {
            found.host_namespaces.remove(0);
        },
        &[Fact::Namespace("user")],
    );
}

#[test]
fn ids_are_those_of_the_map_and_never_the_hosts_root() {
    let root = vec![Range { inside: 0, outside: 0, count: 65_536 }];
    check(|found| outside(found).uid_map = root, &[Fact::UidMap]);
    check(|found| outside(found).status.uids = [0; 4], &[Fact::User]);
    check(|found| found.inside.workload.status.uids[2] = 0, &[Fact::User]);
    check(|found| found.inside.workload.status.groups.push(4), &[Fact::Groups]);
}

#[test]
fn an_engine_of_ours_starts_nobody_but_us() {
    let refused = |change: fn(&mut Observed)| {
        let mut asked = asked();
        (asked.backend, asked.ids, asked.outside_uid) = (Backend::Docker, None, Some(501));
        let mut found = observed();
        outside(&mut found).status.uids = [501; 4];
        change(&mut found);
        let refused = decide(&asked, &found).err().unwrap_or_default();
        refused.into_iter().map(|one| one.fact).collect::<Vec<_>>()
    };
    assert_eq!(refused(|_| {}), Vec::<Fact>::new());
    assert_eq!(refused(|found| outside(found).status.uids = [0; 4]), [Fact::User]);
    assert_eq!(refused(|found| outside(found).status.uids[1] = 100_501), [Fact::User]);
    let unseen = refused(|found| found.outside = None);
    assert_eq!(unseen, [Fact::User]);
}

#[test]
fn mounts_are_exactly_those_asked_for() {
    let mount = |target: &str| Fact::Mount(target.to_owned());
    check(
        |found| {
            found.inside.mounts.remove(1);
        },
        &[mount("/usr")],
    );
    check(|found| outside(found).mounts[0].options = vec!["ro".into()], &[mount("/")]);
    check(|found| outside(found).mounts[2].options = vec!["ro".into()], &[mount("/usr")]);
    let extra = MountFact {
        is_private: true,
        id: 4,
        source: None,
        target: "/host".into(),
        root: "/".into(),
        options: vec!["ro".into()],
        file_system: "ext4".into(),
    };
    check(|found| outside(found).mounts.push(extra), &[mount("/host")]);
}

#[test]
fn a_mount_is_of_the_file_that_was_checked_and_of_no_other() {
    let usr = [Fact::Mount("/usr".to_owned())];
    let other = |device, inode| Some(FileId { device, inode });
    check(|found| found.inside.mounts[1].source = other(8, 6), &usr);
    check(|found| found.inside.mounts[1].source = other(9, 7), &usr);
    check(|found| found.inside.mounts[1].source = None, &usr);
    // What is mounted on top is what a command reaches.
    check(
        |found| found.inside.mounts.push(MountFact { source: None, ..mounts()[1].clone() }),
        &usr,
    );
    // From outside nobody can look, and so nobody is asked.
    check(|found| outside(found).mounts[1].source = None, &[]);
    let mut asked = asked();
    let MountsAsked::Exactly(mounts) = &mut asked.mounts else { panic!("they are exact") };
    mounts[1].source = SourceAsked::Gone;
    let refused = decide(&asked, &observed()).unwrap_err();
    assert_eq!(
        refused.iter().map(ToString::to_string).collect::<Vec<_>>(),
        [
            "mount `/usr` is not as asked: asked ro,nodev of what is no longer there, found ro,nodev \
          from outside, ro,nodev of file 7 on device 8 from inside"
        ]
    );
}

#[test]
fn an_unseen_outside_is_no_proof() {
    check(|found| found.outside = None, &[Fact::UidMap, Fact::GidMap]);
    let blind = |found: &mut Observed| (found.outside, found.cgroup) = (None, None);
    check(blind, &[Fact::UidMap, Fact::GidMap, Fact::Cgroup("memory")]);
}

#[test]
fn a_mismatch_says_what_was_found_where() {
    let mut found = observed();
    found.inside.workload.status.no_new_privs = false;
    let mismatch = decide(&asked(), &found).unwrap_err().remove(0);
    assert_eq!(
        mismatch.to_string(),
        "no-new-privs is not as asked: asked on, found on from outside, off from inside"
    );
}

#[test]
fn texts_that_the_kernel_would_not_write_are_errors() {
    for name in ["Uid", "CapBnd", "NoNewPrivs", "Seccomp"] {
        let text: Vec<&str> =
            STATUS.lines().filter(|line| !line.starts_with(&format!("{name}:"))).collect();
        assert_eq!(Status::parse(&text.join("\n")), Err(KernelText::Missing(name)));
    }
    assert!(Status::parse(&STATUS.replace("Uid:\t1000", "Uid:\tx")).is_err());
    assert!(kernel::id_map("0 1").is_err());
    assert!(kernel::mounts("nonsense").is_err());
    assert!(kernel::limits("Max cpu time unlimited unlimited seconds").is_err());
    assert_eq!(mounts()[2].target, "/usr/my local");
    assert_eq!(mounts()[2].options, ["nodev", "ro"]);
}

#[test]
fn a_process_1_that_stays_open_is_refused_wherever_it_is_seen_from() {
    assert!(decide_sealed(Memory::Closed, Seen::Outside).is_ok());
    assert!(decide_sealed(Memory::Closed, Seen::Inside).is_ok());
    let open = decide_sealed(Memory::Open, Seen::Inside).unwrap_err();
    assert_eq!(
        open.to_string(),
        "process 1 closed to others is not as asked: asked closed, found open from inside"
    );
}

#[test]
fn a_single_id_keeps_groups_that_have_no_number_inside() {
    let mut asked = asked();
    asked.groups = GroupsAsked::Nameless;
    let mut found = observed();
    found.inside.workload.status.groups = vec![65_534, 65_534];
    assert!(decide(&asked, &found).is_ok());
    found.inside.workload.status.groups.push(4);
    let refused = decide(&asked, &found).unwrap_err();
    assert_eq!(refused.iter().map(|one| one.fact.clone()).collect::<Vec<_>>(), [Fact::Groups]);
}
