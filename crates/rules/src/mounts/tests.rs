//! What attackers and slips put into binds, and what becomes of it.

use super::*;
use crate::config::setting::Origin;
use crate::host_files::{Entry, EntryKind, FileTable};
use proptest::prelude::*;

/// A machine with a few links, and the home `/home/ann`.
fn machine() -> FileTable {
    FileTable::new()
        .with("/ws/sub/f", EntryKind::File)
        .with("/data/f", EntryKind::File)
        .with("/etc/passwd", EntryKind::File)
        .with("/srv/twice", EntryKind::File)
        .with_links("/srv/twice", 2)
        .with("/srv/sockets/podman.sock", EntryKind::Other)
        .with_link("/ws/link-run", "/var/run")
        .with_link("/home/ann/.ssh", ".ssh")
        .with_link("/ws/out", "/data")
        .with_link("/ws/etc", "/etc")
        .with_link("/ws/loop", "loop")
        .with_link("/alias", "/ws")
        .with_link("/var/run", "/run")
}

fn policy(sources: Sources, targets: Targets) -> BindPolicy {
    let known = KnownPlaces { homes: vec!["/home/ann".into()], ..KnownPlaces::default() };
    BindPolicy { sources, targets, blocklist: Blocklist::resolve(&known, &machine()) }
}

fn below(roots: &[&str]) -> Sources {
    Sources::Below(Roots::resolve(roots, &machine()))
}

fn own_mounts() -> Targets {
    Targets::NotOver(ReservedTargets::new("/work"))
}

fn open() -> BindPolicy {
    policy(Sources::Anywhere, Targets::Anywhere)
}

fn strict() -> BindPolicy {
    policy(below(&["/ws"]), own_mounts())
}

/// The refusal without the entry and the values, or `None`.
fn kind(entry: &str, policy: &BindPolicy) -> Option<&'static str> {
    let BindDecision::Refuse(refusal) = decide(entry, policy, &machine()) else { return None };
    Some(match refusal {
        Refusal::ControlCharacter { .. } => "control character",
        Refusal::SourceNotAbsolute { .. } => "source not absolute",
        Refusal::Blocked { .. } => "blocked",
        Refusal::ReservedTarget { .. } => "reserved target",
        Refusal::OutsideRoots { .. } => "outside roots",
        Refusal::SourceUnknown { .. } => "source unknown",
        Refusal::HasOtherNames { .. } => "other names",
        Refusal::RunsOnHost { .. } => "runs on the host",
        Refusal::TargetMissing { .. } => "target missing",
        Refusal::TargetNotAbsolute { .. } => "target not absolute",
        Refusal::TargetTaken { .. } => "target taken",
        Refusal::Padded { .. } => "padded",
        Refusal::Propagation { .. } => "propagation",
        Refusal::UnknownOption { .. } => "unknown option",
        Refusal::ConflictingOptions { .. } => "conflicting options",
    })
}

#[track_caller]
fn check(entry: &str, policy: &BindPolicy, expected: Option<&str>) {
    assert_eq!(kind(entry, policy), expected, "{entry:?}");
}

#[test]
fn an_allowed_bind_says_what_to_mount_where() {
    let BindDecision::Allow(bind) = decide(" /alias/./sub:/x/../data:ro,z ", &open(), &machine())
    else {
        panic!("refused");
    };
    assert_eq!(bind.text(), "/alias/./sub:/x/../data:ro,z");
    assert_eq!((bind.source(), bind.real_source()), ("/alias/sub", "/ws/sub"));
    assert_eq!((bind.target(), bind.access()), ("/data", Access::ReadOnly));
    assert_eq!(decide(" \t", &open(), &machine()), BindDecision::Blank);
}

#[test]
fn b32_no_spelling_of_a_blocked_path_gets_through_an_open_policy() {
    for source in [
        "/",
        "//",
        "/./",
        "/../",
        "/..//./",
        "/etc",
        "/etc/",
        "//etc//",
        "/./etc",
        "/srv/../etc",
        "/etc/../etc/ssl",
        "/ws/etc",
        "/ws/etc/ssl",
        "/alias/etc",
        "/ws/etc/missing/leaf",
        "/srv\\..\\etc",
        "\\etc\\..",
        "/etc\\x",
        "/etc/a\\..\\..\\x",
        "/var",
        "/var/run",
        "/var/run/docker.sock",
        "/run/user/1000/docker.sock",
        "/srv/docker.sock",
        "/home",
        "/home/ann",
        "/home/ann/.ssh",
        "/home/ann/.aws/credentials",
        "/home/ann/x/../.npm",
        "/proc/self/root",
        "/proc/1/cwd",
        "/dev/mem",
        "/sys/kernel",
        "/private",
        "/Users",
        "/var/lib",
        "/ws/etc/..",
    ] {
        let expected = if source.starts_with('\\') { "source not absolute" } else { "blocked" };
        check(&format!("{source}:/x"), &open(), Some(expected));
        check(&format!("{source}:/x:ro"), &open(), Some(expected));
    }
}

#[test]
fn b32_plain_directories_pass_an_open_policy() {
    for source in [
        "/srv/data",
        "/etcx",
        "/ETC",
        "/home/ann/project",
        "/srv/é",
        "/srv/a b",
        "/srv/a,b",
        "/mnt",
    ] {
        check(&format!("{source}:/x"), &open(), None);
    }
}

#[test]
fn b32_a_link_out_of_the_roots_is_seen_also_above_a_missing_leaf() {
    check("/ws/sub:/x", &strict(), None);
    check("/ws/new/leaf:/x", &strict(), None);
    check("/wsx:/x", &strict(), Some("outside roots"));
    check("/data:/x", &strict(), Some("outside roots"));
    check("/ws/out:/x", &strict(), Some("outside roots"));
    check("/ws/out/new:/x", &strict(), Some("outside roots"));
    check("/ws/out/../sub:/x", &strict(), Some("outside roots"));
    check("/ws/../data:/x", &strict(), Some("outside roots"));
    check("/ws/loop/x:/x", &strict(), Some("source unknown"));
    check("/ws/sub:/x", &policy(below(&["/alias/"]), own_mounts()), None);
    check("/alias/sub:/x", &policy(below(&["/ws"]), own_mounts()), Some("outside roots"));
    check("/ws/sub:/x", &policy(below(&["ws", ""]), own_mounts()), Some("outside roots"));
}

#[test]
fn b32_what_cannot_be_looked_at_is_refused() {
    struct Unreadable;
    impl HostFiles for Unreadable {
        fn entry(&self, path: &str) -> Result<Option<Entry>, FactError> {
            let problem = crate::host_files::FactProblem::System("permission denied".into());
            Err(FactError { path: path.to_owned(), problem })
        }
    }
    let decision = decide("/srv/a:/x", &open(), &Unreadable);
    let BindDecision::Refuse(refusal) = decision else { panic!("allowed") };
    assert_eq!(
        refusal.to_string(),
        "bind `/srv/a:/x` cannot be judged: cannot look at `/srv`: permission denied"
    );
}

#[test]
fn the_sandboxs_own_mounts_and_the_kernels_places_are_not_bound_over() {
    let reserved = [
        "/workspace",
        "/workspace/x",
        "//workspace",
        "/agent/../workspace",
        "/agent",
        "/work",
        "/work/deep",
    ];
    for target in reserved {
        check(&format!("/ws/sub:{target}"), &strict(), Some("reserved target"));
        check(&format!("/ws/sub:{target}"), &open(), None);
    }
    for target in ["/workspacex", "/agents", "/x/agent"] {
        check(&format!("/ws/sub:{target}"), &strict(), None);
    }
    for target in ["/", "/x/..", "/proc", "/proc/sys/kernel", "/sys"] {
        check(&format!("/ws/sub:{target}"), &open(), Some("target taken"));
    }
}

#[test]
fn an_entry_must_say_where_to() {
    check("/ws/sub", &open(), Some("target missing"));
    check("/ws/sub:", &open(), Some("target missing"));
    check("/ws/sub::ro", &open(), Some("target missing"));
    check("/ws/sub:x", &open(), Some("target not absolute"));
    check("/ws/sub:./x", &open(), Some("target not absolute"));
    check("/ws/sub:\\x", &open(), Some("target not absolute"));
}

#[test]
fn sources_that_are_no_host_directories_are_refused() {
    for source in ["vol", "./x", "~/x", "../x", "C:\\x", "C:/x", "\\\\srv\\x", "", "-v"] {
        check(&format!("{source}:/x"), &open(), Some("source not absolute"));
    }
}

#[test]
fn text_that_forges_lines_or_ends_paths_early_is_refused() {
    for entry in [
        "/ws/sub\0:/x",
        "/ws/sub:/x\n/etc:/y",
        "/ws/sub:/x\r",
        "/ws/\u{1b}[2Ksub:/x",
        "/ws/\u{202e}bus:/x",
        "/ws/sub\u{2028}:/x",
    ] {
        let expected = if entry.ends_with('\r') { None } else { Some("control character") };
        check(entry, &open(), expected);
    }
    check("/ws/sub :/x", &open(), Some("padded"));
    check("/ws/sub: /x", &open(), Some("padded"));
    check("/etc :/x", &open(), Some("blocked"));
    check("/ws/sub: /workspace", &strict(), Some("reserved target"));
}

#[test]
fn options_are_a_closed_list_and_mounts_do_not_travel() {
    for options in ["ro", "rw", "ro,z", "Z", "rw,rprivate,cached", ""] {
        check(&format!("/ws/sub:/x:{options}"), &open(), None);
    }
    for options in ["shared", "rshared", "ro,slave", "rslave"] {
        check(&format!("/ws/sub:/x:{options}"), &open(), Some("propagation"));
    }
    // `U` would change the owner of the host's files; `/y` is a third path, `ro:rw` a fourth part.
    for options in ["U", "RO", "readonly", "/y", "ro:rw", "ro,", "exec", "volume-driver=x"] {
        check(&format!("/ws/sub:/x:{options}"), &open(), Some("unknown option"));
    }
    for options in ["ro,rw", "ro,ro", "z,Z", "private,rprivate"] {
        check(&format!("/ws/sub:/x:{options}"), &open(), Some("conflicting options"));
    }
}

#[test]
fn a_file_with_a_second_name_is_refused() {
    check("/srv/twice:/x:ro", &open(), Some("other names"));
    check("/srv:/x", &open(), None);
}

#[test]
fn a_directory_that_holds_an_engines_socket_is_refused() {
    check("/srv/sockets:/x", &open(), Some("blocked"));
    check("/srv/sockets/deep:/x", &open(), None);
}

#[test]
fn what_the_host_runs_may_be_read_and_not_written() {
    for source in ["/home/ann/.bashrc", "/home/ann/.zshrc", "/home/eve/.profile"] {
        check(&format!("{source}:/x"), &open(), Some("runs on the host"));
        check(&format!("{source}:/x:rw,z"), &open(), Some("runs on the host"));
        check(&format!("{source}:/x:ro"), &open(), None);
    }
    let advice = why("/home/ann/.bashrc:/x:rw,z", &open(), &machine()).advice;
    let better = Change::Write("/home/ann/.bashrc:/x:ro,z".to_owned());
    assert_eq!(advice, Advice::Change(vec![better]));
}

#[test]
fn a_credential_that_leads_in_a_circle_is_refused_like_any_other() {
    check("/home/ann/.ssh:/x", &open(), Some("blocked"));
    check("/home/ann/.ssh/id:/x", &open(), Some("blocked"));
    check("/ws/loop:/x", &policy(below(&["/ws/loop"]), own_mounts()), Some("source unknown"));
}

#[test]
fn a_socket_behind_a_link_is_named_by_the_directory_it_lies_in() {
    let decision = decide("/ws/link-run/docker.sock:/x", &open(), &machine());
    let BindDecision::Refuse(Refusal::Blocked { source, path, .. }) = decision else {
        panic!("{decision:?}")
    };
    assert_eq!((source.as_str(), path.as_str()), ("/run/docker.sock", "/run"));
}

#[test]
fn the_first_rule_in_order_speaks() {
    check("vol", &strict(), Some("source not absolute"));
    check("/etc", &strict(), Some("blocked"));
    check("/data:/workspace:shared", &strict(), Some("reserved target"));
    check("/data:x:shared", &strict(), Some("outside roots"));
    check("/ws/sub:x:shared", &strict(), Some("target not absolute"));
}

#[test]
fn a_refusal_names_its_facts() {
    let say = |entry: &str| match decide(entry, &strict(), &machine()) {
        BindDecision::Refuse(refusal) => refusal.to_string(),
        BindDecision::Allow(_) | BindDecision::Blank => String::new(),
    };
    assert_eq!(
        say("/ws/etc:/x"),
        "bind `/ws/etc:/x` reaches into `/etc`, which no sandbox may see (source `/etc`); no setting \
         lifts this, bind a project directory instead"
    );
    assert_eq!(
        say("/ws/out/n:/x"),
        "bind `/ws/out/n:/x` leads to `/data/n`, which lies in none of the directories that may be \
         bound (/ws); move it there, or set sandbox.docker.dangerouslyAllowExternalBindSources=true"
    );
    assert_eq!(
        say("/ws/sub:/agent/./x"),
        "bind `/ws/sub:/agent/./x` would hide the sandbox's own mount at `/agent` (its target is \
         `/agent/x`); choose another target, or set \
         sandbox.docker.dangerouslyAllowReservedContainerTargets=true"
    );
}

fn setting<T>(value: T) -> Setting<T> {
    Setting::new(value, Origin::built_in("key"))
}

fn docker() -> DockerConfig {
    DockerConfig {
        image: setting("image".into()),
        container_prefix: setting("pen-".into()),
        workdir: setting("/work".into()),
        read_only_root: setting(true),
        tmpfs: setting(vec![]),
        network: setting("none".into()),
        user: None,
        cap_drop: setting(vec![]),
        env: vec![],
        setup_command: None,
        pids_limit: None,
        memory: None,
        memory_swap: None,
        cpus: None,
        gpus: None,
        ulimits: None,
        seccomp_profile: Some(setting("/p.json".into())),
        apparmor_profile: None,
        dns: None,
        extra_hosts: None,
        binds: None,
        allow_reserved_container_targets: None,
        allow_external_bind_sources: Some(setting(false)),
        allow_container_namespace_join: None,
    }
}

#[test]
fn a_config_opens_only_what_its_flags_say() {
    let known = KnownPlaces { homes: vec!["/home/ann".into()], ..KnownPlaces::default() };
    let resolve = |docker: &DockerConfig| BindPolicy::resolve(docker, &["/ws"], &known, &machine());
    assert_eq!(resolve(&docker()), strict());
    let asked = Isolation {
        network: Some("none"),
        join: NamespaceJoin::Refused,
        seccomp_profile: Some("/p.json"),
        apparmor_profile: None,
    };
    assert_eq!(Isolation::of(&docker()), asked);
    let opened = DockerConfig {
        allow_reserved_container_targets: Some(setting(true)),
        allow_external_bind_sources: Some(setting(true)),
        allow_container_namespace_join: Some(setting(true)),
        ..docker()
    };
    assert_eq!(resolve(&opened), open());
    assert_eq!(Isolation::of(&opened), Isolation { join: NamespaceJoin::Allowed, ..asked });
}

#[test]
fn entries_are_judged_at_first_sight() {
    let problem = |entry| decide_bind_entry(entry).unwrap_err().to_string();
    assert_eq!(problem("  "), "a bind must not be blank; write it as `source:target`");
    for (entry, source) in [("vol:/x", "vol"), ("C:\\d:/d", "C"), (":/x", ":/x"), ("~/x:/y", "~/x")]
    {
        let refusal = Refusal::SourceNotAbsolute { bind: entry.into(), source: source.into() };
        assert_eq!(decide_bind_entry(entry), Err(EntryProblem::Refused(refusal)));
    }
    assert_eq!(decide_bind_entry("/etc:/x"), Ok(()));
}

#[test]
fn why_finds_the_changes_that_allow_an_entry_or_says_that_none_does() {
    let advice = |entry: &str| why(entry, &strict(), &machine()).advice;
    let external = Change::SetTrue("sandbox.docker.dangerouslyAllowExternalBindSources");
    let reserved = Change::SetTrue("sandbox.docker.dangerouslyAllowReservedContainerTargets");
    let write = |entry: &str| Change::Write(entry.to_owned());
    assert_eq!(advice("/ws/sub:/x"), Advice::NotNeeded);
    assert_eq!(advice("/data:/x"), Advice::Change(vec![external.clone()]));
    assert_eq!(advice("/data:/agent"), Advice::Change(vec![reserved, external.clone()]));
    assert_eq!(advice("/ws/sub/"), Advice::Change(vec![write("/ws/sub/:/mnt/sub")]));
    assert_eq!(advice("/ws/sub: x:"), Advice::Change(vec![write("/ws/sub:/x")]));
    assert_eq!(advice("/ws/sub:/x:READONLY"), Advice::Change(vec![write("/ws/sub:/x:ro")]));
    assert_eq!(advice("/ws/sub:/x:rw,ro,ro"), Advice::Change(vec![write("/ws/sub:/x:ro")]));
    assert_eq!(advice("/data:/x:rshared,z"), Advice::Change(vec![external, write("/data:/x:z")]));
    assert!(matches!(advice("/etc:/x"), Advice::Never(_)));
    assert!(matches!(advice("vol:/x"), Advice::ByHand(_)));
}

#[test]
fn why_is_shown_with_the_way_out() {
    let shown = |entry: &str| why(entry, &strict(), &machine()).to_string();
    assert_eq!(shown("/ws/sub:/x:ro"), "allowed: `/ws/sub` at `/x`, read-only");
    assert!(shown("/var:/x").ends_with("\nnothing can allow it"));
    assert!(shown("/ws/sub:x").ends_with("\nto allow it:\n  write the bind as `/ws/sub:/x`"));
}

proptest! {
    #[test]
    fn no_entry_panics_and_what_is_allowed_stays_clear_of_blocked_paths(
        entry in "[/.:\\\\a-eÉ ,~\u{0}\u{202e}]{0,24}|(/(etc|ws|out|\\.\\.|\\.|data|loop|alias)){1,6}(:/x)?(:ro|:rshared)?",
    ) {
        for policy in [open(), strict()] {
            let seen = why(&entry, &policy, &machine());
            prop_assert!(!seen.to_string().is_empty());
            if let BindDecision::Allow(bind) = &seen.decision {
                prop_assert!(!posix::is_inside("/etc", bind.real_source()));
                prop_assert!(bind.real_source() != "/" && bind.target().starts_with('/'));
                if policy == strict() {
                    prop_assert!(posix::is_inside("/ws", bind.real_source()));
                }
            }
            if let Advice::Change(changes) = &seen.advice {
                prop_assert!(!changes.is_empty());
            }
        }
    }
}
