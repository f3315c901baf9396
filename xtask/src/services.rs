//! The real things that tests run against: Docker, Podman, their images, rivals to compare with.
//!
//! [`Services::start`] makes sure of all of them and [`Services::stop`] leaves the machine as it was,
//! except for Debian packages that were missing and the cache below `target/services`:
//!
//! ```text
//! target/services/lock            one run at a time
//!                 docker/         data of the engine we start, and its log
//!                 podman/         the same for Podman, which is always one of our own
//!                 base-<recipe>/  an unpacked Debian, made once
//!                 scratch-<…>     one static program, made once
//!                 browser/        what making the browser image leaves: its log
//! ```
//!
//! An engine that already answers is used and left running. Nothing here is guessed: what is missing
//! and cannot be installed fails with its name.

mod engine;
mod images;
mod packages;

use std::fs::{self, File, TryLockError};
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::{Context as _, Result, bail};

use self::engine::Engine;
use crate::tools::{root, run_through, works};

/// Everything tests may need, running.
#[derive(Debug)]
pub(crate) struct Services {
    engine: Engine,
    podman: Engine,
    rootfs: PathBuf,
    /// Held until the end: a second run would share the engine that we stop.
    _lock: File,
}

/// `cargo xtask services [COMMAND…]`: runs a command, or a shell, while the services run.
pub(crate) fn run(args: &[String]) -> Result<ExitCode> {
    let services = Services::start()?;
    let shell = std::env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into());
    let mut command = match args.split_first() {
        Some((program, rest)) => {
            let mut command = Command::new(program);
            command.args(rest);
            command
        }
        None => Command::new(shell),
    };
    let code = run_through(services.known_to(&mut command));
    services.stop()?;
    code
}

impl Services {
    /// Installs, starts and builds what is missing.
    pub(crate) fn start() -> Result<Self> {
        let directory = directory()?;
        let lock = locked(&directory)?;
        timed("packages", packages::ensure)?;
        let engine = timed("docker engine", || Engine::start(&directory.join("docker")))?;
        println!("  {engine}");
        let rootfs = timed("base image", || images::base(&engine, &directory))?;
        timed("scratch image", || images::scratch(&engine, &directory))?;
        let podman = timed("podman engine", || Engine::podman(&directory.join("podman")))?;
        println!("  {podman}");
        timed("base image of podman", || images::base(&podman, &directory))?;
        Ok(Self { engine, podman, rootfs, _lock: lock })
    }

    /// Makes sure of the browser image, by the program that people make it with: 1 GB, so only for those who need it.
    pub(crate) fn add_browser(&self) -> Result<()> {
        let directory = directory()?;
        timed("browser image", || images::browser(&self.engine, &directory))
    }

    /// Tells a command where the services are, and that a test must not skip what it needs.
    pub(crate) fn known_to<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command
            .env("DOCKER_HOST", self.engine.host())
            .env("CLAWPEN_TEST_PODMAN", self.podman.host())
            .env("CLAWPEN_TEST_ROOTFS", &self.rootfs)
            .env("CLAWPEN_TEST_SERVICES", "1")
    }

    /// Stops what [`Services::start`] started.
    pub(crate) fn stop(self) -> Result<()> {
        self.podman.stop()?;
        self.engine.stop()
    }
}

fn directory() -> Result<PathBuf> {
    let directory = root().join("target/services");
    fs::create_dir_all(&directory).with_context(|| directory.display().to_string())?;
    Ok(directory)
}

/// Waits until no other run uses the directory.
fn locked(directory: &std::path::Path) -> Result<File> {
    let path = directory.join("lock");
    let lock = File::create(&path).with_context(|| path.display().to_string())?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            println!("another run uses {}; waiting for its end", directory.display());
            lock.lock().with_context(|| format!("cannot lock {}", path.display()))?;
        }
        Err(TryLockError::Error(error)) => {
            return Err(error).with_context(|| format!("cannot lock {}", path.display()));
        }
    }
    Ok(lock)
}

fn timed<T>(what: &str, step: impl FnOnce() -> Result<T>) -> Result<T> {
    let start = Instant::now();
    let made = step()?;
    println!("  {:7.1} s  {what}", start.elapsed().as_secs_f64());
    Ok(made)
}

/// Runs a command whose output matters only if it fails.
fn quiet(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("cannot start {command:?}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        bail!("{command:?} failed ({}): {}", output.status, said.trim());
    }
    Ok(())
}
