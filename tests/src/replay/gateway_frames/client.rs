//! A client of the gateway: it keeps what it is sent, and asks for it in any order.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use clawpen_engine::approvals_file::now_ms;
use futures_util::{SinkExt as _, StreamExt as _};
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;

/// What a connection is opened with.
#[derive(Debug, Default, Clone)]
pub struct Headers {
    pub origin: Option<String>,
    pub forwarded: bool,
    /// Ten wrong secrets come before it.
    pub guess_first: bool,
    /// Others, one line each; `host` takes the place of the real one.
    pub more: Vec<(&'static str, String)>,
    /// The address of this machine that it comes from.
    pub source: Option<Ipv4Addr>,
}

impl Headers {
    /// What must have been sent, by what came back.
    pub(super) fn of(rows: &[Value], conn: &str, address: SocketAddr) -> Self {
        let mine = || rows.iter().filter(|row| row["conn"] == *conn).map(|row| &row["frame"]);
        let connect = mine().find(|frame| frame["method"] == "connect" && frame["type"] == "req");
        let client = connect.map_or(Value::Null, |frame| frame["params"]["client"].clone());
        let answer = connect.and_then(|connect| {
            mine().find(|frame| frame["type"] == "res" && frame["id"] == connect["id"])
        });
        let details = answer.map_or(Value::Null, |frame| frame["error"]["details"].clone());
        let is_page = client["mode"] == "webchat" || client["id"] == "openclaw-control-ui";
        let origin = match details["reason"].as_str() {
            Some("origin missing or invalid") => None,
            Some("origin not allowed") => Some("https://elsewhere.example".to_owned()),
            _ => is_page.then(|| format!("http://localhost:{}", address.port())),
        };
        Self {
            origin,
            forwarded: details["reason"] == "not-paired",
            guess_first: details["code"] == "AUTH_RATE_LIMITED",
            ..Self::default()
        }
    }
}

/// A connection.
pub struct Client {
    socket: WebSocketStream<TcpStream>,
    challenge: Option<Value>,
    kept: Vec<Value>,
    closed: Option<(u16, String)>,
    pub is_logged_in: bool,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("closed", &self.closed).finish_non_exhaustive()
    }
}

impl Client {
    pub async fn connect(address: SocketAddr, headers: &Headers) -> Result<Self> {
        let socket = TcpSocket::new_v4()?;
        if let Some(source) = headers.source {
            socket.bind((source, 0).into())?;
        }
        let stream = socket.connect(address).await?;
        let mut request = format!("ws://{address}/").into_client_request()?;
        if let Some(origin) = &headers.origin {
            request.headers_mut().insert("origin", HeaderValue::from_str(origin)?);
        }
        if headers.forwarded {
            request.headers_mut().insert("x-forwarded-for", HeaderValue::from_static("192.0.2.9"));
        }
        for (name, value) in &headers.more {
            let value = HeaderValue::from_str(value)?;
            if *name == "host" {
                request.headers_mut().insert(*name, value);
            } else {
                request.headers_mut().append(*name, value);
            }
        }
        let (socket, _) = tokio_tungstenite::client_async(request, stream).await?;
        Ok(Self { socket, challenge: None, kept: Vec::new(), closed: None, is_logged_in: false })
    }

    pub fn is_over(&self) -> bool {
        self.closed.is_some()
    }

    pub async fn send(&mut self, text: String) {
        // A server that has closed meanwhile says so when its answer is read.
        let _ = self.socket.send(Message::Text(text.into())).await;
    }

    pub async fn close(&mut self) {
        let _ = self.socket.close(None).await;
    }

    /// Hangs up with a code of one's own, as pages do.
    pub async fn hang_up(&mut self, code: u16, reason: &str) {
        let frame = CloseFrame { code: code.into(), reason: reason.to_owned().into() };
        let _ = self.socket.close(Some(frame)).await;
    }

    /// Reads one more frame.
    async fn step(&mut self) -> Result<()> {
        match self.socket.next().await {
            Some(Ok(Message::Text(text))) => {
                let frame: Value = serde_json::from_str(&text)?;
                if frame["event"] == "connect.challenge" {
                    self.challenge = Some(frame);
                } else {
                    self.kept.push(frame);
                }
                Ok(())
            }
            Some(Ok(Message::Close(frame))) => {
                let (code, reason) = frame.map_or((1005, String::new()), |f| {
                    (f.code.into(), f.reason.as_str().to_owned())
                });
                self.closed = Some((code, reason));
                Ok(())
            }
            Some(Ok(_)) => Ok(()),
            Some(Err(error)) => {
                self.closed.get_or_insert((1006, error.to_string()));
                Ok(())
            }
            None => {
                self.closed.get_or_insert((1006, String::new()));
                Ok(())
            }
        }
    }

    async fn until<T>(
        &mut self,
        patience: Duration,
        mut find: impl FnMut(&mut Self) -> Option<T>,
    ) -> Result<T> {
        let wait = async {
            loop {
                if let Some(found) = find(self) {
                    return Ok(found);
                }
                if let Some(closed) = &self.closed {
                    bail!("closed with {closed:?}; kept {:?}", self.kept);
                }
                self.step().await?;
            }
        };
        tokio::time::timeout(patience, wait).await.context("nothing came")?
    }

    pub async fn challenge(&mut self, patience: Duration) -> Result<Value> {
        self.until(patience, |client| client.challenge.clone()).await
    }

    /// The next answer to a request.
    pub async fn response(&mut self, id: &Value, patience: Duration) -> Result<Value> {
        let is_it = |frame: &Value| frame["type"] == "res" && frame["id"] == *id;
        self.take(patience, is_it).await
    }

    /// The next event of a name.
    pub async fn event(&mut self, name: &str, patience: Duration) -> Result<Value> {
        self.take(patience, |frame| frame["event"] == *name).await
    }

    /// The next frame that is looked for, which stays where it is.
    pub(super) async fn see(
        &mut self,
        patience: Duration,
        is_it: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        self.until(patience, |client| client.kept.iter().find(|frame| is_it(frame)).cloned()).await
    }

    /// The next frame that is looked for.
    pub async fn take(
        &mut self,
        patience: Duration,
        is_it: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        self.until(patience, |client| {
            let index = client.kept.iter().position(&is_it)?;
            Some(client.kept.remove(index))
        })
        .await
    }

    /// Says whether such a frame has come and was not taken yet.
    pub fn has(&self, is_it: impl Fn(&Value) -> bool) -> bool {
        self.kept.iter().any(is_it)
    }

    /// How the connection was closed.
    pub async fn closing(&mut self, patience: Duration) -> Result<(u16, String)> {
        let wait = async {
            while self.closed.is_none() {
                self.step().await?;
            }
            Ok::<_, anyhow::Error>(())
        };
        tokio::time::timeout(patience, wait).await.context("it stays open")??;
        self.closed.clone().context("closed")
    }
}

/// Tries a wrong secret as a page of this machine.
pub async fn guess(address: SocketAddr) -> Result<()> {
    let origin = Some(format!("http://localhost:{}", address.port()));
    let headers = Headers { origin, ..Headers::default() };
    let mut client = Client::connect(address, &headers).await?;
    let connect = json!({ "type": "req", "id": "guess", "method": "connect", "params": {
        "minProtocol": 3, "maxProtocol": 3, "auth": { "token": "wrong" },
        "client": { "id": "webchat-ui", "version": "1", "platform": "x", "mode": "webchat" } } });
    client.send(connect.to_string()).await;
    client.response(&json!("guess"), Duration::from_secs(20)).await?;
    Ok(())
}

/// The devices of a recording, each with a key of its own.
#[derive(Default)]
pub struct Devices {
    keys: HashMap<String, (Ed25519KeyPair, String, String)>,
    tokens: HashMap<String, String>,
}

impl std::fmt::Debug for Devices {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.keys.keys()).finish()
    }
}

impl Devices {
    /// The key of a device, made when it is first asked for.
    fn key(&mut self, name: &str) -> Result<&(Ed25519KeyPair, String, String)> {
        if !self.keys.contains_key(name) {
            let seed = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new())
                .map_err(|error| anyhow::anyhow!("no key: {error}"))?;
            let pair = Ed25519KeyPair::from_pkcs8(seed.as_ref())
                .map_err(|error| anyhow::anyhow!("no key: {error}"))?;
            let public = pair.public_key().as_ref().to_vec();
            let id = Sha256::digest(&public)
                .iter()
                .fold(String::new(), |id, byte| format!("{id}{byte:02x}"));
            self.keys.insert(name.to_owned(), (pair, URL_SAFE_NO_PAD.encode(&public), id));
        }
        self.keys.get(name).context("the key")
    }

    /// Signs a login as the recorded client did, well or badly.
    pub fn sign(
        &mut self,
        frame: &mut Value,
        challenge: &Value,
        expected: Option<&Value>,
        recorded_ts: Option<i64>,
    ) -> Result<()> {
        let params = &mut frame["params"];
        let Some(name) = params["device"]["id"].as_str().map(str::to_owned) else { return Ok(()) };
        let code = expected.map_or(Value::Null, |frame| frame["error"]["details"]["code"].clone());
        for key in ["token", "deviceToken"] {
            if params["auth"][key] == "<DEVICE_TOKEN>" {
                params["auth"][key] = json!(self.tokens.get(&name).context("the device's token")?);
            }
        }
        let late = recorded_ts
            .and_then(|ts| Some(params["device"]["signedAt"].as_i64()? - ts))
            .filter(|late| late.abs() > 10_000)
            .unwrap_or(0);
        let signed_at = i64::try_from(now_ms())? + late;
        if params["device"]["nonce"] == "<NONCE>" {
            params["device"]["nonce"] = challenge["payload"]["nonce"].clone();
        }
        let (pair, public, id) = self.key(&name)?;
        params["device"]["publicKey"] = json!(public);
        params["device"]["signedAt"] = json!(signed_at);
        let is_other = code == "DEVICE_AUTH_DEVICE_ID_MISMATCH";
        params["device"]["id"] = if is_other { json!("0".repeat(64)) } else { json!(id) };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let scopes: Vec<String> =
            params["scopes"].as_array().into_iter().flatten().map(text).collect();
        let token = ["token", "deviceToken", "bootstrapToken"]
            .iter()
            .find_map(|key| params["auth"][key].as_str())
            .unwrap_or_default();
        let is_cli = params["client"]["id"] == "cli";
        let mut parts = vec![
            if is_cli { "v3" } else { "v2" }.to_owned(),
            id.clone(),
            text(&params["client"]["id"]),
            text(&params["client"]["mode"]),
            params["role"].as_str().unwrap_or("operator").to_owned(),
            scopes.join(","),
            signed_at.to_string(),
            token.to_owned(),
            text(&params["device"]["nonce"]),
        ];
        if is_cli {
            parts.push(text(&params["client"]["platform"]).to_lowercase());
            parts.push(String::new());
        }
        let mut signature = pair.sign(parts.join("|").as_bytes()).as_ref().to_vec();
        if code == "DEVICE_AUTH_SIGNATURE_INVALID" {
            signature[0] ^= 1;
        }
        params["device"]["signature"] = json!(URL_SAFE_NO_PAD.encode(signature));
        Ok(())
    }

    /// The recorded names of the devices that have shown themselves.
    pub(super) fn names(&self) -> Vec<&str> {
        self.keys.keys().map(String::as_str).collect()
    }

    /// Remembers the token that a device was given.
    pub(super) fn remember(&mut self, asked: &Value, given: &Value) {
        let device = asked["params"]["device"]["id"].as_str();
        let token = given["payload"]["auth"]["deviceToken"].as_str();
        if let (Some(device), Some(token)) = (device, token) {
            self.tokens.insert(device.to_owned(), token.to_owned());
        }
    }

    /// A value with the ids of the devices that have shown themselves.
    pub(super) fn fill(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => {
                let id = self.keys.get(text).map(|(_, _, id)| json!(id));
                id.unwrap_or_else(|| value.clone())
            }
            Value::Array(items) => items.iter().map(|item| self.fill(item)).collect(),
            Value::Object(members) => Value::Object(
                members.iter().map(|(key, value)| (key.clone(), self.fill(value))).collect(),
            ),
            other => other.clone(),
        }
    }
}

/// One HTTP exchange, in the recorded shape.
pub async fn http(address: SocketAddr, request: &Value) -> Result<Value> {
    let text = |key: &str| request[key].as_str().unwrap_or_default().to_owned();
    let body = text("body");
    let host = request["headers"]["Host"].as_str().map_or(address.to_string(), str::to_owned);
    let mut head = format!(
        "{} {} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: {}\r\n",
        text("method"),
        text("path"),
        body.len()
    );
    for (name, value) in request["headers"].as_object().into_iter().flatten() {
        if name == "Host" {
            continue;
        }
        head = format!("{head}{name}: {}\r\n", value.as_str().unwrap_or_default());
    }
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(format!("{head}\r\n{body}").as_bytes()).await?;
    let mut answer = String::new();
    tokio::time::timeout(Duration::from_secs(20), stream.read_to_string(&mut answer)).await??;
    let (head, body) = answer.split_once("\r\n\r\n").context("a head")?;
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).context("a status")?;
    let headers: serde_json::Map<String, Value> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_lowercase(), json!(value)))
        .filter(|(name, _)| !matches!(name.as_str(), "content-length" | "date" | "connection"))
        .collect();
    let body = serde_json::from_str(body).unwrap_or_else(|_| json!(body));
    Ok(json!({ "status": status.parse::<u16>()?, "headers": headers, "body": body }))
}
