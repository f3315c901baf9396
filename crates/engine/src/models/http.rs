//! One request on one connection, with a limit on every wait.
//!
//! Redirects are not followed: they would carry the key to whoever the server names. A connection is never used for a
//! second request, so that an answer that was left half read cannot be taken for the next one.

use std::future::Future;
use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use clawpen_rules::models::proxy::{Route, Scheme};
use http::header::{CONTENT_TYPE, HOST, HeaderName, HeaderValue, PROXY_AUTHORIZATION};
use http::{Method, Request, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;

use super::proxy;

/// How long the steps of a request may take.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// Name, connection and TLS together.
    pub connect: Duration,
    /// From the request to the head of the answer: a local model may have to be loaded first.
    pub first_byte: Duration,
    /// Between two pieces of the answer.
    pub idle: Duration,
}

impl Default for Times {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { connect: seconds(20), first_byte: seconds(300), idle: seconds(120) }
    }
}

/// A request that got no answer. Says nothing of what was sent.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    #[error("`{address}` is no address")]
    Address { address: String },
    #[error(
        "a header of the request cannot be sent; look at the key and at `headers` in the config"
    )]
    Header,
    #[error("cannot reach `{host}`")]
    Connect {
        host: String,
        #[source]
        cause: io::Error,
    },
    #[error("no authority of this machine can be read, so no server can be believed")]
    NoAuthorities,
    #[error("the proxy `{proxy}` did not let us through to `{host}`: status {code}")]
    Proxy { proxy: String, host: String, code: u16 },
    #[error("what answers at `{proxy}` is no HTTP proxy")]
    NoProxy { proxy: String },
    #[error("`{host}` took longer than {} s to {what}", .after.as_secs_f32())]
    Late { host: String, what: &'static str, after: Duration },
    #[error("the connection to `{host}` broke")]
    Broke {
        host: String,
        #[source]
        cause: hyper::Error,
    },
}

/// What is sent.
pub(super) struct Post {
    pub(super) address: String,
    /// Marked so that nothing prints them.
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    pub(super) body: Bytes,
    pub(super) route: Route,
}

/// The head of an answer, and the rest to be read.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) wait: Option<Duration>,
    body: Incoming,
    host: String,
    idle: Duration,
    /// Ends with the answer.
    _connection: Connection,
}

/// The task that moves a connection's bytes; gone when nobody wants them.
struct Connection(JoinHandle<()>);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Sends a request and waits for the head of its answer.
pub(super) async fn post(post: Post, times: &Times) -> Result<Answer, HttpError> {
    let bad = || HttpError::Address { address: shown(&post.address) };
    let uri: Uri = post.address.parse().map_err(|_error| bad())?;
    let (scheme, host, number) = target(&post.address).ok_or_else(bad)?;
    let reach = async {
        let socket = match &post.route {
            Route::Direct(_) => connect(&host, number).await?,
            Route::Proxy(proxy) => connect(&proxy.host, proxy.port).await?,
        };
        let socket = match (scheme, &post.route) {
            (Scheme::Http, _) => return handshake(socket, &host).await,
            (Scheme::Https, Route::Direct(_)) => socket,
            (Scheme::Https, Route::Proxy(proxy)) => {
                proxy::tunnel(socket, proxy, (&host, number)).await?
            }
        };
        let name = ServerName::try_from(host.clone()).map_err(|_error| bad())?;
        let stream = TlsConnector::from(believed()?).connect(name, socket).await;
        let stream = stream.map_err(|cause| HttpError::Connect { host: host.clone(), cause })?;
        handshake(stream, &host).await
    };
    let (mut sender, connection) = within(times.connect, &host, "connect", reach).await??;
    let authority = uri.authority().map(http::uri::Authority::as_str).unwrap_or_default();
    let path = uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    let request = Request::builder().method(Method::POST);
    let mut request = match (scheme, &post.route) {
        // Without a tunnel it is the proxy that sends the request on, so it must know where to.
        (Scheme::Http, Route::Proxy(_)) => request.uri(uri.clone()),
        (Scheme::Http, Route::Direct(_)) | (Scheme::Https, _) => request.uri(path),
    };
    if let Some(headers) = request.headers_mut() {
        if let (Scheme::Http, Route::Proxy(proxy)) = (scheme, &post.route) {
            headers.extend(proxy::login(proxy).map(|login| (PROXY_AUTHORIZATION, login)));
        }
        headers.insert(HOST, HeaderValue::from_str(authority).map_err(|_error| bad())?);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.extend(post.headers);
    }
    // Only a path that is none is left to fail here.
    let request = request.body(Full::new(post.body)).map_err(|_error| HttpError::Header)?;
    let sent = within(times.first_byte, &host, "answer", sender.send_request(request)).await?;
    let answer = sent.map_err(|cause| HttpError::Broke { host: host.clone(), cause })?;
    let header = |name: &str| answer.headers().get(name).and_then(|value| value.to_str().ok());
    let wait = clawpen_rules::models::retry::wait(header("retry-after"), header("retry-after-ms"));
    Ok(Answer {
        status: answer.status().as_u16(),
        wait,
        body: answer.into_body(),
        host,
        idle: times.idle,
        _connection: connection,
    })
}

/// Where an address leads; `None` if it is none.
pub(super) fn target(address: &str) -> Option<(Scheme, String, u16)> {
    let uri: Uri = address.parse().ok()?;
    let (scheme, usual) = match uri.scheme_str()? {
        "https" => (Scheme::Https, 443),
        _ => (Scheme::Http, 80),
    };
    let host = uri.host()?.trim_matches(['[', ']']).to_owned();
    Some((scheme, host, uri.port_u16().unwrap_or(usual)))
}

async fn connect(host: &str, port: u16) -> Result<TcpStream, HttpError> {
    let failed = |cause| HttpError::Connect { host: host.to_owned(), cause };
    let socket = TcpStream::connect((host, port)).await.map_err(failed)?;
    socket.set_nodelay(true).map_err(failed)?;
    Ok(socket)
}

type Sender = hyper::client::conn::http1::SendRequest<Full<Bytes>>;

async fn handshake<S>(stream: S, host: &str) -> Result<(Sender, Connection), HttpError>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let made = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (sender, connection) =
        made.map_err(|cause| HttpError::Broke { host: host.to_owned(), cause })?;
    // How a connection ended is seen by whoever reads from it.
    let task = tokio::spawn(async move { drop(connection.await) });
    Ok((sender, Connection(task)))
}

async fn within<T>(
    time: Duration,
    host: &str,
    what: &'static str,
    wait: impl Future<Output = T>,
) -> Result<T, HttpError> {
    let late = |_elapsed| HttpError::Late { host: host.to_owned(), what, after: time };
    tokio::time::timeout(time, wait).await.map_err(late)
}

/// The authorities that this machine believes, read once.
fn believed() -> Result<Arc<ClientConfig>, HttpError> {
    static KNOWN: OnceLock<Arc<ClientConfig>> = OnceLock::new();
    if let Some(known) = KNOWN.get() {
        return Ok(Arc::clone(known));
    }
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(HttpError::NoAuthorities);
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    // The provider has all versions, so this cannot fail; if it did, nobody would be believed.
    let config = config.map_err(|_error| HttpError::NoAuthorities)?;
    let config = config.with_root_certificates(roots).with_no_client_auth();
    Ok(Arc::clone(KNOWN.get_or_init(|| Arc::new(config))))
}

impl Answer {
    /// The next bytes; `None` at the end. What is no data is passed over.
    pub(super) async fn chunk(&mut self) -> Result<Option<Bytes>, HttpError> {
        loop {
            let frame = within(self.idle, &self.host, "go on", self.body.frame()).await?;
            let Some(frame) = frame else { return Ok(None) };
            let broke = |cause| HttpError::Broke { host: self.host.clone(), cause };
            if let Ok(data) = frame.map_err(broke)?.into_data() {
                return Ok(Some(data));
            }
        }
    }

    /// The beginning of an answer that is an error.
    pub(super) async fn beginning(&mut self, most: usize) -> String {
        let mut bytes = Vec::new();
        while bytes.len() < most {
            match self.chunk().await {
                Ok(Some(chunk)) => bytes.extend_from_slice(&chunk),
                Ok(None) | Err(_) => break,
            }
        }
        bytes.truncate(most);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// An address without what may be secret in it.
fn shown(address: &str) -> String {
    clawpen_rules::config::print::secrets::without_url_password(address)
}
