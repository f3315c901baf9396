//! The effective config in the shape that the recordings show it in. Absent values are `null`,
//! which a comparison takes for absent.

use clawpen_rules::config::sandbox::{
    Amount, BrowserConfig, DockerConfig, SandboxConfig, SecretInput, SshConfig, Ulimit,
};
use clawpen_rules::config::setting::Setting;
use serde_json::{Map, Value, json};

pub(super) fn sandbox(config: &SandboxConfig) -> Value {
    json!({
        "mode": config.mode.value.as_str(),
        "backend": config.backend.value,
        "scope": config.scope.value.as_str(),
        "workspaceAccess": config.workspace_access.value.as_str(),
        "workspaceRoot": config.workspace_root.value,
        "docker": docker(&config.docker),
        "ssh": ssh(&config.ssh),
        "browser": browser(&config.browser),
        "prune": {
            "idleHours": config.prune.idle_hours.value,
            "maxAgeDays": config.prune.max_age_days.value,
        },
    })
}

fn docker(docker: &DockerConfig) -> Value {
    json!({
        "image": docker.image.value,
        "containerPrefix": docker.container_prefix.value,
        "workdir": docker.workdir.value,
        "readOnlyRoot": docker.read_only_root.value,
        "tmpfs": docker.tmpfs.value,
        "network": docker.network.value,
        "user": optional(docker.user.as_ref()),
        "capDrop": docker.cap_drop.value,
        "env": members(&docker.env, |text| json!(text)),
        "setupCommand": optional(docker.setup_command.as_ref()),
        "pidsLimit": optional(docker.pids_limit.as_ref()),
        "memory": docker.memory.as_ref().map(amount),
        "memorySwap": docker.memory_swap.as_ref().map(amount),
        "cpus": optional(docker.cpus.as_ref()),
        "gpus": optional(docker.gpus.as_ref()),
        "ulimits": docker.ulimits.as_ref().map(|limits| members(limits, ulimit)),
        "seccompProfile": optional(docker.seccomp_profile.as_ref()),
        "apparmorProfile": optional(docker.apparmor_profile.as_ref()),
        "dns": optional(docker.dns.as_ref()),
        "extraHosts": optional(docker.extra_hosts.as_ref()),
        "binds": docker.binds.as_deref().map(binds),
        "dangerouslyAllowReservedContainerTargets":
            optional(docker.allow_reserved_container_targets.as_ref()),
        "dangerouslyAllowExternalBindSources":
            optional(docker.allow_external_bind_sources.as_ref()),
        "dangerouslyAllowContainerNamespaceJoin":
            optional(docker.allow_container_namespace_join.as_ref()),
    })
}

fn ssh(ssh: &SshConfig) -> Value {
    json!({
        "target": optional(ssh.target.as_ref()),
        "command": ssh.command.value,
        "workspaceRoot": ssh.workspace_root.value,
        "strictHostKeyChecking": ssh.strict_host_key_checking.value,
        "updateHostKeys": ssh.update_host_keys.value,
        "identityFile": optional(ssh.identity_file.as_ref()),
        "certificateFile": optional(ssh.certificate_file.as_ref()),
        "knownHostsFile": optional(ssh.known_hosts_file.as_ref()),
        "identityData": ssh.identity_data.as_ref().map(secret),
        "certificateData": ssh.certificate_data.as_ref().map(secret),
        "knownHostsData": ssh.known_hosts_data.as_ref().map(secret),
    })
}

fn browser(browser: &BrowserConfig) -> Value {
    json!({
        "enabled": browser.enabled.value,
        "image": browser.image.value,
        "containerPrefix": browser.container_prefix.value,
        "network": browser.network.value,
        "cdpPort": browser.cdp_port.value,
        "vncPort": browser.vnc_port.value,
        "noVncPort": browser.no_vnc_port.value,
        "cdpSourceRange": optional(browser.cdp_source_range.as_ref()),
        "headless": browser.headless.value,
        "enableNoVnc": browser.enable_no_vnc.value,
        "allowHostControl": browser.allow_host_control.value,
        "autoStart": browser.auto_start.value,
        "autoStartTimeoutMs": browser.auto_start_timeout_ms.value,
        "binds": browser.binds.as_deref().map(binds),
    })
}

fn optional<T: Clone + Into<Value>>(setting: Option<&Setting<T>>) -> Value {
    setting.map_or(Value::Null, |setting| setting.value.clone().into())
}

fn members<T>(members: &[(String, Setting<T>)], show: impl Fn(&T) -> Value) -> Value {
    let shown: Map<String, Value> =
        members.iter().map(|(name, setting)| (name.clone(), show(&setting.value))).collect();
    Value::Object(shown)
}

fn binds(binds: &[Setting<String>]) -> Value {
    binds.iter().map(|bind| bind.value.clone()).collect()
}

fn amount(amount: &Setting<Amount>) -> Value {
    match &amount.value {
        Amount::Text(text) => json!(text),
        Amount::Number(number) => json!(number),
    }
}

fn ulimit(limit: &Ulimit) -> Value {
    match limit {
        Ulimit::Text(text) => json!(text),
        Ulimit::Number(number) => json!(number),
        Ulimit::Pair { soft, hard } => json!({ "soft": soft, "hard": hard }),
    }
}

fn secret(secret: &Setting<SecretInput>) -> Value {
    match &secret.value {
        SecretInput::Inline(text) => json!(text),
        SecretInput::Reference { source, provider, id } => {
            json!({ "source": source, "provider": provider, "id": id })
        }
    }
}
