//! What the rules may ask about the host's files, as facts handed in from outside.
//!
//! `engine` answers from the real file system; tests answer from a table. The walk through links
//! is done here, so that it is the same everywhere and can be tested without a disk.

use std::fmt;

use crate::posix;

/// As many links as Linux follows before it gives up.
const MAX_LINKS: u32 = 40;

/// What stands at a path, the last component not followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub kind: EntryKind,
    /// Number of names the inode has.
    pub links: u64,
}

/// The kinds of directory entries that matter to a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryKind {
    File,
    Directory,
    Symlink { target: String },
    Other,
}

/// A fact could not be found out. Whoever needed it must refuse.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot look at `{path}`: {problem}")]
pub struct FactError {
    pub path: String,
    pub problem: FactProblem,
}

/// Why a fact is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FactProblem {
    /// Links that lead in a circle, or too many of them.
    TooManyLinks,
    /// A name that is no UTF-8, so it cannot be shown or compared faithfully.
    NotText,
    /// The operating system's words.
    System(String),
}

impl fmt::Display for FactProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooManyLinks => f.write_str("too many symbolic links (ELOOP)"),
            Self::NotText => f.write_str("its name is not valid UTF-8"),
            Self::System(words) => f.write_str(words),
        }
    }
}

/// Facts about files. Nothing here changes anything.
pub trait HostFiles {
    /// What stands at an absolute, normalised path; `None` if nothing does (also when a parent is
    /// missing or is no directory).
    fn entry(&self, path: &str) -> Result<Option<Entry>, FactError>;

    /// The same for several names in one directory, in their order. In `directory` there must be no
    /// link.
    fn entries(&self, directory: &str, names: &[&str]) -> Vec<Result<Option<Entry>, FactError>> {
        names.iter().map(|name| self.entry(&posix::join(directory, name))).collect()
    }
}

/// Follows every link in `path` as far as it exists and appends what does not exist as written.
///
/// This is the place a later `mkdir -p` would reach, so a link in the parent of a file that does
/// not exist yet is seen. `path` must be absolute.
pub fn real_path(files: &impl HostFiles, path: &str) -> Result<String, FactError> {
    let mut done = String::from("/");
    let mut left: Vec<String> = components(path);
    let mut followed = 0;
    while let Some(name) = left.pop() {
        if name == ".." {
            done.truncate(posix::parent(&done).len());
            continue;
        }
        let here = posix::join(&done, &name);
        let Some(entry) = files.entry(&here)? else {
            // Nothing below exists either: the rest is taken as written.
            left.push(name);
            left.reverse();
            return Ok(posix::resolve(&done, &left.join("/")));
        };
        let EntryKind::Symlink { target } = entry.kind else {
            done = here;
            continue;
        };
        followed += 1;
        if followed > MAX_LINKS {
            return Err(FactError { path: path.to_owned(), problem: FactProblem::TooManyLinks });
        }
        if target.starts_with('/') {
            "/".clone_into(&mut done);
        }
        left.extend(components(&target));
    }
    Ok(done)
}

/// The components of a path, last first, `.` and empty ones dropped; `..` is kept, because after a
/// link it means the link's target's parent.
fn components(path: &str) -> Vec<String> {
    path.split('/')
        .rev()
        .filter(|part| !part.is_empty() && *part != ".")
        .map(str::to_owned)
        .collect()
}

/// An in-memory table of entries, for tests and for questions about a machine that is not there.
#[derive(Debug, Clone, Default)]
pub struct FileTable {
    entries: std::collections::BTreeMap<String, Entry>,
}

impl FileTable {
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an entry; parents become directories.
    #[must_use]
    pub fn with(mut self, path: &str, kind: EntryKind) -> Self {
        let mut directory = posix::parent(path);
        while directory != "/" && !self.entries.contains_key(directory) {
            let entry = Entry { kind: EntryKind::Directory, links: 2 };
            self.entries.insert(directory.to_owned(), entry);
            directory = posix::parent(directory);
        }
        self.entries.insert(path.to_owned(), Entry { kind, links: 1 });
        self
    }

    /// Says how many names an entry's inode has.
    #[must_use]
    pub fn with_links(mut self, path: &str, links: u64) -> Self {
        if let Some(entry) = self.entries.get_mut(path) {
            entry.links = links;
        }
        self
    }

    #[must_use]
    pub fn with_link(self, path: &str, target: &str) -> Self {
        self.with(path, EntryKind::Symlink { target: target.to_owned() })
    }
}

impl HostFiles for FileTable {
    fn entry(&self, path: &str) -> Result<Option<Entry>, FactError> {
        Ok(self.entries.get(path).cloned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, expected: Result<&str, FactProblem>) {
        let files = FileTable::new()
            .with("/data/f", EntryKind::File)
            .with_link("/link", "/data")
            .with_link("/up", "data/../data")
            .with_link("/loop", "loop")
            .with_link("/dangling", "/data/new");
        let found = real_path(&files, path).map_err(|error| error.problem);
        assert_eq!(found.as_deref(), expected.as_deref(), "{path}");
    }

    #[test]
    fn links_are_followed_and_missing_tails_kept() {
        check("/data/f", Ok("/data/f"));
        check("/link/f", Ok("/data/f"));
        check("/up/f", Ok("/data/f"));
        check("/link/new/x", Ok("/data/new/x"));
        check("/dangling/x", Ok("/data/new/x"));
        check("/missing/../data", Ok("/data"));
        check("/loop/x", Err(FactProblem::TooManyLinks));
        check("/", Ok("/"));
    }
}
