//! Where attacks are played: copies of the programs that everybody may run, and homes with a config.

use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use clawpen_tests::{built, docker};

use crate::user::User;

/// A directory of the host with the programs in it.
#[derive(Debug)]
pub(crate) struct Stage(tempfile::TempDir);

/// Who makes the pen, and of what kind it is.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Maker<'a> {
    Root,
    User(&'a User),
    Docker,
}

impl Stage {
    pub(crate) fn new() -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("stage").tempdir_in("/var/tmp")?;
        std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755))?;
        let stage = Self(directory);
        std::fs::create_dir(stage.path("bin"))?;
        let attacks = built("clawpen-attacks")?;
        for (name, mode) in
            [("attack", "755"), ("attack-setuid", "4755"), ("attack-capabilities", "755")]
        {
            install(&attacks, &stage.path("bin").join(name), mode)?;
        }
        let endowed = Command::new(&attacks)
            .arg("endow")
            .arg(stage.path("bin/attack-capabilities"))
            .status()?;
        ensure!(endowed.success(), "the file system keeps no capabilities");
        install(&built("clawpen-attack-pen")?, &stage.path("attack-pen"), "755")?;
        Ok(stage)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The attacks' program, on the host.
    pub(crate) fn attack(&self) -> PathBuf {
        self.path("bin/attack")
    }

    /// The program that attacks pens, with a config in its home.
    pub(crate) fn attack_pen(&self, maker: Maker<'_>) -> Result<Command> {
        let program = self.path("attack-pen");
        let (mut command, home) = match maker {
            Maker::User(user) => {
                let program = program.to_str().context("a path of a test is text")?;
                (user.command(program), user.home.clone())
            }
            Maker::Root | Maker::Docker => {
                let home = self.path(if matches!(maker, Maker::Root) { "root" } else { "docker" });
                let mut command = Command::new(program);
                command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", &home);
                (command, home)
            }
        };
        let state = home.join(".openclaw");
        std::fs::create_dir_all(&state)?;
        std::fs::write(state.join("openclaw.json"), self.config(maker))?;
        command.current_dir(&home);
        match maker {
            Maker::User(user) => {
                chown(&state, Some(user.uid), Some(user.gid))?;
                command.env("CLAWPEN_WITHOUT_CGROUP", "1");
                command.arg("native");
            }
            Maker::Root => {
                command.arg("native");
            }
            Maker::Docker => {
                command.env("DOCKER_HOST", std::env::var("DOCKER_HOST").unwrap_or_default());
                command.arg("docker");
            }
        }
        Ok(command)
    }

    /// Small limits, so that bombs reach them at once. An ordinary user may make no control group here, and
    /// the key `memory` would refuse the start.
    fn config(&self, maker: Maker<'_>) -> String {
        let own = match maker {
            Maker::User(_) => String::new(),
            Maker::Root => "memory: '256m',".to_owned(),
            Maker::Docker => {
                format!("image: '{}', user: '1000:1000', memory: '256m',", docker::BASE)
            }
        };
        format!(
            "{{agents: {{defaults: {{sandbox: {{mode: 'all', scope: 'session', docker: {{{own}
              pidsLimit: 100, tmpfs: ['/tmp:size=4m', '/var/tmp', '/run'],
              ulimits: {{nofile: {{soft: 256, hard: 256}}}}, binds: ['{}:/attacks:ro'],
              dangerouslyAllowExternalBindSources: true}}}}}}}}}}\n",
            self.path("bin").display()
        )
    }
}

/// Copies a program in a child: a copy that this process still had open could not be run.
fn install(from: &Path, to: &Path, mode: &str) -> Result<()> {
    let done = Command::new("install").args(["-m", mode]).arg(from).arg(to).status()?;
    ensure!(done.success(), "cannot copy {}", from.display());
    Ok(())
}

/// The makers that this machine has: without an engine, and none promised, native pens only.
pub(crate) fn makers(user: &User) -> Result<Vec<(&'static str, Maker<'_>)>> {
    let mut makers = vec![("root", Maker::Root), ("user", Maker::User(user))];
    if docker::Place::new()?.is_some() {
        makers.push(("docker", Maker::Docker));
    }
    Ok(makers)
}

/// Controls need it, and a user can only be made by it.
pub(crate) fn assert_root() -> Result<()> {
    use std::os::unix::fs::MetadataExt as _;
    ensure!(
        std::fs::metadata("/proc/self")?.uid() == 0,
        "the controls need root: run the tests as root, as CI does"
    );
    Ok(())
}
