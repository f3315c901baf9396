//! Does what the rules decided: looks facts up, reads and keeps state.
//!
//! Never prints, never decides.
#![forbid(unsafe_code)]

pub mod channel;
pub mod config_store;
pub mod explain;
pub mod host_files;
pub mod session_store;
pub mod supervisor_image;
