//! Absolute links below a root that is not `/`.
//!
//! The kernel resolves paths beneath an open directory and refuses every absolute link there, because it cannot
//! know where that directory is mounted. Whoever made the link did: `/workspace/a -> /workspace/b` stays inside.
//! So when the kernel has refused, the path is walked here, link by link, and said again without them; the
//! kernel then resolves that one, still beneath the root. A wrong answer here can therefore only fail.

use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd as _;
use std::path::{Component, Path, PathBuf};

use clawpen_os::beneath::{self, Kind, Root};

/// As many links as the kernel follows.
const MOST: usize = 40;

/// Whether a link at the end is followed as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Last {
    Follow,
    Keep,
}

/// `path` beneath `root`, which is mounted at `place`, without any link on the way. `None` if a link leads
/// out of the root, or through too many others.
pub(super) fn without_links(
    root: Root<'_>,
    place: &Path,
    path: &Path,
    last: Last,
) -> io::Result<Option<PathBuf>> {
    let mut left: Vec<OsString> = parts(path);
    let mut walked = PathBuf::new();
    let mut links = 0;
    while let Some(part) = left.pop() {
        if part == ".." {
            if !walked.pop() {
                return Ok(None);
            }
            continue;
        }
        let here = walked.join(&part);
        if left.is_empty() && last == Last::Keep {
            return Ok(Some(here));
        }
        let text = match link_text(root, &here) {
            Ok(text) => text,
            // The rest is to be made, or is missed when it is opened.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                walked = here;
                continue;
            }
            Err(error) => return Err(error),
        };
        let Some(text) = text else {
            walked = here;
            continue;
        };
        links += 1;
        let rest = if text.is_absolute() {
            walked = PathBuf::new();
            text.strip_prefix(place).ok()
        } else {
            Some(text.as_path())
        };
        let Some(rest) = rest.filter(|_| links <= MOST) else { return Ok(None) };
        left.extend(parts(rest));
    }
    Ok(Some(walked))
}

/// The names of a path, the first one last.
fn parts(path: &Path) -> Vec<OsString> {
    let named = path.components().rev().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
    });
    named.collect()
}

/// What a link says; `None` if it is none.
fn link_text(root: Root<'_>, path: &Path) -> io::Result<Option<PathBuf>> {
    let (parent, name) = beneath::open_parent(root, path)?;
    if beneath::stat_name(parent.as_fd(), &name)?.kind != Kind::Symlink {
        return Ok(None);
    }
    Ok(Some(PathBuf::from(beneath::read_link(parent.as_fd(), &name)?)))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_link_that_names_the_root_by_its_place_stays_inside() {
        let directory = std::env::temp_dir().join(format!("links-{}", std::process::id()));
        std::fs::create_dir_all(directory.join("a/b")).unwrap();
        let link = |text: &str, name: &str| symlink(text, directory.join(name)).unwrap();
        link("/pen/a", "whole");
        link("/pen/whole/b", "chain");
        link("../whole", "a/up");
        link("/pen", "self");
        link("/pen/self/../a", "round");
        link("/etc", "out");
        link("/pen/../etc", "sly");
        link("/pending/a", "beside");
        link("/pen/loop", "loop");
        let opened = beneath::open_root(&directory).unwrap();
        let check = |path: &str, last, expected: Option<&str>| {
            let root = Root::from(opened.as_fd());
            let found = without_links(root, Path::new("/pen"), Path::new(path), last).unwrap();
            assert_eq!(found.as_deref(), expected.map(Path::new), "{path}");
        };
        check("whole/b/new/file", Last::Follow, Some("a/b/new/file"));
        check("chain", Last::Follow, Some("a/b"));
        check("chain", Last::Keep, Some("chain"));
        check("a/up/b", Last::Follow, Some("a/b"));
        check("self/self/a", Last::Follow, Some("a"));
        check("whole/../x", Last::Follow, Some("x"));
        check("out/passwd", Last::Follow, None);
        check("sly", Last::Follow, None);
        check("beside", Last::Follow, None);
        check("loop", Last::Follow, None);
        check("../x", Last::Follow, None);
        check("round", Last::Follow, None);
        std::fs::remove_dir_all(directory).unwrap();
    }
}
