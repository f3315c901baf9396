//! Native pens through the real binary, as root and as ordinary users. Needs root.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a test without its set-up cannot go on")]

mod ids;
mod leftovers;
mod procfs;
mod propagation;
mod rootfs;
