//! Planned jobs: when is one due, and what becomes of it after a run?
//!
//! Takes what a job's schedule says, the moment it is and the zone of the machine; gives the next moment, or the reason
//! why there is none. Never looks at a clock and never searches without an end.

mod after;
mod schedule;

pub use after::{Asked, Deletes, Ran, Run, Then, decide};
pub use schedule::{Refusal, Schedule, Zone, default_stagger_ms};
