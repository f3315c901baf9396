//! What of a sandbox outlives what: the answer to "will my change still be there, and will it arrive?".
//!
//! Takes a [`Layout`] and the scope; gives one [`Kept`] for each place that a command can write to. It
//! describes what the other rules do and decides nothing.

use super::{AGENT_MOUNT, Layout, SEED_FILES};
use crate::config::sandbox::{Scope, WorkspaceAccess};

/// One place in the sandbox, and what becomes of what is written there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// The path in the sandbox.
    pub at: String,
    /// The directory of the host behind it; `None` if there is none.
    pub host: Option<String>,
    pub lasts: Lasts,
}

/// How long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lasts {
    /// It is the agent's own workspace.
    ForGood,
    /// In the private copy, which stays when the sandbox is removed.
    WithCopy(Scope),
    /// Replaced when the originals change; what was there is moved to the trash if it was edited.
    UntilNextSync,
    /// Nothing can be written there.
    ReadOnly,
    /// Everything else: gone with the sandbox.
    WithSandbox,
}

impl Lasts {
    /// For a person.
    pub const fn explained(self) -> &'static str {
        match self {
            Self::ForGood => "the agent's own files: changes are on the host at once, and stay",
            Self::WithCopy(Scope::Session) => {
                "a private copy of this session: survives the sandbox, no other session sees it"
            }
            Self::WithCopy(Scope::Agent) => {
                "a private copy of this agent: survives the sandbox, all its sessions share it"
            }
            Self::WithCopy(Scope::Shared) => {
                "one private copy for all agents: survives the sandbox, everybody shares it"
            }
            Self::UntilNextSync => {
                "copied from the host whenever the originals change; edits here go to the trash then"
            }
            Self::ReadOnly => "read-only: changes on the host show at once",
            Self::WithSandbox => "gone when the sandbox is removed",
        }
    }

    /// One word for JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ForGood => "agent",
            Self::WithCopy(_) => "copy",
            Self::UntilNextSync => "sync",
            Self::ReadOnly => "read-only",
            Self::WithSandbox => "sandbox",
        }
    }
}

/// The places, the most general first.
pub fn places(layout: &Layout, scope: Scope) -> Vec<Kept> {
    let host = |path: &str| Some(path.to_owned());
    let mut kept = vec![Kept { at: "/".to_owned(), host: None, lasts: Lasts::WithSandbox }];
    let at = layout.workdir().to_owned();
    let mounted = layout.mounted();
    match layout.access() {
        WorkspaceAccess::ReadWrite => {
            kept.push(Kept { at, host: host(mounted), lasts: Lasts::ForGood });
            kept.extend(layout.skills_mount().map(|mount| Kept {
                at: mount.target,
                host: Some(mount.source),
                lasts: Lasts::ReadOnly,
            }));
        }
        WorkspaceAccess::None => {
            let skills = format!("{}/skills", at.trim_end_matches('/'));
            let behind = format!("{mounted}/skills");
            kept.push(Kept { at, host: host(mounted), lasts: Lasts::WithCopy(scope) });
            kept.push(Kept { at: skills, host: Some(behind), lasts: Lasts::UntilNextSync });
        }
        WorkspaceAccess::ReadOnly => {
            kept.push(Kept { at, host: host(mounted), lasts: Lasts::ReadOnly });
            let agent = AGENT_MOUNT.to_owned();
            kept.push(Kept { at: agent, host: host(layout.agent()), lasts: Lasts::ReadOnly });
        }
    }
    kept
}

/// What an admin's change to the originals does; `None` where the sandbox works on the originals.
pub fn admins_change(layout: &Layout) -> Option<String> {
    match layout.access() {
        WorkspaceAccess::ReadWrite => None,
        WorkspaceAccess::None | WorkspaceAccess::ReadOnly => Some(format!(
            "{} are copied from `{}` once, when they are missing: a later change there does not reach \
             this sandbox until `clawpen sandbox reseed`; `clawpen sandbox reseed --diff` shows what would change",
            SEED_FILES.join(", "),
            layout.agent(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Directories;

    #[track_caller]
    fn check(access: WorkspaceAccess, expected: &[(&str, Option<&str>, &str)]) {
        let directories = Directories {
            sandbox: "/s/sandboxes/x-1".into(),
            agent: "/ws".into(),
            workdir: "/workspace".into(),
        };
        let places = places(&Layout::plan(access, &directories), Scope::Agent);
        let shown: Vec<_> = places
            .iter()
            .map(|kept| (kept.at.as_str(), kept.host.as_deref(), kept.lasts.as_str()))
            .collect();
        assert_eq!(shown, expected);
    }

    #[test]
    fn every_place_says_how_long_it_lasts() {
        let root = ("/", None, "sandbox");
        let copy = Some("/s/sandboxes/x-1");
        check(
            WorkspaceAccess::None,
            &[
                root,
                ("/workspace", copy, "copy"),
                ("/workspace/skills", Some("/s/sandboxes/x-1/skills"), "sync"),
            ],
        );
        check(
            WorkspaceAccess::ReadOnly,
            &[root, ("/workspace", copy, "read-only"), ("/agent", Some("/ws"), "read-only")],
        );
        check(WorkspaceAccess::ReadWrite, &[root, ("/workspace", Some("/ws"), "agent")]);
    }
}
