//! What the supervisor of a container is told: who it is, what commands start from, and how each
//! of them is confined besides what the engine does.
//!
//! The confinement is the native one, stacked inside the engine's: our own system call filter, and
//! Landlock where the engine lets it through.

use std::ffi::OsString;
use std::path::PathBuf;

use bollard::models::ImageInspect;
use clawpen_rules::container::engine_limits::{EngineLimits, EngineUlimit};
use clawpen_rules::container::{ContainerSpec, RootFilesystem};
use clawpen_rules::mounts::Access;
use clawpen_rules::native::RlimitKind;
use clawpen_wire::pen::{
    Credentials, FileRoot, LandlockAccess, LandlockPlan, LandlockRule, Lifetime, PenSpec,
    ResourceLimit, RootAccess, ServeCaps, ServePlan,
};
use clawpen_wire::supervisor::EnvVar;

use super::failure::DockerFailure;
use super::request;
use crate::seccomp;

/// Places that are writable whatever the root is: devices, and memory that the engine mounts. Not
/// `/proc`: what a process may write there changes what confines it, or how it looks to others.
const ALWAYS_OPEN: &[(&str, LandlockAccess)] = &[
    ("/dev", LandlockAccess::ReadWriteFiles),
    ("/dev/shm", LandlockAccess::ReadWrite),
    ("/dev/mqueue", LandlockAccess::ReadWrite),
];

/// The plan, as the supervisor reads it.
pub(super) fn bytes(
    spec: &ContainerSpec,
    image: &ImageInspect,
    (uid, gid): (u32, u32),
    lifetime: Lifetime,
) -> Result<Vec<u8>, DockerFailure> {
    let mut env = request::environment(spec, image);
    // A home that can be written to; the image's own is read-only or somebody else's.
    if spec.env().get("HOME").is_none() {
        env.retain(|(name, _)| name != "HOME");
        env.push(("HOME".to_owned(), spec.workdir().to_owned()));
    }
    let env = env
        .into_iter()
        .map(|(name, value)| EnvVar { name: OsString::from(name), value: OsString::from(value) });
    let plan = PenSpec {
        make: None,
        serve: ServePlan {
            lifetime,
            user: Credentials { uid, gid, groups: Vec::new() },
            workdir: PathBuf::from(spec.workdir()),
            env: env.collect(),
            rlimits: rlimits(spec)?,
            umask: 0o022,
            seccomp: seccomp::workload().bytes(),
            landlock: LandlockPlan { lowest_abi: 0, rules: rules(spec), tcp: true },
            roots: roots(spec),
            caps: ServeCaps::default(),
        },
    };
    plan.to_bytes().map_err(DockerFailure::Plan)
}

/// The engine has set the configured ones on the first process, and every command inherits them. The
/// supervisor lowers those of core files and descriptors unless it is told otherwise, so these are said again.
fn rlimits(spec: &ContainerSpec) -> Result<Vec<ResourceLimit>, DockerFailure> {
    let limits = EngineLimits::read(spec.limits()).map_err(DockerFailure::Limit)?;
    let said = |limit: &EngineUlimit| {
        let kinds = [RlimitKind::Core, RlimitKind::OpenFiles];
        let kind = kinds.into_iter().find(|kind| kind.as_str() == limit.name)?;
        // The engine's word for "no limit" is -1, the plan's is the largest number.
        Some(ResourceLimit {
            resource: u32::from(kind.number()),
            soft: u64::try_from(limit.soft).unwrap_or(u64::MAX),
            hard: u64::try_from(limit.hard).unwrap_or(u64::MAX),
        })
    };
    Ok(limits.ulimits.iter().filter_map(said).collect())
}

/// The same places as the mounts, so that a mount that came out wider opens nothing.
fn rules(spec: &ContainerSpec) -> Vec<LandlockRule> {
    let rule = |path: &str, access| LandlockRule { path: path.into(), access, optional: true };
    let root = match spec.root() {
        RootFilesystem::ReadOnly => LandlockAccess::ReadExecute,
        RootFilesystem::Writable => LandlockAccess::Full,
    };
    let mut rules = vec![rule("/", root)];
    rules.extend(ALWAYS_OPEN.iter().map(|(path, access)| rule(path, *access)));
    for (path, access) in places(spec) {
        match access {
            Access::ReadWrite => rules.push(rule(path, LandlockAccess::Full)),
            Access::ReadOnly => {}
        }
    }
    rules
}

/// What file calls may name, the workspace first.
fn roots(spec: &ContainerSpec) -> Vec<FileRoot> {
    let root = |(path, access): (&str, Access)| FileRoot {
        path: PathBuf::from(path),
        access: match access {
            Access::ReadOnly => RootAccess::Read,
            Access::ReadWrite => RootAccess::Write,
        },
    };
    places(spec).map(root).collect()
}

/// Everything that is mounted for commands: the workspace, the binds, private memory.
fn places(spec: &ContainerSpec) -> impl Iterator<Item = (&str, Access)> {
    let mounts = spec.mounts().iter().map(|mount| (mount.target.as_str(), mount.access));
    let binds = spec.binds().iter().map(|bind| (bind.target(), bind.access()));
    let tmpfs = spec.tmpfs().iter().map(|entry| {
        let path = entry.split(':').next().unwrap_or(entry);
        (path, Access::ReadWrite)
    });
    mounts.chain(binds).chain(tmpfs)
}
