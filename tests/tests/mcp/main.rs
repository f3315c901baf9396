//! The MCP door through the real binary: official clients in processes of their own, and attacks on it.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a test without its set-up cannot go on")]

mod ahead;
mod approvals;
mod attacks;
mod classes;
mod clients;
mod door;
mod golden;
mod kills;
mod load;
mod policy;
mod talk;
mod web;
