//! A disk that is full, at every place that is written: the place is named, nothing is half there, and the next call
//! after somebody made room works. Needs root: the small file system is mounted in a namespace of the test's own.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a test without its set-up cannot go on")]

use std::process::{Child, Command, Stdio};

use clawpen_tests::home::{Home, Run};

const CONFIG: &str = "{agents: {defaults: {sandbox: {mode: 'all', backend: 'native'}}}}";
const COPY: &str = ".openclaw/sandboxes/agent-main-f331f052";

/// A home in which one directory is a small file system.
struct World {
    home: Home,
    /// Keeps the mount namespace.
    keeper: Child,
    small: &'static str,
}

impl World {
    fn new(small: &'static str) -> Self {
        let home = Home::with_config(CONFIG)
            .with_file(".openclaw/workspace/SOUL.md", "soul 1\n")
            .with_file(".openclaw/skills/tidy/SKILL.md", "tidy 1\n");
        std::fs::create_dir_all(home.path(small)).unwrap();
        let script =
            "mount -t tmpfs -o size=2m,mode=700 none \"$1\" && echo ready && exec sleep 10000";
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-c", script, "sh"]);
        let mut keeper = command.arg(home.path(small)).stdout(Stdio::piped()).spawn().unwrap();
        let mut said = [0; 5];
        std::io::Read::read_exact(keeper.stdout.as_mut().unwrap(), &mut said).unwrap();
        Self { home, keeper, small }
    }

    /// A command in the namespace.
    fn inside(&self, program: &str, args: &[&str]) -> Run {
        let mut command = Command::new("nsenter");
        command.arg(format!("--mount=/proc/{}/ns/mnt", self.keeper.id())).arg("--").arg(program);
        command.args(args).env_clear().env("HOME", self.home.path(""));
        command.env("PATH", "/usr/bin:/bin:/usr/sbin:/sbin").current_dir("/");
        Run::of(&mut command)
    }

    fn clawpen(&self, args: &[&str]) -> Run {
        let binary = self.home.command(&[]).get_program().to_str().unwrap().to_owned();
        self.inside(&binary, args)
    }

    #[track_caller]
    fn sh(&self, script: &str) -> String {
        let script = format!("cd \"$HOME\" && {script}");
        let run = self.inside("sh", &["-c", &script]);
        assert_eq!(run.code, Some(0), "{script}: {}", run.stderr);
        run.stdout
    }

    #[track_caller]
    fn works(&self, when: &str) {
        let run = self.clawpen(&["exec", "--", "echo", "alive"]);
        assert_eq!((run.code, run.stdout.as_str()), (Some(0), "alive\n"), "{when}: {}", run.stderr);
    }

    /// Fills the small file system but for so many KiB.
    fn fill(&self, left: u32) {
        self.sh(&format!(
            "cd {} && head -c 100m /dev/zero > filler 2>/dev/null; truncate -s -{left}K filler",
            self.small
        ));
    }

    fn make_room(&self) {
        self.sh(&format!("rm {}/filler", self.small));
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.clawpen(&["sandbox", "remove", "--all", "--force"]);
        let _gone = self.keeper.kill();
        let _reaped = self.keeper.wait();
    }
}

#[test]
fn a_seed_that_does_not_fit_is_named_and_not_half_copied() {
    let world = World::new(".openclaw/sandboxes");
    world.works("before");
    world.sh("head -c 1m /dev/zero | tr '\\0' a > .openclaw/workspace/USER.md");
    world.fill(100);
    let run = world.clawpen(&["exec", "--", "true"]);
    assert_ne!(run.code, Some(0));
    assert!(run.stderr.contains("agent-main-f331f052"), "{}", run.stderr);
    assert!(run.stderr.to_lowercase().contains("no space left"), "{}", run.stderr);
    assert_eq!(world.sh(&format!("ls -A {COPY}")), "SOUL.md\nskills\n");
    // The reason is in the record, cause and all.
    let audit = world.clawpen(&["audit", "--json"]);
    assert!(audit.stdout.to_lowercase().contains("no space left"), "{}", audit.stdout);
    world.make_room();
    world.works("with room again");
    assert_eq!(world.sh(&format!("wc -c < {COPY}/USER.md")).trim(), "1048576");
}

#[test]
fn skills_that_do_not_fit_are_told_and_the_old_ones_stay_whole() {
    let world = World::new(".openclaw/sandboxes");
    world.works("before");
    world.sh("head -c 1m /dev/zero | tr '\\0' a > .openclaw/skills/tidy/large; echo 'tidy 2' > .openclaw/skills/tidy/SKILL.md");
    world.fill(100);
    let run =
        world.clawpen(&["exec", "--", "sh", "-c", "cat skills/tidy/SKILL.md; ls skills/tidy"]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), "tidy 1\nSKILL.md\n"), "{}", run.stderr);
    let told = run.stderr.to_lowercase();
    let half = world.sh("find .openclaw/sandboxes/.clawpen -type f");
    assert_eq!(half, "", "half a copy takes room");
    assert!(told.contains("skill") && told.contains("no space left"), "{}", run.stderr);
    world.make_room();
    let run = world.clawpen(&[
        "exec",
        "--",
        "sh",
        "-c",
        "cat skills/tidy/SKILL.md; wc -c < skills/tidy/large",
    ]);
    assert_eq!(run.stdout.replace(' ', ""), "tidy2\n1048576\n", "{}", run.stderr);
}

#[test]
fn a_workspace_that_cannot_be_moved_aside_stays_where_it_is() {
    let world = World::new(".openclaw/clawpen/trash");
    let run = world.clawpen(&["exec", "--", "sh", "-c", "echo work > mine"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    world.fill(0);
    let run = world.clawpen(&["sandbox", "recreate", "--all", "--reseed", "--force"]);
    let told = format!("{}{}", run.stdout, run.stderr);
    assert_ne!(run.code, Some(0), "{told}");
    assert!(told.contains("trash"), "{told}");
    assert!(told.to_lowercase().contains("no space left"), "{told}");
    assert_eq!(world.sh(&format!("cat {COPY}/mine")), "work\n");
    let trash = world.clawpen(&["sandbox", "trash", "list", "--json"]);
    assert!(
        trash.code == Some(0) && !trash.stdout.contains("agent-main"),
        "{}{}",
        trash.stdout,
        trash.stderr
    );
    world.make_room();
    world.works("with room, on the copy that stayed");
    let run = world.clawpen(&["sandbox", "recreate", "--all", "--reseed", "--force"]);
    assert_eq!(run.code, Some(0), "{}{}", run.stdout, run.stderr);
    world.works("with room again");
    let trash = world.clawpen(&["sandbox", "trash", "list", "--json"]);
    assert!(trash.stdout.contains("agent-main"), "{}", trash.stdout);
}

#[test]
fn an_export_that_does_not_fit_leaves_no_file() {
    let world = World::new("exports");
    for _ in 0..3 {
        world.works("before");
    }
    world.fill(0);
    let file = world.home.path("exports/audit.jsonl");
    let run = world.clawpen(&["audit", "--export", file.to_str().unwrap()]);
    assert_ne!(run.code, Some(0), "{}", run.stdout);
    assert!(run.stderr.contains("audit.jsonl"), "{}", run.stderr);
    assert!(run.stderr.to_lowercase().contains("no space left"), "{}", run.stderr);
    assert_eq!(world.sh("ls -A exports"), "filler\n");
    world.make_room();
    let run = world.clawpen(&["audit", "--export", file.to_str().unwrap()]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let lines = world.sh("wc -l < exports/audit.jsonl").trim().parse::<usize>().unwrap();
    assert!(lines >= 3, "{lines}");
}

#[test]
fn a_registry_that_does_not_fit_stops_the_call_and_no_pen_stays() {
    let world = World::new(".openclaw/clawpen");
    world.works("before");
    let removed = world.clawpen(&["sandbox", "remove", "--all", "--force"]);
    assert_eq!(removed.code, Some(0), "{}", removed.stderr);
    world.fill(0);
    // What the log still has room for is used up first; from then on every call says why.
    let mut told = String::new();
    for _ in 0..200 {
        let run = world.clawpen(&["exec", "--fresh", "--", "true"]);
        if run.code != Some(0) {
            told = run.stderr;
            break;
        }
    }
    assert!(
        told.to_lowercase().contains("no space left") || told.contains("there is no space left"),
        "{told}"
    );
    assert!(told.contains("clawpen.db"), "{told}");
    let runs = world.sh("ls -A .openclaw/clawpen/run 2>/dev/null | wc -l");
    assert_eq!(runs.trim(), "0", "{told}");
    world.make_room();
    world.works("with room again");
    let verified = world.clawpen(&["audit", "--verify"]);
    assert_eq!(verified.code, Some(0), "{}", verified.stderr);
}
