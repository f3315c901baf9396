//! Every mechanism of `tests/attacks`, inside the pen and, as control, outside any pen.
//!
//! Inside it must be stopped. Outside the very same code must work, or the mechanism proves nothing
//! here and does not count. Run as root on the native backend and again as an ordinary user.
#![forbid(unsafe_code)]
#![expect(clippy::expect_used, reason = "a test without its set-up cannot go on")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use clawpen_tests::canaries::Canaries;
use clawpen_tests::home::Home;

/// How an attempt went, by the attack's own word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Went {
    Escaped,
    Blocked,
    CannotTry,
    /// Killed, or it could not even start.
    Died,
}

fn attacks() -> PathBuf {
    clawpen_tests::built("clawpen-attacks").expect("the attacks are built")
}

fn names() -> Vec<(String, String)> {
    let list = Command::new(attacks()).arg("list").output().expect("the list");
    String::from_utf8(list.stdout)
        .expect("UTF-8")
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .map(|(name, about)| (name.to_owned(), about.to_owned()))
        .collect()
}

fn went(code: Option<i32>) -> Went {
    match code {
        Some(0) => Went::Escaped,
        Some(10) => Went::Blocked,
        Some(20) => Went::CannotTry,
        _ => Went::Died,
    }
}

/// Outside any pen, as root, in throw-away mount, process and host name namespaces: what an attack
/// changes there goes with them.
fn control(name: &str, canaries: &Canaries) -> (Went, String) {
    let script =
        "sleep 3600 & CANARY_PID=$! \"$0\" \"$1\"; code=$?; kill $! 2>/dev/null; exit $code";
    let mut command = Command::new("unshare");
    command.args([
        "--mount",
        "--propagation",
        "private",
        "--pid",
        "--fork",
        "--mount-proc",
        "--uts",
    ]);
    command.args(["timeout", "20", "sh", "-c", script]).arg(attacks()).arg(name);
    command.env("CONTROL", "1").env("ATTACK_DIRECTORY", "/var/tmp");
    command.envs(canaries.variables().iter().map(|(name, value)| (name, value)));
    let run = command.output().expect("unshare");
    canaries.tidy();
    (went(run.status.code()), String::from_utf8_lossy(&run.stdout).trim().to_owned())
}

/// Inside a pen of the native backend.
fn inside(home: &Home, name: &str, canaries: &Canaries, user: Option<u32>) -> (Went, String) {
    let mut args = vec!["exec".to_owned(), "--timeout".to_owned(), "20".to_owned()];
    for (name, value) in canaries.variables() {
        args.extend(["--env".to_owned(), format!("{name}={value}")]);
    }
    args.extend(["--env".to_owned(), "ATTACK_DIRECTORY=/workspace".to_owned()]);
    args.extend(["--", "/workspace/attack", name].map(str::to_owned));
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let mut command = home.command(&args);
    if let Some(user) = user {
        use std::os::unix::process::CommandExt as _;
        command.uid(user).gid(user);
    }
    let run = command.output().expect("the binary");
    let text =
        String::from_utf8_lossy(if run.stdout.is_empty() { &run.stderr } else { &run.stdout });
    (went(run.status.code()), text.trim().to_owned())
}

/// A home whose pen has the attacks in its workspace.
fn home_with_attacks(home: &Home) {
    let first = home.run(&["exec", "--", "/bin/true"]);
    assert_eq!(first.code, Some(0), "{}", first.stderr);
    let directory = home.path(".openclaw/sandboxes");
    let workspace =
        std::fs::read_dir(&directory).expect("sandboxes").flatten().next().expect("a workspace");
    std::fs::copy(attacks(), workspace.path().join("attack")).expect("copy");
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata(Path::new("/proc/self")).expect("proc").uid() == 0
}

#[test]
fn nothing_leaves_a_native_pen() {
    assert!(is_root(), "the controls need root: run the tests as root, as CI does");
    let canaries = Canaries::new().expect("canaries");
    let home = Home::new();
    home_with_attacks(&home);
    let mut failures = Vec::new();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    println!("{:22} {:10} {:10} what it tries", "mechanism", "outside", "pen");
    for (name, about) in names() {
        let (outside, _) = control(&name, &canaries);
        let (pen, said) = inside(&home, &name, &canaries, None);
        println!("{name:22} {:10} {:10} {about}", format!("{outside:?}"), format!("{pen:?}"));
        if pen == Went::Escaped {
            failures.push(format!("{name}: {said}"));
        }
        if pen == Went::Died && !said.is_empty() && said.starts_with("error") {
            failures.push(format!("{name} could not be tried: {said}"));
        }
        let key = if outside == Went::Escaped { "proved" } else { "without a control here" };
        *counts.entry(key).or_default() += 1;
    }
    println!("{counts:?}");
    assert_eq!(canaries.damage(), Vec::<String>::new());
    assert_eq!(failures, Vec::<String>::new());
    assert!(counts.get("proved").copied().unwrap_or(0) >= 80, "{counts:?}");
}
