//! Doors: a WebSocket and HTTP server that authenticates, converts and calls the engine.
//!
//! Nothing is decided here. Who may log in and call what is for `rules::access`; what a method does is
//! for the engine. A connection, as a straight line: [`server`] accepts, [`handshake`] lets in,
//! [`connection`] reads frames, [`dispatch`] checks and calls, [`methods`] convert.
#![forbid(unsafe_code)]

mod auth;
mod connection;
mod device_proof;
mod dispatch;
mod handshake;
mod http;
mod hub;
mod methods;
mod presence;
pub mod server;
mod shared;
mod socket;
mod tree_json;

pub use server::{Options, Running, StartError, start};
