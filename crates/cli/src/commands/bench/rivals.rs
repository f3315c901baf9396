//! What ours is measured beside: a plain process, bwrap with the same mounts, docker by its
//! command line. Started the cheapest way there is (the standard library spawns without a fork).

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{BenchError, program, system};

/// A command whose start to end is measured.
pub(super) struct Rival {
    pub(super) name: &'static str,
    program: PathBuf,
    arguments: Vec<String>,
}

impl Rival {
    pub(super) fn run(&self) -> Result<(), BenchError> {
        let status = Command::new(&self.program)
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .map_err(system("start a rival"))?;
        if status.success() { Ok(()) } else { Err(BenchError::NotTrue) }
    }
}

/// `true` as any program starts it.
pub(super) fn plain() -> Rival {
    Rival { name: "fork+exec", program: "/bin/true".into(), arguments: Vec::new() }
}

/// `bwrap --unshare-all` with the mounts that a pen has; `None` if it is missing or does not work.
pub(super) fn bwrap(workspace: &Path) -> Option<Rival> {
    let mut arguments: Vec<String> =
        ["--unshare-all", "--die-with-parent", "--as-pid-1"].map(str::to_owned).into();
    let mut push = |words: &[&str]| arguments.extend(words.iter().map(|word| (*word).to_owned()));
    push(&["--ro-bind", "/usr", "/usr"]);
    for name in ["bin", "sbin", "lib", "lib32", "lib64", "libx32"] {
        let path = Path::new("/").join(name);
        let place = format!("/{name}");
        match std::fs::read_link(&path) {
            Ok(to) => push(&["--symlink", &to.to_string_lossy(), &place]),
            Err(_) if path.is_dir() => push(&["--ro-bind", &place, &place]),
            Err(_) => {}
        }
    }
    for place in ["/etc/alternatives", "/etc/ld.so.conf.d", "/etc/ssl/certs", "/etc/ld.so.cache"] {
        push(&["--ro-bind-try", place, place]);
    }
    push(&["--dev", "/dev", "--proc", "/proc"]);
    for place in ["/tmp", "/var/tmp", "/run", "/dev/shm"] {
        push(&["--tmpfs", place]);
    }
    push(&["--bind", &workspace.to_string_lossy(), "/workspace", "--chdir", "/workspace"]);
    push(&["--cap-drop", "ALL", "/bin/true"]);
    let rival = Rival { name: "bwrap", program: program("bwrap")?, arguments };
    rival.run().is_ok().then_some(rival)
}

/// A running container to exec into by the command line, removed with the value.
pub(super) struct DockerCli {
    docker: PathBuf,
    name: String,
}

impl DockerCli {
    /// The reason is for people.
    pub(super) fn start(image: &str) -> Result<Self, String> {
        let docker = program("docker").ok_or("docker is not installed")?;
        let name = format!("clawpen-bench-{}", std::process::id());
        let output = Command::new(&docker)
            .args(["run", "-d", "--rm", "--network", "none", "--name", &name, image])
            .args(["sleep", "600"])
            .output()
            .map_err(|error| error.to_string())?;
        if output.status.success() {
            return Ok(Self { docker, name });
        }
        let said = String::from_utf8_lossy(&output.stderr);
        Err(said.lines().next().unwrap_or("docker run failed").to_owned())
    }

    pub(super) fn exec(&self) -> Rival {
        let arguments = ["exec", &self.name, "/bin/true"].map(str::to_owned).into();
        Rival { name: "docker exec", program: self.docker.clone(), arguments }
    }
}

impl Drop for DockerCli {
    fn drop(&mut self) {
        // It was started with --rm and ends by itself if this fails.
        let _left = Command::new(&self.docker)
            .args(["rm", "-f", &self.name])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
    }
}
