//! An engine of one test's own, which may be stopped, killed and run out of space: the one that all tests
//! share may not.
//!
//! Its data, its runtime files, its socket and its network namespace are its own. It ends with the test,
//! also if that is killed.

use std::fs;
use std::io::{self, Read as _};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use clawpen_tests::docker::Place;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// A shell and a handful of programs.
pub(crate) const SMALL: &str = "clawpen-test-small:latest";
/// For a loaded machine.
const READY_WITHIN: Duration = Duration::from_secs(120);
const STOPPED_WITHIN: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Packs the programs out of an unpacked Debian.
const PACK: &str = r#"set -e
cd "$1"
programs=
for name in dash sh cat true sleep ls id env mkdir readlink touch rm; do
    programs="$programs usr/bin/$name"
done
# Each directory by its own name: what an engine makes of one that is not listed differs.
exec tar --numeric-owner --no-recursion -cf "$2" . bin lib $(ls -d lib64 2>/dev/null) etc usr usr/bin \
    usr/lib usr/lib/*-linux-gnu $(ls -d usr/lib64 usr/lib64/ld-linux* 2>/dev/null) etc/passwd etc/group $programs \
    usr/lib/*-linux-gnu/libc.so.6 usr/lib/*-linux-gnu/ld-linux*.so.* \
    usr/lib/*-linux-gnu/libselinux.so.1 usr/lib/*-linux-gnu/libpcre2-8.so*
"#;

/// Where an engine keeps its images and containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Data {
    Disk,
    /// A file system of its own, of so many MiB.
    Memory(u32),
}

/// A running engine, or one that was killed and can be started again.
#[derive(Debug)]
pub(crate) struct OwnEngine {
    directory: tempfile::TempDir,
    data: Data,
    process: Option<Child>,
}

impl OwnEngine {
    /// Starts one that has the small image. `None` where the tests have no services.
    pub(crate) fn start(data: Data) -> Result<Option<Self>> {
        let Some(rootfs) = std::env::var_os("CLAWPEN_TEST_ROOTFS").map(PathBuf::from) else {
            // Says that the test is skipped, or fails where services were promised.
            let nothing = Place::new()?;
            ensure!(
                nothing.is_none() || std::env::var_os("CLAWPEN_TEST_SERVICES").is_none(),
                "the services were promised, and CLAWPEN_TEST_ROOTFS is not set"
            );
            return Ok(None);
        };
        // Not below TMPDIR: the path of a socket is short.
        let directory = tempfile::Builder::new().prefix("engine").tempdir_in("/var/tmp")?;
        fs::create_dir(directory.path().join("data"))?;
        let mut engine = Self { directory, data, process: None };
        engine.begin()?;
        pack(&rootfs, &engine.archive())?;
        engine.import(SMALL)?;
        Ok(Some(engine))
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.path().join("s")
    }

    /// A place for tests on this engine.
    pub(crate) fn place(&self) -> Result<Place> {
        Place::at(self.socket())
    }

    /// Its process.
    pub(crate) fn pid(&self) -> Result<Pid> {
        let process = self.process.as_ref().context("the engine does not run")?;
        Ok(Pid::from_raw(i32::try_from(process.id())?))
    }

    /// Starts it, or starts it again with all that it had.
    pub(crate) fn begin(&mut self) -> Result<()> {
        let below = |name: &str| self.directory.path().join(name);
        let notify = below("ready");
        drop(fs::remove_file(&notify));
        let ready = UnixDatagram::bind(&notify)?;
        ready.set_read_timeout(Some(LOOK_EVERY))?;
        let log = fs::File::options().create(true).append(true).open(below("log"))?;
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "TERM", "unshare", "--net"]);
        match self.data {
            Data::Disk => {}
            Data::Memory(mebibytes) => {
                // In a mount namespace of its own, so that it goes with the engine.
                let script = r#"mount -t tmpfs -o "size=$1m" tmpfs "$2" && shift 2 && exec "$@""#;
                command.args(["--mount", "sh", "-c", script, "sh", &mebibytes.to_string()]);
                command.arg(below("data"));
            }
        }
        command.arg("dockerd").arg("--data-root").arg(below("data"));
        command.arg("--exec-root").arg(below("exec")).arg("--pidfile").arg(below("pid"));
        command.arg("--host").arg(format!("unix://{}", self.socket().display()));
        command.env("NOTIFY_SOCKET", &notify).env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command.stdin(Stdio::null()).stderr(log.try_clone()?).stdout(log);
        self.process = Some(command.spawn().context("setpriv")?);
        self.wait_until_ready(&ready)
    }

    fn wait_until_ready(&mut self, ready: &UnixDatagram) -> Result<()> {
        let deadline = Instant::now() + READY_WITHIN;
        let mut message = [0; 512];
        while Instant::now() < deadline {
            match ready.recv(&mut message) {
                Ok(length)
                    if message[..length]
                        .split(|byte| *byte == b'\n')
                        .any(|line| line == b"READY=1") =>
                {
                    return Ok(());
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
            let process = self.process.as_mut().context("the engine does not run")?;
            if let Some(status) = process.try_wait()? {
                let mut said = String::new();
                fs::File::open(self.directory.path().join("log"))?.read_to_string(&mut said)?;
                bail!("the engine ended ({status}): {said}");
            }
        }
        bail!("the engine was not ready within {READY_WITHIN:?}")
    }

    /// kill -9.
    pub(crate) fn kill(&mut self) -> Result<()> {
        let mut process = self.process.take().context("the engine does not run")?;
        process.kill()?;
        process.wait()?;
        self.bury()
    }

    /// What a killed engine started for itself dies with it. The machine's init may be slow to take note,
    /// and the next engine would take a dead one's number for a living one.
    fn bury(&self) -> Result<()> {
        let file = self.directory.path().join("exec/containerd/containerd.pid");
        let Ok(pid) = fs::read_to_string(&file) else { return Ok(()) };
        let deadline = Instant::now() + STOPPED_WITHIN;
        let is_alive = || {
            let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).ok()?;
            let state = stat.rsplit_once(") ")?.1.chars().next()?;
            (!matches!(state, 'Z' | 'X')).then_some(())
        };
        while is_alive().is_some() {
            ensure!(Instant::now() < deadline, "containerd outlives its engine");
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(fs::remove_file(&file)?)
    }

    /// As the machine's init would stop it; its containers end with it.
    pub(crate) fn stop(&mut self) -> Result<()> {
        kill(self.pid()?, Signal::SIGTERM)?;
        let mut process = self.process.take().context("the engine does not run")?;
        let deadline = Instant::now() + STOPPED_WITHIN;
        while process.try_wait()?.is_none() {
            if Instant::now() > deadline {
                process.kill()?;
                process.wait()?;
                bail!("the engine did not stop within {STOPPED_WITHIN:?}");
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    /// Whoever killed it was somebody else: takes note, and starts it again.
    pub(crate) fn begin_again(&mut self) -> Result<()> {
        if let Some(mut process) = self.process.take() {
            process.wait()?;
        }
        self.bury()?;
        self.begin()
    }

    /// The engine's command line; its output.
    pub(crate) fn docker(&self, args: &[&str]) -> Result<String> {
        let mut command = Command::new("docker");
        command.args(args).env("DOCKER_HOST", format!("unix://{}", self.socket().display()));
        let output = command.output().context("docker")?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.success(), "docker {args:?}: {said}");
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    }

    /// The small image's files.
    pub(crate) fn archive(&self) -> PathBuf {
        self.directory.path().join("image.tar")
    }

    /// Makes the small image under a name; another one each time, though of the same files.
    pub(crate) fn import(&self, image: &str) -> Result<()> {
        let archive = self.archive();
        let archive = archive.to_str().context("a path of a test is text")?;
        self.docker(&["import", "--change", "USER 1000:1000", archive, image])?;
        Ok(())
    }

    /// Below the directory that it keeps its data in, as it sees it.
    pub(crate) fn data(&self, name: &str) -> Result<PathBuf> {
        let data = self.directory.path().join("data").join(name);
        let data = data.strip_prefix("/").context("a whole path")?;
        Ok(Path::new("/proc").join(self.pid()?.to_string()).join("root").join(data))
    }

    /// How many of its containers run, by the machine's own word.
    pub(crate) fn running(&self) -> usize {
        self.minders().len()
    }

    /// The processes that mind its containers, one each.
    fn minders(&self) -> Vec<PathBuf> {
        let own = self.directory.path().display().to_string();
        let is_minder = |process: &PathBuf| {
            let line = fs::read(process.join("cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line);
            line.contains("containerd-shim") && line.contains(&own)
        };
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        processes.map(|entry| entry.path()).filter(is_minder).collect()
    }

    /// Every container that it knows, running or not.
    pub(crate) fn containers(&self) -> Result<Vec<String>> {
        let listed = self.docker(&["ps", "--all", "--no-trunc", "--format", "{{.ID}}"])?;
        Ok(listed.lines().map(str::to_owned).collect())
    }
}

impl Drop for OwnEngine {
    /// What containers there are end first: of a killed engine they would live on.
    fn drop(&mut self) {
        if self.process.is_some() || self.begin().is_ok() {
            for id in self.containers().unwrap_or_default() {
                drop(self.docker(&["rm", "--force", &id]));
            }
            drop(self.stop());
        }
        // Only if the engine could not: the first process of a container, then who minds it.
        for minder in self.minders() {
            let number = minder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let children = fs::read_to_string(minder.join("task").join(number).join("children"));
            for pid in children.unwrap_or_default().split_whitespace().chain([number]) {
                if let Ok(pid) = pid.parse() {
                    let _gone = kill(Pid::from_raw(pid), Signal::SIGKILL);
                }
            }
        }
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let points = mounts.lines().filter_map(|line| line.split(' ').nth(4)).map(Path::new);
        for point in points.filter(|point| point.starts_with(self.directory.path())) {
            drop(Command::new("umount").arg("--lazy").arg(point).output());
        }
    }
}

/// Makes the archive of the small image out of an unpacked Debian.
pub(crate) fn pack(rootfs: &Path, archive: &Path) -> Result<()> {
    let mut pack = Command::new("sh");
    let packed = pack.args(["-c", PACK, "sh"]).arg(rootfs).arg(archive).output()?;
    ensure!(packed.status.success(), "{}", String::from_utf8_lossy(&packed.stderr));
    Ok(())
}
