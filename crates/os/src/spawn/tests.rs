//! Real programs, started from a test process that has threads.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::Instant;

use super::*;
use crate::events::{open_null, pipe};
use crate::landlock::{Access, Request};
use crate::memfd;
use crate::process::{ExitStatus, Pid};
use crate::pty;

fn strings(words: &[&str]) -> Vec<CString> {
    words.iter().map(|word| CString::new(*word).unwrap()).collect()
}

fn shell<'a>(script: &str) -> Plan<'a> {
    let environment = strings(&["PATH=/usr/bin:/bin"]);
    Plan::new(Image::Paths(strings(&["/bin/sh"])), strings(&["sh", "-c", script]), environment)
}

/// Runs the plan with descriptor 1 as a pipe; gives what it wrote and how it ended.
#[track_caller]
fn run(plan: Plan<'_>) -> (String, ExitStatus) {
    let null = open_null().unwrap();
    let (reader, writer) = pipe().unwrap();
    let plan = plan.descriptor(0, null.as_fd()).descriptor(1, writer.as_fd());
    let child = plan.descriptor(2, writer.as_fd()).spawn().unwrap();
    drop(writer);
    let mut text = String::new();
    File::from(reader).read_to_string(&mut text).unwrap();
    (text, child.wait().unwrap().status)
}

#[test]
fn a_program_has_the_environment_that_was_given_and_no_other() {
    let plan = Plan::new(
        Image::Paths(strings(&["/usr/bin/env"])),
        strings(&["env"]),
        strings(&["A=1", "B=two words"]),
    );
    assert_eq!(run(plan), ("A=1\nB=two words\n".to_owned(), ExitStatus::Code(0)));
    let (text, _) = run(shell("echo $PPID"));
    assert_eq!(text.trim_end(), Pid::this().to_string());
}

#[test]
fn descriptors_may_swap_places_and_no_other_is_open() {
    let leak = File::open("/dev/null").unwrap();
    // As a careless library would: without close-on-exec.
    rustix::io::fcntl_setfd(&leak, rustix::io::FdFlags::empty()).unwrap();
    let first = memfd::sealed("first", b"", memfd::Use::Read).unwrap();
    let second = memfd::sealed("second", b"", memfd::Use::Read).unwrap();
    // Each takes the other's number: both are overwritten, and neither before it was used.
    let (low, high) = (first.as_raw_fd(), second.as_raw_fd());
    let (ready, tell) = pipe().unwrap();
    let (wait, _keep) = pipe().unwrap();
    let plan = shell("echo ready; read line")
        .descriptor(low, second.as_fd())
        .descriptor(high, first.as_fd())
        .descriptor(0, wait.as_fd())
        .descriptor(1, tell.as_fd());
    let child = plan.spawn().unwrap();
    // Before that the loader opens libraries for a moment.
    crate::events::read(ready.as_fd(), &mut [0; 16]).unwrap();
    let seen = open_in(&child);
    child.signal(Signal::KILL).unwrap();
    child.wait().unwrap();
    let numbers: Vec<i32> = seen.iter().map(|(number, _)| *number).collect();
    let mut expected = vec![0, 1, low, high];
    expected.sort_unstable();
    assert_eq!(numbers, expected);
    let memory: Vec<&str> = [low, high]
        .map(|number| seen.iter().find(|(seen, _)| *seen == number).unwrap().1.as_str())
        .into();
    assert_eq!(memory, ["/memfd:second (deleted)", "/memfd:first (deleted)"]);
    drop(leak);
}

/// The open descriptors of a process, as we see them from outside.
fn open_in(child: &Child) -> Vec<(i32, String)> {
    let directory = format!("/proc/{}/fd", child.pid());
    let mut open: Vec<(i32, String)> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let number = path.file_name().unwrap().to_str().unwrap().parse().unwrap();
            (number, std::fs::read_link(&path).unwrap().into_os_string().into_string().unwrap())
        })
        .collect();
    open.sort();
    open
}

#[test]
fn a_failure_names_its_step_and_leaves_no_process() {
    let no_such = Plan::new(Image::Paths(strings(&["/nowhere/a", "/nowhere/b"])), vec![], vec![]);
    check_failure(&no_such, Step::Exec, libc::ENOENT);
    // A file that is there but not executable wins over one that is not there.
    let forbidden = strings(&["/etc/passwd", "/nowhere/b"]);
    check_failure(&Plan::new(Image::Paths(forbidden), vec![], vec![]), Step::Exec, libc::EACCES);
    let text = memfd::sealed("text", b"no program", memfd::Use::Execute).unwrap();
    check_failure(&Plan::new(Image::File(text.as_fd()), vec![], vec![]), Step::Exec, libc::ENOEXEC);
    check_failure(&shell("").directory(text.as_fd()), Step::Directory, libc::ENOTDIR);
    let terminal = shell("").descriptor(0, text.as_fd()).session(Session::NewWithTerminal);
    check_failure(&terminal, Step::Terminal, libc::ENOTTY);
    let limit = Limit { soft: Some(2), hard: Some(1) };
    check_failure(&shell("").limit(Resource::Core, limit), Step::Limits, libc::EINVAL);
    let twice = shell("").descriptor(1, text.as_fd()).descriptor(1, text.as_fd());
    check_failure(&twice, Step::Clone, libc::EINVAL);
    check_failure(&shell("").descriptor(-1, text.as_fd()), Step::Clone, libc::EINVAL);
}

#[track_caller]
fn check_failure(plan: &Plan<'_>, step: Step, number: i32) {
    let error = plan.spawn().unwrap_err();
    assert_eq!((error.step, error.cause.raw_os_error()), (step, Some(number)));
}

#[test]
fn a_search_goes_on_to_the_next_place() {
    let paths = strings(&["/nowhere/sh", "/etc/passwd/sh", "/bin/sh"]);
    let plan = Plan::new(Image::Paths(paths), strings(&["sh", "-c", "echo found"]), vec![]);
    assert_eq!(run(plan), ("found\n".to_owned(), ExitStatus::Code(0)));
}

#[test]
fn a_program_in_memory_runs() {
    let program = std::fs::read("/bin/echo").unwrap();
    let program = memfd::sealed("echo", &program, memfd::Use::Execute).unwrap();
    let plan = Plan::new(Image::File(program.as_fd()), strings(&["echo", "from memory"]), vec![]);
    assert_eq!(run(plan), ("from memory\n".to_owned(), ExitStatus::Code(0)));
}

#[test]
fn signals_start_at_their_defaults() {
    // What is ignored stays ignored over exec, unless somebody sees to it.
    crate::events::ignore_broken_pipes().unwrap();
    let (text, _) = run(shell("grep -E '^Sig(Blk|Ign)' /proc/self/status"));
    let sets: Vec<&str> = text.split_whitespace().filter(|word| !word.ends_with(':')).collect();
    assert_eq!(sets, ["0000000000000000"; 2]);
}

#[test]
fn directory_session_limits_and_ids_are_set() {
    let directory = tempfile::tempdir().unwrap();
    let handle = File::open(directory.path()).unwrap();
    let limit = Limit { soft: Some(40), hard: Some(50) };
    let script = "pwd; ulimit -Sn; ulimit -Hn; cut -d' ' -f6 /proc/self/stat; echo $$";
    let plan = shell(script).directory(handle.as_fd()).limit(Resource::OpenFiles, limit);
    let (text, _) = run(plan.session(Session::New));
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[..3], [directory.path().to_str().unwrap(), "40", "50"]);
    assert_eq!(lines[3], lines[4], "leads its session");
    if rustix::process::geteuid().is_root() {
        let nobody = Identity { uid: 65534, gid: 65533, groups: vec![7] };
        let (text, _) = run(shell("id -u; id -g; id -G").identity(nobody));
        assert_eq!(text, "65534\n65533\n65533 7\n");
    }
}

#[test]
fn a_terminal_becomes_the_controlling_one() {
    let pty = pty::open(pty::Size { rows: 7, columns: 9 }).unwrap();
    let plan =
        shell("tty </dev/tty >/dev/null && stty size </dev/tty").session(Session::NewWithTerminal);
    let plan = (0..3).fold(plan, |plan, number| plan.descriptor(number, pty.secondary.as_fd()));
    let child = plan.spawn().unwrap();
    assert_eq!(child.wait().unwrap().status, ExitStatus::Code(0));
    let mut buffer = [0; 64];
    let length = rustix::io::read(&pty.primary, &mut buffer).unwrap();
    assert_eq!(&buffer[..length], b"7 9\r\n");
}

#[test]
fn landlock_and_seccomp_confine_the_program_and_not_us() {
    let root = File::open("/").unwrap();
    let paths = vec![(root.as_fd(), Access::READ | Access::EXECUTE)];
    let request = Request { paths, ..Request::default() };
    let ruleset = crate::landlock::Ruleset::build(&request).unwrap().expect("Landlock");
    let refuse_mkdir = crate::seccomp::Program::new(
        [(0x20, 0, 0, 0), (0x15, 0, 1, 83), (0x06, 0, 0, 0x0005_005f), (0x06, 0, 0, 0x7fff_0000)]
            .map(|(code, jt, jf, k)| crate::seccomp::SockFilter { code, jt, jf, k })
            .to_vec(),
    )
    .unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().display();
    let script = format!(
        "grep -E 'NoNewPrivs|Seccomp:' /proc/self/status; mkdir {path}/a; echo > {path}/b; echo"
    );
    let (text, _) = run(shell(&script).landlock(&ruleset).seccomp(&refuse_mkdir));
    assert!(text.contains("NoNewPrivs:\t1\nSeccomp:\t2\n"), "{text}");
    assert!(text.contains("not supported"), "{text}");
    assert!(text.contains("Permission denied"), "{text}");
    // This very thread made the child in its own memory; it is as free as before.
    assert!(!crate::process::no_new_privs().unwrap());
    std::fs::create_dir(directory.path().join("a")).unwrap();
}

#[test]
fn it_is_told_what_a_program_used_and_how_it_died() {
    let (_, status) = run(shell("kill -9 $$"));
    assert_eq!(status, ExitStatus::Signal(Signal::KILL));
    let (_, status) = run(shell("exit 7"));
    assert_eq!(status, ExitStatus::Code(7));
    let null = open_null().unwrap();
    let script = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
    let child = shell(script).descriptor(1, null.as_fd()).spawn().unwrap();
    let ended = child.wait().unwrap();
    assert_eq!(ended.pid, child.pid());
    assert!(ended.usage.user + ended.usage.system > std::time::Duration::ZERO);
    assert!(ended.usage.peak_memory_bytes > 100_000);
    assert_eq!(child.wait().unwrap_err().raw_os_error(), Some(libc::ECHILD));
    assert_eq!(child.signal(Signal::KILL).unwrap_err().raw_os_error(), Some(libc::ESRCH));
}

#[test]
fn a_child_can_be_signalled_and_watched() {
    let null = open_null().unwrap();
    let child = shell("exec sleep 600").descriptor(0, null.as_fd()).spawn().unwrap();
    assert_eq!(child.try_wait().unwrap(), None);
    let interest = [(child.pidfd(), crate::events::Interest::Read)];
    assert_eq!(crate::events::poll(&interest, Some(std::time::Duration::ZERO)).unwrap(), []);
    child.signal(Signal::TERM).unwrap();
    crate::events::poll(&interest, None).unwrap();
    let ended = child.try_wait().unwrap().unwrap();
    assert_eq!(ended.status, ExitStatus::Signal(Signal::TERM));
}

#[test]
fn gaps_are_the_numbers_between() {
    assert_eq!(gaps(&[]), [(0, u32::MAX)]);
    assert_eq!(gaps(&[0, 1, 2]), [(3, u32::MAX)]);
    assert_eq!(gaps(&[1, 4]), [(0, 0), (2, 3), (5, u32::MAX)]);
}

#[test]
fn many_starts_leak_no_descriptor() {
    let count = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let null: OwnedFd = open_null().unwrap();
    let plan = Plan::new(Image::Paths(strings(&["/bin/true"])), strings(&["true"]), vec![]);
    let plan = plan.descriptor(0, null.as_fd());
    let failing = Plan::new(Image::Paths(strings(&["/nowhere"])), vec![], vec![]);
    let before = count();
    let start = Instant::now();
    for _ in 0..50 {
        plan.spawn().unwrap().wait().unwrap();
        failing.spawn().unwrap_err();
    }
    // Other tests run beside this one and hold a few.
    assert!(count() < before + 40, "{before} -> {} in {:?}", count(), start.elapsed());
}
