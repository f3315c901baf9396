//! Decides in which directory of the sandbox a command starts.
//!
//! The asked directory may be written as the sandbox sees it (`/workspace/sub`) or as the host does
//! (`/home/u/ws/sub`). It must be a directory of the mounted workspace once every link is followed;
//! anything else falls back to the workspace itself, with the reason.
//!
//! This is about being useful, not about safety: whatever is answered here is opened inside the
//! sandbox, where nothing outside it exists.

use std::fmt;

use crate::host_files::{self, EntryKind, HostFiles};
use crate::posix;
use crate::workspace::Layout;

/// The directory a command starts in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workdir {
    container: String,
    fallback: Option<Fallback>,
}

/// The asked directory was not used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fallback {
    /// As asked for.
    pub asked: String,
    /// The host directory used instead.
    pub used: String,
    pub reason: FallbackReason,
}

/// Why a directory cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FallbackReason {
    /// Neither below the workdir nor below the workspace on the host.
    Outside,
    /// A link on the way leads out of the workspace.
    LeadsOut,
    /// There is nothing at that path, or something that is no directory.
    NoDirectory,
    /// The host could not tell.
    Unknown,
}

/// Decides the directory for a command that asked for `asked`.
#[must_use]
pub fn decide(asked: Option<&str>, layout: &Layout, files: &impl HostFiles) -> Workdir {
    let root = || Workdir { container: layout.workdir().to_owned(), fallback: None };
    let Some(asked) = asked.map(str::trim).filter(|asked| !asked.is_empty()) else {
        return root();
    };
    match below_workspace(asked, layout).and_then(|below| usable(&below, layout, files)) {
        Ok(below) if below.is_empty() => root(),
        Ok(below) => {
            let container = posix::join(&posix::normalize(layout.workdir()), &below);
            Workdir { container, fallback: None }
        }
        Err(reason) => {
            let used = layout.mounted().to_owned();
            Workdir { fallback: Some(Fallback { asked: asked.to_owned(), used, reason }), ..root() }
        }
    }
}

/// The asked path relative to the workspace.
fn below_workspace(asked: &str, layout: &Layout) -> Result<String, FallbackReason> {
    if !asked.starts_with('/') {
        return Err(FallbackReason::Outside);
    }
    let asked = posix::normalize(asked);
    let workdir = posix::normalize(layout.workdir());
    // The sandbox's own view comes first: it is what the model sees.
    [workdir.as_str(), layout.mounted()]
        .into_iter()
        .find_map(|root| posix::relative(root, &asked))
        .map(str::to_owned)
        .ok_or(FallbackReason::Outside)
}

/// `below` again if it is a directory of the workspace, however many links lead to it.
fn usable(below: &str, layout: &Layout, files: &impl HostFiles) -> Result<String, FallbackReason> {
    if below.is_empty() {
        return Ok(String::new());
    }
    let real =
        |path: &str| host_files::real_path(files, path).map_err(|_unknown| FallbackReason::Unknown);
    let found = real(&posix::join(layout.mounted(), below))?;
    if !posix::is_inside(&real(layout.mounted())?, &found) {
        return Err(FallbackReason::LeadsOut);
    }
    match files.entry(&found).map_err(|_unknown| FallbackReason::Unknown)? {
        Some(entry) if entry.kind == EntryKind::Directory => Ok(below.to_owned()),
        Some(_) | None => Err(FallbackReason::NoDirectory),
    }
}

impl Workdir {
    /// The directory as the sandbox sees it.
    pub fn container(&self) -> &str {
        &self.container
    }

    /// Set if another directory was asked for.
    pub const fn fallback(&self) -> Option<&Fallback> {
        self.fallback.as_ref()
    }
}

impl fmt::Display for Fallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = match self.reason {
            FallbackReason::Outside => "is not part of the workspace",
            FallbackReason::LeadsOut => "leads out of the workspace",
            FallbackReason::NoDirectory => "is no directory",
            FallbackReason::Unknown => "could not be looked at",
        };
        write!(f, "workdir `{}` {reason}; the command ran in `{}`", self.asked, self.used)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::sandbox::WorkspaceAccess;
    use crate::host_files::FileTable;
    use crate::workspace::Directories;
    use FallbackReason::{LeadsOut, NoDirectory, Outside, Unknown};

    #[test]
    fn both_views_of_a_directory_are_understood() {
        check("/workspace", Ok("/workspace"));
        check("  /workspace/ ", Ok("/workspace"));
        check("", Ok("/workspace"));
        check("/workspace/sub", Ok("/workspace/sub"));
        check("/workspace/./sub//deep/..", Ok("/workspace/sub"));
        check("/home/u/ws", Ok("/workspace"));
        check("/home/u/ws/sub", Ok("/workspace/sub"));
        check("/workspace/inside", Ok("/workspace/inside"));
    }

    #[test]
    fn whatever_is_no_directory_of_the_workspace_falls_back() {
        check("/etc", Err(Outside));
        check("/workspace/../etc", Err(Outside));
        check("/workspacex", Err(Outside));
        check("sub", Err(Outside));
        check("~", Err(Outside));
        check("/workspace/missing", Err(NoDirectory));
        check("/workspace/file", Err(NoDirectory));
        check("/workspace/out", Err(LeadsOut));
        check("/workspace/out/deeper", Err(LeadsOut));
        check("/workspace/loop", Err(Unknown));
    }

    #[track_caller]
    fn check(asked: &str, expected: Result<&str, FallbackReason>) {
        let files = FileTable::new()
            .with("/home/u/ws/sub", EntryKind::Directory)
            .with("/home/u/ws/file", EntryKind::File)
            .with("/etc", EntryKind::Directory)
            .with_link("/home/u/ws/inside", "sub")
            .with_link("/home/u/ws/out", "/etc")
            .with_link("/home/u/ws/loop", "loop");
        let directories = Directories {
            sandbox: "/state".into(),
            agent: "/home/u/ws".into(),
            workdir: "/workspace".into(),
        };
        let layout = Layout::plan(WorkspaceAccess::ReadWrite, &directories);
        let found = decide(Some(asked), &layout, &files);
        let outcome = match found.fallback() {
            None => Ok(found.container()),
            Some(fallback) => {
                assert_eq!((found.container(), &*fallback.used), ("/workspace", "/home/u/ws"));
                Err(fallback.reason)
            }
        };
        assert_eq!(outcome, expected, "{asked}");
    }
}
