//! Where this process stands, and where a directory of ours can be made.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::Access;

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

impl Controller {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Memory, Self::Pids, Self::Cpu, Self::Freezer];

    /// The kernel's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Pids => "pids",
            Self::Cpu => "cpu",
            Self::Freezer => "freezer",
        }
    }

    fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|controller| controller.name() == name)
    }
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
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Hierarchies {
    /// Our directory per v1 controller.
    separate: BTreeMap<Controller, PathBuf>,
    /// Our v2 directory, and where that hierarchy is mounted.
    unified: Option<Unified>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Unified {
    mount_point: PathBuf,
    /// Our own directory.
    own: PathBuf,
    /// Where directories with these controllers can be made: our own, or one above that is
    /// delegated to us.
    parent: PathBuf,
    controllers: Vec<Controller>,
}

impl Hierarchies {
    /// From `/proc/self/cgroup`, `/proc/self/mountinfo` and the v2 files that say what is delegated.
    pub fn find() -> io::Result<Self> {
        let cgroup = fs::read_to_string("/proc/self/cgroup")?;
        let mountinfo = fs::read_to_string("/proc/self/mountinfo")?;
        let mut found = Self::parse(&cgroup, &mountinfo);
        if let Some(unified) = &mut found.unified {
            unified.look_for_controllers();
        }
        Ok(found)
    }

    /// The same from the two texts alone: nothing is known of v2 controllers then.
    pub fn parse(cgroup: &str, mountinfo: &str) -> Self {
        let mounts: Vec<MountLine> = mountinfo.lines().filter_map(MountLine::parse).collect();
        let mut found = Self::default();
        for line in cgroup.lines() {
            let mut fields = line.splitn(3, ':');
            let (Some(_), Some(names), Some(path)) = (fields.next(), fields.next(), fields.next())
            else {
                continue;
            };
            if names.is_empty() {
                let mount = mounts.iter().find(|mount| mount.kind == "cgroup2");
                found.unified = mount.and_then(|mount| mount.unified(path));
                continue;
            }
            for controller in names.split(',').filter_map(Controller::parse) {
                let offers = |mount: &&MountLine| {
                    mount.kind == "cgroup"
                        && mount.options.split(',').any(|option| option == controller.name())
                };
                let mount = mounts.iter().find(offers);
                if let Some(directory) = mount.and_then(|mount| mount.directory(path)) {
                    found.separate.insert(controller, directory);
                }
            }
        }
        found
    }

    /// The directory under which a leaf with this controller would be made, and its generation.
    pub fn place(&self, controller: Controller) -> Option<(&Path, Version)> {
        if let Some(directory) = self.separate.get(&controller) {
            return Some((directory, Version::V1));
        }
        let unified = self.unified.as_ref()?;
        let offers = unified.controllers.contains(&controller);
        offers.then_some((unified.parent.as_path(), Version::V2))
    }

    /// The directory in the unified hierarchy under which a leaf would be made (for `cgroup.kill`),
    /// even if it offers no controllers.
    pub fn unified(&self) -> Option<&Path> {
        self.unified.as_ref().map(|unified| unified.parent.as_path())
    }
}

impl Unified {
    /// Finds the directory, from our own upwards, that gives most controllers to its children (or
    /// can be told to) and that we may write; the nearest of equals. A directory with processes in it
    /// (but for the topmost) gives none, and ours has at least us: so this is often one above.
    fn look_for_controllers(&mut self) {
        let own = self.own.clone();
        for candidate in own.ancestors() {
            if !candidate.starts_with(&self.mount_point) {
                return;
            }
            let is_ours = rustix::fs::access(candidate, Access::WRITE_OK).is_ok();
            let controllers = if is_ours { offered(candidate) } else { Vec::new() };
            if controllers.len() > self.controllers.len() {
                self.controllers = controllers;
                candidate.clone_into(&mut self.parent);
            }
        }
    }
}

/// What children of this directory have, or could have if it were told so.
fn offered(directory: &Path) -> Vec<Controller> {
    let words = |file: &str| {
        let text = fs::read_to_string(directory.join(file)).unwrap_or_default();
        text.split_ascii_whitespace().filter_map(Controller::parse).collect::<Vec<_>>()
    };
    let given = words("cgroup.subtree_control");
    // The topmost directory may have processes and children with controllers; others not both.
    let is_topmost = !directory.join("cgroup.events").exists();
    let processes = fs::read_to_string(directory.join("cgroup.procs")).unwrap_or_default();
    if is_topmost || processes.is_empty() { words("cgroup.controllers") } else { given }
}

/// Makes `parent` give a controller to its children, if it does not yet.
pub(super) fn enable(parent: &Path, controller: Controller) -> io::Result<()> {
    let file = parent.join("cgroup.subtree_control");
    let given = fs::read_to_string(&file)?;
    if given.split_ascii_whitespace().any(|word| word == controller.name()) {
        return Ok(());
    }
    fs::write(&file, format!("+{}", controller.name()))
}

/// What a line of mountinfo says about a cgroup mount.
struct MountLine {
    /// Which directory of the hierarchy is mounted.
    root: PathBuf,
    mount_point: PathBuf,
    kind: String,
    options: String,
}

impl MountLine {
    /// `36 35 98:0 /root /point options [tags…] - kind source super-options`
    fn parse(line: &str) -> Option<Self> {
        let (mount, filesystem) = line.split_once(" - ")?;
        let mut mount = mount.split(' ').skip(3);
        let (root, mount_point) = (unescape(mount.next()?), unescape(mount.next()?));
        let mut filesystem = filesystem.split(' ');
        let kind = filesystem.next()?.to_owned();
        let options = filesystem.nth(1)?.to_owned();
        kind.starts_with("cgroup").then_some(Self { root, mount_point, kind, options })
    }

    /// Where `path` of this hierarchy is to be seen; `None` if it lies outside what is mounted.
    fn directory(&self, path: &str) -> Option<PathBuf> {
        let below = Path::new(path).strip_prefix(&self.root).ok()?;
        // `/../…`: we stand outside our own cgroup namespace's root.
        if below.starts_with("..") || path.starts_with("/..") {
            return None;
        }
        Some(if below.as_os_str().is_empty() {
            self.mount_point.clone()
        } else {
            self.mount_point.join(below)
        })
    }

    fn unified(&self, path: &str) -> Option<Unified> {
        let own = self.directory(path)?;
        let mount_point = self.mount_point.clone();
        Some(Unified { mount_point, parent: own.clone(), own, controllers: Vec::new() })
    }
}

/// Spaces and backslashes stand in mountinfo as `\040`, `\134`.
fn unescape(field: &str) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let code = after.first_chunk::<3>().filter(|_| *first == b'\\').and_then(|digits| {
            let text = std::str::from_utf8(digits).ok()?;
            u8::from_str_radix(text, 8).ok()
        });
        bytes.push(code.unwrap_or(*first));
        rest = after.get(if code.is_some() { 3 } else { 0 }..).unwrap_or_default();
    }
    PathBuf::from(OsString::from_vec(bytes))
}
