//! The `clawpen` binary.
#![forbid(unsafe_code)]
fn main() {}
