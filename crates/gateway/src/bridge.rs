//! The bridge: an HTTP server on the loopback address by which one sandboxed browser is driven and watched.
//!
//! ```text
//! request ─► size ─► Host ─► another page? ─► a link to the viewer, once │ the secret ─► body ─► route
//! ```
//!
//! Who may do what is decided by `rules::browser::bridge`; this reads heads, compares secrets (by digest, in
//! constant time) and carries out. It never listens anywhere else, and never without a secret. Its secret is its own:
//! nothing is written to any config. One thread owns the browser's sandbox ([`run`]); routes send it [`Order`]s, and
//! speak to the browser's control port themselves.

mod credentials;
mod routes;
pub mod run;

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE, EXPIRES, HOST, ORIGIN,
    PRAGMA, REFERER, REFERRER_POLICY, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::uri::Authority;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use clawpen_engine::browser::Viewer;
use clawpen_engine::browser::cdp::Cdp;
use clawpen_engine::random;
use clawpen_rules::browser::bridge::{
    self as rules, Asked, BridgeRefusal, BridgeVerdict, MAX_BODY, ObserverToken, ObserverTokens,
};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc, oneshot};

pub use credentials::Auth;

/// Requests at once.
const REQUESTS: usize = 32;
/// Time for a request's body.
const BODY: Duration = Duration::from_secs(15);

/// What the bridge is for.
#[derive(Debug)]
pub struct Settings {
    pub auth: Auth,
    pub browser: About,
    /// What the times of links are counted by.
    pub clock: BridgeClock,
    /// To whoever owns the browser's sandbox.
    pub orders: mpsc::Sender<Order>,
}

/// Tells how much time has passed since some moment.
#[derive(Clone)]
pub struct BridgeClock(Arc<dyn Fn() -> Duration + Send + Sync>);

impl BridgeClock {
    /// A clock that nobody can set.
    pub fn start() -> Self {
        let since = Instant::now();
        Self(Arc::new(move || since.elapsed()))
    }

    /// Any other: a minute passes in a moment.
    pub fn of(now: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    fn now(&self) -> Duration {
        (self.0)()
    }
}

impl std::fmt::Debug for BridgeClock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("BridgeClock")
    }
}

/// The browser behind it.
#[derive(Debug, Clone)]
pub struct About {
    pub cdp: Cdp,
    pub is_headless: bool,
}

/// What only the owner of the browser's sandbox can do.
#[derive(Debug)]
pub enum Order {
    Start(oneshot::Sender<Result<(), String>>),
    Stop(oneshot::Sender<Result<(), String>>),
    /// How its screen is watched now.
    Viewer(oneshot::Sender<Option<Viewer>>),
}

/// There is no bridge.
#[derive(Debug, thiserror::Error)]
pub enum BridgeError {
    #[error("the bridge listens on the loopback address only, not at `{address}`")]
    NotLoopback { address: SocketAddr },
    #[error("the bridge does not start without a secret")]
    NoAuth,
    #[error("cannot listen at `{address}`")]
    Listen {
        address: SocketAddr,
        #[source]
        cause: io::Error,
    },
    #[error("cannot make up a secret")]
    Random(#[source] io::Error),
    #[error("cannot listen for signals")]
    Signals(#[source] io::Error),
    #[error("cannot start the threads that serve the bridge")]
    Runtime(#[source] io::Error),
    #[error("the bridge broke")]
    Serve(#[source] io::Error),
}

/// A bridge that listens.
#[derive(Debug)]
pub struct Bridge {
    listener: TcpListener,
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    settings: Settings,
    observers: Mutex<ObserverTokens>,
    room: Semaphore,
}

impl Bridge {
    /// Listens. A port of zero is any free one.
    pub async fn open(address: SocketAddr, settings: Settings) -> Result<Self, BridgeError> {
        if !address.ip().is_loopback() {
            return Err(BridgeError::NotLoopback { address });
        }
        if settings.auth.is_none() {
            return Err(BridgeError::NoAuth);
        }
        let failed = |cause| BridgeError::Listen { address, cause };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let shared =
            Shared { settings, observers: Mutex::default(), room: Semaphore::new(REQUESTS) };
        Ok(Self { listener, address, shared: Arc::new(shared) })
    }

    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// A link by which one person can watch, once and soon.
    pub fn observer_url(&self) -> Result<String, BridgeError> {
        self.shared.observer_url(self.address)
    }

    /// Serves until `end` comes.
    pub async fn serve(
        self,
        end: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), BridgeError> {
        let router = Router::new().fallback(answer).with_state(self.shared);
        let served = axum::serve(self.listener, router).with_graceful_shutdown(end).await;
        served.map_err(BridgeError::Serve)
    }
}

impl Shared {
    fn observers(&self) -> std::sync::MutexGuard<'_, ObserverTokens> {
        self.observers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn observer_url(&self, bridge: SocketAddr) -> Result<String, BridgeError> {
        let token = ObserverToken::of(random::bytes().map_err(BridgeError::Random)?);
        let url = rules::observer_url(bridge, &token);
        self.observers().issue(token, self.settings.clock.now());
        Ok(url)
    }

    async fn order<T>(&self, order: impl FnOnce(oneshot::Sender<T>) -> Order) -> Option<T> {
        let (sender, answer) = oneshot::channel();
        self.settings.orders.send(order(sender)).await.ok()?;
        answer.await.ok()
    }
}

async fn answer(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let Ok(_room) = shared.room.try_acquire() else {
        return plain(StatusCode::SERVICE_UNAVAILABLE, "too many requests at once; try again");
    };
    match rules::decide(&asked(&shared, &request)) {
        BridgeVerdict::Refused(refusal) => refused(refusal),
        BridgeVerdict::Watch { token } => watch(&shared, &token).await,
        BridgeVerdict::Allowed => {
            let (head, body) = request.into_parts();
            let most = usize::try_from(MAX_BODY).unwrap_or(usize::MAX);
            match tokio::time::timeout(BODY, axum::body::to_bytes(body, most)).await {
                Ok(Ok(body)) => routes::answer(&shared, &head, &body).await,
                // One that announced no length, and is too long after all.
                Ok(Err(_)) => refused(BridgeRefusal::TooLarge),
                Err(_elapsed) => {
                    plain(StatusCode::REQUEST_TIMEOUT, "the body did not come in time")
                }
            }
        }
    }
}

fn asked<'a>(shared: &Shared, request: &'a Request) -> Asked<'a> {
    let headers = request.headers();
    let all = |name: HeaderName| -> Vec<&str> {
        let values = headers.get_all(name).iter();
        values.map(|value| value.to_str().unwrap_or_default()).collect()
    };
    let mut hosts = all(HOST);
    // A target that names a host is a proxy's business, so one header and it are one too many.
    hosts.extend(request.uri().authority().map(Authority::as_str));
    let lengths = headers.get_all(CONTENT_LENGTH).iter();
    let length = |value: &HeaderValue| value.to_str().ok()?.parse::<u64>().ok();
    Asked {
        method: request.method().as_str(),
        path: request.uri().path(),
        query: request.uri().query().unwrap_or_default(),
        hosts,
        origins: all(ORIGIN),
        referers: all(REFERER),
        fetch_sites: all(HeaderName::from_static("sec-fetch-site")),
        body: lengths.map(|value| length(value).unwrap_or(u64::MAX)).max().unwrap_or(0),
        credential: shared.settings.auth.check(headers),
    }
}

/// The page that a link leads to. The link is used up first, whatever comes of it.
async fn watch(shared: &Shared, token: &str) -> Response {
    let redeemed = shared.observers().redeem(token, shared.settings.clock.now());
    if let Err(refusal) = redeemed {
        return refused(refusal);
    }
    let Some(viewer) = shared.order(Order::Viewer).await.flatten() else {
        return plain(
            StatusCode::SERVICE_UNAVAILABLE,
            "the browser has no viewer now; start it first",
        );
    };
    let Ok(nonce) = random::bytes() else {
        return plain(StatusCode::INTERNAL_SERVER_ERROR, "no random bytes");
    };
    let nonce = ObserverToken::of(nonce);
    let page = rules::viewer_page(viewer.port, &viewer.password, &nonce);
    let policy = format!(
        "default-src 'none'; script-src 'nonce-{}'; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'",
        nonce.expose()
    );
    let mut response = respond(StatusCode::OK, "text/html; charset=utf-8", page.into());
    if let Ok(policy) = HeaderValue::try_from(policy) {
        response.headers_mut().insert(CONTENT_SECURITY_POLICY, policy);
    }
    response
}

fn refused(refusal: BridgeRefusal) -> Response {
    let status = StatusCode::from_u16(refusal.status()).unwrap_or(StatusCode::FORBIDDEN);
    let mut response = plain(status, &refusal.to_string());
    if refusal == BridgeRefusal::Unauthorized {
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

fn plain(status: StatusCode, text: &str) -> Response {
    respond(status, "text/plain; charset=utf-8", text.to_owned().into())
}

/// Whatever is answered is kept by nobody and told to nobody.
fn respond(status: StatusCode, kind: &'static str, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    for (name, value) in [
        (CONTENT_TYPE, kind),
        (CACHE_CONTROL, "no-store, no-cache, must-revalidate"),
        (PRAGMA, "no-cache"),
        (EXPIRES, "0"),
        (REFERRER_POLICY, "no-referrer"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}
