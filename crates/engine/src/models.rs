//! Talks to models: one request, and its answer as it comes.
//!
//! ```text
//! Model (rules) + Talk ─► dialect: a request ─► http ─► lines ─► dialect: deltas … a whole Turn
//!                          openai, responses, anthropic, gemini, ollama     └ or why there is none
//! ```
//!
//! The client is our own, over hyper and rustls. `genai` was tried and left: it keeps a line of any length in memory, takes
//! a Gemini stream that broke off for a whole answer, drops tool calls that come without an index, and holds keys as plain
//! text in headers that may be printed. Here every length has a cap, an answer counts only when the server has said that it
//! is over, and a key leaves its wiped place only for the one header that carries it.
//!
//! Nothing here runs a tool or keeps a transcript.

mod anthropic;
mod ask;
mod dialect;
mod gemini;
mod http;
mod key;
mod lines;
mod ollama;
mod openai;
mod proxy;
mod responses;
pub mod talk;

pub use ask::{AskError, AskFailure, Client};
pub use dialect::StreamError;
pub use http::{HttpError, Times};
pub use key::{KeyError, Keys};
