//! Every effective value of a sandbox config with its origin, flat, for people.
//!
//! Each struct is taken apart field by field, so a new setting cannot be forgotten here.

use crate::config::sandbox::{
    Amount, BrowserConfig, DockerConfig, PruneConfig, SandboxConfig, SecretInput, SshConfig, Ulimit,
};
use crate::config::setting::{Origin, Setting};
use crate::js_number;

/// One effective value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OriginLine {
    /// The key below `sandbox`.
    pub key: String,
    /// The value in words; secrets are never shown.
    pub value: String,
    pub origin: Origin,
}

/// Every value that is set, in the order of the keys' documentation.
pub fn lines(config: &SandboxConfig) -> Vec<OriginLine> {
    let SandboxConfig {
        mode,
        backend,
        scope,
        workspace_access,
        workspace_root,
        docker,
        ssh,
        browser,
        prune,
    } = config;
    let mut lines = Lines::default();
    lines.add("mode", mode, |mode| mode.as_str().to_owned());
    lines.text("backend", backend);
    lines.add("scope", scope, |scope| scope.as_str().to_owned());
    lines.add("workspaceAccess", workspace_access, |access| access.as_str().to_owned());
    lines.text("workspaceRoot", workspace_root);
    docker_lines(docker, &mut lines);
    ssh_lines(ssh, &mut lines);
    browser_lines(browser, &mut lines);
    let PruneConfig { idle_hours, max_age_days } = prune;
    lines.number("prune.idleHours", idle_hours);
    lines.number("prune.maxAgeDays", max_age_days);
    lines.0
}

fn docker_lines(docker: &DockerConfig, lines: &mut Lines) {
    let DockerConfig {
        image,
        container_prefix,
        workdir,
        read_only_root,
        tmpfs,
        network,
        user,
        cap_drop,
        env,
        setup_command,
        pids_limit,
        memory,
        memory_swap,
        cpus,
        gpus,
        ulimits,
        seccomp_profile,
        apparmor_profile,
        dns,
        extra_hosts,
        binds,
        allow_reserved_container_targets,
        allow_external_bind_sources,
        allow_container_namespace_join,
    } = docker;
    lines.text("docker.image", image);
    lines.text("docker.containerPrefix", container_prefix);
    lines.text("docker.workdir", workdir);
    lines.add("docker.readOnlyRoot", read_only_root, ToString::to_string);
    lines.add("docker.tmpfs", tmpfs, |list| list.join(", "));
    lines.text("docker.network", network);
    lines.optional("docker.user", user.as_ref(), Clone::clone);
    lines.add("docker.capDrop", cap_drop, |list| list.join(", "));
    for (name, value) in env {
        // The value may be a secret; the name says enough.
        lines.add(&format!("docker.env.{name}"), value, |_| "(set)".to_owned());
    }
    // A script may hold secrets in any place.
    lines.optional("docker.setupCommand", setup_command.as_ref(), |_| "(set)".to_owned());
    lines.optional("docker.pidsLimit", pids_limit.as_ref(), |number| js_number::format(*number));
    lines.optional("docker.memory", memory.as_ref(), amount);
    lines.optional("docker.memorySwap", memory_swap.as_ref(), amount);
    lines.optional("docker.cpus", cpus.as_ref(), |number| js_number::format(*number));
    lines.optional("docker.gpus", gpus.as_ref(), Clone::clone);
    for (name, value) in ulimits.iter().flatten() {
        lines.add(&format!("docker.ulimits.{name}"), value, ulimit);
    }
    lines.optional("docker.seccompProfile", seccomp_profile.as_ref(), Clone::clone);
    lines.optional("docker.apparmorProfile", apparmor_profile.as_ref(), Clone::clone);
    lines.optional("docker.dns", dns.as_ref(), |list| list.join(", "));
    lines.optional("docker.extraHosts", extra_hosts.as_ref(), |list| list.join(", "));
    bind_lines("docker.binds", binds.as_deref(), lines);
    for (key, flag) in [
        ("docker.dangerouslyAllowReservedContainerTargets", allow_reserved_container_targets),
        ("docker.dangerouslyAllowExternalBindSources", allow_external_bind_sources),
        ("docker.dangerouslyAllowContainerNamespaceJoin", allow_container_namespace_join),
    ] {
        lines.optional(key, flag.as_ref(), ToString::to_string);
    }
}

fn ssh_lines(ssh: &SshConfig, lines: &mut Lines) {
    let SshConfig {
        target,
        command,
        workspace_root,
        strict_host_key_checking,
        update_host_keys,
        identity_file,
        certificate_file,
        known_hosts_file,
        identity_data,
        certificate_data,
        known_hosts_data,
    } = ssh;
    lines.optional("ssh.target", target.as_ref(), Clone::clone);
    lines.text("ssh.command", command);
    lines.text("ssh.workspaceRoot", workspace_root);
    lines.add("ssh.strictHostKeyChecking", strict_host_key_checking, ToString::to_string);
    lines.add("ssh.updateHostKeys", update_host_keys, ToString::to_string);
    lines.optional("ssh.identityFile", identity_file.as_ref(), Clone::clone);
    lines.optional("ssh.certificateFile", certificate_file.as_ref(), Clone::clone);
    lines.optional("ssh.knownHostsFile", known_hosts_file.as_ref(), Clone::clone);
    for (key, secret) in [
        ("ssh.identityData", identity_data),
        ("ssh.certificateData", certificate_data),
        ("ssh.knownHostsData", known_hosts_data),
    ] {
        lines.optional(key, secret.as_ref(), |secret| match secret {
            SecretInput::Inline(_) => "(set)".to_owned(),
            SecretInput::Reference { source, id, .. } => format!("({source} {id})"),
        });
    }
}

fn browser_lines(browser: &BrowserConfig, lines: &mut Lines) {
    let BrowserConfig {
        enabled,
        image,
        container_prefix,
        network,
        cdp_port,
        vnc_port,
        no_vnc_port,
        cdp_source_range,
        headless,
        enable_no_vnc,
        allow_host_control,
        auto_start,
        auto_start_timeout_ms,
        binds,
    } = browser;
    lines.add("browser.enabled", enabled, ToString::to_string);
    lines.text("browser.image", image);
    lines.text("browser.containerPrefix", container_prefix);
    lines.text("browser.network", network);
    lines.number("browser.cdpPort", cdp_port);
    lines.number("browser.vncPort", vnc_port);
    lines.number("browser.noVncPort", no_vnc_port);
    lines.optional("browser.cdpSourceRange", cdp_source_range.as_ref(), Clone::clone);
    lines.add("browser.headless", headless, ToString::to_string);
    lines.add("browser.enableNoVnc", enable_no_vnc, ToString::to_string);
    lines.add("browser.allowHostControl", allow_host_control, ToString::to_string);
    lines.add("browser.autoStart", auto_start, ToString::to_string);
    lines.number("browser.autoStartTimeoutMs", auto_start_timeout_ms);
    bind_lines("browser.binds", binds.as_deref(), lines);
}

fn bind_lines(key: &str, binds: Option<&[Setting<String>]>, lines: &mut Lines) {
    for (index, bind) in binds.unwrap_or_default().iter().enumerate() {
        lines.text(&format!("{key}.{index}"), bind);
    }
}

fn amount(amount: &Amount) -> String {
    match amount {
        Amount::Text(text) => text.clone(),
        Amount::Number(number) => js_number::format(*number),
    }
}

fn ulimit(ulimit: &Ulimit) -> String {
    let number = |limit: Option<f64>| limit.map_or_else(|| "-".to_owned(), js_number::format);
    match ulimit {
        Ulimit::Text(text) => text.clone(),
        Ulimit::Number(limit) => js_number::format(*limit),
        Ulimit::Pair { soft, hard } => format!("{}:{}", number(*soft), number(*hard)),
    }
}

#[derive(Default)]
struct Lines(Vec<OriginLine>);

impl Lines {
    fn add<T>(&mut self, key: &str, setting: &Setting<T>, show: impl Fn(&T) -> String) {
        let (value, origin) = (show(&setting.value), setting.origin.clone());
        self.0.push(OriginLine { key: key.to_owned(), value, origin });
    }

    fn optional<T>(
        &mut self,
        key: &str,
        setting: Option<&Setting<T>>,
        show: impl Fn(&T) -> String,
    ) {
        if let Some(setting) = setting {
            self.add(key, setting, show);
        }
    }

    fn text(&mut self, key: &str, setting: &Setting<String>) {
        self.add(key, setting, Clone::clone);
    }

    fn number(&mut self, key: &str, setting: &Setting<f64>) {
        self.add(key, setting, |number| js_number::format(*number));
    }
}
