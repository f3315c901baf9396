//! Host path <-> sandbox path over the mount table.
//!
//! [`decide`] takes a path as a tool was given it and says which file is meant: on the host, in the
//! sandbox, and whether it may be written. [`open`] also follows the links on the way, as opening the
//! file would. [`guard`] keeps a path in one directory of the host, [`media`] maps attachments.
//!
//! This maps names; it opens nothing. A path that is fine here can still lead out through a link
//! that is made later: whoever opens it does so beneath an open directory.

pub mod guard;
pub mod input;
pub mod media;
pub mod open;

#[cfg(test)]
mod tests;

use std::fmt;

use crate::host_files::{FactError, FactProblem, HostFiles, real_path};
use crate::mounts::{Access, Mount, MountTable, Seen};
use crate::posix;
use input::BadInput;

/// A path as a tool was given it.
#[derive(Debug, Clone, Copy)]
pub struct Query<'a> {
    pub input: &'a str,
    /// What a relative path starts from: a host path, or a path in the sandbox. The workspace, if
    /// there is none.
    pub working_directory: Option<&'a str>,
    /// What `~` stands for.
    pub home: &'a str,
}

/// The file that is meant. The host path is always the mount's host root plus the same rest that
/// follows the mount's root in the sandbox, so each can be had from the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    pub host_path: String,
    pub container_path: String,
    /// For people: relative to the workdir, or the whole path in the sandbox if it lies elsewhere.
    pub relative_path: String,
    pub access: Access,
}

/// The path means no file of the sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Escape {
    /// The workspace on the host, the home shown as `~`.
    pub root: String,
    /// As given.
    pub input: String,
    pub reason: EscapeReason,
}

/// Why a path means no file of the sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EscapeReason {
    OutsideEveryMount,
    /// The host path is in a mounted directory, but the sandbox sees something else there.
    Hidden {
        container_path: String,
    },
    BadInput(BadInput),
    /// A link on the way leads out of the mounted directory.
    LinkLeadsOut {
        link: String,
    },
    /// The file has a second name, which may lie anywhere.
    HasOtherNames,
    Unknown(FactError),
}

impl fmt::Display for Escape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { root, input, reason } = self;
        let input = input.escape_debug();
        match reason {
            EscapeReason::OutsideEveryMount => write!(
                f,
                "the sandbox shows `{root}` and what is bound into it; `{input}` leads elsewhere"
            ),
            EscapeReason::Hidden { container_path } => write!(
                f,
                "the sandbox shows `{root}`, but `{input}` is hidden there: another mount lies over \
                 `{container_path}`"
            ),
            EscapeReason::BadInput(problem) => {
                write!(
                    f,
                    "the sandbox shows `{root}`; `{input}` cannot name a file there: {problem}"
                )
            }
            EscapeReason::LinkLeadsOut { link } => write!(
                f,
                "the sandbox shows `{root}`; `{input}` passes the link `{}`, which leads out of the \
                 mounted directory",
                link.escape_debug()
            ),
            EscapeReason::HasOtherNames => write!(
                f,
                "the sandbox shows `{root}`; `{input}` is hard-linked, so it may belong elsewhere; copy \
                 it instead"
            ),
            EscapeReason::Unknown(problem) => {
                write!(f, "the sandbox shows `{root}`; where `{input}` leads is unknown: {problem}")
            }
        }
    }
}

/// Finds the file that a path means.
pub fn decide(
    table: &MountTable,
    query: &Query<'_>,
    files: &impl HostFiles,
) -> Result<Location, Escape> {
    let escape = |reason| Escape {
        root: input::with_tilde(table.workspace_root(), query.home),
        input: query.input.to_owned(),
        reason,
    };
    if query.input.contains('\0') {
        return Err(escape(EscapeReason::BadInput(BadInput::Nul)));
    }
    // Blanks around a path in the sandbox, and backslashes in it, are slips of the model.
    let in_sandbox = query.input.replace('\\', "/");
    let in_sandbox = in_sandbox.trim();
    let absolute = in_sandbox.starts_with('/').then(|| posix::normalize(in_sandbox));
    if let Some(path) = absolute
        && let Some(found) = in_container(table, &path).map_err(escape)?
    {
        return Ok(found);
    }
    input::check(query.input).map_err(|problem| escape(EscapeReason::BadInput(problem)))?;
    let path = input::expand(query.input, query.home);
    let directory = query.working_directory.unwrap_or(table.workspace_root());
    if !path.starts_with('/') {
        let directory = posix::normalize(directory);
        if query.working_directory.is_some() && table.at(&directory) != Seen::Image {
            return in_container(table, &posix::resolve(&directory, &path))
                .and_then(|found| found.ok_or(EscapeReason::OutsideEveryMount))
                .map_err(escape);
        }
    }
    on_host(table, &posix::resolve(directory, &path), files).map_err(escape)
}

/// The file at a normalised path in the sandbox; `None` if it is none of the host's.
fn in_container(
    table: &MountTable,
    container_path: &str,
) -> Result<Option<Location>, EscapeReason> {
    match table.at(container_path) {
        Seen::Mounted(mount, rest) => Ok(Some(location(table, mount, rest))),
        Seen::Memory => Err(EscapeReason::Hidden { container_path: container_path.to_owned() }),
        Seen::Image => Ok(None),
    }
}

fn location(table: &MountTable, mount: &Mount, rest: &str) -> Location {
    let container_path = posix::join(&mount.container_root, rest);
    let relative_path = posix::relative(table.workdir(), &container_path);
    Location {
        host_path: posix::join(&mount.host_root, rest),
        relative_path: relative_path.unwrap_or(&container_path).to_owned(),
        container_path,
        access: mount.access,
    }
}

/// The file at a normalised host path: in the deepest mounted directory that holds it, and that the
/// sandbox really sees there.
fn on_host(
    table: &MountTable,
    path: &str,
    files: &impl HostFiles,
) -> Result<Location, EscapeReason> {
    // The last component stays as it is: a link may be named, for example to remove it.
    let real = match path {
        "/" => path.to_owned(),
        _ => posix::resolve(&lead(files, posix::parent(path))?, posix::basename(path)),
    };
    let mut holders = Vec::new();
    for mount in table.mounts() {
        let real_root = lead(files, &mount.host_root)?;
        let rest = match posix::relative(&real_root, &real) {
            Some(rest) => rest,
            // A mounted directory may be a link itself; its own name still means it.
            None if path == mount.host_root => "",
            None => continue,
        };
        // Inside by its own text too: keep the names as given.
        let rest = posix::relative(&mount.host_root, path).unwrap_or(rest);
        holders.push((real_root.len(), mount, rest.to_owned()));
    }
    // A stable sort: of two equal mounts the one that comes first in the table is taken.
    holders.sort_by_key(|(depth, mount, _)| std::cmp::Reverse((*depth, mount.source)));
    let mut reason = EscapeReason::OutsideEveryMount;
    for (_, mount, rest) in holders {
        let found = location(table, mount, &rest);
        let is_seen = match table.at(&found.container_path) {
            Seen::Mounted(seen, _) => seen == mount,
            Seen::Memory | Seen::Image => false,
        };
        if is_seen {
            return Ok(found);
        }
        if reason == EscapeReason::OutsideEveryMount {
            reason = EscapeReason::Hidden { container_path: found.container_path };
        }
    }
    Err(reason)
}

/// Where links lead. Links in a circle lead nowhere: nothing can be opened through them, so the
/// name is as good as any and whoever opens it will be told.
fn lead(files: &impl HostFiles, path: &str) -> Result<String, EscapeReason> {
    match real_path(files, path) {
        Ok(real) => Ok(real),
        Err(FactError { problem: FactProblem::TooManyLinks, .. }) => Ok(path.to_owned()),
        Err(problem) => Err(EscapeReason::Unknown(problem)),
    }
}
