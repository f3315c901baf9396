//! Doors: each takes calls in, says who calls, and hands them to the engine; none decides.
#![forbid(unsafe_code)]

pub mod mcp;
