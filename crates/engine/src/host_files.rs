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
use clawpen_rules::posix;

use crate::file_stamps::Stamp;

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
        let looked = look_at(Path::new(path));
        let looked = looked.map_err(|problem| FactError { path: path.to_owned(), problem })?;
        Ok(looked.map(|(entry, _)| entry))
    }
}

/// The same, each path looked at once: the rules walk the same directories many times for one
/// answer. For one question only, because the world goes on.
#[derive(Debug, Default)]
pub struct OneLook {
    seen: RefCell<HashMap<String, Result<Option<Entry>, FactError>>>,
    /// Of the directories among them.
    stamps: RefCell<HashMap<String, Stamp>>,
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
        let found = if parent_is_missing { Ok(None) } else { self.look(path) };
        self.seen.borrow_mut().insert(path.to_owned(), found.clone());
        found
    }

    /// Names that were missing when the directory was last looked at are missing still if it has not
    /// changed since.
    fn entries(&self, directory: &str, names: &[&str]) -> Vec<Result<Option<Entry>, FactError>> {
        match self.entry(directory) {
            Ok(Some(Entry { kind: EntryKind::Directory, .. })) => {}
            // In a directory that is not there, there is nothing.
            Ok(None) => return names.iter().map(|_| Ok(None)).collect(),
            Ok(Some(_)) | Err(_) => {
                return names
                    .iter()
                    .map(|name| self.entry(&posix::join(directory, name)))
                    .collect();
            }
        }
        let stamp = self.stamps.borrow().get(directory).copied();
        let missing = stamp.map(|stamp| missing::recall(directory, stamp)).unwrap_or_default();
        let mut found = Vec::with_capacity(names.len());
        let mut new = Vec::new();
        for name in names {
            if missing.contains(*name) {
                found.push(Ok(None));
                continue;
            }
            let entry = self.entry(&posix::join(directory, name));
            if matches!(entry, Ok(None)) {
                new.push((*name).to_owned());
            }
            found.push(entry);
        }
        // Only if it was this directory all the time: something may have been mounted over it meanwhile.
        let is_same = |stamp: &Stamp| matches!(look_at(Path::new(directory)), Ok(Some((_, Some(now)))) if now == *stamp);
        if let Some(stamp) = stamp.filter(|stamp| !new.is_empty() && is_same(stamp)) {
            missing::remember(directory, stamp, new);
        }
        found
    }
}

impl OneLook {
    fn look(&self, path: &str) -> Result<Option<Entry>, FactError> {
        let looked = look_at(Path::new(path));
        let looked = looked.map_err(|problem| FactError { path: path.to_owned(), problem })?;
        Ok(looked.map(|(entry, stamp)| {
            let settled = stamp.filter(Stamp::is_settled);
            self.stamps.borrow_mut().extend(settled.map(|stamp| (path.to_owned(), stamp)));
            entry
        }))
    }
}

/// What this process remembers of directories: names that are not in them.
mod missing {
    use std::collections::{HashMap, HashSet};
    use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

    use crate::file_stamps::Stamp;

    /// One for each home of the machine; beyond that it begins anew.
    const MOST: usize = 8192;

    type Known = HashMap<String, (Stamp, Arc<HashSet<String>>)>;

    static KNOWN: LazyLock<Mutex<Known>> = LazyLock::new(Mutex::default);

    /// Names that were missing in a directory that looked the same.
    pub(super) fn recall(directory: &str, stamp: Stamp) -> Arc<HashSet<String>> {
        match known().get(directory) {
            Some((then, names)) if *then == stamp => Arc::clone(names),
            _ => Arc::default(),
        }
    }

    /// `names` were missing after the directory had that stamp.
    pub(super) fn remember(directory: &str, stamp: Stamp, names: Vec<String>) {
        let mut known = known();
        if known.len() >= MOST {
            known.clear();
        }
        let entry = known.entry(directory.to_owned()).or_insert_with(|| (stamp, Arc::default()));
        if entry.0 != stamp {
            *entry = (stamp, Arc::default());
        }
        Arc::make_mut(&mut entry.1).extend(names);
    }

    fn known() -> MutexGuard<'static, Known> {
        KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What stands there; of a directory, when it last changed.
fn look_at(path: &Path) -> Result<Option<(Entry, Option<Stamp>)>, FactProblem> {
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
    let stamp = (kind == EntryKind::Directory).then(|| Stamp::of(&metadata));
    Ok(Some((Entry { kind, links: metadata.nlink() }, stamp)))
}

fn not_text(_: std::ffi::OsString) -> FactProblem {
    FactProblem::NotText
}

/// Nothing is there, also when a parent is missing or is a file. All else stays unknown: a parent
/// that we may not search can hold anything.
fn absent_or<T>(error: io::Error) -> Result<Option<T>, FactProblem> {
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
    fn a_name_that_was_missing_is_found_as_soon_as_it_is_there() {
        let directory = tree();
        let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
        // Long ago, as far as a directory's own time goes.
        let settled = Stamp { device: 1, inode: 2, size: 4096, modified: (5, 0), changed: (5, 0) };
        assert!(settled.is_settled());
        assert!(missing::recall(&at("dir"), settled).is_empty());
        missing::remember(&at("dir"), settled, vec!["a".into()]);
        missing::remember(&at("dir"), settled, vec!["b".into()]);
        assert_eq!(missing::recall(&at("dir"), settled).len(), 2);
        for other in [
            Stamp { device: 3, ..settled },
            Stamp { inode: 3, ..settled },
            Stamp { modified: (5, 1), ..settled },
            Stamp { changed: (6, 0), ..settled },
        ] {
            assert!(missing::recall(&at("dir"), other).is_empty(), "{other:?}");
        }
        missing::remember(&at("dir"), Stamp { inode: 3, ..settled }, vec!["c".into()]);
        assert!(missing::recall(&at("dir"), settled).is_empty());
    }

    #[test]
    fn a_directory_is_remembered_only_once_it_has_settled() {
        let directory = tree();
        let place = directory.path().join("dir");
        let asked = || OneLook::default().entries(place.to_str().unwrap(), &["key"]);
        let missing = vec![Ok(None)];
        let there = |asked: &[Result<Option<Entry>, FactError>]| matches!(asked, [Ok(Some(_))]);
        assert_eq!(asked(), missing);
        // In the same tick of the file system's clock.
        fs::write(place.join("key"), "x").unwrap();
        assert!(there(&asked()));
        fs::remove_file(place.join("key")).unwrap();
        assert_eq!(asked(), missing);
        // A time of modification that somebody has set back does not make it settled.
        let long_ago = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000);
        fs::File::open(&place).unwrap().set_modified(long_ago).unwrap();
        assert_eq!(asked(), missing);
        symlink("elsewhere", place.join("key")).unwrap();
        fs::File::open(&place).unwrap().set_modified(long_ago).unwrap();
        assert!(there(&asked()));
    }

    #[test]
    fn names_asked_for_together_are_what_they_are_one_by_one() {
        let directory = tree();
        let names = ["dir", "file", "none", "link", "odd", "loop", "socket"];
        for place in ["", "dir", "file", "none", "dangling"] {
            let place = format!("{}/{place}", directory.path().display());
            let place = place.trim_end_matches('/');
            let one_by_one: Vec<_> =
                names.iter().map(|name| RealFiles.entry(&format!("{place}/{name}"))).collect();
            assert_eq!(OneLook::default().entries(place, &names), one_by_one, "{place}");
        }
        // Long settled, and asked twice.
        let names = ["bin", "no-such-name", "etc"];
        for _ in 0..2 {
            let one_by_one: Vec<_> =
                names.iter().map(|name| RealFiles.entry(&format!("/usr/{name}"))).collect();
            assert_eq!(OneLook::default().entries("/usr", &names), one_by_one);
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
