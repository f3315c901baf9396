//! Does what the rules decided: looks facts up, reads and keeps state.
#![forbid(unsafe_code)]

pub mod host_files;
