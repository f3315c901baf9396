//! `exec.approval.*`: questions to people, put and answered through the gateway.
//!
//! A question that a client puts is the client's own business: nothing runs here for it. What the
//! client says about itself and its command is shown to people and believed by nobody.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use clawpen_engine::approvals_file::now_ms;
use clawpen_engine::audit::Door;
use clawpen_engine::broker::{
    Approval, Ask, Asker, BrokerError, DEFAULT_TIMEOUT, State, Taken, Which,
};
use clawpen_engine::clock::{Clock as _, SystemClock};
use clawpen_engine::random;
use clawpen_rules::approval::Coverage;
use clawpen_rules::approval::answer::{Looks, Word};
use clawpen_rules::approval::resolver::{Place, Resolver, Speaker};
use clawpen_rules::command::{detect_obfuscation, escape};
use clawpen_rules::exec_host::{self, Security};
use clawpen_rules::ids::AgentId;
use clawpen_wire::gateway::{self, ErrorShape};
use serde_json::{Value, json};

use super::{optional, text};
use crate::approvals::{self, Open, with_broker};
use crate::dispatch::{Caller, Session};
use crate::shared::{Shared, unavailable};

/// How long an answer can still be asked for.
const KEPT_MS: u64 = 15_000;
/// However quiet it is, we look so often.
const LOOK: Duration = Duration::from_secs(1);
/// So many names are told of a start that several have.
const SHOWN_NAMES: usize = 3;
/// The longest name that a client may choose for its question.
const MAX_CHOSEN: usize = 200;

/// A question that was put, by the broker's name and the client's.
struct Put {
    id: String,
    open: Open,
}

/// Puts a question and waits for the answer. With `twoPhase` a first answer says that it waits.
pub(crate) async fn request(
    shared: &Arc<Shared>,
    session: &Session,
    (frame, params): (&str, Value),
) -> Result<Value, ErrorShape> {
    let is_two_phase = params["twoPhase"] == json!(true);
    let (put, has_route) = {
        let (shared, caller) = (shared.clone(), session.caller.clone());
        blocking(move || put(&shared, &caller, &params)).await?
    };
    if !has_route {
        // Nobody is there who could answer, so nobody is waited for.
        return Ok(outcome(&put.open, None));
    }
    if is_two_phase {
        let accepted = json!({
            "status": "accepted",
            "id": put.open.shown,
            "createdAtMs": put.open.created_at_ms,
            "expiresAtMs": put.open.expires_at_ms,
        });
        session.outbox.answer(gateway::response(frame, &Ok(accepted)));
    }
    let decision = wait(shared, &put.id).await?;
    Ok(outcome(&put.open, decision))
}

/// Writes a question down and tells whoever may answer.
fn put(shared: &Shared, caller: &Caller, params: &Value) -> Result<(Put, bool), ErrorShape> {
    let (request, command) = shown_request(params)?;
    let mut told = shared.approvals.told();
    let chosen = optional(params, "id").map(str::trim).filter(|id| !id.is_empty());
    if let Some(chosen) = chosen {
        let is_taken = told.iter().any(|(id, open)| id == chosen || open.shown == chosen);
        if is_taken || chosen.len() > MAX_CHOSEN {
            return Err(ErrorShape::invalid("approval id already pending"));
        }
    }
    let agent = optional(params, "agentId").map_or_else(AgentId::main, AgentId::normalize);
    let timeout = params["timeoutMs"].as_u64().map_or(DEFAULT_TIMEOUT, Duration::from_millis);
    let client = caller.voice();
    let variables = params["env"].as_object().into_iter().flatten();
    let variables: Vec<(String, String)> = variables
        .map(|(name, value)| (name.clone(), value.as_str().unwrap_or_default().to_owned()))
        .collect();
    let ask = Ask {
        command: &command,
        cwd: optional(params, "cwd").unwrap_or_default(),
        session: optional(params, "sessionKey"),
        agent: &agent,
        plan: None,
        variables: &variables,
        reasons: vec![format!("`{}` of the gateway asks", escape(&caller.name()))],
        security: Security::Allowlist,
        ask: exec_host::Ask::Always,
        fallback: Security::Deny,
        looks: Looks::of(&detect_obfuscation(&command)),
        coverage: Coverage::NotAnalysable,
        entries: &[],
        asker: Asker { door: Door::Websocket, client: Some(&client), agent_process: None },
        timeout,
    };
    if !shared.hub.has_answerer_besides(&caller.connection) {
        let created_at_ms = now_ms();
        let expires_at_ms = created_at_ms.saturating_add(millis(timeout));
        let shown = chosen.map_or_else(random::uuid, str::to_owned);
        let open = Open { shown: shown.clone(), request, created_at_ms, expires_at_ms };
        return Ok((Put { id: shown, open }, false));
    }
    let asked = with_broker(shared, |broker| {
        let id = broker.request(&ask)?;
        broker.get(id.as_str())
    })?;
    let approval = asked.map_err(|error| ErrorShape::unavailable(error.to_string()))?;
    let id = approval.id.to_string();
    let created_at_ms = approval.asked.wall.as_millis();
    let open = Open {
        shown: chosen.map_or_else(|| id.clone(), str::to_owned),
        request,
        created_at_ms,
        expires_at_ms: created_at_ms.saturating_add(millis(approval.timeout)),
    };
    approvals::announce(shared, &mut told, &id, open.clone());
    Ok((Put { id, open }, true))
}

/// The request as people see it, and its command.
fn shown_request(params: &Value) -> Result<(Value, String), ErrorShape> {
    let is_node = optional(params, "host") == Some("node");
    let plan = &params["systemRunPlan"];
    if is_node && optional(params, "nodeId").is_none_or(|id| id.trim().is_empty()) {
        return Err(ErrorShape::invalid("nodeId is required for host=node"));
    }
    if is_node && !plan.is_object() {
        return Err(ErrorShape::invalid("systemRunPlan is required for host=node"));
    }
    let planned = plan["commandText"].as_str().filter(|_| is_node);
    let written = planned.unwrap_or_else(|| text(params, "command"));
    let command = written.trim();
    if command.is_empty() {
        return Err(ErrorShape::invalid("command is required"));
    }
    let mut request = json!({
        "command": escape(written),
        "systemRunBinding": Value::Null,
        "systemRunPlan": Value::Null,
    });
    for key in [
        "cwd",
        "nodeId",
        "host",
        "security",
        "ask",
        "agentId",
        "resolvedPath",
        "sessionKey",
        "turnSourceChannel",
        "turnSourceTo",
        "turnSourceAccountId",
        "turnSourceThreadId",
    ] {
        let text = optional(params, key).map(str::trim).filter(|text| !text.is_empty());
        request[key] = text.map_or(Value::Null, |text| json!(escape(text)));
    }
    if params["turnSourceThreadId"].is_number() {
        request["turnSourceThreadId"] = params["turnSourceThreadId"].clone();
    }
    if is_node {
        add_plan(&mut request, plan);
    }
    if let Some(argv) = params["commandArgv"].as_array() {
        let words = argv.iter().filter_map(Value::as_str).map(escape);
        request["commandArgv"] = json!(words.collect::<Vec<_>>());
    }
    if let Some(variables) = params["env"].as_object() {
        let mut names: Vec<String> = variables.keys().map(|name| escape(name)).collect();
        names.sort();
        request["envKeys"] = json!(names);
    }
    Ok((request, command.to_owned()))
}

/// Adds what a node would run. What the plan says counts more than what stands beside it.
fn add_plan(request: &mut Value, plan: &Value) {
    let mut binding = json!({ "argv": plan["argv"], "envHash": Value::Null });
    for key in ["cwd", "agentId", "sessionKey"] {
        binding[key] = plan[key].clone();
        if let Some(said) = plan[key].as_str() {
            request[key] = json!(escape(said));
        }
    }
    let mut plan = plan.clone();
    if plan.get("commandPreview").is_none() {
        plan["commandPreview"] = Value::Null;
    }
    request["systemRunBinding"] = binding;
    request["systemRunPlan"] = plan;
}

/// Waits for the answer to a question; may be called many times, and shortly after the answer too.
pub(crate) async fn wait_decision(
    shared: &Arc<Shared>,
    params: Value,
) -> Result<Value, ErrorShape> {
    let wanted = text(&params, "id").trim().to_owned();
    if wanted.is_empty() {
        return Err(ErrorShape::invalid("id is required"));
    }
    let (id, open) = {
        let shared = shared.clone();
        blocking(move || find(&shared, &wanted)).await?
    };
    let decision = wait(shared, &id).await?;
    Ok(outcome(&open, decision))
}

/// A question that waits, or was answered a moment ago.
fn find(shared: &Shared, wanted: &str) -> Result<(String, Open), ErrorShape> {
    let gone = || ErrorShape::invalid("approval expired or not found");
    let known = {
        let told = shared.approvals.told();
        let found = told.iter().find(|(id, open)| *id == wanted || open.shown == wanted);
        found.map(|(id, open)| (id.clone(), open.clone()))
    };
    if let Some(known) = known {
        return Ok(known);
    }
    let named = shared.approvals.settled(wanted);
    let id = named.as_ref().map_or(wanted, |(id, _)| id.as_str());
    let approval = with_broker(shared, |broker| broker.get(id))?.map_err(not_found)?;
    let is_exact = approval.id.as_str() == id;
    let since = approval.answered.as_ref().map(|at| now_ms().saturating_sub(at.wall.as_millis()));
    let is_fresh = since.is_none_or(|since| since <= KEPT_MS);
    if is_exact && is_fresh {
        Ok(named.unwrap_or_else(|| (wanted.to_owned(), Open::of(shared, &approval))))
    } else {
        Err(gone())
    }
}

async fn wait(shared: &Arc<Shared>, id: &str) -> Result<Option<Word>, ErrorShape> {
    let mut changes = shared.approvals.changes();
    loop {
        let (asked, id) = (shared.clone(), id.to_owned());
        let approval = blocking(move || look(&asked, &id)).await?;
        if approval.state != State::Pending {
            return Ok(approval.word);
        }
        let left = approval.left(&SystemClock.now()).min(LOOK) + Duration::from_millis(1);
        // Told, or time to look again: both mean to look.
        let _ = tokio::time::timeout(left, changes.changed()).await;
    }
}

fn look(shared: &Shared, id: &str) -> Result<Approval, ErrorShape> {
    let looked = with_broker(shared, |broker| {
        let approval = broker.get(id)?;
        if approval.state == State::Pending && approval.left(&SystemClock.now()).is_zero() {
            // Settles what is due.
            broker.list(Which::Pending)?;
            return broker.get(id);
        }
        Ok(approval)
    })?;
    looked.map_err(not_found)
}

fn not_found(error: BrokerError) -> ErrorShape {
    match error {
        BrokerError::NotFound { .. } | BrokerError::Ambiguous { .. } => {
            ErrorShape::invalid("approval expired or not found")
        }
        other => unavailable(&other),
    }
}

fn outcome(open: &Open, decision: Option<Word>) -> Value {
    json!({
        "id": open.shown,
        "decision": decision.map(Word::as_str),
        "createdAtMs": open.created_at_ms,
        "expiresAtMs": open.expires_at_ms,
    })
}

/// Answers a question. Whether this client may is asked of the broker.
pub(crate) fn resolve(
    shared: &Shared,
    caller: &Caller,
    params: &Value,
) -> Result<Value, ErrorShape> {
    let unknown = || {
        ErrorShape::invalid("unknown or expired approval id")
            .with_details(json!({ "reason": "APPROVAL_NOT_FOUND" }))
    };
    let word = Word::parse(text(params, "decision").trim());
    let word = word.ok_or_else(|| ErrorShape::invalid("invalid decision"))?;
    let wanted = text(params, "id").trim();
    if wanted.is_empty() {
        return Err(unknown());
    }
    let mut told = shared.approvals.told();
    let id = named(&told, wanted)?.unwrap_or_else(|| wanted.to_lowercase());
    let speaker = Speaker::GatewayClient { client: caller.voice(), scope: caller.approval_scope() };
    let voice = Resolver { speaker, place: Place::Connection };
    let taken = with_broker(shared, |broker| broker.resolve(&id, word, &voice))?;
    let taken = taken.map_err(|error| match error {
        BrokerError::NotFound { .. } => unknown(),
        BrokerError::Ambiguous { found, .. } => ambiguous(&found),
        other => unavailable(&other),
    })?;
    match taken.what {
        Taken::Counts { .. } => {
            let answer = Some((word.as_str(), caller.name()));
            let answer = answer.as_ref().map(|(word, by)| (*word, by.as_str()));
            approvals::settle(shared, &mut told, taken.id.as_str(), answer);
            Ok(json!({ "ok": true }))
        }
        Taken::Late { .. } => Err(unknown()),
        Taken::Refused(why) => Err(ErrorShape::invalid(why.to_string())),
    }
}

/// The question that a name of an asker's own choice, or the start of one, means; `None` if no such name is known.
fn named(told: &HashMap<String, Open>, wanted: &str) -> Result<Option<String>, ErrorShape> {
    let wanted = wanted.to_lowercase();
    let starts = |open: &Open| open.shown.to_lowercase().starts_with(&wanted);
    let mut found: Vec<(&String, &Open)> = told.iter().filter(|(_, open)| starts(open)).collect();
    let whole = found.iter().find(|(_, open)| open.shown.to_lowercase() == wanted);
    if let Some((id, _)) = whole {
        return Ok(Some((*id).clone()));
    }
    found.sort_by_key(|(_, open)| open.created_at_ms);
    match found.as_slice() {
        [] => Ok(None),
        [(id, _)] => Ok(Some((*id).clone())),
        several => {
            let mut names: Vec<String> =
                several.iter().map(|(_, open)| open.shown.clone()).collect();
            names.sort();
            Err(ambiguous(&names))
        }
    }
}

/// A start that several names have: some of them are told.
fn ambiguous(names: &[String]) -> ErrorShape {
    let shown = names.iter().take(SHOWN_NAMES).cloned().collect::<Vec<_>>().join(", ");
    let more = match names.len().saturating_sub(SHOWN_NAMES) {
        0 => String::new(),
        more => format!(" (+{more} more)"),
    };
    let what = format!("ambiguous approval id prefix; matches: {shown}{more}. Use the full id.");
    ErrorShape::invalid(what)
}

/// Everything that waits.
pub(crate) fn list(shared: &Shared) -> Result<Value, ErrorShape> {
    let told = shared.approvals.told();
    let pending = with_broker(shared, |broker| broker.list(Which::Pending))?;
    let pending = pending.map_err(|error| unavailable(&error))?;
    let shown = pending.iter().map(|approval| {
        let known = told.get(approval.id.as_str());
        known.map_or_else(|| Open::of(shared, approval).payload(), Open::payload)
    });
    Ok(Value::Array(shown.collect()))
}

/// One that waits.
pub(crate) fn get(shared: &Shared, params: &Value) -> Result<Value, ErrorShape> {
    let (_, open) = find(shared, text(params, "id").trim())?;
    Ok(open.payload())
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Does something that may wait for a file, on a thread that may.
async fn blocking<T: Send + 'static>(
    job: impl FnOnce() -> Result<T, ErrorShape> + Send + 'static,
) -> Result<T, ErrorShape> {
    let done = tokio::task::spawn_blocking(job).await;
    done.unwrap_or_else(|_| Err(ErrorShape::unavailable("internal error")))
}
