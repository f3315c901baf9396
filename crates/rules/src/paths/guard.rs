//! Keeps a path in one directory of the host (`workspaceOnly`, attachments, seeding).
//!
//! [`decide_by_text`] compares names; [`decide`] then walks the path from the root, link by link, and
//! refuses one that leads out and a file that has a second name, which may lie anywhere.

use std::fmt;

use super::input::{self, BadInput};
use crate::host_files::{EntryKind, FactError, HostFiles, real_path};
use crate::posix;

/// A path, where it is relative to, and the directory it must stay in.
#[derive(Debug, Clone, Copy)]
pub struct Query<'a> {
    pub input: &'a str,
    pub working_directory: &'a str,
    pub root: &'a str,
    /// What `~` stands for.
    pub home: &'a str,
}

/// The directory that a path must stay in.
#[derive(Debug, Clone, Copy)]
pub struct Inside<'a> {
    pub root: &'a str,
    /// Shown as `~`.
    pub home: &'a str,
}

/// What the path is wanted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// To be opened: what the last component leads to counts.
    Open,
    /// To be removed: the name itself goes, wherever it leads.
    Remove,
}

/// A path that stays inside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guarded {
    /// Absolute and normalised, links not followed.
    pub path: String,
    /// The part below the root; empty for the root itself.
    pub relative: String,
}

/// Why a path is refused. Paths below the home are shown with `~`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    Outside { root: String, input: String },
    BadInput { root: String, input: String, problem: BadInput },
    LinkLeadsOut { root: String, link: String },
    HasOtherNames { root: String, path: String },
    Unknown(FactError),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Outside { root, input } => {
                write!(f, "only `{root}` is open here; `{}` lies outside", input.escape_debug())
            }
            Self::BadInput { root, input, problem } => {
                write!(f, "only `{root}` is open here; `{}`: {problem}", input.escape_debug())
            }
            Self::LinkLeadsOut { root, link } => {
                write!(f, "only `{root}` is open here; the link `{link}` leads out of it")
            }
            Self::HasOtherNames { root, path } => write!(
                f,
                "only `{root}` is open here; `{path}` is hard-linked, so it may belong elsewhere; copy \
                 it instead"
            ),
            Self::Unknown(problem) => problem.fmt(f),
        }
    }
}

/// Decides by names alone. Names are compared whole: `..x` is a file, not a step upwards.
pub fn decide_by_text(query: &Query<'_>) -> Result<Guarded, Refusal> {
    let root = posix::normalize(query.root);
    let shown = || input::with_tilde(&root, query.home);
    input::check(query.input).map_err(|problem| Refusal::BadInput {
        root: shown(),
        input: query.input.to_owned(),
        problem,
    })?;
    let path = posix::resolve(query.working_directory, &input::expand(query.input, query.home));
    match posix::relative(&root, &path) {
        Some(relative) => Ok(Guarded { relative: relative.to_owned(), path }),
        None => Err(Refusal::Outside { root: shown(), input: query.input.to_owned() }),
    }
}

/// Decides by names, then by what is on the disk.
pub fn decide(
    query: &Query<'_>,
    purpose: Purpose,
    files: &impl HostFiles,
) -> Result<Guarded, Refusal> {
    let guarded = decide_by_text(query)?;
    walk(Inside { root: query.root, home: query.home }, guarded, purpose, files)
}

/// Decides on a path below `root` that is already exact: nothing in it is expanded.
pub fn decide_exact(
    inside: Inside<'_>,
    relative: &str,
    purpose: Purpose,
    files: &impl HostFiles,
) -> Result<Guarded, Refusal> {
    let path = posix::join(&posix::normalize(inside.root), relative);
    walk(inside, Guarded { path, relative: relative.to_owned() }, purpose, files)
}

/// Walks from the root on, link by link.
fn walk(
    inside: Inside<'_>,
    guarded: Guarded,
    purpose: Purpose,
    files: &impl HostFiles,
) -> Result<Guarded, Refusal> {
    let root = posix::normalize(inside.root);
    let real_root = real_path(files, &root).map_err(Refusal::Unknown)?;
    let mut here = root;
    let mut names = guarded.relative.split('/').filter(|name| !name.is_empty()).peekable();
    while let Some(name) = names.next() {
        let next = posix::join(&here, name);
        let Some(entry) = files.entry(&next).map_err(Refusal::Unknown)? else {
            // Nothing is there, so nothing below can lead anywhere.
            return Ok(guarded);
        };
        let is_last = names.peek().is_none();
        match (entry.kind, purpose) {
            (EntryKind::Symlink { .. }, Purpose::Remove) if is_last => return Ok(guarded),
            (EntryKind::Symlink { .. }, Purpose::Open | Purpose::Remove) => {
                let led = real_path(files, &next).map_err(Refusal::Unknown)?;
                if !posix::is_inside(&real_root, &led) {
                    return Err(Refusal::LinkLeadsOut {
                        root: input::with_tilde(&real_root, inside.home),
                        link: input::with_tilde(&next, inside.home),
                    });
                }
                here = led;
            }
            (EntryKind::File | EntryKind::Directory | EntryKind::Other, _) => here = next,
        }
    }
    match purpose {
        Purpose::Remove => Ok(guarded),
        Purpose::Open => check_names(inside, guarded, &here, files),
    }
}

/// Refuses a file with more than one name. `end` is where the path leads.
fn check_names(
    inside: Inside<'_>,
    guarded: Guarded,
    end: &str,
    files: &impl HostFiles,
) -> Result<Guarded, Refusal> {
    match files.entry(end).map_err(Refusal::Unknown)? {
        Some(entry) if entry.kind == EntryKind::File && entry.links > 1 => {
            Err(Refusal::HasOtherNames {
                root: input::with_tilde(&posix::normalize(inside.root), inside.home),
                path: input::with_tilde(&guarded.path, inside.home),
            })
        }
        Some(_) | None => Ok(guarded),
    }
}
