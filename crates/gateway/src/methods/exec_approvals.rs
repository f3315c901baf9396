//! `exec.approvals.*`: the approvals file, without its token.

use clawpen_engine::approvals_file::{ApprovalsStore, ChangeError, Snapshot};
use clawpen_rules::approval::file::SetRefusal;
use clawpen_wire::gateway::ErrorShape;
use serde_json::{Value, json};

use super::optional;
use crate::shared::{Shared, unavailable};

pub(crate) fn get(shared: &Shared) -> Result<Value, ErrorShape> {
    let store = ApprovalsStore::of_home(&shared.locations.home);
    let snapshot = store.ensure().map_err(error)?;
    Ok(answer(&snapshot))
}

pub(crate) fn set(shared: &Shared, params: &Value) -> Result<Value, ErrorShape> {
    let store = ApprovalsStore::of_home(&shared.locations.home);
    let text = params["file"].to_string();
    let snapshot = store.set(&text, optional(params, "baseHash")).map_err(error)?;
    Ok(answer(&snapshot))
}

fn answer(snapshot: &Snapshot) -> Value {
    let file = snapshot.file.redacted().to_text();
    json!({
        "path": snapshot.path,
        "exists": snapshot.exists,
        "hash": snapshot.hash.as_str(),
        "file": serde_json::from_str::<Value>(&file).unwrap_or_default(),
    })
}

fn error(error: ChangeError) -> ErrorShape {
    match error {
        ChangeError::Stale(SetRefusal::BaseMissing) => ErrorShape::invalid(
            "exec approvals base hash required; re-run exec.approvals.get and retry",
        ),
        ChangeError::Stale(SetRefusal::Changed) => ErrorShape::invalid(
            "exec approvals changed since last load; re-run exec.approvals.get and retry",
        ),
        ChangeError::NewContent(problem) => {
            ErrorShape::invalid(format!("invalid exec.approvals.set params: {problem}"))
        }
        error @ (ChangeError::Refused(_) | ChangeError::Locked { .. } | ChangeError::Io { .. }) => {
            unavailable(&error)
        }
    }
}
