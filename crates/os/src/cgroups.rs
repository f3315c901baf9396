//! Cgroups of both generations: finds them, makes one leaf for a pen, limits, fills, kills and
//! removes it.
//!
//! Machines have one hierarchy per controller (v1), one for all (v2), or a mixture. A [`Leaf`] is the
//! set of directories that one pen needs, at most one per hierarchy, all of the same name.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::backoff::Backoff;
use crate::beneath::valid_name;
use crate::process::{Pid, Signal, kill};

mod hierarchies;
mod limits;

pub use hierarchies::{Controller, Hierarchies, Version};
pub use limits::Limits;

/// One directory of a leaf.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Directory {
    path: PathBuf,
    version: Version,
    controllers: Vec<Controller>,
}

/// The directories of one pen, in one or several hierarchies. Dropping it leaves them where they
/// are: a pen outlives the process that made it.
#[derive(Debug, PartialEq, Eq)]
pub struct Leaf {
    directories: Vec<Directory>,
}

impl Leaf {
    /// Makes directories called `name` wherever a limit needs one, and in the unified hierarchy if
    /// it is ours to write (for `cgroup.kill`), else in the freezer; and sets the limits.
    ///
    /// # Errors
    /// `Unsupported`, naming it, if a limit has no controller here. What was made before a failure
    /// is removed again.
    pub fn create(hierarchies: &Hierarchies, name: &str, limits: &Limits) -> io::Result<Self> {
        valid_name(name.as_ref())?;
        let mut leaf = Self { directories: Vec::new() };
        let made = leaf.fill(hierarchies, name, limits);
        match made {
            Ok(()) => Ok(leaf),
            Err(error) => {
                // The first failure is the one to tell.
                let _secondary = leaf.remove(Duration::ZERO);
                Err(error)
            }
        }
    }

    fn fill(&mut self, hierarchies: &Hierarchies, name: &str, limits: &Limits) -> io::Result<()> {
        for controller in limits.controllers() {
            let (parent, version) = hierarchies.place(controller).ok_or_else(|| {
                let what = format!("no cgroup with the `{}` controller", controller.name());
                io::Error::new(io::ErrorKind::Unsupported, what)
            })?;
            if version == Version::V2 {
                hierarchies::enable(parent, controller)?;
            }
            self.add_directory(parent.join(name), version, Some(controller))?;
        }
        self.add_killing_directory(hierarchies, name)?;
        self.directories.iter().try_for_each(|directory| {
            limits::write(&directory.path, directory.version, &directory.controllers, limits)
        })
    }

    /// The directory through which everything can be killed at once, if there can be one.
    fn add_killing_directory(&mut self, hierarchies: &Hierarchies, name: &str) -> io::Result<()> {
        if self.directories.iter().any(|directory| directory.version == Version::V2) {
            return Ok(());
        }
        let freezer = || hierarchies.place(Controller::Freezer).map(|(parent, _)| parent);
        let made = match hierarchies.unified() {
            Some(parent) => self.add_directory(parent.join(name), Version::V2, None),
            None => Err(io::ErrorKind::NotFound.into()),
        };
        match (made, freezer()) {
            (Ok(()), _) | (Err(_), None) => Ok(()),
            (Err(_), Some(parent)) => {
                match self.add_directory(parent.join(name), Version::V1, Some(Controller::Freezer))
                {
                    // Not ours to write: the kill falls back to signals.
                    Err(error) if is_not_ours(&error) => Ok(()),
                    other => other,
                }
            }
        }
    }

    /// v1 may mount several controllers together, and v2 has them all in one: one directory then.
    fn add_directory(
        &mut self,
        path: PathBuf,
        version: Version,
        controller: Option<Controller>,
    ) -> io::Result<()> {
        if let Some(known) = self.directories.iter_mut().find(|known| known.path == path) {
            known.controllers.extend(controller);
            return Ok(());
        }
        fs::create_dir(&path)?;
        self.directories.push(Directory {
            path,
            version,
            controllers: controller.into_iter().collect(),
        });
        Ok(())
    }

    /// Finds a leaf that an earlier process made; `NotFound` if there is none of that name.
    pub fn open(hierarchies: &Hierarchies, name: &str) -> io::Result<Self> {
        valid_name(name.as_ref())?;
        let mut leaf = Self { directories: Vec::new() };
        let places = Controller::ALL.into_iter().filter_map(|controller| {
            hierarchies
                .place(controller)
                .map(|(parent, version)| (parent, version, Some(controller)))
        });
        let unified = hierarchies.unified().map(|parent| (parent, Version::V2, None));
        for (parent, version, controller) in places.chain(unified) {
            let path = parent.join(name);
            let known = leaf.directories.iter_mut().find(|known| known.path == path);
            match known {
                Some(known) => known.controllers.extend(controller),
                None if path.is_dir() => {
                    let controllers = controller.into_iter().collect();
                    leaf.directories.push(Directory { path, version, controllers });
                }
                None => {}
            }
        }
        if leaf.directories.is_empty() { Err(io::ErrorKind::NotFound.into()) } else { Ok(leaf) }
    }

    /// Every directory of the leaf.
    pub fn directories(&self) -> impl Iterator<Item = &Path> {
        self.directories.iter().map(|directory| directory.path.as_path())
    }

    /// The v2 directory for [`crate::process::clone3`], if there is one.
    pub fn unified(&self) -> io::Result<Option<OwnedFd>> {
        self.unified_path().map(|path| File::open(path).map(OwnedFd::from)).transpose()
    }

    fn unified_path(&self) -> Option<&Path> {
        let is_v2 = |directory: &&Directory| directory.version == Version::V2;
        self.directories.iter().find(is_v2).map(|directory| directory.path.as_path())
    }

    /// Moves a process with all its threads in. Children it has already stay outside.
    pub fn add(&self, pid: Pid) -> io::Result<()> {
        self.directories().try_for_each(|path| add_to(path, pid))
    }

    /// The same for all but the v2 directory: for a process that was born there.
    pub fn add_born_in_unified(&self, pid: Pid) -> io::Result<()> {
        let born = self.unified_path();
        self.directories().filter(|path| Some(*path) != born).try_for_each(|path| add_to(path, pid))
    }

    /// The limits as the kernel reports them.
    pub fn limits(&self) -> io::Result<Limits> {
        let mut limits = Limits::default();
        for directory in &self.directories {
            limits::read(&directory.path, directory.version, &directory.controllers, &mut limits)?;
        }
        Ok(limits)
    }

    /// The processes in it that this pid namespace can name.
    pub fn processes(&self) -> io::Result<Vec<Pid>> {
        let mut all = Vec::new();
        for path in self.directories() {
            let text = fs::read_to_string(path.join("cgroup.procs"))?;
            all.extend(text.lines().filter_map(|line| Pid::new(line.parse().ok()?)));
        }
        all.sort_unstable();
        all.dedup();
        Ok(all)
    }

    /// Kills everything in it and waits until it is empty: through `cgroup.kill` where the kernel
    /// has it (5.14), else frozen first so that nothing can fork away, else again and again.
    ///
    /// # Errors
    /// `TimedOut` after `limit`.
    pub fn kill(&self, limit: Duration) -> io::Result<()> {
        let mut backoff = Backoff::new(limit);
        let at_once = self.unified_path().map(|path| fs::write(path.join("cgroup.kill"), "1"));
        let mut is_frozen = false;
        if !matches!(at_once, Some(Ok(()))) {
            is_frozen = self.freeze("FROZEN");
        }
        let outcome = loop {
            let processes = self.processes()?;
            if processes.is_empty() {
                break Ok(());
            }
            for pid in processes {
                // It may have ended meanwhile.
                let _gone = kill(pid, Signal::KILL);
            }
            // The frozen die only when they may run again.
            if is_frozen {
                self.freeze("THAWED");
                is_frozen = false;
            }
            if let Err(error) = backoff.pause() {
                break Err(error);
            }
        };
        if is_frozen {
            self.freeze("THAWED");
        }
        outcome
    }

    /// Whether there was a freezer and it obeyed.
    fn freeze(&self, state: &str) -> bool {
        let freezer = self
            .directories
            .iter()
            .find(|directory| directory.controllers.contains(&Controller::Freezer));
        freezer.is_some_and(|freezer| fs::write(freezer.path.join("freezer.state"), state).is_ok())
    }

    /// Removes the directories; waits up to `limit` for the kernel to let go of ended processes.
    /// Those that are gone already are no error.
    pub fn remove(self, limit: Duration) -> io::Result<()> {
        let mut backoff = Backoff::new(limit);
        let mut outcome = Ok(());
        for path in self.directories() {
            // The others are removed all the same.
            outcome = outcome.and(remove_when_empty(path, &mut backoff));
        }
        outcome
    }
}

/// Where a leaf called `name` would have directories, whatever limits it gets. Written down before
/// [`Leaf::create`], it leads to all that a killed maker left.
pub fn directories_of(hierarchies: &Hierarchies, name: &str) -> Vec<PathBuf> {
    let places = Controller::ALL.into_iter().filter_map(|one| hierarchies.place(one));
    let parents = places.map(|(parent, _)| parent).chain(hierarchies.unified());
    let mut found: Vec<PathBuf> = parents.map(|parent| parent.join(name)).collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// Removes the directories of a leaf that only their paths are known of, as [`Leaf::remove`] does.
pub fn remove_directories(paths: &[PathBuf], limit: Duration) -> io::Result<()> {
    let mut backoff = Backoff::new(limit);
    let mut outcome = Ok(());
    for path in paths {
        outcome = outcome.and(remove_when_empty(path, &mut backoff));
    }
    outcome
}

fn remove_when_empty(path: &Path, backoff: &mut Backoff) -> io::Result<()> {
    loop {
        match fs::remove_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                // What stands in the way says more than that time is up.
                backoff.pause().map_err(|_timed_out| error)?;
            }
            other => return other,
        }
    }
}

fn add_to(path: &Path, pid: Pid) -> io::Result<()> {
    fs::write(path.join("cgroup.procs"), pid.to_string())
}

fn is_not_ours(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

#[cfg(test)]
mod tests;
