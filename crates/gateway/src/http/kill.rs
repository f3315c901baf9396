//! `POST /sessions/<key>/kill`: ends what runs in a session, with all that its tools have started.
//!
//! For callers on this machine; or on behalf of the session that a header names, which ends what it started itself and
//! nothing else.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use clawpen_engine::runner::AbortReason;
use clawpen_wire::gateway::ErrorShape;
use serde_json::{Value, json};

use super::{fresh_without_cache, peer, refusal};
use crate::methods::sessions;
use crate::shared::Shared;
use crate::socket::Caller;

const REQUESTER: &str = "x-openclaw-requester-session-key";
/// Generations that are followed to find an ancestor.
const MOST_GENERATIONS: usize = 16;
/// How long the end is waited for before the answer leaves.
const ENDS: Duration = Duration::from_secs(10);

/// What became of it.
enum Killed {
    Runs(usize),
    NoSession,
}

pub(super) async fn serve(
    shared: &Arc<Shared>,
    caller: &Caller,
    headers: &HeaderMap,
    key: String,
) -> Response {
    // A header that is no text names nobody, and nobody ends nothing.
    let requester =
        headers.get(REQUESTER).map(|value| value.to_str().unwrap_or_default().trim().to_owned());
    if requester.is_none() && !peer(shared, caller.address.ip(), headers).is_local() {
        let what = "only callers on this machine end runs; others name their session in \
                    x-openclaw-requester-session-key";
        return refusal(StatusCode::FORBIDDEN, "forbidden", what);
    }
    let named = key.clone();
    let done = {
        let shared = shared.clone();
        tokio::task::spawn_blocking(move || kill(&shared, &named, requester.as_deref())).await
    };
    match done {
        Ok(Ok(Killed::Runs(count))) => {
            let body = json!({ "ok": true, "killed": count > 0 });
            fresh_without_cache(StatusCode::OK, &body)
        }
        Ok(Ok(Killed::NoSession)) => {
            let what = format!("Session not found: {key}");
            refusal(StatusCode::NOT_FOUND, "not_found", &what)
        }
        Ok(Err(error)) => refusal(StatusCode::BAD_REQUEST, "invalid_request_error", &error.message),
        Err(_) => refusal(StatusCode::INTERNAL_SERVER_ERROR, "internal", "internal error"),
    }
}

fn kill(shared: &Shared, key: &str, requester: Option<&str>) -> Result<Killed, ErrorShape> {
    let sound = shared.sound()?;
    let found = sessions::meant(&sound, key)?;
    if found.entry()?.is_none() {
        return Ok(Killed::NoSession);
    }
    if let Some(requester) = requester {
        let requester = sessions::meant(&sound, requester)?.key;
        let mut at = found.key.clone();
        let mut is_its = false;
        for _ in 0..MOST_GENERATIONS {
            let entry = sessions::meant(&sound, &at)?.entry()?.unwrap_or_default();
            let Some(parent) = entry.get("spawnedBy").and_then(Value::as_str) else { break };
            if parent == requester {
                is_its = true;
                break;
            }
            parent.clone_into(&mut at);
        }
        if !is_its {
            return Ok(Killed::Runs(0));
        }
    }
    let runs = shared.runner.abort(&found.key, None, AbortReason::Rpc);
    for run in &runs {
        // One that takes longer ends all the same.
        let _ = shared.runner.wait_blocking(run, ENDS);
    }
    Ok(Killed::Runs(runs.len()))
}
