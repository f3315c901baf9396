//! Builds the root file system of a pen, step by step as the spec lists them, on an empty tmpfs.
//!
//! Targets are resolved by the kernel beneath the new root, so no link that an earlier step brought in can
//! place a later mount outside. Every mount has its flags before it is attached.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use clawpen_os::beneath::{self, Kind, Open, Place};
use clawpen_os::mounts::{self, Extent, FsOption, Mount, MountFlags};
use clawpen_wire::pen::{Credentials, MakePlan, MountStep};

use crate::faults;
use crate::make::{self, Trees};
use crate::report::{Failure, Step as _};

/// Room for mount points and the few files that the spec writes; all else is mounted.
const ROOT_BYTES: &str = "16m";

/// The new root, attached and complete.
pub(super) fn build(
    plan: &MakePlan,
    user: &Credentials,
    host: OwnedFd,
    trees: Trees,
) -> Result<OwnedFd, Failure> {
    let options = [FsOption::Text("size", ROOT_BYTES), FsOption::Text("mode", "0755")];
    let root = Mount::new_filesystem("tmpfs", &options, MountFlags::NO_SUID | MountFlags::NO_DEV)
        .step("make the root's file system")?;
    // On top of the host's root. Our own root stays below it, so host paths still lead to the host.
    root.attach(host.as_fd(), Path::new("")).step("attach the root's file system")?;
    let root = root.into_fd();
    let mut builder = Builder { root, host, user, trees, cover: None, parent: None };
    for step in &plan.root {
        builder.take(step)?;
    }
    Ok(builder.root)
}

struct Builder<'a> {
    root: OwnedFd,
    host: OwnedFd,
    user: &'a Credentials,
    trees: Trees,
    /// The empty directory that lies over the first masked one, to be laid over the others.
    cover: Option<OwnedFd>,
    /// The directory that the last file or link was made in: many come one after the other. Forgotten with
    /// every other step, which may mount something there.
    parent: Option<(PathBuf, OwnedFd)>,
}

impl Builder<'_> {
    fn take(&mut self, step: &MountStep) -> Result<(), Failure> {
        if !matches!(step, MountStep::File { .. } | MountStep::Symlink { .. }) {
            self.parent = None;
        }
        match step {
            MountStep::Directory { target, permissions } => self.directory(target, *permissions),
            MountStep::Tmpfs { target, size, inodes, permissions, flags } => {
                self.tmpfs(target, [*size, *inodes], *permissions, make::bind_flags(*flags))
            }
            MountStep::Bind { target, .. } | MountStep::Device { target, .. } => {
                let tree = self.trees.next()?.ok_or_else(|| {
                    Failure::new(format!(
                        "the maker handed nothing over for `{}`",
                        target.display()
                    ))
                })?;
                self.place(&tree, target)?;
                if is_root(target) {
                    self.root = tree.into_fd();
                }
                Ok(())
            }
            MountStep::Proc { target } => {
                let flags = MountFlags::NO_SUID | MountFlags::NO_DEV | MountFlags::NO_EXEC;
                self.filesystem("proc", &[], flags, target)
            }
            MountStep::Devpts { target } => {
                let options = [
                    FsOption::Flag("newinstance"),
                    FsOption::Text("ptmxmode", "0666"),
                    FsOption::Text("mode", "0620"),
                ];
                self.filesystem(
                    "devpts",
                    &options,
                    MountFlags::NO_SUID | MountFlags::NO_EXEC,
                    target,
                )
            }
            MountStep::Mqueue { target } => {
                let flags = MountFlags::NO_SUID | MountFlags::NO_DEV | MountFlags::NO_EXEC;
                self.filesystem("mqueue", &[], flags, target)
            }
            MountStep::File { target, contents, permissions } => {
                self.file(target, contents, *permissions)
            }
            MountStep::Symlink { target, to } => {
                let (parent, name) = self.parent(target)?;
                beneath::symlink(to.as_os_str(), Place { directory: parent, name })
                    .step_with(|| format!("make the link `{}`", target.display()))
            }
            MountStep::Mask { target } => self.mask(target),
            MountStep::ReadOnly { target } => self.read_only(target),
        }
    }

    fn directory(&self, target: &Path, permissions: u32) -> Result<(), Failure> {
        let make = || format!("make the directory `{}`", target.display());
        let directory = beneath::make_directories(self.root(), target, 0o755).step_with(make)?;
        beneath::set_mode(directory.as_fd(), permissions & 0o1777).step_with(make)
    }

    fn tmpfs(
        &mut self,
        target: &Path,
        [size, inodes]: [u64; 2],
        permissions: u32,
        flags: MountFlags,
    ) -> Result<(), Failure> {
        let [size, inodes, uid, gid] = [size, inodes, self.user.uid.into(), self.user.gid.into()]
            .map(|number: u64| number.to_string());
        let mode = format!("{:o}", permissions & 0o1777);
        let mut options = vec![
            FsOption::Text("size", &size),
            FsOption::Text("mode", &mode),
            FsOption::Text("uid", &uid),
            FsOption::Text("gid", &gid),
        ];
        if inodes != "0" {
            options.push(FsOption::Text("nr_inodes", &inodes));
        }
        self.filesystem("tmpfs", &options, flags, target)
    }

    fn filesystem(
        &mut self,
        kind: &str,
        options: &[FsOption<'_>],
        flags: MountFlags,
        target: &Path,
    ) -> Result<(), Failure> {
        let mount = Mount::new_filesystem(kind, options, faults::flags(target, flags))
            .step_with(|| format!("make a {kind} for `{}`", target.display()))?;
        self.place(&mount, target)?;
        if is_root(target) {
            self.root = mount.into_fd();
        }
        Ok(())
    }

    fn file(&mut self, target: &Path, contents: &[u8], permissions: u32) -> Result<(), Failure> {
        let write = || format!("write `{}`", target.display());
        let (parent, name) = self.parent(target)?;
        let how = Open::CreateNew { mode: permissions & 0o777 };
        let file = beneath::open(parent, Path::new(name), how).step_with(write)?;
        File::from(file).write_all(contents).step_with(write)
    }

    /// Hides what is there. What is not there needs no mask.
    fn mask(&mut self, target: &Path) -> Result<(), Failure> {
        let mask = || format!("mask `{}`", target.display());
        if faults::is_off("masks") {
            return Ok(());
        }
        let there = match beneath::open(self.root(), target, Open::Handle) {
            Ok(there) => there,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error).step_with(mask),
        };
        let flags =
            MountFlags::READ_ONLY | MountFlags::NO_SUID | MountFlags::NO_DEV | MountFlags::NO_EXEC;
        let is_directory = beneath::stat(there.as_fd()).step_with(mask)?.kind == Kind::Directory;
        let cover = if is_directory {
            let first = || {
                let options = [FsOption::Text("size", "4k"), FsOption::Text("mode", "0555")];
                Mount::new_filesystem("tmpfs", &options, flags)
            };
            let again = |cover: &OwnedFd| Mount::clone_of(cover.as_fd(), "".as_ref(), Extent::One);
            self.cover.as_ref().map_or_else(first, again).step_with(mask)?
        } else {
            let null = beneath::open(self.host.as_fd(), Path::new("dev/null"), Open::Handle)
                .step_with(mask)?;
            let cover =
                Mount::clone_of(null.as_fd(), Path::new(""), Extent::One).step_with(mask)?;
            cover.restrict(flags, Extent::One).step_with(mask)?;
            cover
        };
        cover.attach(there.as_fd(), Path::new("")).step_with(mask)?;
        if is_directory {
            self.cover.get_or_insert(cover.into_fd());
        }
        Ok(())
    }

    fn read_only(&self, target: &Path) -> Result<(), Failure> {
        let protect = || format!("make `{}` read-only", target.display());
        if faults::is_off("read-only") {
            return Ok(());
        }
        let flags = MountFlags::READ_ONLY;
        if is_root(target) {
            return mounts::restrict_at(self.root(), Path::new(""), flags, Extent::One)
                .step_with(protect);
        }
        let there = beneath::open(self.root(), target, Open::Handle).step_with(protect)?;
        let copy =
            Mount::clone_of(there.as_fd(), Path::new(""), Extent::Tree).step_with(protect)?;
        copy.restrict(flags, Extent::Tree).step_with(protect)?;
        copy.attach(there.as_fd(), Path::new("")).step_with(protect)
    }

    /// Makes the mount point if it is missing, of the kind that the mount needs, and attaches.
    fn place(&mut self, mount: &Mount, target: &Path) -> Result<(), Failure> {
        let attach = || format!("mount `{}`", target.display());
        let kind = beneath::stat(mount.as_fd()).step_with(attach)?.kind;
        let there = if kind == Kind::Directory {
            beneath::make_directories(self.root(), target, 0o755)
        } else {
            let (parent, name) = self.parent(target)?;
            match beneath::open(parent, Path::new(name), Open::CreateNew { mode: 0o644 }) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    beneath::open(parent, Path::new(name), Open::Handle)
                }
                made => made,
            }
        };
        mount.attach(there.step_with(attach)?.as_fd(), Path::new("")).step_with(attach)
    }

    /// The directory that `target` lies in, made if it is missing, and the last name.
    fn parent<'a>(&mut self, target: &'a Path) -> Result<(BorrowedFd<'_>, &'a OsStr), Failure> {
        let make = || format!("make the parent of `{}`", target.display());
        let (Some(parent), Some(name)) = (target.parent(), target.file_name()) else {
            return Err(Failure::new(format!("`{}` has no parent", target.display())));
        };
        let known = match self.parent.take() {
            Some(known) if known.0 == parent => self.parent.insert(known),
            _ => {
                let directory =
                    beneath::make_directories(self.root.as_fd(), parent, 0o755).step_with(make)?;
                self.parent.insert((parent.to_owned(), directory))
            }
        };
        Ok((known.1.as_fd(), name))
    }

    fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }
}

fn is_root(target: &Path) -> bool {
    target == Path::new("/")
}
