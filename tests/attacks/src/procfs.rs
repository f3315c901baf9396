//! What /proc and /sys give away or take.

use crate::system::{mount_for_control, open_for_writing, read, read_some};
use crate::{Attack, Outcome};

pub(crate) const ATTACKS: &[Attack] = &[
    Attack {
        name: "core-pattern",
        about: "have the kernel start a program on the host",
        run: || open_for_writing("/proc/sys/kernel/core_pattern"),
    },
    Attack {
        name: "modprobe-path",
        about: "have the kernel start another program",
        run: || open_for_writing("/proc/sys/kernel/modprobe"),
    },
    Attack {
        name: "binfmt-misc",
        about: "register an interpreter",
        run: || {
            mount_for_control("none", "/proc/sys/fs/binfmt_misc", "binfmt_misc", 0);
            open_for_writing("/proc/sys/fs/binfmt_misc/register")
        },
    },
    Attack {
        name: "sysrq-trigger",
        about: "reboot or crash the host",
        run: || open_for_writing("/proc/sysrq-trigger"),
    },
    Attack {
        name: "sysctl-write",
        about: "change a kernel setting",
        run: || open_for_writing("/proc/sys/vm/drop_caches"),
    },
    Attack { name: "kcore", about: "read the kernel's memory", run: || read_some("/proc/kcore") },
    Attack { name: "kallsyms", about: "read kernel addresses", run: kallsyms },
    Attack { name: "keys", about: "list the kernel's keys", run: || read("/proc/keys") },
    Attack {
        name: "timer-list",
        about: "read the kernel's timers",
        run: || read("/proc/timer_list"),
    },
    Attack { name: "kmsg", about: "read the kernel's log", run: || read_some("/proc/kmsg") },
    Attack {
        name: "proc-1-root",
        about: "walk to the host through /proc/1/root",
        run: || read("/proc/1/root/etc/shadow"),
    },
    Attack {
        name: "proc-1-environ",
        about: "read the environment of process 1",
        run: || read("/proc/1/environ"),
    },
    Attack {
        name: "proc-1-maps",
        about: "read the memory map of process 1",
        run: || read("/proc/1/maps"),
    },
    Attack { name: "proc-1-fd", about: "list what process 1 has open", run: proc_1_fd },
    Attack {
        name: "proc-1-mem",
        about: "open the memory of process 1",
        run: || open_for_writing("/proc/1/mem"),
    },
    Attack {
        name: "proc-1-exe",
        about: "get hold of the program of process 1",
        run: || read_some("/proc/1/exe"),
    },
    Attack {
        name: "proc-1-syscall",
        about: "watch what process 1 waits for",
        run: || read("/proc/1/syscall"),
    },
    Attack {
        name: "oom-victim",
        about: "have process 1 die first when memory ends",
        run: oom_victim,
    },
    Attack {
        name: "kpageflags",
        about: "read what the machine's memory is used for",
        run: || read_some("/proc/kpageflags"),
    },
    Attack {
        name: "interrupts",
        about: "count the machine's interrupts, and so its key strokes",
        run: || read("/proc/interrupts"),
    },
    Attack { name: "host-processes", about: "see processes of the host", run: host_processes },
    Attack {
        name: "sys-firmware",
        about: "read firmware tables",
        run: || read_directory("/sys/firmware"),
    },
    Attack {
        name: "sys-power",
        about: "put the host to sleep",
        run: || open_for_writing("/sys/power/state"),
    },
    Attack {
        name: "sys-kernel-debug",
        about: "the kernel's debug files",
        run: || {
            mount_for_control("none", "/sys/kernel/debug", "debugfs", 0);
            read_directory("/sys/kernel/debug")
        },
    },
    Attack {
        name: "tracefs",
        about: "trace the kernel",
        run: || {
            mount_for_control("none", "/sys/kernel/tracing", "tracefs", 0);
            open_for_writing("/sys/kernel/tracing/trace_marker")
        },
    },
    Attack {
        name: "sys-cgroup-write",
        about: "change cgroups of the host",
        run: || open_for_writing("/sys/fs/cgroup/pids/cgroup.procs"),
    },
    Attack {
        name: "uevent-helper",
        about: "have the kernel start a program on hotplug",
        run: || open_for_writing("/sys/kernel/uevent_helper"),
    },
];

fn read_directory(path: &str) -> Outcome {
    match std::fs::read_dir(path).map(Iterator::count) {
        Ok(0) => Outcome::Blocked(format!("{path} is empty here")),
        Ok(count) => Outcome::Escaped(format!("{path} has {count} entries")),
        Err(error) => Outcome::Blocked(format!("{path}: {error}")),
    }
}

fn proc_1_fd() -> Outcome {
    let entries = match std::fs::read_dir("/proc/1/fd") {
        Ok(entries) => entries,
        Err(error) => return Outcome::Blocked(format!("/proc/1/fd: {error}")),
    };
    let targets: Vec<String> = entries
        .flatten()
        .filter_map(|entry| std::fs::read_link(entry.path()).ok())
        .map(|target| target.display().to_string())
        .collect();
    if targets.is_empty() {
        return Outcome::Blocked("nothing of /proc/1/fd can be followed".to_owned());
    }
    Outcome::Escaped(format!("process 1 has open: {}", targets.join(" ")))
}

/// Only an address that is not zero tells anything.
fn kallsyms() -> Outcome {
    match std::fs::read_to_string("/proc/kallsyms") {
        Ok(table) => {
            let told = |line: &&str| !line.starts_with("0000000000000000");
            match table.lines().find(told) {
                Some(line) => Outcome::Escaped(format!("a symbol and its place: {line}")),
                None => Outcome::Blocked("no symbol has a place".to_owned()),
            }
        }
        Err(error) => Outcome::Blocked(error.to_string()),
    }
}

fn oom_victim() -> Outcome {
    let target = crate::processes::victim_number();
    let path = format!("/proc/{target}/oom_score_adj");
    crate::system::judge(&path, std::fs::write(&path, "1000"))
}

/// The host's process that the harness started and named, found in our own /proc.
fn host_processes() -> Outcome {
    let wanted = match crate::system::given("CANARY_PROCESS") {
        Ok(wanted) => wanted,
        Err(outcome) => return outcome,
    };
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Outcome::Blocked("/proc cannot be listed".to_owned());
    };
    for entry in entries.flatten() {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if String::from_utf8_lossy(&line).contains(&wanted) {
            return Outcome::Escaped(format!("saw {}", entry.path().display()));
        }
    }
    Outcome::Blocked("it is not listed".to_owned())
}
