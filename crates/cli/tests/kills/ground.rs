//! A state directory under fire, and the checker: processes, mounts, control groups, sockets, files and
//! rows, compared with what the registry says.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// How long the kernel may take to end what was killed.
const PATIENCE: Duration = Duration::from_secs(20);
/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(5);

pub(crate) struct Ground {
    directory: tempfile::TempDir,
    /// In the environment of every process that is started from here.
    tag: String,
    /// Every run directory that was ever seen: no control group of it may stay.
    seen: RefCell<BTreeSet<String>>,
    pub(crate) docker_host: Option<String>,
}

/// A stopped command.
pub(crate) struct Stopped(Child);

impl Ground {
    /// A native state directory with these settings of `sandbox`.
    pub(crate) fn new(sandbox: &str) -> Self {
        Self::on("native", sandbox)
    }

    pub(crate) fn on(backend: &str, sandbox: &str) -> Self {
        let directory = tempfile::Builder::new().prefix("pen").tempdir().unwrap();
        let config =
            format!("{{agents: {{defaults: {{sandbox: {{backend: '{backend}', {sandbox}}}}}}}}}");
        fs::write(directory.path().join("openclaw.json"), config).unwrap();
        let name = directory.path().file_name().unwrap().to_string_lossy().into_owned();
        let tag = format!("tag:{name}");
        Self { directory, tag, seen: RefCell::default(), docker_host: None }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The binary with a fault, or none.
    pub(crate) fn command(&self, fault: &str, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_clawpen"));
        command.args(args).env_clear().env("PATH", "/usr/bin:/bin");
        command.env("HOME", self.directory.path()).env("OPENCLAW_STATE_DIR", self.directory.path());
        command.env("CLAWPEN_FAULT", format!("{},{fault}", self.tag));
        if let Some(host) = &self.docker_host {
            command.env("DOCKER_HOST", host);
        }
        command.current_dir(self.directory.path()).stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, fault: &str, args: &[&str]) -> Output {
        self.command(fault, args).output().unwrap()
    }

    /// Kills a command after so long; it may have ended by then.
    pub(crate) fn kill_after(&self, micros: usize, args: &[&str]) {
        let mut command = self.command("", args);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_micros(micros.try_into().unwrap()));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Starts a command and waits until it stops at a moment.
    pub(crate) fn stop_at(&self, point: &str, args: &[&str]) -> Stopped {
        let mut command = self.command(&format!("stop:{point}"), args);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        eventually(&format!("the stop at {point}"), || {
            let state = state(child.id());
            assert_ne!(state, Some('Z'), "it ended before {point}");
            (state == Some('T')).then_some(())
        });
        Stopped(child)
    }

    /// The rows, after the listing has put right what it can.
    pub(crate) fn rows(&self) -> Vec<Value> {
        let output = self.run("", &["sandbox", "list", "--json"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{said}");
        let listed: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(listed["clawpen"]["problems"], Value::Array(Vec::new()), "{listed}");
        listed["containers"].as_array().cloned().unwrap()
    }

    /// What is there is what the rows say, and nothing else is.
    pub(crate) fn check(&self, when: &str) {
        self.note_runs();
        let rows = self.rows();
        for row in &rows {
            assert_eq!(row["running"], Value::Bool(true), "{when}: {row}");
            assert_eq!(row["clawpen"]["callsInFlight"], 0, "{when}: {row}");
        }
        let native = rows.iter().filter(|row| row["backendId"] == "native").count();
        eventually(&format!("{when}: {native} pens"), || {
            (self.pens().len() == native).then_some(())
        });
        let runs = self.note_runs();
        assert_eq!(runs.len(), native, "{when}: run directories {runs:?}");
        for id in self.seen.borrow().iter().filter(|id| !runs.contains(*id)) {
            let left = groups(&format!("clawpen-{id}"));
            assert_eq!(left, Vec::<PathBuf>::new(), "{when}");
        }
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        assert!(!mounts.contains(self.directory.path().to_str().unwrap()), "{when}: {mounts}");
        assert_eq!(half_written(&self.path("clawpen")), Vec::<PathBuf>::new(), "{when}");
    }

    /// A call works, and the record of all calls is whole.
    pub(crate) fn works(&self, when: &str) {
        let output = self.run("", &["exec", "--", "echo", "alive"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.stdout, b"alive\n", "{when}: {said}");
        let verified = self.run("", &["audit", "--verify"]);
        assert_eq!(verified.status.code(), Some(0), "{when}");
        self.note_runs();
    }

    /// Everything is removed, and nothing stays.
    pub(crate) fn clear(&self, when: &str) {
        let output = self.run("", &["sandbox", "remove", "--all", "--force"]);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(0), "{when}: {said}");
        self.check(when);
        assert_eq!(self.rows().len(), 0, "{when}");
        let locks = fs::read_dir(self.path("clawpen/locks")).into_iter().flatten().count();
        assert_eq!(locks, 0, "{when}: locks");
    }

    /// Kills the first process of every pen.
    pub(crate) fn kill_pens(&self) {
        let pens = self.pens();
        assert!(!pens.is_empty(), "there is no pen to kill");
        for pid in &pens {
            signal("KILL", *pid);
        }
        // A process on its way out has given up its memory long before it is gone.
        eventually("the end of the pens", || pens.iter().all(|pid| has_ended(*pid)).then_some(()));
    }

    /// First processes of pens that were started from here.
    fn pens(&self) -> Vec<u32> {
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
            let read = |file: &str| fs::read(entry.path().join(file)).unwrap_or_default();
            let is_ours = contains(&read("environ"), self.tag.as_bytes());
            if is_ours && read("cmdline").starts_with(b"clawpen-supervisor") {
                let status = String::from_utf8_lossy(&read("status")).into_owned();
                let inside = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
                if inside.and_then(|ids| ids.split_whitespace().last()) == Some("1") {
                    found.push(pid);
                }
            }
        }
        found
    }

    fn note_runs(&self) -> BTreeSet<String> {
        let entries = fs::read_dir(self.path("clawpen/run")).into_iter().flatten().flatten();
        let now: BTreeSet<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        self.seen.borrow_mut().extend(now.iter().cloned());
        now
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        // What a failed test left running must not stay.
        drop(self.run("", &["sandbox", "remove", "--all", "--force"]));
        for pid in self.pens() {
            signal("KILL", pid);
        }
    }
}

impl Stopped {
    pub(crate) fn go_on(self) -> Output {
        signal("CONT", self.0.id());
        self.0.wait_with_output().unwrap()
    }
}

pub(crate) fn signal(name: &str, pid: u32) {
    let sent = Command::new("sh").args(["-c", &format!("kill -{name} {pid}")]).status().unwrap();
    assert!(sent.success() || !Path::new(&format!("/proc/{pid}")).exists(), "{name} to {pid}");
}

fn state(pid: u32) -> Option<char> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    text.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next())
}

fn has_ended(pid: u32) -> bool {
    matches!(state(pid), None | Some('Z' | 'X'))
}

/// Waits until `look` gives something.
#[track_caller]
pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what} did not come");
        std::thread::sleep(LOOK_EVERY);
    }
}

pub(crate) fn wait_for_line(stream: impl Read, line: &str) {
    let mut read = String::new();
    BufReader::new(stream).read_line(&mut read).unwrap();
    assert_eq!(read.trim_end(), line);
}

/// Control groups of a name, wherever they are.
fn groups(name: &str) -> Vec<PathBuf> {
    let mut open = vec![PathBuf::from("/sys/fs/cgroup")];
    let mut found = Vec::new();
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            if entry.file_name().to_string_lossy() == name {
                found.push(entry.path());
            } else {
                open.push(entry.path());
            }
        }
    }
    found
}

/// Files that were being written when their writer died.
fn half_written(directory: &Path) -> Vec<PathBuf> {
    let mut open = vec![directory.to_owned()];
    let mut found = Vec::new();
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_directory {
                open.push(entry.path());
            } else if entry.file_name().to_string_lossy().contains("about.new") {
                found.push(entry.path());
            }
        }
    }
    found
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

/// Numbers from a seed, so that a round that failed can be had again with `CLAWPEN_KILL_SEED`.
pub(crate) struct Chance {
    pub(crate) seed: u64,
    state: u64,
}

impl Chance {
    pub(crate) fn new() -> Self {
        let given = std::env::var("CLAWPEN_KILL_SEED").ok().and_then(|text| text.parse().ok());
        let seed = given.unwrap_or_else(|| u64::from(std::process::id()));
        Self { seed, state: seed }
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        // A plain step of a congruential generator; the high bits are the good ones.
        self.state = self
            .state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.state >> 33).unwrap() % end
    }
}
