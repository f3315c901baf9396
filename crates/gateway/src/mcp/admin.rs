//! Tools that manage sandboxes, offered only where the door was opened with them.

use clawpen_engine::call::{Desk, ToolCallError, Who};
use rmcp::model::{CallToolResult, ContentBlock, Tool, ToolAnnotations};
use serde_json::{Value, json};

use super::answer::object;

/// What can be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Job {
    Status,
    List,
    Explain,
    Recreate,
}

impl Job {
    const ALL: [Self; 4] = [Self::Status, Self::List, Self::Explain, Self::Recreate];

    const fn name(self) -> &'static str {
        match self {
            Self::Status => "sandbox_status",
            Self::List => "sandbox_list",
            Self::Explain => "sandbox_explain",
            Self::Recreate => "sandbox_recreate",
        }
    }

    const fn description(self) -> &'static str {
        match self {
            Self::Status => "Says how this session's sandbox is.",
            Self::List => "Lists all sandboxes.",
            Self::Explain => "Says what is in force for this session, and which setting says so.",
            Self::Recreate => {
                "Removes this session's sandbox with all that runs in it; the next call gets a new one. Files of the \
                 workspace stay."
            }
        }
    }

    pub(super) fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|job| job.name() == name)
    }

    pub(super) fn run(self, desk: &Desk, who: &Who) -> Result<Value, ToolCallError> {
        match self {
            Self::Status => desk.status(who),
            Self::List => desk.sandboxes(),
            Self::Explain => desk.explain(who),
            Self::Recreate => desk.recreate(who),
        }
    }
}

pub(super) fn tools() -> impl Iterator<Item = Tool> {
    Job::ALL.into_iter().map(|job| {
        let is_reading = job != Job::Recreate;
        let input = object(json!({ "type": "object", "properties": {} }));
        let mut tool = Tool::new(job.name(), job.description(), input);
        let annotations = ToolAnnotations::new()
            .read_only(is_reading)
            .destructive(!is_reading)
            .idempotent(is_reading)
            .open_world(false);
        tool.annotations = Some(annotations);
        tool
    })
}

pub(super) fn result(done: Result<Value, ToolCallError>) -> CallToolResult {
    match done {
        Ok(value) => {
            let text = serde_json::to_string_pretty(&value).unwrap_or_default();
            let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
            result.structured_content = Some(value);
            result
        }
        Err(error) => CallToolResult::error(vec![ContentBlock::text(error.for_model())]),
    }
}
