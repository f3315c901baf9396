//! What newer kernels brought, and ways to widen one's own confinement.

use std::io;
use std::sync::mpsc;

use crate::kernel::reached;
use crate::system::{HERE, address, call, call3, given, is_control, judge, number_of, text};
use crate::{Attack, Outcome};

pub(crate) const ATTACKS: &[Attack] = &[
    Attack { name: "listmount", about: "list mounts by the newest call", run: listmount },
    Attack { name: "statmount", about: "ask about a mount by its number", run: statmount },
    Attack {
        name: "open-tree-attr",
        about: "a copy of a tree with other attributes, in one call",
        run: open_tree_attr,
    },
    Attack {
        name: "pidfd-namespaces",
        about: "get the namespaces of process 1 from a process handle",
        run: pidfd_namespaces,
    },
    Attack { name: "futex2", about: "the second family of futex calls", run: futex2 },
    Attack {
        name: "cachestat",
        about: "learn what others read, from the page cache",
        run: cachestat,
    },
    Attack {
        name: "lsm-modules",
        about: "learn which security modules there are",
        run: lsm_modules,
    },
    Attack {
        name: "capabilities-setxattrat",
        about: "leave a program with capabilities by the newest call",
        run: capabilities_setxattrat,
    },
    Attack {
        name: "immutable-file",
        about: "leave a file that its owner cannot remove",
        run: || immutable(by_ioctl),
    },
    Attack {
        name: "immutable-file-setattr",
        about: "the same by the newest call",
        run: || immutable(by_file_setattr),
    },
    Attack { name: "trusted-xattr", about: "mark files as an overlay would", run: trusted_xattr },
    Attack {
        name: "fanotify-own",
        about: "watch files with the form of fanotify that needs no rights",
        run: || judge("fanotify_init", call3(libc::SYS_fanotify_init, 0x200, 0, 0)),
    },
    Attack {
        name: "process-madvise",
        about: "push the memory of process 1 out",
        run: process_madvise,
    },
    Attack {
        name: "seccomp-override",
        about: "answer our own refused calls with a filter that says go on",
        run: seccomp_override,
    },
    Attack {
        name: "landlock-override",
        about: "open what is shut with rules of our own",
        run: landlock_override,
    },
    Attack { name: "urgent-data", about: "urgent data on a local socket", run: urgent_data },
    Attack { name: "feed-entropy", about: "tell the kernel how random it is", run: feed_entropy },
    Attack {
        name: "host-terminal",
        about: "open a terminal of the host",
        run: || match given("CANARY_TERMINAL") {
            Ok(path) => judge(&format!("opened {path}"), std::fs::File::open(&path)),
            Err(outcome) => outcome,
        },
    },
    Attack {
        name: "host-shm-file",
        about: "see a file in the host's shared memory",
        run: || match given("CANARY_SHM_FILE") {
            Ok(path) => crate::system::read(&path),
            Err(outcome) => outcome,
        },
    },
];

/// `struct mnt_id_req`: size, namespace descriptor, mount, parameter.
const fn mount_request(mount: u64, parameter: u64) -> [u64; 3] {
    [24, mount, parameter]
}

fn listmount() -> Outcome {
    let (request, found) = (mount_request(u64::MAX, 0), [0u64; 64]);
    let args = [request.as_ptr() as usize, found.as_ptr() as usize, found.len(), 0, 0, 0];
    judge("listmount", call(458, args))
}

fn statmount() -> Outcome {
    let (request, found) = (mount_request(1, 2), [0u64; 64]);
    let args = [request.as_ptr() as usize, found.as_ptr() as usize, size_of_val(&found), 0, 0, 0];
    judge("statmount", reached(call(457, args)))
}

fn open_tree_attr() -> Outcome {
    let (path, attributes) = (text("/usr"), [0u64; 4]);
    let size = size_of_val(&attributes);
    let args = [HERE, address(&path), 1, attributes.as_ptr() as usize, size, 0];
    judge("open_tree_attr(OPEN_TREE_CLONE)", call(467, args))
}

fn pidfd_namespaces() -> Outcome {
    let target = crate::processes::victim_number();
    match call3(libc::SYS_pidfd_open, target, 0, 0) {
        Ok(handle) => judge("PIDFD_GET_MNT_NAMESPACE", call3(libc::SYS_ioctl, handle, 0xff03, 0)),
        Err(error) => Outcome::Blocked(format!("pidfd_open: {error}")),
    }
}

/// Nobody waits, so nobody is woken: 32-bit words, private.
fn futex2() -> Outcome {
    let word = [0u32];
    judge("futex_wake", call(454, [word.as_ptr() as usize, 1, 1, 0x82, 0, 0]))
}

fn cachestat() -> Outcome {
    use std::os::fd::AsRawFd as _;
    let file = match std::fs::File::open("/usr/bin/env") {
        Ok(file) => file,
        Err(error) => return Outcome::CannotTry(error.to_string()),
    };
    let (range, found, fd) = ([0u64, 0], [0u64; 5], number_of(file.as_raw_fd()));
    let args = [fd, range.as_ptr() as usize, found.as_ptr() as usize, 0, 0, 0];
    judge("cachestat", call(451, args))
}

fn lsm_modules() -> Outcome {
    let (ids, size) = ([0u64; 16], [128u32]);
    judge("lsm_list_modules", call3(461, ids.as_ptr() as usize, size.as_ptr() as usize, 0))
}

fn scratch(name: &str) -> Result<String, Outcome> {
    let directory = std::env::var("ATTACK_DIRECTORY").unwrap_or_else(|_unset| "/tmp".to_owned());
    let path = format!("{directory}/clawpen-attack-{name}");
    std::fs::write(&path, b"x")
        .map_err(|error| Outcome::CannotTry(format!("{path}: {error}")))
        .map(|()| path)
}

fn capabilities_setxattrat() -> Outcome {
    let path = match scratch("xattrat") {
        Ok(path) => path,
        Err(outcome) => return outcome,
    };
    let (file, name) = (text(&path), text("security.capability"));
    let value: [u32; 5] = [0x0200_0001, u32::MAX, 0, 0, 0];
    let arguments = [value.as_ptr() as u64, size_of_val(&value) as u64];
    let args = [HERE, address(&file), 0, address(&name), arguments.as_ptr() as usize, 16];
    let result = call(463, args);
    let _ = std::fs::remove_file(&path);
    judge("setxattrat(security.capability)", result)
}

fn immutable(attack: fn(&str, u64) -> io::Result<usize>) -> Outcome {
    let path = match scratch("immutable") {
        Ok(path) => path,
        Err(outcome) => return outcome,
    };
    let result = attack(&path, 1);
    if result.is_ok() {
        let _ = attack(&path, 0);
    }
    let _ = std::fs::remove_file(&path);
    judge("made a file immutable", result)
}

fn by_ioctl(path: &str, on: u64) -> io::Result<usize> {
    use std::os::fd::AsRawFd as _;
    let file = std::fs::File::open(path)?;
    let (fd, flags) = (number_of(file.as_raw_fd()), [on << 4]);
    call3(libc::SYS_ioctl, fd, 0x4008_6602, flags.as_ptr() as usize) // FS_IOC_SETFLAGS
}

fn by_file_setattr(path: &str, on: u64) -> io::Result<usize> {
    let (path, attributes) = (text(path), [on << 3, 0, 0]);
    let size = size_of_val(&attributes);
    call(469, [HERE, address(&path), attributes.as_ptr() as usize, size, 0, 0])
}

fn trusted_xattr() -> Outcome {
    let path = match scratch("trusted") {
        Ok(path) => path,
        Err(outcome) => return outcome,
    };
    let (file, name, value) = (text(&path), text("trusted.overlay.opaque"), text("y"));
    let args = [address(&file), address(&name), address(&value), 1, 0, 0];
    let result = call(libc::SYS_setxattr, args);
    let _ = std::fs::remove_file(&path);
    judge("setxattr(trusted.overlay.opaque)", result)
}

/// `MADV_PAGEOUT` on no range at all: whether we may is decided before that is looked at.
fn process_madvise() -> Outcome {
    let target = crate::processes::victim_number();
    let handle = match call3(libc::SYS_pidfd_open, target, 0, 0) {
        Ok(handle) => handle,
        Err(error) => return Outcome::Blocked(format!("pidfd_open: {error}")),
    };
    let ranges = [0usize; 2];
    let args = [handle, ranges.as_ptr() as usize, 1, 21, 0, 0];
    judge("process_madvise", call(libc::SYS_process_madvise, args))
}

/// One instruction of a filter, as the kernel lays it out.
const fn instruction(code: u16, if_true: u8, if_false: u8, value: u32) -> u64 {
    code as u64 | (if_true as u64) << 16 | (if_false as u64) << 24 | (value as u64) << 32
}

/// A filter of our own hands `mount` to a thread of ours, which tells the kernel to go on with it. The
/// sternest filter decides, so this must not help.
fn seccomp_override() -> Outcome {
    let (give, take) = mpsc::channel();
    std::thread::spawn(move || take.recv().map(answer_go_on));
    let program = [
        instruction(0x20, 0, 0, 0),
        instruction(0x15, 0, 1, u32::try_from(libc::SYS_mount).unwrap_or(0)),
        instruction(0x06, 0, 0, 0x7fc0_0000), // ask the listener
        instruction(0x06, 0, 0, 0x7fff_0000), // allow
    ];
    let filter = [program.len(), program.as_ptr() as usize];
    let _ = call(libc::SYS_prctl, [38, 1, 0, 0, 0, 0]); // no new privileges
    // SECCOMP_SET_MODE_FILTER with a listener.
    let listener = match call3(libc::SYS_seccomp, 1, 8, filter.as_ptr() as usize) {
        Ok(listener) => listener,
        Err(error) => return Outcome::Blocked(format!("no listener: {error}")),
    };
    if give.send(listener).is_err() {
        return Outcome::CannotTry("the thread is gone".to_owned());
    }
    let (source, place, kind) = (text("none"), text("/mnt"), text("tmpfs"));
    let args = [address(&source), address(&place), address(&kind), 0, 0, 0];
    judge("mount on /mnt", call(libc::SYS_mount, args))
}

fn answer_go_on(listener: usize) {
    let question = [0u64; 10];
    let asked = call3(libc::SYS_ioctl, listener, 0xc050_2100, question.as_ptr() as usize);
    if asked.is_ok() {
        let answer = [question[0], 0, 1 << 32];
        let _ = call3(libc::SYS_ioctl, listener, 0xc018_2101, answer.as_ptr() as usize);
    }
}

/// A rule that allows everything everywhere only adds a layer.
fn landlock_override() -> Outcome {
    use std::os::fd::AsRawFd as _;
    let all = [0x1fffu64];
    let ruleset = call3(libc::SYS_landlock_create_ruleset, all.as_ptr() as usize, 8, 0);
    let (Ok(ruleset), Ok(root)) = (ruleset, std::fs::File::open("/")) else {
        return Outcome::CannotTry("no Landlock".to_owned());
    };
    // Packed: the rights, then the directory.
    let directory = u64::try_from(root.as_raw_fd()).unwrap_or(0);
    let rule = [all[0], directory];
    let args = [ruleset, 1, rule.as_ptr() as usize, 0, 0, 0];
    let added = call(libc::SYS_landlock_add_rule, args);
    let _ = call(libc::SYS_prctl, [38, 1, 0, 0, 0, 0]);
    let entered = added.and_then(|_| call3(libc::SYS_landlock_restrict_self, ruleset, 0, 0));
    if let Err(error) = entered
        && is_control()
    {
        return Outcome::CannotTry(format!("no rules of our own: {error}"));
    }
    crate::mounts::create("/usr/bin/clawpen-attack")
}

/// Its bookkeeping on local sockets was once a way into the kernel, and nothing needs it.
fn urgent_data() -> Outcome {
    let sockets = [0i32; 2];
    let made = call(libc::SYS_socketpair, [1, 1, 0, sockets.as_ptr() as usize, 0, 0]);
    if let Err(error) = made {
        return Outcome::CannotTry(format!("socketpair: {error}"));
    }
    let byte = c"x";
    let args = [number_of(sockets[0]), byte.as_ptr() as usize, 1, 1, 0, 0];
    judge("sendto(MSG_OOB)", call(libc::SYS_sendto, args))
}

fn feed_entropy() -> Outcome {
    use std::os::fd::AsRawFd as _;
    let file = match std::fs::File::open("/dev/random") {
        Ok(file) => file,
        Err(error) => return Outcome::Blocked(error.to_string()),
    };
    let (fd, nothing) = (number_of(file.as_raw_fd()), [0i32]);
    judge("RNDADDTOENTCNT", call3(libc::SYS_ioctl, fd, 0x4004_5201, nothing.as_ptr() as usize))
}
