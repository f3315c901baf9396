//! Which variables may enter a sandbox.
