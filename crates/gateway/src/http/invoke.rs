//! `POST /tools/invoke`: one tool that only looks, for programs that speak HTTP.
//!
//! As in the reference, commands and files are for agents and not to be had here, and neither are tools
//! that start or steer agents. What is left passes the session's tool policy like any call of an agent.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::Response;
use clawpen_engine::explain::{self, Question};
use clawpen_rules::session::Session;
use clawpen_rules::session::key::SessionKey;
use clawpen_rules::tool_policy::{self, Layers, Tool};
use clawpen_wire::gateway::ErrorShape;
use serde_json::{Value, json};

use super::{admit, bad_request, fresh_without_cache, refusal};
use crate::methods::{agents, sessions};
use crate::shared::{Shared, unavailable};
use crate::socket::{Caller, MAX_BODY_BYTES};

/// The tools that can be called here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    Status,
    Sessions,
    History,
    Agents,
}

impl Look {
    fn parse(name: &str) -> Option<Self> {
        match name {
            "session_status" => Some(Self::Status),
            "sessions_list" => Some(Self::Sessions),
            "sessions_history" => Some(Self::History),
            "agents_list" => Some(Self::Agents),
            _ => None,
        }
    }
}

/// A call that gives nothing.
enum Failed {
    NotAvailable,
    Wrong(ErrorShape),
}

impl From<ErrorShape> for Failed {
    fn from(error: ErrorShape) -> Self {
        Self::Wrong(error)
    }
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
        Ok(Ok(details)) => {
            let text = details["statusText"].as_str().map(str::to_owned);
            let text = text.unwrap_or_else(|| format!("{details:#}"));
            let content = json!([{ "type": "text", "text": text }]);
            let result = json!({ "content": content, "details": details });
            fresh_without_cache(StatusCode::OK, &json!({ "ok": true, "result": result }))
        }
        Ok(Err(Failed::NotAvailable)) => {
            refusal(StatusCode::NOT_FOUND, "not_found", &format!("Tool not available: {tool}"))
        }
        Ok(Err(Failed::Wrong(error))) => {
            refusal(StatusCode::BAD_REQUEST, "tool_error", &error.message)
        }
        Err(_) => {
            let code = StatusCode::INTERNAL_SERVER_ERROR;
            refusal(code, "tool_error", "tool execution failed")
        }
    }
}

fn call(shared: &Shared, tool: &str, body: &Value) -> Result<Value, Failed> {
    let sound = shared.sound()?;
    let config = &sound.store.loaded.config;
    let key = body["sessionKey"].as_str().map(str::trim).filter(|key| !key.is_empty());
    let key = key.unwrap_or("main");
    if SessionKey::parse(key).is_none() {
        return Err(ErrorShape::invalid("sessionKey is no session key").into());
    }
    let tool = Tool::core(tool);
    let look = Look::parse(tool.name().as_str()).ok_or(Failed::NotAvailable)?;
    let question = Question { agent: None, session: Some(key), channels: &[] };
    let explained = explain::explain(&sound.store, &question).map_err(|e| unavailable(&e))?;
    let list = |name: &str| {
        config.at(&["gateway", "tools", name]).and_then(|at| at.strings()).unwrap_or_default()
    };
    let deny = list("deny");
    let deny: Vec<&str> = deny.iter().map(String::as_str).collect();
    let door = Layers::of_policy(&[], &deny);
    let is_open = [&explained.layers, &door]
        .iter()
        .all(|layers| tool_policy::decide(layers, &tool).is_allowed());
    if !is_open {
        return Err(Failed::NotAvailable);
    }
    let session = Session::resolve(config, key);
    let main = session.store_key().as_str().to_owned();
    let arguments = &body["args"];
    let params = match look {
        Look::Status => {
            let wanted = arguments["sessionKey"].as_str().unwrap_or(&main).to_owned();
            let text = status(shared, &wanted)?;
            return Ok(json!({
                "ok": true,
                "sessionKey": wanted,
                "changedModel": false,
                "statusText": text,
            }));
        }
        Look::Agents => return Ok(agents::list(shared)?),
        Look::Sessions => json!({ "limit": arguments["limit"].as_u64().unwrap_or(50).max(1) }),
        Look::History => {
            let key = arguments["sessionKey"].as_str().unwrap_or(&main);
            json!({ "sessionKey": key, "limit": arguments["limit"].as_u64().unwrap_or(50).max(1) })
        }
    };
    Ok(match look {
        Look::History => sessions::history(shared, &params)?,
        Look::Status | Look::Sessions | Look::Agents => sessions::list(shared, &params)?,
    })
}

/// How a session is, for a person.
fn status(shared: &Shared, key: &str) -> Result<String, ErrorShape> {
    let listed = sessions::list(shared, &json!({ "search": key }))?;
    let rows = listed["sessions"].as_array().into_iter().flatten();
    let row = rows.into_iter().find(|row| row["key"] == json!(key)).cloned().unwrap_or_default();
    let defaults = &listed["defaults"];
    let text = |name: &str| {
        let own = row[name].as_str().or_else(|| defaults[name].as_str());
        own.unwrap_or("none").to_owned()
    };
    let number = |name: &str| row[name].as_u64().unwrap_or_default();
    let context = row["contextTokens"].as_u64().or_else(|| defaults["contextTokens"].as_u64());
    let mut lines = vec![
        format!("Session: {key}"),
        format!("Model: {}/{}", text("modelProvider"), text("model")),
        format!("Tokens: {} in, {} out", number("inputTokens"), number("outputTokens")),
        format!("Context: {} of {}", number("totalTokens"), context.unwrap_or_default()),
    ];
    for (name, title) in [("execHost", "Commands run in"), ("execAsk", "Ask"), ("status", "State")]
    {
        lines.extend(row[name].as_str().map(|value| format!("{title}: {value}")));
    }
    if row.is_null() {
        lines.push("Nothing was said in it yet".to_owned());
    }
    Ok(lines.join("\n"))
}
