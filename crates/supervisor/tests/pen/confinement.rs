//! What a pen is, seen from outside, from process 1 and from a command.

use std::collections::BTreeMap;

use clawpen_wire::pen::{
    BindOwner, IdRange, LandlockAccess, LandlockRule, MountFlags, MountStep, Namespaces,
    ResourceLimit,
};
use clawpen_wire::supervisor::{ErrorCode, FactsReport, Request};

use crate::harness::{Maker, Pen, bind, is_root, sh};
use crate::{any_maker, makers};

fn status(text: &[u8]) -> BTreeMap<String, String> {
    let text = String::from_utf8(text.to_vec()).unwrap();
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(key, value)| {
            (key.to_owned(), value.split_whitespace().collect::<Vec<_>>().join(" "))
        })
        .collect()
}

fn line(report: &FactsReport, target: &str) -> Option<String> {
    let text = String::from_utf8_lossy(&report.mountinfo).into_owned();
    let found = text.lines().rfind(|line| line.split(' ').nth(4) == Some(target))?;
    Some(found.split(' ').nth(5)?.to_owned())
}

#[test]
fn process_1_and_commands_have_given_everything_up() {
    for &maker in makers() {
        let mut pen = Pen::unsealed(maker, |_| {}).unwrap();
        let report = pen.host.facts();
        for (who, facts, filters) in
            [("process 1", &report.supervisor, "0"), ("a command", &report.workload, "2")]
        {
            let status = status(&facts.status);
            for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
                assert_eq!(status[set], "0000000000000000", "{set} of {who}");
            }
            assert_eq!(status["NoNewPrivs"], "1", "{who}");
            assert_eq!(status["Seccomp"], filters, "{who}");
            assert_eq!(status["Uid"], "1000 1000 1000 1000", "{who}");
            assert_eq!(status["Gid"], "1000 1000 1000 1000", "{who}");
            assert_eq!(facts.securebits & 0b1111, 0b1111, "{who}");
            for namespace in ["user", "pid", "mnt", "net", "ipc", "uts", "cgroup"] {
                let inside = facts.namespaces.iter().find(|fact| fact.name == namespace).unwrap();
                let ours = std::fs::read_link(format!("/proc/self/ns/{namespace}")).unwrap();
                assert_ne!(
                    ours.to_str().unwrap(),
                    format!("{namespace}:[{}]", inside.inode),
                    "{who}"
                );
                let theirs =
                    std::fs::read_link(format!("/proc/{}/ns/{namespace}", pen.pid)).unwrap();
                assert_eq!(
                    theirs.to_str().unwrap(),
                    format!("{namespace}:[{}]", inside.inode),
                    "{who}"
                );
            }
        }
        assert_eq!(report.workload.descriptors, [0, 1, 2]);
        assert_eq!(report.hostname, b"pen");
        assert!(report.landlock.abi >= 1 && report.landlock.enforced);
        assert_eq!(
            report
                .interfaces
                .iter()
                .map(|i| (i.name.as_str(), i.up, i.loopback))
                .collect::<Vec<_>>(),
            [("lo", true, true)]
        );
        let limits = String::from_utf8(report.workload.limits.clone()).unwrap();
        assert!(
            limits
                .lines()
                .any(|line| line.starts_with("Max core file size") && line.contains(" 0 ")),
            "{limits}"
        );
        let outside = if maker == Maker::Root { "0 1879048192 65536" } else { "1000 23456 1" };
        let map = String::from_utf8(report.uid_map.clone()).unwrap();
        if is_root() {
            assert_eq!(map.split_whitespace().collect::<Vec<_>>().join(" "), outside);
        }
        // Open before the seal, closed after it.
        assert!(report.supervisor.dumpable && !report.sealed);
        pen.host.call(Request::Seal, |_| {});
        let sealed = pen.host.facts();
        assert!(!sealed.supervisor.dumpable && sealed.sealed);
        assert_eq!(sealed.supervisor.namespaces, report.supervisor.namespaces);
    }
}

#[test]
fn mounts_are_as_asked_and_nothing_of_the_host_is_left() {
    for &maker in makers() {
        let mut pen = Pen::new(maker);
        let report = pen.host.facts();
        let usr = line(&report, "/usr").unwrap();
        assert!(usr.starts_with("ro") && usr.contains("nosuid") && usr.contains("nodev"), "{usr}");
        let work = line(&report, "/work").unwrap();
        assert!(
            work.starts_with("rw") && work.contains("nosuid") && work.contains("nodev"),
            "{work}"
        );
        assert!(line(&report, "/").unwrap().starts_with("ro"));
        assert!(line(&report, "/proc/sys").unwrap().starts_with("ro"));
        let null = line(&report, "/dev/null").unwrap();
        assert!(
            null.contains("nosuid") && null.contains("noexec") && !null.contains("nodev"),
            "{null}"
        );
        assert_eq!(
            pen.host.shell("ls -A /"),
            "bin\ndev\netc\nlib\nlib64\nproc\nsbin\ntmp\nusr\nwork\n"
        );
        assert!(
            !pen.host
                .shell("cat /proc/keys 2>&1 | head -c 20; ls -A /proc/acpi 2>/dev/null; true")
                .contains("---")
        );
        assert_eq!(
            pen.host
                .run(sh("touch /x || touch /usr/x || echo y > /proc/sys/kernel/hostname"))
                .unwrap()
                .end(),
            clawpen_wire::supervisor::End::Code(2)
        );
        assert_eq!(pen.host.shell("touch /work/mine && stat -c %u:%g /work/mine"), "1000:1000\n");
        let owner = std::os::unix::fs::MetadataExt::uid(
            &std::fs::metadata(pen.workspace.join("mine")).unwrap(),
        );
        let expected =
            std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(&pen.workspace).unwrap());
        assert_eq!(owner, expected);
    }
}

#[test]
fn process_1_keeps_nothing_open_that_it_does_not_need() {
    if !is_root() {
        println!("skipped: a sealed process 1 shows its descriptors to root only");
        return;
    }
    for &maker in makers() {
        let pen = Pen::new(maker);
        let entries = std::fs::read_dir(format!("/proc/{}/fd", pen.pid)).unwrap();
        let mut open: Vec<String> = entries
            .map(|entry| {
                std::fs::read_link(entry.unwrap().path()).unwrap().to_string_lossy().into_owned()
            })
            .map(|link| link.split(':').next().unwrap().to_owned())
            .collect();
        open.sort();
        // Standard streams; the root and two file roots; rules, events, signals, the shim that stands by, and the
        // socket to it; listener and us.
        let expected = [
            "/",
            "/dev/null",
            "/dev/null",
            "/dev/null",
            "/tmp",
            "/work",
            "anon_inode",
            "anon_inode",
            "anon_inode",
            "anon_inode",
            "socket",
            "socket",
            "socket",
        ];
        assert_eq!(open, expected);
        let environment = std::fs::read(format!("/proc/{}/environ", pen.pid)).unwrap();
        assert_eq!(environment, b"");
    }
}

#[test]
fn a_command_cannot_look_into_process_1_or_its_shim() {
    for &maker in makers() {
        let mut pen = Pen::new(maker);
        for target in ["1", "$PPID"] {
            for file in ["mem", "environ", "maps", "root/etc/passwd", "fd/4"] {
                let ran = pen.host.run(sh(&format!("head -c 1 /proc/{target}/{file}"))).unwrap();
                assert_eq!(
                    ran.end(),
                    clawpen_wire::supervisor::End::Code(1),
                    "{target}/{file}: {ran:?}"
                );
            }
            let ran = pen.host.run(sh(&format!("ls /proc/{target}/fd"))).unwrap();
            assert_ne!(ran.end(), clawpen_wire::supervisor::End::Code(0), "{target}");
        }
    }
}

#[test]
fn landlock_closes_what_the_plan_does_not_open() {
    let mut pen = Pen::with(any_maker(), |spec| {
        let rules = &mut spec.serve.landlock.rules;
        rules.retain(|rule| rule.path != std::path::Path::new("/"));
        for path in ["/usr", "/bin", "/lib", "/lib64"] {
            rules.push(LandlockRule {
                path: path.into(),
                access: LandlockAccess::ReadExecute,
                optional: true,
            });
        }
        rules.push(LandlockRule {
            path: "/proc".into(),
            access: LandlockAccess::Read,
            optional: false,
        });
        rules.push(LandlockRule {
            path: "/nowhere".into(),
            access: LandlockAccess::Read,
            optional: true,
        });
    });
    assert_eq!(pen.host.shell("cat /etc/passwd 2>/dev/null || echo refused"), "refused\n");
    assert_eq!(pen.host.shell("echo x > /work/x; cat /work/x"), "x\n");
    assert!(pen.host.facts().landlock.enforced);
    // A missing path that is not optional, or a kernel that is too old, is no pen.
    let missing = Pen::unsealed(any_maker(), |spec| {
        let rule =
            LandlockRule { path: "/nowhere".into(), access: LandlockAccess::Read, optional: false };
        spec.serve.landlock.rules.push(rule);
    });
    assert!(missing.err().unwrap().contains("/nowhere"));
    let newer = Pen::unsealed(any_maker(), |spec| spec.serve.landlock.lowest_abi = 1000);
    assert!(newer.err().unwrap().contains("1000"));
}

#[test]
fn the_filter_is_in_force_for_commands_only() {
    let mut pen = Pen::with(any_maker(), |spec| {
        let instruction = |code: u16, jt: u8, jf: u8, k: u32| {
            let mut bytes = code.to_le_bytes().to_vec();
            bytes.extend([jt, jf]);
            bytes.extend(k.to_le_bytes());
            bytes
        };
        // If the call is mkdir (83) or mkdirat (258), answer EPERM; allow all else.
        spec.serve.seccomp = [
            instruction(0x20, 0, 0, 0),
            instruction(0x15, 1, 0, 83),
            instruction(0x15, 0, 1, 258),
            instruction(0x06, 0, 0, 0x0005_0001),
            instruction(0x06, 0, 0, 0x7fff_0000),
        ]
        .concat();
    });
    assert_eq!(pen.host.shell("mkdir a 2>/dev/null || echo refused"), "refused\n");
    let mkdir = clawpen_wire::supervisor::Mkdir {
        place: crate::harness::below("a"),
        permissions: 0o755,
        parents: clawpen_wire::supervisor::Parents::Required,
    };
    pen.host.call(Request::Mkdir(mkdir), |event| {
        assert_eq!(*event, clawpen_wire::supervisor::Event::Done);
    });
}

#[test]
fn limits_are_the_commands_own() {
    let mut pen = Pen::with(any_maker(), |spec| {
        spec.serve.rlimits.push(ResourceLimit { resource: 7, soft: 33, hard: 44 });
    });
    assert_eq!(pen.host.shell("ulimit -Sn; ulimit -Hn"), "33\n44\n");
    let odd = Pen::unsealed(any_maker(), |spec| {
        spec.serve.rlimits.push(ResourceLimit { resource: 99, soft: 1, hard: 1 });
    });
    assert!(odd.err().unwrap().contains("99"));
}

#[test]
fn a_command_that_cannot_be_confined_is_not_started() {
    // Above the hard limit, and nobody here may raise it.
    let mut pen = Pen::with(any_maker(), |spec| {
        spec.serve.rlimits.push(ResourceLimit { resource: 7, soft: 1 << 30, hard: 1 << 30 });
    });
    let failed = pen.host.run(sh("echo never")).unwrap_err();
    assert_eq!(failed.code, ErrorCode::Unconfined, "{failed:?}");
}

#[test]
fn a_spec_that_cannot_be_built_says_which_step_and_leaves_nothing() {
    check("`/there/is/no/such`", |steps| {
        steps.insert(0, bind("/there/is/no/such", "/x", MountFlags::NONE, BindOwner::AsIs));
    });
    check("`/usr/x`", |steps| steps.push(MountStep::ReadOnly { target: "/usr/x".into() }));
    check("`/usr/not-there`", |steps| {
        steps.insert(
            1,
            MountStep::Directory { target: "/usr/not-there".into(), permissions: 0o755 },
        );
    });
}

#[track_caller]
fn check(expected: &str, change: impl FnOnce(&mut Vec<MountStep>)) {
    let refused = Pen::unsealed(any_maker(), |spec| change(&mut spec.make.as_mut().unwrap().root));
    let refused = refused.err().unwrap();
    assert!(refused.contains(expected), "{refused}");
}

#[test]
fn the_hosts_root_is_never_mapped() {
    let refused = Pen::unsealed(any_maker(), |spec| {
        spec.make.as_mut().unwrap().ids.uids = vec![IdRange { inside: 0, outside: 0, count: 1 }];
    });
    assert!(refused.err().unwrap().contains("0 0 1"));
}

#[test]
fn a_link_on_the_way_to_a_bind_is_refused() {
    let refused = Pen::unsealed(any_maker(), |spec| {
        let steps = &mut spec.make.as_mut().unwrap().root;
        // On Debian, `/bin` is a link to `usr/bin`.
        steps.insert(0, bind("/bin/sh", "/x", MountFlags::NONE, BindOwner::AsIs));
    });
    let refused = refused.err().unwrap();
    assert!(refused.contains("/bin/sh"), "{refused}");
}

#[test]
fn ids_of_a_bind_can_be_chosen() {
    if !is_root() {
        println!("skipped: only root can map the ids of a mount");
        return;
    }
    let host = tempfile::tempdir().unwrap();
    let source = host.path().to_str().unwrap().to_owned();
    std::os::unix::fs::chown(host.path(), Some(4321), Some(8765)).unwrap();
    let mut pen = Pen::with(Maker::Root, |spec| {
        let one = |outside| vec![IdRange { inside: 1000, outside, count: 1 }];
        let owner = BindOwner::Mapped { uids: one(4321), gids: one(8765) };
        let steps = &mut spec.make.as_mut().unwrap().root;
        steps.insert(0, bind(&source, "/mapped", MountFlags::NONE, owner));
        spec.serve.landlock.rules.push(LandlockRule {
            path: "/mapped".into(),
            access: LandlockAccess::Full,
            optional: false,
        });
    });
    assert_eq!(
        pen.host.shell("stat -c %u:%g /mapped; touch /mapped/x; stat -c %u:%g /mapped/x"),
        "1000:1000\n1000:1000\n"
    );
    let made = std::fs::metadata(host.path().join("x")).unwrap();
    assert_eq!(
        (std::os::unix::fs::MetadataExt::uid(&made), std::os::unix::fs::MetadataExt::gid(&made)),
        (4321, 8765)
    );
}

#[test]
fn a_pen_without_one_of_the_namespaces_is_not_made() {
    for left_out in [Namespaces::NET, Namespaces::IPC, Namespaces::UTS, Namespaces::USER] {
        let refused = Pen::unsealed(any_maker(), |spec| {
            let make = spec.make.as_mut().unwrap();
            make.namespaces = Namespaces { bits: Namespaces::ALL.bits & !left_out };
        });
        assert_eq!(
            refused.err().as_deref(),
            Some("the pen spec leaves a namespace out; a pen has all of them")
        );
    }
}
