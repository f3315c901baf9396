//! The approvals that wait, as clients of the gateway see them.
//!
//! The broker's database is the truth; any process may ask and answer there. A thread watches it and
//! tells the clients that may answer what is new and what is settled. What comes through the gateway
//! itself is told by whoever handles it, before the answer leaves, and under the same lock: nobody hears
//! of an approval twice or in the wrong order.
//!
//! Decides nothing: who may answer is asked of the broker with every answer.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use clawpen_engine::approvals_file::{ApprovalsStore, now_ms};
use clawpen_engine::broker::{Approval, Broker, BrokerError, POLL, Which};
use clawpen_engine::clock::SystemClock;
use clawpen_engine::database::{Changes, Database, DatabaseError};
use clawpen_wire::gateway::ErrorShape;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::hub::Slow;
use crate::methods::sessions;
use crate::shared::{Shared, unavailable};

/// Connections to the database that are kept for the next call.
const KEPT: usize = 4;
/// So many names of settled approvals are remembered; whether one is still told is asked of the broker.
const KEPT_NAMES: usize = 256;

/// What clients know of the approvals.
pub(crate) struct Approvals {
    open: Mutex<HashMap<String, Open>>,
    /// Those that askers had given a name of their own and that were settled a moment ago, by their id.
    settled: Mutex<Vec<(String, Open)>>,
    changed: watch::Sender<u64>,
    databases: Mutex<Vec<Database>>,
}

/// An approval that was told of.
#[derive(Debug, Clone)]
pub(crate) struct Open {
    /// The name that clients know: the asker's own if it chose one.
    pub(crate) shown: String,
    pub(crate) request: Value,
    pub(crate) created_at_ms: u64,
    pub(crate) expires_at_ms: u64,
}

impl Open {
    /// What is known of an approval that somebody else asked for, and of the channel that its session speaks by. The
    /// command is told as the text that was called for; its words follow from it.
    pub(crate) fn of(shared: &Shared, approval: &Approval) -> Self {
        let row = approval.session.as_deref().map(|key| sessions::shown(shared, key).0);
        let channel = row.as_ref().and_then(|row| row["lastChannel"].as_str());
        let shape = approval.shape();
        let asked = &shape.request;
        let mut request = json!({
            "command": asked.command,
            "systemRunBinding": Value::Null,
            "systemRunPlan": Value::Null,
            "cwd": asked.cwd,
            "nodeId": Value::Null,
            "host": asked.host,
            "security": asked.security,
            "ask": asked.ask,
            "agentId": asked.agent_id,
            "resolvedPath": asked.resolved_path,
            "sessionKey": asked.session_key,
            "turnSourceChannel": channel,
            "turnSourceTo": Value::Null,
            "turnSourceAccountId": Value::Null,
            "turnSourceThreadId": Value::Null,
        });
        // Those that the call itself sets; the rest is the host's own.
        if !approval.variables.is_empty() {
            request["envKeys"] = json!(approval.variables);
        }
        Self {
            shown: shape.id,
            request,
            created_at_ms: shape.created_at_ms,
            expires_at_ms: shape.expires_at_ms,
        }
    }

    pub(crate) fn payload(&self) -> Value {
        json!({
            "id": self.shown,
            "request": self.request,
            "createdAtMs": self.created_at_ms,
            "expiresAtMs": self.expires_at_ms,
        })
    }
}

/// All that clients were told of, held while something is asked or answered.
pub(crate) type Told<'a> = MutexGuard<'a, HashMap<String, Open>>;

impl Approvals {
    pub(crate) fn new() -> Self {
        Self {
            open: Mutex::default(),
            settled: Mutex::default(),
            changed: watch::Sender::new(0),
            databases: Mutex::default(),
        }
    }

    pub(crate) fn told(&self) -> Told<'_> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What an asker called so, settled a moment ago.
    pub(crate) fn settled(&self, shown: &str) -> Option<(String, Open)> {
        let settled = self.settled.lock().unwrap_or_else(PoisonError::into_inner);
        settled.iter().rev().find(|(_, open)| open.shown == shown).cloned()
    }

    fn keep_settled(&self, id: &str, open: Open) {
        let mut settled = self.settled.lock().unwrap_or_else(PoisonError::into_inner);
        let over = settled.len().saturating_sub(KEPT_NAMES - 1);
        settled.drain(..over);
        settled.push((id.to_owned(), open));
    }

    /// Wakes whoever waits for an answer.
    pub(crate) fn wake(&self) {
        self.changed.send_modify(|count| *count += 1);
    }

    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// How many wait.
    pub(crate) fn count(&self) -> usize {
        self.told().len()
    }
}

/// Does something with the broker of this gateway's state.
pub(crate) fn with_broker<T>(
    shared: &Shared,
    job: impl FnOnce(&Broker<'_>) -> Result<T, BrokerError>,
) -> Result<Result<T, BrokerError>, ErrorShape> {
    let kept = || shared.approvals.databases.lock().unwrap_or_else(PoisonError::into_inner);
    let taken = kept().pop();
    let database = match taken {
        Some(database) => database,
        None => open(shared).map_err(|error| unavailable(&error))?,
    };
    let approvals = ApprovalsStore::of_home(&shared.locations.home);
    let done = job(&Broker { database: &database, approvals: &approvals, clock: &SystemClock });
    let mut kept = kept();
    if kept.len() < KEPT {
        kept.push(database);
    }
    Ok(done)
}

fn open(shared: &Shared) -> Result<Database, DatabaseError> {
    Database::open(std::path::Path::new(&shared.locations.state_dir))
}

/// Tells everybody who may answer that something waits.
pub(crate) fn announce(shared: &Shared, told: &mut Told<'_>, id: &str, open: Open) {
    shared.hub.broadcast("exec.approval.requested", &open.payload(), Slow::Drop);
    told.insert(id.to_owned(), open);
}

/// Tells them that it is answered. What ended without an answer is told nobody: its time was known.
pub(crate) fn settle(shared: &Shared, told: &mut Told<'_>, id: &str, answer: Option<(&str, &str)>) {
    let Some(open) = told.remove(id) else { return };
    if let Some((decision, by)) = answer {
        let payload = json!({
            "id": open.shown,
            "decision": decision,
            "resolvedBy": by,
            "ts": now_ms(),
            "request": open.request,
        });
        shared.hub.broadcast("exec.approval.resolved", &payload, Slow::Drop);
    }
    if open.shown != id {
        shared.approvals.keep_settled(id, open);
    }
    shared.approvals.wake();
}

/// Watches the database until `stop`. Runs on a thread of its own.
pub(crate) fn watch(shared: &Arc<Shared>, stop: &AtomicBool) {
    let mut changes = None;
    while !stop.load(Ordering::Relaxed) {
        // The watch is there before we look, so nothing falls in between.
        if changes.is_none() {
            changes = open(shared).ok().and_then(|database| Changes::watch(&database).ok());
        }
        compare(shared);
        let Some(watch) = &mut changes else {
            std::thread::sleep(POLL);
            continue;
        };
        if watch.wait(POLL).is_err() {
            changes = None;
        }
    }
}

/// Tells what others asked and answered. A database that cannot be read now is looked at again soon.
fn compare(shared: &Shared) {
    let mut told = shared.approvals.told();
    let listed = with_broker(shared, |broker| broker.list(Which::Pending));
    let Ok(Ok(pending)) = listed else { return };
    for approval in &pending {
        if !told.contains_key(approval.id.as_str()) {
            announce(shared, &mut told, approval.id.as_str(), Open::of(shared, approval));
        }
    }
    let is_pending = |id: &String| pending.iter().any(|one| one.id.as_str() == id);
    let gone: Vec<String> = told.keys().filter(|id| !is_pending(id)).cloned().collect();
    for id in gone {
        let found = with_broker(shared, |broker| broker.get(&id));
        let answer = found.ok().and_then(Result::ok).and_then(|approval| {
            Some((approval.word?.as_str(), approval.resolver.unwrap_or_default()))
        });
        let answer = answer.as_ref().map(|(word, by)| (*word, by.as_str()));
        settle(shared, &mut told, &id, answer);
    }
}
