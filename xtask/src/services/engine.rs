//! Engines for tests: a Docker that already answers or one of our own, and a Podman of our own.
//!
//! Ours shares nothing with any other: data, runtime files and socket are its own, and its network
//! namespace too, so that its bridge and firewall rules never reach the machine. It says itself when
//! it is ready (the notification that systemd would get), and it ends with us even if we are
//! killed: the kernel sends it SIGTERM when its parent dies.

use std::fmt;
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::packages::find;
use crate::tools::run;

const DEFAULT_SOCKET: &str = "/var/run/docker.sock";
const READY_WITHIN: Duration = Duration::from_secs(60);
/// An engine gives its containers 15 s to end; ours have none left by then.
const STOPPED_WITHIN: Duration = Duration::from_secs(30);
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);
/// How often a wait looks whether the engine has died instead.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// A unix socket's path has 107 bytes; this is the longest name the engine puts below its runtime
/// directory.
const LONGEST_RUNTIME_PATH: usize = 107 - "/exec/containerd/containerd.sock.ttrpc".len();

/// An engine that answers.
#[derive(Debug)]
pub(crate) struct Engine {
    socket: PathBuf,
    ours: Option<Ours>,
}

/// The engine we started.
#[derive(Debug)]
struct Ours {
    process: Child,
    runtime: PathBuf,
}

impl Engine {
    /// Uses the engine that `DOCKER_HOST` or the usual socket leads to, else starts one that keeps
    /// its data in `directory`.
    pub(super) fn start(directory: &Path) -> Result<Self> {
        let asked = std::env::var("DOCKER_HOST").ok().filter(|host| !host.is_empty());
        if let Some(host) = asked {
            let Some(socket) = host.strip_prefix("unix://") else {
                bail!("DOCKER_HOST is `{host}`; tests need an engine on this machine (`unix://…`)");
            };
            ping(Path::new(socket)).with_context(|| format!("DOCKER_HOST is `{host}`"))?;
            return Ok(Self { socket: socket.into(), ours: None });
        }
        if ping(Path::new(DEFAULT_SOCKET)).is_ok() {
            return Ok(Self { socket: DEFAULT_SOCKET.into(), ours: None });
        }
        start_own(directory)
    }

    /// Starts a Podman that speaks to Docker's clients and keeps its data in `directory`.
    pub(super) fn podman(directory: &Path) -> Result<Self> {
        start_podman(directory)
    }

    /// What `DOCKER_HOST` has to be.
    pub(super) fn host(&self) -> String {
        format!("unix://{}", self.socket.display())
    }

    /// The engine's own command line.
    pub(super) fn docker(&self, args: &[&str]) -> Command {
        let mut command = Command::new(find("docker").unwrap_or_else(|| "docker".into()));
        command.env("DOCKER_HOST", self.host()).env_remove("DOCKER_CONTEXT").args(args);
        command
    }

    /// Ends the engine if it is ours; another one is left alone.
    pub(super) fn stop(self) -> Result<()> {
        let Some(mut ours) = self.ours else { return Ok(()) };
        ours.end()
    }
}

impl Ours {
    fn end(&mut self) -> Result<()> {
        if self.process.try_wait()?.is_none() {
            let pid = i32::try_from(self.process.id()).context("the engine's process number")?;
            kill(Pid::from_raw(pid), Signal::SIGTERM).context("cannot stop the engine")?;
            let deadline = Instant::now() + STOPPED_WITHIN;
            while self.process.try_wait()?.is_none() {
                if Instant::now() > deadline {
                    self.process.kill()?;
                    self.process.wait()?;
                    bail!("the engine did not stop within {STOPPED_WITHIN:?}; killed");
                }
                std::thread::sleep(LOOK_EVERY / 4);
            }
        }
        // Nothing of a stopped engine is of use; a new one makes its own.
        unmount_below(&self.runtime)?;
        fs::remove_dir_all(&self.runtime)
            .with_context(|| format!("cannot remove {}", self.runtime.display()))
    }
}

impl Drop for Ours {
    /// A run that fails half-way stops its engine as well.
    fn drop(&mut self) {
        if matches!(self.process.try_wait(), Ok(None))
            && let Err(error) = self.end()
        {
            eprintln!("{error:#}");
        }
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let socket = self.socket.display();
        match &self.ours {
            Some(ours) => write!(f, "started, process {}, at {socket}", ours.process.id()),
            None => write!(f, "the one at {socket} was running already and stays"),
        }
    }
}

fn start_own(directory: &Path) -> Result<Engine> {
    let data = directory.join("data");
    fs::create_dir_all(&data).with_context(|| data.display().to_string())?;
    let runtime = runtime_directory(directory)?;
    let socket = runtime.join("sock");
    let notify = runtime.join("ready");
    let ready = UnixDatagram::bind(&notify).with_context(|| notify.display().to_string())?;
    ready.set_read_timeout(Some(LOOK_EVERY))?;
    let log = directory.join("log");
    let output = fs::File::create(&log).with_context(|| log.display().to_string())?;
    let dockerd = find("dockerd").context("`dockerd` is missing; install `docker.io`")?;
    let mut command = Command::new("setpriv");
    command
        .args(["--pdeathsig", "TERM", "unshare", "--net"])
        // A new network has a loopback address that is down, and a published port would have no place.
        .args(["sh", "-c", "PATH=$PATH:/usr/sbin:/sbin ip link set lo up && exec \"$@\"", "sh"])
        .arg(dockerd)
        .arg("--data-root")
        .arg(&data)
        .arg("--exec-root")
        .arg(runtime.join("exec"))
        .arg("--pidfile")
        .arg(runtime.join("pid"))
        .arg("--host")
        .arg(format!("unix://{}", socket.display()))
        .env("NOTIFY_SOCKET", &notify)
        .stdin(Stdio::null())
        .stderr(output.try_clone()?)
        .stdout(output);
    let process = command.spawn().context("cannot start `setpriv` (package util-linux)")?;
    let mut ours = Ours { process, runtime };
    wait_until_ready(&mut ours.process, &ready)
        .with_context(|| format!("the Docker engine did not start; see {}", log.display()))?;
    ping(&socket)?;
    let engine = Engine { socket, ours: Some(ours) };
    remove_leftovers(&engine)?;
    Ok(engine)
}

fn start_podman(directory: &Path) -> Result<Engine> {
    fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
    let runtime = runtime_directory(directory)?;
    let socket = runtime.join("sock");
    let log = directory.join("log");
    let output = fs::File::create(&log).with_context(|| log.display().to_string())?;
    let podman = find("podman").context("`podman` is missing; install `podman`")?;
    let mut command = Command::new("setpriv");
    command
        // Its mounts end with it.
        .args(["--pdeathsig", "TERM", "unshare", "--net", "--mount"])
        .arg(podman)
        .arg("--root")
        .arg(directory.join("data"))
        .arg("--runroot")
        .arg(runtime.join("run"))
        // Nothing here is started by systemd, and Debian has this one for Docker anyway.
        .args(["--cgroup-manager", "cgroupfs", "--runtime", "runc", "--events-backend", "file"])
        .args(["system", "service", "--time", "0"])
        .arg(format!("unix://{}", socket.display()))
        .stdin(Stdio::null())
        .stderr(output.try_clone()?)
        .stdout(output);
    let process = command.spawn().context("cannot start `setpriv` (package util-linux)")?;
    let mut ours = Ours { process, runtime };
    let deadline = Instant::now() + READY_WITHIN;
    // It tells nobody when it is ready.
    while ping(&socket).is_err() {
        if let Some(status) = ours.process.try_wait()? {
            bail!("Podman ended ({status}); see {}", log.display());
        }
        if Instant::now() > deadline {
            bail!("Podman was not ready within {READY_WITHIN:?}; see {}", log.display());
        }
        std::thread::sleep(LOOK_EVERY / 4);
    }
    let engine = Engine { socket, ours: Some(ours) };
    remove_leftovers(&engine)?;
    Ok(engine)
}

/// A new, private directory for sockets: in the cache, or where paths are shorter.
fn runtime_directory(directory: &Path) -> Result<PathBuf> {
    let mut runtime = directory.join("run");
    if runtime.as_os_str().len() > LONGEST_RUNTIME_PATH {
        let mut hash = DefaultHasher::new();
        directory.hash(&mut hash);
        runtime = Path::new("/run").join(format!("clawpen-{:016x}", hash.finish()));
    }
    // The lock is ours, so whatever is there was left by a run that was killed.
    unmount_below(&runtime)?;
    match fs::remove_dir_all(&runtime) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("cannot remove {}", runtime.display()));
        }
        Ok(()) | Err(_) => {}
    }
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&runtime);
    made.with_context(|| runtime.display().to_string())?;
    Ok(runtime)
}

/// An engine that was killed leaves the file of its network namespace mounted.
fn unmount_below(directory: &Path) -> Result<()> {
    let mounts =
        fs::read_to_string("/proc/self/mountinfo").context("cannot read what is mounted")?;
    let points = mounts.lines().filter_map(|line| line.split(' ').nth(4)).map(Path::new);
    for point in points.filter(|point| point.starts_with(directory)) {
        run(Command::new("umount").arg("--lazy").arg(point))?;
    }
    Ok(())
}

fn wait_until_ready(process: &mut Child, ready: &UnixDatagram) -> Result<()> {
    let deadline = Instant::now() + READY_WITHIN;
    let mut message = [0; 512];
    while Instant::now() < deadline {
        match ready.recv(&mut message) {
            Ok(length) => {
                let text = message.get(..length).unwrap_or_default();
                if text.split(|&byte| byte == b'\n').any(|line| line == b"READY=1") {
                    return Ok(());
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error).context("cannot wait for the engine"),
        }
        if let Some(status) = process.try_wait()? {
            bail!("it ended ({status})");
        }
    }
    bail!("it was not ready within {READY_WITHIN:?}")
}

/// Asks an engine whether it is there.
fn ping(socket: &Path) -> Result<()> {
    let shown = socket.display();
    if !fs::metadata(socket).is_ok_and(|found| found.file_type().is_socket()) {
        bail!("no socket at {shown}");
    }
    let mut stream = UnixStream::connect(socket).with_context(|| format!("{shown}"))?;
    stream.set_read_timeout(Some(ANSWERS_WITHIN))?;
    stream.write_all(b"GET /_ping HTTP/1.0\r\n\r\n")?;
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).with_context(|| format!("no answer at {shown}"))?;
    if !answer.ends_with(b" 200") {
        bail!("odd answer at {shown}: {}", String::from_utf8_lossy(&answer));
    }
    Ok(())
}

/// Removes containers of runs that were killed. The engine is ours, so all of them are.
fn remove_leftovers(engine: &Engine) -> Result<()> {
    let output =
        engine.docker(&["ps", "--all", "--quiet"]).output().context("cannot run docker")?;
    let listed = String::from_utf8_lossy(&output.stdout).into_owned();
    let ids: Vec<&str> = listed.split_whitespace().collect();
    if ids.is_empty() {
        return Ok(());
    }
    println!("  removing {} containers of an earlier run", ids.len());
    super::quiet(engine.docker(&["rm", "--force"]).args(ids))
}
