//! Answers what the rules ask about files, from the real file system.
//!
//! Each answer is one `lstat` (and a `readlink`): nothing is followed here, the walk is the rules'.
//! What cannot be found out is an error, never "nothing there": the rules refuse on errors.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use clawpen_rules::host_files::{Entry, EntryKind, FactError, FactProblem, HostFiles};

/// "Too many symbolic links"; the standard library has no stable name for it.
#[cfg(target_os = "linux")]
const ELOOP: i32 = 40;
#[cfg(not(target_os = "linux"))]
const ELOOP: i32 = 62;

/// The file system of this machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealFiles;

impl HostFiles for RealFiles {
    fn entry(&self, path: &str) -> Result<Option<Entry>, FactError> {
        look_at(Path::new(path)).map_err(|problem| FactError { path: path.to_owned(), problem })
    }
}

/// The same, each path looked at once: the rules walk the same directories many times for one
/// answer. For one question only, because the world goes on.
#[derive(Debug, Default)]
pub struct OneLook {
    seen: RefCell<HashMap<String, Result<Option<Entry>, FactError>>>,
}

impl HostFiles for OneLook {
    fn entry(&self, path: &str) -> Result<Option<Entry>, FactError> {
        if let Some(known) = self.seen.borrow().get(path) {
            return known.clone();
        }
        // In a directory that is not there, there is nothing.
        let parent = path.rsplit_once('/').map(|(parent, _)| parent);
        let parent_is_missing =
            parent.is_some_and(|parent| matches!(self.seen.borrow().get(parent), Some(Ok(None))));
        let found = if parent_is_missing { Ok(None) } else { RealFiles.entry(path) };
        self.seen.borrow_mut().insert(path.to_owned(), found.clone());
        found
    }
}

fn look_at(path: &Path) -> Result<Option<Entry>, FactProblem> {
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) => return absent_or(error),
    };
    let file_type = metadata.file_type();
    let kind = if file_type.is_symlink() {
        match fs::read_link(path) {
            Ok(target) => EntryKind::Symlink {
                target: target.into_os_string().into_string().map_err(not_text)?,
            },
            // Removed since, or replaced by something else: the latter is an error (EINVAL).
            Err(error) => return absent_or(error),
        }
    } else if file_type.is_dir() {
        EntryKind::Directory
    } else if file_type.is_file() {
        EntryKind::File
    } else {
        EntryKind::Other
    };
    Ok(Some(Entry { kind, links: metadata.nlink() }))
}

fn not_text(_: std::ffi::OsString) -> FactProblem {
    FactProblem::NotText
}

/// Nothing is there, also when a parent is missing or is a file. All else stays unknown: a parent
/// that we may not search can hold anything.
fn absent_or(error: io::Error) -> Result<Option<Entry>, FactProblem> {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Ok(None),
        _ if error.raw_os_error() == Some(ELOOP) => Err(FactProblem::TooManyLinks),
        _ => Err(FactProblem::System(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::fs::symlink;

    /// A directory with one entry of each kind.
    fn tree() -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::create_dir(at("dir")).unwrap();
        fs::write(at("file"), "x").unwrap();
        fs::hard_link(at("file"), at("second-name")).unwrap();
        symlink("dir/../file", at("link")).unwrap();
        symlink("nowhere", at("dangling")).unwrap();
        symlink("loop", at("loop")).unwrap();
        symlink(OsStr::from_bytes(b"not-\xff-text"), at("odd")).unwrap();
        drop(std::os::unix::net::UnixListener::bind(at("socket")).unwrap());
        directory
    }

    #[track_caller]
    fn check(name: &str, expected: Result<Option<(EntryKind, Option<u64>)>, FactProblem>) {
        let directory = tree();
        let path = format!("{}/{name}", directory.path().display());
        let found = match RealFiles.entry(&path) {
            Ok(entry) => Ok(entry.map(|entry| {
                // How many names a directory or a link has is the file system's business.
                let links = (entry.kind == EntryKind::File).then_some(entry.links);
                (entry.kind, links)
            })),
            Err(error) => {
                assert_eq!(error.path, path);
                Err(error.problem)
            }
        };
        assert_eq!(found, expected, "{name}");
    }

    #[test]
    fn each_kind_is_told_apart_and_nothing_is_followed() {
        let link = |target: &str| Ok(Some((EntryKind::Symlink { target: target.into() }, None)));
        check("dir", Ok(Some((EntryKind::Directory, None))));
        check("file", Ok(Some((EntryKind::File, Some(2)))));
        check("link", link("dir/../file"));
        check("dangling", link("nowhere"));
        check("loop", link("loop"));
        check("socket", Ok(Some((EntryKind::Other, None))));
    }

    #[test]
    fn one_look_tells_what_many_would() {
        let directory = tree();
        let look = OneLook::default();
        for name in ["missing", "missing/below", "missing/below/more", "dir", "dir/none", "file"] {
            let path = format!("{}/{name}", directory.path().display());
            assert_eq!(look.entry(&path), RealFiles.entry(&path), "{name}");
        }
    }

    #[test]
    fn a_missing_entry_is_absent_and_an_unknowable_one_is_an_error() {
        check("missing", Ok(None));
        check("missing/deep", Ok(None));
        check("file/below", Ok(None));
        check("dangling/below", Ok(None));
        check("loop/below", Err(FactProblem::TooManyLinks));
        check("odd", Err(FactProblem::NotText));
    }

    #[test]
    fn a_path_with_a_nul_or_an_endless_name_is_an_error() {
        for path in ["/a\0b".to_owned(), format!("/{}", "n".repeat(300))] {
            let problem = RealFiles.entry(&path).unwrap_err().problem;
            assert!(matches!(problem, FactProblem::System(_)), "{problem}");
        }
    }

    #[test]
    fn the_walk_of_the_rules_agrees_with_the_kernel() {
        let directory = tree();
        let root = directory.path().canonicalize().unwrap();
        for name in ["link", "dir/../link", "dir", "second-name"] {
            let path = root.join(name).to_str().unwrap().to_owned();
            let walked = clawpen_rules::host_files::real_path(&RealFiles, &path).unwrap();
            assert_eq!(Path::new(&walked), fs::canonicalize(&path).unwrap(), "{name}");
        }
    }
}
