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
    let args = ["exec", "--session", session, "--", "sh", "-c", "echo up; exec sleep 600"];
    let mut child = home.command(&args).stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "up\n");
    (child, output)
}

/// Every control group whose name has this in it.
fn groups(part: &str) -> Vec<PathBuf> {
    fn walk(directory: &Path, part: &str, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if entry.file_name().to_string_lossy().contains(part) {
                    found.push(entry.path());
                }
                walk(&entry.path(), part, found);
            }
        }
    }
    let mut found = Vec::new();
    walk(Path::new("/sys/fs/cgroup"), part, &mut found);
    found.sort();
    found
}

fn is_empty(group: &Path) -> bool {
    fs::read_to_string(group.join("cgroup.procs")).is_ok_and(|list| list.is_empty())
}

#[test]
fn the_next_start_takes_away_the_groups_of_the_killed_and_no_others() {
    let prefix = format!("left{}-", std::process::id());
    let home = home(&prefix);
    let (mut killed, _output) = running(&home, "agent:main:killed");
    let left = groups(&prefix);
    assert!(left.len() >= 2, "{left:?}");
    let (mut lives, _other_output) = running(&home, "agent:main:lives");
    let both = groups(&prefix);
    let living: Vec<PathBuf> = both.into_iter().filter(|group| !left.contains(group)).collect();
    assert_eq!(living.len(), left.len());

    killed.kill().unwrap();
    killed.wait().unwrap();
    // The pen notices that nobody is connected any more, and ends by itself.
    let deadline = Instant::now() + Duration::from_secs(20);
    while !left.iter().all(|group| is_empty(group)) {
        assert!(Instant::now() < deadline, "the pen outlived its maker");
        std::thread::yield_now();
    }
    assert_eq!(groups(&prefix).len(), left.len() + living.len());

    let next = home.run(&["exec", "--session", "agent:main:next", "--", "true"]);
    assert_eq!(next.code, Some(0), "{}", next.stderr);
    assert_eq!(groups(&prefix), living);
    assert!(lives.try_wait().unwrap().is_none());
    lives.kill().unwrap();
    lives.wait().unwrap();
    while !living.iter().all(|group| is_empty(group)) {
        assert!(Instant::now() < deadline, "the pen outlived its maker");
        std::thread::yield_now();
    }
    let last = home.run(&["exec", "--session", "agent:main:last", "--", "true"]);
    assert_eq!(last.code, Some(0), "{}", last.stderr);
    assert_eq!(groups(&prefix), Vec::<PathBuf>::new());
}

#[test]
fn a_pen_that_ends_as_it_should_leaves_nothing() {
    let prefix = format!("ends{}-", std::process::id());
    let home = home(&prefix);
    assert_eq!(home.run(&["exec", "--", "true"]).code, Some(0));
    assert_eq!(home.run(&["exec", "--", "sh", "-c", "kill -9 $$"]).code, Some(137));
    assert_eq!(groups(&prefix), Vec::<PathBuf>::new());
    assert_eq!(fs::read_dir(home.path(".openclaw/clawpen/run")).unwrap().count(), 0);
}
