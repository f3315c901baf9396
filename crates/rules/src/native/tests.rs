//! What each key means on a native pen, by table.

use super::limits::{Bound, Keeper};
use super::names::Programs;
use super::*;
use crate::config::json5;
use crate::config::own::NativeSettings;
use crate::config::sandbox::{Owner, SandboxConfig};
use crate::config::tree::FileId;
use crate::config::{Config, schema::keys};
use crate::container::Identity;
use crate::environment::Filter;
use crate::host_files::{Entry, EntryKind, FactError, HostFiles};
use crate::mounts::{BindPolicy, KnownPlaces};
use crate::scope::ScopeKey;
use crate::session::Session;
use crate::workspace::{Directories, Layout};

const ALL: Offer =
    Offer { pids: Support::Yes, memory: Support::Yes, swap: Support::Yes, cpu: Support::Yes };

/// Every path is a directory.
struct Directory;

impl HostFiles for Directory {
    fn entry(&self, _: &str) -> Result<Option<Entry>, FactError> {
        Ok(Some(Entry { kind: EntryKind::Directory, links: 1 }))
    }
}

fn ask(docker: &str, rootfs: Option<&str>, offer: Offer) -> Result<NativePen, Vec<KeyRefused>> {
    let text = format!("{{agents: {{defaults: {{sandbox: {{docker: {docker}}}}}}}}}");
    let config = Config::from_tree(json5::parse(&text, FileId(0)).unwrap().root, vec![]);
    let session = Session::resolve(&config, "agent:main:main");
    let mut sandbox = SandboxConfig::resolve(&config, Some(session.agent()), "/state").unwrap();
    sandbox.docker.run_as_owner(Owner { uid: 1001, gid: 1002 });
    let docker = &sandbox.docker;
    let layout = Layout::plan(
        sandbox.workspace_access.value,
        &Directories {
            sandbox: "/state/sandboxes/main".into(),
            agent: "/ws".into(),
            workdir: docker.workdir.value.clone(),
        },
    );
    let scope = ScopeKey::new(sandbox.scope.value, &session);
    let name = scope.container_name(sandbox.scope.value, &docker.container_prefix.value);
    let identity = Identity { name, scope, created_at_ms: 0, fingerprint: None };
    let policy = BindPolicy::resolve(docker, &["/ws"], &KnownPlaces::default(), &Directory);
    let spec = ContainerSpec::locked_down(identity, &layout, docker.image.clone())
        .configured(docker, &Filter::except_credentials())
        .build(&policy, &Directory)
        .unwrap();
    let rootfs =
        rootfs.map(|path| Setting::new(path.to_owned(), Origin::built_in("native.rootfs")));
    decide(&spec, docker, &NativeSettings { rootfs, require: None }, offer)
}

/// The last part of each refused key.
#[track_caller]
fn check(docker: &str, offer: Offer, expected: &[&str]) {
    let refused = ask(docker, None, offer).err().unwrap_or_default();
    let keys: Vec<&str> = refused
        .iter()
        .map(|refused| {
            let key = refused.origin.key.split("docker.").nth(1).unwrap_or(&refused.origin.key);
            let shown = refused.to_string();
            assert!(shown.starts_with(&format!("`{}` ", refused.origin.key)), "{shown}");
            key
        })
        .collect();
    assert_eq!(keys, expected, "{docker}");
}

#[test]
fn a_config_that_says_nothing_is_a_closed_pen() {
    let pen = ask("{}", None, ALL).unwrap();
    assert_eq!(pen.root(), &Root::HostView);
    assert_eq!(pen.user(), PenUser { uid: 1001, gid: 1002 });
    assert_eq!(pen.workdir(), "/workspace");
    let paths: Vec<&str> = pen.tmpfs().iter().map(|tmpfs| tmpfs.path.as_str()).collect();
    assert_eq!(paths, ["/tmp", "/var/tmp", "/run"]);
    assert_eq!(
        pen.limits(),
        &Limits {
            pids: 4096,
            pids_by: Keeper::UserNamespace,
            memory: None,
            memory_and_swap: None,
            cpu: Cpu::All,
            rlimits: vec![],
        }
    );
    let directory = HostDirectory {
        source: "/state/sandboxes/main",
        target: "/workspace",
        access: Access::ReadWrite,
    };
    assert_eq!(pen.host_directories(), [directory]);
}

#[test]
fn what_native_cannot_keep_is_refused_by_name() {
    check("{image: 'debian:12'}", ALL, &["image"]);
    check("{readOnlyRoot: false}", ALL, &["readOnlyRoot"]);
    check("{network: 'bridge'}", ALL, &["network"]);
    check("{network: ''}", ALL, &["network"]);
    check("{network: 'none'}", ALL, &[]);
    check("{gpus: 'all'}", ALL, &["gpus"]);
    check("{seccompProfile: '/p.json'}", ALL, &["seccompProfile"]);
    check("{apparmorProfile: 'docker-default'}", ALL, &["apparmorProfile"]);
    check("{seccompProfile: ' ', apparmorProfile: ''}", ALL, &[]);
    check(
        "{gpus: 'all', network: 'bridge', memory: '1g', user: 'node'}",
        Offer::default(),
        &["network", "gpus", "user", "memory"],
    );
}

#[test]
fn an_image_may_be_named_when_its_directory_is() {
    let pen = ask("{image: 'debian:12'}", Some("/srv/debian/"), ALL).unwrap();
    assert_eq!(pen.root(), &Root::Directory("/srv/debian".into()));
    for path in ["debian", "/", "/x/.."] {
        let refused = ask("{}", Some(path), ALL).unwrap_err();
        assert_eq!(refused[0].origin.key, "native.rootfs", "{path}");
    }
}

#[test]
fn users_are_numbers() {
    for (user, expected) in
        [("1000", (1000, 1000)), ("0:0", (0, 0)), ("root", (0, 0)), ("5:7", (5, 7))]
    {
        let pen = ask(&format!("{{user: '{user}'}}"), None, ALL).unwrap();
        assert_eq!((pen.user().uid, pen.user().gid), expected, "{user}");
    }
    for user in ["node", "1000:staff", "4294967295", "1000:"] {
        let expected: &[&str] = if user == "1000:" { &[] } else { &["user"] };
        check(&format!("{{user: '{user}'}}"), ALL, expected);
    }
}

#[test]
fn limits_need_somebody_who_keeps_them() {
    check("{memory: '1g'}", Offer::default(), &["memory"]);
    check("{cpus: 1.5}", Offer::default(), &["cpus"]);
    check("{memory: '1g', memorySwap: '2g'}", Offer { swap: Support::No, ..ALL }, &["memorySwap"]);
    check("{memorySwap: '2g'}", ALL, &["memorySwap"]);
    check("{memory: '2g', memorySwap: '1g'}", ALL, &["memorySwap"]);
    check("{memory: 'lots'}", ALL, &["memory"]);
    check("{ulimits: {nofiles: 5}}", ALL, &["ulimits.nofiles"]);
    check("{ulimits: {nofile: '9:5'}}", ALL, &["ulimits.nofile"]);
    check("{pidsLimit: 64}", Offer::default(), &[]);
    let pen = ask("{pidsLimit: 64}", None, Offer::default()).unwrap();
    assert_eq!((pen.limits().pids, pen.limits().pids_by), (64, Keeper::UserNamespace));
    let text = "{memory: '512m', memorySwap: 1073741824, cpus: 0.5, pidsLimit: 100, \
                ulimits: {nofile: '1024:2048', core: 0, nproc: {soft: 5, hard: 6}, cpu: 'unlimited'}}";
    let limits = ask(text, None, ALL).unwrap().limits().clone();
    let rlimit = |kind, soft, hard| Rlimit { kind, soft: Bound::At(soft), hard: Bound::At(hard) };
    assert_eq!(
        limits,
        Limits {
            pids: 100,
            pids_by: Keeper::Cgroup,
            memory: Some(512 << 20),
            memory_and_swap: Some(1 << 30),
            cpu: Cpu::Quota(CpuQuota { quota: 50_000, period: 100_000 }),
            rlimits: vec![
                rlimit(RlimitKind::OpenFiles, 1024, 2048),
                rlimit(RlimitKind::Core, 0, 0),
                rlimit(RlimitKind::Processes, 5, 6),
                Rlimit { kind: RlimitKind::Cpu, soft: Bound::Unlimited, hard: Bound::Unlimited },
            ],
        }
    );
}

#[test]
fn amounts_are_read_as_the_engine_reads_them() {
    for (text, expected) in [
        ("1", Some(1)),
        ("1b", Some(1)),
        ("2k", Some(2048)),
        ("2KB", Some(2048)),
        ("1.5m", Some(1_572_864)),
        ("1 GiB", Some(1 << 30)),
        ("1t", Some(1 << 40)),
        ("", None),
        ("m", None),
        ("-1m", None),
        ("1e3", None),
        ("0x10", None),
        ("1.2.3", None),
    ] {
        assert_eq!(limits::bytes(text), expected, "{text}");
    }
}

#[test]
fn memory_directories_take_few_options() {
    let pen =
        ask("{tmpfs: ['/tmp:size=64m,noexec,mode=700', '/cache', '/tmp:size=1k']}", None, ALL);
    let pen = pen.unwrap();
    assert_eq!(
        pen.tmpfs(),
        [Tmpfs::plain("/cache"), Tmpfs { bytes: 1024, ..Tmpfs::plain("/tmp") }]
    );
    let pen = ask("{tmpfs: ['/x:size=64m,noexec,mode=700']}", None, ALL).unwrap();
    let expected =
        Tmpfs { path: "/x".into(), bytes: 64 << 20, mode: 0o700, programs: Programs::Refused };
    assert_eq!(pen.tmpfs(), [expected]);
    for option in ["uid=5", "ro", "nr_inodes=5", "size=x", "mode=4755"] {
        check(&format!("{{tmpfs: ['/x:{option}']}}"), ALL, &["tmpfs"]);
    }
    check("{tmpfs: ['/dev/shm:size=1m']}", ALL, &[]);
}

#[test]
fn nothing_covers_what_the_pen_is_made_of() {
    check("{tmpfs: ['/etc']}", ALL, &["tmpfs"]);
    check("{tmpfs: ['/usr/local']}", ALL, &["tmpfs"]);
    check("{workdir: '/usr/src'}", ALL, &["workdir"]);
    check("{binds: ['/ws/a:/opt/a', '/ws/b:/lib64/x']}", ALL, &["binds.1"]);
    check("{binds: ['/ws/a:/opt/a:ro']}", ALL, &[]);
}

#[test]
fn names_and_servers_are_addresses() {
    check("{dns: ['9.9.9.9', '', '::1']}", ALL, &[]);
    check("{dns: ['one.example']}", ALL, &["dns"]);
    check("{dns: ['1.1.1.1', '1.1.1.2', '1.1.1.3', '1.1.1.4']}", ALL, &["dns"]);
    check("{extraHosts: ['db:10.0.0.5', 'v6:[::1]', 'w=10.0.0.6']}", ALL, &[]);
    for entry in ["db:host-gateway", "db", "a b:10.0.0.1", ":10.0.0.1", "a\\nb:10.0.0.1"] {
        check(&format!("{{extraHosts: ['{entry}']}}"), ALL, &["extraHosts"]);
    }
}

#[test]
fn the_table_has_a_row_for_every_key_of_the_config() {
    let known: Vec<&str> = keys::docker_keys().collect();
    let rows: Vec<&str> = KEYS.iter().map(|key| key.name).collect();
    assert_eq!(rows, known);
}
