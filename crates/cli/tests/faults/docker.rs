//! Containers: what the engine was not told, its inspection tells; what even that hides, the kernel does.

use std::path::Path;

use clawpen_rules::facts::FactKind;

use super::starter::{Starter, Who};
use super::{Shown, facts, kinds, not_as_asked, unnoticed};

const CONFIG: &str = "{agents: {defaults: {sandbox: {backend: 'docker', workspaceAccess: 'none', \
    docker: {image: 'clawpen-test-base:latest', user: '1000:1000', containerPrefix: 'PREFIX', \
    memory: '64m', cpus: 0.5, pidsLimit: 100, \
    ulimits: {nofile: {soft: 100, hard: 200}}}}}}}";

/// `None` where there is no engine and none was promised. The prefix is the test's own: tests run at
/// the same time.
fn starter(prefix: &str) -> Option<Starter> {
    let host = std::env::var("DOCKER_HOST").unwrap_or_default();
    let socket = host.strip_prefix("unix://").unwrap_or("/var/run/docker.sock");
    if !Path::new(socket).exists() {
        assert!(std::env::var_os("CLAWPEN_TEST_SERVICES").is_none(), "no engine at {socket}");
        #[expect(clippy::print_stderr, reason = "the house's way to say that a test did not run")]
        {
            eprintln!("skipped: no Docker engine; run `cargo xtask test faults`");
        }
        return None;
    }
    let prefix = format!("{prefix}-{}-", std::process::id());
    Some(Starter::new(Who::Root, &CONFIG.replace("PREFIX", &prefix)))
}

/// What is left out of the container and of the supervisor so that only this fact can tell.
fn switches(fact: &Shown) -> Vec<String> {
    let one = |name: &str| vec![name.to_owned()];
    match fact.kind {
        // A container is made of a root file system: no engine has a switch for that.
        FactKind::Namespace if fact.which == "mnt" => Vec::new(),
        FactKind::Namespace if fact.which == "pid" => one("inside:pid-namespace,pid-namespace"),
        FactKind::Namespace => vec![format!("inside:{}-namespace", fact.which)],
        // Where the engine gives a user namespace, and the image's own groups: only shown.
        FactKind::UidMap | FactKind::GidMap | FactKind::Groups => Vec::new(),
        FactKind::User => one("inside:user,user"),
        FactKind::Capabilities => {
            one("inside:capabilities,inside:user,user,capabilities,inside:no-new-privs")
        }
        FactKind::NoNewPrivs => one("inside:no-new-privs,no-new-privs,seccomp,landlock"),
        FactKind::Seccomp => one("seccomp"),
        FactKind::Landlock => one("landlock"),
        FactKind::Mount => vec![format!("inside:mount:{}", fact.which)],
        FactKind::Interfaces => one("inside:interfaces"),
        // The supervisor is told once more: number 7 of the kernel's limits.
        FactKind::Rlimit => vec![format!("inside:limit:{},limit:7", fact.which)],
        FactKind::Cgroup => vec![format!("inside:cgroup:{}", fact.which)],
        FactKind::Descriptors => one("descriptors"),
        FactKind::Memory => one("seal"),
    }
}

#[test]
fn every_fact_of_a_container_that_does_not_hold_is_named() {
    let Some(starter) = starter("facts") else { return };
    let facts = facts(&starter);
    let expected = FactKind::ALL
        .into_iter()
        .filter(|kind| !matches!(kind, FactKind::UidMap | FactKind::GidMap))
        .collect();
    assert_eq!(kinds(&facts), expected);
    let faults: Vec<(String, String)> = facts
        .iter()
        // A mount that is to be writable has nothing to lose.
        .filter(|fact| fact.which != "/workspace")
        .flat_map(|fact| {
            // A test's engine may have a network namespace of its own, which is then the one shared.
            let is_net = fact.kind == FactKind::Namespace && fact.which == "net";
            let named = not_as_asked(if is_net { "network interfaces" } else { &fact.name });
            switches(fact).into_iter().map(move |switch| (switch, named.clone()))
        })
        .collect();
    let wrong = unnoticed(&starter, &faults);
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), faults.len(), wrong.join("\n"));
}

#[test]
fn every_word_of_a_request_that_the_engine_did_not_get_is_named() {
    let Some(starter) = starter("words") else { return };
    let faults = [
        ("user", "`Config.User`"),
        ("capabilities", "`HostConfig.CapDrop`"),
        ("more-capabilities", "`HostConfig.CapAdd`"),
        ("no-new-privs", "`HostConfig.SecurityOpt`"),
        ("seccomp", "`HostConfig.SecurityOpt`"),
        ("privileged", "`HostConfig.Privileged`"),
        ("read-only", "`HostConfig.ReadonlyRootfs`"),
        ("interfaces", "`HostConfig.NetworkMode`"),
        ("net-namespace", "`HostConfig.NetworkMode`"),
        ("pid-namespace", "`HostConfig.PidMode`"),
        ("ipc-namespace", "`HostConfig.IpcMode`"),
        ("uts-namespace", "`HostConfig.UTSMode`"),
        ("cgroup-namespace", "`HostConfig.CgroupnsMode`"),
        ("cgroup:memory", "`HostConfig.Memory`"),
        ("cgroup:pids", "`HostConfig.PidsLimit`"),
        ("cgroup:cpu", "`HostConfig.NanoCpus`"),
        ("limit:nofile", "`HostConfig.Ulimits`"),
        ("device", "`HostConfig.Devices`"),
        ("extra-mount", "`Mounts[/extra]`"),
        ("mount:/.clawpen/supervisor", "`Mounts[/.clawpen/supervisor]`"),
        ("mount:/tmp", "`HostConfig.Tmpfs`"),
    ];
    let faults = faults.map(|(fault, field)| (format!("engine:{fault}"), field.to_owned()));
    let wrong = unnoticed(&starter, &faults);
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), faults.len(), wrong.join("\n"));
}
