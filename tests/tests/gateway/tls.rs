//! TLS on the gateway's port: what it shows, and what gets nowhere there.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clawpen_gateway::StartError;
use clawpen_tests::replay::gateway_frames::client::{Client, Devices, Headers};
use futures_util::{SinkExt as _, StreamExt as _};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

use super::{Ground, TOKEN, WAIT, connect, device};

async fn ground() -> Ground {
    Ground::gateway(&format!("auth: {{token: '{TOKEN}'}}, tls: {{enabled: true}}")).await
}

/// Connects to a name of this machine, believing only the gateway's own certificate.
async fn secure(ground: &Ground, name: &'static str) -> std::io::Result<TlsStream<TcpStream>> {
    let path = ground.home.path().join(".openclaw/gateway/tls/gateway-cert.pem");
    let certificate = CertificateDer::from_pem_file(path).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(certificate).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(ground.address()).await?;
    let name = ServerName::try_from(name).unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

/// The next frame that is text.
async fn frame(socket: &mut WebSocketStream<TlsStream<TcpStream>>) -> Value {
    loop {
        if let Message::Text(text) = socket.next().await.unwrap().unwrap() {
            return serde_json::from_str(&text).unwrap();
        }
    }
}

/// Sends bytes and reads until the other end closes.
async fn raw(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut answer = Vec::new();
    // However it ends: what counts is what came before.
    let ended = tokio::time::timeout(WAIT, stream.read_to_end(&mut answer)).await;
    assert!(ended.is_ok(), "it stays open");
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_believes_the_certificate_talks_over_wss() {
    let ground = ground().await;
    let fingerprint = ground.running.fingerprint().unwrap().to_owned();
    assert_eq!(fingerprint.len(), 32 * 3 - 1, "{fingerprint}");
    for name in ["localhost", "127.0.0.1"] {
        let stream = secure(&ground, name).await.unwrap();
        let url = format!("wss://{name}:{}/", ground.address().port());
        let (mut socket, _) = tokio_tungstenite::client_async(url, stream).await.unwrap();
        let challenge = frame(&mut socket).await;
        let mut login = connect(&["operator.read"], TOKEN);
        login["params"]["device"] = device();
        Devices::default().sign(&mut login, &challenge, None, None).unwrap();
        socket.send(Message::Text(login.to_string().into())).await.unwrap();
        let hello = frame(&mut socket).await;
        assert_eq!(hello["ok"], true, "{hello}");
    }
    // The same certificate after a restart.
    let Ground { home, running } = ground;
    running.stop(clawpen_gateway::Farewell::Restart).await;
    let around = clawpen_engine::config_store::Surroundings::of_home(home.path().to_str().unwrap());
    let options =
        clawpen_gateway::Options { port: Some(0), ..clawpen_gateway::Options::new(around) };
    let running = clawpen_gateway::start(options).await.unwrap();
    assert_eq!(running.fingerprint(), Some(fingerprint.as_str()));
}

#[tokio::test(flavor = "multi_thread")]
async fn http_answers_over_tls() {
    let ground = ground().await;
    let mut stream = secure(&ground, "localhost").await.unwrap();
    let request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert!(answer.ends_with("{\"ok\":true,\"status\":\"live\"}"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_comes_without_tls_is_told_so_and_served_nothing() {
    let ground = ground().await;
    let authorized = format!(
        "GET /metrics HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
    );
    for request in [authorized.as_str(), "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", "\0\0"]
    {
        let answer = String::from_utf8(raw(ground.address(), request.as_bytes()).await).unwrap();
        assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
        assert!(answer.contains("this port speaks TLS"), "{answer}");
        assert!(!answer.contains("clawpen_"), "{answer}");
    }
    let socket = Client::connect(ground.address(), &Headers::default()).await;
    assert!(socket.err().is_some_and(|error| error.to_string().contains("400")));
}

/// A greeting as TLS 1.2 makes it: no word of 1.3.
fn old_greeting() -> Vec<u8> {
    let extensions: &[&[u8]] = &[
        &[0x00, 0x0a, 0x00, 0x04, 0x00, 0x02, 0x00, 0x1d], // groups: x25519
        &[0x00, 0x0b, 0x00, 0x02, 0x01, 0x00],             // points: uncompressed
        &[0x00, 0x0d, 0x00, 0x06, 0x00, 0x04, 0x04, 0x03, 0x08, 0x04], // signatures
    ];
    let extensions = extensions.concat();
    let mut body = vec![0x03, 0x03];
    body.extend([7; 32]);
    body.extend([0x00, 0x00, 0x04, 0xc0, 0x2b, 0xc0, 0x2f, 0x01, 0x00]);
    body.extend(u16::try_from(extensions.len()).unwrap().to_be_bytes());
    body.extend(extensions);
    let length = u16::try_from(body.len()).unwrap();
    let mut greeting = vec![0x16, 0x03, 0x01];
    greeting.extend((length + 4).to_be_bytes());
    greeting.extend([0x01, 0x00]);
    greeting.extend(length.to_be_bytes());
    greeting.extend(body);
    greeting
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_talked_down_to_an_older_tls() {
    let ground = ground().await;
    let answer = raw(ground.address(), &old_greeting()).await;
    // An alert, fatal: protocol version.
    assert_eq!(answer.first(), Some(&0x15), "{answer:?}");
    assert_eq!(answer.get(5..7), Some(&[2, 70][..]), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handshake_that_does_not_end_is_let_go_and_keeps_nobody_waiting() {
    let ground = ground().await;
    let address = ground.address();
    let slow: Vec<_> = [&b""[..], b"\x16", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"]
        .into_iter()
        .cycle()
        .take(30)
        .map(|start| tokio::spawn(async move { raw(address, start).await }))
        .collect();
    let start = Instant::now();
    secure(&ground, "localhost").await.unwrap();
    assert!(start.elapsed() < Duration::from_secs(5));
    for one in slow {
        let answer = one.await.unwrap();
        assert!(!answer.starts_with(b"HTTP/1.1 200"), "{answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_certificate_stops_the_start_and_is_named() {
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name).to_string_lossy().into_owned();
    std::fs::write(path("cert.pem"), "no certificate").unwrap();
    std::fs::write(path("key.pem"), "no key").unwrap();
    let config = json!({ "gateway": {
        "mode": "local", "auth": { "token": TOKEN },
        "tls": { "enabled": true, "certPath": path("cert.pem"), "keyPath": path("key.pem") } } });
    let refused = Ground::try_of(&config.to_string()).await.err().unwrap();
    let said = refused.to_string();
    assert!(matches!(refused, StartError::Tls(_)), "{said}");
    for part in [path("cert.pem").as_str(), "gateway.tls.certPath"] {
        assert!(said.contains(part), "{said}");
    }
}
