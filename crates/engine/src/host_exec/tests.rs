//! Plans that run, and attacks on what they start between the check and the run.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

use clawpen_rules::command::{Request, analyse};

use super::*;
use crate::program_files::{RealPrograms, Writers};

const LIMITS: Limits =
    Limits { time: Duration::from_secs(20), output_bytes: 1 << 16, errors: Errors::Apart };

/// A directory with programs of its own.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> String {
        self.0.path().canonicalize().unwrap().to_str().unwrap().to_owned()
    }

    fn at(&self, name: &str) -> String {
        format!("{}/{name}", self.path())
    }

    /// Copies a program, in another process: nobody may hold it open for writing when it starts.
    fn program(&self, from: &str, name: &str) {
        let copied = Command::new("cp").args([from, &self.at(name)]).status().unwrap();
        assert!(copied.success());
    }

    fn script(&self, name: &str, text: &str) {
        fs::write(self.at(name), text).unwrap();
        fs::set_permissions(self.at(name), fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn programs(&self) -> RealPrograms {
        RealPrograms::new(Writers::of_process(vec![self.path()]))
    }

    fn plan(&self, text: &str) -> Plan {
        self.plan_in(text, &self.path())
    }

    fn plan_in(&self, text: &str, cwd: &str) -> Plan {
        let path = format!("{}:/usr/bin:/bin", self.path());
        let environment = BTreeMap::from([("PATH".to_owned(), path)]);
        let request = Request { text, cwd, home: None, environment: &environment };
        let programs = self.programs();
        analyse(&request, &programs).unwrap().freeze(&programs).unwrap()
    }

    fn run(&self, plan: &Plan) -> Result<Finished, RunError> {
        run(plan, &self.programs(), LIMITS, &mut Unseen)
    }

    #[track_caller]
    fn refuses(&self, plan: &Plan, expected: &Stale) {
        match self.run(plan) {
            Err(RunError::Stale(stale)) => assert_eq!(stale, *expected),
            other => panic!("{other:?}"),
        }
        assert!(!Path::new(&self.at("canary")).exists(), "something ran");
    }
}

#[track_caller]
fn check(text: &str, expected: &str, status: ExitStatus) {
    let place = Place::new();
    let finished = place.run(&place.plan(text)).unwrap();
    assert_eq!(String::from_utf8_lossy(&finished.output), expected, "{text}");
    assert_eq!(finished.end, End::Status(status), "{text}");
}

const DONE: ExitStatus = ExitStatus::Code(0);
const FAILED: ExitStatus = ExitStatus::Code(1);

#[test]
fn the_words_run_as_they_are_and_nothing_is_expanded() {
    check("echo $HOME '*' \"a  b\" ''", "$HOME * a  b \n", DONE);
    check("echo '$(id)' '`id`' ';' '|'", "$(id) `id` ; |\n", DONE);
    check("nice -n 5 echo a", "a\n", DONE);
    check("env timeout 5 echo a", "a\n", DONE);
}

#[test]
fn pipes_chains_and_here_documents_mean_what_they_mean_to_a_shell() {
    check("echo b a | tr ' ' '\\n' | sort", "a\nb\n", DONE);
    check("true && echo yes || echo no", "yes\n", DONE);
    check("false && echo yes || echo no", "no\n", DONE);
    check("false ; echo on", "on\n", DONE);
    check("true || echo no", "", DONE);
    check("echo x | false", "", FAILED);
    check("false | echo x", "x\n", DONE);
    check("cat <<'E'\n$HOME\nE", "$HOME\n", DONE);
    check("cat <<'E' | tr a-z A-Z\nhi\nE", "HI\n", DONE);
}

#[test]
fn the_environment_is_the_plans_and_no_descriptor_of_ours_leaks() {
    let place = Place::new();
    let finished = place.run(&place.plan("printenv")).unwrap();
    let expected = format!("PATH={}:/usr/bin:/bin\n", place.path());
    assert_eq!(String::from_utf8_lossy(&finished.output), expected);
    let finished = place.run(&place.plan("ls /proc/self/fd")).unwrap();
    // 3 is the directory that `ls` reads.
    assert_eq!(String::from_utf8_lossy(&finished.output), "0\n1\n2\n3\n");
}

/// A shell reads its script as it goes, so whoever writes into the same file meanwhile would write what runs next.
#[test]
fn b21_a_script_of_an_agent_is_what_it_was_until_it_ends() {
    let place = Place::new();
    let head = "#!/bin/bash\nprintf 'touch canary  \\n' | dd of=build.sh bs=1 seek=SEEK conv=notrunc 2>/dev/null\n";
    let head = head.replace("SEEK", &format!("{:04}", head.len()));
    place.script("build.sh", &format!("{head}echo as it was\n"));
    let plan = place.plan("./build.sh");
    let finished = place.run(&plan).unwrap();
    assert_eq!(String::from_utf8_lossy(&finished.output), "as it was\n");
    assert!(!Path::new(&place.at("canary")).exists(), "what was written meanwhile ran");
    // The attack works without us.
    place.script("build.sh", &format!("{head}echo as it was\n"));
    assert!(Command::new("./build.sh").current_dir(place.path()).status().unwrap().success());
    assert!(Path::new(&place.at("canary")).exists(), "the attack does not work");
}

#[test]
fn b21_a_program_that_was_swapped_is_not_started() {
    let place = Place::new();
    place.program("/usr/bin/true", "tool");
    let plan = place.plan("tool");
    fs::remove_file(place.at("tool")).unwrap();
    let gone = Stale::Gone { path: place.at("tool") };
    place.refuses(&plan, &gone);
    place.program("/usr/bin/touch", "tool");
    let other = plan_of_inode(&place, &plan);
    place.refuses(&plan, &other);
    let same = place.plan("tool canary");
    assert!(place.run(&same).is_ok() && Path::new(&place.at("canary")).exists());
}

/// The same content check whatever number the new file got.
fn plan_of_inode(place: &Place, plan: &Plan) -> Stale {
    let found = fs::metadata(place.at("tool")).unwrap();
    let pinned = plan.files().next().unwrap();
    if found.ino() == pinned.identity.inode {
        Stale::Content { path: place.at("tool") }
    } else {
        Stale::Elsewhere { path: place.at("tool") }
    }
}

#[test]
fn b21_a_program_that_was_rewritten_in_place_is_not_started() {
    let place = Place::new();
    place.script("tool", "#!/bin/sh\nexit 0\n");
    let plan = place.plan("./tool");
    fs::write(place.at("tool"), "#!/bin/sh\ntouch canary\n").unwrap();
    place.refuses(&plan, &Stale::Content { path: place.at("tool") });
    fs::write(place.at("tool"), "#!/bin/sh\nexit 0\n").unwrap();
    assert!(place.run(&plan).is_ok());
}

#[test]
fn b21_a_script_that_an_interpreter_reads_is_looked_at_too() {
    let place = Place::new();
    place.script("run.sh", "exit 0\n");
    let plan = place.plan("sh run.sh");
    fs::write(place.at("run.sh"), "touch canary\n").unwrap();
    place.refuses(&plan, &Stale::Content { path: place.at("run.sh") });
}

#[test]
fn b21_what_a_wrapper_starts_is_looked_at_too() {
    let place = Place::new();
    place.program("/usr/bin/true", "tool");
    let plan = place.plan("nice ./tool");
    place.program("/usr/bin/touch", "other");
    fs::rename(place.at("other"), place.at("tool")).unwrap();
    place.refuses(&plan, &Stale::Elsewhere { path: place.at("tool") });
}

#[test]
fn b21_a_link_that_leads_elsewhere_now_is_not_followed() {
    let place = Place::new();
    symlink("/usr/bin/true", place.at("tool")).unwrap();
    let plan = place.plan("tool canary");
    fs::remove_file(place.at("tool")).unwrap();
    symlink("/usr/bin/touch", place.at("tool")).unwrap();
    place.refuses(&plan, &Stale::Elsewhere { path: place.at("tool") });
}

#[test]
fn b21_a_directory_that_was_swapped_is_not_entered() {
    let place = Place::new();
    let inner = place.at("inner");
    fs::create_dir(&inner).unwrap();
    let plan = place.plan_in("touch canary", &inner);
    fs::rename(&inner, place.at("old")).unwrap();
    place.refuses(&plan, &Stale::Directory { path: inner.clone() });
    symlink("/", &inner).unwrap();
    place.refuses(&plan, &Stale::Directory { path: inner.clone() });
    fs::remove_file(&inner).unwrap();
    fs::create_dir(&inner).unwrap();
    let kept = fs::metadata(&inner).unwrap();
    if kept.ino() != plan.directory().unwrap().identity.inode {
        place.refuses(&plan, &Stale::Directory { path: inner });
    }
}

#[test]
fn b21_a_name_that_another_directory_of_the_path_has_now_changes_nothing() {
    let place = Place::new();
    let plan = place.plan("echo safe");
    // Comes first in PATH, and was not there when the plan was made.
    place.script("echo", "#!/bin/sh\ntouch canary\n");
    let finished = place.run(&plan).unwrap();
    assert_eq!(finished.output, b"safe\n");
    assert!(!Path::new(&place.at("canary")).exists());
}

#[test]
fn b21_a_step_that_rewrites_the_next_one_ends_the_chain() {
    let place = Place::new();
    place.script("second", "#!/bin/sh\nexit 0\n");
    place.script("first", "#!/bin/sh\nprintf '#!/bin/sh\\ntouch canary\\n' > second\n");
    let plan = place.plan("./first && ./second");
    place.refuses(&plan, &Stale::Content { path: place.at("second") });
}

#[test]
fn b21_a_script_of_the_agent_reaches_its_interpreter_by_descriptor() {
    let place = Place::new();
    place.script("tool", "#!/bin/sh\necho \"$0\" \"$@\"\n");
    let finished = place.run(&place.plan("./tool a 'b c'")).unwrap();
    assert_eq!(String::from_utf8_lossy(&finished.output), "/proc/self/fd/3 a b c\n");
}

#[test]
fn a_plan_that_changes_its_own_files_says_so() {
    let place = Place::new();
    place.script("tool", "#!/bin/sh\necho >> tool\n");
    let finished = place.run(&place.plan("./tool")).unwrap();
    assert_eq!(finished.changed, [place.at("tool")]);
}

#[test]
fn at_the_end_of_its_time_nothing_of_a_run_is_left() {
    let place = Place::new();
    place.script(
        "tool",
        "#!/bin/sh\nsetsid sleep 1000 &\necho $! > one\nsleep 1000 &\necho $! > two\nmv two ready\nwait\n",
    );
    let plan = place.plan("./tool");
    let limits = Limits { time: Duration::from_secs(2), ..LIMITS };
    let finished = run(&plan, &place.programs(), limits, &mut Unseen).unwrap();
    assert_eq!(finished.end, End::TimedOut);
    for name in ["one", "ready"] {
        let pid = fs::read_to_string(place.at(name)).unwrap();
        assert!(is_gone(pid.trim()), "{name}");
    }
}

/// A killed process may stay for a moment as one that nobody has reaped.
fn is_gone(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_none_or(|rest| rest.is_empty() || rest.starts_with(" Z"))
}

#[test]
fn what_runs_on_in_the_background_ends_with_its_command() {
    let place = Place::new();
    place.script("tool", "#!/bin/sh\nsleep 1000 &\necho $!\n");
    let finished = place.run(&place.plan("./tool")).unwrap();
    assert_eq!(finished.end, End::Status(DONE));
    assert!(is_gone(String::from_utf8_lossy(&finished.output).trim()));
}

#[test]
fn a_flood_is_cut_and_does_not_block() {
    let place = Place::new();
    let limits = Limits { output_bytes: 1000, ..LIMITS };
    let plan = place.plan("head -c 3000000 /dev/zero");
    let finished = run(&plan, &place.programs(), limits, &mut Unseen).unwrap();
    assert_eq!((finished.output.len(), finished.is_cut), (1000, true));
    assert_eq!(finished.end, End::Status(DONE));
}

/// Ends a run as soon as it has written something.
struct Leaves {
    line: (OwnedFd, OwnedFd),
    seen: Vec<u8>,
}

impl Observer for Leaves {
    fn output(&mut self, bytes: &[u8]) {
        self.seen.extend_from_slice(bytes);
        events::write(self.line.1.as_fd(), b"x").unwrap();
    }

    fn stop(&self) -> Option<BorrowedFd<'_>> {
        Some(self.line.0.as_fd())
    }
}

#[test]
fn whoever_leaves_takes_all_that_was_started_along_however_it_detached() {
    let place = Place::new();
    // A daemon: a session of its own, and its parent is gone.
    place.script("tool", "#!/bin/sh\nsh -c 'setsid sleep 1000 & echo $!'\nsleep 1000\n");
    let mut leaves = Leaves { line: events::pipe().unwrap(), seen: Vec::new() };
    let limits = Limits { errors: Errors::WithOutput, ..LIMITS };
    let finished = run(&place.plan("./tool"), &place.programs(), limits, &mut leaves).unwrap();
    assert_eq!(finished.end, End::Stopped);
    assert!(is_gone(String::from_utf8_lossy(&leaves.seen).trim()));
}

#[test]
fn a_program_that_kills_its_keeper_is_lost_and_so_is_all_that_it_left() {
    let place = Place::new();
    for (name, attack) in [
        ("child", "setsid sleep 1000 &\necho $!\nkill -9 $PPID\nsleep 1000\n"),
        // Its parents are gone before the keeper is.
        ("daemon", "sh -c 'setsid sleep 1000 & echo $!'\nkill -9 $PPID\nsleep 1000\n"),
        ("term", "setsid sleep 1000 &\necho $!\nkill -TERM $PPID\nsleep 1000\n"),
        // One that goes on forking away.
        (
            "fork",
            "setsid sh -c 'for i in 1 2 3 4 5 6 7 8 9; do for k in 1 2 3 4 5 6 7 8 9; do sleep 1 & done; done; wait' &\necho $!\nkill -9 $PPID\n",
        ),
    ] {
        place.script(name, &format!("#!/bin/sh\n{attack}"));
        let finished = place.run(&place.plan(&format!("./{name}; touch canary"))).unwrap();
        assert_eq!(finished.end, End::Lost(Left::Nothing), "{name}");
        assert!(is_gone(String::from_utf8_lossy(&finished.output).trim()), "{name}");
        // What comes next in the chain does not start.
        assert_eq!(finished.started, 1, "{name}");
        assert!(!Path::new(&place.at("canary")).exists(), "{name}");
    }
    // Others at work in this process are not touched, nor what it started in its own session.
    let mut own = Command::new("sleep").arg("1000").spawn().unwrap();
    place.script("slow", "#!/bin/sh\necho on\nread line < wait\n");
    let made = Command::new("mkfifo").arg(place.at("wait")).status().unwrap();
    assert!(made.success());
    std::thread::scope(|scope| {
        let slow = scope.spawn(|| place.run(&place.plan("./slow")).unwrap());
        let finished = place.run(&place.plan("./child")).unwrap();
        assert_eq!(finished.end, End::Lost(Left::Nothing));
        fs::write(place.at("wait"), "go\n").unwrap();
        assert_eq!(slow.join().unwrap().end, End::Status(DONE));
    });
    assert_eq!(own.try_wait().unwrap(), None);
    own.kill().unwrap();
    own.wait().unwrap();
}

#[test]
fn what_nobody_reads_keeps_nobody_waiting() {
    let place = Place::new();
    // Holds its input and does not read it, when its command is over.
    place.script("tool", "#!/bin/sh\nsetsid sleep 1000 <&0 &\nkill -9 $PPID\n");
    let text = format!("./tool <<'E'\n{}\nE", "x".repeat(300_000));
    let finished = place.run(&place.plan(&text)).unwrap();
    assert_eq!(finished.end, End::Lost(Left::Nothing));
    let (end, full) = events::pipe().unwrap();
    output::feed(full, vec![0; 1 << 20]);
    drop(end);
}

#[test]
fn whoever_has_left_already_has_nothing_started() {
    let place = Place::new();
    let mut leaves = Leaves { line: events::pipe().unwrap(), seen: Vec::new() };
    events::write(leaves.line.1.as_fd(), b"x").unwrap();
    let plan = place.plan("touch canary");
    let finished = run(&plan, &place.programs(), LIMITS, &mut leaves).unwrap();
    assert_eq!((finished.end, finished.started), (End::Stopped, 0));
    assert!(!Path::new(&place.at("canary")).exists());
}

#[test]
fn output_and_errors_come_in_the_order_in_which_they_were_written() {
    let place = Place::new();
    place.script("tool", "#!/bin/sh\nfor i in 1 2 3; do echo o$i; echo e$i >&2; done\n");
    let limits = Limits { errors: Errors::WithOutput, ..LIMITS };
    let plan = place.plan("./tool");
    let finished = run(&plan, &place.programs(), limits, &mut Unseen).unwrap();
    assert_eq!(String::from_utf8_lossy(&finished.output), "o1\ne1\no2\ne2\no3\ne3\n");
    assert_eq!((finished.errors.as_slice(), finished.written), (&[][..], 18));
}

#[test]
fn a_program_that_cannot_start_says_so() {
    let place = Place::new();
    fs::write(place.at("tool"), "no program at all").unwrap();
    fs::set_permissions(place.at("tool"), fs::Permissions::from_mode(0o755)).unwrap();
    match place.run(&place.plan("./tool")) {
        Err(RunError::Start { program, cause }) => {
            assert_eq!((program, cause.step), (place.at("tool"), clawpen_os::spawn::Step::Exec));
        }
        other => panic!("{other:?}"),
    }
}
