//! Other processes: tracing, memory, signals.

use crate::system::{call, call3, judge};
use crate::{Attack, Outcome};

pub(crate) const ATTACKS: &[Attack] = &[
    Attack { name: "ptrace-attach", about: "trace process 1", run: ptrace_attach },
    Attack { name: "ptrace-child", about: "trace a child of our own", run: ptrace_child },
    Attack { name: "process-vm-read", about: "read another process' memory", run: process_vm_read },
    Attack {
        name: "process-vm-write",
        about: "write another process' memory",
        run: process_vm_write,
    },
    Attack { name: "kill-1", about: "kill process 1", run: kill_1 },
    Attack { name: "stop-1", about: "stop process 1", run: stop_1 },
    Attack { name: "pidfd-getfd", about: "take a descriptor out of process 1", run: pidfd_getfd },
    Attack {
        name: "pidfd-signal-host",
        about: "signal a process of the host by number",
        run: signal_host,
    },
    Attack { name: "kcmp", about: "compare kernel objects with process 1", run: kcmp },
    Attack { name: "sched-1", about: "change how process 1 is scheduled", run: sched_1 },
    Attack { name: "prlimit-1", about: "take the limits of process 1 away", run: prlimit_1 },
    Attack { name: "priority-1", about: "change the priority of process 1", run: priority_1 },
    Attack { name: "move-pages", about: "move another process' memory", run: move_pages },
    Attack {
        name: "leaked-descriptors",
        about: "find a descriptor that was not meant for us",
        run: leaked,
    },
];

fn ptrace_attach() -> Outcome {
    let result = call(libc::SYS_ptrace, [0x4206, 1, 0, 0, 0, 0]);
    if result.is_ok() {
        let _ = call(libc::SYS_ptrace, [17, 1, 0, 0, 0, 0]);
    }
    judge("ptrace(PTRACE_SEIZE, 1)", result)
}

fn ptrace_child() -> Outcome {
    let mut child = match std::process::Command::new("/bin/sleep").arg("5").spawn() {
        Ok(child) => child,
        Err(error) => return Outcome::CannotTry(format!("no child: {error}")),
    };
    let result = call(libc::SYS_ptrace, [0x4206, child.id() as usize, 0, 0, 0, 0]);
    let _ = child.kill();
    let _ = child.wait();
    judge("ptrace(PTRACE_SEIZE, child)", result)
}

fn vectors() -> ([usize; 2], [usize; 2], Box<[u8; 8]>) {
    let buffer = Box::new([0u8; 8]);
    let local = [buffer.as_ptr() as usize, 8];
    (local, local, buffer)
}

/// Of our own parent: the same rights are checked as for anybody else.
fn process_vm_read() -> Outcome {
    let (local, remote, _buffer) = vectors();
    let pid = std::process::id() as usize;
    let args = [pid, local.as_ptr() as usize, 1, remote.as_ptr() as usize, 1, 0];
    judge("process_vm_readv", call(libc::SYS_process_vm_readv, args))
}

fn process_vm_write() -> Outcome {
    let (local, remote, _buffer) = vectors();
    let pid = std::process::id() as usize;
    let args = [pid, local.as_ptr() as usize, 1, remote.as_ptr() as usize, 1, 0];
    judge("process_vm_writev", call(libc::SYS_process_vm_writev, args))
}

/// The signal must arrive: sending it to a process 1 that ignores it is no escape, so what counts is
/// that process 1 goes. Outside, where process 1 is the host's, a stand-in is killed instead.
fn kill_1() -> Outcome {
    victim(libc::SIGKILL)
}

fn stop_1() -> Outcome {
    victim(libc::SIGSTOP)
}

pub(crate) fn victim_number() -> usize {
    std::env::var("CANARY_PID").ok().and_then(|pid| pid.parse().ok()).unwrap_or(1)
}

fn victim(signal: i32) -> Outcome {
    let number = victim_number();
    if let Err(error) = call3(libc::SYS_kill, number, signal.unsigned_abs() as usize, 0) {
        return Outcome::Blocked(format!("kill({number}): {error}"));
    }
    // The signal takes its time: look until it shows, for as long as a victim may reasonably need.
    let deadline = std::time::Instant::now() + std::time::Duration::from_millis(500);
    loop {
        let state = state_of(number);
        if matches!(state.as_str(), "gone" | "Z" | "X" | "T") {
            return Outcome::Escaped(format!("process {number} is now {state}"));
        }
        if std::time::Instant::now() > deadline {
            return Outcome::Blocked(format!("process {number} took no notice (state {state})"));
        }
        std::thread::yield_now();
    }
}

fn state_of(number: usize) -> String {
    let Ok(line) = std::fs::read_to_string(format!("/proc/{number}/stat")) else {
        return "gone".to_owned();
    };
    let after_name = line.rsplit(')').next().unwrap_or_default();
    after_name.split_whitespace().next().unwrap_or_default().to_owned()
}

fn pidfd_getfd() -> Outcome {
    let pidfd = match call3(libc::SYS_pidfd_open, 1, 0, 0) {
        Ok(pidfd) => pidfd,
        Err(error) => return Outcome::Blocked(format!("pidfd_open: {error}")),
    };
    for fd in 0..16 {
        if call3(libc::SYS_pidfd_getfd, pidfd, fd, 0).is_ok() {
            return Outcome::Escaped(format!("took descriptor {fd}"));
        }
    }
    Outcome::Blocked(format!("pidfd_getfd: {}", std::io::Error::last_os_error()))
}

fn signal_host() -> Outcome {
    let pid = match crate::system::given("HOST_PID") {
        Ok(pid) => pid.parse().unwrap_or(0),
        Err(outcome) => return outcome,
    };
    judge(&format!("kill({pid}, 0)"), call3(libc::SYS_kill, pid, 0, 0))
}

fn kcmp() -> Outcome {
    let own = std::process::id() as usize;
    judge("kcmp", call(libc::SYS_kcmp, [1, own, 1, 0, 0, 0]))
}

fn sched_1() -> Outcome {
    let (mask, number) = ([3u64], victim_number());
    judge(
        "sched_setaffinity",
        call3(libc::SYS_sched_setaffinity, number, 8, mask.as_ptr() as usize),
    )
}

fn prlimit_1() -> Outcome {
    // To the limits it has, so that outside nothing changes.
    let limit = [0u64; 2];
    let number = victim_number();
    let read = [number, 9, 0, limit.as_ptr() as usize, 0, 0];
    if let Err(error) = call(libc::SYS_prlimit64, read) {
        return Outcome::Blocked(format!("prlimit64: {error}"));
    }
    judge(
        "prlimit64 of process 1",
        call(libc::SYS_prlimit64, [number, 9, limit.as_ptr() as usize, 0, 0, 0]),
    )
}

fn priority_1() -> Outcome {
    judge("setpriority of process 1", call3(libc::SYS_setpriority, 0, victim_number(), 1))
}

fn move_pages() -> Outcome {
    judge("move_pages(1)", call(libc::SYS_move_pages, [1, 0, 0, 0, 0, 0]))
}

fn leaked() -> Outcome {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else {
        return Outcome::CannotTry("/proc/self/fd cannot be listed".to_owned());
    };
    let mut found = Vec::new();
    for entry in entries.flatten() {
        let number: i32 = entry.file_name().to_string_lossy().parse().unwrap_or(-1);
        let target = std::fs::read_link(entry.path()).unwrap_or_default().display().to_string();
        // 0 to 2 are ours; listing the directory opens one more.
        if number > 2 && !target.ends_with("/fd") {
            found.push(format!("{number} -> {target}"));
        }
    }
    if found.is_empty() {
        Outcome::Blocked("none".to_owned())
    } else {
        Outcome::Escaped(found.join(", "))
    }
}
