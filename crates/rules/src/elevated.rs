//! Decides whether a sender may leave the sandbox for one command.
