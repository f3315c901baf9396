//! `sandbox.*`: the sandboxes behind the sessions. Ours: the reference shows them to nobody.
//!
//! Every call goes the way of all doors, through the engine's desk: policy, approvals, lease, record.

use std::sync::Arc;

use clawpen_engine::call::{Desk, Job, Stop, ToolCallError, ToolRequest, Watch, Who};
use clawpen_engine::tools::Block;
use clawpen_rules::session::key::SessionKey;
use clawpen_wire::gateway::{self, ErrorShape, EventPlace};
use serde_json::{Map, Value, json};

use super::{optional, text};
use crate::dispatch::Session;
use crate::hub::Outbox;
use crate::shared::Shared;

/// The channel of `tools.elevated.allowFrom` that speaks of this door.
const PROVIDER: &str = "gateway";

fn who(params: &Value) -> Result<Who, ErrorShape> {
    let session = optional(params, "sessionKey");
    if session.is_some_and(|key| SessionKey::parse(key).is_none()) {
        return Err(ErrorShape::invalid("sessionKey is no session key"));
    }
    Ok(Who {
        session: session.map(str::to_owned),
        agent: optional(params, "agentId").map(str::to_owned),
        provider: PROVIDER,
        ..Who::default()
    })
}

fn failed(error: ToolCallError) -> ErrorShape {
    ErrorShape::invalid(error.for_model())
}

/// Every sandbox of the state directory.
pub(crate) fn list(desk: &Desk) -> Result<Value, ErrorShape> {
    desk.manage(&Who { provider: PROVIDER, ..Who::default() }, Job::List).map_err(failed)
}

/// What is in force for a session, by the config of this moment.
pub(crate) fn explain(desk: &Desk, params: &Value) -> Result<Value, ErrorShape> {
    desk.manage(&who(params)?, Job::Explain).map_err(failed)
}

/// Removes a session's sandbox, unless it is in use; the next call gets a new one.
pub(crate) fn recreate(desk: &Desk, params: &Value) -> Result<Value, ErrorShape> {
    desk.manage(&who(params)?, Job::Recreate).map_err(failed)
}

/// What was asked for and what is found in the session's sandbox.
pub(crate) fn facts(desk: &Desk, params: &Value) -> Result<Value, ErrorShape> {
    desk.facts(&who(params)?).map_err(failed)
}

/// Runs a command in the session's sandbox. What it writes comes as events while it runs; it ends with
/// the connection that asked for it.
pub(crate) async fn exec(
    shared: &Arc<Shared>,
    session: &Session,
    (frame, params): (&str, Value),
) -> Result<Value, ErrorShape> {
    let who = who(&params)?;
    let mut arguments = Map::new();
    arguments.insert("command".into(), json!(text(&params, "command")));
    for key in ["workdir", "env", "timeout", "yieldMs", "background"] {
        arguments.extend(params.get(key).map(|value| (key.to_owned(), value.clone())));
    }
    let stop = Stop::new().map_err(|error| ErrorShape::unavailable(error.to_string()))?;
    // Whoever drops this future has left: the command must not stay.
    let leaving = Leaving(stop.clone());
    let mut stream =
        Stream { outbox: session.outbox.clone(), call: frame.to_owned(), rest: Vec::new() };
    let shared = shared.clone();
    let done = tokio::task::spawn_blocking(move || {
        let arguments = Value::Object(arguments);
        let mut request =
            ToolRequest { tool: "exec", arguments: &arguments, stop: &stop, watch: &mut stream };
        shared.desk.call(&who, &mut request)
    });
    let done = done.await;
    drop(leaving);
    let Ok(done) = done else { return Err(ErrorShape::unavailable("internal error")) };
    let answer = done.map_err(failed)?;
    let content: Vec<Value> = answer
        .content
        .iter()
        .map(|block| match block {
            Block::Text(text) => json!({ "type": "text", "text": text }),
            Block::Image { mime_type, bytes } => {
                json!({ "type": "image", "mimeType": mime_type, "bytes": bytes.len() })
            }
        })
        .collect();
    Ok(json!({ "content": content, "details": answer.details }))
}

struct Leaving(Stop);

impl Drop for Leaving {
    fn drop(&mut self) {
        self.0.pull();
    }
}

/// Sends what a command writes.
struct Stream {
    outbox: Outbox,
    /// The id of the request.
    call: String,
    /// The start of a character whose end has not come yet.
    rest: Vec<u8>,
}

impl Watch for Stream {
    fn output(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
        let whole = match std::str::from_utf8(&self.rest) {
            // The end may still come, if it is the last character that is short.
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            Ok(_) | Err(_) => self.rest.len(),
        };
        let rest = self.rest.split_off(whole);
        let text = std::mem::replace(&mut self.rest, rest);
        if text.is_empty() {
            return;
        }
        let payload = json!({ "call": self.call, "text": String::from_utf8_lossy(&text) });
        self.outbox.answer(gateway::event("sandbox.output", &payload, EventPlace::default()));
    }
}
