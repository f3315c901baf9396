//! Does what the rules decided: looks facts up, reads and keeps state.
//!
//! Never prints, never decides.
#![forbid(unsafe_code)]

pub mod approvals_file;
pub mod backend;
pub mod call;
pub mod channel;
pub mod config_store;
pub mod exec_question;
pub mod explain;
pub mod facts;
pub mod host_files;
mod known_places;
pub mod machine;
pub mod pen_view;
pub mod program_files;
pub mod random;
pub mod seccomp;
pub mod session_store;
pub mod supervisor_image;
pub mod terminal;
pub mod tools;
pub mod transfer;
