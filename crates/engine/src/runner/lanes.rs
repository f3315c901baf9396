//! Whose turn it is: one run at a time in a session, a few at once in all.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use clawpen_rules::config::Config;
use tokio::sync::{OwnedMutexGuard, OwnedSemaphorePermit, Semaphore};

use super::Origin;
use super::entry::SessionPlace;
use crate::file_lock::{self, Hold, NotLocked};

/// The lanes of one runner.
pub(super) struct Lanes {
    sessions: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
    main: Arc<Semaphore>,
    /// Webhooks pass here first, so that they never fill the lane above: people find a place in it.
    hooks: Arc<Semaphore>,
    sub_agents: Arc<Semaphore>,
}

/// A turn; over when dropped.
pub(super) struct Turn {
    _hook: Option<OwnedSemaphorePermit>,
    _session: OwnedMutexGuard<()>,
    _all: Option<OwnedSemaphorePermit>,
}

impl Lanes {
    pub(super) fn new(config: Option<&Config>) -> Self {
        let (main, sub_agents) = super::lane_sizes(config);
        Self {
            sessions: Mutex::default(),
            main: Arc::new(Semaphore::new(main)),
            hooks: Arc::new(Semaphore::new(main.saturating_sub(1).max(1))),
            sub_agents: Arc::new(Semaphore::new(sub_agents)),
        }
    }

    /// Waits for a turn. Who came first in a session goes first.
    pub(super) async fn enter(&self, place: &SessionPlace, origin: &Origin) -> Turn {
        // Before the session's own lane, where others may wait behind it.
        let hook = match origin {
            Origin::Hook => Arc::clone(&self.hooks).acquire_owned().await.ok(),
            Origin::Person | Origin::Session(_) | Origin::Heartbeat(_) => None,
        };
        let lane = {
            let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
            // Lanes that nobody is in are forgotten.
            if sessions.len() > 1000 {
                sessions.retain(|_, lane| Arc::strong_count(lane) > 1);
            }
            Arc::clone(sessions.entry(place.key.clone()).or_default())
        };
        let session = lane.lock_owned().await;
        // Those that others wait for have a lane of their own, or everybody would wait for everybody.
        let all = if place.is_sub_agent { &self.sub_agents } else { &self.main };
        // It is never closed.
        let all = Arc::clone(all).acquire_owned().await.ok();
        Turn { _hook: hook, _session: session, _all: all }
    }
}

/// Keeps other processes out of a session while a run is in it. Gives up when `is_enough` says so.
pub(super) fn keep_others_out(
    path: &Path,
    is_enough: impl Fn() -> bool,
) -> io::Result<Option<File>> {
    match file_lock::until(path, Hold::Alone, is_enough) {
        Ok(file) => Ok(Some(file)),
        Err(NotLocked::Busy) => Ok(None),
        Err(NotLocked::Open(error) | NotLocked::Lock(error)) => Err(error),
    }
}
