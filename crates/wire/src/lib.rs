//! The shapes that leave Clawpen, as plain data. Nothing here decides or reads anything.
#![forbid(unsafe_code)]

pub mod explain;
