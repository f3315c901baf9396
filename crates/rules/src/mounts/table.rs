//! What is mounted where: the workspace, the agent's workspace and the binds as one table.
//!
//! A tmpfs has no line of its own, because it holds no file of the host, but it hides what lies below
//! it. The table describes; it decides nothing. Binds must have passed [`super::decide`] before.

use super::BindSpec;
use crate::config::sandbox::WorkspaceAccess;
use crate::posix;
use crate::workspace::{AGENT_MOUNT, WorkspaceMount};

/// What the sandbox may do with a mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    ReadOnly,
    ReadWrite,
}

impl Access {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ReadOnly => "read-only",
            Self::ReadWrite => "read-write",
        }
    }

    pub const fn is_writable(self) -> bool {
        matches!(self, Self::ReadWrite)
    }
}

/// Why something is mounted. In order: where two mounts fit a path equally well, the later kind wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MountSource {
    Workspace,
    Agent,
    Bind,
    /// The host's skills, which nothing may hide.
    Skills,
}

impl MountSource {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Workspace => "workspace",
            Self::Agent => "agent",
            Self::Bind => "bind",
            Self::Skills => "skills",
        }
    }
}

/// One line of the table. Both roots are normalised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    pub host_root: String,
    pub container_root: String,
    pub access: Access,
    pub source: MountSource,
}

/// What a table is made from.
#[derive(Debug, Clone, Copy)]
pub struct TablePlan<'a> {
    /// The directory that is mounted at the workdir.
    pub workspace: &'a str,
    pub agent_workspace: &'a str,
    pub access: WorkspaceAccess,
    pub workdir: &'a str,
    pub binds: &'a [&'a str],
    /// `path[:options]`.
    pub tmpfs: &'a [String],
}

/// Every mount of one sandbox that holds files of the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountTable {
    workspace_root: String,
    workdir: String,
    mounts: Vec<Mount>,
    /// Normalised.
    tmpfs: Vec<String>,
}

/// What stands at a path in the sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen<'t, 'p> {
    /// A file of the host: the mount it belongs to, and the rest of the path.
    Mounted(&'t Mount, &'p str),
    /// Memory of the sandbox, which hides what a mount has there.
    Memory,
    /// Neither; the image's own files.
    Image,
}

impl MountTable {
    /// Puts the table together. `none` is a writable private copy; only `ro` is read-only. Of two
    /// binds for one target the later one counts, as it does in a mount table.
    pub fn new(plan: &TablePlan<'_>) -> Self {
        let workspace_root = posix::normalize(plan.workspace);
        let workdir = container_root(plan.workdir);
        let access = match plan.access {
            WorkspaceAccess::None | WorkspaceAccess::ReadWrite => Access::ReadWrite,
            WorkspaceAccess::ReadOnly => Access::ReadOnly,
        };
        let mut mounts = vec![Mount {
            host_root: workspace_root.clone(),
            container_root: workdir.clone(),
            access,
            source: MountSource::Workspace,
        }];
        let agent_workspace = posix::normalize(plan.agent_workspace);
        if plan.access != WorkspaceAccess::None && agent_workspace != workspace_root {
            mounts.push(Mount {
                host_root: agent_workspace,
                container_root: AGENT_MOUNT.to_owned(),
                access,
                source: MountSource::Agent,
            });
        }
        for mount in plan.binds.iter().filter_map(|bind| bind_mount(bind)) {
            mounts.retain(|known| {
                known.source != MountSource::Bind || known.container_root != mount.container_root
            });
            mounts.push(mount);
        }
        let tmpfs = plan.tmpfs.iter().map(|entry| {
            container_root(entry.split_once(':').map_or(entry.as_str(), |(path, _)| path))
        });
        Self { workspace_root, workdir, mounts, tmpfs: tmpfs.collect() }
    }

    /// The same with the host's skills in it, if they are mounted.
    #[must_use]
    pub fn with_skills(mut self, mount: Option<WorkspaceMount>) -> Self {
        self.mounts.extend(mount.map(|mount| Mount {
            host_root: posix::normalize(&mount.source),
            container_root: container_root(&mount.target),
            access: mount.access,
            source: MountSource::Skills,
        }));
        self
    }

    pub fn mounts(&self) -> &[Mount] {
        &self.mounts
    }

    /// The host directory behind the workdir.
    pub fn workspace_root(&self) -> &str {
        &self.workspace_root
    }

    /// Where the workspace is mounted.
    pub fn workdir(&self) -> &str {
        &self.workdir
    }

    /// What stands at a normalised path in the sandbox: the deepest mount shows, whatever it is.
    pub fn at<'p>(&self, container_path: &'p str) -> Seen<'_, 'p> {
        let fitting = self.mounts.iter().filter_map(|mount| {
            posix::relative(&mount.container_root, container_path).map(|rest| (mount, rest))
        });
        let deepest = fitting.max_by_key(|(mount, _)| (mount.container_root.len(), mount.source));
        let Some((mount, rest)) = deepest else { return Seen::Image };
        let hides = |tmpfs: &String| {
            tmpfs.len() > mount.container_root.len() && posix::is_inside(tmpfs, container_path)
        };
        if self.tmpfs.iter().any(hides) { Seen::Memory } else { Seen::Mounted(mount, rest) }
    }
}

/// An empty workdir means the root.
fn container_root(path: &str) -> String {
    if path.is_empty() { "/".to_owned() } else { posix::normalize(path) }
}

/// A bind without an absolute source and target is never mounted.
fn bind_mount(bind: &str) -> Option<Mount> {
    let spec = BindSpec::parse(bind)?;
    let (source, target) = (spec.source.trim(), spec.target.trim());
    if !source.starts_with('/') || !target.starts_with('/') {
        return None;
    }
    Some(Mount {
        host_root: posix::normalize(source),
        container_root: posix::normalize(target),
        access: if spec.is_read_only() { Access::ReadOnly } else { Access::ReadWrite },
        source: MountSource::Bind,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(access: WorkspaceAccess, agent: &str, binds: &[&str], expected: &[&str]) {
        let plan = TablePlan {
            workspace: "/ws",
            agent_workspace: agent,
            access,
            workdir: "/workspace/",
            binds,
            tmpfs: &[],
        };
        let table = MountTable::new(&plan);
        let shown: Vec<String> = table
            .mounts()
            .iter()
            .map(|mount| {
                let mode = if mount.access.is_writable() { "rw" } else { "ro" };
                let source = mount.source.as_str();
                format!("{source} {}:{}:{mode}", mount.host_root, mount.container_root)
            })
            .collect();
        assert_eq!(shown, expected);
    }

    #[test]
    fn only_ro_is_read_only_and_none_shows_no_agent_workspace() {
        let (none, ro, rw) =
            (WorkspaceAccess::None, WorkspaceAccess::ReadOnly, WorkspaceAccess::ReadWrite);
        check(none, "/agentws", &[], &["workspace /ws:/workspace:rw"]);
        check(ro, "/agentws", &[], &["workspace /ws:/workspace:ro", "agent /agentws:/agent:ro"]);
        check(ro, "/ws/", &[], &["workspace /ws:/workspace:ro"]);
        check(rw, "/agentws", &[], &["workspace /ws:/workspace:rw", "agent /agentws:/agent:rw"]);
    }

    #[test]
    fn the_last_bind_of_a_target_counts_and_half_binds_do_not() {
        let binds = ["/a:/data", " /b : /data/ : ro ", "/c", "/c:", "/c:rel", "vol:/v", "C:\\x:/y"];
        let mounts = ["workspace /ws:/workspace:rw", "bind /b:/data:ro"];
        check(WorkspaceAccess::None, "/agentws", &binds, &mounts);
    }

    #[test]
    fn the_deepest_mount_owns_a_path_and_hides_what_is_below() {
        let binds = ["/d:/workspace", "/e:/workspace/sub:ro", "/r:/"];
        let plan = TablePlan {
            workspace: "/ws",
            agent_workspace: "/ws",
            access: WorkspaceAccess::ReadWrite,
            workdir: "/workspace",
            binds: &binds,
            tmpfs: &["/workspace/sub/mem:size=1m".to_owned(), "/workspace".to_owned()],
        };
        let table = MountTable::new(&plan);
        for (path, host, rest) in [
            ("/workspace/x", "/d", "x"),
            ("/workspace/sub/x", "/e", "x"),
            ("/workspace/subx", "/d", "subx"),
            ("/workspacex", "/r", "workspacex"),
        ] {
            let Seen::Mounted(mount, found) = table.at(path) else { panic!("{path}") };
            assert_eq!((mount.host_root.as_str(), found), (host, rest), "{path}");
        }
        assert_eq!(table.at("/workspace/sub/mem/x"), Seen::Memory);
    }
}
