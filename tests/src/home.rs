//! A throw-away home to run the real binary in.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use crate::replay::explain::binary;

/// A home directory with a state directory; removed when dropped.
#[derive(Debug)]
pub struct Home {
    directory: tempfile::TempDir,
}

impl Default for Home {
    fn default() -> Self {
        Self::new()
    }
}

impl Home {
    /// An empty home.
    ///
    /// # Panics
    /// If the machine cannot make a temporary directory.
    #[expect(clippy::expect_used, reason = "a test without a directory cannot go on")]
    pub fn new() -> Self {
        let directory =
            tempfile::Builder::new().prefix("pen").tempdir().expect("temporary directory");
        std::fs::create_dir(directory.path().join(".openclaw")).expect("state directory");
        Self { directory }
    }

    /// An empty home below a directory that only root writes to. Whoever may not has one like any other.
    ///
    /// # Panics
    /// If the machine cannot make a temporary directory.
    #[expect(clippy::expect_used, reason = "a test without a directory cannot go on")]
    pub fn below(directory: &Path) -> Self {
        let Ok(directory) = tempfile::Builder::new().prefix("pen").tempdir_in(directory) else {
            return Self::new();
        };
        std::fs::create_dir(directory.path().join(".openclaw")).expect("state directory");
        Self { directory }
    }

    /// A home with this config.
    pub fn with_config(text: &str) -> Self {
        Self::new().with_file(".openclaw/openclaw.json", text)
    }

    /// Adds a file, relative to the home.
    ///
    /// # Panics
    /// If it cannot be written.
    #[must_use]
    #[expect(clippy::expect_used, reason = "a test without its file cannot go on")]
    pub fn with_file(self, path: &str, text: &str) -> Self {
        let path = self.path(path);
        let parent = path.parent().expect("a file has a parent");
        std::fs::create_dir_all(parent).expect("directory");
        std::fs::write(path, text).expect("file");
        self
    }

    /// A path below the home.
    pub fn path(&self, path: &str) -> PathBuf {
        self.directory.path().join(path)
    }

    /// The binary in this home, without any other environment.
    ///
    /// # Panics
    /// If it has not been built.
    #[expect(clippy::expect_used, reason = "a test without the binary cannot go on")]
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(binary().expect("the clawpen binary"));
        command
            .args(args)
            .env_clear()
            .env("HOME", self.directory.path())
            .env("PATH", "/usr/bin:/bin");
        command.current_dir(self.directory.path());
        command
    }

    /// Runs the binary.
    pub fn run(&self, args: &[&str]) -> Run {
        Run::of(&mut self.command(args))
    }
}

impl Drop for Home {
    /// Sandboxes outlive whoever made them; those of a test go with it.
    fn drop(&mut self) {
        if self.path(".openclaw/clawpen/clawpen.db").exists()
            && let Ok(binary) = binary()
        {
            let mut command = Command::new(binary);
            command.args(["sandbox", "remove", "--all", "--force"]).env_clear();
            command.env("HOME", self.directory.path()).env("PATH", "/usr/bin:/bin");
            command.envs(std::env::var_os("DOCKER_HOST").map(|host| ("DOCKER_HOST", host)));
            // A test that broke its own state on purpose has nothing that could be listed.
            drop(command.output());
        }
    }
}

/// What a run came to.
#[derive(Debug)]
pub struct Run {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Run {
    /// Runs a prepared command.
    ///
    /// # Panics
    /// If it cannot be started.
    #[expect(clippy::expect_used, reason = "a test without its program cannot go on")]
    pub fn of(command: &mut Command) -> Self {
        let Output { status, stdout, stderr } = command.output().expect("the binary starts");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8 output");
        Self { code: status.code(), stdout: text(stdout), stderr: text(stderr) }
    }

    /// The output as JSON.
    ///
    /// # Panics
    /// If it is none.
    #[expect(clippy::expect_used, reason = "a test that expects JSON fails on anything else")]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).expect("JSON output")
    }
}
