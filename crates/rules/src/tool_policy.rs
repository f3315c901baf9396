//! Decides whether a tool may be called.
