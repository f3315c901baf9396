//! The text of the unit files. What is left out is left out for a reason, and the reason stands in the file.

use std::path::Path;

/// How our files begin; others are never removed.
pub(super) const MARK: &str = "# Written by `clawpen service install`";

/// The file of variables, as it begins.
pub(super) const VARIABLES: &str =
    "# Variables of the gateway, one NAME=value a line; only you can read this file.
# Keys of models stay out of sandboxes, logs and records.
#OPENAI_API_KEY=
#ANTHROPIC_API_KEY=
#GEMINI_API_KEY=
#OPENCLAW_GATEWAY_PORT=18789
#DOCKER_HOST=unix:///run/docker.sock
";

/// Whose service it is.
pub(super) enum Owner {
    User,
    System { name: String, groups: Groups },
}

/// Groups besides the user's own.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Groups {
    None,
    Docker,
    /// There is no such group; with its line the service would not start.
    DockerLater,
}

pub(super) struct Unit<'a> {
    pub(super) program: &'a str,
    pub(super) variables: &'a Path,
    pub(super) owner: &'a Owner,
}

/// The text; `None` if a path cannot be written in one.
pub(super) fn text(unit: &Unit<'_>) -> Option<String> {
    let program = quoted(unit.program)?;
    // No quotes here: systemd takes the rest of the line as it is, but for `%`.
    let variables = plain(unit.variables.to_str()?)?;
    let (after, owner, wanted_by) = match unit.owner {
        Owner::User => ("network.target", user_part(), "default.target"),
        Owner::System { name, groups } => (
            "network-online.target docker.service\nWants=network-online.target",
            system_part(name, *groups),
            "multi-user.target",
        ),
    };
    Some(format!(
        "{MARK}; `clawpen service uninstall` takes it away.
[Unit]
Description=Clawpen gateway: AI agents in a pen
After={after}
StartLimitIntervalSec=60
StartLimitBurst=5

[Service]
Type=exec
# A config is written if there is none; a broken one stops the start.
ExecStartPre={program} up --no-start
ExecStart={program} gateway
ExecReload=/bin/kill -USR1 $MAINPID
EnvironmentFile=-{variables}
Restart=on-failure
RestartSec=2

# Sandboxes outlive the gateway: only its own process is ended with the service, and one that runs out of memory
# takes nobody along.
KillMode=process
OOMPolicy=continue
TimeoutStopSec=20

# Pens get limits of their own below this unit. (DelegateSubgroup: systemd 254 and newer; older ones say that they ignore it.)
Delegate=yes
DelegateSubgroup=gateway
TasksMax=infinity
LimitNOFILE=524288

{owner}
[Install]
WantedBy={wanted_by}
"
    ))
}

fn user_part() -> String {
    "UMask=0077
WorkingDirectory=-%h/.openclaw

# Not set, because native pens would break or lose more than the gateway wins:
#   NoNewPrivileges, and what implies it here (SystemCallFilter=, Restrict…=, LockPersonality=, Protect…=, Private…=):
#     newuidmap could not give a pen ids of its own
#   RestrictNamespaces: a pen is made of namespaces
#   ProtectKernelTunables, ProtectProc, ProcSubset: with part of /proc covered the kernel lets no pen mount its own
#   ProtectControlGroups: limits could not be kept
NoNewPrivileges=no
"
    .to_owned()
}

fn system_part(name: &str, groups: Groups) -> String {
    let docker = match groups {
        Groups::None => "# Not in the group docker: only native pens.\n".to_owned(),
        Groups::Docker => "# For the backend docker. Members of this group are as good as root: leave it out for native pens alone.
SupplementaryGroups=docker
"
        .to_owned(),
        Groups::DockerLater => "# For the backend docker, once there is such a group; its members are as good as root.
#SupplementaryGroups=docker
"
        .to_owned(),
    };
    format!(
        "User={name}
{docker}UMask=0077
StateDirectory=clawpen
StateDirectoryMode=0700
WorkingDirectory=/var/lib/clawpen
Environment=HOME=/var/lib/clawpen

# The gateway needs to write its state and nothing of the system.
ProtectSystem=full
RemoveIPC=yes

# Not set, because native pens would break or lose more than the gateway wins:
#   NoNewPrivileges, and what implies it for a user without rights (SystemCallFilter=, Restrict…=, LockPersonality=,
#     PrivateDevices=, ProtectClock=, ProtectKernel…=): newuidmap could not give a pen ids of its own
#   RestrictNamespaces: a pen is made of namespaces
#   ProtectKernelTunables, ProtectProc, ProcSubset: with part of /proc covered the kernel lets no pen mount its own
#   ProtectControlGroups: limits could not be kept
#   PrivateTmp: a container engine would see another /tmp than we do
#   ProtectHome: workspaces may be there; add `ProtectHome=yes` if yours are not
NoNewPrivileges=no
"
    )
}

/// What to tell systemd afterwards.
pub(super) fn after_install(owner: &Owner) -> Vec<String> {
    match owner {
        Owner::User => vec![
            "systemctl --user daemon-reload".to_owned(),
            "systemctl --user enable --now clawpen.service".to_owned(),
            "loginctl enable-linger    # to have it run while you are not logged in".to_owned(),
        ],
        Owner::System { .. } => vec![
            "systemctl daemon-reload".to_owned(),
            "systemctl enable --now clawpen.service".to_owned(),
        ],
    }
}

pub(super) fn after_uninstall(owner: &Owner) -> Vec<String> {
    let user = match owner {
        Owner::User => " --user",
        Owner::System { .. } => "",
    };
    // The unit file is gone, but what was loaded from it can still be stopped.
    vec![
        format!("systemctl{user} stop clawpen.service"),
        format!("systemctl{user} disable clawpen.service"),
        format!("systemctl{user} daemon-reload"),
    ]
}

/// A name that can stand in a unit.
pub(super) fn user_name(name: &str) -> Option<&str> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    let is_sound = !name.is_empty() && name.len() <= 32 && name.chars().all(is_name);
    (is_sound && !name.starts_with('-')).then_some(name)
}

/// A path where systemd splits words.
fn quoted(path: &str) -> Option<String> {
    let path = plain(path)?;
    Some(format!("\"{}\"", path.replace('\\', "\\\\").replace('"', "\\\"").replace('$', "$$")))
}

/// A path where it does not: one line, and `%` means itself.
fn plain(path: &str) -> Option<String> {
    let is_sound = path.starts_with('/') && !path.chars().any(char::is_control);
    is_sound.then(|| path.replace('%', "%%"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_path_and_no_name_writes_a_line_of_its_own() {
        assert_eq!(quoted("/opt/a b/\"$x%\\"), Some("\"/opt/a b/\\\"$$x%%\\\\\"".to_owned()));
        for path in ["relative", "/a\nExecStart=/bin/evil", "/a\r", "/a\u{85}b"] {
            assert_eq!(quoted(path), None, "{path:?}");
        }
        for name in ["", "-x", "a b", "a\nb", "root:0", &"a".repeat(33)] {
            assert_eq!(user_name(name), None, "{name:?}");
        }
        assert_eq!(user_name("clawpen_1"), Some("clawpen_1"));
    }

    #[test]
    fn nothing_is_set_that_would_break_a_pen() {
        let set = |text: &str, key: &str| {
            text.lines()
                .find_map(|line| line.strip_prefix(key)?.strip_prefix('='))
                .map(str::to_owned)
        };
        for owner in [Owner::User, Owner::System { name: "x".to_owned(), groups: Groups::Docker }] {
            let unit = Unit { program: "/p", variables: Path::new("/v"), owner: &owner };
            let text = text(&unit).unwrap();
            for breaks in [
                "RestrictNamespaces",
                "ProtectKernelTunables",
                "ProtectProc",
                "ProcSubset",
                "ProtectControlGroups",
                "SystemCallFilter",
                "RestrictSUIDSGID",
                "LockPersonality",
                "PrivateUsers",
                "PrivateDevices",
                "MemoryDenyWriteExecute",
            ] {
                assert_eq!(set(&text, breaks), None, "{breaks}");
            }
            assert_eq!(set(&text, "NoNewPrivileges").as_deref(), Some("no"));
            assert_eq!(set(&text, "KillMode").as_deref(), Some("process"));
            assert_eq!(set(&text, "OOMPolicy").as_deref(), Some("continue"));
            assert_eq!(set(&text, "Delegate").as_deref(), Some("yes"));
            assert_eq!(set(&text, "EnvironmentFile").as_deref(), Some("-/v"));
            assert_eq!(set(&text, "ExecStart").as_deref(), Some("\"/p\" gateway"));
        }
    }
}
