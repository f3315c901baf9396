//! Test builds may ask an engine for less protection than was decided, to prove that it is noticed.
//!
//! `CLAWPEN_FAULT=engine:NAME`: the container is made that way, and the engine's own inspection tells it.
//! `inside:NAME`: as if the inspection agreed; then the facts of the kernel have to tell it. Other names are
//! for the supervisor, which gets them by its environment.
//!
//! Without the feature `fault-switches` nothing here does anything.

use bollard::models::ContainerCreateBody;

/// What is sent to the engine, and what the container is compared with.
#[cfg(feature = "fault-switches")]
pub(super) fn spoiled(asked: ContainerCreateBody) -> (ContainerCreateBody, ContainerCreateBody) {
    let list = std::env::var("CLAWPEN_FAULT").unwrap_or_default();
    // Moments to be killed at (`engine/faults.rs`) and the marks of tests are none of the container's business.
    let others = ["kill:", "stop:", "tag:"];
    let is_switch =
        |fault: &&str| !fault.is_empty() && !others.iter().any(|other| fault.starts_with(other));
    let list: Vec<&str> = list.split(',').filter(is_switch).collect();
    let list = list.join(",");
    let (mut sent, mut compared) = (asked.clone(), asked);
    if list.is_empty() {
        return (sent, compared);
    }
    for body in [&mut sent, &mut compared] {
        body.env.get_or_insert_default().push(format!("CLAWPEN_FAULT={list}"));
    }
    for fault in list.split(',') {
        if let Some(name) = fault.strip_prefix("engine:") {
            one::spoil(&mut sent, name);
        } else if let Some(name) = fault.strip_prefix("inside:") {
            one::spoil(&mut sent, name);
            one::spoil(&mut compared, name);
        }
    }
    (sent, compared)
}

#[cfg(not(feature = "fault-switches"))]
pub(super) fn spoiled(asked: ContainerCreateBody) -> (ContainerCreateBody, ContainerCreateBody) {
    (asked.clone(), asked)
}

#[cfg(feature = "fault-switches")]
mod one {
    use bollard::models::{
        ContainerCreateBody, DeviceMapping, HostConfig, HostConfigCgroupnsModeEnum, Mount,
        MountType,
    };

    /// Drops one protection of a request.
    pub(super) fn spoil(body: &mut ContainerCreateBody, name: &str) {
        if name == "user" {
            body.user = Some("0:0".to_owned());
        }
        let Some(host) = &mut body.host_config else { return };
        if let Some(target) = name.strip_prefix("mount:") {
            return widen(host, target);
        }
        if let Some(kind) = name.strip_prefix("limit:") {
            let limits = host.ulimits.get_or_insert_default();
            limits.retain(|limit| limit.name.as_deref() != Some(kind));
            return;
        }
        match name {
            "capabilities" => host.cap_drop = Some(Vec::new()),
            "more-capabilities" => host.cap_add = Some(vec!["SYS_ADMIN".to_owned()]),
            "no-new-privs" => host.security_opt = None,
            "seccomp" => {
                host.security_opt.get_or_insert_default().push("seccomp=unconfined".to_owned());
            }
            "privileged" => host.privileged = Some(true),
            "read-only" => host.readonly_rootfs = Some(false),
            "interfaces" => host.network_mode = Some("default".to_owned()),
            "net-namespace" => host.network_mode = Some("host".to_owned()),
            "pid-namespace" => host.pid_mode = Some("host".to_owned()),
            "ipc-namespace" => host.ipc_mode = Some("host".to_owned()),
            "uts-namespace" => host.uts_mode = Some("host".to_owned()),
            "cgroup-namespace" => host.cgroupns_mode = Some(HostConfigCgroupnsModeEnum::HOST),
            "cgroup:memory" => (host.memory, host.memory_swap) = (None, None),
            "cgroup:pids" => host.pids_limit = None,
            "cgroup:cpu" => host.nano_cpus = None,
            "device" => {
                host.devices = Some(vec![DeviceMapping {
                    path_on_host: Some("/dev/kmsg".to_owned()),
                    path_in_container: Some("/dev/kmsg".to_owned()),
                    cgroup_permissions: Some("r".to_owned()),
                }]);
            }
            "extra-mount" => host.mounts.get_or_insert_default().push(Mount {
                typ: Some(MountType::BIND),
                source: Some("/etc".to_owned()),
                target: Some("/extra".to_owned()),
                ..Mount::default()
            }),
            _ => {}
        }
        if matches!(name, "pid-namespace" | "ipc-namespace") {
            // The engine would add it by itself.
            host.security_opt.get_or_insert_default().push("label=disable".to_owned());
        }
    }

    /// Makes one mount more than it was asked to be: writable, or with programs of other users.
    fn widen(host: &mut HostConfig, target: &str) {
        for mount in host.mounts.get_or_insert_default() {
            if mount.target.as_deref() == Some(target) {
                mount.read_only = Some(false);
            }
        }
        if let Some(options) = host.tmpfs.get_or_insert_default().get_mut(target) {
            "suid,dev,exec".clone_into(options);
        }
        if target == "/" {
            host.readonly_rootfs = Some(false);
        }
    }
}
