//! The browser sandbox's container.
