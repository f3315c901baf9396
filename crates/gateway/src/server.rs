//! Starts and stops the gateway.
//!
//! Where it listens and with what secret is decided in `rules::access::listen`; a refusal there means
//! that nothing is opened at all.

mod prepare;

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::http::HeaderValue;
use axum::routing::any;
use clawpen_engine::approvals_file::now_ms;
use clawpen_engine::audit::Door as AuditDoor;
use clawpen_engine::call::Desk;
use clawpen_engine::config_file::Views;
use clawpen_engine::config_store::{StoreError, Surroundings};
use clawpen_engine::devices::Devices;
use clawpen_engine::runner::Runner;
use clawpen_rules::access::listen::{Bind, Listen, ListenRefusal, Unconfigured};
use clawpen_rules::hooks::HooksRefused;
use clawpen_wire::gateway::{HANDSHAKE_TIMEOUT_MS, TICK_INTERVAL_MS, close};
use secrecy::SecretString;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};

use crate::approvals::{self, Approvals};
use crate::auth::Guard;
use crate::cron::{self, Planner};
use crate::heart::{self, Heart};
use crate::http::{self, responses::Answered};
use crate::hub::{Hub, Slow};
use crate::journal::{Journal, Level};
use crate::methods::health::{self, LastHealth};
use crate::metrics::Metrics;
use crate::runs::{Ears, Runs};
use crate::shared::{Shared, Strangers};
use crate::socket::{Caller, Door};
use crate::throttle::{Patience, Throttle};
use crate::tls::{self, Identity, TlsError};

use prepare::{ensure_secret, names, patience, seed_origins};

/// How often and how long a taken port is tried again.
const PORT_ATTEMPTS: u32 = 5;
const PORT_WAIT: Duration = Duration::from_millis(500);
const HEALTH_INTERVAL: Duration = Duration::from_secs(60);
/// How long runs of agents may take to end when the gateway stops.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// How long connections may take to end when the gateway stops.
const PATIENCE: Duration = Duration::from_secs(3);

/// How to start.
#[derive(Debug, Clone)]
pub struct Options {
    pub around: Surroundings,
    pub port: Option<u16>,
    pub bind: Option<String>,
    /// What counts instead of `gateway.auth`.
    pub auth: Option<String>,
    pub token: Option<SecretString>,
    pub password: Option<SecretString>,
    pub unconfigured: Unconfigured,
    /// How long a login may take.
    pub handshake_timeout: Duration,
    /// How often a sign of life is sent.
    pub tick: Duration,
}

impl Options {
    pub fn new(around: Surroundings) -> Self {
        let wanted = around.variable("OPENCLAW_HANDSHAKE_TIMEOUT_MS");
        let timeout = wanted.and_then(|text| text.trim().parse().ok()).filter(|ms| *ms > 0);
        Self {
            around,
            port: None,
            bind: None,
            auth: None,
            token: None,
            password: None,
            unconfigured: Unconfigured::Refuse,
            handshake_timeout: Duration::from_millis(timeout.unwrap_or(HANDSHAKE_TIMEOUT_MS)),
            tick: Duration::from_millis(TICK_INTERVAL_MS),
        }
    }
}

/// Why the gateway did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Config(StoreError),
    #[error(transparent)]
    Refused(ListenRefusal),
    #[error(
        "another gateway instance is already listening on port {port}; stop it or choose another port"
    )]
    Taken { port: u16 },
    #[error("cannot listen on `{address}`: {cause}")]
    Listen {
        address: SocketAddr,
        #[source]
        cause: io::Error,
    },
    #[error("cannot make a token for the gateway: {0}")]
    Token(String),
    #[error("the webhooks are not open, and the gateway does not start without them: {0}")]
    Hooks(#[from] HooksRefused),
    #[error("`gateway.tls` is on, and the gateway does not start without it: {0}")]
    Tls(#[from] TlsError),
    #[error(
        "others can reach the gateway, and `gateway.controlUi.allowedOrigins` does not say which pages may \
         talk to it; the pages of this machine could not be written there ({0}); write them yourself"
    )]
    Origins(String),
}

/// Whether somebody comes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Farewell {
    Stop,
    Restart,
}

/// When clients may try again after a restart.
const RESTART_MS: u64 = 1500;

/// A gateway that runs. It stops when it is told to, or with its runtime.
#[derive(Debug)]
pub struct Running {
    addresses: Vec<SocketAddr>,
    fingerprint: Option<String>,
    stop: watch::Sender<bool>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
    watcher: Option<Watcher>,
    shared: SharedHandle,
}

/// The thread that watches the approvals. It ends with its handle.
#[derive(Debug)]
struct Watcher {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Watcher {
    fn start(shared: &Arc<Shared>) -> Option<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let (shared, ending) = (shared.clone(), stop.clone());
        let thread = std::thread::Builder::new()
            .name("approvals".to_owned())
            .spawn(move || approvals::watch(&shared, &ending));
        Some(Self { stop, thread: Some(thread.ok()?) })
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // It looks at least once a second; whoever stops does not wait for that.
        drop(self.thread.take());
    }
}

struct SharedHandle(Arc<Shared>);

impl std::fmt::Debug for SharedHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Shared")
    }
}

impl Running {
    /// Where it listens.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The SHA-256 of the certificate; `None` if the gateway speaks no TLS.
    pub fn fingerprint(&self) -> Option<&str> {
        self.fingerprint.as_deref()
    }

    /// Ends what agents run, tells every client, closes every connection and waits for their ends. Sandboxes and approvals
    /// stay: they are not this process'.
    pub async fn stop(self, farewell: Farewell) {
        let shared = &self.shared.0;
        shared.journal.note(Level::Info, "the gateway stops", &json!({}));
        drop(self.watcher);
        shared.is_ready.store(false, Ordering::Relaxed);
        // Whoever listens hears how his run ended, and what was said is kept.
        shared.runner.close(LAST_WORDS).await;
        let payload = match farewell {
            Farewell::Stop => {
                json!({ "reason": "gateway stopping", "restartExpectedMs": Value::Null })
            }
            Farewell::Restart => {
                json!({ "reason": "gateway restarting", "restartExpectedMs": RESTART_MS })
            }
        };
        shared.hub.broadcast("shutdown", &payload, Slow::Close);
        shared.hub.close_all(close::RESTART, "service restart");
        // Nobody listens any more if every task has ended.
        let _ = self.stop.send(true);
        let all = futures_util::future::join_all(self.tasks);
        let _ = tokio::time::timeout(PATIENCE, all).await;
    }
}

/// Starts a gateway.
pub async fn start(options: Options) -> Result<Running, StartError> {
    let around = options.around.clone();
    let store = around.open().map_err(StartError::Config)?;
    let config = &store.loaded.config;
    let mut wanted = prepare::wanted(config, &options, &around)?;
    let identity = match &wanted.tls {
        Some(tls) => {
            let state = std::path::Path::new(&store.locations.state_dir);
            Some(tls::load(tls, state, &names(wanted.bind))?)
        }
        None => None,
    };
    let secret = ensure_secret(&around, &wanted.secret)?;
    let guard = Guard::of(&secret).ok_or_else(|| StartError::Token("none".to_owned()))?;
    http::hooks::read(config, &guard)?;
    let listeners = open(&wanted).await?;
    seed_origins(&around, &mut wanted, &listeners)?;
    let strict = wanted.strict_transport.as_deref();
    let desk = Arc::new(Desk::around(around.clone(), AuditDoor::Websocket));
    let shared = Arc::new_cyclic(|shared| Shared {
        runner: Runner::new(
            Arc::clone(&desk),
            tokio::runtime::Handle::current(),
            Arc::new(Ears(shared.clone())),
        ),
        runs: Runs::default(),
        answered: Answered::default(),
        cron: Planner::default(),
        heart: Heart::default(),
        guard,
        strict_transport: strict.and_then(|text| HeaderValue::from_str(text).ok()),
        origins: wanted.origins,
        device_rule: wanted.devices,
        proxies: wanted.proxies,
        devices: Devices::in_state(&store.locations.state_dir),
        hub: Hub::default(),
        health: LastHealth::default(),
        views: Views::default(),
        approvals: Approvals::new(),
        desk,
        journal: Journal::in_state(&store.locations.state_dir),
        metrics: Metrics::default(),
        throttle: Throttle::new(patience(config)),
        hook_throttle: Throttle::new(Patience::HOOKS),
        hooks_shut: Mutex::default(),
        hook_runs: Arc::new(Semaphore::new(http::hooks::MOST_RUNS)),
        started: Instant::now(),
        handshake_timeout: options.handshake_timeout,
        is_ready: AtomicBool::new(true),
        strangers: Strangers::default(),
        writes: Mutex::new(HashMap::new()),
        locations: store.locations,
        around,
    });
    Ok(run(shared, listeners, (identity, options.tick)))
}

fn run(
    shared: Arc<Shared>,
    listeners: Vec<TcpListener>,
    (identity, tick): (Option<Identity>, Duration),
) -> Running {
    let (stop, stopped) = watch::channel(false);
    let addresses: Vec<SocketAddr> =
        listeners.iter().filter_map(|listener| listener.local_addr().ok()).collect();
    let mut tasks = Vec::new();
    for listener in listeners {
        let app = Router::new().fallback(any(http::serve)).with_state(shared.clone());
        let service = app.into_make_service_with_connect_info::<Caller>();
        let mut stopped = stopped.clone();
        let acceptor = identity.as_ref().map(|identity| identity.acceptor.clone());
        tasks.push(tokio::spawn(async move {
            let serving = axum::serve(Door { listener, acceptor }, service);
            let serving = serving.with_graceful_shutdown(async move {
                let _ = stopped.wait_for(|stop| *stop).await;
            });
            // It only ends when it is told to.
            let _ = serving.await;
        }));
    }
    tasks.push(tokio::spawn(beat(shared.clone(), tick, stopped.clone())));
    tasks.push(tokio::spawn(cron::run(shared.clone(), stopped.clone())));
    tasks.push(tokio::spawn(heart::run(shared.clone(), stopped)));
    let watcher = Watcher::start(&shared);
    let places: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    let fingerprint = identity.as_ref().map(|identity| identity.fingerprint.clone());
    let about = json!({ "addresses": places, "certificate": fingerprint });
    shared.journal.note(Level::Info, "the gateway listens", &about);
    if identity.is_some_and(|identity| identity.is_key_open) {
        let what = "everybody on this machine can read the key of the certificate; chmod 600 it";
        shared.journal.note(Level::Warn, what, &json!({}));
    }
    Running { addresses, fingerprint, stop, tasks, watcher, shared: SharedHandle(shared) }
}

/// Sends signs of life and the health until the gateway stops.
async fn beat(shared: Arc<Shared>, tick: Duration, mut stopped: watch::Receiver<bool>) {
    let mut ticks = tokio::time::interval(tick);
    let mut checks = tokio::time::interval(HEALTH_INTERVAL);
    // The first of each is due at once, and nobody waits for it.
    ticks.tick().await;
    checks.tick().await;
    loop {
        tokio::select! {
            // Told to stop, or nobody is left who could tell us.
            _ = stopped.changed() => return,
            _ = ticks.tick() => {
                shared.hub.broadcast("tick", &json!({ "ts": now_ms() }), Slow::Drop);
            }
            _ = checks.tick() => {
                let shared = shared.clone();
                let looked = tokio::task::spawn_blocking(move || {
                    if let Ok(health) = health::recent(&shared) {
                        shared.hub.health_changed();
                        shared.hub.broadcast("health", &health, Slow::Close);
                    }
                });
                let _ = looked.await;
            }
        }
    }
}

async fn open(wanted: &Listen) -> Result<Vec<TcpListener>, StartError> {
    let first = match wanted.bind {
        Bind::Loopback => Ipv4Addr::LOCALHOST,
        Bind::Lan => Ipv4Addr::UNSPECIFIED,
        Bind::Custom(address) => address,
    };
    let mut listeners = vec![bind((first, wanted.port).into()).await?];
    if wanted.bind == Bind::Loopback {
        let port = listeners.first().and_then(|first| first.local_addr().ok());
        let port = port.map_or(wanted.port, |address| address.port());
        // A machine without IPv6 is none the worse for it.
        listeners.extend(TcpListener::bind((Ipv6Addr::LOCALHOST, port)).await.ok());
    }
    Ok(listeners)
}

async fn bind(address: SocketAddr) -> Result<TcpListener, StartError> {
    let mut attempt = 1;
    loop {
        match TcpListener::bind(address).await {
            Ok(listener) => return Ok(listener),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                if attempt == PORT_ATTEMPTS {
                    return Err(StartError::Taken { port: address.port() });
                }
                attempt += 1;
                tokio::time::sleep(PORT_WAIT).await;
            }
            Err(cause) => return Err(StartError::Listen { address, cause }),
        }
    }
}
