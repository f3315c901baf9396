//! `POST /tools/invoke`: a tool for programs that speak HTTP.
//!
//! As in the reference, commands and files are for agents and not to be had here (`rules/tools/invoke.rs` says which
//! tools are). What is left passes the session's tool policy and is recorded, like any call of an agent.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::Response;
use clawpen_engine::call::{PolicyOf, Quiet, Stop, ToolCallError, ToolRequest, Who};
use clawpen_engine::runner::NotTold;
use clawpen_engine::tools::Block;
use clawpen_rules::session::key::SessionKey;
use clawpen_rules::tools::invoke::{self, Callable, DoorLists, Verdict};
use clawpen_rules::tools::sessions::SessionTool;
use clawpen_wire::gateway::ErrorShape;
use serde_json::{Value, json};

use super::{admit, bad_request, fresh_without_cache, refusal};
use crate::shared::Shared;
use crate::socket::{Caller, MAX_BODY_BYTES};

/// A call that gives nothing.
enum Failed {
    NotAvailable,
    /// Whoever asked can mend it.
    Wrong(String),
    /// A rule about where it would go.
    Forbidden(String),
    Other(String),
}

impl From<ErrorShape> for Failed {
    fn from(error: ErrorShape) -> Self {
        Self::Other(error.message)
    }
}

impl From<ToolCallError> for Failed {
    fn from(error: ToolCallError) -> Self {
        match error {
            ToolCallError::NoTool(_) | ToolCallError::Closed(_) => Self::NotAvailable,
            ToolCallError::Arguments(error) => Self::Wrong(error.to_string()),
            ToolCallError::Fetch(error) if error.is_refusal() => Self::Forbidden(error.to_string()),
            other => Self::Other(other.for_model()),
        }
    }
}

/// What a tool gave: for people, and for programs.
struct Given {
    content: Vec<Value>,
    details: Value,
}

pub(super) async fn serve(shared: &Arc<Shared>, caller: Caller, request: Request) -> Response {
    if let Err(refused) = admit(shared, &caller, request.headers()) {
        return *refused;
    }
    caller.allowance.extend();
    let body = axum::body::to_bytes(request.into_body(), MAX_BODY_BYTES).await;
    let Ok(body): Result<Bytes, _> = body else {
        return bad_request("the body is larger than 2 MiB");
    };
    let body: Value = match serde_json::from_slice(&body) {
        Ok(body) => body,
        Err(error) => {
            let start: String = String::from_utf8_lossy(&body).chars().take(40).collect();
            return bad_request(&format!("\"{start}\" is no valid JSON: {error}"));
        }
    };
    let Some(tool) = body["tool"].as_str().map(str::trim).filter(|tool| !tool.is_empty()) else {
        return bad_request("tools.invoke requires body.tool");
    };
    let tool: String = tool.chars().take(200).collect();
    let done = {
        let (shared, tool) = (shared.clone(), tool.clone());
        tokio::task::spawn_blocking(move || call(&shared, &tool, &body)).await
    };
    match done {
        Ok(Ok(Given { content, details })) => {
            let result = json!({ "content": content, "details": details });
            fresh_without_cache(StatusCode::OK, &json!({ "ok": true, "result": result }))
        }
        Ok(Err(Failed::NotAvailable)) => {
            refusal(StatusCode::NOT_FOUND, "not_found", &format!("Tool not available: {tool}"))
        }
        Ok(Err(Failed::Wrong(why))) => refusal(StatusCode::BAD_REQUEST, "tool_error", &why),
        Ok(Err(Failed::Forbidden(why))) => refusal(StatusCode::FORBIDDEN, "tool_error", &why),
        Ok(Err(Failed::Other(why))) => {
            let what = format!("tool execution failed: {why}");
            refusal(StatusCode::INTERNAL_SERVER_ERROR, "tool_error", &what)
        }
        Err(_) => {
            let code = StatusCode::INTERNAL_SERVER_ERROR;
            refusal(code, "tool_error", "tool execution failed")
        }
    }
}

fn call(shared: &Shared, tool: &str, body: &Value) -> Result<Given, Failed> {
    let sound = shared.sound()?;
    let config = &sound.store.loaded.config;
    let key = body["sessionKey"].as_str().map(str::trim).filter(|key| !key.is_empty());
    let key = key.unwrap_or("main");
    if SessionKey::parse(key).is_none() {
        return Err(Failed::Wrong("sessionKey is no session key".to_owned()));
    }
    let list = |name: &str| {
        config.at(&["gateway", "tools", name]).and_then(|at| at.strings()).unwrap_or_default()
    };
    let (allow, deny) = (list("allow"), list("deny"));
    let allow: Vec<&str> = allow.iter().map(String::as_str).collect();
    let deny: Vec<&str> = deny.iter().map(String::as_str).collect();
    let mut arguments = body["args"].as_object().cloned().unwrap_or_default();
    // It may stand beside the arguments.
    let beside = body["action"].as_str().map(str::trim);
    let action = arguments.get("action").map_or(beside, Value::as_str).map(str::to_owned);
    let asked = (tool, action.as_deref());
    let tool = match invoke::decide(asked, DoorLists { allow: &allow, deny: &deny }) {
        Verdict::Open(tool) => tool,
        Verdict::Closed(_) => return Err(Failed::NotAvailable),
    };
    if let (Callable::Sessions(SessionTool::Subagents), Some(action)) = (tool, action) {
        arguments.insert("action".to_owned(), json!(action));
    }
    let arguments = Value::Object(arguments);
    let who = Who {
        session: Some(key.to_owned()),
        client: Some("tools-invoke".to_owned()),
        policy: PolicyOf::Session,
        ..Who::default()
    };
    match tool {
        Callable::Sessions(tool) => {
            let told = shared.runner.about_sessions(&who, tool, &arguments)?;
            told_or_why(told.map(|told| (told.text(), told.details)))
        }
        Callable::WebFetch => {
            let stop = Stop::new().map_err(|error| Failed::Other(error.to_string()))?;
            let mut request = ToolRequest {
                tool: tool.as_str(),
                arguments: &arguments,
                stop: &stop,
                watch: &mut Quiet,
            };
            let answer = shared.desk.call(&who, &mut request)?;
            let text = |block: Block| match block {
                Block::Text(text) => json!({ "type": "text", "text": text }),
                Block::Image { mime_type, .. } => {
                    json!({ "type": "text", "text": format!("[an image, {mime_type}]") })
                }
            };
            let content = answer.content.into_iter().map(text).collect();
            Ok(Given { content, details: answer.details })
        }
    }
}

/// As in the reference, a session that is closed is an answer and no failure.
fn told_or_why(told: Result<(String, Value), NotTold>) -> Result<Given, Failed> {
    let (text, details) = match told {
        Ok(told) => told,
        Err(NotTold::Arguments(why)) => return Err(Failed::Wrong(why)),
        Err(NotTold::Failed(why)) => return Err(Failed::Other(why)),
        Err(why @ (NotTold::Closed(_) | NotTold::Absent(_))) => {
            let details = json!({ "status": why.status(), "error": why.to_string() });
            (format!("{details:#}"), details)
        }
    };
    Ok(Given { content: vec![json!({ "type": "text", "text": text })], details })
}
