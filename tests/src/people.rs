//! Ordinary users, as they stand before the real binary.
//!
//! A person has a number that nobody has here. What the machine knows of them is laid over the host's files in
//! a mount namespace of their own, so that nothing of the host changes. Making one needs root.

use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::home::Run;
use crate::replay::explain::binary;

/// The number of every person; no machine gives it to anyone.
pub const UID: u32 = 54_321;
/// Their name.
pub const NAME: &str = "pen-tester";

/// Somebody with a home, a copy of the binary, and what `/etc` says of them.
#[derive(Debug)]
pub struct Person {
    home: tempfile::TempDir,
    /// What is laid over what: a file in the home, a file of the host.
    overlays: Vec<(String, PathBuf)>,
}

impl Person {
    /// Somebody for whom `/etc/subuid` and `/etc/subgid` say `ids`.
    pub fn new(ids: &str) -> Result<Self> {
        let home = tempfile::Builder::new().prefix("pen").tempdir()?;
        std::fs::set_permissions(home.path(), std::fs::Permissions::from_mode(0o755))?;
        let mut person = Self { home, overlays: Vec::new() };
        person.install(&binary()?, "clawpen")?;
        std::fs::create_dir(person.path(".openclaw"))?;
        let users = std::fs::read_to_string("/etc/passwd")?;
        let line = format!("{NAME}:x:{UID}:{UID}::/nonexistent:/bin/sh\n");
        person.lay_over("/etc/passwd", &format!("{users}{line}"))?;
        person.lay_over("/etc/subuid", ids)?;
        person.lay_over("/etc/subgid", ids)?;
        person.owns(".openclaw")?;
        chown(person.path(""), Some(UID), Some(UID))?;
        Ok(person)
    }

    /// A file of the host reads differently for this person.
    pub fn lay_over(&mut self, target: &str, text: &str) -> Result<()> {
        let name = format!("over{}", self.overlays.len());
        std::fs::write(self.path(&name), text)?;
        self.overlays.push((name, target.into()));
        Ok(())
    }

    /// A program of the host is a copy without its special power.
    pub fn without_power(&mut self, program: &Path) -> Result<()> {
        let name = format!("over{}", self.overlays.len());
        self.install(program, &name)?;
        self.overlays.push((name, program.to_owned()));
        Ok(())
    }

    fn install(&self, from: &Path, name: &str) -> Result<()> {
        let mut install = Command::new("install");
        let status = install.args(["-m", "755"]).arg(from).arg(self.path(name)).status()?;
        ensure!(status.success(), "cannot copy {}", from.display());
        Ok(())
    }

    /// A path below their home.
    pub fn path(&self, path: &str) -> PathBuf {
        self.home.path().join(path)
    }

    /// Gives them a file or directory of their home.
    pub fn owns(&self, path: &str) -> Result<()> {
        let path = self.path(path);
        chown(&path, Some(UID), Some(UID)).with_context(|| path.display().to_string())
    }

    /// Writes a file of theirs.
    pub fn write(&self, path: &str, text: &str) -> Result<()> {
        std::fs::write(self.path(path), text)?;
        self.owns(path)
    }

    /// Runs the binary as this person.
    pub fn run(&self, args: &[&str]) -> Run {
        let overlays = self.overlays.iter();
        let overlays =
            overlays.map(|(name, target)| format!("mount --bind {name} {}", target.display()));
        let ids = format!("--reuid {UID} --regid {UID} --groups 54322");
        let steps: Vec<String> = ["cd \"$1\"".to_owned(), "shift".to_owned()]
            .into_iter()
            .chain(overlays)
            .chain([format!("exec setpriv {ids} -- ./clawpen \"$@\"")])
            .collect();
        let script = steps.join(" && ");
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-c", &script, "sh"]);
        command.arg(self.home.path()).args(args);
        command
            .env_clear()
            .env("HOME", self.home.path())
            .env("PATH", "/usr/bin:/bin:/usr/sbin:/sbin");
        Run::of(&mut command)
    }
}
