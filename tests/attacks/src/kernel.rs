//! Parts of the kernel that no command needs.

use crate::system::{address, call, call3, judge, text};
use crate::{Attack, Outcome};

pub(crate) const ATTACKS: &[Attack] = &[
    Attack { name: "io-uring", about: "system calls past the filter", run: io_uring },
    Attack { name: "bpf", about: "load a program into the kernel", run: bpf },
    Attack { name: "perf-event", about: "watch the machine", run: perf_event },
    Attack { name: "userfaultfd", about: "hold the kernel at a page fault", run: userfaultfd },
    Attack { name: "keyctl", about: "use the kernel's key rings", run: keyctl },
    Attack { name: "add-key", about: "add a key", run: add_key },
    Attack {
        name: "init-module",
        about: "load a kernel module",
        run: || judge("init_module", reached(call3(libc::SYS_init_module, 0, 0, 0))),
    },
    Attack { name: "finit-module", about: "load a kernel module from a file", run: finit_module },
    Attack { name: "delete-module", about: "unload a kernel module", run: delete_module },
    Attack {
        name: "kexec",
        about: "replace the kernel",
        run: || judge("kexec_load", reached(call(libc::SYS_kexec_load, [0; 6]))),
    },
    Attack { name: "reboot", about: "restart the machine", run: reboot },
    Attack { name: "swapon", about: "add swap space", run: swapon },
    Attack {
        name: "settimeofday",
        about: "set the clock",
        run: || judge("clock_settime", reached(call3(libc::SYS_clock_settime, 0, 0, 0))),
    },
    Attack { name: "sethostname", about: "rename the machine", run: sethostname },
    Attack {
        name: "syslog",
        about: "read the kernel's log by system call",
        run: || judge("syslog", call3(libc::SYS_syslog, 10, 0, 0)),
    },
    Attack { name: "acct", about: "start process accounting into a file", run: acct },
    Attack {
        name: "quotactl",
        about: "change quotas",
        run: || {
            judge("quotactl", reached(call(libc::SYS_quotactl, [0x80_0007 << 8, 0, 0, 0, 0, 0])))
        },
    },
    Attack {
        name: "fanotify",
        about: "watch all files",
        run: || judge("fanotify_init", call3(libc::SYS_fanotify_init, 0, 0, 0)),
    },
    Attack { name: "personality", about: "switch address randomisation off", run: personality },
    Attack {
        name: "ioperm",
        about: "talk to the hardware's ports",
        run: || judge("ioperm", call3(libc::SYS_ioperm, 0x80, 1, 1)),
    },
    Attack { name: "modify-ldt", about: "change the processor's tables", run: modify_ldt },
    Attack { name: "x32-call", about: "a call by the x32 table", run: x32 },
    Attack { name: "i386-call", about: "a call by the 32-bit entry", run: i386 },
    Attack {
        name: "lookup-dcookie",
        about: "an obsolete call",
        run: || judge("lookup_dcookie", reached(call3(libc::SYS_lookup_dcookie, 0, 0, 0))),
    },
    Attack {
        name: "memfd-secret",
        about: "memory that even the kernel cannot look into",
        run: memfd_secret,
    },
];

/// The kernel looked at our (wrong) arguments: the call itself is open.
pub(crate) fn reached(result: std::io::Result<usize>) -> std::io::Result<usize> {
    match result {
        Err(error)
            if matches!(
                error.raw_os_error(),
                Some(
                    libc::EFAULT
                        | libc::EINVAL
                        | libc::ENOEXEC
                        | libc::ENOENT
                        | libc::EBADF
                        | libc::ESRCH
                        | libc::ENODEV
                        | libc::ENOTBLK
                )
            ) =>
        {
            Ok(0)
        }
        other => other,
    }
}

fn io_uring() -> Outcome {
    let parameters = [0u8; 120];
    judge("io_uring_setup", call3(libc::SYS_io_uring_setup, 4, parameters.as_ptr() as usize, 0))
}

fn bpf() -> Outcome {
    // A map of one element.
    let attributes: [u32; 18] = [2, 4, 4, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    judge(
        "bpf(BPF_MAP_CREATE)",
        call3(libc::SYS_bpf, 0, attributes.as_ptr() as usize, size_of_val(&attributes)),
    )
}

fn perf_event() -> Outcome {
    let mut attributes = [0u64; 16];
    attributes[0] = 1 | (128 << 32);
    let nobody = (-1isize).cast_unsigned();
    judge(
        "perf_event_open",
        call(libc::SYS_perf_event_open, [attributes.as_ptr() as usize, 0, nobody, nobody, 0, 0]),
    )
}

fn userfaultfd() -> Outcome {
    judge("userfaultfd", call3(libc::SYS_userfaultfd, 0, 0, 0))
}

fn keyctl() -> Outcome {
    judge("keyctl(KEYCTL_GET_KEYRING_ID)", call3(libc::SYS_keyctl, 0, (-3isize).cast_unsigned(), 1))
}

fn add_key() -> Outcome {
    let (kind, name) = (text("user"), text("clawpen-attack"));
    let args = [address(&kind), address(&name), address(&name), 4, (-2isize).cast_unsigned(), 0];
    judge("add_key", call(libc::SYS_add_key, args))
}

fn finit_module() -> Outcome {
    let nothing = text("");
    judge(
        "finit_module",
        reached(call3(libc::SYS_finit_module, (-1isize).cast_unsigned(), address(&nothing), 0)),
    )
}

fn delete_module() -> Outcome {
    let name = text("clawpen_no_such_module");
    judge("delete_module", reached(call3(libc::SYS_delete_module, address(&name), 0, 0)))
}

/// With a wrong magic number: the right is checked first, and nothing restarts.
fn reboot() -> Outcome {
    judge("reboot", reached(call3(libc::SYS_reboot, 0, 0, 0)))
}

fn swapon() -> Outcome {
    let path = text("/proc/self/status");
    judge("swapon", reached(call3(libc::SYS_swapon, address(&path), 0, 0)))
}

/// To the name it has.
fn sethostname() -> Outcome {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim().to_owned();
    judge("sethostname", call3(libc::SYS_sethostname, name.as_ptr() as usize, name.len(), 0))
}

fn acct() -> Outcome {
    let path = text("/clawpen-no-such-file");
    judge("acct", reached(call3(libc::SYS_acct, address(&path), 0, 0)))
}

fn personality() -> Outcome {
    const NO_RANDOMIZE: usize = 0x4_0000;
    match call3(libc::SYS_personality, NO_RANDOMIZE, 0, 0) {
        Ok(_) => Outcome::Escaped("personality(ADDR_NO_RANDOMIZE)".to_owned()),
        Err(error) => Outcome::Blocked(format!("personality: {error}")),
    }
}

fn modify_ldt() -> Outcome {
    let entry = [0u32; 4];
    judge(
        "modify_ldt",
        call3(libc::SYS_modify_ldt, 1, entry.as_ptr() as usize, size_of_val(&entry)),
    )
}

/// `getpid` with the x32 bit. A kernel without x32 answers "no such call", as a filter would.
fn x32() -> Outcome {
    match call(0x4000_0000 + libc::SYS_getpid, [0; 6]) {
        Ok(_) => Outcome::Escaped("getpid by the x32 table".to_owned()),
        Err(error) if std::env::var_os("CONTROL").is_some() => {
            Outcome::CannotTry(format!("this kernel has no x32: {error}"))
        }
        Err(error) => Outcome::Blocked(format!("x32: {error}")),
    }
}

/// `getpid` by the 32-bit gate, in a child: a filter may kill the caller.
fn i386() -> Outcome {
    // SAFETY: the child only makes one system call and leaves.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let number = 20usize;
        let result: usize;
        // SAFETY: getpid takes no arguments and touches no memory.
        unsafe {
            std::arch::asm!("int 0x80", inlateout("rax") number => result, out("r8") _, out("r9") _, out("r10") _, out("r11") _);
        };
        let own = std::process::id() as usize;
        std::process::exit(i32::from(result != own));
    }
    let mut status = 0;
    // SAFETY: waitpid fills the integer that the pointer leads to.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    match status {
        0 => Outcome::Escaped("getpid by int 0x80".to_owned()),
        other => Outcome::Blocked(format!("int 0x80: status {other:#x}")),
    }
}

fn memfd_secret() -> Outcome {
    match call3(libc::SYS_memfd_secret, 0, 0, 0) {
        Ok(_) => Outcome::Escaped("memfd_secret".to_owned()),
        Err(error)
            if error.raw_os_error() == Some(libc::ENOSYS)
                && std::env::var_os("CONTROL").is_some() =>
        {
            Outcome::CannotTry("memfd_secret is switched off in this kernel".to_owned())
        }
        Err(error) => Outcome::Blocked(format!("memfd_secret: {error}")),
    }
}
