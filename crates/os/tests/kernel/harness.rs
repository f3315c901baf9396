//! Runs each case in a process of its own that has one thread; speaks as much of libtest's language
//! as `cargo test` and other runners need (`--list`, `--exact`, names as filters).

use std::env;
use std::os::fd::AsFd as _;
use std::panic::{self, AssertUnwindSafe};
use std::process::{Command, ExitCode};

use clawpen_os::events;
use clawpen_os::namespaces::{self, IdRange, Namespaces};
use clawpen_os::process::{self, Child, Dumpable, ExitStatus, Forked};

/// An id that owns nothing.
pub(crate) const NOBODY: u32 = 65534;

/// Set in the process that runs one case: who it should become.
const AS: &str = "CLAWPEN_OS_TEST_AS";

/// Who can do it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who {
    /// Needs the machine's root.
    Root,
    /// Works for an ordinary user too.
    Everybody,
}

/// One case.
pub(crate) struct Case {
    name: &'static str,
    who: Who,
    body: fn(),
}

impl Case {
    pub(crate) const fn new(name: &'static str, who: Who, body: fn()) -> Self {
        Self { name, who, body }
    }
}

pub(crate) fn run(cases: &[Case]) -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    if let Ok(user) = env::var(AS) {
        return run_here(cases, &user, &words);
    }
    let has = |flag: &str| words.iter().any(|word| word == flag);
    let filters: Vec<&String> = words.iter().filter(|word| !word.starts_with('-')).collect();
    let chosen = cases.iter().filter(|case| {
        let is_meant = |filter: &&String| {
            if has("--exact") { *filter == case.name } else { case.name.contains(filter.as_str()) }
        };
        filters.is_empty() || filters.iter().any(is_meant)
    });
    // Nothing here is marked to be skipped.
    if has("--ignored") {
        return ExitCode::SUCCESS;
    }
    if has("--list") {
        chosen.for_each(|case| println!("{}: test", case.name));
        return ExitCode::SUCCESS;
    }
    let failed = chosen.filter(|case| !passes(case)).count();
    println!("\ntest result: {failed} failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn passes(case: &Case) -> bool {
    let is_root = process::identity().unwrap().uid == 0;
    let mut users = Vec::new();
    if is_root || case.who == Who::Everybody {
        users.push("self");
    }
    if is_root && case.who == Who::Everybody {
        users.push("nobody");
    }
    if users.is_empty() {
        println!("test {} ... skipped: needs root", case.name);
    }
    users.iter().all(|user| {
        let program = env::current_exe().unwrap();
        let mut command = Command::new(program);
        let output = command.arg(case.name).env(AS, user).output().unwrap();
        let verdict = if output.status.success() { "ok" } else { "FAILED" };
        println!("test {} (as {user}) ... {verdict}", case.name);
        if !output.status.success() {
            println!("{}", String::from_utf8_lossy(&output.stdout));
            println!("{}\n{}", String::from_utf8_lossy(&output.stderr), output.status);
        }
        output.status.success()
    })
}

fn run_here(cases: &[Case], user: &str, words: &[String]) -> ExitCode {
    if user == "nobody" {
        process::set_groups(&[]).unwrap();
        process::set_gid(NOBODY).unwrap();
        process::set_uid(NOBODY).unwrap();
        // Changing ids hides a process from itself; a user who logged in has execed since.
        process::set_dumpable(Dumpable::Yes).unwrap();
    }
    let case = cases.iter().find(|case| words.iter().any(|word| word == case.name));
    (case.expect("a case of that name").body)();
    ExitCode::SUCCESS
}

/// Runs `body` in a forked child; its panic is the child's exit code.
pub(crate) fn fork(namespaces: Namespaces, body: impl FnOnce()) -> Child {
    match process::clone3(namespaces, None).unwrap() {
        Forked::Parent(child) => child,
        Forked::Child => {
            let outcome = panic::catch_unwind(AssertUnwindSafe(body));
            process::exit_now(if outcome.is_ok() { 0 } else { 101 })
        }
    }
}

#[track_caller]
pub(crate) fn assert_success(child: &Child) {
    assert_eq!(child.wait().unwrap().status, ExitStatus::Code(0));
}

/// Runs `body` as root of a user namespace (and `more` namespaces): what a pen's first process is.
///
/// Root maps the pen to ids that nobody has; an ordinary user can only map itself.
#[track_caller]
pub(crate) fn in_pen(more: Namespaces, body: impl FnOnce()) {
    in_pen_with(more, |_| {}, body);
}

/// The same; `outside` is called with the child after its ids are mapped and before `body` starts.
#[track_caller]
pub(crate) fn in_pen_with(more: Namespaces, outside: impl FnOnce(&Child), body: impl FnOnce()) {
    let (reader, writer) = events::pipe().unwrap();
    let child = fork(Namespaces::USER | more, || {
        assert_eq!(events::read(reader.as_fd(), &mut [0]).unwrap(), 1);
        process::set_gid(0).unwrap();
        process::set_uid(0).unwrap();
        body();
    });
    map_ids(&child);
    outside(&child);
    events::write(writer.as_fd(), b"x").unwrap();
    assert_success(&child);
}

fn map_ids(child: &Child) {
    let identity = process::identity().unwrap();
    if identity.uid == 0 {
        namespaces::write_uid_map(child.pid(), &[PEN]).unwrap();
        namespaces::write_gid_map(child.pid(), &[PEN]).unwrap();
        return;
    }
    let single = |outside| [IdRange { inside: 0, outside, count: 1 }];
    namespaces::deny_setgroups(child.pid()).unwrap();
    namespaces::write_uid_map(child.pid(), &single(identity.uid)).unwrap();
    namespaces::write_gid_map(child.pid(), &single(identity.gid)).unwrap();
}

/// The range of a pen that root makes.
pub(crate) const PEN: IdRange = IdRange { inside: 0, outside: 0x7000_0000, count: 65536 };
