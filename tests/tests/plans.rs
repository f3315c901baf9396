//! An allowed plan, run without a shell, starts exactly the programs it lists.
//!
//! The programs are scripts that write down how they were started; the wrappers around them are the
//! system's own, so that our reading of their options is checked against theirs. A wrapper may refuse
//! and start nothing; it must never start anything else.
#![forbid(unsafe_code)]
#![expect(clippy::expect_used, reason = "a test without its directory cannot go on")]

use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use clawpen_rules::command::{
    Analysis, ContentHash, Entry, FileFacts, FileIdentity, Pattern, ProgramFiles, Request,
    SafeBins, Step, Trust, Writer, analyse, decide,
};

/// The files that are really there.
struct Disk;

impl ProgramFiles for Disk {
    fn find(&self, path: &str) -> Option<FileFacts> {
        let real = std::fs::canonicalize(path).ok()?;
        let facts = std::fs::metadata(&real).ok()?;
        Some(FileFacts {
            real_path: real.to_str()?.to_owned(),
            identity: FileIdentity { device: facts.dev(), inode: facts.ino() },
            is_regular: facts.is_file(),
            is_executable: facts.permissions().mode() & 0o111 != 0,
            writer: Writer::Nobody,
        })
    }

    fn hash(&self, _: &str) -> Option<ContentHash> {
        Some(ContentHash([0; 32]))
    }
}

/// Wrappers with options: well known, odd and wrong ones.
const WRAPPERS: &[&str] = &[
    "",
    "env",
    "env --",
    "env -",
    "env -i",
    "env A=1",
    "env -S",
    "env --help",
    "nice",
    "nice -n 5",
    "nice -n5",
    "nice -5",
    "nice --adjustment=3",
    "nice --adjustment 3",
    "nice --",
    "nice -n",
    "nice -n x",
    "nice --priority 3",
    "nice -n 1 -n 2",
    "nice -",
    "nice --5",
    "nohup",
    "nohup --",
    "nohup --help",
    "stdbuf -o L",
    "stdbuf -oL",
    "stdbuf --output=L",
    "stdbuf --output L",
    "stdbuf -i 0 -e 0",
    "stdbuf",
    "stdbuf -o=L",
    "timeout 5",
    "timeout 5s",
    "timeout -k 1 5",
    "timeout -s KILL 5",
    "timeout --signal=KILL 5",
    "timeout --signal KILL 5",
    "timeout --preserve-status 5",
    "timeout --foreground 5",
    "timeout -v 5",
    "timeout -k 5",
    "timeout",
    "timeout -- 5",
    "timeout x",
    "timeout -k1 5",
    "timeout --kill-after=1 5",
    "sudo -n",
    "setsid",
];

const ARGUMENTS: &[&str] =
    &["", "a 'b c' \"\"", "-n 5", "-- -x", "'*' $HOME", "\\; '|' \\\\", "second --help"];

#[test]
fn an_allowed_plan_starts_the_programs_it_lists() {
    let directory = tempfile::tempdir().expect("a directory");
    let home = directory.path().canonicalize().expect("it is there");
    let home = home.to_str().expect("its name is text");
    for name in ["first", "second"] {
        write_program(&Path::new(home).join(name), &format!("{home}/log"));
    }
    let (mut allowed, mut started) = (0, 0);
    for outer in WRAPPERS {
        for inner in ["", "nice", "env timeout 5"] {
            for arguments in ARGUMENTS {
                let text = format!("{outer} {inner} first {arguments} | second x");
                let found = check(text.trim(), home);
                allowed += usize::from(found.is_some());
                started += found.unwrap_or(0);
            }
        }
    }
    assert!(allowed > 200 && started > 400, "{allowed} plans allowed, {started} programs started");
}

/// The same with real programs, all of them on the list, under a tracer that sees every start; a soak
/// goes on for an hour.
#[test]
fn made_up_commands_start_nothing_that_their_plans_do_not_list() {
    let run = Command::new(env!("CARGO_BIN_EXE_run_plans")).args(["8", "7"]).output();
    let run = run.expect("the program starts");
    let said = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{said}{}", String::from_utf8_lossy(&run.stderr));
    assert!(said.contains("programs started, none other"), "{said}");
}

/// A script that writes down its name and its words.
fn write_program(path: &Path, log: &str) {
    let text = format!(
        "#!/bin/sh\nfor word in \"${{0##*/}}\" \"$@\"; do printf '%s\\n' \"$word\"; done >> '{log}.$$'\n"
    );
    std::fs::write(path, text).expect("a program can be written");
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(path, mode).expect("it can be made executable");
}

/// Runs a text's plan if it is allowed; gives the number of programs that were started.
fn check(text: &str, home: &str) -> Option<usize> {
    let path = format!("{home}:/usr/bin:/bin");
    let environment = BTreeMap::from([("PATH".to_owned(), path)]);
    let request = Request { text, cwd: home, home: None, environment: &environment };
    let analysis = analyse(&request, &Disk).ok()?;
    let pattern = Pattern::compile(&format!("{home}/*"), None);
    let entries = [Entry { pattern, binding: None, pin: None }];
    let safe_bins = SafeBins::default();
    let trust = Trust { entries: &entries, safe_bins: &safe_bins, skills: &[] };
    decide(&analysis, &trust, &Disk).is_satisfied().then_some(())?;
    let plan = analysis.freeze(&Disk).expect("what is allowed can be frozen");
    let mut count = 0;
    for (step, words) in plan.steps().iter().zip(words_that_run(&analysis)) {
        run(step, home, plan.environment());
        let started = logs(home);
        assert!(
            started.is_empty() || started == [words.clone()],
            "{text:?}: {started:?} instead of {words:?}"
        );
        count += started.len();
    }
    Some(count)
}

/// The words of the programs behind the wrappers, as the plan lists them.
fn words_that_run(analysis: &Analysis) -> Vec<Vec<String>> {
    let plan = analysis.freeze(&Disk).expect("it was frozen a moment ago");
    let words = |step: &Step| {
        let file = step.others.last().unwrap_or(&step.file);
        let is_program = |word: &&String| **word == file.real_path;
        let start = step.argv.iter().rposition(|word| is_program(&word)).unwrap_or(0);
        let name = file.path.rsplit('/').next().unwrap_or_default().to_owned();
        std::iter::once(name).chain(step.argv[start + 1..].iter().cloned()).collect()
    };
    plan.steps().iter().map(words).collect()
}

/// Starts one step as it stands: this file, these words, this environment, no shell.
fn run(step: &Step, home: &str, environment: &BTreeMap<String, String>) {
    let mut command = Command::new(&step.file.real_path);
    command.arg0(&step.argv[0]).args(&step.argv[1..]).env_clear().envs(environment);
    command.current_dir(home).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().expect("a pinned file starts");
}

/// What the programs wrote down since the last look.
fn logs(home: &str) -> Vec<Vec<String>> {
    let entries = std::fs::read_dir(home).expect("the directory is there");
    let names = entries.map(|entry| entry.expect("it can be listed").path());
    let logs = names.filter(|path| path.to_str().is_some_and(|path| path.contains("/log.")));
    let read = |path: std::path::PathBuf| {
        let text = std::fs::read_to_string(&path).expect("it can be read");
        std::fs::remove_file(path).expect("it can be removed");
        text.strip_suffix('\n').unwrap_or(&text).split('\n').map(str::to_owned).collect()
    };
    logs.map(read).collect()
}
