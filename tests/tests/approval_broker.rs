//! A command that must be asked about, from its text to its end: asked by one process, answered by
//! another through the real binary, run by the first.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a test whose ground cannot be laid cannot go on")]

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use clawpen_os::process::{Pid, Signal, kill};
use clawpen_os::pty::{self, Size};
use clawpen_tests::home::Home;
use serde_json::{Value, json};

/// Nothing here takes so long; a test that waits for ever tells nothing.
const PATIENCE: Duration = Duration::from_secs(60);
const SMALL: Size = Size { rows: 24, columns: 80 };

/// A process that asks, and waits for the answer.
struct Asking {
    child: Child,
    lines: BufReader<ChildStdout>,
    id: String,
}

fn ask_for(home: &Home, text: &str, seconds: &str) -> Asking {
    let mut command = Command::new(env!("CARGO_BIN_EXE_approval_asker"));
    let cwd = home.path("");
    command.args([cwd.to_str().unwrap(), seconds, text]);
    command.env_clear().env("HOME", &cwd).env("PATH", "/usr/bin:/bin");
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut first = String::new();
    lines.read_line(&mut first).unwrap();
    let id = first.trim().strip_prefix("ASKED ").unwrap_or_else(|| panic!("{first}")).to_owned();
    Asking { child, lines, id }
}

fn ask(home: &Home, text: &str) -> Asking {
    ask_for(home, text, "60")
}

impl Asking {
    /// What it came to.
    fn end(mut self) -> String {
        let mut rest = String::new();
        self.lines.read_to_string(&mut rest).unwrap();
        self.child.wait().unwrap();
        rest.trim().to_owned()
    }

    fn gone(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

#[track_caller]
fn resolve(home: &Home, id: &str, word: &str, code: i32) -> Value {
    let run = home.run(&["approvals", "resolve", id, word, "--json"]);
    assert_eq!(run.code, Some(code), "{}{}", run.stdout, run.stderr);
    run.json()
}

fn pending(home: &Home) -> Vec<Value> {
    let run = home.run(&["approvals", "list", "--json"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    run.json()["approvals"].as_array().unwrap().clone()
}

#[test]
fn before_anything_was_asked_there_is_nothing_and_a_question_makes_nothing() {
    let home = Home::new();
    let run = home.run(&["approvals", "list"]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), ""));
    assert_eq!(run.stderr, "nothing waits for an answer\n");
    let run = home.run(&["approvals", "resolve", "abc", "deny"]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(1), ""));
    assert!(run.stderr.contains("no approval is called `abc`"), "{}", run.stderr);
    let run = home.run(&["approvals", "resolve", "abc", "yes"]);
    assert!(run.stderr.contains("allow-once, allow-always, deny"), "{}", run.stderr);
    assert!(!home.path(".openclaw/clawpen").exists());
}

#[test]
fn what_a_person_allows_runs_once_and_the_list_shows_the_whole_plan() {
    let home = Home::new();
    let asking = ask(&home, "touch canary");
    let shown = pending(&home);
    assert_eq!(shown.len(), 1);
    let approval = &shown[0];
    assert_eq!(approval["id"], json!(asking.id));
    assert_eq!(approval["request"]["command"], json!("touch canary"));
    assert_eq!(approval["plan"]["steps"][0]["argv"], json!(["touch", "canary"]));
    assert!(approval["plan"]["steps"][0]["file"]["sha256"].as_str().unwrap().len() == 64);
    assert_eq!((&approval["door"], &approval["asker"]), (&json!("mcp"), &json!("running")));
    let text = home.run(&["approvals", "list"]).stdout;
    for part in ["touch canary", "file: /usr/bin/touch", "why: ", "variables: ", &asking.id] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    assert!(!home.path("canary").exists());
    let id = asking.id.clone();
    let done = resolve(&home, &id[..8], "allow-once", 0);
    assert_eq!((&done["ok"], &done["reason"]), (&json!(true), &json!(null)));
    let end = asking.end();
    assert!(end.starts_with("FINISHED Status(Code(0))"), "{end}");
    assert!(home.path("canary").exists());
    // A second answer changes nothing and says so.
    let late = resolve(&home, &id, "deny", 3);
    assert_eq!(late["ok"], json!(false));
    assert!(late["reason"].as_str().unwrap().contains("answered before"), "{late}");
    assert_eq!(pending(&home), [] as [Value; 0]);
    let all = home.run(&["approvals", "list", "--all", "--json"]).json();
    assert_eq!(all["approvals"][0]["state"], json!("ended"));
    assert_eq!(home.run(&["audit", "--verify"]).code, Some(0));
}

#[test]
fn what_a_person_denies_or_nobody_answers_does_not_run() {
    let home = Home::new();
    let asking = ask(&home, "touch canary");
    resolve(&home, &asking.id, "deny", 0);
    assert_eq!(asking.end(), "NOTRUN it is not allowed: user-denied");
    let silent = ask_for(&home, "touch canary", "0.2");
    let id = silent.id.clone();
    assert_eq!(silent.end(), "NOTRUN it is not allowed: approval-timeout");
    let late = resolve(&home, &id, "allow-once", 3);
    assert!(late["reason"].as_str().unwrap().contains("the time was over"), "{late}");
    assert!(!home.path("canary").exists());
}

#[test]
fn always_is_asked_once() {
    let home = Home::new();
    let asking = ask(&home, "touch canary");
    let done = resolve(&home, &asking.id, "allow-always", 0);
    let pattern = done["remembered"][0].as_str().unwrap().to_owned();
    assert!(pattern.starts_with("allow-always:"), "{done}");
    assert!(asking.end().starts_with("FINISHED"));
    let check = home.run(&["approvals", "get", "--json"]).json();
    assert_eq!(check["file"]["agents"]["main"]["allowlist"][0]["pattern"], json!(pattern));
    let cwd = home.path("").to_str().unwrap().to_owned();
    let why = home.run(&["why", "command", "touch canary", "--cwd", &cwd]);
    assert_eq!(why.code, Some(0), "{}", why.stdout);
    assert_eq!(home.run(&["why", "command", "touch other", "--cwd", &cwd]).code, Some(4));
}

#[test]
fn b21_a_program_that_is_swapped_while_a_person_thinks_does_not_run() {
    let home = Home::new();
    let tool = home.path("tool");
    let write = |text: &str| {
        std::fs::write(&tool, text).unwrap();
        std::fs::set_permissions(&tool, std::fs::Permissions::from_mode(0o755)).unwrap();
    };
    write("#!/bin/sh\ntouch good\n");
    let asking = ask(&home, "./tool");
    write("#!/bin/sh\ntouch canary\n");
    resolve(&home, &asking.id, "allow-once", 0);
    let end = asking.end();
    assert!(end.starts_with("NOTRUN the plan is not run: the content of"), "{end}");
    assert!(!home.path("canary").exists() && !home.path("good").exists());
}

#[test]
fn a_policy_that_got_stricter_while_a_person_thought_counts() {
    let home = Home::new();
    let asking = ask(&home, "touch canary");
    let file = json!({"version": 1, "agents": {"main": {"security": "deny"}}}).to_string();
    let path = home.path(".openclaw/exec-approvals.json");
    std::fs::write(&path, file).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    // The asker reads the approvals file anew.
    resolve(&home, &asking.id, "allow-once", 0);
    let end = asking.end();
    assert!(end.starts_with("REFUSED the policy changed while it was asked"), "{end}");
    assert!(!home.path("canary").exists());
}

#[test]
fn b23_a_command_that_was_allowed_cannot_answer_for_the_next() {
    let home = Home::new();
    let victim = ask(&home, "touch canary");
    let clawpen = home.command(&[]).get_program().to_str().unwrap().to_owned();
    // A script, so that the binary itself is not hashed on the way.
    let script = home.path("attack");
    let text = format!("#!/bin/sh\nexec '{clawpen}' approvals resolve {} allow-once\n", victim.id);
    std::fs::write(&script, text).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let attacker = ask(&home, "./attack");
    resolve(&home, &attacker.id, "allow-once", 0);
    let end = attacker.end();
    assert!(end.starts_with("FINISHED Status(Code(3))") && end.contains("not accepted"), "{end}");
    assert_eq!(pending(&home).len(), 1);
    victim.gone();
    assert!(!home.path("canary").exists());
}

#[test]
fn an_asker_that_was_killed_leaves_a_question_that_says_so() {
    let home = Home::new();
    let asking = ask(&home, "touch canary");
    let id = asking.id.clone();
    asking.gone();
    assert_eq!(pending(&home)[0]["asker"], json!("gone"));
    let done = resolve(&home, &id, "allow-once", 0);
    assert!(done["reason"].as_str().unwrap().contains("whoever asked is gone"), "{done}");
    assert!(!home.path("canary").exists());
}

#[test]
fn b24_a_command_that_hides_something_is_shown_spelled_out() {
    let home = Home::new();
    let asking = ask(&home, "touch 'a\u{202e}b\u{1b}[2Jc\u{200b}'");
    let run = home.run(&["approvals", "list"]);
    assert!(run.stdout.contains("touch 'a\\u{202E}b\\u{1B}[2Jc\\u{200B}'"), "{}", run.stdout);
    let is_seen = |c: char| c == '\n' || !(c.is_control() || "\u{202e}\u{200b}".contains(c));
    assert!(run.stdout.chars().all(is_seen), "{:?}", run.stdout);
    let raw = home.run(&["approvals", "list", "--json"]).stdout;
    assert!(raw.chars().all(is_seen), "{raw:?}");
    asking.gone();
}

#[test]
fn without_a_terminal_watch_prints_a_line_for_each_thing_that_happens() {
    for (flags, asked, settled) in [
        (
            &["approvals", "watch", "--json"][..],
            "exec.approval.requested",
            "exec.approval.resolved",
        ),
        (&["approvals", "watch"], "asked ", "settled "),
    ] {
        let home = Home::new();
        let mut watch = home.command(flags).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
        let asking = ask(&home, "touch canary");
        let line = lines.next().unwrap().unwrap();
        assert!(line.contains(asked) && line.contains("touch canary"), "{line}");
        resolve(&home, &asking.id, "deny", 0);
        let line = lines.next().unwrap().unwrap();
        assert!(line.contains(settled) && line.contains("deny"), "{line}");
        watch.kill().unwrap();
        watch.wait().unwrap();
        asking.end();
    }
}

/// `watch` on a terminal of its own.
struct Screen {
    child: Child,
    keys: File,
    terminal: std::os::fd::OwnedFd,
    shown: Receiver<Vec<u8>>,
    text: String,
}

impl Screen {
    fn open(home: &Home, size: Size) -> Self {
        let pair = pty::open(size).unwrap();
        let end = || Stdio::from(pair.secondary.try_clone().unwrap());
        let mut command = home.command(&["approvals", "watch"]);
        let child = command.env("TERM", "xterm").stdin(end()).stdout(end()).spawn().unwrap();
        let keys = File::from(pair.primary);
        let mut reader = keys.try_clone().unwrap();
        let (sender, shown) = channel();
        std::thread::spawn(move || {
            let mut room = [0; 4096];
            while let Ok(count @ 1..) = reader.read(&mut room) {
                if sender.send(room[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { child, keys, terminal: pair.secondary, shown, text: String::new() }
    }

    /// Waits until this was on the screen since the last call.
    #[track_caller]
    fn shows(&mut self, part: &str) {
        let end = Instant::now() + PATIENCE;
        while !self.text.contains(part) {
            let left = end.saturating_duration_since(Instant::now());
            let bytes = self.shown.recv_timeout(left);
            let bytes = bytes.unwrap_or_else(|_| panic!("no {part:?}, last {:?}", self.last()));
            self.text.push_str(&String::from_utf8_lossy(&bytes));
        }
        self.text.clear();
    }

    /// The end of what was drawn: one screen is enough to see what is wrong.
    fn last(&self) -> String {
        let start = self.text.rfind("\u{1b}[H").unwrap_or_default();
        self.text.get(start..).unwrap_or_default().to_owned()
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Presses until it has the effect: keys are not heard while a question has just appeared.
    #[track_caller]
    fn press_until(&mut self, keys: &str, part: &str) {
        let end = Instant::now() + PATIENCE;
        loop {
            self.press(keys);
            while let Ok(bytes) = self.shown.recv_timeout(Duration::from_millis(100)) {
                self.text.push_str(&String::from_utf8_lossy(&bytes));
            }
            if self.text.contains(part) {
                self.text.clear();
                return;
            }
            assert!(Instant::now() < end, "no {part:?}, last {:?}", self.last());
        }
    }

    fn modes(&self) -> String {
        let mut stty = Command::new("stty");
        stty.arg("-a").stdin(self.terminal.try_clone().unwrap());
        String::from_utf8(stty.output().unwrap().stdout).unwrap()
    }

    /// Waits for the end; screen, cursor and modes must be given back.
    #[track_caller]
    fn ends(mut self) {
        self.shows("\u{1b}[?25h\u{1b}[?1049l");
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
        let modes = self.modes();
        assert!(modes.contains(" icanon") && modes.contains(" echo "), "{modes}");
    }
}

#[test]
fn watch_shows_the_plan_on_a_small_terminal_and_answers_by_key() {
    let home = Home::new();
    let mut screen = Screen::open(&home, SMALL);
    screen.shows("nothing waits");
    let first = ask(&home, "touch canary");
    screen.shows("file: /usr/bin/touch");
    screen.press_until("a", "allow-once: ");
    assert!(first.end().starts_with("FINISHED"));
    assert!(home.path("canary").exists());
    let second = ask(&home, "touch other");
    screen.shows("touch other");
    screen.press_until("d", "deny: ");
    assert_eq!(second.end(), "NOTRUN it is not allowed: user-denied");
    assert!(!home.path("other").exists());
    screen.press("q");
    screen.ends();
}

#[test]
fn watch_allows_nothing_whose_plan_was_not_seen_to_its_end() {
    let home = Home::new();
    let mut screen = Screen::open(&home, SMALL);
    let words: Vec<String> = (0..300).map(|number| format!("file-{number:04}")).collect();
    let asking = ask(&home, &format!("touch {}", words.join(" ")));
    screen.shows("more lines");
    screen.press_until("a", "scroll to the end of the plan first");
    assert_eq!(pending(&home).len(), 1);
    screen.press(&" ".repeat(30));
    screen.press_until("a", "allow-once: ");
    assert!(asking.end().starts_with("FINISHED"));
    screen.press("q");
    screen.ends();
}

#[test]
fn watch_gives_the_terminal_back_when_it_is_ended() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let home = Home::new();
        let mut screen = Screen::open(&home, SMALL);
        screen.shows("nothing waits");
        assert!(screen.modes().contains("-icanon"));
        let pid = Pid::new(i32::try_from(screen.child.id()).unwrap()).unwrap();
        kill(pid, signal).unwrap();
        screen.ends();
    }
}

#[test]
fn b24_nothing_in_a_command_steers_the_terminal_of_whoever_watches() {
    let home = Home::new();
    let mut screen = Screen::open(&home, SMALL);
    screen.shows("nothing waits");
    let asking = ask(&home, "touch 'x\u{1b}[31m\u{202e}\u{7}y'");
    screen.shows("x\\u{1B}[31m\\u{202E}\\u{7}y");
    let seen = loop {
        let bytes = screen.shown.recv_timeout(PATIENCE).unwrap();
        screen.text.push_str(&String::from_utf8_lossy(&bytes));
        if screen.text.contains("touch") {
            break screen.text.clone();
        }
    };
    assert!(!seen.contains("\u{1b}[31m") && !seen.contains('\u{202e}') && !seen.contains('\u{7}'));
    asking.gone();
    screen.press("q");
    screen.ends();
}
