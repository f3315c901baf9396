//! The webhooks: `POST <hooks.path>/wake`, `/agent` and the names of `hooks.mappings`.
//!
//! Whoever calls shows the token of the hooks, which opens nothing else. What he sends is cleaned and marked as foreign
//! (`rules/web/wrap.rs`) and then runs as any message does: in a session of its own, under its policy, in its sandbox.
//! Nobody has sent it: no directive is read, nothing is elevated, and nobody is there to answer an approval.

mod call;

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::Request;
use axum::http::header::{AUTHORIZATION, CONTENT_LENGTH, RETRY_AFTER};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::Response;
use clawpen_engine::call::Who;
use clawpen_engine::random;
use clawpen_engine::runner::{Answers, Approvals, Origin, Request as Run, Wishes};
use clawpen_rules::access::connect::SecretVerdict;
use clawpen_rules::chat_message;
use clawpen_rules::directives::Authority;
use clawpen_rules::hooks::session::{HookSession, KeyFrom, LABEL, Wanted};
use clawpen_rules::hooks::template::{Template, TooLong};
use clawpen_rules::hooks::{self, Action, Content, Hooks, HooksRefused, Mapping, Mode, Route};
use clawpen_rules::js_number;
use clawpen_rules::models::ModelRef;
use clawpen_rules::session::entry::{decide_model, default_model};
use clawpen_rules::web::wrap;
use clawpen_wire::gateway::{ErrorCode, ErrorShape};
use serde_json::{Value, json};

use super::{fresh_without_cache, not_allowed, peer, plain};
use crate::auth::{self, Guard, Shown};
use crate::journal::Level;
use crate::methods::{chat, heartbeat, sessions};
use crate::shared::Shared;
use crate::socket::Caller;
use crate::throttle::What;
use call::{Call, pairs};

/// Characters of what a hook is sent that a model is shown.
const MOST_SHOWN: usize = 200_000;
/// The same in a line of the main session, so that its marks stand in that line whole.
const MOST_IN_A_LINE: usize = 6000;
/// Runs of hooks that have not ended, waiting ones included: far less than are taken in all, so that a flood of calls
/// leaves room for people.
pub(crate) const MOST_RUNS: usize = 100;
/// Nobody waits longer for a run.
const LONGEST: u64 = 48 * 60 * 60;

/// Where a path leads, if the config has hooks.
pub(super) enum Door {
    Elsewhere,
    Here(Box<Hooks>),
    /// The config was changed to one with which no gateway starts.
    Shut(HooksRefused),
}

/// Says whether a path is a hook's, by the config of this moment.
pub(super) fn door(shared: &Shared, path: &str) -> Door {
    let Ok(sound) = shared.sound() else { return Door::Elsewhere };
    match read(&sound.store.loaded.config, &shared.guard) {
        Ok(Some(found)) if found.route(path) != Route::Elsewhere => Door::Here(Box::new(found)),
        Err(why) if path == "/hooks" || path.starts_with("/hooks/") => Door::Shut(why),
        Ok(_) | Err(_) => Door::Elsewhere,
    }
}

/// The hooks of a config; its token must be nobody else's.
pub(crate) fn read(
    config: &clawpen_rules::config::Config,
    guard: &Guard,
) -> Result<Option<Hooks>, HooksRefused> {
    let found = hooks::resolve(config)?;
    if let Some(found) = &found {
        let token = Some(found.token.as_str());
        let is_gateways = match guard {
            Guard::Token(_) | Guard::Password(_) => {
                let shown = Shown { token, password: token, user: None };
                guard.check(shown) == SecretVerdict::Right
            }
            Guard::Proxy(_) | Guard::None => false,
        };
        if is_gateways {
            return Err(HooksRefused::TokenIsGateways);
        }
    }
    Ok(found)
}

/// Why nothing is run.
enum Refused {
    Bad(String),
    NotFound,
    Unavailable(String),
}

impl From<TooLong> for Refused {
    fn from(error: TooLong) -> Self {
        Self::Bad(error.to_string())
    }
}

impl From<ErrorShape> for Refused {
    fn from(error: ErrorShape) -> Self {
        match error.code {
            ErrorCode::InvalidRequest => Self::Bad(error.message),
            ErrorCode::Unavailable | ErrorCode::NotPaired => Self::Unavailable(error.message),
        }
    }
}

pub(super) async fn serve(
    shared: &Arc<Shared>,
    caller: Caller,
    request: Request,
    found: Box<Hooks>,
) -> Response {
    let query = request.uri().query().unwrap_or_default().to_owned();
    if pairs(&query).any(|(name, _)| name == "token") {
        let what = "a hook's token comes in the header Authorization (Bearer) or X-OpenClaw-Token, never in the address";
        return plain(StatusCode::BAD_REQUEST, what);
    }
    if *request.method() != Method::POST {
        return not_allowed("POST");
    }
    if let Err(refused) = admit(shared, &caller, (request.headers(), &found)) {
        return *refused;
    }
    let path = request.uri().path().to_owned();
    if found.route(&path) == Route::Nothing {
        return plain(StatusCode::NOT_FOUND, "Not Found");
    }
    let headers = request.headers().clone();
    let length = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    let too_large = || no(StatusCode::PAYLOAD_TOO_LARGE, "payload too large");
    if length.is_some_and(|length: usize| length > found.most_bytes) {
        return too_large();
    }
    caller.allowance.extend();
    let body = axum::body::to_bytes(request.into_body(), found.most_bytes).await;
    let Ok(body) = body else { return too_large() };
    let payload: Value = if body.iter().all(u8::is_ascii_whitespace) {
        json!({})
    } else {
        match serde_json::from_slice(&body) {
            Ok(payload @ (Value::Object(_) | Value::Array(_))) => payload,
            Ok(_) => return no(StatusCode::BAD_REQUEST, "the body must be a JSON object"),
            Err(error) => {
                let what = format!("the body is no valid JSON: {error}");
                return no(StatusCode::BAD_REQUEST, &what);
            }
        }
    };
    let call = Call { path, query, headers, payload };
    let door = shared.clone();
    let done = tokio::task::spawn_blocking(move || carry_out(&door, (&found, &call))).await;
    match done {
        Ok(Ok(answer)) => fresh_without_cache(StatusCode::OK, &answer),
        Ok(Err(Refused::Bad(why))) => no(StatusCode::BAD_REQUEST, &why),
        Ok(Err(Refused::NotFound)) => plain(StatusCode::NOT_FOUND, "Not Found"),
        Ok(Err(Refused::Unavailable(why))) => no(StatusCode::SERVICE_UNAVAILABLE, &why),
        Err(_) => no(StatusCode::INTERNAL_SERVER_ERROR, "internal error"),
    }
}

fn no(code: StatusCode, why: &str) -> Response {
    fresh_without_cache(code, &json!({ "ok": false, "error": why }))
}

/// The answer where the config would not let a gateway start. Whoever calls has shown nothing yet, and is not told what
/// is wrong: that a token is the gateway's own secret is worth more than the hooks to somebody who holds it.
pub(super) fn shut(shared: &Shared, why: &HooksRefused) -> Response {
    let why = why.to_string();
    let mut noted = shared.hooks_shut.lock().unwrap_or_else(PoisonError::into_inner);
    // Once: a day's log is bounded, and whoever calls could fill it.
    if *noted != why {
        shared.journal.note(Level::Warn, "no webhook is open", &json!({ "why": why }));
        *noted = why;
    }
    no(StatusCode::SERVICE_UNAVAILABLE, "no hook is open; the gateway's log says why")
}

/// Lets a call through that shows the token. Whoever guesses is not listened to for a while, not even when he is right.
fn admit(
    shared: &Shared,
    caller: &Caller,
    (headers, found): (&HeaderMap, &Hooks),
) -> Result<(), Box<Response>> {
    let peer = peer(shared, caller.address.ip(), headers);
    let guesser = shared.hook_throttle.guesser(&peer, What::HookToken);
    if let Some(left) = shared.hook_throttle.wait(guesser, Instant::now()) {
        let mut response = plain(StatusCode::TOO_MANY_REQUESTS, "Too Many Requests");
        let seconds = HeaderValue::from(left.as_secs() + 1);
        response.headers_mut().insert(RETRY_AFTER, seconds);
        return Err(Box::new(response));
    }
    let unauthorized = || Box::new(plain(StatusCode::UNAUTHORIZED, "Unauthorized"));
    let shown = token(headers).ok_or_else(unauthorized)?;
    if auth::is_same(shown, &found.token) {
        shared.hook_throttle.succeeded(guesser);
        return Ok(());
    }
    shared.hook_throttle.failed(guesser, Instant::now());
    Err(unauthorized())
}

/// The token that a call shows.
fn token(headers: &HeaderMap) -> Option<&str> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let bearer = text(AUTHORIZATION.as_str()).and_then(|header| {
        let (word, token) = header.split_once(' ')?;
        word.eq_ignore_ascii_case("bearer").then(|| token.trim())
    });
    bearer
        .filter(|token| !token.is_empty())
        .or_else(|| text("x-openclaw-token"))
        .filter(|t| !t.is_empty())
}

fn carry_out(shared: &Shared, (found, call): (&Hooks, &Call)) -> Result<Value, Refused> {
    match found.route(&call.path) {
        Route::Wake => {
            let text = call.text("text").ok_or_else(|| Refused::Bad("text required".to_owned()))?;
            let mode = Mode::parse(call.payload["mode"].as_str());
            let allowed = found.decide_wake(&shared.sound()?.store.loaded.config);
            allowed.map_err(|why| Refused::Bad(why.to_string()))?;
            wake(shared, (&foreign(text, "wake", MOST_IN_A_LINE), mode))
        }
        Route::Agent => run(shared, found, direct(call)?, call),
        Route::Mapped(name) => {
            let mapping = found.mapping(name, call.payload["source"].as_str());
            let mapping = mapping.ok_or(Refused::NotFound)?;
            match mapping.action {
                Action::Wake => {
                    let text = call.fill(name, &mapping.text)?;
                    let text = text.trim();
                    if text.is_empty() {
                        return Err(Refused::Bad("hook mapping requires text".to_owned()));
                    }
                    let text = match mapping.content {
                        Content::Foreign => foreign(text, &mapping.id, MOST_IN_A_LINE),
                        Content::AsItIs => text.to_owned(),
                    };
                    wake(shared, (&text, mapping.mode))
                }
                Action::Agent => run(shared, found, mapped(call, name, mapping)?, call),
            }
        }
        Route::Nothing | Route::Elsewhere => Err(Refused::NotFound),
    }
}

/// Text between marks that it cannot know.
fn foreign(text: &str, name: &str, most: usize) -> String {
    wrap::wrap_hook(text, (&random::uuid(), name), most)
}

/// Says something in the main session, as the method `wake` does.
fn wake(shared: &Shared, (text, mode): (&str, Mode)) -> Result<Value, Refused> {
    heartbeat::wake(shared, &json!({ "mode": mode.as_str(), "text": text }))?;
    Ok(json!({ "ok": true, "mode": mode.as_str() }))
}

/// A run that is asked for.
struct Asked {
    message: String,
    name: String,
    agent: Option<String>,
    key: Option<(String, KeyFrom)>,
    model: Option<String>,
    timeout: Option<u64>,
    content: Content,
}

impl Asked {
    /// What tells one run from another.
    fn scope(&self) -> Value {
        let Self { message, name, agent, key, model, timeout, content: _ } = self;
        json!([message, name, agent, key.as_ref().map(|(key, _)| key), model, timeout])
    }
}

/// What `/agent` asks for.
fn direct(call: &Call) -> Result<Asked, Refused> {
    let bad = |what: &str| Refused::Bad(what.to_owned());
    let message = call.text("message").ok_or_else(|| bad("message required"))?.to_owned();
    match &call.payload["channel"] {
        Value::Null => {}
        Value::String(channel) if channel.trim().eq_ignore_ascii_case("last") => {}
        _ => return Err(bad("channel must be last: no channel is part of this build")),
    }
    let model = call.text("model").map(str::to_owned);
    if model.is_none() && call.payload.get("model").is_some() {
        return Err(bad("model required"));
    }
    let seconds = call.payload["timeoutSeconds"].as_f64().filter(|seconds| *seconds >= 1.0);
    let seconds = seconds.and_then(js_number::whole);
    Ok(Asked {
        message,
        name: call.text("name").unwrap_or("Hook").to_owned(),
        agent: call.text("agentId").map(str::to_owned),
        key: call.text("sessionKey").map(|key| (key.to_owned(), KeyFrom::Request)),
        model,
        timeout: seconds,
        content: Content::Foreign,
    })
}

/// What a mapping makes of a call.
fn mapped(call: &Call, name: &str, mapping: &Mapping) -> Result<Asked, Refused> {
    let filled = |template: &Option<Template>| {
        let text = template.as_ref().map(|template| call.fill(name, template)).transpose()?;
        let text = text.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
        Ok::<_, Refused>(text)
    };
    let message = call.fill(name, &mapping.text)?.trim().to_owned();
    if message.is_empty() {
        return Err(Refused::Bad("hook mapping requires message".to_owned()));
    }
    let from = match &mapping.session {
        Some(template) if template.is_fixed() => KeyFrom::Config,
        Some(_) | None => KeyFrom::Template,
    };
    Ok(Asked {
        message,
        name: filled(&mapping.name)?.unwrap_or_else(|| "Hook".to_owned()),
        agent: mapping.agent.clone(),
        key: filled(&mapping.session)?.map(|key| (key, from)),
        model: filled(&mapping.model)?,
        timeout: mapping.timeout_seconds,
        content: mapping.content,
    })
}

/// Starts a run in a session of its own.
fn run(shared: &Shared, found: &Hooks, asked: Asked, call: &Call) -> Result<Value, Refused> {
    let sound = shared.sound()?;
    let config = &sound.store.loaded.config;
    let fresh = random::uuid();
    let key = asked.key.as_ref().map(|(key, from)| (key.as_str(), *from));
    let wanted = Wanted { agent: asked.agent.as_deref(), key, fresh: &fresh };
    let session = found.decide_session(config, &wanted);
    let session = session.map_err(|why| Refused::Bad(why.to_string()))?;
    if let Some(entry) = sessions::meant(&sound, &session.key)?.entry()? {
        let label = entry.get("label").and_then(Value::as_str);
        session.decide_stored(label).map_err(|why| Refused::Bad(why.to_string()))?;
    }
    let HookSession { agent, key, .. } = session;
    let model = match &asked.model {
        None => None,
        Some(text) => {
            let default = default_model(config, &agent);
            let model = decide_model(config, default.as_ref(), text);
            let model = model.map_err(|why| Refused::Bad(why.to_string()))?;
            let name = ModelRef::parse(&format!("{}/{}", model.provider, model.model));
            Some(name.ok_or_else(|| Refused::Bad(format!("invalid model: {text}")))?)
        }
    };
    let name = wrap::title(&asked.name).unwrap_or_else(|| "Hook".to_owned());
    let name: String = name.chars().take(100).collect();
    let message = chat_message::clean(&asked.message);
    let message = match asked.content {
        Content::Foreign => foreign(&message, &name, MOST_SHOWN),
        Content::AsItIs => message,
    };
    let run = call.once(&asked.scope()).unwrap_or_else(random::uuid);
    let is_known = shared.runner.session_of(&run).is_some();
    let crowded = || Refused::Unavailable(chat::CROWDED.to_owned());
    if !is_known && chat::is_crowded(&shared.runner, &key) {
        return Err(crowded());
    }
    let place = if is_known {
        None
    } else {
        Some(Arc::clone(&shared.hook_runs).try_acquire_owned().map_err(|_full| crowded())?)
    };
    let request = Run {
        who: Who { session: Some(key.clone()), ..Who::default() },
        authority: Authority::Writer,
        answers: Answers::Nobody,
        message,
        attachments: Vec::new(),
        run: Some(run),
        timeout: asked.timeout.map(|seconds| Duration::from_secs(seconds.min(LONGEST))),
        origin: Origin::Hook,
        approvals: Approvals::FollowUp,
        wishes: Wishes { model, instructions: None, label: Some(format!("{LABEL}{name}")) },
    };
    let started = shared.runner.start(request).map_err(chat::not_started)?;
    let (runner, run) = (shared.runner.clone(), started.run.clone());
    drop(tokio::spawn(async move {
        let _ended = runner.wait(&run, Duration::from_secs(LONGEST)).await;
        drop(place);
    }));
    let about = json!({ "hook": name, "run": started.run, "session": started.session });
    shared.journal.note(Level::Info, "a webhook was taken", &about);
    Ok(json!({ "ok": true, "runId": started.run }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_comes_in_one_of_two_headers() {
        let with = |name: &'static str, value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(name, HeaderValue::from_static(value));
            token(&headers).map(str::to_owned)
        };
        assert_eq!(with("authorization", "bearer  t ").as_deref(), Some("t"));
        assert_eq!(with("authorization", "Basic t"), None);
        assert_eq!(with("authorization", "Bearer "), None);
        assert_eq!(with("x-openclaw-token", " t ").as_deref(), Some("t"));
    }
}
