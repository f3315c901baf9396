//! The same for containers, on an engine of our own that is killed as well.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::ground::{Chance, Ground, eventually, signal};

const IMAGE: &str = "openclaw-sandbox:bookworm-slim";

/// An engine whose everything is below one directory, in a network of its own.
pub(crate) struct Engine {
    directory: tempfile::TempDir,
    process: Child,
}

impl Engine {
    /// `None`, with a word, where no services were promised.
    pub(crate) fn start() -> Option<Self> {
        let Some(rootfs) = std::env::var_os("CLAWPEN_TEST_ROOTFS").map(PathBuf::from) else {
            assert!(std::env::var_os("CLAWPEN_TEST_SERVICES").is_none(), "no root file system");
            eprintln!("skipped: no root file system; run `cargo xtask services`");
            return None;
        };
        let directory = tempfile::Builder::new().prefix("eng").tempdir().unwrap();
        let engine = Self { process: spawn(&directory), directory };
        engine.wait();
        let mut pack = Command::new("tar")
            .args(["-C", rootfs.to_str().unwrap(), "-c", "."])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut import = engine.docker(&["import", "-", IMAGE]);
        assert!(import.stdin(pack.stdout.take().unwrap()).output().unwrap().status.success());
        assert!(pack.wait().unwrap().success(), "{}", rootfs.display());
        Some(engine)
    }

    fn host(&self) -> String {
        format!("unix://{}", self.directory.path().join("sock").display())
    }

    pub(crate) fn docker(&self, args: &[&str]) -> Command {
        let mut command = Command::new("docker");
        command.env("DOCKER_HOST", self.host()).env_remove("DOCKER_CONTEXT").args(args);
        command
    }

    fn wait(&self) {
        eventually("the engine", || {
            let asked = self.docker(&["version"]).output().unwrap();
            asked.status.success().then_some(())
        });
    }

    /// As by kill -9 of the daemon; its containers go on without it.
    fn kill(&mut self) {
        let pid = fs::read_to_string(self.directory.path().join("pid")).unwrap();
        signal("KILL", pid.trim().parse().unwrap());
        self.process.wait().unwrap();
    }

    fn restart(&mut self) {
        // Their processes are dead, and a number that nobody has reaped yet looks alive.
        for name in ["pid", "exec/containerd/containerd.pid"] {
            drop(fs::remove_file(self.directory.path().join(name)));
        }
        self.process = spawn(&self.directory);
        self.wait();
    }

    fn containers(&self) -> usize {
        self.ask(&["ps", "--all", "--quiet"]).lines().count()
    }

    /// What the engine says, without its last line end.
    pub(crate) fn ask(&self, args: &[&str]) -> String {
        let output = self.docker(args).output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }
}

fn spawn(directory: &tempfile::TempDir) -> Child {
    let path = |name: &str| directory.path().join(name).to_string_lossy().into_owned();
    let log = fs::File::create(directory.path().join("log")).unwrap();
    Command::new("unshare")
        .args(["--net", "dockerd", "--data-root", &path("data"), "--exec-root", &path("exec")])
        .args(["--pidfile", &path("pid"), "--host", &format!("unix://{}", path("sock"))])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .unwrap()
}

impl Drop for Engine {
    fn drop(&mut self) {
        let listed = self.docker(&["ps", "--all", "--quiet"]).output();
        let listed = listed.map(|output| output.stdout).unwrap_or_default();
        for id in String::from_utf8_lossy(&listed).split_whitespace() {
            drop(self.docker(&["rm", "--force", id]).output());
        }
        if let Ok(pid) = fs::read_to_string(self.directory.path().join("pid")) {
            signal("TERM", pid.trim().parse().unwrap_or(0));
        }
        drop(self.process.wait());
        // Each engine that was killed has left its own behind, and the directory could not go.
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let points = mounts.lines().filter_map(|line| line.split(' ').nth(4)).map(Path::new);
        for point in points.filter(|point| point.starts_with(self.directory.path())) {
            drop(Command::new("umount").arg("--lazy").arg(point).output());
        }
    }
}

pub(crate) fn ground(engine: &Engine) -> Ground {
    let settings = "docker: {setupCommand: 'echo set up', pidsLimit: 100}";
    let mut ground = Ground::on("docker", settings);
    ground.docker_host = Some(engine.host());
    ground
}

const POINTS: [&str; 12] = [
    "docker.placed",
    "docker.created",
    "docker.written",
    "docker.planned",
    "docker.started",
    "docker.met",
    "docker.proven",
    "docker.sealed",
    "docker.set-up",
    "ensure.reserved",
    "ensure.made",
    "ensure.ready",
];

#[test]
fn a_kill_at_every_moment_of_making_a_container_leaves_nothing() {
    let Some(engine) = Engine::start() else { return };
    let ground = ground(&engine);
    for point in POINTS {
        let killed = ground.run(&format!("kill:{point}"), &["exec", "--", "true"]);
        assert_eq!(killed.status.code(), None, "{point} was not reached");
        ground.check(point);
        ground.works(point);
        assert_eq!(engine.containers(), 1, "{point}");
        ground.clear(point);
        assert_eq!(engine.containers(), 0, "{point}");
        for place in ["run", "live"] {
            let left = fs::read_dir(ground.path("clawpen/docker").join(place)).unwrap().count();
            assert_eq!(left, 0, "{point}: {place}");
        }
    }
}

#[test]
fn an_engine_that_is_killed_is_told_beside_the_rows_and_nothing_is_lost() {
    let Some(mut engine) = Engine::start() else { return };
    let ground = ground(&engine);
    for point in ["docker.created", "docker.planned", "docker.met", "docker.proven"] {
        let stopped = ground.stop_at(point, &["exec", "--", "true"]);
        engine.kill();
        let ended = stopped.go_on();
        engine.restart();
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        // Past the meeting nothing more is asked of it.
        let needs_engine = matches!(point, "docker.created" | "docker.planned");
        assert_eq!(
            ended.status.code(),
            Some(if needs_engine { 125 } else { 0 }),
            "{point}: {said}"
        );
        ground.works(point);
        ground.clear(point);
        assert_eq!(engine.containers(), 0, "{point}");
    }
    ground.works("before");
    engine.kill();
    let listed = ground.run("", &["sandbox", "list", "--json"]);
    assert_eq!(listed.status.code(), Some(0));
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(
        listed.contains("openclaw-sbx-agent-main") && listed.contains("does not answer"),
        "{listed}"
    );
    let removed = ground.run("", &["sandbox", "remove", "--all", "--force"]);
    let said = String::from_utf8_lossy(&removed.stdout).into_owned();
    assert_eq!(removed.status.code(), Some(1), "{said}");
    engine.restart();
    ground.clear("after the engine came back");
    assert_eq!(engine.containers(), 0);
}

/// What is there is what the rows say: containers, their places and their notes.
fn agree(ground: &Ground, engine: &Engine, when: &str) {
    let rows = ground.agrees(when).len();
    assert_eq!(engine.containers(), rows, "{when}: containers");
    let count = |place: &str| {
        fs::read_dir(ground.path("clawpen/docker").join(place)).into_iter().flatten().count()
    };
    assert_eq!(count("run"), rows, "{when}: places");
    assert!(count("live") <= rows, "{when}: notes");
}

#[test]
fn kills_at_random_moments_leave_no_container_torn_or_lying() {
    let Some(mut engine) = Engine::start() else { return };
    let ground = ground(&engine);
    let mut chance = Chance::new();
    let call = ["exec", "--", "sh", "-c", "echo x; sleep 0.01"];
    let removal = ["sandbox", "remove", "--all", "--force"];
    for round in 0..super::rounds() {
        let what = match chance.below(6) {
            0 => {
                let point = POINTS[chance.below(POINTS.len())];
                ground.run(&format!("kill:{point}"), &call);
                format!("killed at {point}")
            }
            1 => {
                let micros = chance.below(600_000);
                ground.kill_after(micros, &call);
                format!("a call killed after {micros} us")
            }
            2 => {
                let micros = chance.below(300_000);
                ground.works("before a removal");
                ground.kill_after(micros, &removal);
                format!("a removal killed after {micros} us")
            }
            3 => {
                ground.works("before a container is killed");
                engine.ask(&["kill", &engine.ask(&["ps", "--quiet"])]);
                "a container killed".to_owned()
            }
            4 => {
                ground.works("before a container is killed");
                engine.ask(&["kill", &engine.ask(&["ps", "--quiet"])]);
                let micros = chance.below(400_000);
                ground.kill_after(micros, &call);
                format!("a container killed, and its starter after {micros} us")
            }
            _ => {
                let micros = chance.below(300_000);
                let mut command = ground.command("", &call);
                let command = command.stdout(Stdio::null()).stderr(Stdio::null());
                let mut child = command.spawn().unwrap();
                std::thread::sleep(std::time::Duration::from_micros(micros.try_into().unwrap()));
                engine.kill();
                child.wait().unwrap();
                engine.restart();
                format!("the engine killed {micros} us into a call")
            }
        };
        let what = format!("round {round}, seed {}: {what}", chance.seed);
        agree(&ground, &engine, &what);
        if chance.below(2) == 0 {
            ground.works(&what);
            agree(&ground, &engine, &what);
        }
    }
    ground.works("the end");
    ground.clear("the end");
    agree(&ground, &engine, "the end");
}
