//! Serves a bridge for as long as somebody wants it.
//!
//! The caller's thread owns the browser's sandbox and carries out orders; the bridge is served by others.

use std::net::{Ipv4Addr, SocketAddr};

use clawpen_engine::browser::{Browser, BrowserError};
use clawpen_engine::random;
use clawpen_rules::browser::bridge::ObserverToken;
use tokio::sync::mpsc;

use super::{About, Auth, Bridge, BridgeClock, BridgeError, Order, Settings};
use crate::mcp::http::told_to_end;

/// Orders that wait.
const ORDERS: usize = 8;

/// What whoever opened the bridge needs to know.
#[derive(Debug, Clone)]
pub struct Opened {
    pub address: SocketAddr,
    /// Opens every route. In memory only: a new one each time.
    pub token: String,
    /// For one person, once and soon; `None` if the screen cannot be watched.
    pub observer_url: Option<String>,
}

/// Opens a bridge to a browser, tells where it is and serves until we are told to end.
pub fn until_told(
    browser: &mut Browser<'_>,
    tell: impl FnOnce(&Opened),
) -> Result<(), BridgeError> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(BridgeError::Runtime)?;
    // Made like a link: 24 random bytes in hexadecimal digits.
    let token = ObserverToken::of(random::bytes().map_err(BridgeError::Random)?);
    let token = token.expose().to_owned();
    let (orders, mut queue) = mpsc::channel(ORDERS);
    let settings = Settings {
        auth: Auth::default().with_token(&token),
        browser: About { cdp: browser.cdp(), is_headless: browser.is_headless() },
        clock: BridgeClock::start(),
        orders,
    };
    let ended = runtime.block_on(async { told_to_end().map_err(BridgeError::Signals) })?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let bridge = runtime.block_on(Bridge::open(address, settings))?;
    let observer_url = match browser.viewer() {
        Ok(Some(_)) => Some(bridge.observer_url()?),
        Ok(None) | Err(_) => None,
    };
    tell(&Opened { address: bridge.address(), token, observer_url });
    let serving = runtime.spawn(bridge.serve(ended));
    // Ends when the bridge, which holds the other end, is gone.
    while let Some(order) = queue.blocking_recv() {
        carry_out(browser, order);
    }
    runtime.block_on(serving).unwrap_or(Ok(()))
}

/// An answer that nobody waits for any more is dropped.
fn carry_out(browser: &mut Browser<'_>, order: Order) {
    let told = |done: Result<(), BrowserError>| done.map_err(|error| error.to_string());
    match order {
        Order::Start(answer) => drop(answer.send(told(browser.start()))),
        Order::Stop(answer) => drop(answer.send(told(browser.stop()))),
        Order::Viewer(answer) => drop(answer.send(browser.viewer().unwrap_or_default())),
    }
}
