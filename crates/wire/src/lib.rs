//! The shapes that leave Clawpen, as plain data. Nothing here decides or reads anything.
//!
//! What is printed as JSON stands behind the feature `json`, because the supervisor carries no
//! JSON: it speaks the binary frames of [`supervisor`] and is told what to be by [`pen`].
#![forbid(unsafe_code)]

#[cfg(feature = "json")]
pub mod approvals;
#[cfg(feature = "json")]
pub mod audit;
#[cfg(feature = "json")]
pub mod explain;
#[cfg(feature = "json")]
pub mod gateway;
pub mod pen;
#[cfg(feature = "json")]
pub mod repair;
pub mod supervisor;
