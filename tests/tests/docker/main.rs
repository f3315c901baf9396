//! The Docker backend against real engines. [`container`] is about what the engine makes of a spec,
//! with stand-ins for the supervisor; [`pen`] is about what a command finds, with the real one;
//! [`podman`] is the same on another engine, [`images`] makes what
//! containers start from, [`swaps`] changes sources while they are mounted, [`tls`] is the way there by a port.

mod container;
mod images;
mod lifecycle;
mod many;
mod pen;
mod podman;
mod swaps;
mod tls;
