//! Cgroups of both generations: finds them, makes one leaf for a pen, limits, fills, kills and removes it.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::process::Pid;

/// What can be limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Controller {
    /// Memory and swap.
    Memory,
    /// Number of tasks.
    Pids,
    /// Processor time.
    Cpu,
    /// v1 only: stops all at once, so that they can be killed.
    Freezer,
}

/// Which generation a directory belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// One hierarchy per controller.
    V1,
    /// The unified one.
    V2,
}

/// Where this process stands in the hierarchies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hierarchies {
    _later: (),
}

impl Hierarchies {
    /// From `/proc/self/cgroup` and `/proc/self/mountinfo`.
    pub fn find() -> io::Result<Self> {
        todo!()
    }
    /// The same from their texts.
    pub fn parse(cgroup: &str, mountinfo: &str) -> Self {
        todo!()
    }
    /// The directory under which a leaf with this controller would be made, and its generation.
    pub fn place(&self, controller: Controller) -> Option<(&Path, Version)> {
        todo!()
    }
    /// Our directory in the unified hierarchy (for `cgroup.kill`), even if it has no controllers.
    pub fn unified(&self) -> Option<&Path> {
        todo!()
    }
}

/// What a leaf is to enforce; `None` is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    /// Bytes of memory (swap is set to none on top of it where the kernel can).
    pub memory_bytes: Option<u64>,
    /// Tasks.
    pub pids: Option<u64>,
    /// Thousandths of one processor.
    pub cpu_millis: Option<u64>,
}

/// The directories of one pen, in one or several hierarchies.
#[derive(Debug)]
pub struct Leaf {
    _directories: Vec<PathBuf>,
}

impl Leaf {
    /// Makes directories called `name` wherever a limit needs one (and in the unified hierarchy if it is ours to
    /// write), and sets the limits. What was made before a failure is removed again.
    pub fn create(hierarchies: &Hierarchies, name: &str, limits: &Limits) -> io::Result<Self> {
        todo!()
    }
    /// Finds a leaf that an earlier process made.
    pub fn open(hierarchies: &Hierarchies, name: &str) -> io::Result<Self> {
        todo!()
    }
    /// Every directory of the leaf.
    pub fn directories(&self) -> impl Iterator<Item = &Path> {
        self._directories.iter().map(PathBuf::as_path)
    }
    /// The v2 directory for [`crate::process::clone3`], if there is one.
    pub fn unified(&self) -> io::Result<Option<OwnedFd>> {
        todo!()
    }
    /// Moves a process (not its children) in.
    pub fn add(&self, pid: Pid) -> io::Result<()> {
        todo!()
    }
    /// The limits as the kernel reports them.
    pub fn limits(&self) -> io::Result<Limits> {
        todo!()
    }
    /// The processes in it.
    pub fn processes(&self) -> io::Result<Vec<Pid>> {
        todo!()
    }
    /// Kills everything in it: `cgroup.kill`, else freezer, else again and again until `limit`.
    pub fn kill(&self, limit: Duration) -> io::Result<()> {
        todo!()
    }
    /// Removes the directories; waits up to `limit` for the kernel to let go of ended processes.
    pub fn remove(self, limit: Duration) -> io::Result<()> {
        todo!()
    }
}
