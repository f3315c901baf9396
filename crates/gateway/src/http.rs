//! HTTP on the same port: probes, metrics, session histories, tools, and the refusals that clients expect.

mod completions;
mod hearing;
mod history;
pub(crate) mod hooks;
mod invoke;
mod kill;
mod page;
pub(crate) mod responses;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use axum::body::Body;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::{ConnectInfo, FromRequestParts as _, Request, State};
use axum::http::header::{
    ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, HOST, ORIGIN, RETRY_AFTER,
    STRICT_TRANSPORT_SECURITY,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::response::Response;
use clawpen_rules::access::connect::{Peer, SecretVerdict};
use clawpen_rules::access::origin::{OriginVerdict, decide_page};
use clawpen_rules::access::proxy::{Forwarded, Said};
use clawpen_rules::access::trusted_user::Seen;
use clawpen_rules::access::{Scope, Scopes};
use clawpen_wire::gateway::MAX_PAYLOAD_BYTES;
use serde_json::{Value, json};

use crate::auth::{Guard, Shown};
use crate::connection::{self, Arrival};
use crate::metrics::Now;
use crate::shared::Shared;
use crate::socket::Caller;
use crate::throttle::What;

/// Headers that only a proxy sets, beside those that begin with `x-forwarded-`.
const FORWARDED: &[&str] = &["forwarded", "via", "x-real-ip"];

/// Serves one request: a WebSocket, or one of the few things there are over HTTP.
pub(crate) async fn serve(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(caller): ConnectInfo<Caller>,
    request: Request,
) -> Response {
    caller.allowance.heard();
    let strict = shared.strict_transport.clone();
    let mut response = if is_upgrade(request.headers()) {
        upgrade(shared, caller, request).await
    } else {
        answer(&shared, caller, request).await
    };
    for (name, value) in [
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("permissions-policy", "camera=(), microphone=(), geolocation=()"),
    ] {
        let name = HeaderName::from_static(name);
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    if let Some(strict) = strict {
        response.headers_mut().insert(STRICT_TRANSPORT_SECURITY, strict);
    }
    response
}

fn is_upgrade(headers: &HeaderMap) -> bool {
    let upgrade = headers.get("upgrade").and_then(|value| value.to_str().ok());
    upgrade.is_some_and(|value| value.eq_ignore_ascii_case("websocket"))
}

/// Who is at the other end, as far as headers can be believed.
fn peer(shared: &Shared, address: IpAddr, headers: &HeaderMap) -> Peer {
    // A header that is no text is as good as a wrong one, and never as none; one that stands on several
    // lines is one header.
    let text = |name: &HeaderName| {
        let lines: Vec<_> = headers
            .get_all(name)
            .iter()
            .map(|value| String::from_utf8_lossy(value.as_bytes()))
            .collect();
        (!lines.is_empty()).then(|| lines.join(", "))
    };
    let forwarded_for = text(&HeaderName::from_static("x-forwarded-for"));
    let real_ip = text(&HeaderName::from_static("x-real-ip"));
    let (user, is_named) = match &shared.guard {
        Guard::Proxy(users) => {
            let user = users.decide(address, &shared.proxies, |name| seen(headers, name));
            (Some(user), headers.contains_key(users.user_header.as_str()))
        }
        Guard::Token(_) | Guard::Password(_) | Guard::None => (None, false),
    };
    let is_any = is_named
        || headers
            .keys()
            .map(HeaderName::as_str)
            .any(|name| FORWARDED.contains(&name) || name.starts_with("x-forwarded-"));
    let sender = shared.proxies.decide(
        address,
        Said {
            forwarded_for: forwarded_for.as_deref(),
            real_ip: real_ip.as_deref(),
            any: if is_any { Forwarded::Yes } else { Forwarded::No },
        },
    );
    Peer {
        address: Some(sender.address),
        host: text(&HOST),
        origin: text(&ORIGIN),
        is_forwarded: sender.forwarded == Forwarded::Yes,
        user,
    }
}

/// A header that must be there once to be believed.
fn seen<'a>(headers: &'a HeaderMap, name: &str) -> Seen<'a> {
    let mut lines = headers.get_all(name).iter();
    match (lines.next(), lines.next()) {
        (None, _) => Seen::Absent,
        (Some(value), None) => value.to_str().map_or(Seen::Unclear, Seen::Once),
        (Some(_), Some(_)) => Seen::Unclear,
    }
}

/// A path that the reference keeps for something else; any other is as good as `/`.
const RESERVED: &str = "/__openclaw__/ws";

async fn upgrade(shared: Arc<Shared>, caller: Caller, request: Request) -> Response {
    if request.uri().path() == RESERVED {
        return plain(StatusCode::NOT_FOUND, "Not Found");
    }
    let peer = peer(&shared, caller.address.ip(), request.headers());
    let Some(stranger) = shared.strangers.admit(peer.address.unwrap_or(caller.address.ip())) else {
        return plain(StatusCode::SERVICE_UNAVAILABLE, "Too many unauthenticated sockets");
    };
    let (mut parts, _) = request.into_parts();
    match WebSocketUpgrade::from_request_parts(&mut parts, &()).await {
        Ok(upgrade) => upgrade
            .max_message_size(MAX_PAYLOAD_BYTES)
            .max_frame_size(MAX_PAYLOAD_BYTES)
            .on_upgrade(move |socket| {
                let arrival = Arrival { peer, allowance: caller.allowance, stranger };
                connection::serve(shared, socket, arrival)
            }),
        Err(_) => plain(StatusCode::BAD_REQUEST, "Bad Request"),
    }
}

async fn answer(shared: &Arc<Shared>, caller: Caller, request: Request) -> Response {
    let path = request.uri().path().to_owned();
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    match path.as_str() {
        "/health" | "/healthz" if is_read => {
            fresh(StatusCode::OK, &json!({ "ok": true, "status": "live" }))
        }
        "/ready" | "/readyz" if is_read => ready(shared, &caller, request.headers()),
        "/tools/invoke" if *request.method() != Method::POST => not_allowed("POST"),
        "/tools/invoke" => invoke::serve(shared, caller, request).await,
        "/metrics" if is_read => metrics(shared, &caller, request.headers()),
        "/health" | "/healthz" | "/ready" | "/readyz" | "/metrics" => not_allowed("GET, HEAD"),
        path if path.starts_with("/v1/") => completions::serve(shared, caller, request).await,
        path if path.starts_with("/sessions/") => history::serve(shared, &caller, request).await,
        path => match hooks::door(shared, path) {
            hooks::Door::Here(found) => hooks::serve(shared, caller, request, found).await,
            hooks::Door::Shut(why) => hooks::shut(shared, &why),
            hooks::Door::Elsewhere if is_read => {
                let query = request.uri().query().unwrap_or_default();
                let found = page::serve(shared, path, query).await;
                found.unwrap_or_else(|| plain(StatusCode::NOT_FOUND, "Not Found"))
            }
            hooks::Door::Elsewhere => plain(StatusCode::NOT_FOUND, "Not Found"),
        },
    }
}

fn ready(shared: &Shared, caller: &Caller, headers: &HeaderMap) -> Response {
    let is_ready = shared.is_ready.load(Ordering::Relaxed);
    let code = if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let peer = peer(shared, caller.address.ip(), headers);
    let is_page = decide_page(&peer, &shared.origins) != OriginVerdict::Fine;
    let is_shown = || bearer(shared, &peer, headers) == SecretVerdict::Right;
    let is_known = !is_page && (peer.is_local() || is_shown());
    let uptime = u64::try_from(shared.started.elapsed().as_millis()).unwrap_or(u64::MAX);
    let failing: &[&str] = if is_ready { &[] } else { &["stopping"] };
    let body = if is_known {
        json!({ "ready": is_ready, "failing": failing, "uptimeMs": uptime })
    } else {
        json!({ "ready": is_ready })
    };
    fresh(code, &body)
}

/// How the secret of a request compares.
fn bearer(shared: &Shared, peer: &Peer, headers: &HeaderMap) -> SecretVerdict {
    let guesser = shared.throttle.guesser(peer, What::Secret);
    if shared.throttle.wait(guesser, Instant::now()).is_some() {
        return SecretVerdict::Throttled;
    }
    let header = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let secret = header.and_then(|header| header.strip_prefix("Bearer ")).map(str::trim);
    let shown = Shown { token: secret, password: secret, user: peer.user.as_ref() };
    let verdict = match (&shared.guard, shared.guard.check(shown)) {
        // Where nothing is asked, a page could reach us by a name that was made to point here.
        (Guard::None, _) if !peer.is_local() => SecretVerdict::Absent,
        (_, verdict) => verdict,
    };
    match verdict {
        SecretVerdict::Wrong => shared.throttle.failed(guesser, Instant::now()),
        SecretVerdict::Right => shared.throttle.succeeded(guesser),
        SecretVerdict::Absent | SecretVerdict::Throttled | SecretVerdict::Denied => {}
    }
    verdict
}

/// Lets a request through that shows the secret and comes from no foreign page; else the answer that
/// says why not.
fn admit(shared: &Shared, caller: &Caller, headers: &HeaderMap) -> Result<(), Box<Response>> {
    let peer = peer(shared, caller.address.ip(), headers);
    match decide_page(&peer, &shared.origins) {
        OriginVerdict::Fine => {}
        OriginVerdict::Missing | OriginVerdict::NotAllowed => {
            let body = json!({ "error": {
                "message": "origin not allowed; add it to gateway.controlUi.allowedOrigins",
                "type": "forbidden" } });
            return Err(Box::new(fresh_without_cache(StatusCode::FORBIDDEN, &body)));
        }
    }
    match bearer(shared, &peer, headers) {
        SecretVerdict::Right => Ok(()),
        SecretVerdict::Absent | SecretVerdict::Wrong | SecretVerdict::Denied => {
            let body = json!({ "error": { "message": "Unauthorized", "type": "unauthorized" } });
            Err(Box::new(fresh_without_cache(StatusCode::UNAUTHORIZED, &body)))
        }
        SecretVerdict::Throttled => {
            let body = json!({ "error": {
                "message": "Too many failed attempts; wait and try again", "type": "rate_limited" } });
            let mut response = fresh_without_cache(StatusCode::TOO_MANY_REQUESTS, &body);
            let guesser = shared.throttle.guesser(&peer, What::Secret);
            let left = shared.throttle.wait(guesser, Instant::now()).unwrap_or_default();
            let seconds = HeaderValue::from(left.as_secs() + 1);
            response.headers_mut().insert(RETRY_AFTER, seconds);
            Err(Box::new(response))
        }
    }
}

/// Counts and times, for whoever knows the secret.
fn metrics(shared: &Shared, caller: &Caller, headers: &HeaderMap) -> Response {
    if let Err(refused) = admit(shared, caller, headers) {
        return *refused;
    }
    let (clients, queued_bytes) = shared.hub.load();
    let text = shared.metrics.text(Now {
        clients,
        queued_bytes,
        approvals: shared.approvals.count(),
        uptime: shared.started.elapsed(),
    });
    with_type(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", text)
}

/// The same for a request that names this scope in a header, so that a program states what it means to do.
fn admit_for(
    shared: &Shared,
    (caller, headers): (&Caller, &HeaderMap),
    scope: Scope,
) -> Result<(), Box<Response>> {
    admit(shared, caller, headers)?;
    let named = headers.get("x-openclaw-scopes").and_then(|value| value.to_str().ok());
    if Scopes::of(named.unwrap_or_default().split(',').map(str::trim)).covers(scope) {
        return Ok(());
    }
    let what = format!("missing scope: {scope}");
    Err(Box::new(refusal(StatusCode::FORBIDDEN, "forbidden", &what)))
}

/// What was sent cannot be understood.
fn bad_request(why: &str) -> Response {
    let body = json!({ "error": { "message": why, "type": "invalid_request_error" } });
    fresh_without_cache(StatusCode::BAD_REQUEST, &body)
}

/// A refusal in the shape of `{ok, error}`.
fn refusal(code: StatusCode, kind: &str, message: &str) -> Response {
    let body = json!({ "ok": false, "error": { "type": kind, "message": message } });
    fresh_without_cache(code, &body)
}

fn not_allowed(methods: &'static str) -> Response {
    let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed");
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(methods));
    response
}

fn plain(code: StatusCode, text: &'static str) -> Response {
    with_type(code, "text/plain; charset=utf-8", text.to_owned())
}

fn fresh_without_cache(code: StatusCode, body: &Value) -> Response {
    with_type(code, "application/json; charset=utf-8", body.to_string())
}

fn fresh(code: StatusCode, body: &Value) -> Response {
    let mut response = fresh_without_cache(code, body);
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn with_type(code: StatusCode, kind: &'static str, body: String) -> Response {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
