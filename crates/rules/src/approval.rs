//! Decides whether a command on the host runs, is asked about, or is refused.

pub mod file;
