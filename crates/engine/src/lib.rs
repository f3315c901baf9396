//! Does what the rules decided: looks facts up, reads and keeps state.
//!
//! Never prints, never decides.
#![forbid(unsafe_code)]

pub mod approvals_file;
pub mod config_store;
pub mod exec_question;
pub mod explain;
pub mod host_files;
pub mod program_files;
pub mod random;
pub mod session_store;
