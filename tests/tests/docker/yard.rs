//! A home whose containers no other test can have, for tests of the real binary.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clawpen_tests::docker::{BASE, Place};
use clawpen_tests::home::{Home, Run};
use serde_json::Value;

use crate::container::docker;

/// For whatever a loaded machine takes its time for.
const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) struct Yard {
    pub(crate) home: Home,
    pub(crate) place: Place,
    pub(crate) prefix: String,
}

impl Yard {
    /// On the engine that all tests share.
    pub(crate) fn new(docker: &str) -> Result<Option<Self>> {
        let Some(place) = Place::new()? else { return Ok(None) };
        Self::on(place, BASE, docker).map(Some)
    }

    /// On any engine. The agent's own workspace is `work` in the home, and belongs to a user of its own.
    pub(crate) fn on(place: Place, image: &str, docker: &str) -> Result<Self> {
        let name = place.path("").display().to_string();
        let unique: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
        let prefix = format!("clawpen-test-{unique}-");
        let home = Home::new();
        let work = home.path("work");
        std::fs::create_dir(&work)?;
        std::os::unix::fs::chown(&work, Some(1000), Some(1000))?;
        let config = format!(
            "{{agents: {{defaults: {{workspace: '{}', sandbox: {{mode: 'all', backend: 'docker', \
             workspaceAccess: 'rw', docker: {{image: '{image}', containerPrefix: '{prefix}', {docker}}}}}}}}}}}",
            work.display()
        );
        Ok(Self { home: home.with_file(".openclaw/openclaw.json", &config), place, prefix })
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = self.home.command(args);
        command.env("DOCKER_HOST", format!("unix://{}", self.place.socket.display()));
        command.stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Run {
        Run::of(&mut self.command(args))
    }

    #[track_caller]
    pub(crate) fn sh(&self, script: &str) -> String {
        let run = self.run(&["exec", "--", "sh", "-c", script]);
        assert_eq!(run.code, Some(0), "{script}: {}", run.stderr);
        run.stdout
    }

    pub(crate) fn name(&self) -> String {
        format!("{}agent-main-f331f052", self.prefix)
    }

    pub(crate) fn rows(&self) -> Vec<Value> {
        let run = self.run(&["sandbox", "list", "--json"]);
        run.json()["containers"].as_array().cloned().unwrap_or_default()
    }

    /// A file of the agent's workspace, on the host.
    pub(crate) fn work(&self, name: &str) -> PathBuf {
        self.home.path("work").join(name)
    }

    /// Waits for a file of the workspace that a command makes.
    pub(crate) fn await_file(&self, name: &str) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while !self.work(name).exists() {
            ensure!(Instant::now() < deadline, "there is no `{name}`");
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// The engine's own word about our containers.
    pub(crate) fn containers(&self) -> Result<Vec<String>> {
        let filter = format!("name={}", self.prefix);
        let args = ["ps", "--all", "--no-trunc", "--filter", &filter, "--format", "{{.ID}}"];
        let listed = docker(&self.place, &args).output()?;
        Ok(String::from_utf8(listed.stdout)?.lines().map(str::to_owned).collect())
    }
}

impl Drop for Yard {
    fn drop(&mut self) {
        for id in self.containers().unwrap_or_default() {
            drop(docker(&self.place, &["rm", "--force", &id]).output());
        }
    }
}
