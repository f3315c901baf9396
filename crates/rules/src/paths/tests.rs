//! Paths as tools are given them, and the files they mean.

use super::guard::{Guarded, Purpose, Refusal};
use super::media::Media;
use super::*;
use crate::config::sandbox::WorkspaceAccess;
use crate::host_files::{EntryKind, FileTable};
use crate::mounts::TablePlan;
use proptest::prelude::*;

const HOME: &str = "/home/ann";

fn machine() -> FileTable {
    FileTable::new()
        .with("/srv/ws/dir/f", EntryKind::File)
        .with("/srv/agent/f", EntryKind::File)
        .with("/srv/data/ro/f", EntryKind::File)
        .with("/srv/outside/f", EntryKind::File)
        .with_link("/srv/ws/in", "dir")
        .with_link("/srv/ws/out", "/srv/outside")
        .with_link("/srv/ws/data", "/srv/data")
        .with_link("/srv/ws/loop", "loop")
        .with_link("/srv/ws/gone", "/srv/outside/new")
        .with_link("/srv/ws/dir/up", "..")
        .with_link("/srv/alias", "ws")
}

fn table(access: WorkspaceAccess, binds: &[&str]) -> MountTable {
    MountTable::new(&TablePlan {
        workspace: "/srv/ws",
        agent_workspace: "/srv/agent",
        access,
        workdir: "/workspace",
        binds,
        tmpfs: &[],
    })
}

fn resolve_in(table: &MountTable, input: &str, cwd: Option<&str>) -> Result<Location, Escape> {
    decide(table, &Query { input, working_directory: cwd, home: HOME }, &machine())
}

/// `host | sandbox | shown`, or the reason.
#[track_caller]
fn check(binds: &[&str], input: &str, cwd: Option<&str>, expected: &str) {
    let found = match resolve_in(&table(WorkspaceAccess::ReadOnly, binds), input, cwd) {
        Ok(found) => {
            let mode = if found.access.is_writable() { "rw" } else { "ro" };
            format!("{} {} {} {mode}", found.host_path, found.container_path, found.relative_path)
        }
        Err(escape) => match escape.reason {
            EscapeReason::OutsideEveryMount => "outside".to_owned(),
            EscapeReason::Hidden { container_path } => format!("hidden {container_path}"),
            EscapeReason::BadInput(problem) => format!("{problem:?}"),
            EscapeReason::LinkLeadsOut { link } => format!("link {link}"),
            EscapeReason::HasOtherNames => "other names".to_owned(),
            EscapeReason::Unknown(problem) => problem.to_string(),
        },
    };
    assert_eq!(found, expected, "{input:?}");
}

#[test]
fn relative_host_and_sandbox_paths_mean_the_same_file() {
    let f = "/srv/ws/dir/f /workspace/dir/f dir/f ro";
    for input in [
        "dir/f",
        "./dir//f",
        "@dir/f",
        "/workspace/dir/f",
        "/srv/ws/dir/f",
        "/workspace/../workspace/dir/f",
        " /workspace\\dir\\f ",
        "//workspace/dir/f",
        "../ws/dir/f",
    ] {
        check(&[], input, None, f);
    }
    check(&[], "", None, "/srv/ws /workspace  ro");
    check(&[], "/agent/f", None, "/srv/agent/f /agent/f /agent/f ro");
    check(&[], "/srv/agent/f", None, "/srv/agent/f /agent/f /agent/f ro");
}

#[test]
fn b31_what_lies_outside_is_refused_however_it_is_written() {
    for input in [
        "..",
        "../outside/f",
        "/",
        "/etc/passwd",
        "~",
        "~/x",
        "@../x",
        "/workspacex",
        "/workspace/../etc/passwd",
        "/WORKSPACE/f",
        "out/f",
        "/srv/ws/out/f",
        "gone/x",
        "dir/../../outside/f",
        "/proc/self/root/etc/passwd",
    ] {
        check(&[], input, None, "outside");
    }
    check(&[], "..\\outside", None, "BackslashSteps");
    check(&[], "dir\\..\\..\\x", None, "BackslashSteps");
    check(&[], "/workspace/a\0b", None, "Nul");
}

#[test]
fn names_are_compared_whole() {
    check(&[], "..dots", None, "/srv/ws/..dots /workspace/..dots ..dots ro");
    check(&[], "/workspace/...", None, "/srv/ws/... /workspace/... ... ro");
    check(&[], "....//x", None, "/srv/ws/..../x /workspace/..../x ..../x ro");
}

#[test]
fn b31_a_path_through_a_link_means_the_mount_it_leads_to() {
    check(&[], "in/f", None, "/srv/ws/in/f /workspace/in/f in/f ro");
    check(&["/srv/data:/data"], "data/ro/f", None, "/srv/data/ro/f /data/ro/f /data/ro/f rw");
    check(&[], "/srv/alias/dir/f", None, "/srv/ws/dir/f /workspace/dir/f dir/f ro");
    check(&[], "/srv/alias", None, "outside");
    check(&[], "loop/x", None, "/srv/ws/loop/x /workspace/loop/x loop/x ro");
    check(&["/srv/alias:/a"], "/srv/alias", None, "/srv/alias /a /a rw");
}

#[test]
fn a_working_directory_may_be_given_as_the_sandbox_sees_it() {
    let f = "/srv/ws/dir/f /workspace/dir/f dir/f ro";
    check(&[], "f", Some("/srv/ws/dir"), f);
    check(&[], "f", Some("/workspace/dir"), f);
    check(&[], "../dir/f", Some("/workspace/dir"), f);
    check(&[], "../../etc/passwd", Some("/workspace/dir"), "outside");
    check(&[], "../agent/f", Some("/workspace"), "/srv/agent/f /agent/f /agent/f ro");
    check(&[], "f", Some("/srv/outside"), "outside");
    check(&[], "f", Some("/srv/ws/out"), "outside");
}

#[test]
fn the_deepest_bind_wins_and_a_hidden_file_is_not_reached() {
    let binds = ["/srv/data:/data", "/srv/data/ro:/data/ro:ro"];
    check(&binds, "/data/ro/f", None, "/srv/data/ro/f /data/ro/f /data/ro/f ro");
    check(&binds, "/srv/data/ro/f", None, "/srv/data/ro/f /data/ro/f /data/ro/f ro");
    check(&binds, "/data/x", None, "/srv/data/x /data/x /data/x rw");
    let over = ["/srv/data:/workspace/dir"];
    check(&over, "/workspace/dir/f", None, "/srv/data/f /workspace/dir/f dir/f rw");
    check(&over, "/srv/ws/dir/f", None, "hidden /workspace/dir/f");
    check(&over, "/srv/data/f", None, "/srv/data/f /workspace/dir/f dir/f rw");
    check(&["/srv/ws/dir:/d"], "dir/f", None, "/srv/ws/dir/f /d/f /d/f rw");
}

#[test]
fn an_escape_names_the_root_and_the_input() {
    let plan = TablePlan {
        workspace: "/home/ann/ws",
        agent_workspace: "/home/ann/ws",
        access: WorkspaceAccess::ReadWrite,
        workdir: "/workspace",
        binds: &[],
        tmpfs: &[],
    };
    let escape = resolve_in(&MountTable::new(&plan), "/etc/x\ny", None).unwrap_err();
    assert_eq!(
        escape.to_string(),
        "the sandbox shows `~/ws` and what is bound into it; `/etc/x\\ny` leads elsewhere"
    );
}

fn guard(input: &str, purpose: Purpose) -> Result<Guarded, Refusal> {
    let query = guard::Query { input, working_directory: "/srv/ws", root: "/srv/ws", home: HOME };
    guard::decide(&query, purpose, &machine())
}

#[test]
fn b31_the_guard_follows_links_and_keeps_the_path_inside() {
    let inside = |relative: &str| {
        Ok(Guarded { path: posix::join("/srv/ws", relative), relative: relative.to_owned() })
    };
    let link = |link: &str| {
        Err(Refusal::LinkLeadsOut { root: "/srv/ws".to_owned(), link: link.to_owned() })
    };
    let outside =
        |input: &str| Err(Refusal::Outside { root: "/srv/ws".to_owned(), input: input.to_owned() });
    for (input, open, remove) in [
        ("dir/f", inside("dir/f"), inside("dir/f")),
        ("", inside(""), inside("")),
        ("new/deep", inside("new/deep"), inside("new/deep")),
        ("in/f", inside("in/f"), inside("in/f")),
        ("dir/up/dir/f", inside("dir/up/dir/f"), inside("dir/up/dir/f")),
        ("out/f", link("/srv/ws/out"), link("/srv/ws/out")),
        ("dir/up/out/f", link("/srv/ws/out"), link("/srv/ws/out")),
        ("out", link("/srv/ws/out"), inside("out")),
        ("gone", link("/srv/ws/gone"), inside("gone")),
        ("dir/f/x", inside("dir/f/x"), inside("dir/f/x")),
        ("..dots", inside("..dots"), inside("..dots")),
        ("../x", outside("../x"), outside("../x")),
        ("~/x", outside("~/x"), outside("~/x")),
    ] {
        assert_eq!(guard(input, Purpose::Open), open, "{input}");
        assert_eq!(guard(input, Purpose::Remove), remove, "{input}");
    }
    assert!(matches!(guard("loop", Purpose::Open), Err(Refusal::Unknown(_))));
    assert_eq!(guard("loop", Purpose::Remove), inside("loop"));
    assert!(matches!(guard("loop/x", Purpose::Remove), Err(Refusal::Unknown(_))));
}

#[test]
fn b31_a_file_with_a_second_name_may_only_be_removed() {
    struct Linked;
    impl HostFiles for Linked {
        fn entry(&self, path: &str) -> Result<Option<crate::host_files::Entry>, FactError> {
            let kind = if path.ends_with("dir") { EntryKind::Directory } else { EntryKind::File };
            Ok(Some(crate::host_files::Entry { kind, links: 2 }))
        }
    }
    let query = |input| guard::Query { input, working_directory: "/ws", root: "/ws", home: HOME };
    let refusal = guard::decide(&query("f"), Purpose::Open, &Linked).unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "only `/ws` is open here; `/ws/f` is hard-linked, so it may belong elsewhere; copy it instead"
    );
    assert!(guard::decide(&query("f"), Purpose::Remove, &Linked).is_ok());
    assert!(guard::decide(&query("dir"), Purpose::Open, &Linked).is_ok());
}

#[track_caller]
fn check_media(media: &str, expected: Result<&str, &str>) {
    let query = media::Query {
        media,
        root: "/srv/ws",
        workdir: "/workspace",
        media_roots: &["/tmp/inbox"],
        home: HOME,
    };
    let found = match media::decide(&query, &machine()) {
        Ok(Media::Nothing) => Ok(String::new()),
        Ok(Media::Web(found) | Media::File(found)) => Ok(found),
        Err(media::Refusal::BadUrl { .. }) => Err("bad url"),
        Err(media::Refusal::Path(Refusal::Outside { .. })) => Err("outside"),
        Err(media::Refusal::Path(_)) => Err("refused"),
    };
    assert_eq!(found, expected.map(str::to_owned), "{media}");
}

#[test]
fn attachments_come_from_the_web_the_workspace_or_the_inbox() {
    check_media("", Ok(""));
    check_media(" HTTPS://example.com/a?b ", Ok("HTTPS://example.com/a?b"));
    for media in [
        "dir/f",
        "/workspace/dir/f",
        "\\workspace\\dir\\f",
        "/srv/ws/dir/f",
        "file:///workspace/dir/f",
        "FILE://localhost/srv/ws/dir/f",
        "file:///workspace/d%69r/f#x",
    ] {
        check_media(media, Ok("/srv/ws/dir/f"));
    }
    check_media("/workspace/", Ok("/srv/ws"));
    check_media("/tmp/inbox/a.png", Ok("/tmp/inbox/a.png"));
    check_media("data:text/plain,x", Ok("/srv/ws/data:text/plain,x"));
    for media in [
        "/etc/passwd",
        "../x",
        "~/x",
        "/workspace/../x",
        "/workspacex/f",
        "file:///etc/passwd",
        "file:///workspace/%2e%2E/x",
        "file:///workspace/..%2fx",
        "file:///workspace/..\\x",
        "/tmp/inbox/../x",
        "//workspace/dir/f",
    ] {
        check_media(media, Err("outside"));
    }
    for media in [
        "file://host/workspace/f",
        "file:///workspace/%",
        "file:///workspace/%zz",
        "file:///workspace/%ff",
        "file:///srv%2fws/dir/f",
        "file://",
    ] {
        check_media(media, Err("bad url"));
    }
    check_media("file:///workspace/a%00b", Err("refused"));
    check_media("file:///workspace/out/f", Err("refused"));
}

/// Paths that are likely to hit something: known names, steps, and any other text.
fn paths() -> impl Strategy<Value = String> {
    let name = prop_oneof![
        6 => prop::sample::select(vec![
            "srv", "ws", "workspace", "agent", "data", "ro", "dir", "in", "out", "up", "loop", "gone",
            "alias", "..", ".", "", "..x", "f", "~", "@", " ", "a\\b", "..\\..",
        ]).prop_map(str::to_owned),
        1 => any::<String>(),
    ];
    (prop::collection::vec(name, 0..7), any::<bool>()).prop_map(|(names, absolute)| {
        format!("{}{}", if absolute { "/" } else { "" }, names.join("/"))
    })
}

proptest! {
    #[test]
    fn normalising_twice_changes_nothing(path in paths()) {
        let once = posix::normalize(&path);
        prop_assert_eq!(posix::normalize(&once), once);
    }

    #[test]
    fn a_mapped_path_stays_in_its_mount_and_maps_back(
        input in paths(),
        cwd in prop::option::of(paths()),
        over in any::<bool>(),
    ) {
        let binds: &[&str] = if over {
            &["/srv/data:/workspace/dir", "/srv/alias:/a:ro"]
        } else {
            &["/srv/data:/data", "/srv/data/ro:/data/ro:ro", "/srv/ws/dir:/d"]
        };
        let table = table(WorkspaceAccess::ReadOnly, binds);
        if let Ok(found) = resolve_in(&table, &input, cwd.as_deref()) {
            // One mount holds both ends, with the same rest.
            let Seen::Mounted(mount, rest) = table.at(&found.container_path) else {
                panic!("{found:?}");
            };
            prop_assert_eq!(posix::join(&mount.host_root, rest), found.host_path.clone());
            prop_assert!(posix::is_inside(&mount.host_root, &found.host_path));
            prop_assert_eq!(posix::normalize(&found.host_path), found.host_path.clone());
            // The path in the sandbox means the same file again, unless it has characters that are
            // read as blanks or slashes there.
            let plain = !found.container_path.contains('\\')
                && found.container_path.trim() == found.container_path;
            if plain {
                let again = resolve_in(&table, &found.container_path, None);
                prop_assert_eq!(again, Ok(found.clone()));
            }
        }
    }

    #[test]
    fn no_input_makes_a_guard_panic_or_leave_its_root(input in any::<String>(), path in paths()) {
        for text in [input.as_str(), path.as_str()] {
            for purpose in [Purpose::Open, Purpose::Remove] {
                if let Ok(guarded) = guard(text, purpose) {
                    prop_assert!(posix::is_inside("/srv/ws", &guarded.path));
                }
            }
            let url = format!("file://{text}");
            for media in [text, url.as_str()] {
                let query = media::Query {
                    media, root: "/srv/ws", workdir: "/workspace", media_roots: &[], home: HOME,
                };
                if let Ok(Media::File(found)) = media::decide(&query, &machine()) {
                    prop_assert!(posix::is_inside("/srv/ws", &found));
                }
            }
        }
    }
}
