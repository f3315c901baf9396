//! Which path in the sandbox a tool's path means, and beneath which directory it must stay.
//!
//! Names are expanded here (`@x`, `~/x`, `file://…`, a host path of something mounted); where they lead is the
//! kernel's business: the supervisor resolves every path beneath an open directory, links and `..` included. So a
//! path that climbs out is not refused here, and still opens nothing.

use std::fmt;

use crate::mounts::{MountTable, Seen};
use crate::paths::input::{self, BadInput};
use crate::paths::media;
use crate::posix;

/// What a path is read against.
#[derive(Debug, Clone, Copy)]
pub struct Surroundings<'a> {
    /// Where relative paths start, as the sandbox sees it.
    pub workdir: &'a str,
    /// What `~` stands for in the sandbox.
    pub home: &'a str,
    /// What of the host is mounted where; with it, a path of the host is understood too.
    pub table: Option<&'a MountTable>,
    pub reach: Reach,
}

/// How far a tool's paths go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Whatever the sandbox shows.
    Sandbox,
    /// The workspace only (`workspaceOnly`): the path is resolved beneath it.
    Workspace,
}

/// A path in the sandbox, as the supervisor takes it. Made by [`decide`] only.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PenPath {
    absolute: String,
    below_workspace: Option<String>,
}

impl PenPath {
    /// The absolute path, for people and for commands.
    pub fn as_str(&self) -> &str {
        &self.absolute
    }

    /// The path below the workspace, if it must stay there.
    pub fn below_workspace(&self) -> Option<&str> {
        self.below_workspace.as_deref()
    }

    /// The path of something beside this, in the same directory. `None` if `name` is more than a name.
    pub fn beside(&self, name: &str) -> Option<Self> {
        if name.is_empty() || name == "." || name == ".." || name.contains('/') {
            return None;
        }
        let beside = |path: &str| match path.rsplit_once('/') {
            Some((directory, _)) => format!("{directory}/{name}"),
            None => name.to_owned(),
        };
        Some(Self {
            absolute: beside(&self.absolute),
            below_workspace: self.below_workspace.as_deref().map(beside),
        })
    }

    /// The last name.
    pub fn name(&self) -> &str {
        posix::basename(&self.absolute)
    }
}

/// A path that a tool may not use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathRefused {
    /// As given.
    pub input: String,
    pub reason: PathReason,
}

/// Why not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathReason {
    BadInput(BadInput),
    /// It is not in the workspace, and nothing else may be touched.
    OutsideWorkspace {
        workdir: String,
    },
}

impl fmt::Display for PathRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let input = self.input.escape_debug();
        match &self.reason {
            PathReason::BadInput(problem) => write!(f, "`{input}` names no file: {problem}"),
            PathReason::OutsideWorkspace { workdir } => {
                write!(
                    f,
                    "`{input}` is outside the workspace `{workdir}`, which is all that this tool may use"
                )
            }
        }
    }
}

impl std::error::Error for PathRefused {}

/// Finds the path that is meant.
pub fn decide(given: &str, around: &Surroundings<'_>) -> Result<PenPath, PathRefused> {
    let refused = |reason| PathRefused { input: given.to_owned(), reason };
    input::check(given).map_err(|problem| refused(PathReason::BadInput(problem)))?;
    let trimmed = given.trim();
    let path = if media::is_file_url(trimmed) {
        media::file_url_path(trimmed, around.workdir)
            .ok_or_else(|| refused(PathReason::BadInput(BadInput::Url)))?
    } else {
        input::expand(given, around.home)
    };
    let path = if path.starts_with('/') {
        around.table.and_then(|table| from_host(&path, table)).unwrap_or(path)
    } else {
        format!("{}/{path}", around.workdir.trim_end_matches('/'))
    };
    let absolute = without_empty_steps(&path);
    match around.reach {
        Reach::Sandbox => Ok(PenPath { absolute, below_workspace: None }),
        Reach::Workspace => {
            let workdir = posix::normalize(around.workdir);
            let outside = || refused(PathReason::OutsideWorkspace { workdir: workdir.clone() });
            // By its text it must stay inside; by its links, the kernel sees to that.
            if !posix::is_inside(&workdir, &posix::normalize(&absolute)) {
                return Err(outside());
            }
            let below = posix::relative(&workdir, &absolute).ok_or_else(outside)?.to_owned();
            Ok(PenPath { absolute, below_workspace: Some(below) })
        }
    }
}

/// The place in the sandbox of a host path, if the sandbox shows nothing of its own at that path.
fn from_host(path: &str, table: &MountTable) -> Option<String> {
    let path = posix::normalize(path);
    if table.at(&path) != Seen::Image {
        return None;
    }
    let holding = table.mounts().iter().filter_map(|mount| {
        let rest = posix::relative(&mount.host_root, &path)?;
        let inside = posix::join(&mount.container_root, rest);
        let is_seen = matches!(table.at(&inside), Seen::Mounted(seen, _) if seen == mount);
        is_seen.then_some((mount.host_root.len(), inside))
    });
    holding.max_by_key(|(depth, _)| *depth).map(|(_, inside)| inside)
}

/// `a//b/./c` is `a/b/c`. Steps upwards stay: what is above depends on links, which only the kernel sees.
fn without_empty_steps(path: &str) -> String {
    let names = path.split('/').filter(|name| !name.is_empty() && *name != ".");
    let mut clean = String::with_capacity(path.len());
    for name in names {
        clean.push('/');
        clean.push_str(name);
    }
    if clean.is_empty() { "/".to_owned() } else { clean }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::sandbox::WorkspaceAccess;
    use crate::mounts::TablePlan;

    #[test]
    fn names_are_expanded_and_steps_upwards_are_left_to_the_kernel() {
        for (given, expected) in [
            ("a", "/workspace/a"),
            ("@a", "/workspace/a"),
            ("./a//b/", "/workspace/a/b"),
            ("~/x", "/workspace/x"),
            ("a\u{a0}b", "/workspace/a b"),
            ("../etc/passwd", "/workspace/../etc/passwd"),
            ("/etc/passwd", "/etc/passwd"),
            ("file:///workspace/a%20b", "/workspace/a b"),
            ("/srv/ws/dir/f", "/workspace/dir/f"),
            ("/srv/other", "/srv/other"),
            ("/", "/"),
            (".", "/workspace"),
            ("..x", "/workspace/..x"),
        ] {
            check(given, Reach::Sandbox, Ok((expected, None)));
        }
        check("a\0", Reach::Sandbox, Err("`a\\0` names no file: it contains a NUL character"));
    }

    #[test]
    fn the_workspace_is_left_neither_by_text_nor_by_an_absolute_path() {
        check("a/b", Reach::Workspace, Ok(("/workspace/a/b", Some("a/b"))));
        check("/workspace/a", Reach::Workspace, Ok(("/workspace/a", Some("a"))));
        check(".", Reach::Workspace, Ok(("/workspace", Some(""))));
        check("..x", Reach::Workspace, Ok(("/workspace/..x", Some("..x"))));
        // The kernel decides what is above `a`; it cannot be anything above the workspace.
        check("a/../b", Reach::Workspace, Ok(("/workspace/a/../b", Some("a/../b"))));
        for out in ["../x", "/etc/passwd", "/workspace/../etc", "/workspacex/a", "a/../../x"] {
            let message = format!(
                "`{out}` is outside the workspace `/workspace`, which is all that this tool may use"
            );
            check(out, Reach::Workspace, Err(&message));
        }
    }

    #[test]
    fn what_lies_beside_is_in_the_same_directory() {
        let table = table();
        let around = surroundings(&table, Reach::Workspace);
        let path = decide("a/b", &around).unwrap();
        let beside = path.beside(".b.new").unwrap();
        assert_eq!(
            (beside.as_str(), beside.below_workspace()),
            ("/workspace/a/.b.new", Some("a/.b.new"))
        );
        let top = decide("b", &around).unwrap().beside("c").unwrap();
        assert_eq!((top.as_str(), top.below_workspace()), ("/workspace/c", Some("c")));
        for bad in ["", ".", "..", "x/y"] {
            assert_eq!(path.beside(bad), None);
        }
    }

    #[track_caller]
    fn check(given: &str, reach: Reach, expected: Result<(&str, Option<&str>), &str>) {
        let table = table();
        let found = decide(given, &surroundings(&table, reach));
        let found = found.as_ref().map(|path| (path.as_str(), path.below_workspace()));
        assert_eq!(found.map_err(ToString::to_string), expected.map_err(str::to_owned));
    }

    fn surroundings(table: &MountTable, reach: Reach) -> Surroundings<'_> {
        Surroundings { workdir: "/workspace", home: "/workspace", table: Some(table), reach }
    }

    fn table() -> MountTable {
        MountTable::new(&TablePlan {
            workspace: "/srv/ws",
            agent_workspace: "/srv/ws",
            access: WorkspaceAccess::ReadWrite,
            workdir: "/workspace",
            binds: &[],
            tmpfs: &[],
        })
    }
}
