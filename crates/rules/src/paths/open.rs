//! Which file a tool's path would open: `file://` URLs read, then the mount table, then every link on
//! the way.
//!
//! [`super::decide`] compares names only where a path is written as the sandbox sees it. Here such a
//! path is walked on the host as well: a link in the workspace that leads to `/etc` shows no file of
//! the workspace, whichever side it is named from.

use super::guard::{self, Inside, Purpose, Refusal};
use super::input::BadInput;
use super::{Escape, EscapeReason, Location, Query, media};
use crate::host_files::HostFiles;
use crate::mounts::{MountTable, Seen};

/// Finds the file that opening a path would reach.
pub fn decide(
    table: &MountTable,
    query: &Query<'_>,
    files: &impl HostFiles,
) -> Result<Location, Escape> {
    let escape = |reason| Escape {
        root: super::input::with_tilde(table.workspace_root(), query.home),
        input: query.input.to_owned(),
        reason,
    };
    let url = query.input.trim();
    let path = if media::is_file_url(url) {
        let path = media::file_url_path(url, table.workdir());
        path.ok_or_else(|| escape(EscapeReason::BadInput(BadInput::Url)))?
    } else {
        query.input.to_owned()
    };
    let found = super::decide(table, &Query { input: &path, ..*query }, files)
        .map_err(|refused| Escape { input: query.input.to_owned(), ..refused })?;
    follow(table, &found, query.home, files).map_err(escape)?;
    Ok(found)
}

/// Walks the path from the mounted directory on.
fn follow(
    table: &MountTable,
    found: &Location,
    home: &str,
    files: &impl HostFiles,
) -> Result<(), EscapeReason> {
    let Seen::Mounted(mount, rest) = table.at(&found.container_path) else {
        return Err(EscapeReason::OutsideEveryMount);
    };
    let inside = Inside { root: &mount.host_root, home };
    match guard::decide_exact(inside, rest, Purpose::Open, files) {
        Ok(_) => Ok(()),
        Err(Refusal::LinkLeadsOut { link, .. }) => Err(EscapeReason::LinkLeadsOut { link }),
        Err(Refusal::HasOtherNames { .. }) => Err(EscapeReason::HasOtherNames),
        Err(Refusal::Unknown(problem)) => Err(EscapeReason::Unknown(problem)),
        Err(Refusal::BadInput { problem, .. }) => Err(EscapeReason::BadInput(problem)),
        Err(Refusal::Outside { .. }) => Err(EscapeReason::OutsideEveryMount),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::sandbox::WorkspaceAccess;
    use crate::host_files::{EntryKind, FileTable};
    use crate::mounts::TablePlan;

    #[test]
    fn a_link_that_leads_out_shows_nothing_whichever_side_names_it() {
        let out = "link /srv/ws/etc";
        for input in ["/workspace/etc/passwd", "etc/passwd", "/workspace/etc", "/srv/ws/etc"] {
            let expected = if input == "etc/passwd" { "outside" } else { out };
            check(input, expected);
        }
        check("/workspace/in/f", "/workspace/in/f");
        check("/workspace/new/x", "/workspace/new/x");
        check("/workspace/loop/x", "unknown");
        check("/workspace/twice", "other names");
        check("/workspace/@f", "/workspace/@f");
        // The name that is walked is the one that is opened, letter by letter.
        check("/workspace/a\u{a0}b/x", "link /srv/ws/a\u{a0}b");
        check("/data/f", "/data/f");
    }

    #[test]
    fn a_file_url_names_a_path_in_the_sandbox() {
        check("file:///workspace/dir/f", "/workspace/dir/f");
        check("FILE://localhost/workspace/a%20b", "/workspace/a b");
        check("file:///data/f", "/data/f");
        check("file:///srv/ws/dir/f", "/workspace/dir/f");
        check("file:///workspace/etc/passwd", "link /srv/ws/etc");
        check("file:///etc/passwd", "outside");
        check("file://elsewhere/workspace/f", "Url");
        check("file:///workspace/../etc/passwd", "outside");
    }

    #[test]
    fn memory_hides_what_the_workspace_has_there() {
        check("/workspace/cache/x", "hidden /workspace/cache/x");
        check("/srv/ws/cache/x", "hidden /workspace/cache/x");
        check("cache/x", "hidden /workspace/cache/x");
        // The host's own `/tmp` is no business of the sandbox's.
        check("/tmp/x", "outside");
        check("/tmp/bound/x", "/tmp/bound/x");
        check("/srv/data/x", "/data/x");
    }

    #[track_caller]
    fn check(input: &str, expected: &str) {
        let files = FileTable::new()
            .with("/srv/ws/dir/f", EntryKind::File)
            .with("/srv/ws/twice", EntryKind::File)
            .with_links("/srv/ws/twice", 2)
            .with_link("/srv/ws/etc", "/etc")
            .with_link("/srv/ws/a\u{a0}b", "/etc")
            .with_link("/srv/ws/in", "dir")
            .with_link("/srv/ws/loop", "loop");
        let table = MountTable::new(&TablePlan {
            workspace: "/srv/ws",
            agent_workspace: "/srv/ws",
            access: WorkspaceAccess::ReadWrite,
            workdir: "/workspace",
            binds: &["/srv/data:/data", "/srv/bound:/tmp/bound"],
            tmpfs: &["/tmp".to_owned(), "/workspace/cache:size=1m".to_owned()],
        });
        let query = Query { input, working_directory: None, home: "/home/ann" };
        let found = match decide(&table, &query, &files) {
            Ok(found) => found.container_path,
            Err(escape) => match escape.reason {
                EscapeReason::OutsideEveryMount => "outside".to_owned(),
                EscapeReason::Hidden { container_path } => format!("hidden {container_path}"),
                EscapeReason::BadInput(problem) => format!("{problem:?}"),
                EscapeReason::LinkLeadsOut { link } => format!("link {link}"),
                EscapeReason::HasOtherNames => "other names".to_owned(),
                EscapeReason::Unknown(_) => "unknown".to_owned(),
            },
        };
        assert_eq!(found, expected, "{input}");
    }
}
