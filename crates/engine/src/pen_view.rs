//! What a native pen sees: the steps that build its file system, and what must be found there
//! afterwards.
//!
//! ```text
//! /                tmpfs, read-only in the end
//! /usr /bin /lib*  the host's, read-only; links stay links
//! /etc             written here (passwd, group, hosts, …); certificates, loader cache, alternatives of the host
//! /dev             six devices, own terminals, own shared memory
//! /proc            own processes; what tells or changes something of the host is masked
//! /tmp /var/tmp /run   private memory
//! /workspace …     the layout's directories and the configured binds
//! ```
//!
//! Nothing else of the host: no homes, no sockets, no other mounts. With `native.rootfs` the system
//! directories come from an unpacked image instead.
//!
//! Looks at the host's directories (which are links, which hold mounts), never changes anything.

mod etc;
mod host;
mod image;

use std::path::{Path, PathBuf};

use clawpen_rules::facts::{Below, MountAsked, SourceAsked};
use clawpen_rules::mounts::Access;
use clawpen_rules::native::{HostOrigin, NativePen, Programs, Root, Tmpfs};
use clawpen_wire::pen::{
    BindOwner, FileRoot, LandlockAccess, LandlockRule, MountFlags, MountStep, RootAccess,
};

pub(crate) use etc::HOST_NAME;
use host::Found;
pub use host::{Host, ViewError};

/// Directories of programs. What is a link on the host stays one.
const SYSTEM: &[&str] = &["usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"];
/// Harmless devices that programs expect.
const DEVICES: &[&str] = &["null", "zero", "full", "random", "urandom", "tty"];
/// Private memory in every pen, whatever the config lists.
const MEMORY: &[&str] = &["/tmp", "/var/tmp", "/run", "/dev/shm"];
/// Open to everyone, and of the whole host: its memory, keys, timers, symbols, devices, file systems; what
/// counts interrupts tells when somebody types. What only the host's root may read is shut anyway: no id of
/// a pen is his.
const MASKED: &[&str] = &[
    "/proc/acpi",
    "/proc/asound",
    "/proc/bus",
    "/proc/fs",
    "/proc/interrupts",
    "/proc/irq",
    "/proc/scsi",
    "/proc/kcore",
    "/proc/keys",
    "/proc/key-users",
    "/proc/timer_list",
    "/proc/sched_debug",
    "/proc/kallsyms",
    "/proc/latency_stats",
    "/proc/sysrq-trigger",
];
/// Room of a private memory for each file that it may hold: files take memory even if they are empty.
const BYTES_PER_FILE: u64 = 1024;
/// Settings of the kernel, some of which belong to the pen's own network: to be read only.
const READ_ONLY: &[&str] = &["/proc/sys"];
/// The file system of one pen.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct View {
    pub steps: Vec<MountStep>,
    /// What must be mounted in the end, and nothing else.
    pub mounts: Vec<MountAsked>,
    pub landlock: Vec<LandlockRule>,
    /// What file calls may name, the workspace first.
    pub roots: Vec<FileRoot>,
}

/// Whose the workspace's files are inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ownership {
    /// Ids on disk are those of the pen's user, by an idmapped mount. Only root can make one.
    Mapped,
    /// The pen's user is the host's user already.
    Same,
}

/// Builds the view of `pen` on `host`.
pub fn build(pen: &NativePen, ownership: Ownership, host: &Host) -> Result<View, ViewError> {
    let mut view = Builder::default();
    view.mounted("/", &["ro", "nosuid", "nodev"], Below::Nothing);
    view.open("/", LandlockAccess::Read);
    match pen.root() {
        Root::HostView => view.system(host)?,
        Root::Directory(directory) => image::bring(&mut view, Path::new(directory), pen, host)?,
    }
    etc::write(&mut view, pen, host)?;
    view.devices();
    view.processes(host);
    view.memory(pen.tmpfs());
    view.host_directories(pen, ownership, host)?;
    view.step(MountStep::ReadOnly { target: "/".into() });
    Ok(view.0)
}

/// A view in the making: each step brings what must be found after it.
#[derive(Debug, Default)]
struct Builder(View);

impl Builder {
    fn step(&mut self, step: MountStep) {
        self.0.steps.push(step);
    }

    fn mounted(&mut self, target: &str, flags: &[&'static str], below: Below) {
        let target = target.to_owned();
        self.0.mounts.push(MountAsked {
            target,
            flags: flags.to_vec(),
            below,
            // The maker holds each source open from its check to its mount.
            source: SourceAsked::Any,
        });
    }

    /// Tells Landlock; what it is not told stays shut.
    fn open(&mut self, path: &str, access: LandlockAccess) {
        self.0.landlock.push(LandlockRule { path: path.into(), access, optional: false });
    }

    /// Something of the host, to be read and run.
    fn read_only(&mut self, source: &Path, target: &str, host: &Host) {
        let (submounts, below) = host.submounts(source);
        self.step(MountStep::Bind {
            source: source.to_owned(),
            target: target.into(),
            flags: MountFlags { bits: MountFlags::READ_ONLY },
            submounts,
            owner: BindOwner::AsIs,
        });
        self.mounted(target, &["ro", "nosuid", "nodev"], below);
        self.open(target, LandlockAccess::ReadExecute);
    }

    fn link(&mut self, target: &str, to: PathBuf) {
        self.step(MountStep::Symlink { target: target.into(), to });
    }

    fn file(&mut self, target: &str, contents: impl Into<Vec<u8>>) {
        let contents = contents.into();
        self.step(MountStep::File { target: target.into(), contents, permissions: 0o644 });
    }

    /// The host's own programs.
    fn system(&mut self, host: &Host) -> Result<(), ViewError> {
        for name in SYSTEM {
            let target = format!("/{name}");
            match host.look(Path::new(&target))? {
                Found::Nothing | Found::Other => {}
                Found::Link(to) => self.link(&target, to),
                Found::Directory | Found::File => {
                    self.read_only(&host.real(Path::new(&target))?, &target, host);
                }
            }
        }
        Ok(())
    }

    fn devices(&mut self) {
        for name in DEVICES {
            let path = format!("/dev/{name}");
            self.step(MountStep::Device {
                source: path.clone().into(),
                target: path.clone().into(),
            });
            self.mounted(&path, &["nosuid", "noexec"], Below::Nothing);
            self.open(&path, LandlockAccess::ReadWriteFiles);
        }
        self.step(MountStep::Devpts { target: "/dev/pts".into() });
        self.mounted("/dev/pts", &["nosuid", "noexec"], Below::Nothing);
        self.open("/dev/pts", LandlockAccess::ReadWriteFiles);
        for (name, to) in [
            ("ptmx", "pts/ptmx"),
            ("fd", "/proc/self/fd"),
            ("stdin", "/proc/self/fd/0"),
            ("stdout", "/proc/self/fd/1"),
            ("stderr", "/proc/self/fd/2"),
        ] {
            self.link(&format!("/dev/{name}"), to.into());
        }
    }

    fn processes(&mut self, host: &Host) {
        self.step(MountStep::Proc { target: "/proc".into() });
        self.mounted("/proc", &["nosuid", "nodev", "noexec"], Below::Nothing);
        // Not to be written, not even what is a process's own there: it costs programs a new name for
        // a thread, and it is what the observer tries to prove that Landlock refuses.
        self.open("/proc", LandlockAccess::Read);
        for path in READ_ONLY.iter().filter(|path| host.has(Path::new(path))) {
            self.step(MountStep::ReadOnly { target: path.into() });
            self.mounted(path, &["ro", "nosuid", "nodev", "noexec"], Below::Nothing);
        }
        for path in MASKED.iter().filter(|path| host.has(Path::new(path))) {
            self.step(MountStep::Mask { target: path.into() });
            self.mounted(path, &["ro", "nosuid", "nodev", "noexec"], Below::Nothing);
        }
    }

    fn memory(&mut self, configured: &[Tmpfs]) {
        let usual =
            MEMORY.iter().filter(|path| configured.iter().all(|tmpfs| tmpfs.path != **path));
        let all: Vec<Tmpfs> =
            usual.map(|path| Tmpfs::plain(path)).chain(configured.iter().cloned()).collect();
        for Tmpfs { path, bytes, mode, programs } in &all {
            let (bits, flags, access): (_, &[_], _) = match programs {
                Programs::Run => (0, &["nosuid", "nodev"], LandlockAccess::Full),
                Programs::Refused => {
                    (MountFlags::NO_EXEC, &["nosuid", "nodev", "noexec"], LandlockAccess::ReadWrite)
                }
            };
            self.step(MountStep::Tmpfs {
                target: path.into(),
                size: *bytes,
                inodes: bytes / BYTES_PER_FILE,
                permissions: *mode,
                flags: MountFlags { bits },
            });
            self.mounted(path, flags, Below::Nothing);
            self.open(path, access);
            self.0.roots.push(FileRoot { path: path.into(), access: RootAccess::Write });
        }
        self.link_run();
    }

    /// Old programs look for `/run` below `/var`. An image may have that link, or something else there.
    fn link_run(&mut self) {
        let is_taken = |step: &MountStep| match step {
            MountStep::Symlink { target, .. } => target == Path::new("/var/run"),
            MountStep::Bind { target, .. } => Path::new("/var/run").starts_with(target),
            _ => false,
        };
        if !self.0.steps.iter().any(is_taken) {
            self.link("/var/run", "/run".into());
        }
    }

    /// The workspace and the binds. They come last, so that one may stand in private memory.
    fn host_directories(
        &mut self,
        pen: &NativePen,
        ownership: Ownership,
        host: &Host,
    ) -> Result<(), ViewError> {
        let mut roots = Vec::new();
        for directory in pen.host_directories() {
            let source = host.unchanged(Path::new(directory.source))?;
            let is_directory = match directory.origin {
                HostOrigin::Workspace => true,
                HostOrigin::Bind => host.look(&source)? == Found::Directory,
            };
            let (submounts, below) = host.submounts(&source);
            let (bits, flags, landlock, access): (_, &[_], _, _) = match directory.access {
                Access::ReadOnly => (
                    MountFlags::READ_ONLY,
                    &["ro", "nosuid", "nodev"],
                    LandlockAccess::ReadExecute,
                    RootAccess::Read,
                ),
                Access::ReadWrite => {
                    (0, &["rw", "nosuid", "nodev"], LandlockAccess::Full, RootAccess::Write)
                }
            };
            let owner = match ownership {
                Ownership::Same => BindOwner::AsIs,
                Ownership::Mapped => host.mapped(&source, pen.user())?,
            };
            self.step(MountStep::Bind {
                source,
                target: directory.target.into(),
                flags: MountFlags { bits },
                submounts,
                owner,
            });
            self.mounted(directory.target, flags, below);
            self.open(directory.target, landlock);
            // A file that is bound alone can be read like the rest of the pen, and not be replaced.
            if is_directory {
                roots.push(FileRoot { path: directory.target.into(), access });
            }
        }
        roots.append(&mut self.0.roots);
        self.0.roots = roots;
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests;
