//! What a pen sees of the host, on a small one made for it.

use std::fs;
use std::os::unix::fs::symlink;

use clawpen_rules::config::own::NativeSettings;
use clawpen_rules::config::sandbox::{Owner, SandboxConfig};
use clawpen_rules::config::setting::{Origin, Setting};
use clawpen_rules::config::tree::FileId;
use clawpen_rules::config::{Config, json5};
use clawpen_rules::container::{ContainerSpec, Identity};
use clawpen_rules::environment::Filter;
use clawpen_rules::mounts::{BindPolicy, KnownPlaces};
use clawpen_rules::native::{self, Offer};
use clawpen_rules::scope::ScopeKey;
use clawpen_rules::session::Session;
use clawpen_rules::workspace::{Directories, Layout};

use super::*;
use crate::host_files::RealFiles;

/// A small system with merged directories, a secret in every place that must stay outside.
fn machine() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let at = |path: &str| directory.path().join(path);
    for path in [
        "usr/bin",
        "usr/lib",
        "etc/alternatives",
        "etc/ssl/certs",
        "etc/ssl/private",
        "root",
        "home/ann",
        "srv",
        "proc/sys",
        "state/sandboxes/main",
        "image/usr/bin",
        "image/etc",
        "image/var",
        "image/home/x",
    ] {
        fs::create_dir_all(at(path)).unwrap();
    }
    for path in [
        "etc/shadow",
        "etc/passwd",
        "etc/ld.so.cache",
        "root/key",
        "proc/keys",
        "image/etc/passwd",
        "image/etc/hosts",
        "image/init",
    ] {
        fs::write(at(path), path).unwrap();
    }
    symlink("usr/bin", at("bin")).unwrap();
    symlink("/usr/share/zoneinfo/UTC", at("etc/localtime")).unwrap();
    symlink("/srv/elsewhere", at("etc/os-release")).unwrap();
    symlink("usr/bin", at("image/bin")).unwrap();
    directory
}

fn pen(docker: &str, machine: &std::path::Path, rootfs: Option<&str>) -> NativePen {
    let text = format!("{{agents: {{defaults: {{sandbox: {{docker: {docker}}}}}}}}}");
    let config = Config::from_tree(json5::parse(&text, FileId(0)).unwrap().root, vec![]);
    let session = Session::resolve(&config, "agent:main:main");
    let mut sandbox = SandboxConfig::resolve(&config, Some(session.agent()), "/state").unwrap();
    sandbox.docker.run_as_owner(Owner { uid: 1234, gid: 1235 });
    let docker = &sandbox.docker;
    let at = |path: &str| machine.join(path).to_str().unwrap().to_owned();
    let layout = Layout::plan(
        sandbox.workspace_access.value,
        &Directories {
            sandbox: at("state/sandboxes/main"),
            agent: at("state/agent"),
            workdir: docker.workdir.value.clone(),
        },
    );
    let scope = ScopeKey::new(sandbox.scope.value, &session);
    let name = scope.container_name(sandbox.scope.value, &docker.container_prefix.value);
    let identity = Identity { name, scope, created_at_ms: 0, fingerprint: None };
    let policy = BindPolicy::resolve(docker, &[], &KnownPlaces::default(), &RealFiles);
    let spec = ContainerSpec::locked_down(identity, &layout, docker.image.clone())
        .configured(docker, &Filter::except_credentials())
        .build(&policy, &RealFiles)
        .unwrap();
    let rootfs = rootfs.map(|path| Setting::new(at(path), Origin::built_in("native.rootfs")));
    let settings = NativeSettings { rootfs, require: None };
    native::decide(&spec, docker, &settings, Offer::default()).unwrap()
}

fn view(docker: &str, rootfs: Option<&str>) -> (View, String) {
    let machine = machine();
    let root = machine.path().canonicalize().unwrap();
    let host = Host::below(&root, &["", "proc", "usr/lib"]);
    let view = build(&pen(docker, &root, rootfs), Ownership::Mapped, &host).unwrap();
    (view, root.to_str().unwrap().to_owned())
}

/// Where something of the host is bound from, without the test's own directory.
fn binds(view: &View, root: &str) -> Vec<(String, String)> {
    let bind = |step: &MountStep| match step {
        MountStep::Bind { source, target, .. } => {
            let source = source.to_str().unwrap().strip_prefix(root).unwrap().to_owned();
            Some((source, target.to_str().unwrap().to_owned()))
        }
        _ => None,
    };
    view.steps.iter().filter_map(bind).collect()
}

#[test]
fn the_hosts_programs_and_the_workspace_are_all_there_is_of_the_host() {
    let (view, root) = view("{}", None);
    let pair = |source: &str, target: &str| (source.to_owned(), target.to_owned());
    assert_eq!(
        binds(&view, &root),
        [
            pair("/usr", "/usr"),
            pair("/etc/alternatives", "/etc/alternatives"),
            pair("/etc/ssl/certs", "/etc/ssl/certs"),
            pair("/state/sandboxes/main", "/workspace"),
        ]
    );
    let has = |step: &MountStep| view.steps.contains(step);
    assert!(has(&MountStep::Symlink { target: "/bin".into(), to: "usr/bin".into() }));
    assert!(has(&MountStep::Symlink {
        target: "/etc/localtime".into(),
        to: "/usr/share/zoneinfo/UTC".into()
    }));
    assert!(has(&MountStep::Mask { target: "/proc/keys".into() }));
    assert!(has(&MountStep::ReadOnly { target: "/proc/sys".into() }));
    // A link that leaves the system's directories is not followed, nor shown.
    let shown = format!("{:?}", view.steps);
    for secret in ["shadow", "private", "/root", "/home", "elsewhere"] {
        assert!(!shown.contains(secret), "{secret}");
    }
    assert_eq!(view.steps.last(), Some(&MountStep::ReadOnly { target: "/".into() }));
}

#[test]
fn every_mount_is_asked_for_with_its_flags() {
    let (view, _) = view("{tmpfs: ['/tmp:noexec,size=1m', '/cache']}", None);
    let flags = |target: &str| {
        let found = view.mounts.iter().filter(|mount| mount.target == target);
        found.map(|mount| (mount.flags.clone(), mount.below)).collect::<Vec<_>>()
    };
    assert_eq!(flags("/"), [(vec!["ro", "nosuid", "nodev"], Below::Nothing)]);
    // Something is mounted below the host's /usr: it comes along, with the same flags.
    assert_eq!(flags("/usr"), [(vec!["ro", "nosuid", "nodev"], Below::Submounts)]);
    assert_eq!(flags("/tmp"), [(vec!["nosuid", "nodev", "noexec"], Below::Nothing)]);
    for target in ["/cache", "/var/tmp", "/run", "/dev/shm"] {
        assert_eq!(flags(target), [(vec!["nosuid", "nodev"], Below::Nothing)], "{target}");
    }
    assert_eq!(flags("/workspace"), [(vec!["rw", "nosuid", "nodev"], Below::Nothing)]);
    let mounted = |step: &MountStep| {
        matches!(
            step,
            MountStep::Bind { .. }
                | MountStep::Tmpfs { .. }
                | MountStep::Device { .. }
                | MountStep::Devpts { .. }
                | MountStep::Proc { .. }
                | MountStep::Mask { .. }
                | MountStep::ReadOnly { .. }
        )
    };
    assert_eq!(view.mounts.len(), view.steps.iter().filter(|step| mounted(step)).count());
}

#[test]
fn the_workspace_belongs_to_the_pens_user_and_is_the_first_root() {
    let (view, _) = view("{}", None);
    let owner = view.steps.iter().find_map(|step| match step {
        MountStep::Bind { target, owner, .. } if target == std::path::Path::new("/workspace") => {
            Some(owner)
        }
        _ => None,
    });
    let Some(BindOwner::Mapped { uids, gids }) = owner else { panic!("{owner:?}") };
    assert_eq!((uids[0].inside, gids[0].inside), (1234, 1235));
    assert_eq!(view.roots[0], FileRoot { path: "/workspace".into(), access: RootAccess::Write });
    let writable: Vec<&str> = view
        .landlock
        .iter()
        .filter(|rule| matches!(rule.access, LandlockAccess::Full | LandlockAccess::ReadWrite))
        .filter_map(|rule| rule.path.to_str())
        .collect();
    assert_eq!(writable, ["/dev/shm", "/tmp", "/var/tmp", "/run", "/workspace"]);
}

#[test]
fn an_unpacked_image_takes_the_place_of_the_hosts_programs() {
    let (view, root) = view("{image: 'debian:12'}", Some("image"));
    let pair = |source: &str, target: &str| (source.to_owned(), target.to_owned());
    assert_eq!(
        binds(&view, &root),
        [pair("/image/usr", "/usr"), pair("/state/sandboxes/main", "/workspace"),]
    );
    let file = |name: &str| {
        view.steps.iter().find_map(|step| match step {
            MountStep::File { target, contents, .. } if target == std::path::Path::new(name) => {
                Some(String::from_utf8_lossy(contents).into_owned())
            }
            _ => None,
        })
    };
    // Small files are copied; a directory without the mount point that is needed in it is made anew.
    assert_eq!(file("/init").as_deref(), Some("image/init"));
    let made = MountStep::Directory { target: "/var".into(), permissions: 0o755 };
    assert!(view.steps.contains(&made));
    assert_eq!(file("/etc/passwd").as_deref(), Some("image/etc/passwd"));
    assert!(file("/etc/hosts").unwrap().starts_with("127.0.0.1 localhost\n"));
}
