//! Programs that lend their rights to whoever starts them, and files that are only for reading.
//!
//! The harness puts two copies of this program beside it: one that is set-user-id of root, one with file
//! capabilities. Started, each says what it may do (`rights`).

use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use crate::system::{call, is_control, judge, open_for_writing};
use crate::{Attack, Outcome};

pub(crate) const ATTACKS: &[Attack] = &[
    Attack {
        name: "run-setuid",
        about: "become root by running a set-user-id program",
        run: || gained("attack-setuid"),
    },
    Attack {
        name: "run-file-capabilities",
        about: "gain capabilities by running a program that has some",
        run: || gained("attack-capabilities"),
    },
    Attack {
        name: "reopen-for-writing",
        about: "open again for writing what was opened for reading",
        run: reopen,
    },
    Attack {
        name: "program-of-the-host",
        about: "hold on to a running program of the host and overwrite it afterwards",
        run: program_of_the_host,
    },
    Attack {
        name: "self-mem",
        about: "write our own read-only memory through /proc",
        run: self_mem,
    },
    Attack { name: "pagemap", about: "learn where our memory lies in the machine's", run: pagemap },
];

/// Gives a file the capability to open raw sockets, for the harness.
pub(crate) fn endow(path: &str) -> std::io::Result<()> {
    let (file, name) = (crate::system::text(path), crate::system::text("security.capability"));
    let value: [u32; 5] = [0x0200_0001, 1 << 13, 0, 0, 0];
    let [file, name] = [&file, &name].map(crate::system::address);
    let args = [file, name, value.as_ptr() as usize, size_of_val(&value), 0, 0];
    call(libc::SYS_setxattr, args).map(drop)
}

/// What [`gained`] starts: root's number or any capability is a gain.
pub(crate) fn rights() {
    let user = call(libc::SYS_geteuid, [0; 6]).unwrap_or(0);
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    println!("{user} {}", line.unwrap_or_default().trim());
}

/// The control is root already, so it becomes nobody first.
fn gained(copy: &str) -> Outcome {
    let Ok(own) = std::env::current_exe() else {
        return Outcome::CannotTry("we do not know where we are".to_owned());
    };
    let mut program = Command::new(own.with_file_name(copy));
    program.arg("rights").stdin(Stdio::null()).stderr(Stdio::null());
    if is_control() {
        program.uid(65_534).gid(65_534);
    }
    let before = call(libc::SYS_geteuid, [0; 6]).unwrap_or(0);
    let output = match program.output() {
        Ok(output) => String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        Err(error) => return Outcome::Blocked(format!("{copy}: {error}")),
    };
    let Some((user, capabilities)) = output.split_once(' ') else {
        return Outcome::Blocked(format!("{copy} said nothing"));
    };
    let became_root = user == "0" && (before != 0 || is_control());
    let has_capability = capabilities.chars().any(|digit| digit != '0');
    if became_root || has_capability {
        return Outcome::Escaped(format!("user {user}, capabilities {capabilities}"));
    }
    Outcome::Blocked(format!("user {user}, capabilities {capabilities}"))
}

fn reopen() -> Outcome {
    match std::fs::File::open("/usr/bin/env") {
        Ok(file) => open_for_writing(&format!("/proc/self/fd/{}", file.as_raw_fd())),
        Err(error) => Outcome::CannotTry(error.to_string()),
    }
}

/// A program that runs cannot be written, so its file is held and opened when it has ended.
fn program_of_the_host() -> Outcome {
    let mut program = Command::new("/usr/bin/tac");
    let mut child = match program.stdin(Stdio::piped()).stdout(Stdio::null()).spawn() {
        Ok(child) => child,
        Err(error) => return Outcome::CannotTry(format!("no child: {error}")),
    };
    let held = std::fs::OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_PATH)
        .open(format!("/proc/{}/exe", child.id()));
    let _ = child.kill();
    let _ = child.wait();
    match held {
        Ok(file) => patiently(|| open_for_writing(&format!("/proc/self/fd/{}", file.as_raw_fd()))),
        Err(error) => Outcome::Blocked(error.to_string()),
    }
}

/// Others may run the same program just now; an attacker has time.
fn patiently(attack: impl Fn() -> Outcome) -> Outcome {
    for _ in 0..50 {
        match attack() {
            Outcome::Blocked(why) if why.contains("busy") => {
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
            other => return other,
        }
    }
    attack()
}

static CONSTANT: [u8; 16] = *b"cannot be change";

fn self_mem() -> Outcome {
    use std::os::unix::fs::FileExt as _;
    let place = CONSTANT.as_ptr() as u64;
    let written = std::fs::OpenOptions::new()
        .write(true)
        .open("/proc/self/mem")
        .and_then(|memory| memory.write_all_at(b"c", place));
    judge("wrote to read-only memory", written)
}

fn pagemap() -> Outcome {
    use std::os::unix::fs::FileExt as _;
    let here = 7u64;
    let page = (&raw const here) as u64 / 4096;
    let mut entry = [0u8; 8];
    let read = std::fs::File::open("/proc/self/pagemap")
        .and_then(|map| map.read_exact_at(&mut entry, page * 8));
    if let Err(error) = read {
        return Outcome::Blocked(error.to_string());
    }
    match u64::from_ne_bytes(entry) & ((1 << 55) - 1) {
        0 => Outcome::Blocked("the frame is not told".to_owned()),
        frame => Outcome::Escaped(format!("frame {frame:#x}")),
    }
}
