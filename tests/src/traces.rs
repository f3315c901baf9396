//! What sandboxes leave on a machine: processes, mounts, control groups, sockets, files.
//!
//! Told of every sandbox while it lives, it says afterwards what of them is still there. It looks only at
//! what bears a mark of theirs, so that other tests may run meanwhile.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long the kernel may take to end what was killed.
const PATIENCE: Duration = Duration::from_secs(20);
/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Where every sandbox has something of its own while it lives.
const PLACES: [&str; 4] = ["run", "locks", "docker/run", "docker/live"];

/// Marks of the sandboxes of one state directory.
#[derive(Debug)]
pub struct Traces {
    state: PathBuf,
    /// Number and start: numbers are used again.
    processes: BTreeSet<(u32, u64)>,
    marks: BTreeSet<String>,
}

impl Traces {
    pub fn of(state: &Path) -> Self {
        let marks = BTreeSet::from([state.to_string_lossy().into_owned()]);
        Self { state: state.to_owned(), processes: BTreeSet::new(), marks }
    }

    /// Notes a process and all below it.
    pub fn note(&mut self, first: u32) {
        let mut open = vec![first];
        while let Some(pid) = open.pop() {
            self.processes.extend(start_of(pid).map(|start| (pid, start)));
            let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
            let children = children.unwrap_or_default();
            open.extend(children.split(' ').filter_map(|pid| pid.parse::<u32>().ok()));
        }
    }

    /// Notes a name that control groups and mounts of a sandbox bear.
    pub fn mark(&mut self, name: &str) {
        self.marks.insert(name.to_owned());
    }

    /// How many processes were noted.
    pub fn processes(&self) -> usize {
        self.processes.len()
    }

    /// What is still there, after the kernel had time to end it.
    pub fn left(&self) -> Vec<String> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = self.look();
            if left.is_empty() || Instant::now() >= deadline {
                return left;
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    fn look(&self) -> Vec<String> {
        let mut left = Vec::new();
        let is_there = |(pid, start): &&(u32, u64)| start_of(*pid) == Some(*start);
        let there = self.processes.iter().filter(is_there);
        left.extend(there.map(|(pid, _)| format!("process {pid}")));
        for (kind, file) in [("mount", "/proc/self/mountinfo"), ("socket", "/proc/net/unix")] {
            let lines = fs::read_to_string(file).unwrap_or_default();
            let ours = lines.lines().filter(|line| self.is_ours(line));
            left.extend(ours.map(|line| format!("{kind} {line}")));
        }
        self.groups(Path::new("/sys/fs/cgroup"), &mut left);
        for place in PLACES {
            let place = self.state.join("clawpen").join(place);
            let entries = fs::read_dir(place).into_iter().flatten().flatten();
            left.extend(entries.map(|entry| format!("file {}", entry.path().display())));
        }
        left
    }

    fn is_ours(&self, text: &str) -> bool {
        self.marks.iter().any(|mark| text.contains(mark.as_str()))
    }

    fn groups(&self, below: &Path, left: &mut Vec<String>) {
        for entry in fs::read_dir(below).into_iter().flatten().flatten() {
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            if self.is_ours(&entry.file_name().to_string_lossy()) {
                left.push(format!("control group {}", entry.path().display()));
            } else {
                self.groups(&entry.path(), left);
            }
        }
    }
}

/// When a process started; `None` if there is none, or only its remains.
fn start_of(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = text.rsplit_once(") ")?;
    let mut fields = fields.split(' ');
    let is_dead = matches!(fields.next()?, "Z" | "X");
    let start = fields.nth(18)?.parse().ok()?;
    (!is_dead).then_some(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lives_is_left_and_what_ended_is_not() {
        let state = tempfile::tempdir().unwrap();
        let mut traces = Traces::of(state.path());
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        traces.note(child.id());
        assert_eq!(traces.look(), [format!("process {}", child.id())]);
        child.kill().unwrap();
        child.wait().unwrap();
        fs::create_dir_all(state.path().join("clawpen/run/x")).unwrap();
        assert_eq!(traces.look().len(), 1);
        fs::remove_dir(state.path().join("clawpen/run/x")).unwrap();
        assert_eq!(traces.left(), Vec::<String>::new());
    }
}
