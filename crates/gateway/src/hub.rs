//! Everybody who is logged in, and what is sent to all of them.
//!
//! Each client has a queue with a cap. A client that does not read loses events that may be lost, and
//! is closed when one comes that may not: it harms nobody else, because nobody waits for it.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use clawpen_rules::access::{self, Access, Role, Scope, Scopes};
use clawpen_wire::gateway::{self, EventPlace, MAX_BUFFERED_BYTES, StateVersion, close};
use serde_json::Value;
use tokio::sync::{Notify, broadcast, mpsc};

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
    pub(crate) follows: Follows,
    pub(crate) speaks: Speaks,
}

/// Which protocol a client agreed to. What only the newer one knows is left out for the older.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Speaks {
    Older,
    Newer,
}

/// Which sessions a client wants to hear of.
#[derive(Debug, Clone, Default)]
pub(crate) struct Follows {
    /// Changes of all of them.
    all: bool,
    /// What is said in these.
    messages: BTreeSet<String>,
}

/// Logins within this time are told the health each for itself.
const HEALTH_PAUSE: Duration = Duration::from_millis(500);

/// So much news waits for a listener; who misses some looks anew.
const NEWS: usize = 256;

/// More sessions than this cannot be followed by one client.
const MAX_FOLLOWED: usize = 1000;

/// Whether something begins or ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    On,
    Off,
}

/// All of them.
pub(crate) struct Hub {
    news: broadcast::Sender<String>,
    members: Mutex<HashMap<String, Member>>,
    presence: Mutex<Presence>,
    seq: AtomicU64,
    presence_version: AtomicU64,
    health_version: AtomicU64,
    health_told: Mutex<Option<Instant>>,
}

impl Default for Hub {
    fn default() -> Self {
        Self {
            news: broadcast::Sender::new(NEWS),
            members: Mutex::default(),
            presence: Mutex::default(),
            seq: AtomicU64::new(0),
            presence_version: AtomicU64::new(0),
            health_version: AtomicU64::new(0),
            health_told: Mutex::new(None),
        }
    }
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
        self.spread(event, (payload, None), slow);
    }

    /// The same; those who speak the newer protocol are told more.
    pub(crate) fn broadcast_more(&self, event: &str, payload: &Value, more: Value, slow: Slow) {
        let mut fuller = payload.clone();
        if let (Some(fuller), Value::Object(more)) = (fuller.as_object_mut(), more) {
            fuller.extend(more);
        }
        self.spread(event, (payload, Some(&fuller)), slow);
    }

    fn spread(&self, event: &str, (payload, fuller): (&Value, Option<&Value>), slow: Slow) {
        let state = matches!(event, "presence" | "health").then(|| self.version());
        let seq = self.seq.fetch_add(1, Ordering::Relaxed) + 1;
        let text = gateway::event(event, payload, EventPlace { seq: Some(seq), state });
        let newer = fuller
            .map(|fuller| gateway::event(event, fuller, EventPlace { seq: Some(seq), state }));
        let Ok(members) = self.members.lock() else { return };
        for member in members.values() {
            let text = match (member.speaks, &newer) {
                (Speaks::Newer, Some(newer)) => newer,
                (Speaks::Newer, None) | (Speaks::Older, _) => &text,
            };
            match access::decide_event(event, member.role, &member.scopes) {
                Access::Allowed => member.outbox.push(text.clone(), slow),
                Access::WrongRole(_) | Access::Missing(_) => {}
            }
        }
    }

    /// Tells the health to everybody, or only to one who just came if all were told a moment ago: five
    /// hundred logins in a second must not become a quarter of a million events.
    pub(crate) fn tell_health(&self, connection: &str, health: &Value) {
        self.health_changed();
        let is_due = {
            let mut told = self.health_told.lock().unwrap_or_else(PoisonError::into_inner);
            let is_due = told.is_none_or(|at| at.elapsed() >= HEALTH_PAUSE);
            if is_due {
                *told = Some(Instant::now());
            }
            is_due
        };
        if is_due {
            self.broadcast("health", health, Slow::Close);
            return;
        }
        // The number of the last event, so that nobody else sees a gap.
        let seq = self.seq.load(Ordering::Relaxed);
        let place = EventPlace { seq: Some(seq), state: Some(self.version()) };
        let text = gateway::event("health", health, place);
        let Ok(members) = self.members.lock() else { return };
        if let Some(member) = members.get(connection) {
            member.outbox.push(text, Slow::Close);
        }
    }

    /// Tells when something happened in a session, for those who are no members.
    pub(crate) fn session_news(&self) -> broadcast::Receiver<String> {
        self.news.subscribe()
    }

    /// Says whether anybody follows sessions.
    pub(crate) fn has_followers(&self) -> bool {
        let Ok(members) = self.members.lock() else { return false };
        members.values().any(|one| one.follows.all || !one.follows.messages.is_empty())
    }

    /// Notes that something happened in a session, for those who are no members.
    pub(crate) fn note_news(&self, session: &str) {
        // Nobody may be listening.
        let _ = self.news.send(session.to_owned());
    }

    /// Sends an event to one connection, if it may see it. Such events carry no number.
    pub(crate) fn send(&self, connection: &str, event: &str, payload: &Value) {
        let Ok(members) = self.members.lock() else { return };
        let Some(member) = members.get(connection) else { return };
        if access::decide_event(event, member.role, &member.scopes) == Access::Allowed {
            let text = gateway::event(event, payload, EventPlace::default());
            member.outbox.push(text, Slow::Close);
        }
    }

    /// Sends an event about a session to those who follow it. Such events carry no number.
    pub(crate) fn tell(&self, event: &str, session: &str, payload: &Value) {
        self.note_news(session);
        let text = gateway::event(event, payload, EventPlace::default());
        let Ok(members) = self.members.lock() else { return };
        for member in members.values() {
            let follows = &member.follows;
            let is_meant =
                follows.all || (event == "session.message" && follows.messages.contains(session));
            let access = access::decide_event(event, member.role, &member.scopes);
            if is_meant && access == Access::Allowed {
                member.outbox.push(text.clone(), Slow::Drop);
            }
        }
    }

    /// Notes whether a client wants to hear of all sessions.
    pub(crate) fn follow_all(&self, connection: &str, turn: Turn) {
        let Ok(mut members) = self.members.lock() else { return };
        if let Some(member) = members.get_mut(connection) {
            member.follows.all = turn == Turn::On;
        }
    }

    /// Notes whether a client wants to hear what is said in a session; says whether it does now.
    pub(crate) fn follow(&self, connection: &str, session: &str, turn: Turn) -> bool {
        let Ok(mut members) = self.members.lock() else { return false };
        let Some(member) = members.get_mut(connection) else { return false };
        let messages = &mut member.follows.messages;
        match turn {
            Turn::On if messages.len() < MAX_FOLLOWED => {
                messages.insert(session.to_owned());
            }
            Turn::On => {}
            Turn::Off => {
                messages.remove(session);
            }
        }
        messages.contains(session)
    }

    /// Says whether anybody but one connection could answer an approval.
    pub(crate) fn has_answerer_besides(&self, connection: &str) -> bool {
        let Ok(members) = self.members.lock() else { return false };
        members.iter().any(|(name, member)| {
            name != connection
                && member.role == Role::Operator
                && member.scopes.covers(Scope::Approvals)
        })
    }

    /// How many are logged in, and how many bytes wait for them.
    pub(crate) fn load(&self) -> (usize, usize) {
        let Ok(members) = self.members.lock() else { return (0, 0) };
        let queued = members.values().map(|member| member.outbox.queued.load(Ordering::Relaxed));
        (members.len(), queued.sum())
    }

    /// The nodes that are connected, by device.
    pub(crate) fn nodes(&self) -> Vec<String> {
        let Ok(members) = self.members.lock() else { return Vec::new() };
        let nodes = members.values().filter(|member| member.role == Role::Node);
        nodes.filter_map(|member| member.device.clone()).collect()
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

    /// Notes what somebody told of a machine.
    pub(crate) fn note_told(&self, name: &str, entry: Value) {
        self.presence_version.fetch_add(1, Ordering::Relaxed);
        if let Ok(mut presence) = self.presence.lock() {
            presence.told(name, entry);
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
                follows: Follows::default(),
                speaks: Speaks::Older,
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

    #[test]
    fn events_about_a_session_reach_those_who_follow_it_and_may_read() {
        let hub = Hub::default();
        let mut ends = Vec::new();
        for (name, scopes) in [("reader", &["operator.read"][..]), ("stranger", &[])] {
            let (outbox, end) = queue();
            let member = Member {
                outbox,
                role: Role::Operator,
                scopes: Scopes::of(scopes.iter().copied()),
                device: None,
                follows: Follows::default(),
                speaks: Speaks::Older,
            };
            hub.join(name, member);
            ends.push(end);
        }
        hub.tell("session.message", "a", &json!({}));
        assert!(hub.follow("reader", "a", Turn::On));
        assert!(hub.follow("stranger", "a", Turn::On));
        hub.tell("session.message", "a", &json!({}));
        hub.tell("session.message", "b", &json!({}));
        hub.tell("sessions.changed", "a", &json!({}));
        assert!(!hub.follow("reader", "a", Turn::Off));
        hub.tell("session.message", "a", &json!({}));
        assert!(matches!(ends[0].receiver.try_recv(), Ok(Out::Text(_))));
        assert!(ends[0].receiver.try_recv().is_err());
        assert!(ends[1].receiver.try_recv().is_err());
    }
}
