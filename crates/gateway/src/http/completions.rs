//! `/v1/chat/completions`, `/v1/models` and the other paths under `/v1/`, for programs that speak `OpenAI`'s HTTP, where the config switches them on.
//!
//! A model's name is an agent's: `openclaw` or `openclaw/<agent>`. What is asked is a message to that agent, in a session
//! of its own unless the request names a user or a session; it runs as any other message does, under the same policy and
//! in the same sandbox. The secret opens the door; the scope is named in a header and gives no more than `operator.write`,
//! so directives that need more are refused here. A client that leaves ends its run.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::Response;
use clawpen_engine::approvals_file::now_ms;
use clawpen_engine::random;
use clawpen_rules::access::Scope;
use clawpen_rules::ids::AgentId;
use futures_util::stream;
use serde_json::{Value, json};

use super::hearing::{Heard, Listener, asker};
use super::{admit_for, bad_request, fresh_without_cache, not_allowed, plain, refusal, responses};
use crate::methods::{agents, chat};
use crate::shared::Shared;
use crate::socket::{Caller, MAX_BODY_BYTES};

/// The model that stands for the default agent.
const NAME: &str = "openclaw";
/// Messages of one request; more are no talk.
const MOST_MESSAGES: usize = 500;

pub(super) async fn serve(shared: &Arc<Shared>, caller: Caller, request: Request) -> Response {
    let path = request.uri().path().to_owned();
    let chat = is_on(shared, "chatCompletions");
    let responses = is_on(shared, "responses");
    let method = request.method().clone();
    match path.strip_prefix("/v1/").filter(|_| chat || responses) {
        Some("chat/completions") if chat && method != Method::POST => not_allowed("POST"),
        Some("chat/completions") if chat => complete(shared, caller, request).await,
        Some("responses") if responses && method != Method::POST => not_allowed("POST"),
        Some("responses") if responses => responses::serve(shared, caller, request).await,
        Some("embeddings") if method != Method::POST => not_allowed("POST"),
        Some("embeddings") => embeddings(shared, &caller, request).await,
        Some("models") if method != Method::GET => not_allowed("GET"),
        Some("models") => models(shared, &caller, request.headers(), None),
        Some(one) if one.starts_with("models/") && method == Method::GET => {
            let name = one.strip_prefix("models/").unwrap_or_default();
            models(shared, &caller, request.headers(), Some(name))
        }
        _ => plain(StatusCode::NOT_FOUND, "Not Found"),
    }
}

/// Whether the config switches one of `gateway.http.endpoints` on.
fn is_on(shared: &Shared, endpoint: &str) -> bool {
    shared.sound().is_ok_and(|sound| {
        let keys = ["gateway", "http", "endpoints", endpoint, "enabled"];
        let at = sound.store.loaded.config.at(&keys);
        at.is_some_and(|at| at.node.as_bool() == Some(true))
    })
}

/// No model of this build turns text into numbers; whoever asks is told what would be needed.
async fn embeddings(shared: &Shared, caller: &Caller, request: Request) -> Response {
    let headers = request.headers().clone();
    if let Err(refused) = admit_for(shared, (caller, &headers), Scope::Write) {
        return *refused;
    }
    caller.allowance.extend();
    let body = axum::body::to_bytes(request.into_body(), MAX_BODY_BYTES).await;
    let body: Option<Value> = body.ok().and_then(|body| serde_json::from_slice(&body).ok());
    let Some(body) = body else { return bad_request("the body is no valid JSON") };
    if body["model"].as_str().is_none_or(|model| model.trim().is_empty()) {
        return bad_request("Missing `model`.");
    }
    let is_text = |input: &Value| match input {
        Value::String(_) => true,
        Value::Array(items) => items.iter().all(Value::is_string),
        _ => false,
    };
    if !is_text(&body["input"]) {
        return bad_request("`input` must be a string or an array of strings.");
    }
    let what = "no embeddings are made here: `agents.defaults.memorySearch` would name a provider of embeddings, and this \
                build has none";
    let body = json!({ "error": {
        "message": what, "type": "invalid_request_error", "param": null,
        "code": "embeddings_not_available" } });
    fresh_without_cache(StatusCode::BAD_REQUEST, &body)
}

/// The agents, as models.
fn models(shared: &Shared, caller: &Caller, headers: &HeaderMap, one: Option<&str>) -> Response {
    if let Err(refused) = admit_for(shared, (caller, headers), Scope::Read) {
        return *refused;
    }
    let sound = match shared.sound() {
        Ok(sound) => sound,
        Err(error) => {
            return refusal(StatusCode::SERVICE_UNAVAILABLE, "unavailable", &error.message);
        }
    };
    let ids = agents::all(&sound);
    let names = [NAME.to_owned(), format!("{NAME}/default")]
        .into_iter()
        .chain(ids.iter().map(|id| format!("{NAME}/{id}")));
    let shown = |name: String| json!({ "id": name, "object": "model", "created": 0, "owned_by": NAME, "permission": [] });
    let mut all: Vec<Value> = names.map(shown).collect();
    let Some(one) = one else {
        return fresh_without_cache(StatusCode::OK, &json!({ "object": "list", "data": all }));
    };
    let one = one.replace("%2F", "/").replace("%2f", "/");
    match all.iter().position(|model| model["id"] == *one) {
        Some(at) => fresh_without_cache(StatusCode::OK, &all.swap_remove(at)),
        None => bad_request("Invalid model id."),
    }
}

/// A request that was understood.
struct Wanted {
    model: String,
    session: String,
    message: String,
    is_streamed: bool,
}

async fn complete(shared: &Arc<Shared>, caller: Caller, request: Request) -> Response {
    let headers = request.headers().clone();
    if let Err(refused) = admit_for(shared, (&caller, &headers), Scope::Write) {
        return *refused;
    }
    caller.allowance.extend();
    let body = axum::body::to_bytes(request.into_body(), MAX_BODY_BYTES).await;
    let Ok(body) = body else { return bad_request("the body is larger than 2 MiB") };
    let body: Value = match serde_json::from_slice(&body) {
        Ok(body) => body,
        Err(error) => return bad_request(&format!("the body is no valid JSON: {error}")),
    };
    let wanted = match understood(shared, &headers, &body) {
        Ok(wanted) => wanted,
        Err(why) => return bad_request(&why),
    };
    caller.allowance.stay();
    let run = random::uuid();
    // Heard from before the run begins.
    let mut listener = Listener::new(shared, &run, &wanted.session);
    let params = json!({
        "sessionKey": wanted.session, "message": wanted.message, "idempotencyKey": run,
    });
    let asker = asker(&caller, &listener.connection);
    let door = shared.clone();
    let sent = listener.send(move || chat::send(&door, &asker, &params)).await;
    match sent {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => return bad_request(&error.message),
        Err(_) => {
            let code = StatusCode::INTERNAL_SERVER_ERROR;
            return refusal(code, "api_error", "internal error");
        }
    }
    let name = Chunk { id: format!("chatcmpl_{run}"), model: wanted.model };
    if wanted.is_streamed {
        return streamed(name, listener);
    }
    let mut text = String::new();
    loop {
        match listener.next().await {
            Heard::Piece(piece) => text.push_str(&piece),
            Heard::End => return fresh_without_cache(StatusCode::OK, &name.whole(&text)),
            Heard::Failed(why) => {
                let body = json!({ "error": { "message": why, "type": "api_error" } });
                return fresh_without_cache(StatusCode::INTERNAL_SERVER_ERROR, &body);
            }
        }
    }
}

/// Which agent, which session, what is said.
fn understood(shared: &Shared, headers: &HeaderMap, body: &Value) -> Result<Wanted, String> {
    let message = message(&body["messages"])?;
    let Target { model, session, voice: _ } = target(shared, headers, (body, "openai"))?;
    Ok(Wanted { model, session, message, is_streamed: body["stream"] == json!(true) })
}

/// Whom a request speaks to.
pub(super) struct Target {
    /// As the request names it.
    pub(super) model: String,
    pub(super) session: String,
    /// What tells this caller from others who know the same secret.
    pub(super) voice: String,
}

/// Reads whom a request speaks to; sessions that nobody names are called by `word`.
pub(super) fn target(
    shared: &Shared,
    headers: &HeaderMap,
    (body, word): (&Value, &str),
) -> Result<Target, String> {
    let sound = shared.sound().map_err(|error| error.message)?;
    let config = &sound.store.loaded.config;
    let model = body["model"].as_str().unwrap_or(NAME).trim().to_owned();
    let header = |name: &str| {
        let value = headers.get(name).and_then(|value| value.to_str().ok());
        value.map(str::trim).filter(|value| !value.is_empty())
    };
    if header("x-openclaw-model").is_some() {
        let what = "`x-openclaw-model` is not taken here: whoever comes by this door may write, and choosing a model \
                    takes operator.admin; use the method `agent`";
        return Err(what.to_owned());
    }
    let of_model = match model.strip_prefix(NAME) {
        Some("" | "/default") => None,
        Some(rest) if rest.len() > 1 && rest.starts_with(['/', ':']) => rest.get(1..),
        _ => return Err("Invalid `model`. Use `openclaw` or `openclaw/<agentId>`.".to_owned()),
    };
    let agent = header("x-openclaw-agent-id").or(of_model).map(AgentId::normalize);
    let agent = agent.unwrap_or_else(|| config.default_agent());
    let user = body["user"].as_str().map(str::trim).filter(|user| !user.is_empty());
    let named = header("x-openclaw-session-key");
    let session = match (named, user) {
        (Some(key), _) => key.to_owned(),
        (None, Some(user)) => format!("agent:{agent}:{word}-user:{}", user.to_lowercase()),
        (None, None) => format!("agent:{agent}:{word}:{}", random::uuid()),
    };
    let voice = json!([agent.as_str(), user, named]).to_string();
    Ok(Target { model, session, voice })
}

/// The talk as one message: the last thing that was said, after what came before it.
fn message(messages: &Value) -> Result<String, String> {
    let missing = || "Missing user message in `messages`.".to_owned();
    let list = messages.as_array().filter(|list| !list.is_empty()).ok_or_else(missing)?;
    if list.len() > MOST_MESSAGES {
        return Err(format!("more than {MOST_MESSAGES} messages"));
    }
    let mut said: Vec<(&str, String)> = Vec::new();
    for one in list {
        let text = match &one["content"] {
            Value::String(text) => text.clone(),
            Value::Array(parts) => {
                if parts.iter().any(|part| part["type"] == "image_url") {
                    return Err("images are not taken here; attach them with chat.send".to_owned());
                }
                let texts: Vec<&str> =
                    parts.iter().filter_map(|part| part["text"].as_str()).collect();
                texts.join("\n")
            }
            _ => String::new(),
        };
        if !text.trim().is_empty() {
            said.push((one["role"].as_str().unwrap_or("user"), text));
        }
    }
    let (_, newest) = said.pop().ok_or_else(missing)?;
    if said.is_empty() {
        return Ok(newest);
    }
    let mut text = String::from("[What was said before]\n");
    for (role, words) in said {
        text = format!("{text}{role}: {words}\n");
    }
    Ok(format!("{text}\n[Now]\n{newest}"))
}

/// What every part of an answer repeats.
struct Chunk {
    id: String,
    model: String,
}

impl Chunk {
    fn whole(&self, text: &str) -> Value {
        let text = if text.is_empty() { "No response from the agent." } else { text };
        json!({
            "id": self.id,
            "object": "chat.completion",
            "created": now_ms() / 1000,
            "model": self.model,
            "choices": [{
                "index": 0,
                "message": { "role": "assistant", "content": text },
                "finish_reason": "stop",
            }],
            "usage": { "prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0 },
        })
    }

    fn part(&self, choice: &Value) -> Bytes {
        let part = json!({
            "id": self.id,
            "object": "chat.completion.chunk",
            "created": now_ms() / 1000,
            "model": self.model,
            "choices": [choice],
        });
        Bytes::from(format!("data: {part}\n\n"))
    }
}

fn streamed(name: Chunk, listener: Listener) -> Response {
    let first = name.part(&json!({ "index": 0, "delta": { "role": "assistant" } }));
    let parts = stream::unfold(Some((Some(first), name, listener)), |state| async move {
        let (first, name, mut listener) = state?;
        if let Some(first) = first {
            return Some((Ok::<_, Infallible>(first), Some((None, name, listener))));
        }
        match listener.next().await {
            Heard::Piece(piece) => {
                let choice = json!({
                    "index": 0, "delta": { "content": piece }, "finish_reason": Value::Null,
                });
                let part = name.part(&choice);
                Some((Ok(part), Some((None, name, listener))))
            }
            Heard::End => Some((Ok(Bytes::from_static(b"data: [DONE]\n\n")), None)),
            Heard::Failed(why) => {
                let error = json!({ "error": { "message": why, "type": "api_error" } });
                let end = format!("data: {error}\n\ndata: [DONE]\n\n");
                Some((Ok(Bytes::from(end)), None))
            }
        }
    });
    let mut response = Response::new(Body::from_stream(parts));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_talk_becomes_one_message() {
        for (messages, expected) in [
            (json!([{ "role": "user", "content": "hi" }]), Ok("hi")),
            (
                json!([{ "role": "system", "content": "kind" },
                       { "role": "user", "content": [{ "type": "text", "text": "hi" }] }]),
                Ok("[What was said before]\nsystem: kind\n\n[Now]\nhi"),
            ),
            (json!([]), Err("Missing user message in `messages`.")),
            (json!(null), Err("Missing user message in `messages`.")),
            (
                json!([{ "role": "user", "content": " " }]),
                Err("Missing user message in `messages`."),
            ),
            (
                json!([{ "role": "user", "content": [{ "type": "image_url" }] }]),
                Err("images are not taken here; attach them with chat.send"),
            ),
        ] {
            let found = message(&messages);
            assert_eq!(found.as_deref().map_err(String::as_str), expected, "{messages}");
        }
    }
}
