//! Files: every path is resolved by the kernel beneath a directory that was opened at the start.
//!
//! Links inside a root work; nothing leads out of it, whatever is renamed meanwhile: each call resolves its
//! path once and works on what it has opened. Devices, pipes and sockets are neither read nor written, and
//! opening one cannot hold us. Paths in no root can be read, beneath the sandbox's own `/`.
//!
//! What takes long (hash, copy, recursive remove) is a [`Job`] that the loop takes up in every turn.

use std::ffi::OsString;
use std::io;
use std::ops::ControlFlow;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use clawpen_os::beneath::{self, Existing, Kind, Open, Root};
use clawpen_wire::pen::{RootAccess, ServePlan};
use clawpen_wire::supervisor::{
    Copy, Entries, Entry, ErrorCode, Failed, FileKind, Hash, Links, List, Listing, Metadata, Mkdir,
    OnExisting, Parents, Place, Read, Remove, Rename, Stat, StatResult, WriteOpen, limits,
};

use crate::exec::{cut, failed};
use crate::report::{Failure, Step as _};

mod job;
mod links;
mod read;
mod write;

use links::Last;

pub(crate) use job::Job;
pub(crate) use read::Reading;
pub(crate) use write::Writing;

/// One piece of a file on the wire.
pub(crate) const CHUNK: usize = limits::CHUNK;
/// Bytes of entries in one page, well below the longest event.
const PAGE: usize = limits::EVENT_FRAME / 2;
/// What an entry takes apart from its name, attributes included, rounded up.
const ENTRY: usize = 96;

/// The directories that calls may name, open.
#[derive(Debug)]
pub(crate) struct Files {
    roots: Vec<FileRoot>,
    slash: OwnedFd,
    temporary: u64,
}

#[derive(Debug)]
struct FileRoot {
    path: PathBuf,
    directory: OwnedFd,
    access: RootAccess,
}

/// A path beneath an open directory.
struct Found<'a> {
    root: Root<'a>,
    path: PathBuf,
    /// Where the root is, unless the kernel takes its absolute links as they are.
    place: Option<&'a Path>,
}

/// What a call wants to do.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wish {
    Look,
    Change,
}

impl Files {
    pub(crate) fn open(plan: &ServePlan) -> Result<Self, Failure> {
        let open = |path: &Path| {
            beneath::open_root(path)
                .step_with(|| format!("open the file root `{}`", path.display()))
        };
        let roots = plan.roots.iter().map(|root| {
            Ok(FileRoot {
                path: root.path.clone(),
                directory: open(&root.path)?,
                access: root.access,
            })
        });
        Ok(Self {
            roots: roots.collect::<Result<_, Failure>>()?,
            slash: open(Path::new("/"))?,
            temporary: 0,
        })
    }

    fn find(&self, place: &Place, wish: Wish) -> Result<Found<'_>, Failed> {
        let (root, path) = match place {
            Place::Below { root, path } => {
                let found = self.roots.get(usize::from(*root));
                let what = || failed(ErrorCode::NoRoot, format!("there is no root {root}"));
                (Some(found.ok_or_else(what)?), path.clone())
            }
            Place::InPen(path) => {
                if !path.is_absolute() {
                    return Err(failed(
                        ErrorCode::Invalid,
                        "a path in the sandbox must be absolute",
                    ));
                }
                self.innermost(path)
            }
        };
        let access = root.map_or(RootAccess::Read, |root| root.access);
        if wish == Wish::Change && access == RootAccess::Read {
            let what = format!("`{}` can only be read", path.display());
            return Err(failed(ErrorCode::ReadOnly, what));
        }
        // Whoever made the links in a root that is `/` meant this `/`.
        let takes_absolute_links = root.is_none_or(|root| root.path == Path::new("/"));
        let root_place = root.map(|root| root.path.as_path());
        let directory = root.map_or(&self.slash, |root| &root.directory).as_fd();
        let root = if takes_absolute_links {
            Root::with_absolute_links(directory)
        } else {
            directory.into()
        };
        let place = root_place.filter(|_| !takes_absolute_links);
        Ok(Found { root, path, place })
    }

    /// The root that holds `path` most closely. A `..` in the rest is the kernel's to refuse.
    fn innermost(&self, path: &Path) -> (Option<&FileRoot>, PathBuf) {
        let holding =
            self.roots.iter().filter_map(|root| Some((root, path.strip_prefix(&root.path).ok()?)));
        match holding.max_by_key(|(root, _)| root.path.components().count()) {
            Some((root, rest)) => (Some(root), rest.to_owned()),
            None => (None, path.to_owned()),
        }
    }

    pub(crate) fn read(&self, read: &Read) -> Result<Reading, Failed> {
        let found = self.find(&read.place, Wish::Look)?;
        let file = found.open_file(Open::Read)?;
        Ok(Reading::new(file, read))
    }

    pub(crate) fn write(&mut self, write: &WriteOpen) -> Result<Writing, Failed> {
        self.temporary += 1;
        let number = self.temporary;
        let found = self.find(&write.place, Wish::Change)?;
        Writing::open(&found, write, number)
    }

    pub(crate) fn stat(&self, stat: &Stat) -> Result<StatResult, Failed> {
        let found = self.find(&stat.place, Wish::Look)?;
        let how = match stat.links {
            Links::Follow => Open::HandleFollow,
            Links::Report => Open::Handle,
        };
        let file = found.open(how)?;
        let seen = found.check(beneath::stat(file.as_fd()))?;
        let link = if seen.kind == Kind::Symlink {
            let (parent, name) = found.parent()?;
            Some(PathBuf::from(found.check(beneath::read_link(parent.as_fd(), &name))?))
        } else {
            None
        };
        Ok(StatResult { metadata: metadata(&seen), link })
    }

    pub(crate) fn list(&self, list: &List) -> Result<Entries, Failed> {
        let found = self.find(&list.place, Wish::Look)?;
        let directory = found.open(Open::Directory)?;
        let limit =
            usize::try_from(list.limit).unwrap_or(limits::ENTRIES).clamp(1, limits::ENTRIES);
        let mut entries = Vec::new();
        let (mut reached, mut bytes, mut more) = (list.cursor, 0_usize, false);
        let listed = beneath::list_from(directory.as_fd(), list.cursor, &mut |entry| {
            bytes += entry.name.len() + ENTRY;
            if entries.len() >= limit || bytes > PAGE {
                more = true;
                return ControlFlow::Break(());
            }
            reached = entry.next;
            let seen = match list.listing {
                Listing::Names if entry.kind != Kind::Unknown => None,
                Listing::Names | Listing::Full => {
                    beneath::stat_name(directory.as_fd(), &entry.name).ok()
                }
            };
            let kind = file_kind(seen.as_ref().map_or(entry.kind, |seen| seen.kind));
            let metadata = seen.as_ref().filter(|_| list.listing == Listing::Full).map(metadata);
            entries.push(Entry { name: entry.name, kind, metadata });
            ControlFlow::Continue(())
        });
        found.check(listed)?;
        Ok(Entries { entries, next: more.then_some(reached) })
    }

    pub(crate) fn mkdir(&self, mkdir: &Mkdir) -> Result<(), Failed> {
        let found = self.find(&mkdir.place, Wish::Change)?;
        let mode = mkdir.permissions & 0o777;
        if mkdir.parents == Parents::Make {
            let make = |path: &Path| beneath::make_directories(found.root, path, mode);
            return found.beneath(Last::Follow, make).map(drop);
        }
        let (parent, name) = found.parent()?;
        found.check(beneath::make_directory(parent.as_fd(), &name, mode))
    }

    pub(crate) fn rename(&self, rename: &Rename) -> Result<(), Failed> {
        let from = self.find(&rename.from, Wish::Change)?;
        let to = self.find(&rename.to, Wish::Change)?;
        let (from_parent, from_name) = from.parent()?;
        let (to_parent, to_name) = to.parent()?;
        let existing = match rename.existing {
            OnExisting::Refuse => Existing::Keep,
            OnExisting::Replace => Existing::Replace,
        };
        let source = beneath::Place { directory: from_parent.as_fd(), name: &from_name };
        let target = beneath::Place { directory: to_parent.as_fd(), name: &to_name };
        to.check(beneath::rename(source, target, existing))
    }

    pub(crate) fn remove(&self, remove: &Remove) -> Result<Job, Failed> {
        let found = self.find(&remove.place, Wish::Change)?;
        let (parent, name) = found.parent()?;
        Ok(Job::remove(parent, name, remove.depth))
    }

    pub(crate) fn copy(&self, copy: &Copy) -> Result<Job, Failed> {
        let from = self.find(&copy.from, Wish::Look)?;
        let to = self.find(&copy.to, Wish::Change)?;
        Job::copy(from.parent()?, to.parent()?, copy)
    }

    pub(crate) fn hash(&self, hash: &Hash) -> Result<Job, Failed> {
        let found = self.find(&hash.place, Wish::Look)?;
        Ok(Job::hash(found.open_file(Open::Read)?))
    }
}

impl Found<'_> {
    fn open(&self, how: Open) -> Result<OwnedFd, Failed> {
        let last = if how == Open::Handle { Last::Keep } else { Last::Follow };
        self.beneath(last, |path| beneath::open(self.root, path, how))
    }

    /// Does something at the path, and if the kernel refuses a link that leads out, once more without
    /// those absolute links that do not.
    fn beneath<T>(&self, last: Last, act: impl Fn(&Path) -> io::Result<T>) -> Result<T, Failed> {
        let refused = match act(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => error,
            other => return self.check(other),
        };
        let Some(place) = self.place else { return self.check(Err(refused)) };
        let path = links::without_links(self.root, place, &self.path, last)
            .map_err(|error| self.not_found(&error, place))?;
        let path = path.ok_or_else(|| self.not_found(&refused, place))?;
        act(&path).map_err(|error| self.not_found(&error, place))
    }

    /// What the kernel says of a path that leads out of its root tells nobody what to do.
    fn not_found(&self, error: &io::Error, root: &Path) -> Failed {
        let failed = io_failed(error, &self.shown());
        if failed.code != ErrorCode::Outside {
            return failed;
        }
        let message = format!(
            "`{}` leads out of `{}`; name what is inside it, or write the whole path from `/` on",
            self.shown(),
            root.display()
        );
        Failed { message: cut(message), ..failed }
    }

    /// The path for people.
    fn shown(&self) -> String {
        if self.path.as_os_str().is_empty() {
            return ".".to_owned();
        }
        self.path.display().to_string()
    }

    /// Opens what must be a file. A pipe or device is opened without waiting and closed again.
    fn open_file(&self, how: Open) -> Result<OwnedFd, Failed> {
        let file = self.open(how)?;
        match self.check(beneath::stat(file.as_fd()))?.kind {
            Kind::File => Ok(file),
            Kind::Directory => {
                Err(failed(ErrorCode::IsDirectory, format!("`{}` is a directory", self.shown())))
            }
            _ => {
                Err(failed(ErrorCode::NotRegular, format!("`{}` is no regular file", self.shown())))
            }
        }
    }

    fn parent(&self) -> Result<(OwnedFd, OsString), Failed> {
        self.beneath(Last::Keep, |path| beneath::open_parent(self.root, path))
    }

    fn check<T>(&self, result: io::Result<T>) -> Result<T, Failed> {
        result.map_err(|error| io_failed(&error, &self.shown()))
    }
}

/// What an error of the kernel means to the host.
pub(crate) fn io_failed(error: &io::Error, what: &str) -> Failed {
    let errno = error.raw_os_error().unwrap_or_default();
    let code = match errno {
        1 | 13 => ErrorCode::Denied,
        2 => ErrorCode::NotFound,
        6 | 19 => ErrorCode::NotRegular,
        17 => ErrorCode::Exists,
        18 => ErrorCode::Outside,
        20 => ErrorCode::NotDirectory,
        21 => ErrorCode::IsDirectory,
        22 => ErrorCode::Invalid,
        27 | 36 => ErrorCode::TooLong,
        28 | 122 => ErrorCode::NoSpace,
        30 => ErrorCode::ReadOnly,
        38 | 95 => ErrorCode::Unsupported,
        39 => ErrorCode::NotEmpty,
        40 => ErrorCode::Link,
        _ if error.kind() == io::ErrorKind::InvalidInput => ErrorCode::Invalid,
        _ => ErrorCode::Io,
    };
    let text = error.to_string();
    // The number says nothing that its words do not; it goes along by itself.
    let words = text.split_once(" (os error").map_or(text.as_str(), |(words, _)| words);
    Failed { code, errno, message: cut(format!("`{what}`: {words}")) }
}

fn file_kind(kind: Kind) -> FileKind {
    match kind {
        Kind::File => FileKind::File,
        Kind::Directory => FileKind::Directory,
        Kind::Symlink => FileKind::Link,
        Kind::Fifo | Kind::Socket | Kind::CharacterDevice | Kind::BlockDevice | Kind::Unknown => {
            FileKind::Other
        }
    }
}

fn metadata(seen: &beneath::Stat) -> Metadata {
    let modified_ns = match seen.modified.duration_since(UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_nanos()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_nanos()).map_or(i64::MIN, |nanos| -nanos),
    };
    Metadata {
        kind: file_kind(seen.kind),
        permissions: seen.mode & 0o7777,
        uid: seen.uid,
        gid: seen.gid,
        size: seen.size,
        modified_ns,
        links: seen.links,
        inode: seen.inode,
    }
}
