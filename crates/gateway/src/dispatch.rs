//! From a frame to a method: is it a request, may this caller, are the parameters right, then the call.
//!
//! The list of methods in [`call`] is complete: a method that is not built is unknown here.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use clawpen_rules::access::connect::Peer;
use clawpen_rules::access::{self, Access, Need, Role, Scope, Scopes};
use clawpen_rules::approval::resolver::GatewayScope;
use clawpen_wire::gateway::{self, ErrorShape, MAX_UNAUTHORIZED, Request, close, params, shape};
use serde_json::Value;
use tokio::task::JoinSet;

use crate::handshake::Login;
use crate::hub::{Outbox, Turn};
use crate::methods::{
    agents, chat, config, cron, devices, exec_approval, exec_approvals, health, heartbeat,
    identity, logs, models, nodes, sandbox, sessions, skills, tools, usage,
};
use crate::metrics::Outcome;
use crate::runs::Runs;
use crate::shared::Shared;

/// How many requests of one connection may wait for people or run commands.
const MAX_JOBS: usize = 32;

/// Somebody who is logged in, as methods see him.
#[derive(Clone)]
pub(crate) struct Session {
    pub(crate) connection: String,
    pub(crate) presence_key: String,
    pub(crate) caller: Caller,
    pub(crate) outbox: Outbox,
    strikes: Arc<AtomicU32>,
    jobs: Arc<Mutex<JoinSet<()>>>,
}

/// What a method may know about who calls it.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) role: Role,
    pub(crate) scopes: Scopes,
    pub(crate) client_id: String,
    pub(crate) client_mode: String,
    pub(crate) display_name: Option<String>,
    pub(crate) device: Option<String>,
    pub(crate) connection: String,
    pub(crate) address: IpAddr,
    /// It wants to hear of the tools that its messages start.
    pub(crate) hears_tools: bool,
}

impl Caller {
    pub(crate) fn is_admin(&self) -> bool {
        self.scopes.covers(Scope::Admin)
    }

    /// What others call this client: what it calls itself.
    pub(crate) fn name(&self) -> String {
        self.display_name.clone().unwrap_or_else(|| self.client_id.clone())
    }

    /// Who speaks, told apart by what was proven: the device, else this one connection.
    pub(crate) fn voice(&self) -> String {
        match &self.device {
            Some(device) => format!("{} of device {device}", self.client_id),
            None => format!("{} on connection {}", self.client_id, self.connection),
        }
    }

    pub(crate) fn approval_scope(&self) -> GatewayScope {
        if self.role != Role::Operator {
            GatewayScope::Other
        } else if self.scopes.covers(Scope::Admin) {
            GatewayScope::Admin
        } else if self.scopes.covers(Scope::Approvals) {
            GatewayScope::Approvals
        } else {
            GatewayScope::Other
        }
    }

    /// A chat page that is not the control page may not change sessions.
    pub(crate) fn is_plain_webchat(&self) -> bool {
        (self.client_mode == "webchat" || self.client_id == "webchat-ui")
            && self.client_id != "openclaw-control-ui"
    }
}

impl Session {
    pub(crate) fn new(connection: &str, login: &Login, peer: &Peer, outbox: Outbox) -> Self {
        let device = login.device.clone();
        let key = device.clone().or_else(|| login.client.instance.clone());
        Self {
            connection: connection.to_owned(),
            presence_key: key.unwrap_or_else(|| connection.to_owned()),
            caller: Caller {
                role: login.role,
                scopes: login.scopes.clone(),
                client_id: login.client.id.clone(),
                client_mode: login.client.mode.clone(),
                display_name: login.client.display_name.clone(),
                device,
                connection: connection.to_owned(),
                address: peer.address.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
                hears_tools: login.client.hears_tools,
            },
            outbox,
            strikes: Arc::new(AtomicU32::new(0)),
            jobs: Arc::default(),
        }
    }

    /// Ends what still waits or runs for this connection.
    pub(crate) fn end_jobs(&self) {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).abort_all();
    }

    /// Handles a request beside the others, if there are not too many of them already.
    fn start(&self, shared: &Arc<Shared>, request: Request) -> Result<(), ErrorShape> {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        while jobs.try_join_next().is_some() {}
        if jobs.len() >= MAX_JOBS {
            return Err(ErrorShape::unavailable(
                "too many requests of this connection wait already",
            ));
        }
        let (shared, session) = (shared.clone(), self.clone());
        jobs.spawn(async move {
            let id = request.id.clone();
            let started = Instant::now();
            let method = request.method.clone();
            let outcome = call_long(&shared, &session, request).await;
            shared.metrics.note(&method, Outcome::of(&outcome), started.elapsed());
            session.outbox.answer(gateway::response(&id, &outcome));
        });
        Ok(())
    }
}

/// Handles one frame of somebody who is logged in.
pub(crate) async fn frame(shared: &Arc<Shared>, session: &Session, text: &str) {
    // What is no JSON is ignored: there is no id to answer to.
    let Ok(frame) = serde_json::from_str::<Value>(text) else { return };
    let request = match Request::parse(frame) {
        Ok(request) => request,
        Err(bad) => {
            let why = ErrorShape::invalid(format!("invalid request frame: {}", bad.why));
            session.outbox.answer(gateway::response(&bad.id, &Err(why)));
            return;
        }
    };
    let id = request.id.clone();
    let mut hold = None;
    let outcome = if let Err(refusal) = admit(shared, &session.caller, &request) {
        Err(refused(session, &request.method, refusal))
    } else {
        session.strikes.store(0, Ordering::Relaxed);
        if is_long(&request.method) {
            let Err(error) = session.start(shared, request) else { return };
            Err(error)
        } else {
            // Nobody hears of a run before the answer that names it.
            let run = names_run(&request).map(str::to_owned);
            hold = run.map(|run| Runs::hold(shared, &run));
            call_short(shared, session, request).await
        }
    };
    session.outbox.answer(gateway::response(&id, &outcome));
    drop(hold);
    // Who is sent away is told why first.
    if session.strikes.load(Ordering::Relaxed) > MAX_UNAUTHORIZED {
        session.outbox.close(close::POLICY, "repeated unauthorized calls");
    }
}

/// The run that a request begins.
fn names_run(request: &Request) -> Option<&str> {
    match request.method.as_str() {
        "chat.send" | "sessions.send" | "sessions.steer" => {
            request.params["idempotencyKey"].as_str()
        }
        _ => None,
    }
}

/// Why a request does not reach its method.
enum Refusal {
    Access(Access),
    Other(ErrorShape),
}

/// May this caller do this, and is it put right? In this order: who may not is not told more.
fn admit(shared: &Shared, caller: &Caller, request: &Request) -> Result<(), Refusal> {
    let method = request.method.as_str();
    if method == "connect" {
        let what = "connect is only valid as the first request";
        return Err(Refusal::Other(ErrorShape::invalid(what)));
    }
    match access::decide(method, caller.role, &caller.scopes) {
        Access::Allowed => {}
        refused @ (Access::WrongRole(_) | Access::Missing(_)) => {
            return Err(Refusal::Access(refused));
        }
    }
    let Some(wanted) = params::of(method) else {
        let method: String = method.chars().take(200).collect();
        return Err(Refusal::Other(ErrorShape::invalid(format!("unknown method: {method}"))));
    };
    if matches!(method, "config.patch" | "config.apply") {
        // Taken before anything is looked at: attempts that fail count as well.
        config::take_write(shared, caller, method).map_err(Refusal::Other)?;
    }
    shape::check(&request.params, wanted).map_err(|why| {
        Refusal::Other(ErrorShape::invalid(format!("invalid {method} params: {why}")))
    })
}

fn refused(session: &Session, method: &str, refusal: Refusal) -> ErrorShape {
    match refusal {
        Refusal::Other(error) => error,
        Refusal::Access(Access::WrongRole(role)) => {
            session.strikes.fetch_add(1, Ordering::Relaxed);
            ErrorShape::invalid(format!("unauthorized role: {}", role.as_str()))
        }
        Refusal::Access(Access::Missing(scope)) => {
            ErrorShape::invalid(format!("missing scope: {scope}"))
        }
        Refusal::Access(Access::Allowed) => ErrorShape::unavailable(method),
    }
}

/// What waits for people or runs commands.
fn is_long(method: &str) -> bool {
    matches!(
        method,
        "exec.approval.request"
            | "exec.approval.waitDecision"
            | "sandbox.exec"
            | "sandbox.facts"
            | "sandbox.recreate"
            | "agent"
            | "agent.wait"
            | "chat.abort"
            | "sessions.abort"
            | "sessions.steer"
            | "skills.install"
    )
}

async fn call_short(
    shared: &Arc<Shared>,
    session: &Session,
    request: Request,
) -> Result<Value, ErrorShape> {
    let started = Instant::now();
    let method = request.method.clone();
    let (door, caller) = (shared.clone(), session.caller.clone());
    let done = tokio::task::spawn_blocking(move || call(&door, &caller, &request)).await;
    if changes(&method) {
        shared.health.forget();
        if method.starts_with("config.") || method.starts_with("agents.") {
            shared.heart.wake();
        }
    }
    // A method that panics fails for its caller and for nobody else.
    let outcome = done.unwrap_or_else(|_| Err(ErrorShape::unavailable("internal error")));
    shared.metrics.note(&method, Outcome::of(&outcome), started.elapsed());
    outcome
}

/// Says whether a method may change what others see.
fn changes(method: &str) -> bool {
    match access::need(method) {
        Need::Nothing | Need::Scope(Scope::Read) => false,
        Need::Scope(_) | Need::NodeRole => true,
    }
}

async fn call_long(
    shared: &Arc<Shared>,
    session: &Session,
    request: Request,
) -> Result<Value, ErrorShape> {
    let Request { id, method, params } = request;
    match method.as_str() {
        "exec.approval.request" => exec_approval::request(shared, session, (&id, params)).await,
        "exec.approval.waitDecision" => exec_approval::wait_decision(shared, params).await,
        "sandbox.exec" => sandbox::exec(shared, session, (&id, params)).await,
        "agent" => chat::agent(shared, session, (&id, params)).await,
        "agent.wait" => chat::wait(shared, &params).await,
        "chat.abort" => chat::abort(shared, &session.caller, &params).await,
        "sessions.abort" => chat::abort_session(shared, &session.caller, &params).await,
        "sessions.steer" => chat::steer(shared, &session.caller, &params).await,
        other => {
            let method = other.to_owned();
            let shared = shared.clone();
            let done = tokio::task::spawn_blocking(move || match method.as_str() {
                "sandbox.facts" => sandbox::facts(&shared.desk, &params),
                "skills.install" => skills::install(&shared, &params),
                _ => sandbox::recreate(&shared.desk, &params),
            });
            done.await.unwrap_or_else(|_| Err(ErrorShape::unavailable("internal error")))
        }
    }
}

/// Every other method there is.
fn call(shared: &Shared, caller: &Caller, request: &Request) -> Result<Value, ErrorShape> {
    let params = &request.params;
    match request.method.as_str() {
        "health" => health::health(shared, params),
        "status" => health::status(shared, caller),
        "system-presence" => Ok(health::presence(shared)),
        "logs.tail" => logs::tail(shared, params),
        "gateway.identity.get" => identity::get(shared),
        "last-heartbeat" => Ok(heartbeat::last(shared)),
        "set-heartbeats" => Ok(heartbeat::set(shared, params)),
        "system-event" => heartbeat::event(shared, caller, params),
        "wake" => heartbeat::wake(shared, params),
        "channels.status" => Ok(health::channels()),
        "usage.status" => Ok(health::quotas()),
        "usage.cost" => usage::cost(shared, params),
        "sessions.usage" => usage::sessions(shared, params),
        "models.list" => models::list(shared),
        "tools.catalog" => tools::catalog(shared, params),
        "tools.effective" => tools::effective(shared, params),
        "skills.status" => skills::status(shared, params),
        "skills.update" => skills::update(shared, params),
        "cron.list" => cron::list(shared, params),
        "cron.status" => cron::status(shared),
        "cron.add" => cron::add(shared, caller, params),
        "cron.update" => cron::update(shared, caller, params),
        "cron.remove" => cron::remove(shared, caller, params),
        "cron.run" => cron::run(shared, caller, params),
        "cron.runs" => cron::runs(shared, params),
        "node.list" => nodes::list(shared),
        "exec.approval.resolve" => exec_approval::resolve(shared, caller, params),
        "exec.approval.list" => exec_approval::list(shared),
        "exec.approval.get" => exec_approval::get(shared, params),
        "sandbox.list" => sandbox::list(&shared.desk),
        "sandbox.explain" => sandbox::explain(&shared.desk, params),
        "config.get" => config::get(shared),
        "config.set" => config::set(shared, params),
        "config.apply" => config::apply(shared, params),
        "config.patch" => config::patch(shared, params),
        "config.schema" => Ok(config::schema()),
        "config.schema.lookup" => config::lookup(params),
        "exec.approvals.get" => exec_approvals::get(shared),
        "exec.approvals.set" => exec_approvals::set(shared, params),
        "agents.list" => agents::list(shared),
        "agents.create" => agents::create(shared, params),
        "agents.update" => agents::update(shared, params),
        "agents.delete" => agents::delete(shared, params),
        "agents.files.list" => agents::files_list(shared, params),
        "agents.files.get" => agents::files_get(shared, params),
        "agents.files.set" => agents::files_set(shared, params),
        "agent.identity.get" => agents::identity(shared, params),
        "sessions.list" => sessions::list(shared, params),
        "sessions.preview" => sessions::preview(shared, params),
        "sessions.get" => sessions::messages(shared, params),
        "sessions.compact" => sessions::compact(shared, params),
        "sessions.subscribe" => Ok(sessions::subscribe(shared, caller, Turn::On)),
        "sessions.unsubscribe" => Ok(sessions::subscribe(shared, caller, Turn::Off)),
        "sessions.messages.subscribe" => sessions::follow(shared, caller, params, Turn::On),
        "sessions.messages.unsubscribe" => sessions::follow(shared, caller, params, Turn::Off),
        "sessions.resolve" => sessions::resolve(shared, params),
        "sessions.patch" => sessions::patch(shared, caller, params),
        "sessions.reset" => sessions::reset(shared, params),
        "sessions.delete" => sessions::delete(shared, caller, params),
        "sessions.create" => sessions::create(shared, caller, params),
        "chat.history" => sessions::history(shared, params),
        "chat.send" => chat::send(shared, caller, params),
        "chat.inject" => chat::inject(shared, params),
        "sessions.send" => chat::send_to(shared, caller, params),
        "device.pair.list" => devices::list(shared),
        "device.pair.approve" => devices::approve(shared, caller, params),
        "device.pair.reject" => devices::reject(shared, params),
        "device.pair.remove" => devices::remove(shared, params),
        "device.token.rotate" => devices::rotate(shared, caller, params),
        "device.token.revoke" => devices::revoke(shared, params),
        other => Err(ErrorShape::invalid(format!("unknown method: {other}"))),
    }
}
