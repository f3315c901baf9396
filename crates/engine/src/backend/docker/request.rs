//! A container spec as the engine's API takes it: every field, and nothing left to a default that
//! could open something.
//!
//! What the image would add (variables, labels, its user) is written out too, so that the container
//! can afterwards be compared with the request word for word. Nothing here talks to the engine.

use std::collections::HashMap;
use std::path::Path;

use bollard::models::{
    ContainerCreateBody, DeviceRequest, HealthConfig, HostConfig, HostConfigCgroupnsModeEnum,
    HostConfigLogConfig, ImageInspect, Mount, MountBindOptions, MountBindOptionsPropagationEnum,
    MountType, ResourcesUlimits, RestartPolicy, RestartPolicyNameEnum,
};
use clawpen_rules::container::engine_limits::{EngineLimits, Gpus};
use clawpen_rules::container::{ContainerSpec, Network, RootFilesystem};
use clawpen_rules::mounts::{Access, CheckedBind};
use clawpen_rules::posix;

use super::failure::DockerFailure;

/// Everything of ours in a container is below here.
pub(super) const OUR_PLACE: &str = "/.clawpen";
/// The supervisor's binary.
pub(super) const SUPERVISOR: &str = "/.clawpen/supervisor";
/// The directory that it shares with the host until the host has reached it.
pub(super) const MEETING_PLACE: &str = "/.clawpen/run";
/// What it is to do, until it has read it.
const PLAN: &str = "/.clawpen/run/plan";
/// What a command finds programs by if the image does not say.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What of the host the container gets besides the spec's own mounts.
#[derive(Debug, Clone, Copy)]
pub(super) struct OurMounts<'a> {
    pub supervisor: &'a Path,
    pub meeting_place: &'a Path,
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
pub(super) fn user(spec: &ContainerSpec, image: &ImageInspect) -> String {
    let of_image = image.config.as_ref().and_then(|config| config.user.clone());
    spec.user().map(str::to_owned).or(of_image).unwrap_or_default()
}

/// The whole request.
pub(super) fn build(
    spec: &ContainerSpec,
    image: &ImageInspect,
    ours: OurMounts<'_>,
    stay: Stay,
) -> Result<ContainerCreateBody, DockerFailure> {
    check_places(spec)?;
    let env = environment(spec, image).into_iter();
    let mut labels: HashMap<String, String> =
        image.config.as_ref().and_then(|config| config.labels.clone()).unwrap_or_default();
    labels.extend(spec.labels().into_iter().map(|(name, value)| (name.to_owned(), value)));
    Ok(ContainerCreateBody {
        image: Some(spec.image().to_owned()),
        user: Some(user(spec, image)),
        env: Some(env.map(|(name, value)| format!("{name}={value}")).collect()),
        working_dir: Some(spec.workdir().to_owned()),
        entrypoint: Some([SUPERVISOR, "serve", PLAN, MEETING_PLACE].map(str::to_owned).into()),
        labels: Some(labels),
        // An image's health check would be a command outside our confinement.
        healthcheck: Some(HealthConfig {
            test: Some(vec!["NONE".to_owned()]),
            ..HealthConfig::default()
        }),
        host_config: Some(host_config(spec, ours, stay)?),
        ..ContainerCreateBody::default()
    })
}

fn host_config(
    spec: &ContainerSpec,
    ours: OurMounts<'_>,
    stay: Stay,
) -> Result<HostConfig, DockerFailure> {
    let EngineLimits { pids, memory, memory_swap, nano_cpus, gpus, ulimits } =
        EngineLimits::read(spec.limits()).map_err(DockerFailure::Limit)?;
    let (mounts, binds) = mounts(spec, ours);
    let ulimits = ulimits.into_iter().map(|limit| ResourcesUlimits {
        name: Some(limit.name),
        soft: Some(limit.soft),
        hard: Some(limit.hard),
    });
    let log = [("max-size", "64k"), ("max-file", "1")];
    Ok(HostConfig {
        network_mode: Some(network_mode(spec.network())),
        readonly_rootfs: Some(match spec.root() {
            RootFilesystem::ReadOnly => true,
            RootFilesystem::Writable => false,
        }),
        tmpfs: Some(spec.tmpfs().iter().map(|entry| split(entry)).collect()),
        mounts: Some(mounts),
        binds: Some(binds),
        cap_drop: Some(spec.cap_drop().to_vec()),
        security_opt: Some(security(spec)?),
        dns: Some(spec.dns().to_vec()),
        extra_hosts: Some(spec.extra_hosts().to_vec()),
        pids_limit: pids,
        memory,
        memory_swap,
        nano_cpus,
        device_requests: gpus.map(|gpus| vec![device_request(gpus)]),
        ulimits: Some(ulimits.collect()),
        privileged: Some(false),
        // An engine may be configured to share these, or to put a process before ours.
        ipc_mode: Some("private".to_owned()),
        cgroupns_mode: Some(HostConfigCgroupnsModeEnum::PRIVATE),
        init: Some(false),
        restart_policy: Some(RestartPolicy {
            name: Some(RestartPolicyNameEnum::NO),
            maximum_retry_count: None,
        }),
        auto_remove: Some(match stay {
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

fn network_mode(network: &Network) -> String {
    match network {
        Network::None => "none".to_owned(),
        Network::EngineDefault => "default".to_owned(),
        Network::Named(name) => name.clone(),
        Network::Joined(name) => format!("container:{name}"),
    }
}

fn security(spec: &ContainerSpec) -> Result<Vec<String>, DockerFailure> {
    let mut options = vec!["no-new-privileges".to_owned()];
    if let Some(profile) = spec.seccomp() {
        // The engine takes the profile itself; its command line reads the file.
        let text = match profile {
            "builtin" => profile.to_owned(),
            path => std::fs::read_to_string(path)
                .map_err(|cause| DockerFailure::Profile { path: path.into(), cause })?,
        };
        options.push(format!("seccomp={text}"));
    }
    options.extend(spec.apparmor().map(|profile| format!("apparmor={profile}")));
    Ok(options)
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
fn mounts(spec: &ContainerSpec, ours: OurMounts<'_>) -> (Vec<Mount>, Vec<String>) {
    let host = |path: &Path| path.to_string_lossy().into_owned();
    let mut mounts = vec![
        mount(&host(ours.supervisor), SUPERVISOR, Access::ReadOnly),
        mount(&host(ours.meeting_place), MEETING_PLACE, Access::ReadWrite),
    ];
    let of_layout = spec.mounts().iter();
    mounts.extend(of_layout.map(|own| mount(&own.source, &own.target, own.access)));
    let mut binds = Vec::new();
    for bind in spec.binds() {
        match label(bind) {
            None => mounts.push(mount(bind.real_source(), bind.target(), bind.access())),
            Some(label) => {
                let access = match bind.access() {
                    Access::ReadOnly => "ro",
                    Access::ReadWrite => "rw",
                };
                let (source, target) = (bind.real_source(), bind.target());
                binds.push(format!("{source}:{target}:{access},{label},rprivate"));
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
