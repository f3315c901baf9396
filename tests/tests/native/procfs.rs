//! `/proc` of a pen: what is of the whole host is masked, and nothing of it can be written.

use clawpen_tests::home::Home;

/// What tells something of the host, whether this kernel has it or not.
const OF_THE_HOST: &[&str] = &[
    "acpi",
    "asound",
    "bus",
    "fs",
    "interrupts",
    "irq",
    "kallsyms",
    "kcore",
    "key-users",
    "keys",
    "kmsg",
    "kpagecgroup",
    "kpagecount",
    "kpageflags",
    "latency_stats",
    "sched_debug",
    "scsi",
    "slabinfo",
    "sysrq-trigger",
    "timer_list",
    "vmallocinfo",
    "pagetypeinfo",
];

/// Opens everything below `/proc` but the processes, as the command's own user.
const WALK: &str = r#"
import os, sys
readable, writable = [], []
for directory, below, files in os.walk("/proc"):
    inside = [name for name in below if not (directory == "/proc" and name.isdigit())]
    below[:] = [name for name in inside if not os.path.islink(os.path.join(directory, name))]
    for name in files + below:
        path = os.path.join(directory, name)
        for flags, found in ((os.O_RDONLY, readable), (os.O_WRONLY, writable), (os.O_RDWR, writable)):
            try:
                handle = os.open(path, flags | os.O_NONBLOCK)
            except OSError:
                continue
            try:
                if flags != os.O_RDONLY or os.read(handle, 1):
                    found.append(path)
            except OSError:
                pass
            os.close(handle)
print("\n".join("r " + path for path in readable))
print("\n".join("w " + path for path in writable))
"#;

#[test]
fn what_is_of_the_host_cannot_be_read_and_nothing_can_be_written() {
    let home = Home::new();
    let run = home.run(&["exec", "--", "python3", "-c", WALK]);
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""));
    let found = |kind: char| -> Vec<String> {
        let lines = run.stdout.lines().filter_map(|line| line.strip_prefix(kind));
        lines.map(|path| path.trim().to_owned()).filter(|path| !path.is_empty()).collect()
    };
    let readable = found('r');
    assert!(readable.iter().any(|path| path == "/proc/meminfo"), "{readable:?}");
    assert!(readable.iter().any(|path| path == "/proc/sys/kernel/osrelease"), "{readable:?}");
    for name in OF_THE_HOST {
        let path = format!("/proc/{name}");
        let below = format!("{path}/");
        let leaks: Vec<_> =
            readable.iter().filter(|found| **found == path || found.starts_with(&below)).collect();
        assert!(leaks.is_empty(), "{leaks:?}");
    }
    assert_eq!(found('w'), Vec::<String>::new());
}

#[test]
fn a_mask_cannot_be_taken_off_or_walked_around() {
    let home = Home::new();
    for script in [
        "umount /proc/keys",
        "umount -l /proc/irq",
        "mount -t proc proc /tmp",
        "mkdir /tmp/p && mount --rbind /proc /tmp/p && umount -l /tmp/p/keys",
        "unshare -Ur umount /proc/keys",
        "unshare -Urm sh -c 'umount /proc/keys'",
        "unshare -Urpf --mount-proc cat /proc/keys",
        "cat /proc/1/root/proc/keys",
        "test -s /proc/self/task/../../keys",
        "test -s /proc/thread-self/../../../keys",
    ] {
        let run = home.run(&["exec", "--", "sh", "-c", script]);
        assert_ne!(run.code, Some(0), "{script}: {}", run.stdout);
    }
}
