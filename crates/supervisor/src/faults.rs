//! Protections that a test can leave out by name, to prove that their absence is noticed.
//!
//! Only in builds with the feature `fault-switches`; in every other build [`is_off`] is `false` before
//! the optimiser starts, and no variable is read.

/// Whether the test asked for the protection called `name` to be left out.
#[cfg(feature = "fault-switches")]
pub(crate) fn is_off(name: &str) -> bool {
    std::env::var("CLAWPEN_FAULT").is_ok_and(|list| list.split(',').any(|fault| fault == name))
}

/// Never: this build has no switches.
#[cfg(not(feature = "fault-switches"))]
pub(crate) const fn is_off(_: &str) -> bool {
    false
}
