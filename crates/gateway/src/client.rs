//! A client of a gateway: logs in with a device of its own and asks, one request after the other.
//!
//! For measurements and checks; it keeps no key and understands no events.

use std::fmt::Write as _;
use std::net::SocketAddr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use clawpen_engine::approvals_file::now_ms;
use futures_util::{SinkExt as _, StreamExt as _};
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;

const SCOPES: [&str; 1] = ["operator.read"];

/// What went wrong, in words.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("cannot reach the gateway at `{address}`")]
    Connect {
        address: SocketAddr,
        #[source]
        cause: std::io::Error,
    },
    #[error("the gateway speaks no WebSocket: {0}")]
    Upgrade(String),
    #[error("no key could be made for this device: {0}")]
    Key(String),
    #[error("the gateway closed the connection")]
    Closed,
    #[error("the connection to the gateway broke: {0}")]
    Broken(String),
    #[error("the gateway refused `{method}`: {message}")]
    Refused { method: String, message: String },
}

/// The key that a client shows. Several connections may share one.
pub struct Device(Ed25519KeyPair);

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Device")
    }
}

impl Device {
    pub fn new() -> Result<Self, ClientError> {
        let seed = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new());
        let seed = seed.map_err(|error| ClientError::Key(error.to_string()))?;
        let pair = Ed25519KeyPair::from_pkcs8(seed.as_ref());
        pair.map(Self).map_err(|error| ClientError::Key(error.to_string()))
    }
}

/// A connection that is logged in.
pub struct Client {
    socket: WebSocketStream<TcpStream>,
    next: u64,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("next", &self.next).finish_non_exhaustive()
    }
}

impl Client {
    /// Connects and logs in, to read.
    pub async fn connect(
        address: SocketAddr,
        token: &str,
        device: &Device,
    ) -> Result<Self, ClientError> {
        let stream = TcpStream::connect(address).await;
        let stream = stream.map_err(|cause| ClientError::Connect { address, cause })?;
        // Small requests must not wait for more.
        let _ = stream.set_nodelay(true);
        let upgrade =
            |error: tokio_tungstenite::tungstenite::Error| ClientError::Upgrade(error.to_string());
        let request = format!("ws://{address}/").into_client_request().map_err(upgrade)?;
        let (socket, _) =
            tokio_tungstenite::client_async(request, stream).await.map_err(upgrade)?;
        let mut client = Self { socket, next: 0 };
        let challenge = client.frame().await?;
        let nonce = challenge["payload"]["nonce"].as_str().unwrap_or_default().to_owned();
        client.ask("connect", login(device, token, &nonce)).await?;
        Ok(client)
    }

    /// Asks and waits for the answer; events in between are passed over.
    pub async fn ask(&mut self, method: &str, params: Value) -> Result<Value, ClientError> {
        self.next += 1;
        let id = self.next.to_string();
        let frame = json!({ "type": "req", "id": id, "method": method, "params": params });
        let sent = self.socket.send(Message::Text(frame.to_string().into())).await;
        sent.map_err(|error| ClientError::Broken(error.to_string()))?;
        loop {
            let frame = self.frame().await?;
            if frame["type"] != "res" || frame["id"] != json!(id) {
                continue;
            }
            if frame["ok"] == json!(true) {
                return Ok(frame["payload"].clone());
            }
            let message = frame["error"]["message"].as_str().unwrap_or_default().to_owned();
            return Err(ClientError::Refused { method: method.to_owned(), message });
        }
    }

    /// Asks and reads nothing back: a client that does not listen.
    pub async fn shout(&mut self, method: &str) -> Result<(), ClientError> {
        self.next += 1;
        let frame = json!({ "type": "req", "id": self.next.to_string(), "method": method });
        let sent = self.socket.send(Message::Text(frame.to_string().into())).await;
        sent.map_err(|error| ClientError::Broken(error.to_string()))
    }

    async fn frame(&mut self) -> Result<Value, ClientError> {
        loop {
            match self.socket.next().await {
                Some(Ok(Message::Text(text))) => {
                    return serde_json::from_str(&text)
                        .map_err(|error| ClientError::Upgrade(error.to_string()));
                }
                Some(Ok(Message::Close(_)) | Err(_)) | None => return Err(ClientError::Closed),
                Some(Ok(_)) => {}
            }
        }
    }
}

fn login(device: &Device, token: &str, nonce: &str) -> Value {
    let public = device.0.public_key().as_ref();
    let id = hex(&Sha256::digest(public));
    let (client, mode, at) = ("gateway-client", "backend", now_ms());
    let scopes = SCOPES.join(",");
    let signed = format!("v2|{id}|{client}|{mode}|operator|{scopes}|{at}|{token}|{nonce}");
    let signature = device.0.sign(signed.as_bytes());
    json!({
        "minProtocol": 3,
        "maxProtocol": 4,
        "client": { "id": client, "version": env!("CARGO_PKG_VERSION"), "platform": "linux", "mode": mode },
        "role": "operator",
        "scopes": SCOPES,
        "auth": { "token": token },
        "device": {
            "id": id,
            "publicKey": URL_SAFE_NO_PAD.encode(public),
            "signature": URL_SAFE_NO_PAD.encode(signature),
            "signedAt": at,
            "nonce": nonce,
        },
    })
}

/// Bytes as hex digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing into a text does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
