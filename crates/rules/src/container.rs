//! What a sandbox is made of.

pub mod exec;
mod shape;
pub mod workdir;
