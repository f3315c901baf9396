//! Between the engine's answers and MCP's results.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clawpen_engine::call::ToolCallError;
use clawpen_engine::tools::{Answer, Block, schema};
use clawpen_rules::tools::{BuiltTool, schema as schemas};
use rmcp::model::{CallToolResult, ContentBlock, JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};

/// A tool as it is offered.
pub(super) fn tool(tool: BuiltTool) -> Tool {
    let input = object(schema(tool));
    let is_command = match tool {
        BuiltTool::Exec | BuiltTool::Process | BuiltTool::WebFetch => true,
        BuiltTool::File(_) => false,
    };
    let annotations = ToolAnnotations::with_title(title(tool))
        .read_only(tool.is_read_only())
        .destructive(!tool.is_read_only())
        .idempotent(tool.is_read_only())
        .open_world(is_command);
    let description = schemas::of_built(tool).description;
    let mut offered = Tool::new(tool.as_str(), description, input);
    offered.annotations = Some(annotations);
    offered
}

const fn title(tool: BuiltTool) -> &'static str {
    use clawpen_rules::tools::FileTool;
    match tool {
        BuiltTool::WebFetch => "Fetch a web page",
        BuiltTool::Exec => "Run a command in the sandbox",
        BuiltTool::Process => "Follow commands in the background",
        BuiltTool::File(FileTool::Read) => "Read a file",
        BuiltTool::File(FileTool::Write) => "Write a file",
        BuiltTool::File(FileTool::Edit) => "Edit a file",
        BuiltTool::File(FileTool::ApplyPatch) => "Apply a patch",
        BuiltTool::File(FileTool::List) => "List a directory",
        BuiltTool::File(FileTool::Grep) => "Search file contents",
        BuiltTool::File(FileTool::Find) => "Find files",
    }
}

/// A JSON object; anything else is none.
pub(super) fn object(value: Value) -> JsonObject {
    match value {
        Value::Object(members) => members,
        _ => JsonObject::new(),
    }
}

/// An answer, or the reason why there is none, as the model sees it.
pub(super) fn result(done: Result<Answer, ToolCallError>) -> CallToolResult {
    match done {
        Ok(answer) => {
            let content = answer.content.into_iter().map(block).collect();
            let mut result = CallToolResult::success(content);
            result.structured_content = answer.details.is_object().then_some(answer.details);
            result
        }
        Err(error) => failed(&error),
    }
}

/// Why there is no answer: a text for the model, a word for programs.
pub(super) fn failed(error: &ToolCallError) -> CallToolResult {
    let text = error.for_model();
    let mut result = CallToolResult::error(vec![ContentBlock::text(text.clone())]);
    result.structured_content =
        Some(json!({ "status": "failed", "code": error.code(), "error": text }));
    result
}

fn block(block: Block) -> ContentBlock {
    match block {
        Block::Text(text) => ContentBlock::text(text),
        Block::Image { mime_type, bytes } => ContentBlock::image(STANDARD.encode(bytes), mime_type),
    }
}

/// Bytes as base64.
pub(super) fn blob(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}
