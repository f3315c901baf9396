//! What a run tells whoever listens.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::Value;

use crate::models::talk::{Part, Success, Usage};

/// Hears what runs tell. Called from their threads, one event of a run after the other; must not block for long.
pub trait Listener: Send + Sync {
    fn event(&self, event: RunEvent);

    /// A message now stands in the transcript of a session, under this id.
    fn kept(&self, _session: &str, _id: &str, _message: &Value) {}
}

/// Something happened in a run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunEvent {
    pub run: String,
    pub session: String,
    /// From 1, without holes.
    pub seq: u64,
    pub at_ms: u64,
    pub what: What,
}

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub enum What {
    /// Its turn has come. A directive that asks no model begins without this.
    Started,
    /// A new piece of the answer. Pieces are added up by whoever shows them; a tool call begins a new message.
    Text(String),
    Thinking(String),
    ToolStarted {
        call: String,
        tool: String,
        arguments: Value,
    },
    /// The end of what a command has written so far.
    ToolOutput {
        call: String,
        tool: String,
        tail: String,
        /// Where and since when it runs.
        details: Value,
    },
    ToolEnded {
        call: String,
        tool: String,
        /// The call in a few words, for people.
        label: Option<String>,
        success: Success,
        content: Vec<Part>,
        details: Value,
    },
    Compacting,
    Compacted {
        success: Success,
    },
    Ended(Ended),
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Ended {
    /// All text of the run, and what it took; the last answer also by itself.
    Done {
        text: String,
        usage: Usage,
        last: Usage,
    },
    /// A directive was carried out, or refused; no model was asked.
    Replied {
        text: String,
    },
    Failed {
        error: String,
    },
    /// The text so far.
    Aborted {
        why: AbortReason,
        text: String,
    },
}

/// Who ended a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AbortReason {
    /// A client, by a call of its own.
    Rpc,
    /// A person's `/stop`, or the end of the process.
    Stop,
    Timeout,
}

impl AbortReason {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Rpc => "rpc",
            Self::Stop => "stop",
            Self::Timeout => "timeout",
        }
    }
}

/// Numbers a run's events.
#[derive(Clone)]
pub(super) struct Emitter(Arc<Numbered>);

struct Numbered {
    listener: Arc<dyn Listener>,
    run: String,
    session: String,
    /// Held while an event is told, so that numbers are told in order.
    next: std::sync::Mutex<u64>,
    output: AtomicU64,
}

impl Emitter {
    pub(super) fn new(listener: Arc<dyn Listener>, run: &str, session: &str) -> Self {
        Self(Arc::new(Numbered {
            listener,
            run: run.to_owned(),
            session: session.to_owned(),
            next: std::sync::Mutex::new(1),
            output: AtomicU64::new(0),
        }))
    }

    pub(super) fn emit(&self, what: What) {
        let mut next = self.0.next.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let event = RunEvent {
            run: self.0.run.clone(),
            session: self.0.session.clone(),
            seq: *next,
            at_ms: super::now().as_millis(),
            what,
        };
        *next += 1;
        self.0.listener.event(event);
    }

    /// Tells that a message was kept.
    pub(super) fn kept(&self, id: &str, message: &Value) {
        self.0.listener.kept(&self.0.session, id, message);
    }

    /// Whether it is time to show what a command wrote: not more often than people can see.
    pub(super) fn may_show_output(&self) -> bool {
        const EVERY_MS: u64 = 150;
        let now = super::now().as_millis();
        let last = self.0.output.load(Ordering::Relaxed);
        now >= last.saturating_add(EVERY_MS)
            && self
                .0
                .output
                .compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }
}
