//! What Clawpen decides. Pure: values in, a decision and its reason out.
//!
//! Nothing here reads files, clocks or the environment: facts come in as arguments
//! ([`host_files`] is how facts about files do). Every verdict function is called `decide`.
#![forbid(unsafe_code)]

pub mod access;
pub mod agent_prompt;
pub mod agents;
pub mod ahead;
pub mod approval;
pub mod backend;
pub mod browser;
pub mod chat_message;
pub mod command;
pub mod compaction;
pub mod config;
pub mod container;
pub mod cron;
pub mod directives;
pub mod elevated;
pub mod enforcement;
pub mod environment;
pub mod exec_host;
pub mod explain;
pub mod facts;
pub mod heartbeat;
pub mod hooks;
pub mod host_files;
pub mod ids;
pub mod js_number;
pub mod models;
pub mod mounts;
pub mod native;
pub mod paths;
pub mod posix;
pub mod prune;
pub mod reuse;
pub mod scope;
pub mod session;
mod spelling;
pub mod system_line;
pub mod timestamp;
pub mod tool_policy;
pub mod tools;
pub mod web;
pub mod workspace;
