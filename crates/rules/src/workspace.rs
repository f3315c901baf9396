//! Which directories a sandbox works in.
