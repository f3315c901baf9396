//! File calls of tools: a path as a tool was given it, to a file of the sandbox.
//!
//! ```text
//! path ─► paths::decide (which file is meant) ─► may it be written? ─► the supervisor does it
//! ```
//!
//! What a path means is decided by names, over the mount table. Where it leads is the kernel's: the
//! supervisor resolves it beneath the mounted directory, so a link that leads out, or is made to at
//! the last moment, opens nothing. Nothing here touches a file of the host.

use clawpen_rules::host_files::HostFiles;
use clawpen_rules::mounts::{Mount, MountTable, Seen};
use clawpen_rules::paths::{self, Escape, EscapeReason, Location, Query, open};
use clawpen_rules::posix;
use clawpen_wire::supervisor::{
    Depth, ErrorCode, FileKind, Links, Metadata, OnExisting, Parents, Place,
};

use crate::channel::{CallError, Channel, WriteOptions};

/// Permission bits of a new directory; the workload's umask is the supervisor's.
const NEW_DIRECTORY: u32 = 0o755;

/// What a tool wants to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Read,
    Write,
    MakeDirectory,
    Remove,
    Rename,
    Stat,
}

impl Action {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::MakeDirectory => "make the directory",
            Self::Remove => "remove",
            Self::Rename => "rename",
            Self::Stat => "look at",
        }
    }
}

/// The call was not done, or not all of it.
#[derive(Debug, thiserror::Error)]
pub enum BridgeError {
    #[error("{0}")]
    Escape(Escape),
    #[error("cannot {} `{path}`: it can only be read in this sandbox", .action.as_str())]
    ReadOnly { action: Action, path: String },
    #[error("cannot {} `{path}`: it is a mounted directory itself", .action.as_str())]
    MountItself { action: Action, path: String },
    #[error("cannot {} `{path}`", .action.as_str())]
    Call {
        action: Action,
        path: String,
        #[source]
        cause: CallError,
    },
}

/// What to do if a path is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfMissing {
    Fine,
    Fail,
}

/// Files of one sandbox, by the paths that tools use.
#[derive(Debug)]
pub struct Bridge<'a, F> {
    pub table: &'a MountTable,
    /// What `~` stands for.
    pub home: &'a str,
    /// What a relative path starts from; the workspace, if there is none.
    pub working_directory: Option<&'a str>,
    pub files: &'a F,
    pub channel: &'a mut Channel,
}

impl<F: HostFiles> Bridge<'_, F> {
    /// What a path is, links followed; `None` if it is nothing.
    pub fn stat(&mut self, path: &str) -> Result<Option<Metadata>, BridgeError> {
        let found = self.find(path)?;
        match self.channel.stat(place(&found), Links::Follow) {
            Ok(result) => Ok(Some(result.metadata)),
            Err(cause) if is(&cause, ErrorCode::NotFound) => Ok(None),
            Err(cause) => Err(self.failed(Action::Stat, path, &found, cause)),
        }
    }

    /// All of a file, or at most `limit` bytes of it.
    pub fn read(&mut self, path: &str, limit: u64) -> Result<Vec<u8>, BridgeError> {
        let found = self.find(path)?;
        let mut contents = Vec::new();
        let read = self.channel.read(place(&found), 0, limit, &mut contents);
        read.map_err(|cause| self.failed(Action::Read, path, &found, cause))?;
        Ok(contents)
    }

    /// Replaces a file; what a link inside the sandbox points to, if it is one.
    pub fn write(
        &mut self,
        path: &str,
        mut contents: &[u8],
        parents: Parents,
    ) -> Result<(), BridgeError> {
        let found = self.find_writable(Action::Write, path)?;
        let options = WriteOptions { parents, ..WriteOptions::default() };
        let written = self.channel.write(place(&found), options, &mut contents);
        written.map(drop).map_err(|cause| self.failed(Action::Write, path, &found, cause))
    }

    /// Makes a directory and what is missing above it; one that exists is fine.
    pub fn make_directory(&mut self, path: &str) -> Result<(), BridgeError> {
        let found = self.find_writable(Action::MakeDirectory, path)?;
        if self.is_mount(&found) {
            return Ok(());
        }
        let made = self.channel.mkdir(place(&found), NEW_DIRECTORY, Parents::Make);
        made.map_err(|cause| self.failed(Action::MakeDirectory, path, &found, cause))
    }

    /// Removes a path; a link itself, never what it points to.
    pub fn remove(
        &mut self,
        path: &str,
        depth: Depth,
        missing: IfMissing,
    ) -> Result<(), BridgeError> {
        let found = self.find_writable(Action::Remove, path)?;
        self.refuse_mount(Action::Remove, &found)?;
        match (self.channel.remove(place(&found), depth), missing) {
            (Ok(()), _) => Ok(()),
            (Err(cause), IfMissing::Fine) if is(&cause, ErrorCode::NotFound) => Ok(()),
            (Err(cause), _) => Err(self.failed(Action::Remove, path, &found, cause)),
        }
    }

    /// Moves a path over whatever is at the new place, also from one mount to another. Directories
    /// above the new place are made.
    pub fn rename(&mut self, from: &str, to: &str) -> Result<(), BridgeError> {
        let source = self.find_writable(Action::Rename, from)?;
        let target = self.find_writable(Action::Rename, to)?;
        self.refuse_mount(Action::Rename, &source)?;
        self.refuse_mount(Action::Rename, &target)?;
        // Nothing is made for a source that is not there.
        let seen = self.channel.stat(place(&source), Links::Report);
        let seen = seen.map_err(|cause| self.failed(Action::Rename, from, &source, cause))?;
        self.make_parent(to, &target)?;
        let moved = if self.mount(&source) == self.mount(&target) {
            self.channel.rename(place(&source), place(&target), OnExisting::Replace)
        } else {
            self.move_across(&source, &target, seen.metadata.kind)
        };
        moved.map_err(|cause| self.failed(Action::Rename, from, &source, cause))
    }

    /// Two mounts are two file systems to the kernel. The old one goes when all of the new one is there.
    fn move_across(
        &mut self,
        source: &Location,
        target: &Location,
        kind: FileKind,
    ) -> Result<(), CallError> {
        let depth = match kind {
            FileKind::Directory => Depth::Tree,
            FileKind::File | FileKind::Link | FileKind::Other => Depth::One,
        };
        self.channel.copy(place(source), place(target), depth, OnExisting::Replace)?;
        self.channel.remove(place(source), depth)
    }

    fn make_parent(&mut self, path: &str, target: &Location) -> Result<(), BridgeError> {
        let parent = posix::parent(&target.container_path).to_owned();
        if self.table.mounts().iter().any(|mount| mount.container_root == parent) {
            return Ok(());
        }
        let made = self.channel.mkdir(Place::InPen(parent.into()), NEW_DIRECTORY, Parents::Make);
        made.map_err(|cause| self.failed(Action::Rename, path, target, cause))
    }

    fn query<'q>(&'q self, path: &'q str) -> Query<'q> {
        Query { input: path, working_directory: self.working_directory, home: self.home }
    }

    fn find(&self, path: &str) -> Result<Location, BridgeError> {
        paths::decide(self.table, &self.query(path), self.files).map_err(BridgeError::Escape)
    }

    fn find_writable(&self, action: Action, path: &str) -> Result<Location, BridgeError> {
        let found = self.find(path)?;
        if found.access.is_writable() {
            return Ok(found);
        }
        Err(BridgeError::ReadOnly { action, path: found.container_path })
    }

    fn mount(&self, found: &Location) -> Option<&Mount> {
        match self.table.at(&found.container_path) {
            Seen::Mounted(mount, _) => Some(mount),
            Seen::Memory | Seen::Image => None,
        }
    }

    fn is_mount(&self, found: &Location) -> bool {
        self.table.mounts().iter().any(|mount| mount.container_root == found.container_path)
    }

    fn refuse_mount(&self, action: Action, found: &Location) -> Result<(), BridgeError> {
        if self.is_mount(found) {
            let path = found.container_path.clone();
            return Err(BridgeError::MountItself { action, path });
        }
        Ok(())
    }

    /// The kernel only says that a path leads out; which link does is looked up for the reader.
    fn failed(
        &self,
        action: Action,
        path: &str,
        found: &Location,
        cause: CallError,
    ) -> BridgeError {
        if is(&cause, ErrorCode::Outside)
            && let Err(escape) = open::decide(self.table, &self.query(path), self.files)
            && let EscapeReason::LinkLeadsOut { .. } = escape.reason
        {
            return BridgeError::Escape(escape);
        }
        BridgeError::Call { action, path: found.container_path.clone(), cause }
    }
}

fn place(found: &Location) -> Place {
    Place::InPen(found.container_path.clone().into())
}

fn is(cause: &CallError, code: ErrorCode) -> bool {
    cause.failure().is_some_and(|failure| failure.code == code)
}
