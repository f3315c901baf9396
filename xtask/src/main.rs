//! `cargo xtask`: see `README.md`.
fn main() {}
