//! The walk: what .gitignore leaves out and the innards of git are left out, links are not followed.
//!
//! One thread, names in order: the same tree gives the same answer. Whoever made the tree may want to hold the walk up:
//! only regular files are opened, so that no pipe is waited for, what they say is read to a limit, and how deep a tree
//! is costs no stack. What cannot be opened is passed over.

use std::fs::{self, File, FileType};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rustix::fs::{Mode, OFlags};

/// Files that say what to leave out, by name below their directory; what an earlier one says wins.
const RULES: &[&str] = &[".ignore", ".gitignore", ".git/info/exclude"];
/// Bytes read of one of those.
const RULES_BYTES: u64 = 256 * 1024;
/// The innards of git.
const INNARDS: &str = ".git";

/// Something that was found.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) path: PathBuf,
    kind: FileType,
}

impl Entry {
    pub(crate) fn is_file(&self) -> bool {
        self.kind.is_file()
    }

    pub(crate) fn is_directory(&self) -> bool {
        self.kind.is_dir()
    }
}

/// Everything below a root that is worth a look, or the root itself if it is a file.
#[derive(Debug)]
pub(crate) struct Walk {
    /// Rules of directories above the root, the nearest last.
    above: Vec<Gitignore>,
    /// The directories on the way to where we are.
    levels: Vec<Level>,
    /// After this nothing more is looked for.
    until: Instant,
}

#[derive(Debug)]
struct Level {
    rules: Vec<Gitignore>,
    entries: std::vec::IntoIter<Entry>,
}

impl Walk {
    pub(crate) fn new(root: &Path, until: Instant) -> Result<Self, String> {
        let cannot =
            |why: &dyn std::fmt::Display| format!("`{}` cannot be searched: {why}", root.display());
        let found = fs::metadata(root).map_err(|error| cannot(&error))?;
        let mut walk = Self { above: Vec::new(), levels: Vec::new(), until };
        let level = if found.is_dir() {
            let has_innards = |directory: &Path| directory.join(INNARDS).exists();
            let mut at = root;
            while let Some(parent) = at.parent().filter(|_| !has_innards(at)) {
                walk.above.splice(0..0, rules_of(parent));
                at = parent;
            }
            walk.open(root).ok_or_else(|| cannot(&"it cannot be opened"))?
        } else if found.is_file() {
            let itself = Entry { path: root.to_owned(), kind: found.file_type() };
            Level { rules: Vec::new(), entries: vec![itself].into_iter() }
        } else {
            return Err(cannot(&"it is neither a file nor a directory"));
        };
        walk.levels.push(level);
        Ok(walk)
    }

    /// Whether it ended because its time was over.
    pub(crate) fn is_late(&self) -> bool {
        Instant::now() > self.until
    }

    fn open(&self, directory: &Path) -> Option<Level> {
        let mut entries: Vec<Entry> = fs::read_dir(directory)
            .ok()?
            .take_while(|_| !self.is_late())
            .filter_map(|entry| {
                let entry = entry.ok()?;
                Some(Entry { path: entry.path(), kind: entry.file_type().ok()? })
            })
            .filter(|entry| !entry.path.ends_with(INNARDS))
            .collect();
        entries.sort_unstable_by(|a, b| a.path.file_name().cmp(&b.path.file_name()));
        Some(Level { rules: rules_of(directory), entries: entries.into_iter() })
    }

    /// The innermost rule that says something has its way.
    fn is_left_out(&self, entry: &Entry) -> bool {
        let levels = self.levels.iter().flat_map(|level| &level.rules);
        let rules = self.above.iter().chain(levels).rev();
        let mut said = rules.map(|rules| rules.matched(&entry.path, entry.is_directory()));
        said.find(|said| !said.is_none()).is_some_and(|said| said.is_ignore())
    }
}

impl Iterator for Walk {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        while !self.is_late() {
            let Some(entry) = self.levels.last_mut()?.entries.next() else {
                self.levels.pop();
                continue;
            };
            if self.is_left_out(&entry) {
                continue;
            }
            if entry.is_directory()
                && let Some(level) = self.open(&entry.path)
            {
                self.levels.push(level);
            }
            return Some(entry);
        }
        None
    }
}

/// What the directory says is to be left out, the weakest first.
fn rules_of(directory: &Path) -> Vec<Gitignore> {
    let read = |name: &&str| {
        let text = text_of(&directory.join(name))?;
        let mut rules = GitignoreBuilder::new(directory);
        for line in text.trim_start_matches('\u{feff}').lines() {
            // A line that is no pattern leaves nothing out.
            let _ = rules.add_line(None, line);
        }
        rules.build().ok()
    };
    RULES.iter().rev().filter_map(read).collect()
}

fn text_of(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    open_file(path)?.take(RULES_BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Opens a regular file; a link or a pipe that stands in its place is not followed or waited for.
pub(crate) fn open_file(path: &Path) -> Option<File> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty()).ok()?);
    file.metadata().ok()?.is_file().then_some(file)
}
