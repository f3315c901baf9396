//! Debian packages that the tests' services come from.
//!
//! Installed only when a program is missing, and only where that is allowed: as root, with
//! `apt-get`. Everyone else is told what to install.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};
use nix::unistd::geteuid;

use crate::tools::run;

/// A program we run and the package that brings it.
const NEEDED: &[(&str, &str)] = &[
    ("docker", "docker.io"),
    ("dockerd", "docker.io"),
    ("ip", "iproute2"),
    ("mmdebstrap", "mmdebstrap"),
    ("bwrap", "bubblewrap"),
    ("newuidmap", "uidmap"),
    ("podman", "podman"),
    ("rootlesskit", "rootlesskit"),
    ("systemd-analyze", "systemd"),
];
/// Where programs of root are; the path of an ordinary login leaves these out.
const ALSO: &[&str] = &["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// Makes sure that every program is there.
pub(super) fn ensure() -> Result<()> {
    let mut packages: Vec<&str> = missing().into_iter().map(|(_, package)| package).collect();
    packages.dedup();
    if packages.is_empty() {
        return Ok(());
    }
    let list = packages.join(" ");
    if !geteuid().is_root() || find("apt-get").is_none() {
        bail!("missing: {list}; install them with `apt-get install -y {list}` as root");
    }
    // A fresh machine has no package lists yet, and an old one has lists that lead nowhere.
    if install(&packages).is_err() {
        run(apt_get().args(["update", "--quiet"]))?;
        install(&packages)?;
    }
    match missing().first() {
        None => Ok(()),
        Some((program, package)) => {
            bail!("`{program}` is still missing though `{package}` is installed")
        }
    }
}

/// The path of a program.
pub(super) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories = std::env::split_paths(&path).chain(ALSO.iter().map(PathBuf::from));
    directories.map(|directory| directory.join(program)).find(|path| is_program(path))
}

fn missing() -> Vec<(&'static str, &'static str)> {
    NEEDED.iter().filter(|(program, _)| find(program).is_none()).copied().collect()
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

fn install(packages: &[&str]) -> Result<()> {
    let install = ["install", "--quiet", "-y", "--no-install-recommends"];
    run(apt_get().args(install).args(packages))
}

fn apt_get() -> Command {
    let mut command = Command::new("apt-get");
    command.env("DEBIAN_FRONTEND", "noninteractive");
    command
}
