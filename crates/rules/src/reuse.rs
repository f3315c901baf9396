//! Keep, keep stale, replace or create a sandbox.
