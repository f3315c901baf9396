//! What each key of `sandbox.docker` means for a native pen: enforced, or refused by name.
//!
//! Takes the checked container spec, the config with its origins and what this machine offers;
//! gives a [`NativePen`] or every key that stands in the way. [`KEYS`] is the same as a table, for
//! the documents and `doctor`. A key that a native pen cannot keep is never passed over: a limit
//! nobody enforces is worse than no pen.
//!
//! Nothing here looks at the machine: [`Offer`] comes in.

pub mod ids;
mod limits;
mod names;

use std::net::IpAddr;

pub use limits::{Bound, Cpu, CpuQuota, Keeper, Limits, Rlimit, RlimitKind};
pub use names::{ExtraHost, PenUser, Programs, Tmpfs};

use crate::config::own::NativeSettings;
use crate::config::sandbox::DockerConfig;
use crate::config::setting::{Layer, Origin, Setting};
use crate::container::ContainerSpec;
use crate::environment::Environment;
use crate::mounts::{Access, CheckedBind};
use crate::posix;
use crate::workspace::WorkspaceMount;

/// What a key comes to on native.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// Kept for every value.
    Enforced,
    /// Kept for some values; all others stop the start.
    Partly,
    /// Any value stops the start.
    Refused,
}

/// One row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    pub name: &'static str,
    pub meaning: Meaning,
    /// How it is kept, or why it cannot be.
    pub how: &'static str,
}

/// Every key of `sandbox.docker`, in the order of the config reference.
pub const KEYS: &[Key] = &[
    key(
        "image",
        Meaning::Partly,
        "there are no images; unpack it and name the directory in clawpen.json (native.rootfs)",
    ),
    key("containerPrefix", Meaning::Enforced, "begins the pen's name"),
    key("workdir", Meaning::Enforced, "where the workspace is mounted and commands start"),
    key(
        "readOnlyRoot",
        Meaning::Partly,
        "true only: a pen sees the host's own programs, and those are never writable",
    ),
    key(
        "tmpfs",
        Meaning::Enforced,
        "private memory at these places, besides /tmp, /var/tmp, /run and /dev/shm",
    ),
    key("network", Meaning::Partly, "none only: a network namespace with nothing but loopback"),
    key(
        "user",
        Meaning::Partly,
        "by number, as uid or uid:gid, and root; each is mapped to an unprivileged id of the host",
    ),
    key("capDrop", Meaning::Enforced, "all capabilities are dropped, whatever the list names"),
    key("env", Meaning::Enforced, "filtered like everywhere, then given to every command"),
    key(
        "setupCommand",
        Meaning::Enforced,
        "run in the new pen before anything else; if it fails there is no pen",
    ),
    key(
        "pidsLimit",
        Meaning::Enforced,
        "a cgroup where we may make one, else the process limit of the pen's user namespace",
    ),
    key("memory", Meaning::Partly, "a cgroup; refused where we may not make one"),
    key("memorySwap", Meaning::Partly, "a cgroup that counts swap; refused where there is none"),
    key("cpus", Meaning::Partly, "a cgroup; refused where we may not make one"),
    key("gpus", Meaning::Refused, "a pen has no devices"),
    key(
        "ulimits",
        Meaning::Partly,
        "resource limits of every process; one above this machine's own hard limit is refused",
    ),
    key(
        "seccompProfile",
        Meaning::Refused,
        "a pen has its own, stricter filter; profiles of an engine are not read",
    ),
    key(
        "apparmorProfile",
        Meaning::Refused,
        "confinement is by Landlock and seccomp; profiles are not loaded",
    ),
    key("dns", Meaning::Enforced, "stands in the pen's resolv.conf"),
    key(
        "extraHosts",
        Meaning::Partly,
        "stands in the pen's hosts file; host-gateway is refused, there is no gateway",
    ),
    key(
        "binds",
        Meaning::Enforced,
        "mounted without setuid and devices, ids mapped; over the system's own directories refused",
    ),
    key(
        "dangerouslyAllowReservedContainerTargets",
        Meaning::Enforced,
        "as everywhere, for the workspace's own places",
    ),
    key("dangerouslyAllowExternalBindSources", Meaning::Enforced, "as everywhere"),
    key(
        "dangerouslyAllowContainerNamespaceJoin",
        Meaning::Enforced,
        "opens nothing: only network none exists",
    ),
];

const fn key(name: &'static str, meaning: Meaning, how: &'static str) -> Key {
    Key { name, meaning, how }
}

/// Places of a pen that are made by us: a bind or tmpfs there would change what confines it, or
/// hide what the checks after the start look at.
const SYSTEM_PLACES: &[&str] = &[
    "/proc", "/sys", "/dev", "/etc", "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32",
];

/// What this machine lets us enforce.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Offer {
    pub pids: Support,
    pub memory: Support,
    pub swap: Support,
    pub cpu: Support,
}

/// Whether a cgroup of ours can limit something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Support {
    Yes,
    #[default]
    No,
}

/// A pen ready to be made. Made by [`decide`] only.
#[derive(Debug, Clone, PartialEq)]
pub struct NativePen {
    root: Root,
    workdir: String,
    tmpfs: Vec<Tmpfs>,
    user: PenUser,
    env: Environment,
    setup: Option<String>,
    limits: Limits,
    dns: Vec<IpAddr>,
    hosts: Vec<ExtraHost>,
    mounts: Vec<WorkspaceMount>,
    binds: Vec<CheckedBind>,
}

/// What the pen's file system is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Root {
    /// The host's own programs, read-only, and a small `/etc`.
    HostView,
    /// An unpacked image, read-only.
    Directory(String),
}

/// A key that a native pen cannot keep.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}` {problem} (backend native)", .origin.key)]
pub struct KeyRefused {
    pub origin: Origin,
    pub problem: Problem,
}

/// Why it cannot.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    #[error(
        "names the image `{0}`, and native has no images; unpack it and set native.rootfs in \
         clawpen.json, or remove the key"
    )]
    Image(String),
    #[error("asks for a writable root, and the host's programs are never writable; set it to true")]
    WritableRoot,
    #[error("asks for the network `{0}`, and a native pen has none; set it to `none`")]
    Network(String),
    #[error("names the user `{0}`, whose number nobody knows here; write `uid` or `uid:gid`")]
    User(String),
    #[error("asks for GPUs (`{0}`), and a native pen has no devices; remove the key")]
    Gpus(String),
    #[error("names the profile `{0}`, which native does not read; remove the key")]
    Profile(String),
    #[error("needs a cgroup of our own, and this machine gives us none; see `clawpen doctor`")]
    NoCgroup,
    #[error("is `{0}`, which is no amount; write it like `512m` or `1g`")]
    Amount(String),
    #[error("is set without `memory`, or is smaller; set `memory` too")]
    SwapWithoutMemory,
    #[error("names the limit `{0}`, which Linux does not have; write it like `nofile`")]
    UnknownLimit(String),
    #[error("sets `{name}` to `{value}`, which is no limit; write `soft` or `soft:hard`")]
    LimitValue { name: String, value: String },
    #[error("holds `{0}`, which is no address; write it like `9.9.9.9`")]
    Address(String),
    #[error("has more than {0} entries, and resolvers read no more")]
    TooManyServers(usize),
    #[error("holds `{0}`; write it like `name:10.0.0.1`")]
    Host(String),
    #[error("holds the tmpfs `{entry}` with the option `{option}`, which native does not have")]
    TmpfsOption { entry: String, option: String },
    #[error("puts `{entry}` over `{place}`, which the pen itself is made of; choose another place")]
    SystemPlace { entry: String, place: String },
    #[error("is `{0}`, which is not an absolute path")]
    NotAbsolute(String),
}

/// Decides what a native pen looks like; otherwise names every key that cannot be kept.
pub fn decide(
    spec: &ContainerSpec,
    docker: &DockerConfig,
    native: &NativeSettings,
    offer: Offer,
) -> Result<NativePen, Vec<KeyRefused>> {
    let mut refused = Vec::new();
    let root = check(&mut refused, root(docker, native)).unwrap_or(Root::HostView);
    never(&mut refused, docker);
    let user = check(&mut refused, names::user(docker.user.as_ref())).unwrap_or_default();
    let tmpfs = check(&mut refused, names::tmpfs(&docker.tmpfs)).unwrap_or_default();
    let dns = check(&mut refused, names::dns(docker.dns.as_ref())).unwrap_or_default();
    let hosts = check(&mut refused, names::hosts(docker.extra_hosts.as_ref())).unwrap_or_default();
    let limits = limits::decide(docker, offer, &mut refused);
    places(&mut refused, docker, spec);
    if !refused.is_empty() {
        return Err(refused);
    }
    let setup = docker.setup_command.as_ref().map(|setup| setup.value.trim());
    Ok(NativePen {
        root,
        workdir: posix::normalize(&docker.workdir.value),
        tmpfs,
        user,
        env: spec.env().clone(),
        setup: setup.filter(|setup| !setup.is_empty()).map(str::to_owned),
        limits,
        dns,
        hosts,
        mounts: checked_mounts(spec),
        binds: spec.binds().to_vec(),
    })
}

/// The workspace by the paths that were decided on: a link that comes later is noticed.
fn checked_mounts(spec: &ContainerSpec) -> Vec<WorkspaceMount> {
    let checked = spec.mounts().iter().zip(spec.checked_sources());
    let mount = |(mount, (_, real)): (&WorkspaceMount, (&str, &str))| WorkspaceMount {
        source: real.to_owned(),
        ..mount.clone()
    };
    checked.map(mount).collect()
}

fn check<T>(refused: &mut Vec<KeyRefused>, found: Result<T, KeyRefused>) -> Option<T> {
    found.map_err(|problem| refused.push(problem)).ok()
}

fn refuse(origin: &Origin, problem: Problem) -> KeyRefused {
    KeyRefused { origin: origin.clone(), problem }
}

/// The directory that stands for the image. An image that somebody wrote down must not quietly
/// become the host's programs.
fn root(docker: &DockerConfig, native: &NativeSettings) -> Result<Root, KeyRefused> {
    if let Some(rootfs) = &native.rootfs {
        let path = posix::normalize(&rootfs.value);
        if !rootfs.value.starts_with('/') || path == "/" {
            return Err(refuse(&rootfs.origin, Problem::NotAbsolute(rootfs.value.clone())));
        }
        return Ok(Root::Directory(path));
    }
    match docker.image.origin.layer {
        Layer::BuiltIn | Layer::Derived => Ok(Root::HostView),
        Layer::Defaults | Layer::Agent => {
            Err(refuse(&docker.image.origin, Problem::Image(docker.image.value.clone())))
        }
    }
}

/// The keys of which at most one value can be kept.
fn never(refused: &mut Vec<KeyRefused>, docker: &DockerConfig) {
    if !docker.read_only_root.value {
        refused.push(refuse(&docker.read_only_root.origin, Problem::WritableRoot));
    }
    // Blank leaves the choice to an engine, and an engine would choose a bridge.
    if docker.network.value.trim() != "none" {
        let name = docker.network.value.clone();
        refused.push(refuse(&docker.network.origin, Problem::Network(name)));
    }
    let mut stop = |setting: Option<&Setting<String>>, problem: fn(String) -> Problem| {
        let Some(setting) = setting else { return };
        let text = setting.value.trim();
        if !text.is_empty() {
            refused.push(refuse(&setting.origin, problem(text.to_owned())));
        }
    };
    stop(docker.gpus.as_ref(), Problem::Gpus);
    stop(docker.seccomp_profile.as_ref(), Problem::Profile);
    stop(docker.apparmor_profile.as_ref(), Problem::Profile);
}

/// Binds and tmpfs may not stand where the pen's own mounts are, nor hold such a place.
fn places(refused: &mut Vec<KeyRefused>, docker: &DockerConfig, spec: &ContainerSpec) {
    let taken = |target: &str| {
        let target = posix::normalize(target);
        let touches =
            |place: &&&str| posix::is_inside(place, &target) || posix::is_inside(&target, place);
        SYSTEM_PLACES.iter().find(touches).copied().filter(|_| target != names::SHARED_MEMORY)
    };
    let mut stop = |entry: &str, target: &str, origin: &Origin| {
        let Some(place) = taken(target) else { return };
        let problem = Problem::SystemPlace { entry: entry.to_owned(), place: place.to_owned() };
        refused.push(refuse(origin, problem));
    };
    stop(&docker.workdir.value, &docker.workdir.value, &docker.workdir.origin);
    for entry in &docker.tmpfs.value {
        stop(entry, entry.split(':').next().unwrap_or(entry), &docker.tmpfs.origin);
    }
    let binds = docker.binds.iter().flatten();
    for (written, bind) in binds.zip(spec.binds()) {
        stop(bind.text(), bind.target(), &written.origin);
    }
}

impl NativePen {
    pub const fn root(&self) -> &Root {
        &self.root
    }

    /// Where the workspace stands and commands start.
    pub fn workdir(&self) -> &str {
        &self.workdir
    }

    pub fn tmpfs(&self) -> &[Tmpfs] {
        &self.tmpfs
    }

    /// Whom commands run as, inside.
    pub const fn user(&self) -> PenUser {
        self.user
    }

    pub const fn env(&self) -> &Environment {
        &self.env
    }

    /// A script to run before anything else.
    pub fn setup(&self) -> Option<&str> {
        self.setup.as_deref()
    }

    pub const fn limits(&self) -> &Limits {
        &self.limits
    }

    pub fn dns(&self) -> &[IpAddr] {
        &self.dns
    }

    pub fn hosts(&self) -> &[ExtraHost] {
        &self.hosts
    }

    /// What of the host's directories is inside: the workspace's own mounts, then the binds.
    pub fn host_directories(&self) -> Vec<HostDirectory<'_>> {
        let own = self.mounts.iter().map(|mount| HostDirectory {
            source: &mount.source,
            target: &mount.target,
            access: mount.access,
            origin: HostOrigin::Workspace,
        });
        let binds = self.binds.iter().map(|bind| HostDirectory {
            source: bind.real_source(),
            target: bind.target(),
            access: bind.access(),
            origin: HostOrigin::Bind,
        });
        own.chain(binds).collect()
    }
}

/// One path of the host in the pen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostDirectory<'a> {
    pub source: &'a str,
    pub target: &'a str,
    pub access: Access,
    pub origin: HostOrigin,
}

/// Why a path of the host is in the pen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostOrigin {
    /// A directory always.
    Workspace,
    /// Whatever the config names, a single file too.
    Bind,
}

#[cfg(test)]
mod tests;
