//! Every field of a spec, as it goes to the engine.

use clawpen_rules::config::Config;
use clawpen_rules::config::json5;
use clawpen_rules::config::sandbox::{SandboxConfig, Scope, WorkspaceAccess};
use clawpen_rules::config::tree::FileId;
use clawpen_rules::container::Identity;
use clawpen_rules::environment::Filter;
use clawpen_rules::mounts::{Access, BindPolicy, KnownPlaces};
use clawpen_rules::scope::ScopeKey;
use clawpen_rules::session::Session;
use clawpen_rules::workspace::{Directories, Layout};
use serde_json::{Value, json};

use super::*;
use crate::host_files::RealFiles;

fn spec(docker: &str) -> ContainerSpec {
    let text = format!("{{agents: {{defaults: {{sandbox: {{docker: {docker}}}}}}}}}");
    let config = Config::from_tree(json5::parse(&text, FileId(0)).unwrap().root, Vec::new());
    let docker = SandboxConfig::resolve(&config, None, "/state").unwrap().docker;
    let directories = Directories {
        sandbox: "/state".to_owned(),
        agent: "/srv/agent".to_owned(),
        workdir: docker.workdir.value.clone(),
    };
    let layout = Layout::plan(WorkspaceAccess::ReadWrite, &directories);
    let scope = ScopeKey::new(Scope::Shared, &Session::resolve(&config, ""));
    let name = scope.container_name(Scope::Shared, "x-");
    let identity = Identity { name, scope, created_at_ms: 7, fingerprint: None };
    let known = KnownPlaces::default();
    let policy = BindPolicy::resolve(&docker, &layout.bind_roots(), &known, &RealFiles);
    ContainerSpec::locked_down(identity, &layout, docker.image.clone())
        .configured(&docker, &Filter::except_credentials())
        .build(&policy, &RealFiles)
        .unwrap()
}

fn ours() -> OurMounts<'static> {
    OurMounts {
        supervisor: Path::new("/state/supervisor/1"),
        meeting_place: Path::new("/state/run/1/inside"),
    }
}

fn image() -> ImageInspect {
    serde_json::from_value(json!({
        "Config": {"Env": ["PATH=/opt/bin", "LANG=C"], "User": "node", "Labels": {"of": "image"}},
    }))
    .unwrap()
}

fn built(docker: &str) -> Value {
    let body = build(&spec(docker), &image(), ours(), Stay::Kept).unwrap();
    serde_json::to_value(body).unwrap()
}

fn bind(source: &str, target: &str, access: Access) -> Value {
    json!({
        "Type": "bind", "Source": source, "Target": target, "ReadOnly": access == Access::ReadOnly,
        "BindOptions": {"Propagation": "rprivate"},
    })
}

#[test]
fn a_config_that_says_nothing_is_locked_down() {
    let expected = json!({
        "Image": "openclaw-sandbox:bookworm-slim",
        "User": "node",
        "Env": ["PATH=/opt/bin", "LANG=C.UTF-8", "OPENCLAW_CLI=1"],
        "Entrypoint": ["/.clawpen/supervisor", "serve", "/.clawpen/run/plan", "/.clawpen/run"],
        "WorkingDir": "/workspace",
        "Labels": {
            "of": "image",
            "openclaw.sandbox": "1",
            "openclaw.sessionKey": "shared",
            "openclaw.createdAtMs": "7",
        },
        "Healthcheck": {"Test": ["NONE"]},
        "HostConfig": {
            "NetworkMode": "none",
            "ReadonlyRootfs": true,
            "Tmpfs": {"/tmp": "", "/var/tmp": "", "/run": ""},
            "Mounts": [
                bind("/state/supervisor/1", "/.clawpen/supervisor", Access::ReadOnly),
                bind("/state/run/1/inside", "/.clawpen/run", Access::ReadWrite),
                bind("/srv/agent", "/workspace", Access::ReadWrite),
            ],
            "Binds": [],
            "CapDrop": ["ALL"],
            "SecurityOpt": ["no-new-privileges"],
            "Dns": [],
            "ExtraHosts": [],
            "Ulimits": [],
            "Privileged": false,
            "IpcMode": "private",
            "CgroupnsMode": "private",
            "Init": false,
            "RestartPolicy": {"Name": "no"},
            "AutoRemove": false,
            "LogConfig": {"Type": "json-file", "Config": {"max-size": "64k", "max-file": "1"}},
        },
    });
    assert_eq!(built("{}"), expected);
}

#[test]
fn every_key_arrives() {
    for (docker, pointer, expected) in [
        ("{image: 'a:1'}", "/Image", json!("a:1")),
        ("{user: '5:6'}", "/User", json!("5:6")),
        ("{workdir: '/w'}", "/WorkingDir", json!("/w")),
        ("{readOnlyRoot: false}", "/HostConfig/ReadonlyRootfs", json!(false)),
        ("{tmpfs: ['/x:size=1m']}", "/HostConfig/Tmpfs", json!({"/x": "size=1m"})),
        ("{network: 'bridge'}", "/HostConfig/NetworkMode", json!("bridge")),
        ("{network: ''}", "/HostConfig/NetworkMode", json!("default")),
        ("{capDrop: ['NET_RAW']}", "/HostConfig/CapDrop", json!(["NET_RAW"])),
        ("{dns: ['1.1.1.1']}", "/HostConfig/Dns", json!(["1.1.1.1"])),
        ("{extraHosts: ['a:10.0.0.1']}", "/HostConfig/ExtraHosts", json!(["a:10.0.0.1"])),
        ("{pidsLimit: 9}", "/HostConfig/PidsLimit", json!(9)),
        ("{memory: '1g'}", "/HostConfig/Memory", json!(1 << 30)),
        ("{memory: '1g', memorySwap: '2g'}", "/HostConfig/MemorySwap", json!(2_u64 << 30)),
        ("{cpus: 0.5}", "/HostConfig/NanoCpus", json!(500_000_000)),
        (
            "{gpus: 'all'}",
            "/HostConfig/DeviceRequests",
            json!([{"Count": -1, "Capabilities": [["gpu"]]}]),
        ),
        (
            "{ulimits: {nofile: {soft: 1, hard: 2}}}",
            "/HostConfig/Ulimits",
            json!([{"Name": "nofile", "Soft": 1, "Hard": 2}]),
        ),
        (
            "{apparmorProfile: 'x'}",
            "/HostConfig/SecurityOpt",
            json!(["no-new-privileges", "apparmor=x"]),
        ),
        (
            "{binds: ['/srv/agent/a:/a:ro']}",
            "/HostConfig/Mounts/3",
            bind("/srv/agent/a", "/a", Access::ReadOnly),
        ),
        (
            "{binds: ['/srv/agent/a:/a:Z']}",
            "/HostConfig/Binds",
            json!(["/srv/agent/a:/a:rw,Z,rprivate"]),
        ),
    ] {
        assert_eq!(built(docker).pointer(pointer), Some(&expected), "{docker}");
    }
}

#[test]
fn a_profile_goes_as_its_text() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "{\"a\":1}").unwrap();
    let body = built(&format!("{{seccompProfile: '{}'}}", file.path().display()));
    assert_eq!(body["HostConfig"]["SecurityOpt"][1], json!("seccomp={\"a\":1}"));
    let missing = build(&spec("{seccompProfile: '/nowhere'}"), &image(), ours(), Stay::Kept);
    assert!(matches!(missing, Err(DockerFailure::Profile { .. })));
}

#[test]
fn nothing_can_stand_where_our_files_are() {
    for docker in [
        "{tmpfs: ['/.clawpen']}",
        "{tmpfs: ['/.clawpen/run:size=1m']}",
        "{tmpfs: ['/x/..//.clawpen/run']}",
        "{workdir: '/.clawpen/x'}",
        "{binds: ['/srv/agent/a:/.clawpen/supervisor']}",
    ] {
        let refused = build(&spec(docker), &image(), ours(), Stay::Kept);
        assert!(matches!(refused, Err(DockerFailure::PlaceTaken { .. })), "{docker}");
    }
}
