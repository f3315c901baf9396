//! The MCP door: tools, files and progress of one session for any agent that speaks MCP.
//!
//! ```text
//! stdio ──┐
//!         ├─► Server (rmcp) ─► who calls ─► engine::call::Desk ─► answer, progress
//! HTTP ───┘    └ token, Host and Origin are checked before anything is read
//! ```
//!
//! The protocol is rmcp's business. This says whose session a client is, turns answers into content, passes progress on,
//! puts questions to the person behind a client that can ask, and takes a call back when its client leaves.

mod admin;
mod answer;
mod elicit;
pub mod http;
mod progress;
pub mod run;
mod server;
pub mod stdio;

use std::sync::Arc;

use clawpen_engine::audit::Door;
use clawpen_engine::call::Desk;

pub use server::Server;

/// Calls that are carried out at once; more wait.
const CALLS_AT_ONCE: usize = 64;
/// Calls that are carried out or wait; more are sent away.
const CALLS_TAKEN: usize = 192;

/// What a door was opened with.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Everybody is in this session; without it, a session for each client name.
    pub session: Option<String>,
    pub agent: Option<String>,
    pub backend: Option<String>,
    pub admin: Admin,
    /// What the door itself knows of whoever calls, for `tools.elevated.allowFrom.mcp`.
    pub caller: String,
    /// The process that opened the door for itself: an agent's program. Whatever it starts answers no question.
    pub agent_process: Option<u32>,
}

/// Whether `sandbox_status`, `sandbox_list`, `sandbox_explain` and `sandbox_recreate` are offered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Admin {
    #[default]
    Closed,
    Open,
}

/// The engine behind a door, with a bound on what it does at once.
#[derive(Debug, Clone)]
pub struct Backroom {
    desk: Arc<Desk>,
    room: Arc<tokio::sync::Semaphore>,
    queue: Arc<tokio::sync::Semaphore>,
}

impl Backroom {
    /// Under the config that this process' environment points to.
    pub fn open() -> Self {
        Self::with(Desk::new(Door::Mcp))
    }

    /// Over a desk of one's own.
    pub fn with(desk: Desk) -> Self {
        let room = Arc::new(tokio::sync::Semaphore::new(CALLS_AT_ONCE));
        let queue = Arc::new(tokio::sync::Semaphore::new(CALLS_TAKEN));
        Self { desk: Arc::new(desk), room, queue }
    }
}
