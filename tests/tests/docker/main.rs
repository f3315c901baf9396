//! The Docker backend against real engines. [`container`] is about what the engine makes of a spec,
//! with stand-ins for the supervisor; [`pen`] is about what a command finds, with the real one; [`keys`]
//! goes through the config's keys. [`lifecycle`] and [`healing`] run the real binary; the second does
//! harm to an [`engine`] of its own. [`people`] are ordinary users, [`podman`] is another engine,
//! [`images`] makes what containers start from, [`swaps`] changes sources while they are mounted, [`tls`] is the way there by a port;
//! [`mcp`] comes in by that door; [`browser`] is a browser's sandbox with a real Chromium in it; [`search`] is about programs of ours in images of others; [`ours`] is about what may be touched there, [`trust`] about whom we believe.

mod browser;
mod container;
mod engine;
mod fake;
mod healing;
mod images;
mod keys;
mod lifecycle;
mod many;
mod mcp;
mod ours;
mod pen;
mod people;
mod podman;
mod relay;
mod search;
mod swaps;
mod tls;
mod trust;
mod yard;
