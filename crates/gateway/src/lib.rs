//! Doors: each takes calls in, says who calls, and hands them to the engine; none decides.
//!
//! [`mcp`] is the door of agents. The rest is the gateway: a WebSocket and HTTP server for Studio and the
//! command line. Who may log in and call what is for `rules::access`; what a method does is for the engine.
//! A connection, as a straight line: [`server`] accepts, `handshake` lets in, `connection` reads frames,
//! `dispatch` checks and calls, `methods` convert.
#![forbid(unsafe_code)]

mod approvals;
mod auth;
pub mod bridge;
pub mod client;
mod connection;
mod cron;
mod device_proof;
mod dispatch;
mod handshake;
mod heart;
mod http;
mod hub;
mod journal;
pub mod mcp;
mod methods;
mod metrics;
mod presence;
mod rounds;
mod runs;
pub mod server;
mod shared;
mod socket;
mod throttle;
mod tls;
mod tree_json;

pub use server::{Farewell, Options, Running, StartError, start};
pub use tls::TlsError;
