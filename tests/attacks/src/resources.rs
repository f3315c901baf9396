//! Bombs: whether there is an end to what one command can take.
//!
//! Each takes far more than the pens of the suite are given and far less than the machine has, so the
//! control goes through and nobody else notices.

use std::io::Write as _;

use crate::system::{call, call3, judge, number_of};
use crate::{Attack, Outcome};

pub(crate) const ATTACKS: &[Attack] = &[
    Attack { name: "fork-bomb", about: "have 400 processes", run: fork_bomb },
    Attack { name: "thread-bomb", about: "have 400 threads", run: thread_bomb },
    Attack { name: "memory-bomb", about: "use 512 MiB of memory", run: memory_bomb },
    Attack {
        name: "shared-memory-bomb",
        about: "use 512 MiB of memory that no process has mapped",
        run: shared_memory_bomb,
    },
    Attack { name: "descriptor-bomb", about: "open 4,000 descriptors", run: descriptor_bomb },
    Attack { name: "tmpfs-bytes", about: "put 16 MiB into /tmp", run: tmpfs_bytes },
    Attack { name: "tmpfs-files", about: "put 6,000 files into /tmp", run: tmpfs_files },
    Attack {
        name: "core-dump",
        about: "have a crash written to disk or piped to the host",
        run: core_dump,
    },
];

const MANY: usize = 400;
const MEMORY: usize = 512 << 20;
const PAGE: usize = 4096;

/// Forks; the child runs `life` and ends.
fn forked(life: impl FnOnce()) -> std::io::Result<i32> {
    // SAFETY: the threads of an earlier bomb hold no lock, they only wait; libc keeps its own in order.
    let child = unsafe { libc::fork() };
    match child {
        0 => {
            life();
            leave(0)
        }
        -1 => Err(std::io::Error::last_os_error()),
        pid => Ok(pid),
    }
}

/// Ends a child at once: what this program has to do at its end is not the child's, and beside the threads of a
/// bomb it does not always go well.
fn leave(code: i32) -> ! {
    // SAFETY: takes an integer and does not return.
    unsafe { libc::_exit(code) }
}

fn waited_for(child: i32) -> i32 {
    let mut status = 0;
    // SAFETY: waitpid fills the integer that the pointer leads to.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    status
}

fn pause() {
    let _ = call(libc::SYS_pause, [0; 6]);
}

fn fork_bomb() -> Outcome {
    let mut children = Vec::new();
    let stopped = loop {
        if children.len() == MANY {
            break None;
        }
        match forked(pause) {
            Ok(child) => children.push(child),
            Err(error) => break Some(error),
        }
    };
    for child in &children {
        let _ = call3(libc::SYS_kill, number_of(*child), number_of(libc::SIGKILL), 0);
        waited_for(*child);
    }
    match stopped {
        None => Outcome::Escaped(format!("{MANY} processes")),
        Some(error) => Outcome::Blocked(format!("after {}: {error}", children.len())),
    }
}

fn thread_bomb() -> Outcome {
    for count in 0..MANY {
        if let Err(error) = std::thread::Builder::new().stack_size(64 << 10).spawn(pause) {
            return Outcome::Blocked(format!("after {count}: {error}"));
        }
    }
    Outcome::Escaped(format!("{MANY} threads"))
}

/// In a child: what is out of memory is killed.
fn in_a_child(what: &str, life: fn()) -> Outcome {
    match forked(life) {
        Err(error) => Outcome::CannotTry(format!("no child: {error}")),
        Ok(child) => match waited_for(child) {
            0 => Outcome::Escaped(what.to_owned()),
            status => Outcome::Blocked(format!("the child ended with status {status:#x}")),
        },
    }
}

fn memory_bomb() -> Outcome {
    in_a_child("used 512 MiB", || {
        let mut memory = vec![0u8; MEMORY];
        memory.iter_mut().step_by(PAGE).for_each(|byte| *byte = 1);
        std::hint::black_box(&memory);
    })
}

fn shared_memory_bomb() -> Outcome {
    in_a_child("wrote 512 MiB to a memory file", || {
        let name = c"bomb";
        let written = call3(libc::SYS_memfd_create, name.as_ptr() as usize, 0, 0).and_then(|fd| {
            let piece = vec![1u8; 1 << 20];
            (0..MEMORY / piece.len()).try_for_each(|_| {
                call3(libc::SYS_write, fd, piece.as_ptr() as usize, piece.len()).map(drop)
            })
        });
        leave(i32::from(written.is_err()));
    })
}

fn descriptor_bomb() -> Outcome {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: getrlimit fills the struct that the pointer leads to.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: setrlimit reads the struct that the pointer leads to.
    unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
    for count in 0..4000 {
        if let Err(error) = call3(libc::SYS_dup, 1, 0, 0) {
            return Outcome::Blocked(format!("after {count}: {error}"));
        }
    }
    Outcome::Escaped("4,000 descriptors".to_owned())
}

fn tmpfs_bytes() -> Outcome {
    let path = "/tmp/clawpen-attack-fill";
    let piece = vec![1u8; 1 << 20];
    let result = std::fs::File::create(path)
        .and_then(|mut file| (0..16).try_for_each(|_| file.write_all(&piece)));
    let _ = std::fs::remove_file(path);
    judge("16 MiB in /tmp", result)
}

fn tmpfs_files() -> Outcome {
    let directory = "/tmp/clawpen-attack-files";
    // Of a run that was killed.
    let _ = std::fs::remove_dir_all(directory);
    let made = std::fs::create_dir(directory).and_then(|()| {
        (0..6000).try_for_each(|n| std::fs::File::create(format!("{directory}/{n}")).map(drop))
    });
    let _ = std::fs::remove_dir_all(directory);
    judge("6,000 files in /tmp", made)
}

fn core_dump() -> Outcome {
    let directory = std::env::var("ATTACK_DIRECTORY").unwrap_or_else(|_unset| "/tmp".to_owned());
    let child = forked(|| {
        let _ = std::env::set_current_dir(&directory);
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: getrlimit fills the struct that the pointer leads to.
        unsafe { libc::getrlimit(libc::RLIMIT_CORE, &raw mut limit) };
        limit.rlim_cur = limit.rlim_max;
        // SAFETY: setrlimit reads the struct that the pointer leads to.
        unsafe { libc::setrlimit(libc::RLIMIT_CORE, &raw const limit) };
        std::process::abort();
    });
    let child = match child {
        Ok(child) => child,
        Err(error) => return Outcome::CannotTry(format!("no child: {error}")),
    };
    let status = waited_for(child);
    for name in ["core".to_owned(), format!("core.{child}")] {
        let _ = std::fs::remove_file(format!("{directory}/{name}"));
    }
    if libc::WCOREDUMP(status) {
        return Outcome::Escaped("a core was taken".to_owned());
    }
    Outcome::Blocked(format!("none was taken (status {status:#x})"))
}
