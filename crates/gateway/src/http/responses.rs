//! `/v1/responses`, for programs that speak `OpenAI`'s newer HTTP, where the config switches it on.
//!
//! What is asked is a message to an agent, as with `/v1/chat/completions`: a session of its own unless the request names
//! a user or a session, the same policy, the same sandbox, no more than `operator.write`. `previous_response_id` goes on
//! in the session of that answer, for the caller that got it. Tools of the client and files that would have to be
//! fetched are refused by name.

mod said;

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use clawpen_engine::approvals_file::now_ms;
use clawpen_engine::random;
use clawpen_engine::runner::{Ended, Wishes};
use clawpen_rules::access::Scope;
use clawpen_rules::js_number;
use futures_util::stream;
use serde_json::{Value, json};

use super::completions::{Target, target};
use super::hearing::{Heard, Listener, asker};
use super::{admit_for, bad_request, fresh_without_cache, peer};
use crate::methods::chat;
use crate::shared::Shared;
use crate::socket::{Caller, MAX_BODY_BYTES};
use said::{Said, said};

/// Answers that can be gone on from, and for how long.
const REMEMBERED: usize = 500;
const KEPT: Duration = Duration::from_secs(30 * 60);

/// Which session an answer was given in, and to whom.
#[derive(Default)]
pub(crate) struct Answered(Mutex<Known>);

#[derive(Default)]
struct Known {
    answers: HashMap<String, Kept>,
    oldest: VecDeque<String>,
}

struct Kept {
    voice: String,
    session: String,
    at: Instant,
}

impl Answered {
    fn keep(&self, id: &str, voice: &str, session: &str) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (voice, session) = (voice.to_owned(), session.to_owned());
        known.answers.insert(id.to_owned(), Kept { voice, session, at: Instant::now() });
        known.oldest.push_back(id.to_owned());
        while known.oldest.len() > REMEMBERED
            && let Some(oldest) = known.oldest.pop_front()
        {
            known.answers.remove(&oldest);
        }
    }

    /// The session of an answer that this caller got.
    fn session(&self, id: &str, voice: &str) -> Option<String> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = known.answers.get(id)?;
        (kept.voice == voice && kept.at.elapsed() < KEPT).then(|| kept.session.clone())
    }
}

/// A request that was understood.
struct Wanted {
    target: Target,
    message: String,
    attachments: Vec<Value>,
    instructions: Option<String>,
    is_streamed: bool,
}

pub(super) async fn serve(shared: &Arc<Shared>, caller: Caller, request: Request) -> Response {
    let headers = request.headers().clone();
    if let Err(refused) = admit_for(shared, (&caller, &headers), Scope::Write) {
        return *refused;
    }
    caller.allowance.extend();
    let most = most_bytes(shared);
    let Ok(body) = axum::body::to_bytes(request.into_body(), most).await else {
        let what = format!("the body is larger than {most} bytes");
        let body = json!({ "error": { "message": what, "type": "invalid_request_error" } });
        return fresh_without_cache(StatusCode::PAYLOAD_TOO_LARGE, &body);
    };
    let body: Value = match serde_json::from_slice(&body) {
        Ok(body) => body,
        Err(error) => return bad_request(&format!("the body is no valid JSON: {error}")),
    };
    // A proxy may name users who share the secret.
    let user = peer(shared, caller.address.ip(), &headers).user;
    let wanted = match understood(shared, &headers, (&body, &format!("{user:?}"))) {
        Ok(wanted) => wanted,
        Err(why) => return bad_request(&why),
    };
    caller.allowance.stay();
    let run = format!("resp_{}", random::uuid());
    let Wanted { target, message, attachments, instructions, is_streamed } = wanted;
    // Heard from before the run begins.
    let listener = Listener::new(shared, &run, &target.session);
    let params = json!({
        "sessionKey": target.session, "message": message, "attachments": attachments,
        "idempotencyKey": run,
    });
    let wishes = Wishes { instructions, ..Wishes::default() };
    let asker = asker(&caller, &listener.connection);
    let door = shared.clone();
    let sent = listener.send(move || chat::send_wishing(&door, &asker, (&params, wishes))).await;
    match sent {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => return bad_request(&error.message),
        Err(_) => {
            let body = json!({ "error": { "message": "internal error", "type": "api_error" } });
            return fresh_without_cache(StatusCode::INTERNAL_SERVER_ERROR, &body);
        }
    }
    shared.answered.keep(&run, &target.voice, &target.session);
    let answer = Answer {
        shared: shared.clone(),
        id: run,
        item: format!("msg_{}", random::uuid()),
        model: target.model,
        created: now_ms() / 1000,
        text: String::new(),
    };
    if is_streamed { streamed(answer, listener) } else { whole(answer, listener).await }
}

/// `gateway.http.endpoints.responses.maxBodyBytes`, within what a request may have at all.
fn most_bytes(shared: &Shared) -> usize {
    let keys = ["gateway", "http", "endpoints", "responses", "maxBodyBytes"];
    let written = shared.sound().ok().and_then(|sound| {
        js_number::whole::<usize>(sound.store.loaded.config.at(&keys)?.node.as_number()?)
    });
    written.map_or(MAX_BODY_BYTES, |bytes| bytes.min(MAX_BODY_BYTES))
}

fn understood(
    shared: &Shared,
    headers: &HeaderMap,
    (body, user): (&Value, &str),
) -> Result<Wanted, String> {
    let has = |key: &str| body[key].as_array().is_some_and(|list| !list.is_empty());
    if has("tools") {
        return Err("`tools`: tools of the client are not part of this build".to_owned());
    }
    match &body["tool_choice"] {
        Value::Null => {}
        Value::String(word) if matches!(word.as_str(), "auto" | "none") => {}
        _ => return Err("`tool_choice`: tools of the client are not part of this build".to_owned()),
    }
    let Said { message, attachments, system } = said(&body["input"])?;
    let mut target = target(shared, headers, (body, "openresponses"))?;
    target.voice.push_str(user);
    match &body["previous_response_id"] {
        Value::Null => {}
        Value::String(id) => {
            let session = shared.answered.session(id, &target.voice);
            let gone = || {
                let id: String = id.chars().filter(|one| !one.is_control()).take(100).collect();
                format!("`previous_response_id`: no answer `{id}` of this caller is known")
            };
            target.session = session.ok_or_else(gone)?;
        }
        _ => return Err("`previous_response_id` must be a string".to_owned()),
    }
    let own = match &body["instructions"] {
        Value::Null => None,
        Value::String(text) => Some(text.as_str()),
        _ => return Err("`instructions` must be a string".to_owned()),
    };
    let all: Vec<&str> = own.into_iter().chain(system.iter().map(String::as_str)).collect();
    let instructions = chat::instructions(&all.join("\n\n"))
        .map_err(|why| why.replace("extraSystemPrompt", "instructions"))?;
    Ok(Wanted { target, message, attachments, instructions, is_streamed: body["stream"] == true })
}

/// An answer, as far as it has come.
struct Answer {
    shared: Arc<Shared>,
    id: String,
    item: String,
    model: String,
    created: u64,
    text: String,
}

impl Answer {
    /// What is answered by an agent that says nothing.
    fn spoken(&self) -> &str {
        if self.text.is_empty() { "No response from the agent." } else { &self.text }
    }

    fn part(&self) -> Value {
        json!({ "type": "output_text", "text": self.spoken(), "annotations": [] })
    }

    fn message(&self) -> Value {
        json!({
            "type": "message", "id": self.item, "role": "assistant", "status": "completed",
            "content": [self.part()],
        })
    }

    fn usage(&self) -> Value {
        let (input, output) = match self.shared.runner.ended(&self.id) {
            Some(Ended::Done { usage, .. }) => (usage.input, usage.output),
            Some(Ended::Replied { .. } | Ended::Failed { .. } | Ended::Aborted { .. }) | None => {
                (0, 0)
            }
        };
        let total = input.saturating_add(output);
        json!({ "input_tokens": input, "output_tokens": output, "total_tokens": total })
    }

    fn resource(&self, status: &str, error: Option<&str>) -> Value {
        let is_whole = status == "completed";
        let output = if is_whole { json!([self.message()]) } else { json!([]) };
        let mut resource = json!({
            "id": self.id, "object": "response", "created_at": self.created, "status": status,
            "model": self.model, "output": output, "usage": self.usage(),
        });
        if let Some(error) = error {
            resource["error"] = json!({ "code": "api_error", "message": error });
        }
        resource
    }

    fn first(&self) -> Vec<Value> {
        let begun = self.resource("in_progress", None);
        let item = json!({
            "type": "message", "id": self.item, "role": "assistant", "status": "in_progress",
            "content": [],
        });
        vec![
            json!({ "type": "response.created", "response": begun }),
            json!({ "type": "response.in_progress", "response": begun }),
            json!({ "type": "response.output_item.added", "output_index": 0, "item": item }),
            self.at(
                "response.content_part.added",
                ("part", &json!({ "type": "output_text", "text": "" })),
            ),
        ]
    }

    /// An event about the text.
    fn at(&self, event: &str, (name, value): (&str, &Value)) -> Value {
        let mut event = json!({
            "type": event, "item_id": self.item, "output_index": 0, "content_index": 0,
        });
        event[name] = value.clone();
        event
    }

    fn last(&self) -> Vec<Value> {
        let mut events = Vec::new();
        if self.text.is_empty() {
            let said = json!(self.spoken());
            events.push(self.at("response.output_text.delta", ("delta", &said)));
        }
        events.push(self.at("response.output_text.done", ("text", &json!(self.spoken()))));
        events.push(self.at("response.content_part.done", ("part", &self.part())));
        events.push(json!({
            "type": "response.output_item.done", "output_index": 0, "item": self.message(),
        }));
        let whole = self.resource("completed", None);
        events.push(json!({ "type": "response.completed", "response": whole }));
        events
    }
}

/// How long the numbers of a run that has ended are waited for.
const LAST_NUMBERS: Duration = Duration::from_secs(5);

async fn whole(mut answer: Answer, mut listener: Listener) -> Response {
    loop {
        match listener.next().await {
            Heard::Piece(piece) => answer.text.push_str(&piece),
            Heard::End => {
                let _numbers = answer.shared.runner.wait(&answer.id, LAST_NUMBERS).await;
                return fresh_without_cache(StatusCode::OK, &answer.resource("completed", None));
            }
            Heard::Failed(why) => {
                let code = StatusCode::INTERNAL_SERVER_ERROR;
                return fresh_without_cache(code, &answer.resource("failed", Some(&why)));
            }
        }
    }
}

fn streamed(answer: Answer, listener: Listener) -> Response {
    let state = Some((true, answer, listener));
    let parts = stream::unfold(state, |state| async move {
        let (is_first, mut answer, mut listener) = state?;
        if is_first {
            let events = written(&answer.first());
            return Some((Ok::<_, Infallible>(events), Some((false, answer, listener))));
        }
        match listener.next().await {
            Heard::Piece(piece) => {
                answer.text.push_str(&piece);
                let event = answer.at("response.output_text.delta", ("delta", &json!(piece)));
                Some((Ok(written(&[event])), Some((false, answer, listener))))
            }
            Heard::End => {
                let _numbers = answer.shared.runner.wait(&answer.id, LAST_NUMBERS).await;
                Some((Ok(ended(&answer.last())), None))
            }
            Heard::Failed(why) => {
                let failed = answer.resource("failed", Some(&why));
                let event = json!({ "type": "response.failed", "response": failed });
                Some((Ok(ended(&[event])), None))
            }
        }
    });
    let mut response = Response::new(Body::from_stream(parts));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

fn written(events: &[Value]) -> Bytes {
    let line = |event: &Value| {
        let name = event["type"].as_str().unwrap_or_default();
        format!("event: {name}\ndata: {event}\n\n")
    };
    Bytes::from(events.iter().map(line).collect::<String>())
}

/// The last events, and that there are no more.
fn ended(events: &[Value]) -> Bytes {
    let mut bytes = written(events).to_vec();
    bytes.extend_from_slice(b"data: [DONE]\n\n");
    Bytes::from(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_gone_on_from_by_whoever_got_it() {
        let answered = Answered::default();
        answered.keep("resp_1", "a", "agent:main:x");
        assert_eq!(answered.session("resp_1", "a").as_deref(), Some("agent:main:x"));
        assert_eq!(answered.session("resp_1", "b"), None);
        assert_eq!(answered.session("resp_2", "a"), None);
        for number in 0..REMEMBERED {
            answered.keep(&format!("r{number}"), "a", "s");
        }
        assert_eq!(answered.session("resp_1", "a"), None);
    }
}
