//! What this machine offers for sandboxes. Looked up by trying, where trying is harmless; decides
//! nothing.

use std::fs;
use std::path::{Path, PathBuf};

use clawpen_os::cgroups::{Controller, Hierarchies};
use clawpen_os::rlimits::{self, Limit, Resource};
use clawpen_os::{landlock, process, seccomp};
use clawpen_rules::native::ids::Helpers;
use clawpen_rules::native::{Offer, Support};

use crate::backend::native;

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    pub uid: u32,
    pub kernel: String,
    pub user_namespaces: UserNamespaces,
    pub helpers: Helpers,
    /// The lines of `/etc/subuid` and `/etc/subgid` that are meant for us.
    pub subordinate: Subordinate,
    /// Zero: none.
    pub landlock_abi: u32,
    pub has_seccomp: bool,
    pub cgroups: Vec<CgroupPlace>,
    pub sockets: Vec<PathBuf>,
}

/// Whether a process like us may make user namespaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserNamespaces {
    Yes,
    /// The setting of the kernel that forbids it.
    No(&'static str),
}

/// Whether ids are set aside for us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subordinate {
    Yes,
    No,
}

/// A controller, and whether we may make groups there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CgroupPlace {
    pub controller: &'static str,
    pub directory: Option<PathBuf>,
    pub support: Support,
}

/// Settings that switch user namespaces off, with the value that does.
const SWITCHES: [(&str, &str); 3] = [
    ("/proc/sys/user/max_user_namespaces", "0"),
    ("/proc/sys/kernel/unprivileged_userns_clone", "0"),
    ("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1"),
];
/// Where container engines listen.
const SOCKETS: [&str; 3] =
    ["/var/run/docker.sock", "/run/podman/podman.sock", "/run/containerd/containerd.sock"];

/// Looks at everything.
pub fn look() -> Machine {
    let uid = process::identity().map_or(u32::MAX, |identity| identity.uid);
    let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let closed = SWITCHES.iter().find(|(path, off)| {
        // Only the first one binds root as well.
        (uid != 0 || path.contains("max_user")) && text(path).trim() == *off
    });
    let user_namespaces = match closed {
        Some((path, _)) => UserNamespaces::No(path),
        None if !Path::new("/proc/self/ns/user").exists() => {
            UserNamespaces::No("CONFIG_USER_NS of the kernel")
        }
        None => UserNamespaces::Yes,
    };
    let mut sockets: Vec<PathBuf> = SOCKETS.iter().map(PathBuf::from).collect();
    sockets.push(PathBuf::from(format!("/run/user/{uid}/podman/podman.sock")));
    sockets.retain(|socket| socket.exists());
    Machine {
        uid,
        kernel: text("/proc/sys/kernel/osrelease").trim().to_owned(),
        user_namespaces,
        helpers: native::helpers(),
        subordinate: native::subordinate(),
        landlock_abi: landlock::abi().ok().flatten().unwrap_or(0),
        has_seccomp: seccomp::is_available(),
        cgroups: cgroups(),
        sockets,
    }
}

/// What limits could be kept; the slow part of starting a pen, so asked only when needed.
pub fn offer() -> Offer {
    let found = cgroups();
    let support = |name: &str| {
        let place = found.iter().find(|place| place.controller == name);
        place.map_or(Support::No, |place| place.support)
    };
    Offer {
        pids: support("pids"),
        memory: support("memory"),
        // Swap is always taken away with memory; no other amount can be set.
        swap: Support::No,
        cpu: support("cpu"),
    }
}

fn cgroups() -> Vec<CgroupPlace> {
    let hierarchies = Hierarchies::find().ok();
    let places =
        [("memory", Controller::Memory), ("pids", Controller::Pids), ("cpu", Controller::Cpu)];
    places
        .into_iter()
        .map(|(name, controller)| {
            let place = hierarchies.as_ref().and_then(|found| found.place(controller));
            let directory = place.map(|(path, _)| path.to_owned());
            let is_ours = directory
                .as_ref()
                .is_some_and(|path| rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok());
            let support = if is_ours { Support::Yes } else { Support::No };
            CgroupPlace { controller: name, directory, support }
        })
        .collect()
}

/// Lets this process open as many files as it may: each sandbox takes a few.
pub fn raise_open_files() {
    // Without the raise fewer sandboxes fit, and the one too many says so.
    if let Ok(Limit { hard, .. }) = rlimits::get(Resource::OpenFiles) {
        drop(rlimits::set(Resource::OpenFiles, Limit { soft: hard, hard }));
    }
}

/// The address of this machine in 100.64.0.0/10, where a tailnet puts it.
pub fn tailnet_address() -> Option<std::net::Ipv4Addr> {
    tailnet_in(&std::fs::read_to_string("/proc/net/fib_trie").ok()?)
}

/// The kernel's table names an address on one line and says on the next that it is ours.
fn tailnet_in(table: &str) -> Option<std::net::Ipv4Addr> {
    let lines: Vec<&str> = table.lines().map(str::trim).collect();
    lines.windows(2).find_map(|pair| {
        let [first, second] = pair else { return None };
        let address = first.strip_prefix("|-- ")?.parse::<std::net::Ipv4Addr>().ok()?;
        let [a, b, _, _] = address.octets();
        let is_there = second.contains("host LOCAL");
        (is_there && a == 100 && (64..128).contains(&b)).then_some(address)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tailnet_is_found_by_its_address() {
        let table = "Main:\n  |-- 10.0.0.1\n     /32 host LOCAL\n  |-- 100.64.0.0\n     /10 universe UNICAST\n  |-- 100.101.2.3\n     /32 host LOCAL\n";
        assert_eq!(tailnet_in(table), Some(std::net::Ipv4Addr::new(100, 101, 2, 3)));
        assert_eq!(tailnet_in("  |-- 100.128.0.1\n     /32 host LOCAL\n"), None);
    }
}
