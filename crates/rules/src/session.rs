//! Session keys, the main session, and whether a session runs in a sandbox.
