//! Which host paths may be bound into a sandbox, and how.
