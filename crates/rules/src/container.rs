//! The container a sandbox runs in, built locked down.
