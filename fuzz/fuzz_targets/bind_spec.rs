//! Any text as a bind: what is let in comes from below the roots, goes to an absolute target, and
//! never touches a blocked path.
#![no_main]

use clawpen_rules::config::sandbox::WorkspaceAccess;
use clawpen_rules::host_files::FileTable;
use clawpen_rules::mounts::{
    BindDecision, BindPolicy, Blocklist, KnownPlaces, MountTable, ReservedTargets, Roots, Sources,
    TablePlan, Targets, decide, decide_bind_entry, why,
};
use clawpen_rules::{paths, posix};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let files =
        FileTable::new().with_link("/ws/out", "/etc").with_link("/ws/home", "/home/ann/.ssh");
    let known = KnownPlaces { homes: vec!["/home/ann".to_owned()], ..KnownPlaces::default() };
    let blocklist = Blocklist::resolve(&known, &files);
    let roots = Roots::resolve(&["/ws"], &files);
    let strict = BindPolicy {
        sources: Sources::Below(roots),
        targets: Targets::NotOver(ReservedTargets::new("/workspace")),
        blocklist: blocklist.clone(),
    };
    let open = BindPolicy { sources: Sources::Anywhere, targets: Targets::Anywhere, blocklist };
    let _ = decide_bind_entry(text);
    let _ = why(text, &strict, &files);
    if let BindDecision::Allow(bind) = decide(text, &strict, &files) {
        assert!(posix::is_inside("/ws", bind.real_source()), "{bind:?}");
        assert!(bind.target().starts_with('/'), "{bind:?}");
        assert!(!posix::is_inside("/workspace", bind.target()), "{bind:?}");
    }
    if let BindDecision::Allow(bind) = decide(text, &open, &files) {
        for blocked in ["/etc", "/proc", "/root", "/run", "/var/run", "/home/ann/.ssh"] {
            assert!(!posix::is_inside(blocked, bind.real_source()), "{bind:?}");
            assert!(!posix::is_inside(bind.real_source(), blocked), "{bind:?}");
        }
    }
    // The same text as a path: it never leaves the one mount there is.
    let table = MountTable::new(&TablePlan {
        workspace: "/ws",
        agent_workspace: "/agentws",
        access: WorkspaceAccess::None,
        workdir: "/workspace",
        binds: &[],
        tmpfs: &[],
    });
    let query = paths::Query { input: text, working_directory: None, home: "/home/ann" };
    if let Ok(found) = paths::decide(&table, &query, &files) {
        assert!(posix::is_inside("/ws", &found.host_path), "{found:?}");
        assert!(posix::is_inside("/workspace", &found.container_path), "{found:?}");
    }
});
