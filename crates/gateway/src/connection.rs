//! One WebSocket connection: challenge, login, then one request after the other.
//!
//! ```text
//! accepted ──challenge──► waiting ──connect──► logged in ──close──► gone
//!                            │ time is up, no JSON, refused      │ device removed, slow, restart
//!                            └──────────► closed ◄───────────────┘
//! ```
//!
//! A client's requests are handled in the order they come. While one is handled nothing more is read,
//! so a client that floods us fills its own socket and nothing else. Only what waits for people or runs
//! commands is handled beside the others, a few at a time, and ends with its connection.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, WebSocket};
use clawpen_engine::approvals_file::now_ms;
use clawpen_engine::random;
use clawpen_rules::access::connect::Peer;
use clawpen_rules::access::trusted_user::UserVerdict;
use clawpen_wire::gateway::{
    self, EventPlace, MAX_BUFFERED_BYTES, MAX_HANDSHAKE_BYTES, MAX_PAYLOAD_BYTES, OLDEST_PROTOCOL,
    Request, TICK_INTERVAL_MS, close, params,
};
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};

use crate::dispatch::{self, Session};
use crate::handshake::{self, Knock, Login};
use crate::hub::{self, Follows, Inbox, Member, Out, Outbox, Slow, Speaks};
use crate::journal::Level;
use crate::methods::health;
use crate::shared::{Shared, Stranger};
use crate::socket::Allowance;

/// How long a client that is told to go may take to do so.
const FAREWELL: Duration = Duration::from_secs(2);
/// How long a page that was refused may take to read why before we end the connection. Behind the server that relays it
/// (`Claw3D`'s own) whoever ends it first names the reason that people see, and ours would only say that we are gone.
const READS_WHY: Duration = Duration::from_millis(500);

/// What comes with a new connection.
pub(crate) struct Arrival {
    pub(crate) peer: Peer,
    pub(crate) allowance: Allowance,
    pub(crate) stranger: Stranger,
}

/// Serves a connection to its end.
pub(crate) async fn serve(shared: Arc<Shared>, socket: WebSocket, arrival: Arrival) {
    let (mut sink, mut stream) = socket.split();
    let (outbox, mut inbox) = hub::queue();
    let writer = tokio::spawn(async move { write(&mut sink, &mut inbox).await });
    let connection = random::uuid();
    let nonce = random::uuid();
    let challenge = json!({ "nonce": nonce, "ts": now_ms() });
    outbox.answer(gateway::event("connect.challenge", &challenge, EventPlace::default()));
    let peer = arrival.peer.clone();
    let waited = tokio::time::timeout(
        shared.handshake_timeout,
        greet(&shared, &mut stream, &peer, (&nonce, &outbox)),
    )
    .await;
    match waited {
        Ok(Greeted::In(request_id, login)) => {
            arrival.allowance.lift();
            drop(arrival.stranger);
            let session = Session::new(&connection, &login, &peer, outbox.clone());
            enter(&shared, &session, &login, &request_id).await;
            read(&shared, &session, &mut stream).await;
            session.end_jobs();
            leave(&shared, &session, &login);
        }
        Ok(Greeted::Refused(code, why)) => {
            if peer.origin.is_some() {
                let _ = tokio::time::timeout(READS_WHY, next_text(&mut stream)).await;
            }
            outbox.close(code, &why);
            goes(&mut stream).await;
        }
        Ok(Greeted::Gone) => {}
        Err(_late) => outbox.close(close::NORMAL, ""),
    }
    drop(outbox);
    // The last frames leave, or the client does not take them.
    let abort = writer.abort_handle();
    if tokio::time::timeout(FAREWELL, writer).await.is_err() {
        abort.abort();
    }
}

/// Writes what is queued; ends with a close frame or with the queue.
async fn write(sink: &mut (impl futures_util::Sink<Message> + Unpin), inbox: &mut Inbox) {
    while let Some(out) = inbox.receiver.recv().await {
        match out {
            Out::Text(text) => {
                let bytes = text.len();
                let sent = sink.send(Message::Text(text.into())).await;
                inbox.sent(bytes);
                if sent.is_err() {
                    return;
                }
            }
            Out::Close(code, reason) => {
                let frame = CloseFrame { code, reason: reason.into() };
                let _ = sink.send(Message::Close(Some(frame))).await;
                return;
            }
        }
    }
    let _ = sink.close().await;
}

/// How a greeting ends.
enum Greeted {
    /// With the id of the request that is to be answered.
    In(String, Box<Login>),
    /// He was told why; so the connection is to be closed.
    Refused(u16, String),
    /// Gone, or already told to go.
    Gone,
}

/// Waits until a client that was told to go has gone: it answers the close frame, or is not waited for.
async fn goes(
    stream: &mut (impl futures_util::Stream<Item = Result<Message, axum::Error>> + Unpin),
) {
    let rest = async { while next_text(stream).await.is_some() {} };
    let _ = tokio::time::timeout(FAREWELL, rest).await;
}

/// Waits for `connect` and decides it.
async fn greet(
    shared: &Arc<Shared>,
    stream: &mut (impl futures_util::Stream<Item = Result<Message, axum::Error>> + Unpin),
    peer: &Peer,
    (nonce, outbox): (&str, &Outbox),
) -> Greeted {
    let Some(text) = next_text(stream).await else { return Greeted::Gone };
    if text.len() > MAX_HANDSHAKE_BYTES {
        outbox.close(close::TOO_BIG, "");
        return Greeted::Gone;
    }
    let Ok(frame) = serde_json::from_str::<Value>(&text) else {
        outbox.close(close::NORMAL, "");
        return Greeted::Gone;
    };
    let request = match Request::parse(frame) {
        Ok(request) => request,
        Err(bad) => {
            if bad.is_request {
                let why = format!("invalid request frame: {}", bad.why);
                outbox.answer(gateway::response(&bad.id, &Err(gateway::ErrorShape::invalid(why))));
            }
            outbox.close(close::POLICY, "invalid request frame");
            return Greeted::Gone;
        }
    };
    let journal = shared.clone();
    let from = peer.address.map(|address| address.to_string());
    let user = match &peer.user {
        Some(UserVerdict::Known(user)) => Some(user.clone()),
        Some(UserVerdict::Denied(_)) | None => None,
    };
    let (shared, peer, nonce) = (shared.clone(), peer.clone(), nonce.to_owned());
    let id = request.id.clone();
    let decided = tokio::task::spawn_blocking(move || {
        handshake::login(&shared, &Knock { peer: &peer, nonce: &nonce, request: &request })
    });
    match decided.await {
        Ok(Ok(login)) => {
            let about = json!({ "client": login.client.id, "mode": login.client.mode,
                                "device": login.device, "scopes": login.scopes.words(),
                                "user": user });
            journal.journal.note(Level::Info, "a client logged in", &about);
            journal.metrics.logins.fetch_add(1, Ordering::Relaxed);
            Greeted::In(id, Box::new(login))
        }
        Ok(Err(refused)) => {
            let about = json!({ "reason": refused.error.message, "peer": from });
            journal.journal.note(Level::Warn, "a client was refused", &about);
            journal.metrics.refused.fetch_add(1, Ordering::Relaxed);
            let message = refused.error.message.clone();
            outbox.answer(gateway::response(&id, &Err(*refused.error)));
            Greeted::Refused(refused.code, message)
        }
        Err(_panicked) => {
            outbox.close(close::POLICY, "login failed");
            Greeted::Gone
        }
    }
}

/// The next frame as text. Binary frames are taken as text, as the reference does.
async fn next_text(
    stream: &mut (impl futures_util::Stream<Item = Result<Message, axum::Error>> + Unpin),
) -> Option<String> {
    loop {
        match stream.next().await? {
            Ok(Message::Text(text)) => return Some(text.as_str().to_owned()),
            Ok(Message::Binary(bytes)) => {
                return Some(String::from_utf8_lossy(&bytes).into_owned());
            }
            Ok(Message::Ping(_) | Message::Pong(_)) => {}
            Ok(Message::Close(_)) | Err(_) => return None,
        }
    }
}

/// Welcomes somebody who was let in.
async fn enter(shared: &Arc<Shared>, session: &Session, login: &Login, request_id: &str) {
    if login.client.mode != "cli" {
        shared.hub.note_presence(&session.presence_key, entry(session, login, "connect"));
    }
    let snapshot = {
        let shared = shared.clone();
        tokio::task::spawn_blocking(move || health::recent(&shared)).await
    };
    let health = snapshot.ok().and_then(Result::ok).unwrap_or_else(|| Arc::new(json!({})));
    let hello = hello(shared, session, login, &health);
    // The answer first: an event before it would be the first frame that the client sees.
    session.outbox.answer(gateway::response(request_id, &Ok(hello)));
    let member = Member {
        outbox: session.outbox.clone(),
        role: login.role,
        scopes: login.scopes.clone(),
        device: login.device.clone(),
        follows: Follows::default(),
        speaks: if login.protocol > OLDEST_PROTOCOL { Speaks::Newer } else { Speaks::Older },
    };
    shared.hub.join(&session.connection, member);
    shared.hub.tell_health(&session.connection, &health);
}

fn hello(shared: &Shared, session: &Session, login: &Login, health: &Value) -> Value {
    let methods: Vec<&str> = params::METHODS.iter().map(|(name, _)| *name).collect();
    let default = health["defaultAgentId"].as_str().unwrap_or("main");
    let scope = shared.sound().ok().and_then(|sound| {
        let scope = sound.store.loaded.config.at(&["session", "scope"]);
        scope.and_then(|at| at.node.as_str().map(str::to_owned))
    });
    let scope = scope.unwrap_or_else(|| "per-sender".to_owned());
    let main =
        if scope == "global" { "global".to_owned() } else { format!("agent:{default}:main") };
    let mut hello = json!({
        "type": "hello-ok",
        "protocol": login.protocol,
        "server": { "version": gateway::COMPATIBLE_RELEASE, "connId": session.connection },
        "features": { "methods": methods, "events": params::EVENTS },
        "snapshot": {
            "presence": shared.hub.presence(now_ms()),
            "health": health,
            "stateVersion": shared.hub.version().to_json(),
            "uptimeMs": u64::try_from(shared.started.elapsed().as_millis()).unwrap_or(u64::MAX),
            "configPath": shared.locations.config,
            "stateDir": shared.locations.state_dir,
            "sessionDefaults": {
                "defaultAgentId": default,
                "mainKey": "main",
                "mainSessionKey": main,
                "scope": scope,
            },
            "authMode": shared.guard.mode(),
        },
        "policy": {
            "maxPayload": MAX_PAYLOAD_BYTES,
            "maxBufferedBytes": MAX_BUFFERED_BYTES,
            "tickIntervalMs": TICK_INTERVAL_MS,
        },
    });
    if let Some(auth) = granted(shared, login) {
        hello["auth"] = auth;
    }
    hello
}

/// What somebody was given. The older protocol says so only with a token; the newer one always, and how.
fn granted(shared: &Shared, login: &Login) -> Option<Value> {
    let is_newer = login.protocol > OLDEST_PROTOCOL;
    let mut auth = match &login.issued {
        Some(issued) => json!({
            "deviceToken": issued.token,
            "role": login.role.as_str(),
            "scopes": issued.scopes.words(),
            "issuedAtMs": issued.issued_at_ms,
        }),
        None if is_newer => {
            json!({ "role": login.role.as_str(), "scopes": login.scope_words })
        }
        None => return None,
    };
    if is_newer {
        auth["method"] = json!(shared.guard.mode());
    }
    Some(auth)
}

/// Somebody as others see him.
fn entry(session: &Session, login: &Login, reason: &str) -> Value {
    let client = &login.client;
    let host = client.display_name.as_deref().unwrap_or(&client.id);
    let mut entry = json!({
        "host": host,
        "version": client.version,
        "platform": client.platform,
        "mode": client.mode,
        "roles": [login.role.as_str()],
        "scopes": login.scope_words,
        "instanceId": session.presence_key,
        "reason": reason,
        "ts": now_ms(),
        "text": format!("Node: {host} · mode {}", client.mode),
    });
    if let Some(device) = &login.device {
        entry["deviceId"] = json!(device);
    }
    if let Some(family) = &client.family {
        entry["deviceFamily"] = json!(family);
    }
    entry
}

/// Reads requests until the connection ends, or is told to.
async fn read(
    shared: &Arc<Shared>,
    session: &Session,
    stream: &mut (impl futures_util::Stream<Item = Result<Message, axum::Error>> + Unpin),
) {
    loop {
        tokio::select! {
            biased;
            () = session.outbox.over() => return goes(stream).await,
            text = next_text(stream) => match text {
                Some(text) => dispatch::frame(shared, session, &text).await,
                None => return,
            },
        }
    }
}

fn leave(shared: &Shared, session: &Session, login: &Login) {
    shared.hub.leave(&session.connection);
    if login.client.mode != "cli" {
        shared.hub.note_presence(&session.presence_key, entry(session, login, "disconnect"));
        let presence = json!({ "presence": shared.hub.presence(now_ms()) });
        shared.hub.broadcast("presence", &presence, Slow::Drop);
    }
}
