//! Everybody who is logged in, and what is sent to all of them.
//!
//! Each client has a queue with a cap. A client that does not read loses events that may be lost, and
//! is closed when one comes that may not: it harms nobody else, because nobody waits for it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use clawpen_rules::access::{self, Access, Role, Scopes};
use clawpen_wire::gateway::{self, EventPlace, MAX_BUFFERED_BYTES, StateVersion, close};
use serde_json::Value;
use tokio::sync::{Notify, mpsc};

use crate::presence::{self, Presence};

/// What goes to one client.
pub(crate) enum Out {
    Text(String),
    Close(u16, String),
}

/// A client's queue.
#[derive(Clone)]
pub(crate) struct Outbox {
    sender: mpsc::UnboundedSender<Out>,
    queued: Arc<AtomicUsize>,
    over: Arc<Notify>,
}

/// The other end of it.
pub(crate) struct Inbox {
    pub(crate) receiver: mpsc::UnboundedReceiver<Out>,
    queued: Arc<AtomicUsize>,
}

pub(crate) fn queue() -> (Outbox, Inbox) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let queued = Arc::new(AtomicUsize::new(0));
    let over = Arc::new(Notify::new());
    (Outbox { sender, queued: queued.clone(), over }, Inbox { receiver, queued })
}

impl Inbox {
    /// Notes that a text has left.
    pub(crate) fn sent(&self, bytes: usize) {
        self.queued.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// What to do with an event for a client that does not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Slow {
    Drop,
    Close,
}

impl Outbox {
    /// Sends an answer. Whoever asks and does not read is closed.
    pub(crate) fn answer(&self, text: String) {
        self.push(text, Slow::Close);
    }

    pub(crate) fn close(&self, code: u16, reason: &str) {
        // A queue whose reader is gone belongs to a connection that is closed already.
        let _ = self.sender.send(Out::Close(code, gateway::close_reason(reason)));
        self.over.notify_one();
    }

    /// Waits until the connection is told to end.
    pub(crate) async fn over(&self) {
        self.over.notified().await;
    }

    fn push(&self, text: String, slow: Slow) {
        let bytes = text.len();
        if self.queued.load(Ordering::Relaxed) + bytes > MAX_BUFFERED_BYTES {
            if slow == Slow::Close {
                self.close(close::POLICY, "slow consumer");
            }
            return;
        }
        self.queued.fetch_add(bytes, Ordering::Relaxed);
        let _ = self.sender.send(Out::Text(text));
    }
}

/// Somebody who is logged in.
#[derive(Clone)]
pub(crate) struct Member {
    pub(crate) outbox: Outbox,
    pub(crate) role: Role,
    pub(crate) scopes: Scopes,
    pub(crate) device: Option<String>,
}

/// All of them.
#[derive(Default)]
pub(crate) struct Hub {
    members: Mutex<HashMap<String, Member>>,
    presence: Mutex<Presence>,
    seq: AtomicU64,
    presence_version: AtomicU64,
    health_version: AtomicU64,
}

impl Hub {
    pub(crate) fn join(&self, connection: &str, member: Member) {
        if let Ok(mut members) = self.members.lock() {
            members.insert(connection.to_owned(), member);
        }
    }

    pub(crate) fn leave(&self, connection: &str) {
        if let Ok(mut members) = self.members.lock() {
            members.remove(connection);
        }
    }

    /// Sends an event to everybody who may see it.
    pub(crate) fn broadcast(&self, event: &str, payload: &Value, slow: Slow) {
        let state = matches!(event, "presence" | "health").then(|| self.version());
        let seq = self.seq.fetch_add(1, Ordering::Relaxed) + 1;
        let text = gateway::event(event, payload, EventPlace { seq: Some(seq), state });
        let Ok(members) = self.members.lock() else { return };
        for member in members.values() {
            match access::decide_event(event, member.role, &member.scopes) {
                Access::Allowed => member.outbox.push(text.clone(), slow),
                Access::WrongRole(_) | Access::Missing(_) => {}
            }
        }
    }

    /// Closes the connections of a device.
    pub(crate) fn close_device(&self, device: &str, code: u16, reason: &str) {
        let Ok(members) = self.members.lock() else { return };
        let of_device = members.values().filter(|member| member.device.as_deref() == Some(device));
        of_device.for_each(|member| member.outbox.close(code, reason));
    }

    pub(crate) fn close_all(&self, code: u16, reason: &str) {
        let Ok(members) = self.members.lock() else { return };
        members.values().for_each(|member| member.outbox.close(code, reason));
    }

    /// Notes that somebody came or left.
    pub(crate) fn note_presence(&self, key: &str, entry: Value) {
        self.presence_version.fetch_add(1, Ordering::Relaxed);
        if let Ok(mut presence) = self.presence.lock() {
            presence.note(key, entry);
        }
    }

    pub(crate) fn presence(&self, now_ms: u64) -> Value {
        let own = presence::own(now_ms);
        match self.presence.lock() {
            Ok(mut presence) => presence.list(own, now_ms),
            Err(_) => Value::Array(vec![own]),
        }
    }

    pub(crate) fn health_changed(&self) {
        self.health_version.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn version(&self) -> StateVersion {
        StateVersion {
            presence: self.presence_version.load(Ordering::Relaxed) + 1,
            health: self.health_version.load(Ordering::Relaxed) + 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn who_does_not_read_is_closed_and_harms_nobody() {
        let hub = Hub::default();
        let (slow, mut slow_end) = queue();
        let (quick, mut quick_end) = queue();
        for (name, outbox) in [("slow", &slow), ("quick", &quick)] {
            let member = Member {
                outbox: outbox.clone(),
                role: Role::Operator,
                scopes: Scopes::none(),
                device: None,
            };
            hub.join(name, member);
        }
        slow.push("x".repeat(MAX_BUFFERED_BYTES - 10), Slow::Close);
        hub.broadcast("tick", &json!({}), Slow::Drop);
        hub.broadcast("health", &json!({}), Slow::Close);
        assert!(matches!(slow_end.receiver.try_recv(), Ok(Out::Text(_))));
        assert!(matches!(slow_end.receiver.try_recv(), Ok(Out::Close(close::POLICY, _))));
        assert!(slow_end.receiver.try_recv().is_err());
        assert!(matches!(quick_end.receiver.try_recv(), Ok(Out::Text(_))));
        assert!(matches!(quick_end.receiver.try_recv(), Ok(Out::Text(_))));
    }
}
