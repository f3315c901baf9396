//! Every built-in value, with its reason.
//!
//! Names and values are the reference's, so that an existing config means what it always meant;
//! the reason given is why the value is also the right one.

use super::sandbox::{SandboxMode, Scope, WorkspaceAccess};

/// A config that says nothing about sandboxes gets none: turning them on is the user's step.
pub const MODE: SandboxMode = SandboxMode::Off;
/// The engine most machines have.
pub const BACKEND: &str = "docker";
/// One agent's sessions trust each other; agents do not.
pub const SCOPE: Scope = Scope::Agent;
/// A sandbox sees nothing of the agent's files until the config says so.
pub const WORKSPACE_ACCESS: WorkspaceAccess = WorkspaceAccess::None;
/// Sandbox workspaces lie here, below the state directory: they must outlive the process.
pub const WORKSPACE_ROOT: &str = "sandboxes";

/// Our own image, never one that a registry could swap.
pub const IMAGE: &str = "openclaw-sandbox:bookworm-slim";
/// Marks the containers that are ours; the reference's, so that both see the same ones.
pub const CONTAINER_PREFIX: &str = "openclaw-sbx-";
/// Where the workspace is mounted; the file tools and the prompt speak of this path.
pub const WORKDIR: &str = "/workspace";
/// What a command installs into the system would be lost anyway, so it is refused at once.
pub const READ_ONLY_ROOT: bool = true;
/// The places that ordinary programs must be able to write with a read-only root.
pub const TMPFS: [&str; 3] = ["/tmp", "/var/tmp", "/run"];
/// No network: the one default that stops data from leaving.
pub const NETWORK: &str = "none";
/// Ordinary commands need no capability.
pub const CAP_DROP: [&str; 1] = ["ALL"];
/// Without it many tools print non-ASCII text as question marks.
pub const ENV: [(&str, &str); 1] = [("LANG", "C.UTF-8")];

/// Found on the search path: the user's own client, with the user's own version.
pub const SSH_COMMAND: &str = "ssh";
/// The one directory that every remote user may write.
pub const SSH_WORKSPACE_ROOT: &str = "/tmp/openclaw-sandboxes";
/// An unknown host is refused, not trusted.
pub const SSH_STRICT_HOST_KEY_CHECKING: bool = true;
/// A known host may announce its next key.
pub const SSH_UPDATE_HOST_KEYS: bool = true;

/// A browser costs a container of its own.
pub const BROWSER_ENABLED: bool = false;
/// Our own browser image.
pub const BROWSER_IMAGE: &str = "openclaw-sandbox-browser:bookworm-slim";
/// Tells browsers from shells by name.
pub const BROWSER_CONTAINER_PREFIX: &str = "openclaw-sbx-browser-";
/// A bridge of its own: a browser needs the network, the shells on the default bridge need not
/// reach it.
pub const BROWSER_NETWORK: &str = "openclaw-sandbox-browser";
/// Chromium's usual port, inside the container.
pub const BROWSER_CDP_PORT: f64 = 9222.0;
/// The usual VNC port, inside the container.
pub const BROWSER_VNC_PORT: f64 = 5900.0;
/// The usual noVNC port, inside the container.
pub const BROWSER_NO_VNC_PORT: f64 = 6080.0;
/// With a display, so that a human can watch.
pub const BROWSER_HEADLESS: bool = false;
/// A human can watch.
pub const BROWSER_ENABLE_NO_VNC: bool = true;
/// The browser of the host is the user's, not the agent's.
pub const BROWSER_ALLOW_HOST_CONTROL: bool = false;
/// Started with the session, because its first page takes seconds.
pub const BROWSER_AUTO_START: bool = true;
/// Chromium on a slow disk takes up to ten seconds.
pub const BROWSER_AUTO_START_TIMEOUT_MS: f64 = 12_000.0;
/// Part of the browser's fingerprint: raised when the way a browser is locked down changes, so
/// that none is kept that lacks the change.
pub const BROWSER_SECURITY_EPOCH: &str = "2026-02-28-no-sandbox-env";

/// A day: work is often taken up again the next morning.
pub const PRUNE_IDLE_HOURS: f64 = 24.0;
/// A week: images and packages in it are stale by then.
pub const PRUNE_MAX_AGE_DAYS: f64 = 7.0;
