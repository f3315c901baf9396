//! Cases about processes.

use std::cell::Cell;
use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::time::Duration;

use clawpen_os::cgroups::{Hierarchies, Leaf, Limits};
use clawpen_os::events::{self, Origin, SignalFd};
use clawpen_os::namespaces::Namespaces;
use clawpen_os::process::{self, Dumpable, ExitStatus, Forked, Identity, Pid, Reaped, Signal};
use clawpen_os::seccomp::{Program, SockFilter};
use clawpen_os::spawn::{Image, Plan};
use clawpen_os::{capabilities, memfd, tree};

use crate::harness::{NOBODY, assert_success, fork};

fn words(words: &[&str]) -> Vec<CString> {
    words.iter().map(|word| CString::new(*word).unwrap()).collect()
}

pub(crate) fn fork_and_end() {
    let parent = Pid::this();
    let child = fork(Namespaces::NONE, move || assert_eq!(Pid::parent(), Some(parent)));
    assert_success(&child);
    let child = fork(Namespaces::NONE, || process::exit_now(42));
    events::poll(&[(child.pidfd(), events::Interest::Read)], None).unwrap();
    assert_eq!(child.try_wait().unwrap().unwrap().status, ExitStatus::Code(42));

    // A handle to any process can be had by number, and outlives it.
    let child = fork(Namespaces::NONE, wait_for_ever);
    let handle = process::pidfd_open(child.pid()).unwrap();
    process::pidfd_signal(handle.as_fd(), Signal::KILL).unwrap();
    assert_eq!(child.wait().unwrap().status, ExitStatus::Signal(Signal::KILL));
    let gone = process::pidfd_signal(handle.as_fd(), Signal::KILL).unwrap_err();
    assert_eq!(gone.raw_os_error(), Some(libc::ESRCH));
}

fn wait_for_ever() {
    events::poll(&[], None).unwrap();
}

pub(crate) fn threads() {
    let (reader, writer) = events::pipe().unwrap();
    let thread = std::thread::spawn(move || events::read(reader.as_fd(), &mut [0]).unwrap());
    let refused = process::clone3(Namespaces::NONE, None).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
    drop(writer);
    thread.join().unwrap();
    assert_success(&fork(Namespaces::NONE, || {}));
}

/// As in a container under Docker's default profile.
pub(crate) fn filtered_clone3() {
    let answer = |number: i64, errno: i32| {
        let number = u32::try_from(number).unwrap();
        [(0x15, 0, 1, number), (0x06, 0, 0, 0x0005_0000 | errno.unsigned_abs())]
    };
    let clone3 = answer(libc::SYS_clone3, libc::ENOSYS);
    let unshare = answer(libc::SYS_unshare, libc::EPERM);
    let steps = [&[(0x20, 0, 0, 0)][..], &clone3, &unshare, &[(0x06, 0, 0, 0x7fff_0000)]].concat();
    let filter = steps.into_iter().map(|(code, jt, jf, k)| SockFilter { code, jt, jf, k });
    let program = Program::new(filter.collect()).unwrap();
    process::set_no_new_privs().unwrap();
    clawpen_os::seccomp::install(&program).unwrap();

    let child = fork(Namespaces::USER, || assert_eq!(process::identity().unwrap().uid, NOBODY));
    assert_success(&child);
    let (reader, writer) = events::pipe().unwrap();
    let thread = std::thread::spawn(move || events::read(reader.as_fd(), &mut [0]).unwrap());
    let refused = process::clone3(Namespaces::NONE, None).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
    drop(writer);
    thread.join().unwrap();
}

pub(crate) fn reap() {
    assert_eq!(process::reap_any().unwrap(), Reaped::NoChildren);
    assert_eq!(process::wait_any().unwrap(), None);
    let signals = SignalFd::new(&[Signal::CHLD]).unwrap();
    let child = fork(Namespaces::NONE, wait_for_ever);
    assert_eq!(process::reap_any().unwrap(), Reaped::NoneEnded);
    child.signal(Signal::TERM).unwrap();
    events::poll(&[(signals.as_fd(), events::Interest::Read)], None).unwrap();
    let received = signals.read().unwrap().unwrap();
    assert_eq!((received.signal, received.origin), (Signal::CHLD, Origin::Kernel));
    let Reaped::Ended(ended) = process::reap_any().unwrap() else { panic!("nobody ended") };
    assert_eq!((ended.pid, ended.status), (child.pid(), ExitStatus::Signal(Signal::TERM)));
    assert_eq!(process::reap_any().unwrap(), Reaped::NoChildren);
    // The handle knows that it is not ours to wait for any more.
    assert_eq!(child.wait().unwrap_err().raw_os_error(), Some(libc::ECHILD));
}

/// A shell that leaves daemons behind in sessions of their own, and one that ignores signals.
pub(crate) fn tree() {
    process::set_child_subreaper().unwrap();
    let script = "trap '' TERM HUP INT
        setsid sh -c 'setsid sleep 600 & setsid sleep 600 & exit' &
        (sleep 600 & sleep 600 &)
        sleep 600 & echo ready; wait";
    let (reader, writer) = events::pipe().unwrap();
    let plan = Plan::new(
        Image::Paths(words(&["/bin/sh"])),
        words(&["sh", "-c", script]),
        words(&["PATH=/usr/bin:/bin"]),
    );
    let shell = plan.descriptor(1, writer.as_fd()).spawn().unwrap();
    events::read(reader.as_fd(), &mut [0; 16]).unwrap();
    while tree::descendants_of(Pid::this()).unwrap().len() < 6 {
        std::thread::yield_now();
    }
    // A stranger of ours that must die as well: everything below us does.
    let reaped = Cell::new(Vec::new());
    let limit = Duration::from_secs(10);
    tree::kill_descendants(limit, &mut |ended| {
        let mut all = reaped.take();
        all.push(ended.pid);
        reaped.set(all);
    })
    .unwrap();
    assert!(reaped.take().contains(&shell.pid()));
    assert_eq!(tree::children_of(Pid::this()).unwrap(), []);
    assert_eq!(process::reap_any().unwrap(), Reaped::NoChildren);
}

pub(crate) fn forking_tree() {
    process::set_child_subreaper().unwrap();
    // Each round starts a process that starts the next and ends: nobody lives long.
    let script = "run() { (sh -c 'exit' & run) & }; while :; do (sleep 0 &); done";
    let plan = Plan::new(
        Image::Paths(words(&["/bin/sh"])),
        words(&["sh", "-c", script]),
        words(&["PATH=/usr/bin:/bin"]),
    );
    let _bombs = [plan.spawn().unwrap(), plan.spawn().unwrap(), plan.spawn().unwrap()];
    while tree::descendants_of(Pid::this()).unwrap().len() < 4 {
        std::thread::yield_now();
    }
    tree::kill_descendants(Duration::from_secs(20), &mut |_| {}).unwrap();
    assert_eq!(process::reap_any().unwrap(), Reaped::NoChildren);
}

pub(crate) fn inherited() {
    let text = memfd::sealed("text", b"text", memfd::Use::Read).unwrap();
    let own = text.as_raw_fd();
    assert_eq!(process::inherited(own).unwrap_err().raw_os_error(), Some(libc::EBUSY));
    assert_eq!(process::inherited(0).unwrap_err().raw_os_error(), Some(libc::EINVAL));
    assert_eq!(process::inherited(999).unwrap_err().raw_os_error(), Some(libc::EBADF));
    // SAFETY: dup takes and gives integers; the copy has no close-on-exec flag, as if inherited.
    let passed = unsafe { libc::dup(own) };
    let taken = process::inherited(passed).unwrap();
    assert_eq!(io::read_to_string(File::from(taken.try_clone().unwrap())).unwrap(), "text");
    assert_eq!(process::inherited(passed).unwrap_err().raw_os_error(), Some(libc::EBUSY));
}

pub(crate) fn attributes() {
    assert_eq!(process::dumpable().unwrap(), Dumpable::Yes);
    process::set_dumpable(Dumpable::No).unwrap();
    assert_eq!(process::dumpable().unwrap(), Dumpable::No);
    assert!(!process::no_new_privs().unwrap());
    process::set_no_new_privs().unwrap();
    assert!(process::no_new_privs().unwrap());
    process::set_name(c"renamed").unwrap();
    assert_eq!(fs::read_to_string("/proc/self/comm").unwrap(), "renamed\n");
    process::set_umask(0o027);
    assert_eq!(process::set_umask(0o077), 0o027);
    let root = File::open("/").unwrap();
    process::change_directory(root.as_fd()).unwrap();
    assert_eq!(std::env::current_dir().unwrap().to_str(), Some("/"));

    let init = Pid::new(1).unwrap();
    let refused = process::kill_group(init, Signal::CONT).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(libc::EINVAL));
}

pub(crate) fn death_signal() {
    // Nobody writes here: it ends when the last who could is dead.
    let (alive, held) = events::pipe().unwrap();
    let parent = fork(Namespaces::NONE, || {
        let (reader, writer) = events::pipe().unwrap();
        let child = fork(Namespaces::NONE, || {
            process::new_session().unwrap();
            process::set_parent_death_signal(Signal::KILL).unwrap();
            events::write(writer.as_fd(), b"x").unwrap();
            wait_for_ever();
        });
        events::read(reader.as_fd(), &mut [0]).unwrap();
        process::kill_group(child.pid(), Signal::CONT).unwrap();
    });
    assert_success(&parent);
    drop(held);
    assert_eq!(events::read(alive.as_fd(), &mut [0]).unwrap(), 0);
}

pub(crate) fn identity() {
    process::set_keep_capabilities().unwrap();
    process::set_groups(&[7, 8]).unwrap();
    process::set_gid(NOBODY).unwrap();
    process::set_uid(NOBODY).unwrap();
    let expected = Identity { uid: NOBODY, gid: NOBODY, groups: vec![7, 8] };
    assert_eq!(process::identity().unwrap(), expected);
    assert_ne!(capabilities::read().unwrap().permitted, 0);
    assert_eq!(process::set_uid(u32::MAX).unwrap_err().raw_os_error(), Some(libc::EINVAL));
    // Effective ones are gone with the id; without CAP_SETUID there is no way back.
    assert_eq!(process::set_uid(0).unwrap_err().raw_os_error(), Some(libc::EPERM));
}

pub(crate) fn securebits() {
    capabilities::lock_securebits().unwrap();
    capabilities::drop_all().unwrap();
    assert!(capabilities::read().unwrap().is_empty());
    // An exec as uid 0 gives nothing back.
    let (reader, writer) = events::pipe().unwrap();
    let plan = Plan::new(
        Image::Paths(words(&["/bin/grep"])),
        words(&["grep", "-E", "^Cap(Prm|Eff)", "/proc/self/status"]),
        vec![],
    );
    plan.descriptor(1, writer.as_fd()).spawn().unwrap();
    drop(writer);
    let text = io::read_to_string(File::from(reader)).unwrap();
    assert_eq!(text, "CapPrm:\t0000000000000000\nCapEff:\t0000000000000000\n");
}

pub(crate) fn born_in_cgroup() {
    let hierarchies = Hierarchies::find().unwrap();
    let name = format!("clawpen-test-{}-born", Pid::this());
    let leaf = Leaf::create(&hierarchies, &name, &Limits::default()).unwrap();
    let Some(directory) = leaf.unified().unwrap() else {
        println!("skipped: no unified hierarchy here");
        return;
    };
    let forked = process::clone3(Namespaces::NONE, Some(directory.as_fd())).unwrap();
    let Forked::Parent(child) = forked else {
        wait_for_ever();
        process::exit_now(0);
    };
    leaf.add_born_in_unified(child.pid()).unwrap();
    assert_eq!(leaf.processes().unwrap(), [child.pid()]);
    leaf.kill(Duration::from_secs(10)).unwrap();
    assert_eq!(child.wait().unwrap().status, ExitStatus::Signal(Signal::KILL));
    leaf.remove(Duration::from_secs(10)).unwrap();
}

pub(crate) fn exec() {
    let program = fs::read("/bin/sh").unwrap();
    let program = memfd::sealed("sh", &program, memfd::Use::Execute).unwrap();
    let child = fork(Namespaces::NONE, || {
        let argv = words(&["sh", "-c", "[ \"$A\" = 1 ] && exit 9"]);
        let failed = process::exec(program.as_fd(), &argv, &words(&["A=1"]));
        panic!("{failed}");
    });
    assert_eq!(child.wait().unwrap().status, ExitStatus::Code(9));
    let text = memfd::sealed("text", b"no program", memfd::Use::Execute).unwrap();
    let failed = process::exec(text.as_fd(), &[], &[]);
    assert_eq!(failed.raw_os_error(), Some(libc::ENOEXEC));
}
