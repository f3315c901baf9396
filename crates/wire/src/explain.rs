//! What `sandbox explain --json` prints.
//!
//! Everything but the key `clawpen` has the reference's names and order, because its tools read it.
//! Our own findings are all below `clawpen`.

use std::collections::BTreeMap;

use serde::Serialize;

/// The whole answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explain {
    pub docs_url: String,
    pub agent_id: String,
    pub session_key: String,
    pub main_session_key: String,
    pub sandbox: Sandbox,
    pub elevated: Elevated,
    pub fix_it: Vec<String>,
    pub clawpen: Clawpen,
}

/// The sandbox of the session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Sandbox {
    pub mode: String,
    pub scope: String,
    pub per_session: bool,
    pub workspace_access: String,
    pub workspace_root: String,
    pub session_is_sandboxed: bool,
    pub tools: Tools,
}

/// The sandbox tool policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Tools {
    pub allow: Vec<String>,
    pub deny: Vec<String>,
    pub sources: Sources,
}

/// Which list the policy was taken from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Sources {
    pub allow: Source,
    pub deny: Source,
}

/// One list's place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Source {
    pub source: String,
    pub key: String,
}

/// Who may leave the sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Elevated {
    pub enabled: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    pub allowed_by_config: bool,
    pub always_allowed_by_config: bool,
    pub allow_from: AllowFrom,
    pub failures: Vec<Failure>,
}

/// The two lists of senders, as far as they are known for the channel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AllowFrom {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub global: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<Vec<String>>,
}

/// A gate that is shut.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Failure {
    pub gate: String,
    pub key: String,
}

/// What the reference does not tell.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Clawpen {
    pub version: String,
    /// The config files read; empty if there is none.
    pub config_files: Vec<String>,
    pub state_dir: String,
    pub backend: String,
    /// Sandboxed or not, in words.
    pub placement: String,
    /// Identity of the sandbox; absent for a session that runs on the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime: Option<Runtime>,
    /// What is kept where, and what a change to the originals does; absent for a session that runs on
    /// the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace: Option<Workspace>,
    /// What becomes of the session's browser, in words; absent where none is enabled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub browser: Option<String>,
    /// What would stop the sandbox from being made.
    pub refusals: Vec<String>,
    pub warnings: Vec<String>,
    /// The origin of every effective value, by its key below `sandbox`.
    pub origins: BTreeMap<String, Origin>,
    /// What the policy says about each tool of the catalogue.
    pub tools: BTreeMap<String, ToolVerdict>,
}

/// The sandbox that the session would use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Runtime {
    pub scope_key: String,
    pub name: String,
    pub workdir: String,
    pub config_hash: String,
    /// `sandbox` for a private copy, `agent` for the agent's own directory.
    pub workspace_source: String,
    pub workspace_dir: String,
    pub mounts: Vec<Mount>,
}

/// What outlives what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Workspace {
    /// The places a command can write to.
    pub persists: Vec<Persists>,
    /// What an admin's change to the originals does; absent where the sandbox works on them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change_to_originals: Option<String>,
    /// The seeded files; empty where none are copied.
    pub seeds: Vec<Seed>,
    /// What becomes of the copy when the sandbox is removed.
    pub removed: Removal,
}

/// One place in the sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Persists {
    pub at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// `agent`, `copy`, `sync`, `read-only` or `sandbox`.
    pub lasts: String,
    pub meaning: String,
}

/// How a copy stands to its original.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Seed {
    pub name: String,
    pub standing: String,
    pub meaning: String,
}

/// `workspaces` of `clawpen.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Removal {
    pub removed: String,
    pub after_days: u64,
    pub trash_days: u64,
}

/// One host directory seen inside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Mount {
    pub host_root: String,
    pub container_root: String,
    pub writable: bool,
    pub source: String,
}

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Origin {
    /// The value in words, as the config would write it.
    pub value: String,
    pub layer: String,
    pub key: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<u32>,
}

/// A verdict on one tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ToolVerdict {
    pub allowed: bool,
    /// The layer that settled it.
    pub layer: String,
    /// The rule, in words.
    pub reason: String,
}
