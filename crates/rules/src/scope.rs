//! Which sessions share a sandbox; its key, its slug and its names.
