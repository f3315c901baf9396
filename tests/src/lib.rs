//! Shared by the tests that need two crates, the real binary or recorded rows.
//!
//! [`replay`] runs the recorded rows of the reference system through our code; [`compat`] holds the
//! rules where we differ on purpose; [`facts`] compares sentences by what they say; [`docker`] makes containers.
#![forbid(unsafe_code)]

pub mod compat;
pub mod docker;
pub mod facts;
pub mod home;
pub mod replay;
