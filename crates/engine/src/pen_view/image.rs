//! `native.rootfs`: an unpacked image as the root of a pen.
//!
//! Whoever made the image is not trusted. Its links stay links, to be followed inside the pen; what is copied
//! is opened beneath the image, so that no link leads to a file of the host; what is bound is named by a path
//! without links, and the maker refuses one that has changed since.
//!
//! Nothing can be made in an image. So a directory in which the pen needs a mount point that is missing, or a
//! file of its own, is made anew and its entries are brought one by one; every other is bound as a whole.

use std::fs;
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use clawpen_os::beneath::{self, Open};
use clawpen_rules::native::NativePen;
use clawpen_rules::posix;
use clawpen_wire::pen::MountStep;

use super::etc::WRITTEN;
use super::host::{Found, Host, ViewError};
use super::{Builder, MEMORY};

/// Entries of an image that no pen has.
const LEFT_OUT: &[&str] = &["/sys", "/home", "/root", "/boot"];
/// Longer files are bound: a mount costs more than a small copy, and less than a long one.
const COPIED: u64 = 16 * 1024;

struct Image<'a> {
    view: &'a mut Builder,
    host: &'a Host,
    directory: PathBuf,
    opened: OwnedFd,
    /// Where the pen mounts something itself.
    mounts: Vec<String>,
}

/// Brings the image in.
pub(super) fn bring(
    view: &mut Builder,
    directory: &Path,
    pen: &NativePen,
    host: &Host,
) -> Result<(), ViewError> {
    let unusable = |cause| ViewError::Rootfs { path: directory.to_owned(), cause };
    let directory = match host.real(directory) {
        Err(ViewError::Look { cause, .. }) => return Err(unusable(cause)),
        found => found?,
    };
    let opened = beneath::open_root(&directory).map_err(unusable)?;
    let own = MEMORY.iter().map(|path| (*path).to_owned());
    let configured = pen.tmpfs().iter().map(|tmpfs| tmpfs.path.clone());
    let bound = pen.host_directories().into_iter().map(|bound| bound.target.to_owned());
    let mounts = own.chain(configured).chain(bound).chain(["/dev".into(), "/proc".into()]);
    let mut image = Image { mounts: mounts.collect(), directory, opened, view, host };
    image.entries("/")
}

impl Image<'_> {
    /// Every entry of a directory that is made anew.
    fn entries(&mut self, target: &str) -> Result<(), ViewError> {
        for (name, found) in self.host.list(&self.source(target))? {
            let target = posix::normalize(&format!("{target}/{name}"));
            let is_ours = self.mounts.contains(&target) || is_written(&target);
            if !is_ours && !LEFT_OUT.contains(&target.as_str()) {
                self.entry(&target, found)?;
            }
        }
        Ok(())
    }

    fn entry(&mut self, target: &str, found: Found) -> Result<(), ViewError> {
        let source = self.source(target);
        match found {
            Found::Nothing | Found::Other => {}
            // Something of the pen's lies below: a link would lead its mount astray.
            Found::Link(_) | Found::File if self.has_below(target) => {}
            Found::Link(to) => self.view.link(target, to),
            Found::Directory if self.must_be_made(target) => {
                self.view.step(MountStep::Directory { target: target.into(), permissions: 0o755 });
                self.entries(target)?;
            }
            Found::Directory => self.view.read_only(&source, target, self.host),
            Found::File => match self.copy(target)? {
                Copied::Text(contents) => self.view.file(target, contents),
                Copied::Unreadable => {}
                Copied::Bind => self.view.read_only(&source, target, self.host),
            },
        }
        Ok(())
    }

    fn source(&self, target: &str) -> PathBuf {
        self.directory.join(target.trim_start_matches('/'))
    }

    fn has_below(&self, target: &str) -> bool {
        self.mounts.iter().any(|mount| posix::is_inside(target, mount) && mount != target)
            || target == "/etc"
    }

    /// Whether something has to be made in it: a file of ours, or a mount point that is not there.
    fn must_be_made(&self, target: &str) -> bool {
        let is_missing = |mount: &String| {
            let mut place = self.directory.clone();
            // Every step on the way must be a directory itself: a link might lead elsewhere.
            mount.split('/').filter(|part| !part.is_empty()).any(|part| {
                place.push(part);
                !fs::symlink_metadata(&place).is_ok_and(|found| found.is_dir())
            })
        };
        let below = |mount: &&String| posix::is_inside(target, mount) && *mount != target;
        target == "/etc" || self.mounts.iter().filter(below).any(is_missing)
    }

    /// A small file that everyone may read and nobody runs is copied; one that not everyone may read is
    /// nothing to a pen.
    fn copy(&self, target: &str) -> Result<Copied, ViewError> {
        let failed = |cause: io::Error| ViewError::Look { path: self.source(target), cause };
        let handle = beneath::open(self.opened.as_fd(), Path::new(target), Open::Read);
        let file = match handle {
            Ok(file) => fs::File::from(file),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Ok(Copied::Unreadable);
            }
            Err(error) => return Err(failed(error)),
        };
        let found = file.metadata().map_err(failed)?;
        if found.mode() & 0o004 == 0 {
            return Ok(Copied::Unreadable);
        }
        if !found.is_file() || found.len() > COPIED || found.mode() & 0o111 != 0 {
            return Ok(Copied::Bind);
        }
        let mut contents = Vec::new();
        file.take(COPIED).read_to_end(&mut contents).map_err(failed)?;
        Ok(Copied::Text(contents))
    }
}

enum Copied {
    Text(Vec<u8>),
    Unreadable,
    Bind,
}

fn is_written(target: &str) -> bool {
    target.strip_prefix("/etc/").is_some_and(|name| WRITTEN.contains(&name))
}
