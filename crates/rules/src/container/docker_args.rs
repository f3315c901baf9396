//! The spec as arguments of `docker create`, in the reference's order. Every value is an argument
//! of its own or stands behind its `key=`, so none can become an option.

use super::{ContainerSpec, Limits, Network, RootFilesystem};
use crate::mounts::Access;

impl ContainerSpec {
    /// The whole `docker create` call, without the word `docker`.
    pub fn docker_args(&self) -> Vec<String> {
        let mut args = self.option_args();
        push(&mut args, "--workdir", &self.workdir);
        args.extend(self.mount_args());
        args.extend(self.bind_args());
        args.extend([&self.image, "sleep", "infinity"].map(str::to_owned));
        args
    }

    /// The call that runs the setup script in the started container, if there is one.
    pub fn setup_args(&self) -> Option<Vec<String>> {
        let name = self.identity.name.as_str();
        let setup = self.setup.as_deref()?;
        Some(["exec", "-i", name, "/bin/sh", "-lc", setup].map(str::to_owned).into())
    }

    /// `create` and the options that do not depend on what the container is for: all before the
    /// working directory and the mounts.
    pub fn option_args(&self) -> Vec<String> {
        let mut args = vec!["create".to_owned()];
        push(&mut args, "--name", self.identity.name.as_str());
        for (name, value) in self.labels() {
            push(&mut args, "--label", &format!("{name}={value}"));
        }
        match self.root {
            RootFilesystem::ReadOnly => args.push("--read-only".to_owned()),
            RootFilesystem::Writable => {}
        }
        push_all(&mut args, "--tmpfs", &self.tmpfs);
        match &self.network {
            Network::None => push(&mut args, "--network", "none"),
            Network::EngineDefault => {}
            Network::Named(name) => push(&mut args, "--network", name),
            Network::Joined(name) => push(&mut args, "--network", &format!("container:{name}")),
        }
        if let Some(user) = &self.user {
            push(&mut args, "--user", user);
        }
        for (name, value) in self.env.iter() {
            push(&mut args, "--env", &format!("{name}={value}"));
        }
        push_all(&mut args, "--cap-drop", &self.cap_drop);
        push(&mut args, "--security-opt", "no-new-privileges");
        for (kind, profile) in [("seccomp", &self.seccomp), ("apparmor", &self.apparmor)] {
            if let Some(profile) = profile {
                push(&mut args, "--security-opt", &format!("{kind}={profile}"));
            }
        }
        push_all(&mut args, "--dns", &self.dns);
        push_all(&mut args, "--add-host", &self.extra_hosts);
        push_limits(&mut args, &self.limits);
        args
    }

    /// The layout's own mounts.
    pub(crate) fn mount_args(&self) -> Vec<String> {
        let mut args = Vec::new();
        for mount in &self.mounts {
            let access = match mount.access {
                Access::ReadOnly => Some("ro"),
                Access::ReadWrite => None,
            };
            let options: Vec<&str> =
                access.into_iter().chain(self.workspace_label.option()).collect();
            let options = match options.join(",") {
                none if none.is_empty() => none,
                some => format!(":{some}"),
            };
            push(&mut args, "-v", &format!("{}:{}{options}", mount.source, mount.target));
        }
        args
    }

    /// The configured binds.
    pub fn bind_args(&self) -> Vec<String> {
        let mut args = Vec::new();
        for bind in &self.binds {
            push(&mut args, "-v", bind.text());
        }
        args
    }
}

fn push_limits(args: &mut Vec<String>, limits: &Limits) {
    let Limits { pids, memory, memory_swap, cpus, gpus, ulimits } = limits;
    for (flag, value) in [
        ("--pids-limit", pids),
        ("--memory", memory),
        ("--memory-swap", memory_swap),
        ("--cpus", cpus),
        ("--gpus", gpus),
    ] {
        if let Some(value) = value {
            push(args, flag, value);
        }
    }
    for (name, value) in ulimits {
        push(args, "--ulimit", &format!("{name}={value}"));
    }
}

fn push(args: &mut Vec<String>, flag: &str, value: &str) {
    args.extend([flag, value].map(str::to_owned));
}

fn push_all(args: &mut Vec<String>, flag: &str, values: &[String]) {
    for value in values {
        push(args, flag, value);
    }
}
