//! A container spec as the engine's API takes it: every field, and nothing left to a default that
//! could open something.
//!
//! What the image would add (variables, labels, its user) is written out too, so that the container
//! can afterwards be compared with the request word for word. Nothing here talks to the engine.

use std::collections::HashMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use bollard::models::{
    ContainerCreateBody, ContainerInspectResponse, DeviceRequest, HealthConfig, HostConfig,
    HostConfigCgroupnsModeEnum, HostConfigLogConfig, ImageInspect, Mount, MountBindOptions,
    MountBindOptionsPropagationEnum, MountType, PortBinding, ResourcesUlimits, RestartPolicy,
    RestartPolicyNameEnum,
};
use clawpen_rules::container::engine_limits::{EngineLimits, EngineUlimit, Gpus};
use clawpen_rules::container::{ContainerSpec, RootFilesystem};
use clawpen_rules::mounts::{Access, CheckedBind};
use clawpen_rules::posix;

use super::engine::{About, Make, Owner};
use super::failure::DockerFailure;
use super::kept;

/// Everything of ours in a container is below here.
pub(super) const OUR_PLACE: &str = "/.clawpen";
/// The supervisor's binary.
pub(super) const SUPERVISOR: &str = "/.clawpen/supervisor";
/// The directory that it shares with the host until the host has reached it.
pub(super) const MEETING_PLACE: &str = "/.clawpen/run";
/// What it is to do, until it has read it.
const PLAN: &str = "/.clawpen/run/plan";
/// Docker's own profile has 20 KiB.
const PROFILE_BYTES: u64 = 1024 * 1024;
/// What a container does not see of the machine: what engines mask by themselves, what our own pens mask,
/// and what only root may read. A container's root may be the machine's, without its power but with its
/// right to read.
pub(super) const MASKED: &[&str] = &[
    "/proc/acpi",
    "/proc/asound",
    "/proc/interrupts",
    "/proc/kallsyms",
    "/proc/kcore",
    "/proc/key-users",
    "/proc/keys",
    "/proc/kpagecgroup",
    "/proc/kpagecount",
    "/proc/kpageflags",
    "/proc/latency_stats",
    "/proc/pagetypeinfo",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/slabinfo",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/vmallocinfo",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
    "/sys/kernel/slab",
];
/// What a command finds programs by if the image does not say.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What of the host the container gets besides the spec's own mounts.
#[derive(Debug, Clone, Copy)]
pub(super) struct OurMounts<'a> {
    pub supervisor: &'a Path,
    pub meeting_place: &'a Path,
}

/// What a request depends on besides the spec and its image.
#[derive(Debug, Clone)]
pub(super) struct Around<'a> {
    pub ours: OurMounts<'a>,
    pub stay: Stay,
    pub engine: &'a About,
    /// As the engine is told.
    pub network: String,
    pub labels: Labels,
    /// Where a checked seccomp profile is kept for an engine that reads it by itself.
    pub profiles: PathBuf,
}

/// Whether files need a label before a container may open them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Labels {
    None,
    /// `SELinux` is at work on this machine.
    Selinux,
}

impl Labels {
    pub(super) fn of_this_machine() -> Self {
        if Path::new("/sys/fs/selinux/enforce").exists() { Self::Selinux } else { Self::None }
    }
}

/// Who runs in a container, and the user namespace that makes him the right one outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct User {
    /// `user[:group]`, as the container numbers or names them; empty is root.
    pub name: String,
    pub namespace: Option<&'static str>,
}

/// Whether the container goes when its first process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stay {
    Removed,
    Kept,
}

/// The variables that a process of the container has: the image's, then the spec's.
pub(super) fn environment(spec: &ContainerSpec, image: &ImageInspect) -> Vec<(String, String)> {
    let mut variables: Vec<(String, String)> = Vec::new();
    let of_image = image.config.iter().filter_map(|config| config.env.as_ref()).flatten();
    let of_image = of_image.filter_map(|entry| entry.split_once('='));
    let default = std::iter::once(("PATH", DEFAULT_PATH));
    for (name, value) in default.chain(of_image).chain(spec.env().iter()) {
        match variables.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => value.clone_into(known),
            None => variables.push((name.to_owned(), value.to_owned())),
        }
    }
    variables
}

/// The user of the container: the spec's, else the image's; empty is the engine's, root.
///
/// The spec's numbers are this machine's: they are the owner of the workspace. An engine without root
/// counts from that owner on, so the same numbers would be somebody who owns nothing here, and files
/// written inside would be somebody else's outside. Podman can keep our numbers; in Docker without
/// root, the owner is the container's root, who has no power but the owner's own.
pub(super) fn user(spec: &ContainerSpec, image: &ImageInspect, engine: &About) -> User {
    let of_image = image.config.as_ref().and_then(|config| config.user.clone());
    let asked = spec.user().map(str::to_owned).or(of_image).unwrap_or_default();
    match (engine.owner, engine.make) {
        (Owner::User, Make::Podman) if spec.user() == Some(&own_ids()) => {
            User { name: asked, namespace: Some("keep-id") }
        }
        (Owner::User, Make::Docker) if spec.user() == Some(&own_ids()) => {
            User { name: "0:0".to_owned(), namespace: None }
        }
        (Owner::Root | Owner::User, _) => User { name: asked, namespace: None },
    }
}

/// Whom this machine sees as the container's user, where that is known: an engine without root makes
/// the owner of the workspace, who is us, its user.
pub(super) fn outside_user(spec: &ContainerSpec, engine: &About) -> Option<u32> {
    match engine.owner {
        Owner::User if spec.user() == Some(&own_ids()) => Some(rustix::process::geteuid().as_raw()),
        Owner::Root | Owner::User => None,
    }
}

fn own_ids() -> String {
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    format!("{}:{}", uid.as_raw(), gid.as_raw())
}

/// The whole request.
pub(super) fn build(
    spec: &ContainerSpec,
    image: &ImageInspect,
    around: &Around<'_>,
) -> Result<ContainerCreateBody, DockerFailure> {
    check_places(spec)?;
    let user = user(spec, image, around.engine);
    let env = environment(spec, image).into_iter();
    let mut labels: HashMap<String, String> =
        image.config.as_ref().and_then(|config| config.labels.clone()).unwrap_or_default();
    labels.extend(spec.labels().into_iter().map(|(name, value)| (name.to_owned(), value)));
    Ok(ContainerCreateBody {
        image: Some(spec.image().to_owned()),
        user: Some(user.name),
        env: Some(env.map(|(name, value)| format!("{name}={value}")).collect()),
        working_dir: Some(spec.workdir().to_owned()),
        entrypoint: Some([SUPERVISOR, "serve", PLAN, MEETING_PLACE].map(str::to_owned).into()),
        labels: Some(labels),
        exposed_ports: exposed(spec, image),
        // An image's health check would be a command outside our confinement.
        healthcheck: Some(HealthConfig {
            test: Some(vec!["NONE".to_owned()]),
            ..HealthConfig::default()
        }),
        host_config: Some(HostConfig {
            userns_mode: user.namespace.map(str::to_owned),
            ..host_config(spec, around)?
        }),
        ..ContainerCreateBody::default()
    })
}

fn host_config(spec: &ContainerSpec, around: &Around<'_>) -> Result<HostConfig, DockerFailure> {
    let EngineLimits { pids, memory, memory_swap, nano_cpus, gpus, ulimits } =
        EngineLimits::read(spec.limits()).map_err(DockerFailure::Limit)?;
    let (mounts, binds) = mounts(spec, around);
    let ulimits = ulimits.into_iter().chain(rlimits(around.engine, spec));
    let ulimits = ulimits.map(|limit| ResourcesUlimits {
        name: Some(limit.name),
        soft: Some(limit.soft),
        hard: Some(limit.hard),
    });
    let log = [("max-size", "64k"), ("max-file", "1")];
    Ok(HostConfig {
        network_mode: Some(around.network.clone()),
        readonly_rootfs: Some(match spec.root() {
            RootFilesystem::ReadOnly => true,
            RootFilesystem::Writable => false,
        }),
        tmpfs: Some(spec.tmpfs().iter().map(|entry| split(entry)).collect()),
        mounts: Some(mounts),
        binds: Some(binds),
        cap_drop: Some(spec.cap_drop().to_vec()),
        security_opt: Some(security(spec, around)?),
        dns: Some(spec.dns().to_vec()),
        extra_hosts: Some(spec.extra_hosts().to_vec()),
        port_bindings: (!spec.ports().is_empty()).then(|| {
            let bindings = spec.ports().iter().map(|port| (tcp(*port), Some(vec![on_loopback()])));
            bindings.collect()
        }),
        pids_limit: pids,
        memory,
        memory_swap,
        nano_cpus,
        device_requests: gpus.map(|gpus| vec![device_request(gpus)]),
        ulimits: Some(ulimits.collect()),
        privileged: Some(false),
        masked_paths: match around.engine.make {
            Make::Docker => Some(MASKED.iter().map(|path| (*path).to_owned()).collect()),
            // It takes no such list from Docker's clients, and has one of its own.
            Make::Podman => None,
        },
        // An engine may be configured to share these, or to put a process before ours.
        ipc_mode: Some("private".to_owned()),
        cgroupns_mode: Some(HostConfigCgroupnsModeEnum::PRIVATE),
        init: Some(false),
        restart_policy: Some(RestartPolicy {
            name: Some(RestartPolicyNameEnum::NO),
            maximum_retry_count: None,
        }),
        auto_remove: Some(match around.stay {
            Stay::Removed => true,
            Stay::Kept => false,
        }),
        // Only the supervisor's last words go there, and only if it fails.
        log_config: Some(HostConfigLogConfig {
            typ: Some("json-file".to_owned()),
            config: Some(log.map(|(name, value)| (name.to_owned(), value.to_owned())).into()),
        }),
        ..HostConfig::default()
    })
}

/// Some free port of the address that no other machine reaches.
fn on_loopback() -> PortBinding {
    PortBinding { host_ip: Some("127.0.0.1".to_owned()), host_port: Some(String::new()) }
}

/// A port, as the engine writes it.
pub(super) fn tcp(port: u16) -> String {
    format!("{port}/tcp")
}

/// An engine publishes what is also exposed: the image's own ports, and those of the spec.
fn exposed(spec: &ContainerSpec, image: &ImageInspect) -> Option<Vec<String>> {
    if spec.ports().is_empty() {
        return None;
    }
    let of_image = image.config.iter().filter_map(|config| config.exposed_ports.as_ref()).flatten();
    let mut ports: Vec<String> = spec.ports().iter().map(|port| tcp(*port)).collect();
    ports.extend(of_image.cloned());
    ports.sort();
    ports.dedup();
    Some(ports)
}

/// Podman, as root, raises two limits to a million unless told, and fails where that is more than this machine
/// gives. What we have ourselves is what a container gets.
fn rlimits(engine: &About, spec: &ContainerSpec) -> Vec<EngineUlimit> {
    use rustix::process::{Resource, getrlimit};
    let missing = |name: &str| !spec.limits().ulimits.iter().any(|(known, _)| known == name);
    let own = |kind| getrlimit(kind).maximum.and_then(|most| i64::try_from(most).ok());
    // Podman lowers its own limit to what there can be of processes, and cannot give more.
    let processes = std::fs::read_to_string("/proc/sys/kernel/pid_max").ok();
    let processes = processes.and_then(|text| text.trim().parse::<i64>().ok());
    let limit = |(name, most): (&str, Option<i64>)| {
        let most = most.unwrap_or(-1);
        EngineUlimit { name: name.to_owned(), soft: most, hard: most }
    };
    match (engine.make, engine.owner) {
        (Make::Docker, _) | (Make::Podman, Owner::User) => Vec::new(),
        (Make::Podman, Owner::Root) => {
            let nproc = own(Resource::Nproc).into_iter().chain(processes).min();
            let both = [("nofile", own(Resource::Nofile)), ("nproc", nproc)];
            both.into_iter().filter(|(name, _)| missing(name)).map(limit).collect()
        }
    }
}

/// Takes limits that no config key sets from the container as it was made: they were those of whoever
/// made it, and whoever starts it again may have others.
pub(super) fn keep_limits(
    asked: &mut ContainerCreateBody,
    spec: &ContainerSpec,
    made: &ContainerInspectResponse,
) {
    let made = made.host_config.iter().filter_map(|host| host.ulimits.as_ref()).flatten();
    let asked = asked.host_config.iter_mut().filter_map(|host| host.ulimits.as_mut()).flatten();
    // Podman writes `RLIMIT_NOFILE`.
    let plain = |limit: &ResourcesUlimits| {
        let name = limit.name.as_deref().unwrap_or_default();
        name.trim_start_matches("RLIMIT_").to_ascii_lowercase()
    };
    for limit in asked {
        let name = plain(limit);
        let is_set = spec.limits().ulimits.iter().any(|(known, _)| *known == name);
        if let (false, Some(kept)) = (is_set, made.clone().find(|made| plain(made) == name)) {
            (limit.soft, limit.hard) = (kept.soft, kept.hard);
        }
    }
}

fn security(spec: &ContainerSpec, around: &Around<'_>) -> Result<Vec<String>, DockerFailure> {
    let mut options = vec!["no-new-privileges".to_owned()];
    if let Some(profile) = spec.seccomp() {
        // Docker takes the profile itself, its command line reads the file; Podman takes the file. It
        // gets one of ours with what was checked: the user's may have changed before it is read.
        let value = match (profile, around.engine.make) {
            ("builtin", Make::Docker) => Some(profile.to_owned()),
            ("builtin", Make::Podman) => None,
            (path, Make::Docker) => Some(profile_text(Path::new(path))?),
            (path, Make::Podman) => {
                let text = profile_text(Path::new(path))?;
                let kept = kept::file(&around.profiles, text.as_bytes(), kept::Kind::Text);
                let failed = |cause| DockerFailure::Local {
                    what: "keep the seccomp profile in",
                    path: around.profiles.clone(),
                    cause,
                };
                Some(kept.map_err(failed)?.to_string_lossy().into_owned())
            }
        };
        options.extend(value.map(|value| format!("seccomp={value}")));
    }
    options.extend(spec.apparmor().map(|profile| format!("apparmor={profile}")));
    Ok(options)
}

/// A profile's contents, made plain: the engine answers with the same text, so that it can be compared.
fn profile_text(path: &Path) -> Result<String, DockerFailure> {
    let failed = |cause| DockerFailure::Profile { path: path.to_owned(), cause };
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(failed)?;
    file.take(PROFILE_BYTES).read_to_string(&mut text).map_err(failed)?;
    let profile: serde_json::Value =
        serde_json::from_str(&text).map_err(|cause| failed(cause.into()))?;
    Ok(profile.to_string())
}

fn device_request(gpus: Gpus) -> DeviceRequest {
    let (count, device_ids) = match gpus {
        Gpus::All => (Some(-1), None),
        Gpus::Count(count) => (Some(count), None),
        Gpus::Devices(devices) => (None, Some(devices)),
    };
    let capabilities = Some(vec![vec!["gpu".to_owned()]]);
    DeviceRequest { count, device_ids, capabilities, ..DeviceRequest::default() }
}

/// Mounts, and those that only the older list of binds can express.
fn mounts(spec: &ContainerSpec, around: &Around<'_>) -> (Vec<Mount>, Vec<String>) {
    let host = |path: &Path| path.to_string_lossy().into_owned();
    let (supervisor, meeting_place) =
        (host(around.ours.supervisor), host(around.ours.meeting_place));
    let (mut mounts, mut binds) = (Vec::new(), Vec::new());
    match around.labels {
        Labels::None => {
            mounts.push(mount(&supervisor, SUPERVISOR, Access::ReadOnly));
            mounts.push(mount(&meeting_place, MEETING_PLACE, Access::ReadWrite));
        }
        // The supervisor is every container's, the meeting place is one's alone.
        Labels::Selinux => {
            binds.push(format!("{supervisor}:{SUPERVISOR}:ro,z,rprivate"));
            binds.push(format!("{meeting_place}:{MEETING_PLACE}:rw,Z,rprivate"));
        }
    }
    for own in spec.mounts() {
        match spec.workspace_label().option() {
            None => mounts.push(mount(&own.source, &own.target, own.access)),
            Some(label) => binds.push(labelled(&own.source, &own.target, own.access, label)),
        }
    }
    for bind in spec.binds() {
        match label(bind) {
            None => mounts.push(mount(bind.real_source(), bind.target(), bind.access())),
            Some(label) => {
                binds.push(labelled(bind.real_source(), bind.target(), bind.access(), label));
            }
        }
    }
    (mounts, binds)
}

/// In this form the engine refuses a source that does not exist; the other makes a directory of it.
fn mount(source: &str, target: &str, access: Access) -> Mount {
    Mount {
        typ: Some(MountType::BIND),
        source: Some(source.to_owned()),
        target: Some(target.to_owned()),
        read_only: Some(access == Access::ReadOnly),
        bind_options: Some(MountBindOptions {
            propagation: Some(MountBindOptionsPropagationEnum::RPRIVATE),
            ..MountBindOptions::default()
        }),
        ..Mount::default()
    }
}

/// The form that can ask for a label. A path with a colon would be read as another one, and show as a
/// difference.
fn labelled(source: &str, target: &str, access: Access, label: &str) -> String {
    let access = match access {
        Access::ReadOnly => "ro",
        Access::ReadWrite => "rw",
    };
    format!("{source}:{target}:{access},{label},rprivate")
}

/// The `SELinux` label that a bind asks for.
fn label(bind: &CheckedBind) -> Option<&str> {
    let (_, options) = bind.text().rsplit_once(':')?;
    options.split(',').find(|option| matches!(*option, "z" | "Z"))
}

fn split(entry: &str) -> (String, String) {
    let (path, options) = entry.split_once(':').unwrap_or((entry, ""));
    (path.to_owned(), options.to_owned())
}

/// A mount over our files would put something else where the supervisor is expected.
fn check_places(spec: &ContainerSpec) -> Result<(), DockerFailure> {
    let tmpfs = spec.tmpfs().iter().map(|entry| split(entry).0);
    let mounts = spec.mounts().iter().map(|mount| mount.target.clone());
    let binds = spec.binds().iter().map(|bind| bind.target().to_owned());
    let is_ours = |path: &String| {
        let path = posix::normalize(path);
        path == "/" || posix::is_inside(OUR_PLACE, &path)
    };
    match tmpfs.chain(mounts).chain(binds).find(is_ours) {
        Some(path) => Err(DockerFailure::PlaceTaken { path }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
