//! The files that the rows assume, as facts.

use std::collections::BTreeMap;

use clawpen_rules::command::{ContentHash, FileFacts, FileIdentity, ProgramFiles, Writer};
use clawpen_rules::host_files::{EntryKind, FileTable, real_path};
use serde_json::Value;

/// A table of files, each with its mode.
#[derive(Debug)]
pub(super) struct FixtureFiles {
    table: FileTable,
    /// Real path to number and whether it may be executed.
    modes: BTreeMap<String, (u64, bool)>,
}

impl FixtureFiles {
    pub(super) fn new(fixture: &Value) -> Self {
        let mut table = FileTable::new();
        let mut modes = BTreeMap::new();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        for (number, file) in fixture["files"].as_array().into_iter().flatten().enumerate() {
            let path = text(&file["path"]);
            table = table.with(&path, EntryKind::File);
            modes.insert(path, (number as u64, file["mode"] == "755"));
        }
        for link in fixture["symlinks"].as_array().into_iter().flatten() {
            table = table.with_link(&text(&link["path"]), &text(&link["target"]));
        }
        Self { table, modes }
    }
}

impl ProgramFiles for FixtureFiles {
    fn find(&self, path: &str) -> Option<FileFacts> {
        let real_path = real_path(&self.table, path).ok()?;
        let &(inode, is_executable) = self.modes.get(&real_path)?;
        Some(FileFacts {
            real_path,
            identity: FileIdentity { device: 1, inode },
            is_regular: true,
            is_executable,
            writer: Writer::Nobody,
        })
    }

    fn hash(&self, real_path: &str) -> Option<ContentHash> {
        let &(inode, _) = self.modes.get(real_path)?;
        let mut hash = [0; 32];
        hash[..8].copy_from_slice(&inode.to_le_bytes());
        Some(ContentHash(hash))
    }
}
