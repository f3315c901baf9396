//! What a killed `clawpen` leaves behind is gone after the next start; what lives stays.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use clawpen_tests::home::Home;

fn home(prefix: &str) -> Home {
    Home::with_config(&format!(
        "{{agents: {{defaults: {{sandbox: {{backend: 'native', scope: 'session', \
         docker: {{containerPrefix: '{prefix}', memory: '64m', pidsLimit: 50}}}}}}}}}}"
    ))
}

/// A pen in which something runs until somebody ends it.
fn running(home: &Home, session: &str) -> (Child, BufReader<ChildStdout>) {
    let args =
        ["exec", "--fresh", "--session", session, "--", "sh", "-c", "echo up; exec sleep 600"];
    let mut child = home.command(&args).stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "up\n");
    (child, output)
}

/// What the pens of this home are called: their own directories.
fn pens(home: &Home) -> Vec<String> {
    let entries = fs::read_dir(home.path(".openclaw/clawpen/run")).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Every control group of these pens.
fn groups(pens: &[String]) -> Vec<PathBuf> {
    fn walk(directory: &Path, pens: &[String], found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                let name = entry.file_name().to_string_lossy().into_owned();
                if pens.iter().any(|pen| name == format!("clawpen-{pen}")) {
                    found.push(entry.path());
                }
                walk(&entry.path(), pens, found);
            }
        }
    }
    let mut found = Vec::new();
    walk(Path::new("/sys/fs/cgroup"), pens, &mut found);
    found.sort();
    found
}

fn is_empty(group: &Path) -> bool {
    fs::read_to_string(group.join("cgroup.procs")).is_ok_and(|list| list.is_empty())
}

#[test]
fn the_next_call_takes_away_the_groups_of_the_killed_and_no_others() {
    let home = home("left-");
    let (mut killed, _output) = running(&home, "agent:main:killed");
    let left = groups(&pens(&home));
    assert!(left.len() >= 2, "{left:?}");
    let (mut lives, _other_output) = running(&home, "agent:main:lives");
    let both = pens(&home);
    let living: Vec<PathBuf> =
        groups(&both).into_iter().filter(|group| !left.contains(group)).collect();
    assert_eq!(living.len(), left.len());

    killed.kill().unwrap();
    killed.wait().unwrap();
    // The pen notices that nobody is connected any more, and ends by itself.
    let deadline = Instant::now() + Duration::from_secs(20);
    while !left.iter().all(|group| is_empty(group)) {
        assert!(Instant::now() < deadline, "the pen outlived its maker");
        std::thread::yield_now();
    }
    assert_eq!(groups(&both).len(), left.len() + living.len());

    let next = home.run(&["sandbox", "prune"]);
    assert_eq!(next.code, Some(0), "{}", next.stderr);
    assert_eq!(groups(&both), living);
    assert!(lives.try_wait().unwrap().is_none());
    lives.kill().unwrap();
    lives.wait().unwrap();
    while !living.iter().all(|group| is_empty(group)) {
        assert!(Instant::now() < deadline, "the pen outlived its maker");
        std::thread::yield_now();
    }
    let last = home.run(&["sandbox", "prune"]);
    assert_eq!(last.code, Some(0), "{}", last.stderr);
    assert_eq!(groups(&both), Vec::<PathBuf>::new());
    assert_eq!(pens(&home), Vec::<String>::new());
}

#[test]
fn a_pen_that_ends_as_it_should_leaves_nothing() {
    let home = home("ends-");
    assert_eq!(home.run(&["exec", "--fresh", "--", "true"]).code, Some(0));
    assert_eq!(home.run(&["exec", "--fresh", "--", "sh", "-c", "kill -9 $$"]).code, Some(137));
    assert_eq!(pens(&home), Vec::<String>::new());
}
