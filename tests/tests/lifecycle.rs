//! Sandboxes that outlive the process that made them, through the real binary and through the engine
//! with a clock of our own. Native only; `tests/tests/docker` has the containers.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a world that cannot be made ends the test")]

#[path = "lifecycle/acceptance.rs"]
mod acceptance;
#[path = "lifecycle/calls.rs"]
mod calls;
#[path = "lifecycle/clock.rs"]
mod clock;
#[path = "lifecycle/complaints.rs"]
mod complaints;
#[path = "lifecycle/kept.rs"]
mod kept;
#[path = "lifecycle/many.rs"]
mod many;
