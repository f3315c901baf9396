//! Texts of several machines, and the real hierarchies of this one.

use std::ffi::CString;

use super::*;
use crate::events::open_null;
use crate::process::{Child, ExitStatus};
use crate::spawn::{Image, Plan};
use std::os::fd::AsFd as _;

#[test]
fn separate_hierarchies_are_found_below_what_is_mounted() {
    let cgroup = "9:name=systemd:/\n8:pids:/\n4:cpu,cpuacct:/a/b\n3:memory:/outer/mine\n0::/u\n";
    let mountinfo = "\
        23 1 0:20 / /proc rw - proc proc rw\n\
        32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct\n\
        35 31 0:32 /outer /sys/fs/cgroup/mem\\040ory rw - cgroup cgroup rw,memory\n\
        39 31 0:36 /other /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n\
        41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";
    let found = Hierarchies::parse(cgroup, mountinfo);
    let place = |controller| {
        found.place(controller).map(|(path, version)| (path.to_str().unwrap(), version))
    };
    assert_eq!(place(Controller::Cpu), Some(("/sys/fs/cgroup/cpu,cpuacct/a/b", Version::V1)));
    assert_eq!(place(Controller::Memory), Some(("/sys/fs/cgroup/mem ory/mine", Version::V1)));
    // Mounted is a part of the hierarchy that we are not in.
    assert_eq!(place(Controller::Pids), None);
    assert_eq!(place(Controller::Freezer), None);
    assert_eq!(found.unified(), Some(Path::new("/sys/fs/cgroup/unified/u")));
}

#[test]
fn odd_texts_give_nothing() {
    for (cgroup, mountinfo) in [
        ("", ""),
        ("0::/\n", ""),
        ("0::/../x\n", "1 2 0:1 / /c rw - cgroup2 cgroup2 rw\n"),
        ("rubbish\n::\n1:memory\n", "1 2 0:1 / /c rw - cgroup\n - \n"),
    ] {
        let found = Hierarchies::parse(cgroup, mountinfo);
        assert_eq!(found, Hierarchies::default(), "{cgroup:?} {mountinfo:?}");
    }
}

/// A sleeping process and the two children it has made in the group.
fn family(leaf: &Leaf) -> Child {
    let null = open_null().unwrap();
    let words = |words: &[&str]| words.iter().map(|word| CString::new(*word).unwrap()).collect();
    let script = "read go; sleep 600 & setsid sleep 600 & wait";
    let (reader, writer) = crate::events::pipe().unwrap();
    let plan = Plan::new(
        Image::Paths(words(&["/bin/sh"])),
        words(&["sh", "-c", script]),
        words(&["PATH=/usr/bin:/bin"]),
    );
    let plan = plan.descriptor(0, reader.as_fd()).descriptor(1, null.as_fd());
    let child = plan.spawn().unwrap();
    leaf.add(child.pid()).unwrap();
    crate::events::write(writer.as_fd(), b"\n").unwrap();
    while leaf.processes().unwrap().len() < 3 {
        std::thread::yield_now();
    }
    child
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Whether this machine lets us make groups at all; said aloud where not.
fn possible(hierarchies: &Hierarchies, limits: &Limits) -> bool {
    let has_all = limits.controllers().all(|controller| hierarchies.place(controller).is_some());
    let possible = is_root() && has_all;
    if !possible {
        println!("skipped: no cgroups to write here");
    }
    possible
}

#[test]
fn a_leaf_is_limited_filled_killed_and_removed() {
    let hierarchies = Hierarchies::find().unwrap();
    let limits = Limits { memory_bytes: Some(64 << 20), pids: Some(20), cpu_millis: Some(1500) };
    if !possible(&hierarchies, &limits) {
        return;
    }
    let name = format!("clawpen-test-{}-all", Pid::this());
    let leaf = Leaf::create(&hierarchies, &name, &limits).unwrap();
    assert_eq!(leaf.limits().unwrap(), limits);
    let again = Leaf::create(&hierarchies, &name, &limits).unwrap_err();
    assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
    let child = family(&leaf);
    leaf.kill(Duration::from_secs(10)).unwrap();
    assert_eq!(child.wait().unwrap().status, ExitStatus::Signal(Signal::KILL));
    let paths: Vec<PathBuf> = leaf.directories().map(Path::to_owned).collect();
    let mut reopened = Leaf::open(&hierarchies, &name).unwrap();
    reopened.directories.retain(|directory| paths.contains(&directory.path));
    assert_eq!(reopened.limits().unwrap(), limits);
    reopened.remove(Duration::from_secs(10)).unwrap();
    assert!(paths.iter().all(|path| !path.exists()));
    assert_eq!(Leaf::open(&hierarchies, &name).unwrap_err().kind(), io::ErrorKind::NotFound);
}

#[test]
fn every_way_to_kill_works() {
    let hierarchies = Hierarchies::find().unwrap();
    let limits = Limits { pids: Some(50), ..Limits::default() };
    if !possible(&hierarchies, &limits) {
        return;
    }
    for way in ["cgroup.kill", "freezer", "signals"] {
        let name = format!("clawpen-test-{}-{way}", Pid::this());
        let mut leaf = Leaf::create(&hierarchies, &name, &limits).unwrap();
        if way != "cgroup.kill" {
            leaf.directories.retain(|directory| {
                let is_v1 = directory.version == Version::V1;
                is_v1 || fs::remove_dir(&directory.path).is_err()
            });
        }
        if let (true, Some((parent, version))) =
            (way == "freezer", hierarchies.place(Controller::Freezer))
        {
            leaf.add_directory(parent.join(&name), version, Some(Controller::Freezer)).unwrap();
        }
        let child = family(&leaf);
        leaf.kill(Duration::from_secs(10)).unwrap();
        child.wait().unwrap();
        assert_eq!(leaf.processes().unwrap(), [], "{way}");
        leaf.remove(Duration::from_secs(10)).unwrap();
    }
}

#[test]
fn the_limit_on_processes_stops_a_fork() {
    let hierarchies = Hierarchies::find().unwrap();
    let limits = Limits { pids: Some(2), ..Limits::default() };
    if !possible(&hierarchies, &limits) {
        return;
    }
    let name = format!("clawpen-test-{}-pids", Pid::this());
    let leaf = Leaf::create(&hierarchies, &name, &limits).unwrap();
    let (reader, writer) = crate::events::pipe().unwrap();
    let words = |words: &[&str]| words.iter().map(|word| CString::new(*word).unwrap()).collect();
    let script = "read go; sleep 600 & sleep 600 & kill $!; exit 0";
    let plan = Plan::new(Image::Paths(words(&["/bin/sh"])), words(&["sh", "-c", script]), vec![]);
    let child = plan.descriptor(0, reader.as_fd()).spawn().unwrap();
    leaf.add(child.pid()).unwrap();
    crate::events::write(writer.as_fd(), b"\n").unwrap();
    // The second fork fails, and dash gives up.
    assert_eq!(child.wait().unwrap().status, ExitStatus::Code(2));
    leaf.kill(Duration::from_secs(10)).unwrap();
    leaf.remove(Duration::from_secs(10)).unwrap();
}

#[test]
fn a_name_is_one_component_and_a_failure_leaves_nothing() {
    let hierarchies = Hierarchies::find().unwrap();
    let none = Limits::default();
    let refused = Leaf::create(&hierarchies, "../x", &none).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
    let nothing = Leaf::create(&Hierarchies::default(), "x", &Limits { pids: Some(1), ..none });
    let nothing = nothing.unwrap_err();
    assert_eq!(nothing.kind(), io::ErrorKind::Unsupported);
    assert_eq!(nothing.to_string(), "no cgroup with the `pids` controller");
    if !possible(&hierarchies, &Limits { pids: Some(1), ..none }) {
        return;
    }
    let name = format!("clawpen-test-{}-failing", Pid::this());
    let absurd = Limits { pids: Some(u64::MAX), ..none };
    Leaf::create(&hierarchies, &name, &absurd).unwrap_err();
    assert_eq!(Leaf::open(&hierarchies, &name).unwrap_err().kind(), io::ErrorKind::NotFound);
}
