//! An ordinary user, made for one test and removed after it.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

/// A user of the host with a home and a range of subordinate ids, and no right besides.
#[derive(Debug)]
pub(crate) struct User {
    name: String,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) home: PathBuf,
}

impl User {
    /// Makes one. `useradd` sets the ids aside that `newuidmap` will give out.
    pub(crate) fn new(role: &str) -> Result<Self> {
        let name = format!("clawpen-{role}-{}", std::process::id());
        let words = ["--create-home", "--user-group", "--shell", "/bin/sh", &name];
        patiently("/usr/sbin/useradd", &words)?;
        let users = std::fs::read_to_string("/etc/passwd")?;
        let line = users.lines().find(|line| line.starts_with(&format!("{name}:")));
        let fields: Vec<&str> = line.context("the new user is not listed")?.split(':').collect();
        let [_, _, uid, gid, _, home, ..] = fields.as_slice() else {
            anyhow::bail!("an odd line in /etc/passwd: {fields:?}");
        };
        let user = Self { uid: uid.parse()?, gid: gid.parse()?, home: home.into(), name };
        let aside = std::fs::read_to_string("/etc/subuid").unwrap_or_default();
        let has_range = aside.lines().any(|line| line.starts_with(&format!("{}:", user.name)));
        ensure!(has_range, "`{}` has no subordinate ids", user.name);
        Ok(user)
    }

    /// The same command as this user, with nothing of ours.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new("setpriv");
        command
            .args([&format!("--reuid={}", self.uid), &format!("--regid={}", self.gid)])
            .args(["--clear-groups", "--inh-caps=-all", program])
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", &self.home)
            .current_dir(&self.home);
        command
    }
}

impl Drop for User {
    fn drop(&mut self) {
        let _ = patiently("/usr/sbin/userdel", &["--remove", &self.name]);
    }
}

/// The files of users have one lock, and tests run side by side: while another has it, try again.
fn patiently(program: &str, words: &[&str]) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let done = Command::new(program).args(words).output().context("package `passwd`")?;
        if done.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        ensure!(said.contains("lock") && Instant::now() < deadline, "{program}: {said}");
        std::thread::sleep(Duration::from_millis(100));
    }
}
