//! What of the host's directories a sandbox sees: none, ro or rw.
//!
//! | access | at the workdir    | at `/agent`           | seeded | file tools off             |
//! |--------|-------------------|-----------------------|--------|----------------------------|
//! | `none` | private copy, rw  |                       | yes    |                            |
//! | `ro`   | private copy, ro  | agent's workspace, ro | yes    | write, edit, `apply_patch` |
//! | `rw`   | agent's workspace |                       | no     |                            |
//!
//! A private copy holds the host's skills itself. Into an agent's own workspace nothing is copied: there they stand
//! read-only at [`SKILLS_MOUNT`], from a directory that only we write to.
//!
//! Takes the access and the directories; gives a [`Layout`]. It neither makes nor looks at them.

pub mod install;
pub mod media;
pub mod persistence;
pub mod removal;
pub mod seeds;
pub mod skills;

use crate::config::sandbox::{Scope, WorkspaceAccess};
use crate::mounts::Access;
use crate::posix;
use crate::scope::ScopeKey;

/// Where the agent's own workspace stands in a sandbox that only reads it.
pub const AGENT_MOUNT: &str = "/agent";

/// Where the host's skills stand below the workdir of an agent's own workspace; the reference's place.
pub const SKILLS_MOUNT: &str = ".openclaw/sandbox-skills";

/// Whether the host has skills besides those of workspaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HostSkills {
    #[default]
    None,
    Some,
}

/// Copied from the agent's workspace into a private one, in this order, unless already there.
pub const SEED_FILES: &[&str] =
    &["AGENTS.md", "SOUL.md", "TOOLS.md", "IDENTITY.md", "USER.md", "BOOTSTRAP.md", "HEARTBEAT.md"];

/// The tools that change files; a sandbox with a read-only workspace does not offer them.
pub const WRITING_TOOLS: &[&str] = &["write", "edit", "apply_patch"];

/// The directories a layout is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directories {
    /// The sandbox's private workspace: see [`private_directory`].
    pub sandbox: String,
    /// The agent's persistent workspace.
    pub agent: String,
    /// `docker.workdir`: where the workspace stands in the sandbox.
    pub workdir: String,
}

/// The private workspace of a sandbox: a directory of its own below `workspaceRoot`.
///
/// The shared sandbox has one too. The reference gives it the root itself, and with it every other
/// sandbox's files.
pub fn private_directory(root: &str, key: &ScopeKey, scope: Scope) -> String {
    let name = key.workspace_directory(scope);
    match normalize(root).as_str() {
        // A blank root must not become `/`: the container's checks shall see what is wrong.
        "" => name,
        root => posix::join(root, &name),
    }
}

/// One directory of the host in the sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkspaceMount {
    pub source: String,
    pub target: String,
    pub access: Access,
}

/// What of the host's directories one sandbox sees. Made by [`Layout::plan`] only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    access: WorkspaceAccess,
    sandbox: String,
    agent: String,
    workdir: String,
    host_skills: HostSkills,
}

impl Layout {
    /// Lays the directories out for one access mode.
    pub fn plan(access: WorkspaceAccess, directories: &Directories) -> Self {
        let sandbox = normalize(&directories.sandbox);
        let agent = normalize(&directories.agent);
        let workdir = directories.workdir.clone();
        Self { access, sandbox, agent, workdir, host_skills: HostSkills::None }
    }

    /// Shows the host's skills, if it has any, where they are not copied in.
    ///
    /// A session's policy has no part in this: it decides what is in the directory, and many sessions may share one
    /// sandbox.
    #[must_use]
    pub fn with_host_skills(mut self, host_skills: HostSkills) -> Self {
        self.host_skills = match self.skills_directory() {
            Some(_) => host_skills,
            None => HostSkills::None,
        };
        self
    }

    /// The directory of ours that holds the host's skills for an agent's own workspace, mounted or not.
    pub fn skills_directory(&self) -> Option<String> {
        match self.access {
            WorkspaceAccess::ReadWrite if self.sandbox.starts_with('/') => {
                Some(format!("{}.skills", self.sandbox))
            }
            WorkspaceAccess::ReadWrite | WorkspaceAccess::None | WorkspaceAccess::ReadOnly => None,
        }
    }

    /// The mount of the host's skills, if there is one.
    pub fn skills_mount(&self) -> Option<WorkspaceMount> {
        match self.host_skills {
            HostSkills::None => None,
            HostSkills::Some => Some(WorkspaceMount {
                source: self.skills_directory()?,
                target: posix::join(&normalize(&self.workdir), SKILLS_MOUNT),
                access: Access::ReadOnly,
            }),
        }
    }

    pub const fn access(&self) -> WorkspaceAccess {
        self.access
    }

    /// The host directory at the workdir: the working directory of every tool, and the one whose
    /// owner the sandbox runs as.
    pub fn mounted(&self) -> &str {
        match self.access {
            WorkspaceAccess::None | WorkspaceAccess::ReadOnly => &self.sandbox,
            WorkspaceAccess::ReadWrite => &self.agent,
        }
    }

    /// The private workspace, if the sandbox has one: seeded, and moved aside when it goes.
    pub fn private(&self) -> Option<&str> {
        match self.access {
            WorkspaceAccess::None | WorkspaceAccess::ReadOnly if self.sandbox != self.agent => {
                Some(&self.sandbox)
            }
            // The admin pointed both at one place; then it is the agent's own.
            WorkspaceAccess::None | WorkspaceAccess::ReadOnly | WorkspaceAccess::ReadWrite => None,
        }
    }

    /// The agent's own workspace on the host, mounted or not.
    pub fn agent(&self) -> &str {
        &self.agent
    }

    /// Where the workspace stands in the sandbox, as configured.
    pub fn workdir(&self) -> &str {
        &self.workdir
    }

    /// The directories that configured binds may come from.
    pub fn bind_roots(&self) -> [&str; 2] {
        [self.mounted(), self.agent()]
    }

    /// The mounts, in the order they are made.
    pub fn mounts(&self) -> Vec<WorkspaceMount> {
        let mount = |source: &str, target: &str, access| WorkspaceMount {
            source: source.to_owned(),
            target: target.to_owned(),
            access,
        };
        match self.access {
            WorkspaceAccess::None => {
                vec![mount(&self.sandbox, &self.workdir, Access::ReadWrite)]
            }
            WorkspaceAccess::ReadWrite => {
                let own = mount(&self.agent, &self.workdir, Access::ReadWrite);
                std::iter::once(own).chain(self.skills_mount()).collect()
            }
            WorkspaceAccess::ReadOnly => {
                let mut mounts = vec![mount(&self.sandbox, &self.workdir, Access::ReadOnly)];
                if self.sandbox != self.agent {
                    mounts.push(mount(&self.agent, AGENT_MOUNT, Access::ReadOnly));
                }
                mounts
            }
        }
    }

    /// The files to copy in, if they are not there yet. An agent's own workspace is never seeded.
    pub const fn seeds(&self) -> &'static [&'static str] {
        match self.access {
            WorkspaceAccess::None | WorkspaceAccess::ReadOnly => SEED_FILES,
            WorkspaceAccess::ReadWrite => &[],
        }
    }

    /// The file tools this access switches off.
    pub const fn tools_off(&self) -> &'static [&'static str] {
        match self.access {
            WorkspaceAccess::ReadOnly => WRITING_TOOLS,
            WorkspaceAccess::None | WorkspaceAccess::ReadWrite => &[],
        }
    }
}

/// An absolute path is normalised; anything else stays as written, for the container's checks to
/// name and refuse.
fn normalize(path: &str) -> String {
    if path.starts_with('/') { posix::normalize(path) } else { path.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Access::{ReadOnly, ReadWrite};

    #[test]
    fn none_is_a_writable_private_copy() {
        let layout = plan(WorkspaceAccess::None);
        check(&layout, &[("/state/sandboxes/s-1", "/workspace", ReadWrite)]);
        assert_eq!((layout.seeds(), layout.tools_off()), (SEED_FILES, &[] as &[_]));
    }

    #[test]
    fn ro_reads_both_and_offers_no_writing_tool() {
        let layout = plan(WorkspaceAccess::ReadOnly);
        check(
            &layout,
            &[("/state/sandboxes/s-1", "/workspace", ReadOnly), ("/home/u/ws", "/agent", ReadOnly)],
        );
        assert_eq!((layout.seeds(), layout.tools_off()), (SEED_FILES, WRITING_TOOLS));
    }

    #[test]
    fn rw_is_the_agents_own_workspace_and_nothing_is_seeded() {
        let layout = plan(WorkspaceAccess::ReadWrite);
        check(&layout, &[("/home/u/ws", "/workspace", ReadWrite)]);
        assert_eq!((layout.seeds(), layout.tools_off()), (&[] as &[_], &[] as &[_]));
        assert_eq!((layout.mounted(), layout.private()), ("/home/u/ws", None));
    }

    #[test]
    fn rw_shows_the_skills_of_a_host_that_has_some_and_no_other_access_does() {
        let layout = plan(WorkspaceAccess::ReadWrite).with_host_skills(HostSkills::Some);
        check(
            &layout,
            &[
                ("/home/u/ws", "/workspace", ReadWrite),
                ("/state/sandboxes/s-1.skills", "/workspace/.openclaw/sandbox-skills", ReadOnly),
            ],
        );
        for access in [WorkspaceAccess::None, WorkspaceAccess::ReadOnly] {
            let layout = plan(access).with_host_skills(HostSkills::Some);
            assert_eq!((layout.clone(), layout.skills_directory()), (plan(access), None));
        }
    }

    #[test]
    fn every_sandbox_has_a_directory_of_its_own() {
        let key = ScopeKey::stored("agent:main").unwrap();
        let own = |root, scope| private_directory(root, &key, scope);
        assert_eq!(own("/state/sandboxes/", Scope::Agent), "/state/sandboxes/agent-main-f331f052");
        assert_eq!(own("/state/sandboxes", Scope::Shared), "/state/sandboxes/shared");
        assert_eq!(own("", Scope::Shared), "shared");
    }

    #[test]
    fn one_directory_is_not_mounted_twice() {
        let directories = Directories {
            sandbox: "/home/u/ws/".into(),
            agent: "/home/u/./ws".into(),
            workdir: "/workspace".into(),
        };
        let layout = Layout::plan(WorkspaceAccess::ReadOnly, &directories);
        check(&layout, &[("/home/u/ws", "/workspace", ReadOnly)]);
        assert_eq!(layout.private(), None);
    }

    fn plan(access: WorkspaceAccess) -> Layout {
        let directories = Directories {
            sandbox: "/state/sandboxes/s-1".into(),
            agent: "/home/u/ws".into(),
            workdir: "/workspace".into(),
        };
        Layout::plan(access, &directories)
    }

    #[track_caller]
    fn check(layout: &Layout, expected: &[(&str, &str, Access)]) {
        let mounts = layout.mounts();
        let found: Vec<_> = mounts
            .iter()
            .map(|mount| (mount.source.as_str(), mount.target.as_str(), mount.access))
            .collect();
        assert_eq!(found, expected);
    }
}
