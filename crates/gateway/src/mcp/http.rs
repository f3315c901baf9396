//! MCP over HTTP: many clients on this machine, each with the token.
//!
//! ```text
//! connection ─► a stranger for two seconds ─► /mcp? Host? Origin? token? ─► known ─► body in time and in size ─► rmcp
//! ```
//!
//! Nothing of a body is read before the caller has shown the token. A name that is no name of this machine is refused
//! even with it: a page in a browser can make that name lead here.

mod guard;
mod room;
pub mod token;

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::Server;
pub use guard::{Guard, Refused, WeakToken};
use room::{KNOWN, Room, STRANGERS, Visit};

/// Connections at once, with some that are just being closed; more are closed before a byte is read.
const CONNECTIONS: usize = KNOWN + 2 * STRANGERS;
/// Sessions at once.
const SESSIONS: usize = 1024;
/// A session that is quiet for so long is over; people think for long, and clients do not begin anew by themselves.
const IDLE: Duration = Duration::from_secs(3600);
/// Time for the headers of the next request on a kept connection; the first one has less, see `room.rs`.
const HEADERS: Duration = Duration::from_secs(10);
/// A client that takes nothing of what it is sent for so long has left, whatever its machine says.
const DEAF: Duration = Duration::from_secs(20);
/// Time for a request's body.
const BODY: Duration = Duration::from_secs(15);
/// Bytes of headers.
const HEADER_BYTES: usize = 64 * 1024;
/// Bytes of a body: a file to write, with room for JSON's escapes.
const BODY_BYTES: usize = 16 << 20;
/// A moment for those who are still answered when we are told to end.
const LAST_MOMENTS: Duration = Duration::from_secs(5);

type Answer = Response<BoxBody<Bytes, Infallible>>;
type Mcp = StreamableHttpService<Server, LocalSessionManager>;

/// Why the door is shut.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    #[error("cannot listen at `{address}`")]
    Listen {
        address: SocketAddr,
        #[source]
        cause: io::Error,
    },
    #[error("cannot listen for signals")]
    Signals(#[source] io::Error),
}

/// A door that listens.
#[derive(Debug)]
pub struct Door {
    listener: TcpListener,
    address: SocketAddr,
}

impl Door {
    pub async fn open(address: SocketAddr) -> Result<Self, HttpError> {
        let failed = |cause| HttpError::Listen { address, cause };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, address })
    }

    /// Where it listens, with the port that was given if any would do.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until we are told to end. Calls that run then are taken back.
    pub async fn serve(self, server: Server, guard: Guard) -> Result<(), HttpError> {
        let ended = told_to_end().map_err(HttpError::Signals)?;
        let ending = CancellationToken::new();
        let config = StreamableHttpServerConfig::default()
            .disable_allowed_hosts()
            .with_cancellation_token(ending.clone())
            .with_max_request_body_bytes(BODY_BYTES);
        let mut sessions = LocalSessionManager::default();
        sessions.session_config.keep_alive = Some(IDLE);
        let sessions = Arc::new(sessions);
        let make = move || Ok(server.clone());
        let shared = Arc::new(Shared {
            mcp: Mcp::new(make, Arc::clone(&sessions), config),
            sessions,
            guard,
        });
        let open = Arc::new(Semaphore::new(CONNECTIONS));
        let room = Room::new();
        tokio::pin!(ended);
        loop {
            let accepted = tokio::select! {
                () = &mut ended => break,
                accepted = self.listener.accept() => accepted,
            };
            let Ok((stream, peer)) = accepted else {
                // Too many descriptors, most likely; they come back when somebody leaves.
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            };
            let Ok(permit) = Arc::clone(&open).try_acquire_owned() else { continue };
            let visit = Arc::new(room.enter(peer.ip()));
            let shared = Arc::clone(&shared);
            let ending = ending.clone();
            tokio::spawn(async move {
                connection((stream, visit), shared, ending).await;
                drop(permit);
            });
        }
        ending.cancel();
        // Everybody gone is all permits back.
        let all = u32::try_from(CONNECTIONS).unwrap_or(u32::MAX);
        let _left = tokio::time::timeout(LAST_MOMENTS, open.acquire_many(all)).await;
        Ok(())
    }
}

/// What all connections share.
struct Shared {
    mcp: Mcp,
    sessions: Arc<LocalSessionManager>,
    guard: Guard,
}

async fn connection(
    (stream, visit): (TcpStream, Arc<Visit>),
    shared: Arc<Shared>,
    ending: CancellationToken,
) {
    let _small_answers_at_once = stream.set_nodelay(true);
    let deaf = u32::try_from(DEAF.as_millis()).unwrap_or(u32::MAX);
    if rustix::net::sockopt::set_tcp_user_timeout(&stream, deaf).is_err() {
        // Without it a client that reads nothing would hold its answer for good.
        return;
    }
    let stay = Arc::clone(&visit);
    let service = service_fn(move |request| {
        let (shared, visit) = (Arc::clone(&shared), Arc::clone(&visit));
        async move { Ok::<_, Infallible>(answer(&shared, &visit, request).await) }
    });
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS)
        .max_buf_size(HEADER_BYTES)
        .half_close(false);
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    tokio::select! {
        // How it ended is the client's business.
        _closed = &mut connection => {}
        () = stay.sent_away() => {}
        () = ending.cancelled() => {
            connection.as_mut().graceful_shutdown();
            let _closed = tokio::time::timeout(LAST_MOMENTS, connection).await;
        }
    }
}

async fn answer(shared: &Shared, visit: &Visit, request: Request<Incoming>) -> Answer {
    if let Err(refused) = shared.guard.check(&request) {
        return plain(refused.status(), &refused.to_string());
    }
    if !visit.stay() {
        return plain(StatusCode::SERVICE_UNAVAILABLE, "too many connections; close one first");
    }
    let (head, body) = request.into_parts();
    let begins = !head.headers.contains_key("mcp-session-id");
    if begins && shared.sessions.sessions.read().await.len() >= SESSIONS {
        return plain(StatusCode::SERVICE_UNAVAILABLE, "too many sessions; end one first");
    }
    let body = match tokio::time::timeout(BODY, Limited::new(body, BODY_BYTES).collect()).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            return plain(StatusCode::PAYLOAD_TOO_LARGE, "the body is too large");
        }
        Ok(Err(_)) => return plain(StatusCode::BAD_REQUEST, "the body cannot be read"),
        Err(_) => return plain(StatusCode::REQUEST_TIMEOUT, "the body did not come in time"),
    };
    shared.mcp.handle(Request::from_parts(head, Full::new(body))).await
}

fn plain(status: StatusCode, text: &str) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(format!("{text}\n"))).boxed());
    *answer.status_mut() = status;
    let close = http::HeaderValue::from_static("close");
    answer.headers_mut().insert(http::header::CONNECTION, close);
    if status == StatusCode::UNAUTHORIZED {
        let scheme = http::HeaderValue::from_static("Bearer");
        answer.headers_mut().insert(http::header::WWW_AUTHENTICATE, scheme);
    }
    answer
}

/// Comes to its end when we are told to end, by the terminal or by whoever started us.
pub(crate) fn told_to_end() -> io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut interrupt, mut terminate) =
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}
