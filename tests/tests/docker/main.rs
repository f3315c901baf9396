//! The Docker backend against real engines. [`container`] is about what the engine makes of a spec,
//! with stand-ins for the supervisor; [`pen`] is about what a command finds, with the real one;
//! [`podman`] is the same on another engine, [`images`] makes what
//! containers start from, [`tls`] is the way there by a port; [`ours`] is about what may be touched there,
//! [`trust`] about whom we believe.

mod container;
mod fake;
mod images;
mod lifecycle;
mod ours;
mod pen;
mod podman;
mod tls;
mod trust;
