//! Shared by the tests that need two crates, the real binary or recorded rows.
//!
//! [`replay`] runs the recorded rows of the reference system through our code; [`compat`] holds the
//! rules where we differ on purpose; [`facts`] compares sentences by what they say; [`docker`] makes
//! containers; [`model_server`] speaks as model providers do; [`people`] are ordinary users of this machine; [`traces`] is what sandboxes leave.
#![forbid(unsafe_code)]

pub mod canaries;
pub mod compat;
pub mod docker;
pub mod facts;
pub mod home;
pub mod model_server;
pub mod people;
pub mod replay;
pub mod traces;
pub mod user;

/// A program of this workspace that cargo built beside the running one.
pub fn built(name: &str) -> anyhow::Result<std::path::PathBuf> {
    let own = std::env::current_exe()?;
    // `target/debug/replay` or `target/debug/deps/test-…`.
    let found =
        own.ancestors().skip(1).take(2).map(|dir| dir.join(name)).find(|path| path.is_file());
    anyhow::Context::with_context(found, || {
        format!("`{name}` is not built; run `cargo build --workspace` first")
    })
}
