//! Tools that manage sandboxes, offered only where the door was opened with them and no rule closes them.

use clawpen_engine::call::{Job, ToolCallError};
use rmcp::model::{CallToolResult, ContentBlock, Tool, ToolAnnotations};
use serde_json::{Value, json};

use super::answer::object;

const fn description(job: Job) -> &'static str {
    match job {
        Job::Status => "Says how this session's sandbox is.",
        Job::List => "Lists all sandboxes.",
        Job::Explain => "Says what is in force for this session, and which setting says so.",
        Job::Recreate => {
            "Removes this session's sandbox with all that runs in it; the next call gets a new one. Files of the \
             workspace stay."
        }
    }
}

pub(super) fn tools(jobs: Vec<Job>) -> impl Iterator<Item = Tool> {
    jobs.into_iter().map(|job| {
        let is_reading = job != Job::Recreate;
        let input = object(json!({ "type": "object", "properties": {} }));
        let mut tool = Tool::new(job.name(), description(job), input);
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
        Err(error) => super::answer::failed(&error),
    }
}
