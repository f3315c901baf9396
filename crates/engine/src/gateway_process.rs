//! The gateway of a state directory as a process: is there one, which is it, start it, end it.
//!
//! A gateway writes down who it is once it listens: number, boot and start time, so that a record which outlived its
//! process never means another one. `up` and `down` take one lock, so that two at once make one gateway. Everything
//! stands in a directory that only we may write; whatever else is found there is an error, never followed.
//!
//! Never prints. Which port and which secret is decided elsewhere; sandboxes are none of this module's business.

mod log;
mod place;
mod probe;
mod record;
mod start;
mod stop;

pub use log::{LogError, open_log, read_from};
pub use place::{Place, PlaceError, Private, check_config};
pub use probe::{ProbeError, probe, speaks_tls};
pub use record::{Claim, Record, RecordError, Running, claim, find, release};
pub use start::{Launch, LaunchError, leave_terminal, start};
pub use stop::{StopError, Stopped, stop};

#[cfg(test)]
mod tests;
