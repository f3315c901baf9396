//! `chat.*`, `agent`, `agent.wait`: messages for agents, and what becomes of their runs.
//!
//! The message's sender is what his credential proved: what he may do with a directive follows from his scopes, and
//! whom he may end from his connection and device. What runs, runs in the engine's runner and through its desk.

mod attachments;
mod finish;
mod wanted;

use std::sync::Arc;
use std::time::Duration;

use clawpen_engine::call::{ToolCallError, Who};
use clawpen_engine::random;
use clawpen_engine::runner::{
    Answers, Approvals, Origin, Request, Runner, StartError, StartStatus, Wishes,
};
use clawpen_engine::transcript::Transcript;
use clawpen_rules::access::Scope;
use clawpen_rules::chat_message;
use clawpen_rules::directives::{self, Authority, Directive, Input};
use clawpen_rules::elevated::Sender;
use clawpen_wire::gateway::{self, ErrorShape};
use serde_json::{Value, json};

use super::{optional, sessions, text};
use crate::dispatch::{Caller, Session};
use crate::hub::Slow;
use crate::runs::{Ender, Kind, NotEnded, Runs};
use crate::shared::{Shared, unavailable};

pub(crate) use finish::wait;
pub(crate) use wanted::instructions;

/// The channel of `tools.elevated.allowFrom` that speaks of this door.
const PROVIDER: &str = "webchat";
/// Messages of one session that may wait for their turn, and runs of all sessions.
const MOST_WAITING: usize = 20;
const MOST_RUNS: usize = 500;
/// How long the end of an aborted run is waited for before the answer leaves. It takes milliseconds; a machine that is
/// busy may need longer, and an answer that came first would say that something is dead which is not.
const ABORT_WAIT: Duration = Duration::from_secs(10);
/// Names of runs that only this gateway gives.
const OWN_NAMES: &[&str] =
    &["exec-approval-followup:", "subagent-followup:", "inject-", "webhook:"];

/// A message for a session, as any method of this family puts it.
struct Message<'a> {
    key: &'a str,
    text: &'a str,
    run: String,
    kind: Kind,
    timeout: Option<Duration>,
    params: &'a Value,
    wishes: Wishes,
    origin: Origin,
}

/// What became of it.
enum Sent {
    /// A run of this name goes on or has ended.
    Run { run: String, status: StartStatus },
    /// It was an order to stop.
    Stopped(Vec<String>),
}

pub(crate) fn send(shared: &Shared, caller: &Caller, params: &Value) -> Result<Value, ErrorShape> {
    check_origin(caller, params)?;
    send_wishing(shared, caller, (params, Wishes::default()))
}

/// The same, with what holds for this run only.
pub(crate) fn send_wishing(
    shared: &Shared,
    caller: &Caller,
    (params, wishes): (&Value, Wishes),
) -> Result<Value, ErrorShape> {
    let message = Message {
        key: text(params, "sessionKey"),
        text: text(params, "message"),
        run: text(params, "idempotencyKey").to_owned(),
        kind: Kind::Chat,
        timeout: params["timeoutMs"].as_u64().filter(|ms| *ms > 0).map(Duration::from_millis),
        params,
        wishes,
        origin: Origin::Person,
    };
    match put(shared, caller, message)? {
        Sent::Stopped(runs) => {
            Ok(json!({ "ok": true, "aborted": !runs.is_empty(), "runIds": runs }))
        }
        Sent::Run { run, status } => finish::status(shared, &run, status),
    }
}

/// Only an admin may speak for others, and there is no channel to answer them on. Where a message came from
/// (`systemInputProvenance`) is taken and gives it nothing: whoever sends it is its sender.
fn check_origin(caller: &Caller, params: &Value) -> Result<(), ErrorShape> {
    let has = |keys: &[&str]| keys.iter().any(|key| params.get(*key).is_some());
    if has(&["systemInputProvenance", "systemProvenanceReceipt"]) && !caller.is_admin() {
        return Err(ErrorShape::invalid("system provenance fields require admin scope"));
    }
    let route = ["originatingChannel", "originatingTo"];
    if !has(&route) && !has(&["originatingAccountId", "originatingThreadId"]) {
        return Ok(());
    }
    if !caller.is_admin() {
        return Err(ErrorShape::invalid("originating route fields require admin scope"));
    }
    for key in route {
        if optional(params, key).is_none_or(|text| text.trim().is_empty()) {
            let what = format!("{key} is required when using originating route fields");
            return Err(ErrorShape::invalid(what));
        }
    }
    let channel = text(params, "originatingChannel");
    Err(ErrorShape::invalid(format!("no channel `{channel}` is part of this build")))
}

/// The same by a session's key, for a session that is there.
pub(crate) fn send_to(
    shared: &Shared,
    caller: &Caller,
    params: &Value,
) -> Result<Value, ErrorShape> {
    let key = text(params, "key");
    let found = sessions::meant(&*shared.sound()?, key)?;
    if found.entry()?.is_none() {
        return Err(ErrorShape::invalid(format!("session not found: {key}")));
    }
    let mut params = params.clone();
    if optional(&params, "idempotencyKey").is_none() {
        params["idempotencyKey"] = json!(random::uuid());
    }
    params["sessionKey"] = json!(key);
    send(shared, caller, &params)
}

/// Ends what runs in a session, then says something to it.
pub(crate) async fn steer(
    shared: &Arc<Shared>,
    caller: &Caller,
    params: &Value,
) -> Result<Value, ErrorShape> {
    end(shared, caller, (text(params, "key"), None)).await?;
    let (door, caller, params) = (shared.clone(), caller.clone(), params.clone());
    blocking(move || send_to(&door, &caller, &params)).await
}

/// Takes a message for an agent.
fn put(shared: &Shared, caller: &Caller, message: Message<'_>) -> Result<Sent, ErrorShape> {
    if message.text.contains('\0') {
        return Err(ErrorShape::invalid("message must not contain null bytes"));
    }
    if OWN_NAMES.iter().any(|own| message.run.starts_with(own)) {
        return Err(ErrorShape::invalid("idempotencyKey begins with a word that is reserved"));
    }
    let words = chat_message::clean(message.text);
    let files = attachments::read(&message.params["attachments"])?;
    if words.trim().is_empty() && files.is_empty() {
        return Err(ErrorShape::invalid("message or attachment required"));
    }
    let found = sessions::meant(&*shared.sound()?, message.key)?;
    let is_person = message.origin == Origin::Person;
    let is_stop = directives::read(&words) == Input::Directive(Directive::Stop);
    if is_stop && is_person && files.is_empty() {
        let ender = Ender { caller, session: &found.key, run: None };
        return Runs::abort(shared, &ender).map(Sent::Stopped).map_err(not_ended);
    }
    let entry = found.entry()?.unwrap_or_default();
    if entry.get("sendPolicy").and_then(Value::as_str) == Some("deny") {
        return Err(ErrorShape::invalid("send blocked by session policy"));
    }
    if shared.runner.session_of(&message.run).is_some_and(|known| known != found.key) {
        return Err(ErrorShape::invalid("idempotencyKey was used for another session"));
    }
    let is_known = shared.runner.session_of(&message.run).is_some();
    if !is_known && is_crowded(&shared.runner, &found.key) {
        return Err(ErrorShape::unavailable(CROWDED));
    }
    if !is_known {
        shared.runs.free(&message.run);
    }
    shared.runs.begin(&message.run, caller, (message.kind, message.key, &found.key));
    let said = words.clone();
    let request = Request {
        who: who(caller, &found.key),
        authority: authority(caller),
        answers: Answers::Client { client: caller.voice(), scope: caller.approval_scope() },
        message: words,
        attachments: files,
        run: Some(message.run.clone()),
        timeout: message.timeout,
        origin: message.origin,
        approvals: Approvals::FollowUp,
        wishes: message.wishes,
    };
    match shared.runner.start(request) {
        Ok(started) => {
            let is_message = !is_person || directives::read(&said) == Input::Message;
            if started.status == StartStatus::Started && is_message {
                shared.runs.took(&started.run, &found.key, &said);
            }
            Ok(Sent::Run { run: started.run, status: started.status })
        }
        Err(error) => {
            if !is_known {
                shared.runs.forget(&message.run);
            }
            Err(not_started(error))
        }
    }
}

/// What is said to whoever comes when too many wait.
pub(crate) const CROWDED: &str = "too many messages wait already; try again later";

/// Whether no more messages are taken for a session.
pub(crate) fn is_crowded(runner: &Runner, session: &str) -> bool {
    runner.active(session).len() >= MOST_WAITING || runner.count() >= MOST_RUNS
}

/// Who speaks, by what the credential proved. The name is a label for people.
fn who(caller: &Caller, session: &str) -> Who {
    Who {
        session: Some(session.to_owned()),
        provider: PROVIDER,
        sender: Sender { id: caller.device.clone(), ..Sender::default() },
        client: Some(caller.name()),
        ..Who::default()
    }
}

fn authority(caller: &Caller) -> Authority {
    if caller.is_admin() {
        Authority::Owner
    } else if caller.scopes.covers(Scope::Approvals) {
        Authority::Approver
    } else {
        Authority::Writer
    }
}

pub(crate) fn not_started(error: StartError) -> ErrorShape {
    match error {
        StartError::Empty => ErrorShape::invalid("message or attachment required"),
        StartError::ZeroByte => ErrorShape::invalid("message must not contain null bytes"),
        StartError::Session(error) => refused(error),
        StartError::Closed => ErrorShape::unavailable("the gateway stops; try again in a moment"),
    }
}

fn refused(error: ToolCallError) -> ErrorShape {
    ErrorShape::invalid(error.for_model())
}

fn not_ended(why: NotEnded) -> ErrorShape {
    ErrorShape::invalid(match why {
        NotEnded::OtherSession => "runId does not match sessionKey",
        NotEnded::NotYours => "unauthorized",
    })
}

pub(crate) async fn abort(
    shared: &Arc<Shared>,
    caller: &Caller,
    params: &Value,
) -> Result<Value, ErrorShape> {
    let asked = (text(params, "sessionKey"), optional(params, "runId"));
    let runs = end(shared, caller, asked).await?;
    Ok(json!({ "ok": true, "aborted": !runs.is_empty(), "runIds": runs }))
}

pub(crate) async fn abort_session(
    shared: &Arc<Shared>,
    caller: &Caller,
    params: &Value,
) -> Result<Value, ErrorShape> {
    let asked = (text(params, "key"), optional(params, "runId"));
    let runs = end(shared, caller, asked).await?;
    let status = if runs.is_empty() { "no-active-run" } else { "aborted" };
    Ok(json!({ "ok": true, "abortedRunId": runs.first(), "status": status }))
}

/// Ends runs; when the answer leaves, what they started is dead, or it resists.
async fn end(
    shared: &Arc<Shared>,
    caller: &Caller,
    (key, run): (&str, Option<&str>),
) -> Result<Vec<String>, ErrorShape> {
    let (door, caller) = (shared.clone(), caller.clone());
    let (key, run) = (key.to_owned(), run.map(str::to_owned));
    let ended = blocking(move || {
        let found = sessions::meant(&*door.sound()?, &key)?;
        let ender = Ender { caller: &caller, session: &found.key, run: run.as_deref() };
        Runs::abort(&door, &ender).map_err(not_ended)
    });
    let ended = ended.await?;
    for run in &ended {
        // Whoever takes longer is still being killed; the answer does not wait for ever.
        let _late = shared.runner.wait(run, ABORT_WAIT).await;
    }
    Ok(ended)
}

/// Runs an agent and answers twice: that it was taken, and what came of it.
pub(crate) async fn agent(
    shared: &Arc<Shared>,
    session: &Session,
    (frame, params): (&str, Value),
) -> Result<Value, ErrorShape> {
    let run = text(&params, "idempotencyKey").to_owned();
    let taken = {
        let _hold = Runs::hold(shared, &run);
        let (door, caller) = (shared.clone(), session.caller.clone());
        let taken = blocking(move || take(&door, &caller, &params)).await?;
        if let Sent::Run { run, .. } = &taken {
            let accepted = json!({
                "runId": run,
                "status": "accepted",
                "acceptedAt": clawpen_engine::approvals_file::now_ms(),
            });
            session.outbox.answer(gateway::response(frame, &Ok(accepted)));
        }
        taken
    };
    match taken {
        Sent::Stopped(runs) => Ok(json!({ "runId": run, "status": "ok", "summary": "stopped",
                                          "result": { "payloads": [], "meta": { "stopped": runs } } })),
        Sent::Run { run, .. } => finish::result(shared, &run).await,
    }
}

fn take(shared: &Shared, caller: &Caller, params: &Value) -> Result<Sent, ErrorShape> {
    let key = session_of(shared, params)?;
    let (wishes, origin) = wanted::read(shared, caller, (&key, params))?;
    let seconds = params["timeout"].as_u64().filter(|seconds| *seconds > 0);
    let message = Message {
        key: &key,
        text: text(params, "message"),
        run: text(params, "idempotencyKey").to_owned(),
        kind: Kind::Agent,
        timeout: seconds.map(Duration::from_secs),
        params,
        wishes,
        origin,
    };
    put(shared, caller, message)
}

/// Which session `agent` means: by key, by id, or an agent's main one.
fn session_of(shared: &Shared, params: &Value) -> Result<String, ErrorShape> {
    let sound = shared.sound()?;
    let agent = optional(params, "agentId").map(clawpen_rules::ids::AgentId::normalize);
    if let Some(agent) = &agent
        && !super::agents::all(&sound).contains(agent)
    {
        let what = format!("invalid agent params: unknown agent id \"{agent}\"");
        return Err(ErrorShape::invalid(what));
    }
    if let Some(key) = optional(params, "sessionKey") {
        let found = sessions::meant(&sound, key)?;
        if let Some(agent) = agent.filter(|agent| agent != found.session.agent()) {
            return Err(ErrorShape::invalid(format!(
                "invalid agent params: agent \"{agent}\" does not match session key agent \"{}\"",
                found.session.agent()
            )));
        }
        return Ok(key.to_owned());
    }
    if let Some(id) = optional(params, "sessionId") {
        let found = sessions::resolve(shared, &json!({ "sessionId": id }))?;
        return Ok(text(&found, "key").to_owned());
    }
    Ok(agent.map_or_else(|| "main".to_owned(), |agent| format!("agent:{agent}:main")))
}

/// Writes an answer into a session that no model gave. Only for who may change everything.
pub(crate) fn inject(shared: &Shared, params: &Value) -> Result<Value, ErrorShape> {
    let sound = shared.sound()?;
    let key = text(params, "sessionKey");
    let found = sessions::meant(&sound, key)?;
    let entry = found.entry()?;
    let id = entry.as_ref().and_then(|entry| entry.get("sessionId")).and_then(Value::as_str);
    let Some(id) = id else { return Err(ErrorShape::invalid("session not found")) };
    let words = chat_message::clean(text(params, "message"));
    let label = optional(params, "label").map(str::trim).filter(|label| !label.is_empty());
    let words = label.map_or_else(|| words.clone(), |label| format!("[{label}]\n\n{words}"));
    let place = shared.runner.place(&Who { session: Some(found.key.clone()), ..Who::default() });
    let place = place.map_err(refused)?;
    let transcript = Transcript::of(&place.sessions, id, "/");
    let transcript = transcript.ok_or_else(|| ErrorShape::invalid("session not found"))?;
    let message = sessions::injected(&words);
    let written =
        transcript.message(&message, Shared::now()).map_err(|error| unavailable(&error))?;
    let payload = json!({
        "runId": format!("inject-{written}"), "sessionKey": key, "seq": 0, "state": "final",
        "message": message,
    });
    shared.hub.broadcast("chat", &payload, Slow::Close);
    shared.hub.note_news(&found.key);
    Ok(json!({ "ok": true, "messageId": written }))
}

/// Does something that may wait for a file, on a thread that may.
async fn blocking<T: Send + 'static>(
    job: impl FnOnce() -> Result<T, ErrorShape> + Send + 'static,
) -> Result<T, ErrorShape> {
    let done = tokio::task::spawn_blocking(job).await;
    done.unwrap_or_else(|_| Err(ErrorShape::unavailable("internal error")))
}
