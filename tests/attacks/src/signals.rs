//! Signals and priorities that are to reach process 1 as if they came from outside.
//!
//! Process 1 obeys the host's signals only. What tells them apart is what the kernel says about the
//! sender; each attack here tries to make the kernel say the wrong thing. The control aims at a stand-in
//! that believes the sender's number alone.

use std::io::{self, BufRead as _, BufReader};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::system::{call, call3, is_control, judge, number_of};
use crate::{Attack, Outcome};

pub(crate) const ATTACKS: &[Attack] = &[
    Attack {
        name: "forged-sender",
        about: "end process 1 by a queued signal that claims to come from outside",
        run: || against_process_1(forged_sender),
    },
    Attack {
        name: "forged-pidfd-signal",
        about: "the same through a process handle",
        run: || against_process_1(forged_pidfd),
    },
    Attack {
        name: "forged-by-sigio",
        about: "have the kernel send process 1 a signal without a sender",
        run: || against_process_1(by_sigio),
    },
    Attack {
        name: "forged-by-overflow",
        about: "have the kernel forget who sent a signal to process 1",
        run: || against_process_1(by_overflow),
    },
    Attack {
        name: "priority-by-user",
        about: "slow process 1 down by naming its user",
        run: priority_by_user,
    },
    Attack {
        name: "io-priority-by-user",
        about: "keep process 1 from its files by naming its user",
        run: io_priority_by_user,
    },
    Attack {
        name: "real-time",
        about: "run before every ordinary process of the machine",
        run: real_time,
    },
    Attack { name: "lock-memory", about: "pin much memory of the machine", run: lock_memory },
];

const QUEUED: i32 = -1; // SI_QUEUE

/// What `rt_sigqueueinfo` reads: number, error, code, then the sender that we choose.
fn made_up() -> [i32; 32] {
    let mut info = [0; 32];
    (info[0], info[2]) = (libc::SIGTERM, QUEUED);
    info
}

fn forged_sender(target: usize) -> io::Result<usize> {
    let info = made_up();
    let signal = number_of(libc::SIGTERM);
    call3(libc::SYS_rt_sigqueueinfo, target, signal, info.as_ptr() as usize)
}

fn forged_pidfd(target: usize) -> io::Result<usize> {
    let info = made_up();
    let handle = call3(libc::SYS_pidfd_open, target, 0, 0)?;
    let signal = number_of(libc::SIGTERM);
    call(libc::SYS_pidfd_send_signal, [handle, signal, info.as_ptr() as usize, 0, 0, 0])
}

/// A pipe whose news go to `target`, as a signal of our choice: the kernel sends it, not we.
fn by_sigio(target: usize) -> io::Result<usize> {
    let (reader, writer) = io::pipe()?;
    let fd = number_of(reader.as_raw_fd());
    let asynchronous = number_of(libc::O_ASYNC | libc::O_NONBLOCK);
    call3(libc::SYS_fcntl, fd, number_of(libc::F_SETOWN), target)?;
    call3(libc::SYS_fcntl, fd, 10, number_of(libc::SIGTERM))?; // F_SETSIG
    call3(libc::SYS_fcntl, fd, number_of(libc::F_SETFL), asynchronous)?;
    let written = call3(libc::SYS_write, number_of(writer.as_raw_fd()), c"x".as_ptr() as usize, 1);
    // The news must arrive before the pipe goes.
    std::mem::forget((reader, writer));
    written
}

/// The kernel keeps a note per signal, but only so many for one user. Without room it sends the signal
/// all the same and says "from process 0".
fn by_overflow(target: usize) -> io::Result<usize> {
    let real_time = 40usize;
    let mask = [1u64 << (real_time - 1)];
    call(libc::SYS_rt_sigprocmask, [0, mask.as_ptr() as usize, 0, 8, 0, 0])?;
    let mut info = made_up();
    info[0] = 40;
    let own = std::process::id() as usize;
    let full = (0..400_000)
        .any(|_| call3(libc::SYS_rt_sigqueueinfo, own, real_time, info.as_ptr() as usize).is_err());
    if !full {
        return Err(io::Error::other("the queue has no end"));
    }
    call3(libc::SYS_tgkill, target, target, number_of(libc::SIGTERM))
}

/// Runs an attack on process 1, or on a stand-in, and looks whether the victim goes.
fn against_process_1(attack: fn(usize) -> io::Result<usize>) -> Outcome {
    let mut stand_in = None;
    let mut target = 1;
    if is_control() {
        match start_stand_in() {
            Ok(child) => {
                target = child.id() as usize;
                stand_in = Some(child);
            }
            Err(error) => return Outcome::CannotTry(format!("no stand-in: {error}")),
        }
    }
    let sent = attack(target);
    let outcome = match sent {
        Err(error) => Outcome::Blocked(format!("not sent: {error}")),
        Ok(_) => wait_for_its_end(stand_in.as_mut()),
    };
    if let Some(child) = &mut stand_in {
        let _ = child.kill();
        let _ = child.wait();
    }
    outcome
}

/// If process 1 itself obeys, this process goes with it: whoever runs us sees the pen end.
fn wait_for_its_end(mut stand_in: Option<&mut Child>) -> Outcome {
    let deadline = Instant::now() + Duration::from_millis(400);
    while Instant::now() < deadline {
        if let Some(child) = stand_in.as_mut()
            && matches!(child.try_wait(), Ok(Some(_)))
        {
            return Outcome::Escaped("it obeyed".to_owned());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Outcome::Blocked("it took no notice".to_owned())
}

fn start_stand_in() -> io::Result<Child> {
    let mut child =
        Command::new(std::env::current_exe()?).arg("stand-in").stdout(Stdio::piped()).spawn()?;
    if let Some(output) = child.stdout.take() {
        BufReader::new(output).read_line(&mut String::new())?;
    }
    Ok(child)
}

/// The life of a stand-in: it ends at a SIGTERM whose sender has the number 0.
pub(crate) fn stand_in() -> io::Result<()> {
    let mask = [1u64 << (libc::SIGTERM - 1)];
    call(libc::SYS_rt_sigprocmask, [0, mask.as_ptr() as usize, 0, 8, 0, 0])?;
    let nobody = (-1isize).cast_unsigned();
    let fd = call(libc::SYS_signalfd4, [nobody, mask.as_ptr() as usize, 8, 0, 0, 0])?;
    // SAFETY: the kernel has just given us this descriptor; nobody else owns it.
    let signals = unsafe { OwnedFd::from_raw_fd(i32::try_from(fd).unwrap_or(-1)) };
    crate::company::say_ready();
    loop {
        let info = [0u32; 32];
        let descriptor = number_of(signals.as_raw_fd());
        call3(libc::SYS_read, descriptor, info.as_ptr() as usize, size_of_val(&info))?;
        if info[3] == 0 {
            return Ok(());
        }
    }
}

fn own_user() -> usize {
    call(libc::SYS_getuid, [0; 6]).unwrap_or(0)
}

/// What `getpriority` answers: 20 is the ordinary priority, less is slower.
fn priority_by_user() -> Outcome {
    let target = crate::processes::victim_number();
    let before = call3(libc::SYS_getpriority, 0, target, 0).unwrap_or(0);
    let sent = call3(libc::SYS_setpriority, 2, own_user(), 19);
    let after = call3(libc::SYS_getpriority, 0, target, 0).unwrap_or(0);
    if after < before {
        return Outcome::Escaped(format!("process {target} fell from {before} to {after}"));
    }
    Outcome::Blocked(sent.err().map_or_else(|| "nothing changed".to_owned(), |e| e.to_string()))
}

fn io_priority_by_user() -> Outcome {
    const IDLE: usize = 3 << 13;
    let target = crate::processes::victim_number();
    let sent = call3(libc::SYS_ioprio_set, 3, own_user(), IDLE);
    match call3(libc::SYS_ioprio_get, 1, target, 0) {
        Ok(now) if now & (7 << 13) == IDLE => {
            Outcome::Escaped(format!("process {target} waits for everybody"))
        }
        _ => Outcome::Blocked(
            sent.err().map_or_else(|| "nothing changed".to_owned(), |e| e.to_string()),
        ),
    }
}

fn real_time() -> Outcome {
    let (first_in_first_out, priority) = (1, [1i32]);
    let result =
        call3(libc::SYS_sched_setscheduler, 0, first_in_first_out, priority.as_ptr() as usize);
    judge("sched_setscheduler(SCHED_FIFO)", result)
}

fn lock_memory() -> Outcome {
    const BYTES: usize = 64 << 20;
    let memory = vec![0u8; BYTES];
    judge("locked 64 MiB", call3(libc::SYS_mlock, memory.as_ptr() as usize, BYTES, 0))
}
