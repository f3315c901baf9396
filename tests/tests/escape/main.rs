//! Attacks on pens. [`mechanisms`] runs every mechanism of `tests/attacks` in native pens of root and of an
//! ordinary user, in a container of ours, and beside them in `bwrap` and `docker run`; [`bombs`] looks at
//! what goes on meanwhile; [`races`] swaps names under every file operation.
//!
//! Each attempt has a control without any pen, where the very same code must work, or the mechanism
//! proves nothing here and does not count.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "the table is what the suite is for")]

mod bombs;
mod grounds;
mod mechanisms;
mod page;
mod races;
mod stage;
mod user;
