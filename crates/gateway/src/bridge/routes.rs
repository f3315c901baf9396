//! The routes of the bridge: status, tabs, pages. Those that the reference has and this build has not say so.

use axum::http::request::Parts;
use axum::http::{Method, StatusCode};
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clawpen_engine::browser::cdp::{CdpError, Tab, TargetId};
use clawpen_rules::browser::bridge::{Navigation, decide_navigation};
use serde_json::{Value, json};

use super::{Order, Shared, respond};

/// The only profile there is, as the reference calls it.
const PROFILE: &str = "openclaw";
const COLOUR: &str = "#FF4500";

/// What the reference's bridge has besides, by first word.
const NOT_BUILT: &[&str] = &[
    "reset-profile",
    "act",
    "pdf",
    "highlight",
    "download",
    "wait",
    "response",
    "console",
    "errors",
    "requests",
    "cookies",
    "storage",
    "set",
    "hooks",
    "trace",
];

/// Why a route did not do it: a status and a reason.
type Refused = (StatusCode, String);

pub(super) async fn answer(shared: &Shared, head: &Parts, body: &[u8]) -> Response {
    match route(shared, head, body).await {
        Ok(value) => json_response(StatusCode::OK, &value),
        Err((status, error)) => json_response(status, &json!({ "error": error })),
    }
}

async fn route(shared: &Shared, head: &Parts, body: &[u8]) -> Result<Value, Refused> {
    let words: Vec<&str> = head.uri.path().split('/').skip(1).collect();
    check_profile(head)?;
    let body = parse(body)?;
    let asked = Asked { shared, body: &body };
    match (&head.method, words.as_slice()) {
        (&Method::GET, [""]) => Ok(asked.status().await),
        (&Method::GET, ["profiles"]) => Ok(asked.profiles().await),
        (&Method::POST, ["start"]) => asked.order(Order::Start, "started").await,
        (&Method::POST, ["stop"]) => asked.order(Order::Stop, "stopped").await,
        (&Method::GET, ["tabs"]) => asked.tabs().await,
        (&Method::POST, ["tabs", "open"]) => asked.open().await,
        (&Method::POST, ["tabs", "focus"]) => asked.focus().await,
        (&Method::DELETE, ["tabs", id]) => asked.close(id).await,
        (&Method::POST, ["navigate"]) => asked.navigate().await,
        (&Method::POST, ["screenshot"]) => asked.screenshot().await,
        (&Method::GET, ["snapshot"]) => asked.snapshot(query(head, "targetId").as_deref()).await,
        (_, ["tabs", "action"] | ["profiles", ..]) => Err(not_built(head)),
        (_, [first, ..]) if NOT_BUILT.contains(first) => Err(not_built(head)),
        (_, _) => Err((StatusCode::NOT_FOUND, "there is nothing here".to_owned())),
    }
}

fn not_built(head: &Parts) -> Refused {
    let text = format!("`{} {}` is not part of this build", head.method, head.uri.path());
    (StatusCode::NOT_IMPLEMENTED, text)
}

/// One route at work.
struct Asked<'a> {
    shared: &'a Shared,
    body: &'a Value,
}

impl Asked<'_> {
    async fn status(&self) -> Value {
        let about = &self.shared.settings.browser;
        let version = about.cdp.version().await.ok();
        let is_ready = version.is_some();
        let browser = version.as_ref().and_then(|version| version["Browser"].as_str());
        json!({
            "enabled": true,
            "profile": PROFILE,
            "driver": "openclaw",
            "transport": "cdp",
            "running": is_ready,
            "cdpReady": is_ready,
            "cdpHttp": is_ready,
            "pid": null,
            "cdpPort": about.cdp.port(),
            "cdpUrl": format!("http://127.0.0.1:{}", about.cdp.port()),
            "chosenBrowser": browser,
            "detectedBrowser": null,
            "detectedExecutablePath": null,
            "detectError": null,
            "userDataDir": null,
            "color": COLOUR,
            "headless": about.is_headless,
            "noSandbox": true,
            "executablePath": null,
            "attachOnly": true,
        })
    }

    async fn profiles(&self) -> Value {
        let cdp = &self.shared.settings.browser.cdp;
        let tabs = cdp.tabs().await.ok();
        json!({ "profiles": [{
            "name": PROFILE,
            "cdpPort": cdp.port(),
            "cdpUrl": format!("http://127.0.0.1:{}", cdp.port()),
            "color": COLOUR,
            "running": tabs.is_some(),
            "tabCount": tabs.map_or(0, |tabs| tabs.len()),
            "isDefault": true,
            "isRemote": false,
        }] })
    }

    async fn order(
        &self,
        order: impl FnOnce(tokio::sync::oneshot::Sender<Result<(), String>>) -> Order,
        done: &str,
    ) -> Result<Value, Refused> {
        match self.shared.order(order).await {
            Some(Ok(())) => Ok(json!({ "ok": true, done: true, "profile": PROFILE })),
            Some(Err(why)) => Err((StatusCode::BAD_GATEWAY, why)),
            None => Err((StatusCode::SERVICE_UNAVAILABLE, "the bridge is closing".to_owned())),
        }
    }

    async fn tabs(&self) -> Result<Value, Refused> {
        match self.shared.settings.browser.cdp.tabs().await {
            Ok(tabs) => {
                let tabs: Vec<Value> = tabs.iter().map(shown).collect();
                Ok(json!({ "running": true, "tabs": tabs }))
            }
            Err(CdpError::Unreachable { .. }) => Ok(json!({ "running": false, "tabs": [] })),
            Err(error) => Err(failed(&error)),
        }
    }

    async fn open(&self) -> Result<Value, Refused> {
        let url = self.address()?;
        let tab = self.shared.settings.browser.cdp.open(&url).await;
        Ok(shown(&tab.map_err(|error| failed(&error))?))
    }

    async fn focus(&self) -> Result<Value, Refused> {
        let id = self.target()?.ok_or_else(|| bad("`targetId` is missing"))?;
        let focused = self.shared.settings.browser.cdp.focus(&id).await;
        focused.map_err(|error| failed(&error))?;
        Ok(json!({ "ok": true }))
    }

    async fn close(&self, id: &str) -> Result<Value, Refused> {
        let id = TargetId::parse(id).ok_or_else(|| bad("`targetId` is no tab's"))?;
        let closed = self.shared.settings.browser.cdp.close(&id).await;
        closed.map_err(|error| failed(&error))?;
        Ok(json!({ "ok": true }))
    }

    async fn navigate(&self) -> Result<Value, Refused> {
        let url = self.address()?;
        let tab = self.tab(self.target()?.as_ref()).await?;
        let cdp = &self.shared.settings.browser.cdp;
        cdp.navigate(&tab.id, &url).await.map_err(|error| failed(&error))?;
        let tab = self.tab(Some(&tab.id)).await?;
        Ok(json!({ "ok": true, "targetId": tab.id.as_str(), "url": tab.url }))
    }

    async fn screenshot(&self) -> Result<Value, Refused> {
        let tab = self.tab(self.target()?.as_ref()).await?;
        let picture = self.shared.settings.browser.cdp.screenshot(&tab.id).await;
        let picture = picture.map_err(|error| failed(&error))?;
        Ok(json!({
            "ok": true,
            "targetId": tab.id.as_str(),
            "url": tab.url,
            "contentType": "image/png",
            "data": STANDARD.encode(picture),
        }))
    }

    async fn snapshot(&self, target: Option<&str>) -> Result<Value, Refused> {
        let id =
            target.map(|text| TargetId::parse(text).ok_or_else(|| bad("`targetId` is no tab's")));
        let tab = self.tab(id.transpose()?.as_ref()).await?;
        let seen = self.shared.settings.browser.cdp.snapshot(&tab.id).await;
        let seen = seen.map_err(|error| failed(&error))?;
        Ok(json!({
            "ok": true,
            "format": "text",
            "targetId": tab.id.as_str(),
            "url": seen.url,
            "title": seen.title,
            "snapshot": seen.text,
            "truncated": seen.is_cut,
        }))
    }

    async fn tab(&self, id: Option<&TargetId>) -> Result<Tab, Refused> {
        self.shared.settings.browser.cdp.tab(id).await.map_err(|error| failed(&error))
    }

    /// Where the browser is to go, if it may.
    fn address(&self) -> Result<String, Refused> {
        let url = self.body["url"].as_str().ok_or_else(|| bad("`url` is missing"))?;
        match decide_navigation(url) {
            Navigation::To(url) => Ok(url),
            Navigation::Refused(refusal) => Err(bad(&refusal.to_string())),
        }
    }

    fn target(&self) -> Result<Option<TargetId>, Refused> {
        match &self.body["targetId"] {
            Value::Null => Ok(None),
            Value::String(text) => {
                TargetId::parse(text).map(Some).ok_or_else(|| bad("`targetId` is no tab's"))
            }
            _ => Err(bad("`targetId` is no text")),
        }
    }
}

fn parse(body: &[u8]) -> Result<Value, Refused> {
    if body.is_empty() {
        return Ok(json!({}));
    }
    match serde_json::from_slice(body) {
        Ok(value @ Value::Object(_)) => Ok(value),
        Ok(_) | Err(_) => Err(bad("the body is no JSON object")),
    }
}

fn check_profile(head: &Parts) -> Result<(), Refused> {
    match query(head, "profile") {
        Some(other) if other != PROFILE => {
            Err((StatusCode::NOT_FOUND, format!("there is one profile, `{PROFILE}`")))
        }
        Some(_) | None => Ok(()),
    }
}

/// A value of the query. What is not written plainly is no name of anything here.
fn query(head: &Parts, name: &str) -> Option<String> {
    let pairs = head.uri.query().unwrap_or_default().split('&');
    pairs
        .filter_map(|pair| pair.split_once('='))
        .find(|(key, _)| *key == name)
        .map(|(_, value)| value.to_owned())
}

fn shown(tab: &Tab) -> Value {
    json!({ "targetId": tab.id.as_str(), "title": tab.title, "url": tab.url, "type": "page" })
}

fn bad(text: &str) -> Refused {
    (StatusCode::BAD_REQUEST, text.to_owned())
}

fn failed(error: &CdpError) -> Refused {
    let status = match error {
        CdpError::NoTab { .. } => StatusCode::NOT_FOUND,
        CdpError::Unreachable { .. } | CdpError::Nonsense { .. } | CdpError::Refused { .. } => {
            StatusCode::BAD_GATEWAY
        }
        CdpError::Slow { .. } => StatusCode::GATEWAY_TIMEOUT,
    };
    (status, error.to_string())
}

fn json_response(status: StatusCode, value: &Value) -> Response {
    respond(status, "application/json; charset=utf-8", value.to_string().into())
}
