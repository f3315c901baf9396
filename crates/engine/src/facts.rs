//! Observes a new sandbox: reads the kernel's texts about process 1 from the host, and turns the
//! supervisor's report into what the rules compare.
//!
//! Decides nothing: `rules::facts::decide` does.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use clawpen_rules::facts::kernel::{self, KernelText, Status};
use clawpen_rules::facts::{
    FileId, Inside, Interface, InterfaceKind, Landlock, LandlockEffect, Memory, Outside, Process,
    Sealing,
};
use clawpen_wire::supervisor::{FactsReport, FileIdentity, NamespaceFact, ProcessFacts};

use crate::kernel_text;

/// The kinds of namespaces that a pen has of its own, as `/proc/self/ns` names them.
pub const NAMESPACES: [&str; 7] = ["user", "pid", "mnt", "net", "ipc", "uts", "cgroup"];

/// A fact could not be found out.
#[derive(Debug, thiserror::Error)]
pub enum ObserveError {
    #[error("cannot read `{}`", .path.display())]
    Read {
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error("the supervisor's report is no text")]
    NotText,
    #[error(transparent)]
    Kernel(#[from] KernelText),
}

/// The namespaces of this process.
pub fn own_namespaces() -> Result<Vec<(String, u64)>, ObserveError> {
    namespaces("self")
}

/// Process 1 of a sandbox, seen from here. It must still be open to observers.
pub fn outside(first_process: u32) -> Result<Outside, ObserveError> {
    let process = first_process.to_string();
    let text = |file: &str| {
        let path = PathBuf::from(format!("/proc/{process}/{file}"));
        kernel_text::read(&path).map_err(|cause| ObserveError::Read { path, cause })
    };
    Ok(Outside {
        status: Status::parse(&text("status")?)?,
        namespaces: namespaces(&process)?,
        uid_map: kernel::id_map(&text("uid_map")?)?,
        gid_map: kernel::id_map(&text("gid_map")?)?,
        mounts: kernel::mounts(&text("mountinfo")?)?,
    })
}

/// Whether others of the same user may look into a process. The kernel has no word for it, but the
/// entries of a closed one belong to root and not to its user (who is never root outside).
pub fn memory(first_process: u32, user: u32) -> Result<Memory, ObserveError> {
    let path = PathBuf::from(format!("/proc/{first_process}/environ"));
    let owner = fs::metadata(&path).map_err(|cause| ObserveError::Read { path, cause })?.uid();
    Ok(if owner == user { Memory::Open } else { Memory::Closed })
}

fn namespaces(process: &str) -> Result<Vec<(String, u64)>, ObserveError> {
    let mut found = Vec::new();
    for kind in NAMESPACES {
        let path = PathBuf::from(format!("/proc/{process}/ns/{kind}"));
        let link = match fs::read_link(&path) {
            Ok(link) => link,
            // A kernel without this kind; the comparison names what is missing.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(cause) => return Err(ObserveError::Read { path, cause }),
        };
        // `net:[4026531840]`
        let text = link.to_string_lossy();
        let number = text.split_once('[').and_then(|(_, rest)| rest.strip_suffix(']'));
        if let Some(number) = number.and_then(|number| number.parse().ok()) {
            found.push((kind.to_owned(), number));
        }
    }
    Ok(found)
}

/// The supervisor's report, read with the same readers as the host's own texts.
pub fn inside(report: &FactsReport) -> Result<Inside, ObserveError> {
    let FactsReport {
        supervisor,
        workload,
        mountinfo,
        uid_map,
        gid_map,
        interfaces,
        landlock,
        hostname: _,
        sealed,
    } = report;
    let interface = |found: &clawpen_wire::supervisor::Interface| Interface {
        name: found.name.clone(),
        kind: if found.loopback { InterfaceKind::Loopback } else { InterfaceKind::Other },
    };
    Ok(Inside {
        supervisor: process(supervisor)?,
        workload: process(workload)?,
        uid_map: kernel::id_map(text(uid_map)?)?,
        gid_map: kernel::id_map(text(gid_map)?)?,
        mounts: kernel::mounts(text(mountinfo)?)?,
        interfaces: interfaces.iter().map(interface).collect(),
        landlock: Landlock {
            abi: landlock.abi,
            effect: if landlock.enforced {
                LandlockEffect::Refuses
            } else {
                LandlockEffect::Nothing
            },
        },
        sealing: if *sealed { Sealing::After } else { Sealing::Before },
    })
}

/// Adds which files are mounted: `found` is what the supervisor answered for `targets`. A file counts
/// only with the mount that it was reached through, or a path that changed meanwhile would do.
pub fn identify(inside: &mut Inside, targets: &[PathBuf], found: &[Option<FileIdentity>]) {
    for (target, found) in targets.iter().zip(found) {
        let Some(FileIdentity { mount, device, inode }) = *found else { continue };
        let mounts = inside.mounts.iter_mut();
        let mut here = mounts.filter(|seen| seen.id == mount && Path::new(&seen.target) == target);
        if let Some(seen) = here.next() {
            seen.source = Some(FileId { device, inode });
        }
    }
}

fn process(facts: &ProcessFacts) -> Result<Process, ObserveError> {
    let ProcessFacts {
        status,
        limits,
        cgroup: _,
        namespaces,
        dumpable,
        securebits: _,
        descriptors,
    } = facts;
    let namespace = |NamespaceFact { name, inode }: &NamespaceFact| (name.clone(), *inode);
    Ok(Process {
        status: Status::parse(text(status)?)?,
        limits: kernel::limits(text(limits)?)?,
        namespaces: namespaces.iter().map(namespace).collect(),
        memory: if *dumpable { Memory::Open } else { Memory::Closed },
        descriptors: descriptors.clone(),
    })
}

fn text(bytes: &[u8]) -> Result<&str, ObserveError> {
    std::str::from_utf8(bytes).map_err(|_odd| ObserveError::NotText)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_can_be_observed() {
        let seen = outside(std::process::id()).unwrap();
        assert_eq!(seen.namespaces, own_namespaces().unwrap());
        assert!(seen.namespaces.iter().any(|(kind, _)| kind == "user"));
        assert!(seen.mounts.iter().any(|mount| mount.target == "/"));
        assert!(!seen.uid_map.is_empty());
    }

    #[test]
    fn a_process_that_is_gone_cannot() {
        let error = outside(u32::MAX).unwrap_err();
        assert!(matches!(error, ObserveError::Read { .. }), "{error}");
    }
}
