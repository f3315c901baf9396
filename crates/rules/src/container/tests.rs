//! What a container is made of, and hostile configs that must not reach an engine.

use crate::backend::Backend;
use proptest::prelude::*;

use super::*;
use crate::config::Config;
use crate::config::json5;
use crate::config::sandbox::{Owner, SandboxConfig, Scope, WorkspaceAccess};
use crate::config::setting::Origin;
use crate::config::tree::FileId;
use crate::environment::Filter;
use crate::host_files::{EntryKind, FileTable};
use crate::mounts::{BindPolicy, KnownPlaces};
use crate::workspace::Directories;

#[test]
fn the_default_container_is_locked_down() {
    let spec = build("{}").unwrap();
    assert_eq!(
        spec.docker_args().join(" "),
        "create --name openclaw-sbx-agent-main-f331f052 --label openclaw.sandbox=1 \
         --label openclaw.sessionKey=agent:main --label openclaw.createdAtMs=7 --read-only \
         --tmpfs /tmp --tmpfs /var/tmp --tmpfs /run --network none --user 1000:1000 \
         --env LANG=C.UTF-8 --env OPENCLAW_CLI=1 --cap-drop ALL --security-opt no-new-privileges \
         --workdir /workspace -v /state/sandboxes/s-1:/workspace openclaw-sandbox:bookworm-slim \
         sleep infinity"
    );
    assert_eq!(spec.open_doors(Backend::Docker), []);
    assert_eq!(spec.setup_args(), None);
}

#[test]
fn an_unconfigured_builder_gives_less_than_the_defaults() {
    let layout = layout(WorkspaceAccess::ReadOnly, "/workspace");
    let config = resolve("{}");
    let policy = policy(&config, &layout);
    let image = config.docker.image.clone();
    let spec =
        ContainerSpec::locked_down(identity(&config), &layout, image).build(&policy, &files());
    assert_eq!(
        spec.unwrap().docker_args()[9..].join(" "),
        "--read-only --network none --env OPENCLAW_CLI=1 --cap-drop ALL \
         --security-opt no-new-privileges --workdir /workspace \
         -v /state/sandboxes/s-1:/workspace:ro -v /home/u/ws:/agent:ro \
         openclaw-sandbox:bookworm-slim sleep infinity"
    );
}

#[test]
fn a_label_stands_at_each_mount_of_the_workspace() {
    for (access, label, expected) in [
        (
            WorkspaceAccess::ReadOnly,
            WorkspaceLabel::Shared,
            "-v /state/sandboxes/s-1:/workspace:ro,z -v /home/u/ws:/agent:ro,z",
        ),
        (WorkspaceAccess::ReadWrite, WorkspaceLabel::Private, "-v /home/u/ws:/workspace:Z"),
    ] {
        let layout = layout(access, "/workspace");
        let config = resolve("{}");
        let policy = policy(&config, &layout);
        let image = config.docker.image.clone();
        let builder = ContainerSpec::locked_down(identity(&config), &layout, image);
        let spec = builder.label_workspace(label).build(&policy, &files()).unwrap();
        assert_eq!(spec.mount_args().join(" "), expected);
    }
}

#[test]
fn every_opened_door_is_said() {
    doors("{readOnlyRoot: false}", &[OpenDoor::WritableRoot]);
    doors("{network: ''}", &[OpenDoor::EngineNetwork]);
    doors("{network: 'bridge'}", &[OpenDoor::Network("bridge".into())]);
    doors(
        "{network: 'container:db', dangerouslyAllowContainerNamespaceJoin: true}",
        &[OpenDoor::JoinedNetwork("db".into())],
    );
    for user in ["root", "0", "0:0", "root:staff", "00:5"] {
        doors(&format!("{{user: '{user}'}}"), &[OpenDoor::Root { user: user.into() }]);
    }
    doors("{user: '1000:0'}", &[]);
    doors("{capDrop: []}", &[OpenDoor::Capabilities { dropped: vec![] }]);
    doors("{capDrop: ['NET_RAW', 'all']}", &[]);
    doors("{tmpfs: ['/tmp:exec']}", &[OpenDoor::ProgramsInTmpfs("/tmp:exec".into())]);
    doors("{gpus: 'all'}", &[OpenDoor::Gpus("all".into())]);
}

#[test]
fn root_of_a_pen_is_nobody_on_the_host() {
    for user in ["0:0", "root", ""] {
        let spec = build(&format!("{{user: '{user}', readOnlyRoot: false}}")).unwrap();
        assert_eq!(spec.open_doors(Backend::Native), [OpenDoor::WritableRoot], "{user}");
    }
}

#[test]
fn a_configured_value_cannot_become_an_option_or_another_path() {
    refuse("{image: '--privileged'}", "image `--privileged`", "image");
    refuse("{image: ''}", "image ``", "image");
    refuse("{network: 'name=host'}", "network `name=host`", "network");
    refuse("{network: 'host'}", "network `host`", "network");
    refuse("{network: 'container:db'}", "network `container:db`", "network");
    refuse("{user: '0 --privileged'}", "user `0 --privileged`", "user");
    refuse("{capDrop: ['ALL', '-x']}", "capability `-x`", "capDrop");
    refuse("{ulimits: {'nofile=1 --privileged': 1}}", "limit `nofile=1 --privileged`", "ulimits");
    refuse("{tmpfs: ['/tmp', '/workspace']}", "tmpfs `/workspace`", "tmpfs");
    refuse("{tmpfs: ['/:exec']}", "tmpfs `/:exec`", "tmpfs");
    refuse("{tmpfs: ['/tmp:suid']}", "tmpfs `/tmp:suid`", "tmpfs");
    refuse("{seccompProfile: 'Unconfined '}", "seccomp profile", "seccompProfile");
    refuse("{apparmorProfile: 'unconfined'}", "apparmor profile", "apparmorProfile");
    refuse("{dns: ['1.1.1.1\\0']}", "`1.1.1.1\0` holds a NUL", "");
    refuse("{setupCommand: 'a\\0b'}", "the setup command holds a NUL", "");
    refuse("{containerPrefix: '-v'}", "container name `-v", "");
    refuse("{workdir: 'relative'}", "workdir `relative`", "workdir");
    refuse("{workdir: '/'}", "workdir `/`", "workdir");
    refuse("{workdir: '/workspace:rw'}", "workdir `/workspace:rw`", "workdir");
}

#[test]
fn binds_are_decided_before_they_are_listed() {
    refuse("{binds: ['  ']}", "a bind is blank", "binds.0");
    refuse("{binds: ['/home/u/ws/a:/a', '/etc:/e']}", "`/etc:/e`", "binds.1");
    refuse("{binds: ['/srv/x:/x']}", "`/srv/x:/x`", "binds.0");
    refuse("{binds: ['/home/u/ws/a:/srv/w/x'], workdir: '/srv/w'}", "/srv/w", "binds.0");
    refuse("{binds: ['/home/u/ws/a:/a'], tmpfs: ['/a']}", "tmpfs `/a`", "tmpfs");
    let spec = build("{binds: [' /home/u/ws/a:/a:ro ']}").unwrap();
    assert_eq!(spec.bind_args(), ["-v", "/home/u/ws/a:/a:ro"]);
}

#[test]
fn host_directories_that_cannot_be_written_as_a_mount_are_refused() {
    for (root, expected) in [
        ("", ShapeProblem::NotAbsolute),
        ("relative", ShapeProblem::NotAbsolute),
        ("/x:/etc", ShapeProblem::Character(':')),
        ("/x\ny", ShapeProblem::Character('\n')),
    ] {
        let directories = Directories {
            sandbox: if root.is_empty() { "s-1".into() } else { format!("{root}/s-1") },
            agent: "/home/u/ws".into(),
            workdir: "/workspace".into(),
        };
        let layout = Layout::plan(WorkspaceAccess::None, &directories);
        let problem = build_in(&resolve("{}"), &layout).unwrap_err().problem;
        let path = layout.mounted().to_owned();
        assert_eq!(problem, SpecProblem::HostDirectory { path, problem: expected }, "{root}");
    }
}

#[test]
fn a_workspace_that_shows_what_no_sandbox_may_see_is_refused() {
    let known = KnownPlaces {
        homes: vec!["/home/u".into()],
        private: vec!["/state".into()],
        guarded: vec!["/state/openclaw.json".into()],
        ..KnownPlaces::default()
    };
    for (agent, shown) in [
        ("/", Some("/")),
        ("/var", Some("/var/run")),
        ("/home", Some("/home")),
        ("/home/u", Some("/home/u/.aws")),
        ("/state", Some("/state")),
        ("/state/workspace", None),
        ("/state/openclaw.json", Some("/state/openclaw.json")),
        ("/home/u/keys", Some("/root/.ssh")),
        ("/link", Some("/")),
        ("/etc/ws", Some("/etc")),
        ("/root", Some("/root/.aws")),
        ("/root/.ssh", Some("/root/.ssh")),
        ("/run/docker.sock", Some("/run")),
        ("/home/u/ws", None),
        ("/root/ws", None),
    ] {
        let files = files().with_link("/link", "/").with_link("/home/u/keys", "/root/.ssh");
        let directories = Directories {
            sandbox: "/state/sandboxes/s-1".into(),
            agent: agent.into(),
            workdir: "/workspace".into(),
        };
        let layout = Layout::plan(WorkspaceAccess::ReadWrite, &directories);
        let config = resolve("{}");
        let roots = layout.bind_roots();
        let policy = BindPolicy::resolve(&config.docker, &roots, &known, &files);
        let image = config.docker.image.clone();
        let origins = DirectoryOrigins {
            root: Origin::built_in("workspaceRoot"),
            agent: Origin::built_in("workspace"),
        };
        let spec = ContainerSpec::locked_down(identity(&config), &layout, image)
            .directories_set_by(origins)
            .build(&policy, &files);
        let expected = shown.map(|shown| ContainerRefused {
            problem: SpecProblem::WorkspaceShows {
                path: agent.to_owned(),
                shown: shown.to_owned(),
            },
            origin: Some(Origin::built_in("workspace")),
        });
        assert_eq!(spec.err(), expected, "{agent}");
    }
}

#[test]
fn a_workspace_that_leads_nobody_knows_where_is_refused() {
    let files = files().with_link("/loop", "loop");
    let config = resolve("{}");
    let policy = policy(&config, &layout(WorkspaceAccess::None, "/workspace"));
    let directories = Directories {
        sandbox: "/state/sandboxes".into(),
        agent: "/loop/ws".into(),
        workdir: "/workspace".into(),
    };
    let layout = Layout::plan(WorkspaceAccess::ReadWrite, &directories);
    let image = config.docker.image.clone();
    let spec = ContainerSpec::locked_down(identity(&config), &layout, image).build(&policy, &files);
    assert!(matches!(spec.unwrap_err().problem, SpecProblem::WorkspaceUnknown { .. }));
}

#[test]
fn limits_are_written_as_the_config_means_them() {
    check_limits("{pidsLimit: 0, cpus: -1, memory: '  '}", "");
    check_limits("{pidsLimit: 64, cpus: 0.5}", "--pids-limit 64 --cpus 0.5");
    check_limits("{memory: 0, memorySwap: -1}", "--memory 0 --memory-swap -1");
    check_limits("{memory: ' 1g '}", "--memory 1g");
    check_limits("{ulimits: {nofile: {soft: -5, hard: 10}}}", "--ulimit nofile=0:10");
    check_limits("{ulimits: {core: '0', cpu: {soft: 7}}}", "--ulimit core=0 --ulimit cpu=7");
    check_limits("{ulimits: {' ': 1, nproc: {}, fsize: ' '}}", "");
}

#[test]
fn variables_pass_the_filter_and_ours_cannot_be_unset() {
    let spec = build("{env: {A: '1', MY_TOKEN: 'x', OPENCLAW_CLI: '0', 'B=C': 'y'}}").unwrap();
    let kept: Vec<_> = spec.env().iter().collect();
    assert_eq!(kept, [("A", "1"), ("OPENCLAW_CLI", "1")]);
    let names: Vec<&str> = spec.kept_out().iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["MY_TOKEN", "B=C"]);
}

#[test]
fn a_session_key_stays_inside_its_label() {
    let config = resolve("{}");
    let scope = ScopeKey::stored("x\n--privileged --label=y").unwrap();
    let identity = Identity { scope, ..identity(&config) };
    let layout = layout(WorkspaceAccess::None, "/workspace");
    let policy = policy(&config, &layout);
    let spec = ContainerSpec::locked_down(identity, &layout, config.docker.image.clone())
        .build(&policy, &files())
        .unwrap();
    let label = "openclaw.sessionKey=x\n--privileged --label=y";
    assert_eq!(spec.docker_args().iter().filter(|arg| arg.contains("privileged")).count(), 1);
    assert_eq!(spec.docker_args()[6], label);
}

proptest! {
    /// Whatever the config says, each argument that starts with a dash is a flag of ours, and what
    /// follows the image is our command.
    #[test]
    fn no_config_adds_a_flag(
        image in ".{0,12}", network in ".{0,12}", user in ".{0,8}", tmpfs in ".{0,12}",
        cap in ".{0,8}", workdir in ".{0,12}",
    ) {
        let mut config = resolve("{}");
        config.docker.image.value = image;
        config.docker.network.value = network;
        config.docker.user = Some(Setting { value: user, ..config.docker.image.clone() });
        config.docker.tmpfs.value = vec![tmpfs];
        config.docker.cap_drop.value = vec![cap];
        let layout = layout(WorkspaceAccess::None, &workdir);
        if let Ok(spec) = build_in(&config, &layout) {
            let args = spec.docker_args();
            let tail = [spec.image(), "sleep", "infinity"].map(str::to_owned);
            prop_assert!(args.ends_with(&tail));
            prop_assert!(!spec.image().starts_with('-'));
            prop_assert!(!args.iter().any(|arg| arg.contains("name=host") || arg == "host"));
            let flags: Vec<&String> = args.iter().filter(|arg| arg.starts_with('-')).collect();
            let known = ["--name", "--label", "--read-only", "--tmpfs", "--network", "--user",
                "--env", "--cap-drop", "--security-opt", "--workdir", "-v"];
            prop_assert!(flags.iter().all(|flag| known.contains(&flag.as_str())), "{args:?}");
        }
    }
}

fn resolve(docker: &str) -> SandboxConfig {
    let text = format!("{{agents: {{defaults: {{sandbox: {{docker: {docker}}}}}}}}}");
    let tree = json5::parse(&text, FileId(0)).unwrap().root;
    let mut config =
        SandboxConfig::resolve(&Config::from_tree(tree, vec![]), None, "/state").unwrap();
    config.docker.run_as_owner(Owner { uid: 1000, gid: 1000 });
    config
}

fn identity(config: &SandboxConfig) -> Identity {
    let scope = ScopeKey::stored("agent:main").unwrap();
    let prefix = &config.docker.container_prefix.value;
    let name = scope.container_name(Scope::Agent, prefix);
    Identity { name, scope, created_at_ms: 7, fingerprint: None }
}

fn layout(access: WorkspaceAccess, workdir: &str) -> Layout {
    let directories = Directories {
        sandbox: "/state/sandboxes/s-1".into(),
        agent: "/home/u/ws".into(),
        workdir: workdir.into(),
    };
    Layout::plan(access, &directories)
}

fn files() -> FileTable {
    FileTable::new().with("/home/u/ws/a", EntryKind::Directory)
}

fn policy(config: &SandboxConfig, layout: &Layout) -> BindPolicy {
    let known = KnownPlaces::default();
    BindPolicy::resolve(&config.docker, &layout.bind_roots(), &known, &files())
}

fn build_in(config: &SandboxConfig, layout: &Layout) -> Result<ContainerSpec, ContainerRefused> {
    let policy = policy(config, layout);
    ContainerSpec::locked_down(identity(config), layout, config.docker.image.clone())
        .configured(&config.docker, &Filter::except_credentials())
        .build(&policy, &files())
}

fn build(docker: &str) -> Result<ContainerSpec, ContainerRefused> {
    let config = resolve(docker);
    let workdir = config.docker.workdir.value.clone();
    build_in(&config, &layout(WorkspaceAccess::None, &workdir))
}

#[track_caller]
fn doors(docker: &str, expected: &[OpenDoor]) {
    assert_eq!(build(docker).unwrap().open_doors(Backend::Docker), expected, "{docker}");
}

/// `key` is the key below `docker` that the refusal names; empty if it names none.
#[track_caller]
fn refuse(docker: &str, words: &str, key: &str) {
    let refused = build(docker).unwrap_err();
    let text = refused.to_string();
    assert!(text.contains(words), "{docker}: {text}");
    let named = refused.origin.map(|origin| origin.key).unwrap_or_default();
    let prefix = "agents.defaults.sandbox.docker.";
    assert!(named.strip_prefix(prefix).unwrap_or_default().starts_with(key), "{docker}: {named}");
    assert_eq!(named.is_empty(), key.is_empty(), "{docker}: {named}");
}

#[track_caller]
fn check_limits(docker: &str, expected: &str) {
    let args = build(docker).unwrap().option_args();
    let after = args.iter().position(|arg| arg == "no-new-privileges").unwrap();
    assert_eq!(args[after + 1..].join(" "), expected, "{docker}");
}
