//! What is decided about a session, kept while nothing it rests on has changed.
//!
//! A call must see the config as it is: every file that was read, and those that could appear beside it, are looked at
//! before what is kept is used again. What no stamp shows (a link of a bind that was turned, a variable file that
//! appeared elsewhere) is seen after a second. The sandbox itself compares what it is with what is wanted at every
//! call, so nothing kept here can widen one that runs.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use clawpen_rules::tool_policy::Layers;

use super::desk::Who;
use super::{Prepared, policy, prepare};
use crate::call::OpenError;
use crate::config_store::Store;
use crate::file_stamps::Stamps;

/// Sessions kept at once.
const MOST: usize = 64;

/// A session, decided.
#[derive(Debug)]
pub(super) struct Ready {
    pub(super) store: Store,
    pub(super) prepared: Prepared,
    pub(super) layers: Layers,
    /// `None` if what was read may have changed meanwhile.
    stamps: Option<Stamps>,
}

type Key = (Option<String>, Option<String>, Option<String>);

/// The sessions of a door.
#[derive(Debug, Default)]
pub(super) struct Sessions(Mutex<HashMap<Key, Arc<Ready>>>);

impl Sessions {
    /// What is decided about a session, from what is kept or from `load`.
    pub(super) fn get<E>(
        &self,
        who: &Who,
        load: impl FnOnce() -> Result<Store, E>,
    ) -> Result<Arc<Ready>, Missing<E>> {
        let key: Key = (who.session.clone(), who.agent.clone(), who.backend.clone());
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        if let Some(ready) = kept.filter(|ready| ready.is_current()) {
            return Ok(ready);
        }
        let began = SystemTime::now();
        let store = load().map_err(Missing::Config)?;
        let stamps = Stamps::of(&store, began);
        let prepared = match prepare(&store, &who.target()) {
            Ok(prepared) => prepared,
            Err(error) => return Err(Missing::Session(Box::new(store), error)),
        };
        let layers = policy::layers(&store, &prepared);
        let ready = Arc::new(Ready { store, prepared, layers, stamps });
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if sessions.len() >= MOST {
            sessions.clear();
        }
        sessions.insert(key, Arc::clone(&ready));
        Ok(ready)
    }
}

/// Nothing is decided, because there is no config or no sandbox for the session.
#[derive(Debug)]
pub(super) enum Missing<E> {
    Config(E),
    Session(Box<Store>, OpenError),
}

impl Ready {
    fn is_current(&self) -> bool {
        self.stamps.as_ref().is_some_and(Stamps::are_current)
    }
}
