//! What a sandbox is made of.

pub mod exec;
pub mod workdir;
