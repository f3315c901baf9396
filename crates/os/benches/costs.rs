//! What the steps of making a pen and starting a command cost here: median and 95th percentile.
//!
//! `cargo bench -p clawpen-os`. Run as root for the rows about mounts and cgroups. No budget is
//! checked: those are about whole calls and stand in `clawpen bench`.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a program for developers that prints a table"
)]

use std::ffi::CString;
use std::fs::File;
use std::hint::black_box;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use clawpen_os::cgroups::{Hierarchies, Leaf, Limits};
use clawpen_os::events::open_null;
use clawpen_os::landlock::{Access, Request, Ruleset};
use clawpen_os::mounts::{Extent, Mount};
use clawpen_os::namespaces::{self, IdRange, Namespaces};
use clawpen_os::process::{self, Child, Forked, Pid};
use clawpen_os::seccomp::{self, Program, SockFilter};
use clawpen_os::spawn::{Image, Plan, Session};
use clawpen_os::{beneath, capabilities};

const ROUNDS: usize = 300;

fn main() {
    starts();
    forks();
    confinement();
    if process::identity().is_ok_and(|identity| identity.uid == 0) {
        pens();
        groups();
    }
}

fn report(name: &str, mut body: impl FnMut() -> Duration) {
    body();
    let mut times: Vec<Duration> = (0..ROUNDS).map(|_| body()).collect();
    times.sort();
    let [p50, p95] = [50, 95].map(|percent| times[times.len() * percent / 100].as_nanos() / 100);
    let micros = |tenths: u128| format!("{}.{}", tenths / 10, tenths % 10);
    println!("{name:<58} {:>9} {:>9} µs", micros(p50), micros(p95));
}

fn timed<T>(body: impl FnOnce() -> T) -> Duration {
    let start = Instant::now();
    black_box(body());
    start.elapsed()
}

fn words(words: &[&str]) -> Vec<CString> {
    words.iter().map(|word| CString::new(*word).unwrap()).collect()
}

/// Fork, exec and wait for `true`, with and without what an exec in a pen adds.
fn starts() {
    let null = open_null().unwrap();
    let run_true = || Plan::new(Image::Paths(words(&["/bin/true"])), words(&["true"]), vec![]);
    report("true: fork, exec, wait", || timed(fork_exec));
    report("true: std::process::Command", || timed(|| Command::new("/bin/true").status().unwrap()));
    let plan = run_true().descriptor(0, null.as_fd());
    let spawn_and_wait = |plan: &Plan<'_>| timed(|| plan.spawn().unwrap().wait().unwrap());
    report("true: spawn, wait", || spawn_and_wait(&plan));
    let (ruleset, program) = (ruleset(), program());
    let confined = run_true().session(Session::New).landlock(&ruleset).seccomp(&program);
    let confined = confined.descriptor(0, null.as_fd());
    report("true: spawn in a session with Landlock and seccomp, wait", || {
        spawn_and_wait(&confined)
    });
    let missing = Plan::new(Image::Paths(words(&["/nowhere"])), vec![], vec![]);
    report("missing file: spawn (all but the exec)", || timed(|| missing.spawn().unwrap_err()));
    let ballast = black_box(vec![1_u8; 256 << 20]);
    report("true: fork, exec, wait with a heap of 256 MiB", || timed(fork_exec));
    report("true: spawn, wait with a heap of 256 MiB", || spawn_and_wait(&plan));
    drop(black_box(ballast));
}

fn fork_exec() {
    let program = CString::new("/bin/true").unwrap();
    if let Forked::Parent(child) = process::clone3(Namespaces::NONE, None).unwrap() {
        child.wait().unwrap();
        return;
    }
    let file = File::open(program.to_str().unwrap()).unwrap();
    let _failed = process::exec(file.as_fd(), &[program], &[]);
    process::exit_now(1);
}

fn forks() {
    let fork = |namespaces| match process::clone3(namespaces, None).unwrap() {
        Forked::Parent(child) => child,
        Forked::Child => process::exit_now(0),
    };
    let rows = [
        ("clone3, no namespaces", Namespaces::NONE),
        ("clone3, user", Namespaces::USER),
        ("clone3, all seven", Namespaces::ALL),
        ("clone3, all but network", Namespaces::ALL.without(Namespaces::NETWORK)),
    ];
    for (name, kinds) in rows {
        let mut child = None;
        report(name, || {
            let time = timed(|| child = Some(fork(kinds)));
            child.take().as_ref().map(Child::wait);
            time
        });
    }
    report("clone3, all seven, until its end is known", || {
        timed(|| fork(Namespaces::ALL).wait().unwrap())
    });
}

fn ruleset() -> Ruleset {
    let handles: Vec<File> = ["/usr", "/etc", "/tmp", "/dev", "/proc"]
        .iter()
        .map(|path| File::open(path).unwrap())
        .collect();
    let all = Access::READ | Access::WRITE | Access::EXECUTE;
    let paths = handles.iter().map(|file| (file.as_fd(), all)).collect();
    Ruleset::build(&Request { paths, ..Request::default() }).unwrap().unwrap()
}

/// A search tree over 60 ranges of numbers, as a real filter has when neighbours with the same
/// answer are put together.
fn program() -> Program {
    let load = SockFilter { code: 0x20, jt: 0, jf: 0, k: 0 };
    let mut steps = vec![load];
    search(0, 120, &mut steps);
    Program::new(steps).unwrap()
}

/// Appends a binary search for the boundaries from `first` up to `end`.
fn search(first: u32, end: u32, steps: &mut Vec<SockFilter>) {
    if end - first == 1 {
        steps.push(SockFilter { code: 0x06, jt: 0, jf: 0, k: 0x7fff_0000 });
        return;
    }
    let middle = u32::midpoint(first, end);
    let mut below = Vec::new();
    search(first, middle, &mut below);
    let skip = u8::try_from(below.len()).unwrap();
    steps.push(SockFilter { code: 0x35, jt: skip, jf: 0, k: middle * 4 });
    steps.append(&mut below);
    search(middle, end, steps);
}

/// One comparison per call in a list: what a naive compiler makes of 400 calls.
fn list_program() -> Program {
    let load = SockFilter { code: 0x20, jt: 0, jf: 0, k: 0 };
    let compare = |number| SockFilter { code: 0x15, jt: 0, jf: 0, k: number };
    let allow = SockFilter { code: 0x06, jt: 0, jf: 0, k: 0x7fff_0000 };
    let steps = [load].into_iter().chain((0..400).map(compare)).chain([allow]);
    Program::new(steps.collect()).unwrap()
}

/// Each in a thread of its own: what is given up does not come back.
fn confinement() {
    let (ruleset, program) = (ruleset(), program());
    let in_thread = |body: &(dyn Fn() + Sync)| {
        thread::scope(|scope| {
            let thread = scope.spawn(|| {
                process::set_no_new_privs().unwrap();
                timed(body)
            });
            thread.join().unwrap()
        })
    };
    report("landlock: build a rule set of 5 paths", || timed(self::ruleset));
    report("landlock: restrict", || in_thread(&|| ruleset.restrict_self().unwrap()));
    let name = format!("seccomp: install a tree of {}", program.instructions().len());
    report(&name, || in_thread(&|| seccomp::install(&program).unwrap()));
    // The kernel runs the program for every call there is, to know which are always allowed: a list
    // costs it the square.
    let list = list_program();
    let name = format!("seccomp: install a list of {}", list.instructions().len());
    report(&name, || in_thread(&|| seccomp::install(&list).unwrap()));
    let small = Program::new(list.instructions()[400..].to_vec()).unwrap();
    report("seccomp: install 2 instructions", || in_thread(&|| seccomp::install(&small).unwrap()));
    report("capabilities: drop all five sets", || {
        in_thread(&|| {
            let _not_root = capabilities::drop_all();
        })
    });
}

fn pens() {
    let map = [IdRange { inside: 0, outside: 0x7000_0000, count: 65536 }];
    report("user namespace for a mount", || {
        timed(|| namespaces::user_namespace(&map, &map).unwrap())
    });
    let user = namespaces::user_namespace(&map, &map).unwrap();
    let tmp = beneath::open_root(Path::new("/tmp")).unwrap();
    report("mount: clone a tree and map its ids", || {
        timed(|| {
            let mount = Mount::clone_of(tmp.as_fd(), Path::new(""), Extent::Tree).unwrap();
            mount.map_ids(user.as_fd(), Extent::Tree).unwrap();
        })
    });
}

fn groups() {
    let hierarchies = Hierarchies::find().unwrap();
    let limits = Limits { memory_bytes: Some(1 << 30), pids: Some(100), cpu_millis: Some(1000) };
    let name = format!("clawpen-bench-{}", Pid::this());
    let Ok(probe) = Leaf::create(&hierarchies, &name, &limits) else { return };
    probe.remove(Duration::from_secs(1)).unwrap();
    let soon = Duration::from_secs(10);
    report("cgroup: create with three limits", || {
        let mut leaf = None;
        let time = timed(|| leaf = Leaf::create(&hierarchies, &name, &limits).ok());
        leaf.unwrap().remove(soon).unwrap();
        time
    });
    let leaf = Leaf::create(&hierarchies, &name, &limits).unwrap();
    report("cgroup: move a process in", || {
        match process::clone3(Namespaces::NONE, None).unwrap() {
            Forked::Parent(child) => {
                let time = timed(|| leaf.add(child.pid()).unwrap());
                leaf.kill(soon).unwrap();
                child.wait().unwrap();
                time
            }
            Forked::Child => {
                let _interrupted = clawpen_os::events::poll(&[], None);
                process::exit_now(0)
            }
        }
    });
    leaf.remove(soon).unwrap();
}
