//! `/sessions/<key>/history`: what was said in a session, once or as a stream of events; and `…/kill`.
//!
//! The secret opens the door; the scope that a request is to have is named in a header, so that a
//! program states that it means to read.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::Response;
use clawpen_rules::access::Scope;
use clawpen_wire::gateway::ErrorShape;
use futures_util::stream;
use serde_json::Value;
use tokio::sync::broadcast::{Receiver, error::RecvError};

use super::{admit, admit_for, fresh_without_cache, kill, not_allowed, plain, refusal};
use crate::methods::sessions::{self, Page};
use crate::shared::Shared;
use crate::socket::Caller;

const LIMIT: usize = 200;
const MOST: usize = 1000;
/// A stream that says nothing for longer is taken for dead by what stands in between.
const QUIET: Duration = Duration::from_secs(15);

pub(super) async fn serve(shared: &Arc<Shared>, caller: &Caller, request: Request) -> Response {
    let path = request.uri().path().strip_prefix("/sessions/").unwrap_or_default();
    let Some((key, what)) = path.split_once('/') else {
        return plain(StatusCode::NOT_FOUND, "Not Found");
    };
    let Some(key) = decoded(key).filter(|key| !key.is_empty()) else {
        return plain(StatusCode::NOT_FOUND, "Not Found");
    };
    let is_get = *request.method() == Method::GET;
    match (what, is_get) {
        ("history", true) => {}
        ("history", false) => return not_allowed("GET"),
        ("kill", false) if *request.method() == Method::POST => {
            return match admit(shared, caller, request.headers()) {
                Err(refused) => *refused,
                Ok(()) => kill::serve(shared, caller, request.headers(), key).await,
            };
        }
        ("kill", _) => return not_allowed("POST"),
        _ => return plain(StatusCode::NOT_FOUND, "Not Found"),
    }
    if let Err(refused) = admit_for(shared, (caller, request.headers()), Scope::Read) {
        return *refused;
    }
    let page = page_of(request.uri().query().unwrap_or_default());
    let found = look(shared, &key, page).await;
    match found {
        Err(error) => refusal(StatusCode::BAD_REQUEST, "invalid_request_error", &error.message),
        Ok(None) => {
            let what = format!("Session not found: {key}");
            refusal(StatusCode::NOT_FOUND, "not_found", &what)
        }
        Ok(Some(body)) if wants_stream(request.headers()) => {
            caller.allowance.stay();
            follow(shared, key, page, &body)
        }
        Ok(Some(body)) => fresh_without_cache(StatusCode::OK, &body),
    }
}

async fn look(shared: &Arc<Shared>, key: &str, page: Page) -> Result<Option<Value>, ErrorShape> {
    let (shared, key) = (shared.clone(), key.to_owned());
    let found = tokio::task::spawn_blocking(move || sessions::page(&shared, &key, page)).await;
    found.unwrap_or_else(|_| Err(ErrorShape::unavailable("internal error")))
}

fn wants_stream(headers: &HeaderMap) -> bool {
    let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok());
    accept.is_some_and(|accept| accept.contains("text/event-stream"))
}

fn page_of(query: &str) -> Page {
    let value =
        |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
    let limit = value("limit").and_then(|text| text.parse().ok()).unwrap_or(LIMIT);
    let cursor = value("cursor").and_then(|text| text.trim_start_matches("seq:").parse().ok());
    Page { limit: limit.clamp(1, MOST), before: cursor }
}

/// The history, and again whenever something happened in the session.
fn follow(shared: &Arc<Shared>, key: String, page: Page, first: &Value) -> Response {
    let start = Step { shared: shared.clone(), news: shared.hub.session_news(), key, page };
    let first = event("history", first);
    let later = stream::unfold((Some(first), start), |(first, mut step)| async move {
        let next = if let Some(first) = first { first } else { step.next().await? };
        Some((Ok::<_, Infallible>(next), (None, step)))
    });
    let mut response = Response::new(Body::from_stream(later));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    response
}

struct Step {
    shared: Arc<Shared>,
    news: Receiver<String>,
    key: String,
    page: Page,
}

impl Step {
    /// The next part of the stream; `None` ends it.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            match tokio::time::timeout(QUIET, self.news.recv()).await {
                Err(_) => return Some(Bytes::from_static(b": still here\n\n")),
                Ok(Err(RecvError::Closed)) => return None,
                Ok(Ok(session)) if session != self.key => {}
                // Ours, or some were missed and ours may be among them.
                Ok(Ok(_) | Err(RecvError::Lagged(_))) => {
                    let found = look(&self.shared, &self.key, self.page).await.ok()??;
                    return Some(event("history", &found));
                }
            }
        }
    }
}

fn event(name: &str, body: &Value) -> Bytes {
    Bytes::from(format!("event: {name}\ndata: {body}\n\n"))
}

/// A part of a path without its escapes; `None` if it is no text.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digits = [rest.next()?, rest.next()?];
            let digits = std::str::from_utf8(&digits).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_from_a_path() {
        assert_eq!(decoded("agent%3Abot%3Amain").as_deref(), Some("agent:bot:main"));
        assert_eq!(decoded("100%"), None);
        assert_eq!(decoded("%zz"), None);
        assert_eq!(decoded("%ff"), None);
    }

    #[test]
    fn a_page_is_limited() {
        let page = page_of("limit=5000&cursor=7");
        assert_eq!((page.limit, page.before), (1000, Some(7)));
        assert_eq!((page_of("").limit, page_of("limit=0").limit), (200, 1));
    }
}
