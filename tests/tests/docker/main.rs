//! The Docker backend against a real engine. [`container`] is about what the engine makes of a spec,
//! with stand-ins for the supervisor; [`pen`] is about what a command finds, with the real one.

mod container;
mod lifecycle;
mod pen;
