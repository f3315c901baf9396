//! The row's directory tree, as facts for the rules.

use std::os::unix::fs::MetadataExt as _;

use clawpen_rules::host_files::{Entry, EntryKind, FactError, FactProblem, HostFiles};

/// The real file system.
pub(super) struct Disk;

impl HostFiles for Disk {
    fn entry(&self, path: &str) -> Result<Option<Entry>, FactError> {
        let Ok(found) = std::fs::symlink_metadata(path) else { return Ok(None) };
        let kind = if found.is_symlink() {
            let target = std::fs::read_link(path).ok().and_then(|target| {
                target.to_str().map(str::to_owned)
            });
            let Some(target) = target else {
                return Err(FactError { path: path.to_owned(), problem: FactProblem::NotText });
            };
            EntryKind::Symlink { target }
        } else if found.is_dir() {
            EntryKind::Directory
        } else if found.is_file() {
            EntryKind::File
        } else {
            EntryKind::Other
        };
        Ok(Some(Entry { kind, links: found.nlink() }))
    }
}
