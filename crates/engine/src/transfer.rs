//! Copies files between the host and a sandbox.
//!
//! The sandbox is not trusted and may change its files meanwhile. What comes out is written beneath
//! one open directory of the host, a file beside its place first and renamed when it is whole;
//! links and devices are passed over, so nothing that the sandbox made leads anywhere on the host.
//! What goes in is read beneath one open directory too: a link in the tree is passed over, not
//! followed.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::ops::ControlFlow;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::{Path, PathBuf};

use clawpen_os::beneath::{self, Existing, Kind, Open};
use clawpen_wire::supervisor::{ErrorCode, FileKind, Links, Listing, Parents, Place, WriteMode};

use crate::channel::{CallError, Channel, WriteOptions};

/// A directory deeper than this is a trap, not a tree.
const DEEPEST: usize = 256;
/// Entries of one directory.
const MOST_ENTRIES: usize = 1_000_000;

/// Whether directories are copied with all that is in them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trees {
    Copy,
    Refuse,
}

/// What has been copied so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    pub files: u64,
    pub bytes: u64,
    /// Links, devices, pipes and sockets that were left out.
    pub passed_over: u64,
}

/// A copy that did not work; what was copied before stays.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    #[error("cannot copy `{path}`")]
    Host {
        path: String,
        #[source]
        cause: io::Error,
    },
    #[error("cannot copy `{path}` in the sandbox")]
    Pen {
        path: String,
        #[source]
        cause: CallError,
    },
    #[error("`{0}` is a directory; copy it with --recursive")]
    IsDirectory(String),
    #[error("`{0}` is neither a file nor a directory")]
    NotCopied(String),
    #[error("`{0}` lies too deep")]
    TooDeep(String),
}

/// One copy under way.
pub struct Transfer<'a> {
    channel: &'a mut Channel,
    trees: Trees,
    progress: Progress,
    /// Called after every file and every piece.
    watch: &'a mut dyn FnMut(Progress),
}

impl std::fmt::Debug for Transfer<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transfer").field("progress", &self.progress).finish_non_exhaustive()
    }
}

fn host(path: &Path) -> impl FnOnce(io::Error) -> TransferError {
    let path = path.display().to_string();
    move |cause| TransferError::Host { path, cause }
}

fn pen(path: &Path) -> impl FnOnce(CallError) -> TransferError {
    let path = path.display().to_string();
    move |cause| TransferError::Pen { path, cause }
}

impl<'a> Transfer<'a> {
    pub fn new(channel: &'a mut Channel, trees: Trees, watch: &'a mut dyn FnMut(Progress)) -> Self {
        Self { channel, trees, progress: Progress::default(), watch }
    }

    /// Copies `from` on the host to `to` in the sandbox; into it, if that is a directory.
    pub fn into_pen(mut self, from: &Path, to: &Path) -> Result<Progress, TransferError> {
        // The name that was typed may be a link; only what lies below may not.
        let real = std::fs::canonicalize(from).map_err(host(from))?;
        let parent = real.parent().unwrap_or(Path::new("/"));
        let root = beneath::open_root(parent).map_err(host(from))?;
        let name = real.file_name().unwrap_or(OsStr::new("."));
        let typed = from.file_name().unwrap_or(name);
        let to = self.inside_if_directory(to, typed)?;
        self.put(root.as_fd(), name, &to, 0)?;
        Ok(self.progress)
    }

    /// Copies `from` in the sandbox to `to` on the host; into it, if that is a directory.
    pub fn out_of_pen(mut self, from: &Path, to: &Path) -> Result<Progress, TransferError> {
        let stat =
            self.channel.stat(Place::InPen(from.to_owned()), Links::Follow).map_err(pen(from))?;
        let (directory, name) = if to.is_dir() {
            (to.to_owned(), from.file_name().unwrap_or(OsStr::new("pen")).to_owned())
        } else {
            let parent = to.parent().filter(|parent| !parent.as_os_str().is_empty());
            let name =
                to.file_name().ok_or(io::ErrorKind::InvalidInput.into()).map_err(host(to))?;
            (parent.unwrap_or(Path::new(".")).to_owned(), name.to_owned())
        };
        let root = beneath::open_root(&directory).map_err(host(&directory))?;
        let kind = stat.metadata.kind;
        self.get(
            &Source { path: from.to_owned(), kind, mode: stat.metadata.permissions },
            root.as_fd(),
            &name,
            0,
        )?;
        Ok(self.progress)
    }

    fn inside_if_directory(&mut self, to: &Path, name: &OsStr) -> Result<PathBuf, TransferError> {
        match self.channel.stat(Place::InPen(to.to_owned()), Links::Follow) {
            Ok(found) if found.metadata.kind == FileKind::Directory => Ok(to.join(name)),
            Ok(_) => Ok(to.to_owned()),
            Err(CallError::Failed(failure)) if failure.code == ErrorCode::NotFound => {
                Ok(to.to_owned())
            }
            Err(error) => Err(pen(to)(error)),
        }
    }

    fn told(&mut self) {
        (self.watch)(self.progress);
    }

    fn put(
        &mut self,
        directory: BorrowedFd<'_>,
        name: &OsStr,
        to: &Path,
        depth: usize,
    ) -> Result<(), TransferError> {
        let shown = Path::new(name);
        let handle = beneath::open(directory, shown, Open::Handle).map_err(host(shown))?;
        let stat = beneath::stat(handle.as_fd()).map_err(host(shown))?;
        match stat.kind {
            Kind::File => {
                let file = beneath::open(directory, shown, Open::Read).map_err(host(shown))?;
                let mut source = Counted {
                    inner: File::from(file),
                    transfer: &mut self.progress,
                    watch: self.watch,
                };
                let options = WriteOptions {
                    mode: WriteMode::Replace,
                    parents: Parents::Required,
                    permissions: stat.mode & 0o777,
                };
                self.channel
                    .write(Place::InPen(to.to_owned()), options, &mut source)
                    .map_err(pen(to))?;
                self.progress.files += 1;
                self.told();
                Ok(())
            }
            Kind::Directory if self.trees == Trees::Refuse => {
                Err(TransferError::IsDirectory(shown.display().to_string()))
            }
            Kind::Directory if depth >= DEEPEST => {
                Err(TransferError::TooDeep(shown.display().to_string()))
            }
            Kind::Directory => {
                self.channel
                    .mkdir(Place::InPen(to.to_owned()), stat.mode & 0o777, Parents::Make)
                    .map_err(pen(to))?;
                let opened =
                    beneath::open(directory, shown, Open::Directory).map_err(host(shown))?;
                for name in names(opened.as_fd()).map_err(host(shown))? {
                    self.put(opened.as_fd(), &name, &to.join(&name), depth + 1)?;
                }
                Ok(())
            }
            _ if depth == 0 => Err(TransferError::NotCopied(shown.display().to_string())),
            _ => {
                self.progress.passed_over += 1;
                Ok(())
            }
        }
    }

    fn get(
        &mut self,
        source: &Source,
        directory: BorrowedFd<'_>,
        name: &OsStr,
        depth: usize,
    ) -> Result<(), TransferError> {
        let shown = source.path.display().to_string();
        match source.kind {
            FileKind::File => self.get_file(source, directory, name),
            FileKind::Directory if self.trees == Trees::Refuse => {
                Err(TransferError::IsDirectory(shown))
            }
            FileKind::Directory if depth >= DEEPEST => Err(TransferError::TooDeep(shown)),
            FileKind::Directory => {
                match beneath::make_directory(directory, name, source.mode & 0o777 | 0o700) {
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                    made => made.map_err(host(Path::new(name)))?,
                }
                let opened = beneath::open(directory, Path::new(name), Open::Directory)
                    .map_err(host(Path::new(name)))?;
                let place = Place::InPen(source.path.clone());
                let listed = self
                    .channel
                    .list(&place, Listing::Full, MOST_ENTRIES)
                    .map_err(pen(&source.path))?;
                for entry in listed.entries {
                    let Some(metadata) = entry.metadata else { continue };
                    let below = Source {
                        path: source.path.join(&entry.name),
                        kind: metadata.kind,
                        mode: metadata.permissions,
                    };
                    self.get(&below, opened.as_fd(), &entry.name, depth + 1)?;
                }
                Ok(())
            }
            FileKind::Link | FileKind::Other if depth == 0 => Err(TransferError::NotCopied(shown)),
            FileKind::Link | FileKind::Other => {
                self.progress.passed_over += 1;
                Ok(())
            }
        }
    }

    fn get_file(
        &mut self,
        source: &Source,
        directory: BorrowedFd<'_>,
        name: &OsStr,
    ) -> Result<(), TransferError> {
        let mut beside = OsString::from(".clawpen-");
        beside.push(name);
        let failed = || host(Path::new(name));
        // Left by a copy that was killed.
        match beneath::remove_file(directory, &beside) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            removed => removed.map_err(failed())?,
        }
        let file = beneath::open(directory, Path::new(&beside), Open::CreateNew { mode: 0o600 })
            .map_err(failed())?;
        let file = File::from(file);
        let mut sink = Counted { inner: &file, transfer: &mut self.progress, watch: self.watch };
        let read = self.channel.read(Place::InPen(source.path.clone()), 0, u64::MAX, &mut sink);
        let placed = read.map_err(pen(&source.path)).and_then(|_| {
            // Never a set-id bit: what comes out of a sandbox runs as whoever starts it.
            beneath::set_mode(file.as_fd(), source.mode & 0o777).map_err(failed())?;
            let from = beneath::Place { directory, name: &beside };
            let to = beneath::Place { directory, name };
            beneath::rename(from, to, Existing::Replace).map_err(failed())
        });
        if placed.is_err() {
            // The failure is what counts; a leftover is cleared by the next try.
            drop(beneath::remove_file(directory, &beside));
        }
        placed?;
        self.progress.files += 1;
        self.told();
        Ok(())
    }
}

/// Something in the sandbox.
struct Source {
    path: PathBuf,
    kind: FileKind,
    mode: u32,
}

fn names(directory: BorrowedFd<'_>) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    beneath::list(directory, &mut |entry| {
        names.push(entry.name);
        ControlFlow::Continue(())
    })?;
    names.sort();
    Ok(names)
}

/// Counts what goes through.
struct Counted<'c, T> {
    inner: T,
    transfer: &'c mut Progress,
    watch: &'c mut dyn FnMut(Progress),
}

impl<T> Counted<'_, T> {
    fn count(&mut self, bytes: usize) {
        self.transfer.bytes += bytes as u64;
        (self.watch)(*self.transfer);
    }
}

impl<T: Read> Read for Counted<'_, T> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.count(count);
        Ok(count)
    }
}

impl<T: Write> Write for Counted<'_, T> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let count = self.inner.write(buffer)?;
        self.count(count);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
