//! Safe functions around Linux: the only crate of Clawpen in which `unsafe` compiles.
//!
//! Descriptors go in as [`std::os::fd::BorrowedFd`] and come out as [`std::os::fd::OwnedFd`], always
//! close-on-exec. Errors are [`std::io::Error`]s with the kernel's number (`raw_os_error`), so that
//! callers can tell them apart; the few that are about more than one call say so in words. Nothing
//! here decides, prints, reads configuration or panics.
//!
//! Reading order: what a pen is made of ([`process`], [`namespaces`], [`mounts`], [`cgroups`],
//! [`net`]), what is taken from it ([`capabilities`], [`seccomp`], [`landlock`], [`rlimits`], [`standing`]), how a
//! command starts in it ([`spawn`], [`pty`]), and what the supervisor's loop stands on ([`beneath`],
//! [`sockets`], [`memfd`], [`events`]).

#![deny(unsafe_op_in_unsafe_fn, missing_docs)]

mod backoff;
mod stack;
mod syscall;

pub mod cgroups;
pub mod mounts;
pub mod namespaces;
pub mod net;
pub mod process;
pub mod processors;
pub mod tree;

pub mod capabilities;
pub mod landlock;
pub mod rlimits;
pub mod seccomp;
pub mod standing;

#[cfg(feature = "fault-switches")]
pub mod faults;

pub mod pty;
pub mod spawn;

pub mod beneath;
pub mod events;
pub mod memfd;
pub mod sockets;
