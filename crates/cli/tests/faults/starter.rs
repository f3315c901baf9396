//! Whoever starts the sandboxes: root, or an ordinary user with or without subordinate ids.
//!
//! The user is a number that no machine has. What `/etc` says about him is laid over the host's files in a
//! mount namespace of his own, so nothing of the host changes.

use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Nobody's number.
const UID: u32 = 54_321;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who {
    Root,
    UserWithRange,
    UserWithout,
}

pub(crate) struct Starter {
    pub(crate) who: Who,
    home: tempfile::TempDir,
}

impl Starter {
    /// A home with this config. The binary is copied there: the user may not reach ours.
    pub(crate) fn new(who: Who, config: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        std::fs::set_permissions(home.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let starter = Self { who, home };
        let install = Command::new("install")
            .arg(env!("CARGO_BIN_EXE_clawpen"))
            .arg(starter.path("clawpen"))
            .status();
        assert!(install.unwrap().success());
        std::fs::create_dir(starter.path("state")).unwrap();
        std::fs::write(starter.path("state/openclaw.json"), config).unwrap();
        let range = match who {
            Who::UserWithRange => format!("{UID}:900000000:65536\n"),
            Who::Root | Who::UserWithout => String::new(),
        };
        std::fs::write(starter.path("subids"), range).unwrap();
        let users = std::fs::read_to_string("/etc/passwd").unwrap();
        let user = format!("{users}pen-tester:x:{UID}:{UID}::/nonexistent:/bin/sh\n");
        std::fs::write(starter.path("passwd"), user).unwrap();
        if who != Who::Root {
            for path in ["state", "state/openclaw.json"] {
                chown(starter.path(path), Some(UID), Some(UID)).unwrap();
            }
        }
        starter
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// Runs the binary with a fault: its code, what it wrote, what it said.
    pub(crate) fn run(&self, args: &[&str], fault: &str) -> (Option<i32>, String, String) {
        let mut command = match self.who {
            Who::Root => Command::new(self.path("clawpen")),
            Who::UserWithRange | Who::UserWithout => self.as_user(),
        };
        command
            .args(args)
            .env("OPENCLAW_STATE_DIR", self.path("state"))
            .env("OPENCLAW_CONFIG_PATH", self.path("state/openclaw.json"))
            .env("CLAWPEN_FAULT", fault)
            .current_dir(self.home.path());
        let output = command.output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    }

    fn as_user(&self) -> Command {
        let script = "cd \"$1\" && shift && mount --bind subids /etc/subuid && \
                      mount --bind subids /etc/subgid && mount --bind passwd /etc/passwd && \
                      exec setpriv --reuid 54321 --regid 54321 --groups 54322 -- \"$@\"";
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-c", script, "sh"]);
        command.arg(self.home.path()).arg(self.path("clawpen"));
        command
    }
}

impl Drop for Starter {
    fn drop(&mut self) {
        // Sandboxes outlive whoever asked for them, and would outlive the test.
        self.run(&["sandbox", "remove", "--all", "--force"], "");
    }
}

/// Makes sure that the files to lay something over are there.
pub(crate) fn needs_root() {
    use std::os::unix::fs::MetadataExt as _;
    let me = std::fs::metadata("/proc/self").unwrap().uid();
    assert_eq!(me, 0, "these tests start pens as several users: run them as root, as CI does");
    for file in ["/etc/subuid", "/etc/subgid"] {
        assert!(Path::new(file).exists(), "{file} is missing; install the package `uidmap`");
    }
}
