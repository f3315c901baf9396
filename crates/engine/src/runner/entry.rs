//! The entry of a session in its store, as the reference keeps it.

use std::convert::Infallible;

use clawpen_rules::ids::AgentId;
use clawpen_rules::session::Session;
use serde_json::{Value, json};

use super::Inner;
use crate::config_store::Store;
use crate::models::talk::Usage;
use crate::random;
use crate::session_entries::{ChangeError, Entry, Sessions};
use crate::state_file::StateFileError;

/// Where a session is kept.
#[derive(Debug, Clone)]
pub struct SessionPlace {
    /// Its key in the store.
    pub key: String,
    pub agent: AgentId,
    pub sessions: Sessions,
    pub(super) is_sub_agent: bool,
}

impl SessionPlace {
    pub(super) fn of(store: &Store, session: &Session) -> Self {
        let agent = session.agent().clone();
        let path = store.locations.session_store(&store.loaded.config, &agent);
        let key = session.store_key();
        let is_sub_agent = key.is_subagent();
        Self { key: key.as_str().to_owned(), agent, sessions: Sessions::at(&path), is_sub_agent }
    }

    /// The session's entry; an empty one if there is none yet.
    pub fn entry(&self) -> Result<Entry, StateFileError> {
        Ok(self.sessions.read()?.remove(&self.key).unwrap_or_default())
    }
}

/// The id of the session that a key stands for now.
pub(super) fn session_id(entry: &Entry) -> Option<&str> {
    entry.get("sessionId").and_then(Value::as_str).filter(|id| !id.is_empty())
}

impl Inner {
    /// Changes a session's entry, which is made if there is none. `updatedAt` never goes back.
    pub(super) fn change_entry<T>(
        &self,
        place: &SessionPlace,
        change: impl FnOnce(&mut Entry) -> T,
    ) -> Result<T, StateFileError> {
        let _one = self.stores.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let now = super::now().as_millis();
        let done = place.sessions.change(|store| {
            let slot = store.entry(place.key.clone()).or_insert_with(|| json!({}));
            if !slot.is_object() {
                *slot = json!({});
            }
            let mut entry = slot.as_object().cloned().unwrap_or_default();
            if session_id(&entry).is_none() {
                entry.insert("sessionId".to_owned(), json!(random::uuid()));
            }
            let answer = change(&mut entry);
            if let Some(path) = session_id(&entry).and_then(|id| place.sessions.transcript(id)) {
                entry.insert("sessionFile".to_owned(), json!(path.to_string_lossy()));
            }
            let before = entry.get("updatedAt").and_then(Value::as_u64).unwrap_or_default();
            entry.insert("updatedAt".to_owned(), json!(before.max(now)));
            *slot = Value::Object(entry);
            Ok::<_, Infallible>(answer)
        });
        done.map_err(|error| match error {
            ChangeError::File(error) => error,
            ChangeError::Asker(never) => match never {},
        })
    }

    /// Begins a new session under the same key: the old transcript is put aside, what a person has set stays.
    pub(super) fn renew(&self, place: &SessionPlace) -> Result<(), StateFileError> {
        let old = session_id(&place.entry()?).map(str::to_owned);
        if let Some(old) = old {
            place.sessions.archive(&old, "reset", super::now())?;
        }
        self.change_entry(place, |entry| {
            entry.insert("sessionId".to_owned(), json!(random::uuid()));
            for key in [
                "inputTokens",
                "outputTokens",
                "totalTokens",
                "cacheRead",
                "cacheWrite",
                "compactionCount",
            ] {
                entry.insert(key.to_owned(), json!(0));
            }
            for key in
                ["status", "startedAt", "endedAt", "runtimeMs", "systemSent", "abortedLastRun"]
            {
                entry.remove(key);
            }
        })
    }
}

/// Notes what the last run took, and how long the talk is now. A run without an answer leaves what was known.
pub(super) fn count(entry: &mut Entry, (usage, last): (Usage, Usage), dollars: f64) {
    if last == Usage::default() {
        return;
    }
    let mut set = |key: &str, value: Value| entry.insert(key.to_owned(), value);
    set("inputTokens", json!(usage.input));
    set("outputTokens", json!(usage.output));
    set("cacheRead", json!(usage.cache_read));
    set("cacheWrite", json!(usage.cache_write));
    set("estimatedCostUsd", json!(dollars));
    // What the model was shown; what it said to that comes on top the next time.
    let shown = last.input.saturating_add(last.cache_read).saturating_add(last.cache_write);
    set("totalTokens", json!(shown));
    set("totalTokensFresh", json!(true));
}
