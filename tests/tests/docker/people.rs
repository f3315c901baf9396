//! Containers of ordinary users: of one who may use root's engine, and of one with an engine of his own.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use clawpen_tests::home::Run;
use clawpen_tests::replay::explain::binary;
use clawpen_tests::user::User;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::engine::{Data, OwnEngine, SMALL};

/// For a loaded machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A user with a copy of the binary, a config and a workspace.
struct Person {
    user: User,
    /// What `DOCKER_HOST` is.
    socket: PathBuf,
}

impl Person {
    fn new(role: &str, socket: PathBuf) -> Result<Self> {
        let user = User::new(role)?;
        // Whatever its parents allow: programs of a test may be where only root goes.
        let mut copy = Command::new("install");
        copy.arg("-m755").arg(binary()?).arg(user.home.join("clawpen"));
        ensure!(copy.status()?.success(), "cannot copy the binary");
        let person = Self { user, socket };
        for name in [".openclaw", "work"] {
            fs::create_dir(person.path(name))?;
            person.own(name)?;
        }
        Ok(person)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.user.home.join(name)
    }

    fn own(&self, name: &str) -> Result<()> {
        Ok(chown(self.path(name), Some(self.user.uid), Some(self.user.gid))?)
    }

    /// Writes the config: this image, and these keys of `sandbox.docker`.
    fn configure(&self, docker: &str) -> Result<()> {
        let text = format!(
            "{{agents: {{defaults: {{workspace: '{}', sandbox: {{mode: 'all', backend: 'docker', \
             workspaceAccess: 'rw', docker: {{image: '{SMALL}', {docker}}}}}}}}}}}",
            self.path("work").display()
        );
        fs::write(self.path(".openclaw/openclaw.json"), text)?;
        self.own(".openclaw/openclaw.json")
    }

    fn run(&self, args: &[&str]) -> Run {
        let program = self.path("clawpen");
        let mut command = self.user.command(&program.to_string_lossy());
        command.args(args).env("DOCKER_HOST", format!("unix://{}", self.socket.display()));
        Run::of(command.stdin(Stdio::null()))
    }

    /// Makes, uses, looks at and removes a container.
    fn try_out(&self) -> Result<()> {
        let script = "umask 027; echo there > note; mkdir -p d; id -u; cat note";
        let done = self.run(&["exec", "--", "sh", "-c", script]);
        assert_eq!(done.code, Some(0), "{}", done.stderr);
        let note = fs::metadata(self.path("work/note"))?;
        let User { uid, gid, .. } = self.user;
        assert_eq!((note.uid(), note.gid(), note.mode() & 0o777), (uid, gid, 0o640));
        // By the supervisor's own hand too.
        let mut write = self.user.command(&self.path("clawpen").to_string_lossy());
        write.args(["fs", "write", "/workspace/by-fs"]);
        write.env("DOCKER_HOST", format!("unix://{}", self.socket.display()));
        let written = Run::of(write.stdin(fs::File::open(self.path("work/note"))?));
        assert_eq!(written.code, Some(0), "{}", written.stderr);
        let by_fs = fs::metadata(self.path("work/by-fs"))?;
        assert_eq!((by_fs.uid(), by_fs.gid()), (uid, gid));
        let listed = self.run(&["sandbox", "list", "--json"]).json();
        assert_eq!(listed["containers"][0]["clawpen"]["image"], "current", "{listed}");
        let live = self.run(&["sandbox", "explain", "--live", "--json"]);
        let live = live.json();
        let facts = live["facts"].as_array().context("facts")?;
        for fact in facts {
            assert_eq!(fact["holds"], true, "{fact}");
        }
        let removed = self.run(&["sandbox", "remove", "--all", "--force"]);
        assert_eq!(removed.code, Some(0), "{}", removed.stderr);
        Ok(())
    }
}

/// His engine is root's, as for whoever is in the group `docker`.
#[test]
fn limits_hold_for_a_user_who_may_not_look_at_the_containers_process() -> Result<()> {
    let Some(engine) = OwnEngine::start(Data::Disk)? else { return Ok(()) };
    let person = Person::new("group", engine.socket())?;
    chown(engine.socket(), None, Some(person.user.gid))?;
    fs::set_permissions(engine.socket(), fs::Permissions::from_mode(0o660))?;
    let directory = engine.socket().parent().context("a directory")?.to_owned();
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o711))?;
    person.configure("memory: '64m', pidsLimit: 50, cpus: 0.5")?;
    person.try_out()?;
    assert_eq!(engine.containers()?, Vec::<String>::new());
    // Who may not use it is told how he could.
    fs::set_permissions(engine.socket(), fs::Permissions::from_mode(0o600))?;
    let refused = person.run(&["exec", "--", "true"]);
    assert_eq!(refused.code, Some(125), "{}", refused.stderr);
    assert!(refused.stderr.contains("usermod -aG docker"), "{}", refused.stderr);
    Ok(())
}

/// An engine as an ordinary user runs it.
struct Rootless {
    service: Child,
    uid: u32,
    runtime: tempfile::TempDir,
}

impl Rootless {
    fn podman(user: &User) -> Result<Self> {
        Self::start(user, |runtime, socket| {
            let mut command = podman(user, runtime);
            command.args(["system", "service", "--time", "0", socket]);
            command
        })
    }

    /// As Docker's own script starts it, but on the network that is there: its containers here have none, and
    /// a network of its own needs a device that a test machine may not give.
    fn docker(user: &User) -> Result<Self> {
        Self::start(user, |runtime, socket| {
            let below = |name: &str| runtime.join(name).display().to_string();
            let mut command = user.command("rootlesskit");
            command.env("XDG_RUNTIME_DIR", runtime).env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
            command.args(["--net=host", "--copy-up=/etc", "--copy-up=/run", "--state-dir"]);
            let script = r#"rm -f /run/docker /run/containerd; exec dockerd "$@""#;
            command.args([&below("kit"), "sh", "-c", script, "sh", "--rootless"]);
            command.args(["--iptables=false", "--bridge=none", "--host", socket]);
            command.args(["--data-root", &user.home.join("data").display().to_string()]);
            command.args(["--exec-root", &below("exec"), "--pidfile", &below("pid")]);
            command
        })
    }

    /// Starts what `service` gives for a private directory and a socket in it.
    fn start(user: &User, service: impl FnOnce(&Path, &str) -> Command) -> Result<Self> {
        let runtime = tempfile::Builder::new().prefix("rootless").tempdir_in("/var/tmp")?;
        chown(runtime.path(), Some(user.uid), Some(user.gid))?;
        let socket = format!("unix://{}", runtime.path().join("s").display());
        let log = fs::File::create(runtime.path().join("log"))?;
        let service = service(runtime.path(), &socket)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("an engine without root")?;
        let mut engine = Self { service, uid: user.uid, runtime };
        let deadline = Instant::now() + PATIENCE;
        while UnixStream::connect(engine.socket()).is_err() {
            let said = || fs::read_to_string(engine.runtime.path().join("log")).unwrap_or_default();
            ensure!(engine.service.try_wait()?.is_none(), "the engine ended: {}", said());
            ensure!(Instant::now() < deadline, "the engine is not ready: {}", said());
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(engine)
    }

    fn socket(&self) -> PathBuf {
        self.runtime.path().join("s")
    }
}

impl Drop for Rootless {
    /// An engine keeps processes beside it, such as one that holds its user namespace; whatever is of this
    /// user is the test's.
    fn drop(&mut self) {
        drop(self.service.kill());
        drop(self.service.wait());
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let pid = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok());
            let is_his = entry.metadata().is_ok_and(|found| found.uid() == self.uid);
            if let Some(pid) = pid.filter(|_| is_his) {
                let _gone = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
        }
    }
}

fn podman(user: &User, runtime: &Path) -> Command {
    let mut command = user.command("podman");
    command.env("XDG_RUNTIME_DIR", runtime).env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    command.args(["--cgroup-manager", "cgroupfs", "--runtime", "runc", "--events-backend", "file"]);
    command
}

/// The small image's archive, where this person's engine finds it. `None` without services.
fn archive(person: &Person) -> Result<Option<PathBuf>> {
    let Some(rootfs) = std::env::var_os("CLAWPEN_TEST_ROOTFS") else {
        // Says that the test is skipped, or fails where services were promised.
        return OwnEngine::start(Data::Disk).map(|_none| None);
    };
    let archive = person.path("image.tar");
    crate::engine::pack(Path::new(&rootfs), &archive)?;
    fs::set_permissions(&archive, fs::Permissions::from_mode(0o644))?;
    Ok(Some(archive))
}

/// Uses a container, and asks for what such an engine does not keep.
fn use_without_root(person: &Person) -> Result<()> {
    person.configure("")?;
    person.try_out()?;
    // Without a control group of his own a limit is not kept, so it is refused.
    person.configure("memory: '64m'")?;
    let limited = person.run(&["exec", "--", "true"]);
    if Path::new("/sys/fs/cgroup/cgroup.controllers").exists() {
        ensure!(limited.code == Some(0) || limited.stderr.contains("memory"), "{}", limited.stderr);
    } else {
        assert_eq!(limited.code, Some(125), "{}", limited.stdout);
        assert!(limited.stderr.to_lowercase().contains("memory"), "{}", limited.stderr);
    }
    let removed = person.run(&["sandbox", "remove", "--all", "--force"]);
    assert_eq!(removed.code, Some(0), "{}", removed.stderr);
    Ok(())
}

fn succeeded(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

#[test]
fn podman_without_root_gives_its_owner_his_own_files() -> Result<()> {
    let mut person = Person::new("podman", PathBuf::new())?;
    let Some(archive) = archive(&person)? else { return Ok(()) };
    let engine = Rootless::podman(&person.user)?;
    person.socket = engine.socket();
    let podman = || podman(&person.user, engine.runtime.path());
    let import = ["import", "--quiet", "--change", "USER 1000:1000"];
    succeeded(podman().args(import).arg(&archive).arg(SMALL))?;
    use_without_root(&person)?;
    assert_eq!(succeeded(podman().args(["ps", "--all", "--quiet"]))?, "");
    Ok(())
}

#[test]
fn docker_without_root_gives_its_owner_his_own_files() -> Result<()> {
    let mut person = Person::new("docker", PathBuf::new())?;
    let Some(archive) = archive(&person)? else { return Ok(()) };
    let engine = Rootless::docker(&person.user)?;
    person.socket = engine.socket();
    let docker = || {
        let mut command = Command::new("docker");
        command.env("DOCKER_HOST", format!("unix://{}", person.socket.display()));
        command
    };
    let import = ["import", "--change", "USER 1000:1000"];
    succeeded(docker().args(import).arg(&archive).arg(SMALL))?;
    use_without_root(&person)?;
    assert_eq!(succeeded(docker().args(["ps", "--all", "--quiet"]))?, "");
    Ok(())
}
