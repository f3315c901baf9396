//! What a control page asks before anybody has logged in: who is served here, and what agents look like.
//!
//! The page itself is not part of this build. A picture lies in an agent's workspace, so the agent may have put
//! anything there: only pictures of a few kinds leave, links are not followed, and no browser takes one for a page.

use std::path::Path;
use std::sync::Arc;

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_FRAME_OPTIONS};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use clawpen_engine::agents::files;
use clawpen_engine::config_file::Sound;
use clawpen_rules::ids::AgentId;
use clawpen_wire::gateway::COMPATIBLE_RELEASE;
use serde_json::{Value, json};

use super::{fresh_without_cache, plain};
use crate::methods::agents::{self, Identity, Picture};
use crate::shared::Shared;

/// One of the two, if the path means one; `None` if it means neither or there is to be no page.
pub(super) async fn serve(shared: &Arc<Shared>, path: &str, query: &str) -> Option<Response> {
    let is_config = path.ends_with("/__openclaw/control-ui-config.json");
    if !is_config && !path.contains("/avatar/") {
        return None;
    }
    let is_meta = query.split('&').any(|pair| pair == "meta=1");
    let wanted = if is_meta { Wanted::Address } else { Wanted::Picture };
    let (shared, path) = (shared.clone(), path.to_owned());
    let made = tokio::task::spawn_blocking(move || answer(&shared, &path, wanted)).await;
    made.unwrap_or(None).map(guarded)
}

/// What is asked about an agent's looks.
#[derive(Clone, Copy)]
enum Wanted {
    Picture,
    Address,
}

fn answer(shared: &Shared, path: &str, wanted: Wanted) -> Option<Response> {
    let sound = shared.sound().ok()?;
    let config = &sound.store.loaded.config;
    let page = |key: &str| config.at(&["gateway", "controlUi", key]);
    if page("enabled").is_some_and(|at| at.node.as_bool() == Some(false)) {
        return None;
    }
    let base = page("basePath").and_then(|at| at.node.as_str().map(str::to_owned));
    let base = base.unwrap_or_default().trim_matches('/').to_owned();
    let base = if base.is_empty() { base } else { format!("/{base}") };
    let path = path.strip_prefix(&base)?;
    if path == "/__openclaw/control-ui-config.json" {
        let id = config.default_agent();
        let identity = Identity::of(&sound, &id);
        let (name, avatar) = identity.for_pages(&id);
        return Some(fresh_without_cache(
            StatusCode::OK,
            &json!({
                "basePath": base,
                "assistantName": name,
                "assistantAvatar": avatar,
                "assistantAgentId": id.as_str(),
                "serverVersion": COMPATIBLE_RELEASE,
            }),
        ));
    }
    let id = path.strip_prefix("/avatar/")?;
    if id.is_empty() || id.contains('/') {
        return Some(plain(StatusCode::NOT_FOUND, "Not Found"));
    }
    let id = AgentId::normalize(id);
    Some(match wanted {
        Wanted::Address => meta(&sound, &id),
        Wanted::Picture => image(&sound, &id),
    })
}

/// Where the picture of an agent is to be had.
fn meta(sound: &Sound, id: &AgentId) -> Response {
    let identity = known(sound, id);
    let address = match identity.as_ref().and_then(|one| one.avatar.as_deref()).map(agents::picture)
    {
        Some(Picture::Address(address)) => json!(address),
        Some(Picture::File(path)) if read(sound, id, path).is_some() => {
            json!(format!("/avatar/{id}"))
        }
        Some(Picture::File(_) | Picture::Sign(_)) | None => Value::Null,
    };
    fresh_without_cache(StatusCode::OK, &json!({ "avatarUrl": address }))
}

fn image(sound: &Sound, id: &AgentId) -> Response {
    let identity = known(sound, id);
    let file = match identity.as_ref().and_then(|one| one.avatar.as_deref()).map(agents::picture) {
        Some(Picture::File(path)) => read(sound, id, path),
        Some(Picture::Address(_) | Picture::Sign(_)) | None => None,
    };
    let Some((kind, bytes)) = file else { return plain(StatusCode::NOT_FOUND, "Not Found") };
    let mut response = Response::new(Body::from(bytes));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

fn known(sound: &Sound, id: &AgentId) -> Option<Identity> {
    agents::all(sound).contains(id).then(|| Identity::of(sound, id))
}

/// A picture of a workspace with its kind.
fn read(sound: &Sound, id: &AgentId, path: &str) -> Option<(&'static str, Vec<u8>)> {
    let workspace = sound.store.locations.agent_workspace(&sound.store.loaded.config, id).value;
    files::picture(Path::new(&workspace), path)
}

/// No page may show it in itself, and nothing in it runs.
fn guarded(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    let policy = "default-src 'none'; sandbox; frame-ancestors 'none'";
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    response
}
