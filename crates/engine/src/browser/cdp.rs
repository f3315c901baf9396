//! Speaks to a browser's control port: tabs over plain HTTP, pages over one WebSocket each.
//!
//! Takes the port on the loopback address; gives tabs, pictures and text as plain values. Nothing that a
//! browser says is trusted: every answer has a cap and a time, ids are checked before they become part
//! of an address, and addresses that it names are not followed. Where a page may be sent is decided before
//! it comes here (`rules::browser::bridge`).

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use clawpen_rules::browser::ControlToken;
use futures_util::{SinkExt as _, StreamExt as _};
use http::header::{AUTHORIZATION, HOST};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

/// Time for one request over HTTP.
const ANSWER: Duration = Duration::from_secs(3);
/// Time for a look whether it answers at all.
const LOOK: Duration = Duration::from_secs(1);
/// Time for one call to a page, such as a picture of it.
const CALL: Duration = Duration::from_secs(20);
/// Between two looks whether a tab is gone.
const CLOSING: Duration = Duration::from_millis(20);
/// Time for a page to load; one that takes longer goes on loading.
const LOAD: Duration = Duration::from_secs(10);
/// Bytes of an answer over HTTP.
const ANSWER_BYTES: usize = 4 << 20;
/// Bytes of a message of a page: a picture, as base64.
const MESSAGE_BYTES: usize = 48 << 20;
/// Characters of a page's text.
const TEXT: usize = 200_000;
/// Tabs that are told of.
const TABS: usize = 256;
/// What an id is made of, at most.
const ID_LENGTH: usize = 128;
/// The text of a page, read in a world of its own where the page's scripts have changed nothing.
const READ: &str = "({title: document.title, url: location.href, \
                    text: document.body ? document.body.innerText : ''})";

/// A browser's control port on the loopback address.
#[derive(Clone, PartialEq, Eq)]
pub struct Cdp {
    port: u16,
    /// What every connection shows; nothing prints it.
    authorization: Option<Arc<str>>,
}

impl std::fmt::Debug for Cdp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cdp").field("port", &self.port).finish_non_exhaustive()
    }
}

/// One tab.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tab {
    pub id: TargetId,
    pub title: String,
    pub url: String,
}

/// Which tab: letters and digits that the browser made up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetId(String);

impl TargetId {
    /// `None` for what could be more than a name in an address.
    pub fn parse(text: &str) -> Option<Self> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let fits = !text.is_empty() && text.len() <= ID_LENGTH && text.bytes().all(is_plain);
        fits.then(|| Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What a page shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    pub title: String,
    pub url: String,
    pub text: String,
    /// Whether there is more text than is given.
    pub is_cut: bool,
}

/// The browser did not do it.
#[derive(Debug, thiserror::Error)]
pub enum CdpError {
    #[error("the browser does not answer at 127.0.0.1:{port}; start it with `POST /start`")]
    Unreachable { port: u16 },
    #[error("the browser did not {what} in time")]
    Slow { what: &'static str },
    #[error("the browser has no tab `{id}`")]
    NoTab { id: String },
    #[error("the browser refused to {what}: {said}")]
    Refused { what: &'static str, said: String },
    #[error("the browser's answer to `{what}` makes no sense")]
    Nonsense { what: &'static str },
}

impl Cdp {
    /// One that wants a token.
    pub fn guarded(port: u16, token: &ControlToken) -> Self {
        let text = STANDARD.encode(format!("openclaw:{}", token.expose()));
        Self { port, authorization: Some(format!("Basic {text}").into()) }
    }

    /// One that wants nothing.
    pub const fn open_to_all(port: u16) -> Self {
        Self { port, authorization: None }
    }

    pub const fn port(&self) -> u16 {
        self.port
    }

    /// What the browser says of itself: a sign of life.
    pub async fn version(&self) -> Result<Value, CdpError> {
        let asked = self.ask(Method::GET, "/json/version");
        let answer = tokio::time::timeout(LOOK, asked).await;
        match answer.map_err(|_elapsed| CdpError::Slow { what: "answer" })?? {
            (StatusCode::OK, body) => json_of(&body, "version"),
            (status, _) => Err(CdpError::Refused { what: "answer", said: status.to_string() }),
        }
    }

    /// Its tabs.
    pub async fn tabs(&self) -> Result<Vec<Tab>, CdpError> {
        let (_, body) = self.http(Method::GET, "/json/list", "list its tabs").await?;
        let list = json_of(&body, "list")?;
        let pages = list.as_array().into_iter().flatten().filter(|one| one["type"] == "page");
        Ok(pages.filter_map(tab).take(TABS).collect())
    }

    /// The tab of this id, or the first one.
    pub async fn tab(&self, id: Option<&TargetId>) -> Result<Tab, CdpError> {
        let tabs = self.tabs().await?;
        let found = match id {
            Some(id) => tabs.into_iter().find(|tab| tab.id == *id),
            None => tabs.into_iter().next(),
        };
        let id = id.map_or("", TargetId::as_str).to_owned();
        found.ok_or(CdpError::NoTab { id })
    }

    /// Opens a tab and sends it somewhere.
    pub async fn open(&self, url: &str) -> Result<Tab, CdpError> {
        let what = "open a tab";
        // Where to is said over the tab's own connection: an address in a request has room for less.
        let (_, body) = self.http(Method::PUT, "/json/new?about%3Ablank", what).await?;
        let made = tab(&json_of(&body, "new")?).ok_or(CdpError::Nonsense { what })?;
        if url != "about:blank" {
            self.navigate(&made.id, url).await?;
        }
        self.tab(Some(&made.id)).await
    }

    /// Brings a tab to the front.
    pub async fn focus(&self, id: &TargetId) -> Result<(), CdpError> {
        self.about_tab("activate", id).await
    }

    /// Closes a tab, and waits until it is gone: the browser answers before it is.
    pub async fn close(&self, id: &TargetId) -> Result<(), CdpError> {
        self.about_tab("close", id).await?;
        let gone = async {
            while self.tabs().await?.iter().any(|tab| tab.id == *id) {
                tokio::time::sleep(CLOSING).await;
            }
            Ok(())
        };
        let what = "close the tab";
        tokio::time::timeout(ANSWER, gone).await.map_err(|_elapsed| CdpError::Slow { what })?
    }

    async fn about_tab(&self, verb: &'static str, id: &TargetId) -> Result<(), CdpError> {
        let path = format!("/json/{verb}/{}", id.0);
        match self.http(Method::GET, &path, verb).await? {
            (StatusCode::OK, _) => Ok(()),
            (StatusCode::NOT_FOUND, _) => Err(CdpError::NoTab { id: id.0.clone() }),
            (status, _) => Err(CdpError::Refused { what: verb, said: status.to_string() }),
        }
    }

    /// Sends a tab somewhere and waits a while for it to load.
    pub async fn navigate(&self, id: &TargetId, url: &str) -> Result<(), CdpError> {
        let what = "go there";
        let mut page = self.page(id).await?;
        page.call("Page.enable", json!({}), what).await?;
        page.has_loaded = false;
        let answer = page.call("Page.navigate", json!({ "url": url }), what).await?;
        if let Some(said) = answer["errorText"].as_str().filter(|text| !text.is_empty()) {
            return Err(CdpError::Refused { what, said: said.chars().take(200).collect() });
        }
        // Within one page nothing is loaded.
        if answer["loaderId"].is_string() {
            let _slow = tokio::time::timeout(LOAD, page.loaded()).await;
        }
        Ok(())
    }

    /// A picture of a tab, as PNG.
    pub async fn screenshot(&self, id: &TargetId) -> Result<Vec<u8>, CdpError> {
        let what = "take a picture";
        let mut page = self.page(id).await?;
        page.call("Page.bringToFront", json!({}), what).await?;
        let answer = page.call("Page.captureScreenshot", json!({ "format": "png" }), what).await?;
        let data = answer["data"].as_str().unwrap_or_default();
        let bytes = STANDARD.decode(data).map_err(|_invalid| CdpError::Nonsense { what })?;
        if bytes.starts_with(b"\x89PNG\r\n\x1a\n") {
            Ok(bytes)
        } else {
            Err(CdpError::Nonsense { what })
        }
    }

    /// The text of a tab.
    pub async fn snapshot(&self, id: &TargetId) -> Result<Snapshot, CdpError> {
        let what = "read the page";
        let mut page = self.page(id).await?;
        let tree = page.call("Page.getFrameTree", json!({}), what).await?;
        let frame = &tree["frameTree"]["frame"]["id"];
        let world = json!({ "frameId": frame, "worldName": "clawpen" });
        let world = page.call("Page.createIsolatedWorld", world, what).await?;
        let read = json!({
            "expression": READ,
            "contextId": world["executionContextId"],
            "returnByValue": true,
        });
        let answer = page.call("Runtime.evaluate", read, what).await?;
        let value = &answer["result"]["value"];
        let field = |name: &str| value[name].as_str().unwrap_or_default();
        let text: String = field("text").chars().take(TEXT).collect();
        Ok(Snapshot {
            title: field("title").chars().take(1000).collect(),
            url: field("url").chars().take(10_000).collect(),
            is_cut: text.len() < field("text").len(),
            text,
        })
    }

    async fn page(&self, id: &TargetId) -> Result<Page, CdpError> {
        // Only what is listed: the browser itself has a page of its own kind, which steers all of it.
        self.tab(Some(id)).await?;
        let unreachable = CdpError::Unreachable { port: self.port };
        let Ok(stream) = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).await else {
            return Err(unreachable);
        };
        let address = format!("ws://127.0.0.1:{}/devtools/page/{}", self.port, id.0);
        let config = WebSocketConfig::default()
            .max_message_size(Some(MESSAGE_BYTES))
            .max_frame_size(Some(MESSAGE_BYTES));
        let mut request = address
            .into_client_request()
            .map_err(|_invalid| CdpError::Nonsense { what: "address" })?;
        if let Some(value) = self.authorization.as_deref().and_then(|text| text.parse().ok()) {
            request.headers_mut().insert(AUTHORIZATION, value);
        }
        let greeted = tokio_tungstenite::client_async_with_config(request, stream, Some(config));
        match tokio::time::timeout(ANSWER, greeted).await {
            Ok(Ok((socket, _))) => Ok(Page { socket, next: 1, has_loaded: false }),
            Ok(Err(_)) => Err(CdpError::NoTab { id: id.0.clone() }),
            Err(_elapsed) => Err(unreachable),
        }
    }

    async fn http(
        &self,
        method: Method,
        path: &str,
        what: &'static str,
    ) -> Result<(StatusCode, Bytes), CdpError> {
        tokio::time::timeout(ANSWER, self.ask(method, path))
            .await
            .map_err(|_elapsed| CdpError::Slow { what })?
    }

    /// One request on a connection of its own.
    async fn ask(&self, method: Method, path: &str) -> Result<(StatusCode, Bytes), CdpError> {
        let unreachable = || CdpError::Unreachable { port: self.port };
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).await;
        let stream = stream.map_err(|_refused| unreachable())?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|_broken| unreachable())?;
        // Ends with this function, whatever happens.
        let mut tasks = JoinSet::new();
        tasks.spawn(connection);
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, format!("127.0.0.1:{}", self.port));
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, &**authorization);
        }
        let request = request
            .body(Empty::<Bytes>::new())
            .map_err(|_invalid| CdpError::Nonsense { what: "address" })?;
        let answer = sender.send_request(request).await.map_err(|_broken| unreachable())?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), ANSWER_BYTES).collect().await;
        let body = body.map_err(|_long| CdpError::Nonsense { what: "body" })?;
        Ok((status, body.to_bytes()))
    }
}

/// A connection to one tab.
struct Page {
    socket: WebSocketStream<TcpStream>,
    next: u64,
    /// Whether the tab has said that it is loaded.
    has_loaded: bool,
}

impl Page {
    /// Asks and waits for the answer; events on the way are only looked at.
    async fn call(
        &mut self,
        method: &str,
        params: Value,
        what: &'static str,
    ) -> Result<Value, CdpError> {
        let id = self.next;
        self.next += 1;
        let text = json!({ "id": id, "method": method, "params": params }).to_string();
        let talk = async {
            let sent = self.socket.send(Message::text(text)).await;
            sent.map_err(|_broken| CdpError::Nonsense { what })?;
            loop {
                let message = self.read().await.ok_or(CdpError::Nonsense { what })?;
                if message["id"] != id {
                    continue;
                }
                if let Some(said) = message["error"]["message"].as_str() {
                    let said = said.chars().take(200).collect();
                    return Err(CdpError::Refused { what, said });
                }
                return Ok(message["result"].clone());
            }
        };
        tokio::time::timeout(CALL, talk).await.map_err(|_elapsed| CdpError::Slow { what })?
    }

    /// Waits until the tab is loaded, or its connection ends.
    async fn loaded(&mut self) {
        while !self.has_loaded && self.read().await.is_some() {}
    }

    /// The next message; `None` if there will be none.
    async fn read(&mut self) -> Option<Value> {
        loop {
            let Message::Text(text) = self.socket.next().await?.ok()? else { continue };
            let message: Value = serde_json::from_str(&text).ok()?;
            self.has_loaded |= message["method"] == "Page.loadEventFired";
            return Some(message);
        }
    }
}

fn tab(one: &Value) -> Option<Tab> {
    let text = |name: &str, most: usize| -> String {
        one[name].as_str().unwrap_or_default().chars().take(most).collect()
    };
    let id = TargetId::parse(one["id"].as_str()?)?;
    Some(Tab { id, title: text("title", 1000), url: text("url", 10_000) })
}

fn json_of(body: &[u8], what: &'static str) -> Result<Value, CdpError> {
    serde_json::from_slice(body).map_err(|_invalid| CdpError::Nonsense { what })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_a_name_and_nothing_more() {
        for fine in ["A1", "7F6A0B3E-2", "a_b"] {
            assert_eq!(TargetId::parse(fine).unwrap().as_str(), fine);
        }
        for wrong in ["", "a/b", "../x", "a?b", "a#", "a b", "ä", &"a".repeat(ID_LENGTH + 1)] {
            assert_eq!(TargetId::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_tab_without_a_proper_id_is_none() {
        let made = tab(&json!({ "id": "A1", "title": "t", "url": "about:blank", "type": "page" }));
        let id = TargetId::parse("A1").unwrap();
        let expected = Tab { id, title: "t".to_owned(), url: "about:blank".to_owned() };
        assert_eq!(made, Some(expected));
        assert_eq!(tab(&json!({ "id": "../../x", "title": "t" })), None);
        assert_eq!(tab(&json!({})), None);
    }
}
