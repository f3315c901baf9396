//! The ways to make a sandbox.

pub mod docker;
