//! Other commands: of the same pen (siblings) and of another pen (neighbours).
//!
//! `victim` and `neighbour` are the others; they say `ready` and wait to be killed. `company NAME` runs one
//! mechanism with both beside it, for the control, where there are no pens.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::system::{call, call3, given, judge};
use crate::{Attack, Outcome};

pub(crate) const ATTACKS: &[Attack] = &[
    Attack {
        name: "sibling-environment",
        about: "read the variables of another command of the pen",
        run: || with_sibling(environment),
    },
    Attack {
        name: "sibling-memory",
        about: "open the memory of another command of the pen",
        run: || with_sibling(memory),
    },
    Attack {
        name: "sibling-descriptor",
        about: "open what another command of the pen has open",
        run: || with_sibling(descriptor),
    },
    Attack {
        name: "sibling-trace",
        about: "trace another command of the pen",
        run: || with_sibling(trace),
    },
    Attack {
        name: "sibling-getfd",
        about: "take a descriptor out of another command of the pen",
        run: || with_sibling(getfd),
    },
    Attack {
        name: "neighbour-shm",
        about: "see another pen's shared memory file",
        run: || with_neighbour(|name| crate::system::read(&format!("/dev/shm/{name}"))),
    },
    Attack {
        name: "neighbour-tmp",
        about: "see another pen's temporary file",
        run: || with_neighbour(|name| crate::system::read(&format!("/tmp/{name}"))),
    },
    Attack {
        name: "neighbour-abstract",
        about: "reach a service of another pen on an abstract socket",
        run: || with_neighbour(abstract_socket),
    },
    Attack {
        name: "neighbour-loopback",
        about: "reach a service of another pen on the loopback",
        run: || with_neighbour(loopback),
    },
    Attack {
        name: "neighbour-sysv",
        about: "attach to another pen's System V shared memory",
        run: || with_neighbour(shared_memory),
    },
    Attack {
        name: "neighbour-process",
        about: "see the processes of another pen",
        run: neighbour_process,
    },
];

/// What the victim's environment holds.
const SECRET: &str = "the sibling's secret";
const SEGMENT_BYTES: usize = 4096;

pub(crate) fn say_ready() {
    println!("ready");
    let _ = io::stdout().flush();
    // Whoever cannot read our output waits for this.
    if let Ok(path) = std::env::var("READY_FILE") {
        let _ = std::fs::write(path, "ready");
    }
}

fn wait_to_be_killed() -> ! {
    loop {
        std::thread::sleep(Duration::from_secs(3600));
    }
}

/// A command that keeps a secret in its environment, its memory and a descriptor.
pub(crate) fn victim() -> ! {
    let secret = std::env::var("SIBLING_SECRET").unwrap_or_default();
    let kept = io::pipe();
    say_ready();
    std::hint::black_box((&secret, &kept));
    wait_to_be_killed()
}

/// A process that does nothing; its command line is what it is found by. It says when it is there, because a
/// program that was only just started has no command line yet.
pub(crate) fn bystander() -> ! {
    say_ready();
    wait_to_be_killed()
}

/// A command that offers whatever crosses badly drawn lines between pens.
pub(crate) fn neighbour() -> io::Result<()> {
    let name = std::env::var("NEIGHBOUR").map_err(io::Error::other)?;
    for directory in ["/dev/shm", "/tmp"] {
        std::fs::write(format!("{directory}/{name}"), "the neighbour's secret")?;
    }
    let address = SocketAddr::from_abstract_name(&name)?;
    let _socket = UnixListener::bind_addr(&address)?;
    let _port = TcpListener::bind(("127.0.0.1", port()))?;
    // IPC_CREAT, for everybody.
    let _segment = call3(libc::SYS_shmget, key(), SEGMENT_BYTES, 0o1666);
    say_ready();
    wait_to_be_killed()
}

/// What of the host cannot be made without calling the kernel: a message queue and a terminal, whose
/// path is printed. Both go when standard input ends.
pub(crate) fn host(queue: &str) -> io::Result<()> {
    let name = crate::system::text(queue);
    let create = crate::system::number_of(libc::O_CREAT | libc::O_RDWR);
    let place = crate::system::address(&name);
    call(libc::SYS_mq_open, [place, create, 0o666, 0, 0, 0])?;
    let terminal = crate::devices::new_terminal()?;
    println!("{}", std::fs::read_link(format!("/proc/self/fd/{terminal}"))?.display());
    io::stdout().flush()?;
    io::stdin().read_line(&mut String::new())?;
    call3(libc::SYS_mq_unlink, place, 0, 0).map(drop)
}

/// Removes what a neighbour without a pen has left on the host.
fn clear_up_after_neighbour() {
    let name = std::env::var("NEIGHBOUR").unwrap_or_default();
    for directory in ["/dev/shm", "/tmp"] {
        let _ = std::fs::remove_file(format!("{directory}/{name}"));
    }
    if let Ok(segment) = call3(libc::SYS_shmget, key(), 0, 0) {
        let _ = call3(libc::SYS_shmctl, segment, 0, 0); // IPC_RMID
    }
}

fn port() -> u16 {
    std::env::var("NEIGHBOUR_PORT").ok().and_then(|port| port.parse().ok()).unwrap_or(0)
}

fn key() -> usize {
    std::env::var("NEIGHBOUR_KEY").ok().and_then(|key| key.parse().ok()).unwrap_or(1)
}

/// Runs one mechanism beside a victim; in the control beside a neighbour and a stand-in for process 1
/// too. Gives the mechanism's exit code.
pub(crate) fn company(name: &str) -> io::Result<u8> {
    let program = std::env::current_exe()?;
    let mut others = Vec::new();
    let mut start = |words: &[&str]| -> io::Result<u32> {
        let mut other = Command::new(&program);
        other.args(words).env("SIBLING_SECRET", SECRET).stdout(Stdio::piped());
        let mut other = other.spawn()?;
        if let Some(output) = other.stdout.take() {
            BufReader::new(output).read_line(&mut String::new())?;
        }
        let pid = other.id();
        others.push(other);
        Ok(pid)
    };
    start(&["victim"])?;
    let mut mechanism = Command::new(&program);
    if crate::system::is_control() {
        start(&["neighbour"])?;
        // It plays process 1, and the host's process too, which cannot be seen from here.
        let name = std::env::var("CANARY_PROCESS").unwrap_or_else(|_unset| "3600".to_owned());
        let target = start(&["bystander", &name])?.to_string();
        mechanism.env("CANARY_PID", &target);
        mechanism.env("HOST_PID", &target);
    }
    let status = mechanism.arg(name).status();
    others.iter_mut().for_each(end);
    if crate::system::is_control() {
        clear_up_after_neighbour();
    }
    Ok(status?.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(100))
}

/// Runs every mechanism that comes after `done`, one process each, and prints a line for each: name, exit
/// code, what it said. For sandboxes that are dear to start; what is left out has ended the sandbox.
pub(crate) fn each(done: &str) -> io::Result<()> {
    // Nobody who starts us could be looked into either.
    call3(libc::SYS_prctl, 4, 0, 0)?;
    let program = std::env::current_exe()?;
    let all = crate::attacks();
    let first = all.iter().position(|attack| attack.name == done).map_or(0, |found| found + 1);
    for attack in all.into_iter().skip(first) {
        // Mechanisms about other commands need one.
        let words: &[&str] = if attack.name.starts_with("sibling-") { &["company"] } else { &[] };
        let mut mechanism = Command::new("timeout");
        mechanism.args(["--signal=KILL", "20"]).arg(&program).args(words).arg(attack.name);
        let output = mechanism.stdin(Stdio::null()).stderr(Stdio::null()).output()?;
        let code = output.status.code().unwrap_or(137);
        let said = String::from_utf8_lossy(&output.stdout).replace(['\n', '\t'], " ");
        println!("{}\t{code}\t{}", attack.name, said.trim());
    }
    Ok(())
}

fn end(other: &mut Child) {
    let _ = other.kill();
    let _ = other.wait();
}

/// The number of the process whose command line ends with `role`.
fn find(role: &str) -> Option<usize> {
    let wanted = format!("\0{role}\0");
    let entries = std::fs::read_dir("/proc").ok()?;
    entries.flatten().find_map(|entry| {
        let line = std::fs::read(entry.path().join("cmdline")).ok()?;
        let number = entry.file_name().to_str()?.parse().ok()?;
        line.ends_with(wanted.as_bytes()).then_some(number)
    })
}

fn with_sibling(attack: fn(usize) -> Outcome) -> Outcome {
    match find("victim") {
        Some(pid) => attack(pid),
        None => Outcome::CannotTry("there is no sibling".to_owned()),
    }
}

fn environment(pid: usize) -> Outcome {
    match std::fs::read(format!("/proc/{pid}/environ")) {
        Ok(text) if String::from_utf8_lossy(&text).contains(SECRET) => {
            Outcome::Escaped(format!("read the variables of process {pid}"))
        }
        Ok(_) => Outcome::Blocked("nothing in it".to_owned()),
        Err(error) => Outcome::Blocked(error.to_string()),
    }
}

fn memory(pid: usize) -> Outcome {
    judge("opened a sibling's memory", std::fs::File::open(format!("/proc/{pid}/mem")))
}

fn descriptor(pid: usize) -> Outcome {
    for number in 0..16 {
        if let Ok(target) = std::fs::read_link(format!("/proc/{pid}/fd/{number}"))
            && target.to_string_lossy().starts_with("pipe:")
        {
            let opened = std::fs::File::open(format!("/proc/{pid}/fd/{number}"));
            return judge(&format!("opened a sibling's {}", target.display()), opened);
        }
    }
    Outcome::Blocked("none of its descriptors can be followed".to_owned())
}

fn trace(pid: usize) -> Outcome {
    let result = call(libc::SYS_ptrace, [0x4206, pid, 0, 0, 0, 0]);
    if result.is_ok() {
        let _ = call(libc::SYS_ptrace, [17, pid, 0, 0, 0, 0]);
    }
    judge("ptrace(PTRACE_SEIZE, sibling)", result)
}

fn getfd(pid: usize) -> Outcome {
    match call3(libc::SYS_pidfd_open, pid, 0, 0) {
        Ok(handle) => judge("pidfd_getfd", call3(libc::SYS_pidfd_getfd, handle, 0, 0)),
        Err(error) => Outcome::Blocked(format!("pidfd_open: {error}")),
    }
}

fn with_neighbour(attack: fn(&str) -> Outcome) -> Outcome {
    match given("NEIGHBOUR") {
        Ok(name) => attack(&name),
        Err(outcome) => outcome,
    }
}

fn abstract_socket(name: &str) -> Outcome {
    let connected =
        SocketAddr::from_abstract_name(name).and_then(|address| UnixStream::connect_addr(&address));
    judge("connected to a neighbour's abstract socket", connected)
}

fn loopback(_: &str) -> Outcome {
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], port()));
    let connected = TcpStream::connect_timeout(&address, Duration::from_secs(2));
    judge("connected to a neighbour's port", connected)
}

fn shared_memory(_: &str) -> Outcome {
    judge("shmget of a neighbour's segment", call3(libc::SYS_shmget, key(), 0, 0))
}

fn neighbour_process() -> Outcome {
    match find("neighbour") {
        Some(pid) => Outcome::Escaped(format!("saw process {pid}")),
        None => Outcome::Blocked("it is not listed".to_owned()),
    }
}
