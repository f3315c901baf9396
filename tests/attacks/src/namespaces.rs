//! New namespaces, and other people's.

use std::fs::File;
use std::os::fd::AsRawFd as _;

use crate::system::{call, call3, judge};
use crate::{Attack, Outcome};

pub(crate) const ATTACKS: &[Attack] = &[
    Attack {
        name: "unshare-user",
        about: "a new user namespace with all capabilities",
        run: || unshare(libc::CLONE_NEWUSER),
    },
    Attack {
        name: "unshare-mount",
        about: "a new mount namespace",
        run: || unshare(libc::CLONE_NEWNS),
    },
    Attack {
        name: "unshare-net",
        about: "a new network namespace",
        run: || unshare(libc::CLONE_NEWNET),
    },
    Attack {
        name: "unshare-pid",
        about: "a new process namespace",
        run: || unshare(libc::CLONE_NEWPID),
    },
    Attack {
        name: "unshare-ipc",
        about: "a new IPC namespace",
        run: || unshare(libc::CLONE_NEWIPC),
    },
    Attack {
        name: "unshare-uts",
        about: "a new host name namespace",
        run: || unshare(libc::CLONE_NEWUTS),
    },
    Attack {
        name: "unshare-cgroup",
        about: "a new cgroup namespace",
        run: || unshare(libc::CLONE_NEWCGROUP),
    },
    Attack { name: "unshare-time", about: "a new time namespace", run: || unshare(0x80) },
    Attack { name: "clone-user", about: "clone into a new user namespace", run: clone_user },
    Attack { name: "clone3-user", about: "clone3 into a new user namespace", run: clone3_user },
    Attack {
        name: "setns-own-user",
        about: "enter a namespace again",
        run: || setns("/proc/self/ns/net", libc::CLONE_NEWNET),
    },
    Attack {
        name: "setns-pid-1-mount",
        about: "enter the mount namespace of process 1",
        run: || setns("/proc/1/ns/mnt", libc::CLONE_NEWNS),
    },
    Attack { name: "setns-pidfd", about: "enter namespaces by a process handle", run: setns_pidfd },
];

fn unshare(flag: i32) -> Outcome {
    judge("unshare", call3(libc::SYS_unshare, flag.unsigned_abs() as usize, 0, 0))
}

fn clone_user() -> Outcome {
    let flags = (libc::CLONE_NEWUSER | libc::SIGCHLD).unsigned_abs() as usize;
    match call(libc::SYS_clone, [flags, 0, 0, 0, 0, 0]) {
        Ok(0) => std::process::exit(0),
        other => judge("clone(CLONE_NEWUSER)", other),
    }
}

fn clone3_user() -> Outcome {
    let mut args = [0u64; 11];
    args[0] = u64::from(libc::CLONE_NEWUSER.unsigned_abs());
    args[4] = u64::from(libc::SIGCHLD.unsigned_abs());
    match call3(libc::SYS_clone3, args.as_ptr() as usize, size_of_val(&args), 0) {
        Ok(0) => std::process::exit(0),
        other => judge("clone3(CLONE_NEWUSER)", other),
    }
}

fn setns(path: &str, kind: i32) -> Outcome {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) => return Outcome::Blocked(format!("{path}: {error}")),
    };
    let fd = usize::try_from(file.as_raw_fd()).unwrap_or(0);
    judge(&format!("setns({path})"), call3(libc::SYS_setns, fd, kind.unsigned_abs() as usize, 0))
}

fn setns_pidfd() -> Outcome {
    let parent = std::os::unix::process::parent_id() as usize;
    match call3(libc::SYS_pidfd_open, parent, 0, 0) {
        Ok(fd) => judge(
            "setns(pidfd)",
            call3(libc::SYS_setns, fd, libc::CLONE_NEWNET.unsigned_abs() as usize, 0),
        ),
        Err(error) => Outcome::Blocked(format!("pidfd_open: {error}")),
    }
}
