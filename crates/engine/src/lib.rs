//! Does what the rules decided: looks facts up, reads and keeps state.
//!
//! Never prints, never decides.
#![forbid(unsafe_code)]

pub mod agents;
pub mod approvals_file;
pub mod audit;
pub mod backend;
pub mod broker;
pub mod browser;
pub mod call;
pub mod channel;
pub mod clock;
pub mod config_file;
pub mod config_store;
pub mod cron_store;
pub mod database;
pub mod devices;
mod error_text;
pub mod exec_question;
pub mod explain;
pub mod facts;
pub mod faults;
mod file_lock;
mod file_stamps;
pub mod fs_bridge;
pub mod gateway_identity;
pub mod gateway_process;
pub mod host_call;
pub mod host_exec;
pub mod host_files;
pub mod images;
mod kernel_text;
mod known_places;
pub mod lifecycle;
pub mod machine;
pub mod models;
pub mod pen_view;
mod process_identity;
pub mod program_files;
pub mod random;
pub mod registry;
pub mod runner;
pub mod seccomp;
pub mod session_entries;
pub mod session_store;
pub mod skill_install;
pub mod state_file;
pub mod supervisor_image;
pub mod terminal;
pub mod tools;
pub mod transcript;
pub mod transfer;
pub mod web;
pub mod workspaces;
pub mod yard;
