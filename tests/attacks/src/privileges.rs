//! Rights: capabilities, ids, set-id programs.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use crate::system::{address, call, call3, judge, text};
use crate::{Attack, Outcome};

pub(crate) const ATTACKS: &[Attack] = &[
    Attack { name: "capabilities", about: "have any capability at all", run: capabilities },
    Attack { name: "bounding-set", about: "have a capability left to gain", run: bounding_set },
    Attack {
        name: "no-new-privs",
        about: "be able to gain rights by running a program",
        run: no_new_privs,
    },
    Attack { name: "setuid-0", about: "become root", run: || judge("setuid(0)", become_root()) },
    Attack { name: "setgroups", about: "join other groups", run: setgroups },
    Attack { name: "chown", about: "give a file away", run: chown },
    Attack {
        name: "setuid-chmod",
        about: "leave a set-user-id program on the host",
        run: || setuid_file(chmod_4755),
    },
    Attack {
        name: "setuid-fchmodat2",
        about: "the same by the newest call",
        run: || setuid_file(fchmodat2),
    },
    Attack { name: "setuid-open", about: "the same at creation", run: setuid_at_creation },
    Attack {
        name: "setgid-mkdir",
        about: "leave a set-group-id directory on the host",
        run: setgid_mkdir,
    },
    Attack {
        name: "setuid-openat2",
        about: "the same by a call whose mode no filter can see",
        run: setuid_openat2,
    },
    Attack {
        name: "file-capabilities",
        about: "leave a program with capabilities on the host",
        run: file_capabilities,
    },
    Attack { name: "raise-limits", about: "raise a hard limit", run: raise_limits },
    Attack { name: "nice", about: "take more than our share of the processor", run: nice },
    Attack { name: "dumpable-parent", about: "be traced by, or trace, relatives", run: dumpable },
    Attack { name: "securebits", about: "change how rights are computed", run: securebits },
];

fn status(field: &str) -> Option<String> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with(field))?;
    Some(line.split_whitespace().nth(1)?.to_owned())
}

fn capabilities() -> Outcome {
    let sets =
        ["CapInh:", "CapPrm:", "CapEff:", "CapAmb:"].map(|set| status(set).unwrap_or_default());
    if sets.iter().all(|set| set.chars().all(|c| c == '0')) {
        Outcome::Blocked("all sets are empty".to_owned())
    } else {
        Outcome::Escaped(sets.join(" "))
    }
}

fn bounding_set() -> Outcome {
    let set = status("CapBnd:").unwrap_or_default();
    if set.chars().all(|c| c == '0') {
        Outcome::Blocked("empty".to_owned())
    } else {
        Outcome::Escaped(set)
    }
}

fn no_new_privs() -> Outcome {
    match status("NoNewPrivs:").as_deref() {
        Some("1") => Outcome::Blocked("no_new_privs is set".to_owned()),
        other => Outcome::Escaped(format!("NoNewPrivs is {other:?}")),
    }
}

/// Outside, as the control, we are root already: gaining it means dropping it first.
fn become_root() -> std::io::Result<usize> {
    let uid = call(libc::SYS_getuid, [0; 6])?;
    if uid == 0 && capabilities_are_empty() {
        return Err(std::io::Error::other("root of the pen only, without any capability"));
    }
    call3(libc::SYS_setuid, 0, 0, 0)
}

fn capabilities_are_empty() -> bool {
    status("CapEff:").is_some_and(|set| set.chars().all(|c| c == '0'))
}

fn setgroups() -> Outcome {
    let groups = [0u32, 4, 42];
    judge("setgroups", call3(libc::SYS_setgroups, groups.len(), groups.as_ptr() as usize, 0))
}

fn scratch(name: &str) -> String {
    let directory = std::env::var("ATTACK_DIRECTORY").unwrap_or_else(|_unset| "/tmp".to_owned());
    format!("{directory}/clawpen-attack-{name}")
}

fn chown() -> Outcome {
    let path = scratch("chown");
    if let Err(error) = std::fs::write(&path, b"x") {
        return Outcome::CannotTry(format!("{path}: {error}"));
    }
    let result = std::os::unix::fs::chown(&path, Some(12_345), None);
    let _ = std::fs::remove_file(&path);
    judge("chown to another user", result)
}

fn chmod_4755(path: &str) -> std::io::Result<()> {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o4755))
}

fn fchmodat2(path: &str) -> std::io::Result<()> {
    let path = text(path);
    let here = (libc::AT_FDCWD as isize).cast_unsigned();
    call(452, [here, address(&path), 0o4755, 0, 0, 0]).map(|_| ())
}

fn setuid_file(attack: fn(&str) -> std::io::Result<()>) -> Outcome {
    let path = scratch("setuid");
    let _ = std::fs::remove_file(&path);
    if let Err(error) = std::fs::write(&path, b"#!/bin/sh\n") {
        return Outcome::CannotTry(format!("{path}: {error}"));
    }
    let result = attack(&path);
    let outcome = check_mode(&path, result);
    let _ = std::fs::remove_file(&path);
    outcome
}

/// The mode decides, not what the call said.
fn check_mode(path: &str, result: std::io::Result<()>) -> Outcome {
    let mode = std::fs::metadata(path).map_or(0, |facts| facts.mode());
    if mode & 0o6000 == 0 {
        return Outcome::Blocked(
            result.err().map_or_else(|| "the bit is not set".to_owned(), |e| e.to_string()),
        );
    }
    Outcome::Escaped(format!("{path} has mode {mode:o}"))
}

fn setuid_at_creation() -> Outcome {
    let path = scratch("created");
    let _ = std::fs::remove_file(&path);
    let name = text(&path);
    let here = (libc::AT_FDCWD as isize).cast_unsigned();
    let flags = (libc::O_CREAT | libc::O_WRONLY | libc::O_EXCL).unsigned_abs() as usize;
    let result = call(libc::SYS_openat, [here, address(&name), flags, 0o4755, 0, 0]).map(|_| ());
    let outcome = check_mode(&path, result);
    let _ = std::fs::remove_file(&path);
    outcome
}

fn setgid_mkdir() -> Outcome {
    let path = scratch("directory");
    let _ = std::fs::remove_dir(&path);
    let name = text(&path);
    let made = call3(libc::SYS_mkdir, address(&name), 0o755, 0);
    let result = made.and_then(|_| {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o2755)).map(|()| 0)
    });
    let outcome = check_mode(&path, result.map(|_| ()));
    let _ = std::fs::remove_dir(&path);
    outcome
}

fn setuid_openat2() -> Outcome {
    let path = scratch("openat2");
    let _ = std::fs::remove_file(&path);
    let name = text(&path);
    let how = [u64::from((libc::O_CREAT | libc::O_WRONLY).unsigned_abs()), 0o4755, 0];
    let here = (libc::AT_FDCWD as isize).cast_unsigned();
    let args = [here, address(&name), how.as_ptr() as usize, size_of_val(&how), 0, 0];
    let result = call(libc::SYS_openat2, args).map(|_| ());
    let outcome = check_mode(&path, result);
    let _ = std::fs::remove_file(&path);
    outcome
}

fn file_capabilities() -> Outcome {
    let path = scratch("caps");
    if let Err(error) = std::fs::write(&path, b"x") {
        return Outcome::CannotTry(format!("{path}: {error}"));
    }
    let (file, name) = (text(&path), text("security.capability"));
    // Version 2, effective, every capability of the first word.
    let value: [u32; 5] = [0x0200_0001, u32::MAX, 0, 0, 0];
    let args = [address(&file), address(&name), value.as_ptr() as usize, size_of_val(&value), 0, 0];
    let result = call(libc::SYS_setxattr, args);
    let _ = std::fs::remove_file(&path);
    judge("setxattr(security.capability)", result)
}

fn raise_limits() -> Outcome {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: getrlimit fills the struct that the pointer leads to.
    unsafe { libc::getrlimit(libc::RLIMIT_CORE, &raw mut limit) };
    let raised = libc::rlimit { rlim_cur: limit.rlim_max, rlim_max: libc::RLIM_INFINITY };
    if limit.rlim_max == libc::RLIM_INFINITY {
        return Outcome::Escaped("core files have no limit".to_owned());
    }
    // SAFETY: setrlimit reads the struct that the pointer leads to.
    let result = unsafe { libc::setrlimit(libc::RLIMIT_CORE, &raw const raised) };
    let result = if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) };
    judge("setrlimit(RLIMIT_CORE, unlimited)", result)
}

fn nice() -> Outcome {
    // Of this process, to the highest priority.
    let highest = (-20isize).cast_unsigned();
    judge("setpriority(-20)", call3(libc::SYS_setpriority, 0, 0, highest))
}

fn dumpable() -> Outcome {
    let parent = std::os::unix::process::parent_id();
    match std::fs::read(format!("/proc/{parent}/environ")) {
        Ok(_) if parent != 0 => {
            Outcome::Escaped(format!("read the environment of process {parent}"))
        }
        Ok(_) => Outcome::CannotTry("there is no parent".to_owned()),
        Err(error) => Outcome::Blocked(format!("parent's environment: {error}")),
    }
}

fn securebits() -> Outcome {
    judge("prctl(PR_SET_SECUREBITS)", call3(libc::SYS_prctl, 28, 1, 0))
}
