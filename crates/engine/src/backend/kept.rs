//! Connections to sandboxes, kept between two calls of one door.
//!
//! Whether the other end is the sandbox's first process was checked when the connection was made, and it cannot
//! become somebody else's. What can happen meanwhile is that it ends, or that it says something nobody asked for:
//! such a connection is not used again. Only sandboxes that were found again are kept; one that was just made goes
//! with whoever made it.

use std::sync::{Mutex, PoisonError};

use super::Sandbox;
use crate::registry::Identity;

/// A sandbox serves a limited number of connections, to all doors together.
const EACH: usize = 2;
/// Each holds a few descriptors.
const MOST: usize = 64;

/// Oldest first.
#[derive(Debug, Default)]
pub(super) struct Kept(Mutex<Vec<(Identity, Sandbox)>>);

impl Kept {
    /// A connection to that very sandbox, if one is kept and alive.
    pub(super) fn take(&self, identity: &Identity) -> Option<Sandbox> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(at) = kept.iter().rposition(|(known, _)| known == identity) {
            let (_, mut sandbox) = kept.remove(at);
            if sandbox.can_go_on() {
                return Some(sandbox);
            }
        }
        None
    }

    /// Keeps a connection that nobody uses now, or lets go of it.
    pub(super) fn put(&self, identity: &Identity, mut sandbox: Sandbox) {
        if !sandbox.was_found() || !sandbox.can_go_on() {
            return;
        }
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.iter().filter(|(known, _)| known == identity).count() >= EACH {
            return;
        }
        if kept.len() >= MOST {
            kept.remove(0);
        }
        kept.push((identity.clone(), sandbox));
    }
}
