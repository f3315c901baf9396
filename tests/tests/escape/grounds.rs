//! The places where a mechanism is tried, each as its users would set it up.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use clawpen_tests::canaries::Canaries;
use clawpen_tests::docker;

use crate::stage::{Maker, Stage};
use crate::user::User;

/// How an attempt went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Went {
    /// It worked.
    Open,
    Stopped,
    /// By its own word; what it needs is not here.
    CannotTry,
}

/// An attempt and what it said.
#[derive(Debug, Clone)]
pub(crate) struct Attempt {
    pub(crate) went: Went,
    pub(crate) said: String,
}

pub(crate) type Attempts = BTreeMap<String, Attempt>;

impl Attempt {
    /// From the end of the attacks' program, as [`crate::stage::Stage::attack_pen`] writes it.
    fn new(how: &str, said: &str) -> Result<Self> {
        let went = match how {
            // With process 1 the whole pen has gone.
            "0" | "pen-ended" => Went::Open,
            "20" => Went::CannotTry,
            // By its own word, or killed: by a filter, by the end of memory, for taking too long.
            "10" | "signal 9" | "signal 31" | "124" | "137" | "159" => Went::Stopped,
            other => bail!("it ended with {other}: {said}"),
        };
        let said =
            if how == "pen-ended" { format!("the pen ended: {said}") } else { said.to_owned() };
        Ok(Self { went, said })
    }

    fn of(command: &mut Command) -> Result<Self> {
        use std::os::unix::process::ExitStatusExt as _;
        let output = command.stdin(Stdio::null()).output()?;
        let how = match (output.status.code(), output.status.signal()) {
            (Some(code), _) => code.to_string(),
            (None, signal) => format!("signal {}", signal.unwrap_or(0)),
        };
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said).trim().to_owned();
        Self::new(&how, &said).with_context(|| format!("{command:?}"))
    }
}

/// Outside any pen, as root, in throw-away mount, process and host name namespaces: what an attack changes
/// there goes with them.
pub(crate) fn outside(stage: &Stage, names: &[String]) -> Result<Attempts> {
    let canaries = Canaries::new()?;
    let mut attempts = Attempts::new();
    for name in names {
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "--propagation", "private", "--pid", "--fork", "--mount-proc"])
            .args(["--uts", "timeout", "--signal=KILL", "20"])
            .arg(stage.attack())
            .args(["company", name])
            .env("CONTROL", "1")
            .env("ATTACK_DIRECTORY", "/var/tmp")
            .envs(canaries.variables().iter().cloned());
        attempts.insert(name.clone(), Attempt::of(&mut command)?);
        canaries.tidy();
    }
    ensure_unharmed(&canaries)?;
    Ok(attempts)
}

/// In pens of ours.
pub(crate) fn pens(stage: &Stage, maker: Maker<'_>) -> Result<Attempts> {
    let canaries = Canaries::new()?;
    let mut command = stage.attack_pen(maker)?;
    command
        .arg("attacks")
        .env("ATTACK_DIRECTORY", "/workspace")
        .envs(canaries.variables().iter().cloned());
    let output = command.stdin(Stdio::null()).output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "{maker:?}: {said}");
    let mut attempts = Attempts::new();
    read_lines(&String::from_utf8(output.stdout)?, &mut attempts)?;
    ensure_unharmed(&canaries)?;
    Ok(attempts)
}

/// In `bwrap --unshare-all` with the mounts of a native pen, by an ordinary user.
pub(crate) fn bwrap(stage: &Stage, user: &User, names: &[String]) -> Result<Attempts> {
    let canaries = Canaries::new()?;
    let workspace = user.home.join("bwrap-workspace");
    std::fs::create_dir_all(&workspace)?;
    std::os::unix::fs::chown(&workspace, Some(user.uid), Some(user.gid))?;
    let run = |words: &[&str]| {
        let mut command = user.command("bwrap");
        command.args(["--unshare-all", "--die-with-parent", "--ro-bind", "/usr", "/usr"]);
        for directory in ["bin", "sbin", "lib", "lib32", "lib64", "libx32"] {
            let path = Path::new("/").join(directory);
            if let Ok(to) = std::fs::read_link(&path) {
                command.arg("--symlink").arg(to).arg(path);
            } else if path.is_dir() {
                command.arg("--ro-bind").arg(&path).arg(&path);
            }
        }
        command.args(["--proc", "/proc", "--dev", "/dev"]);
        for memory in ["/tmp", "/var/tmp", "/run", "/etc"] {
            command.args(["--tmpfs", memory]);
        }
        command.arg("--ro-bind").arg(stage.path("bin")).arg("/attacks");
        command.arg("--bind").arg(&workspace).args(["/workspace", "--chdir", "/workspace"]);
        command.arg("/attacks/attack").args(words);
        command.env("ATTACK_DIRECTORY", "/workspace").envs(canaries.variables().iter().cloned());
        command
    };
    let _neighbour = Ended(run(&["neighbour"]).stdout(Stdio::null()).spawn()?);
    let attempts = each(names, |done| Ok(run(&["each", done])))?;
    ensure_unharmed(&canaries)?;
    Ok(attempts)
}

/// In a container of `docker run` with nothing but the workspace asked for, as root, which is what an image
/// without a user of its own gives. Commands enter by `docker exec`.
pub(crate) fn docker_run(stage: &Stage, names: &[String]) -> Result<Attempts> {
    let canaries = Canaries::new()?;
    let containers = Containers::new(stage.path("bin"), stage.path("docker-workspace"), &canaries)?;
    containers.start("neighbour", &["/attacks/attack", "neighbour"])?;
    let attempts = each(names, |done| {
        containers.remove("attacked")?;
        containers.start("attacked", &["sleep", "infinity"])?;
        let mut command = containers.docker(&["exec", "--workdir", "/workspace"]);
        command.arg(Containers::name("attacked")).args(["/attacks/attack", "each", done]);
        Ok(command)
    })?;
    ensure_unharmed(&canaries)?;
    Ok(attempts)
}

/// Runs all mechanisms in one sandbox. One that ends the sandbox has worked; the rest go into the next.
fn each(names: &[String], sandbox: impl Fn(&str) -> Result<Command>) -> Result<Attempts> {
    let mut attempts = Attempts::new();
    let mut done = "";
    while attempts.len() < names.len() {
        let mut command = sandbox(done)?;
        let output = command.stdin(Stdio::null()).output()?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let before = attempts.len();
        read_lines(&String::from_utf8_lossy(&output.stdout), &mut attempts)?;
        ensure!(attempts.len() > before || before > 0, "{command:?} did not start: {said}");
        let next = names.iter().find(|name| !attempts.contains_key(*name));
        if let Some(name) = next {
            let said = format!("the sandbox ended: {}", said.trim());
            attempts.insert(name.clone(), Attempt { went: Went::Open, said });
            done = name;
        }
    }
    Ok(attempts)
}

/// Lines of a name, how it ended and what it said.
fn read_lines(text: &str, attempts: &mut Attempts) -> Result<()> {
    for line in text.lines() {
        let parts: Vec<&str> = line.splitn(3, '\t').collect();
        let [name, how, said] = parts.as_slice() else { bail!("an odd line: {line}") };
        let attempt = Attempt::new(how, said).with_context(|| (*name).to_owned())?;
        attempts.insert((*name).to_owned(), attempt);
    }
    Ok(())
}

fn ensure_unharmed(canaries: &Canaries) -> Result<()> {
    let damage = canaries.damage();
    ensure!(damage.is_empty(), "the host was harmed: {damage:?}");
    Ok(())
}

/// A process that is killed in the end.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Containers of `docker run`, removed in the end.
struct Containers {
    attacks: PathBuf,
    workspace: PathBuf,
    variables: Vec<String>,
}

impl Containers {
    fn new(attacks: PathBuf, workspace: PathBuf, canaries: &Canaries) -> Result<Self> {
        std::fs::create_dir_all(&workspace)?;
        let own = [("ATTACK_DIRECTORY", "/workspace".to_owned())];
        let all = canaries.variables().iter().cloned().chain(own);
        let variables = all.map(|(name, value)| format!("{name}={value}")).collect();
        Ok(Self { attacks, workspace, variables })
    }

    fn name(role: &str) -> String {
        format!("clawpen-test-rival-{role}-{}", std::process::id())
    }

    fn docker(&self, words: &[&str]) -> Command {
        let mut command = Command::new("docker");
        command.args(words);
        if words.first() != Some(&"rm") {
            command.args(self.variables.iter().flat_map(|variable| ["--env", variable]));
        }
        command
    }

    fn start(&self, role: &str, words: &[&str]) -> Result<()> {
        let mut command = self.docker(&["run", "--detach", "--user", "0"]);
        command.arg("--name").arg(Self::name(role));
        command.arg("--volume").arg(format!("{}:/attacks:ro", self.attacks.display()));
        command.arg("--volume").arg(format!("{}:/workspace", self.workspace.display()));
        let output = command.arg(docker::BASE).args(words).output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }

    fn remove(&self, role: &str) -> Result<()> {
        self.docker(&["rm", "--force"]).arg(Self::name(role)).output()?;
        Ok(())
    }
}

impl Drop for Containers {
    fn drop(&mut self) {
        for role in ["neighbour", "attacked"] {
            let _ = self.remove(role);
        }
    }
}
