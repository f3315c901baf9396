//! What `web_fetch` may reach, and what of an answer a model sees.
//!
//! ```text
//! address text ─► target: scheme, name, port ─► looked up by the engine ─► address: is every one public? ─► connect
//!                    └ and again for each redirect                            └ to one that was decided about
//! answer ─► media: is it text ─► html or as it is ─► wrap: marked as foreign, cut
//! ```
//!
//! The engine asks these rules from the host, whose network is wider than any sandbox's. So they list what is open and
//! refuse the rest. Nothing is resolved, connected or read here, and nothing costs more than a small multiple of its
//! input, however hostile that is.

pub mod address;
pub mod html;
pub mod limits;
pub mod media;
pub mod target;
pub mod wrap;
