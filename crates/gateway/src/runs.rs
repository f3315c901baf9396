//! What runs of agents tell, as clients hear it.
//!
//! ```text
//! runner ──RunEvent──► Runs ──► `agent` to all who may read   (tool calls: to who asked, and to who follows sessions)
//!                       │  ──► `chat`  to all who may read   (text so far at most every 150 ms, then the end)
//!                       └──────► `sessions.changed`, `session.message` to who follows
//! ```
//!
//! A run is nobody's connection: it goes on when its client leaves. What is remembered of it here is who asked for it,
//! how the session was spelled, the text so far and how it ended. Events of a run wait while its request is being
//! answered, so that nobody hears of a run before the answer that names it.

mod tell;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use clawpen_engine::approvals_file::now_ms;
use clawpen_engine::runner::{AbortReason, Ended, Listener, RunEvent};
use clawpen_rules::access::run::{self, MayEnd, Power, Voice};
use serde_json::Value;

use crate::dispatch::Caller;
use crate::shared::Shared;

/// A model that says this says nothing to people.
pub(crate) const SILENCE: &str = "NO_REPLY";
/// How many ended runs are remembered.
const REMEMBERED: usize = 1000;
/// Events that wait for an answer to leave; more than this do not wait any longer.
const MOST_HELD: usize = 256;

/// How a run was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Chat,
    /// The method `agent`, another session, an approval.
    Agent,
    /// The gateway itself. Nobody hears what it says before it is known whether it says anything.
    Heartbeat {
        /// So much beside the word for "nothing" is nothing.
        ack_characters: usize,
    },
}

/// A run, as its clients know it.
#[derive(Debug, Clone)]
pub(super) struct Talk {
    /// The session as whoever asked spelled it.
    spelled: String,
    session: String,
    owner: Option<Voice>,
    kind: Kind,
    /// Connections that want to hear of tools.
    watchers: BTreeSet<String>,
    /// All text of the run.
    all: String,
    /// The text of the current message.
    message: String,
    /// How much of `all` was told, and when.
    told: usize,
    /// How much of it went out: what a model may take back waits.
    told_newer: usize,
    told_at: Option<Instant>,
    begun_ms: Option<u64>,
    /// The number of the last event.
    seq: u64,
    end: Option<End>,
}

/// How a run ended, for whoever asks late.
#[derive(Debug, Clone)]
pub(crate) struct End {
    pub(crate) kind: Kind,
    pub(crate) begun_ms: Option<u64>,
    pub(crate) ended_ms: u64,
    pub(crate) error: Option<String>,
}

/// The runs of this gateway.
#[derive(Default)]
pub(crate) struct Runs(Mutex<State>);

#[derive(Default)]
struct State {
    talks: HashMap<String, Talk>,
    ended: VecDeque<String>,
    held: HashMap<String, Held>,
}

/// What waits for an answer to leave.
#[derive(Default)]
struct Held {
    /// The message that was taken, for those who follow its session.
    taken: Option<Taken>,
    events: Vec<RunEvent>,
}

/// A message that waits for its turn.
struct Taken {
    session: String,
    text: String,
}

/// Whoever wants runs ended.
pub(crate) struct Ender<'a> {
    pub(crate) caller: &'a Caller,
    pub(crate) session: &'a str,
    /// One of them; all if there is none.
    pub(crate) run: Option<&'a str>,
}

/// Why nothing was ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotEnded {
    OtherSession,
    NotYours,
}

/// Who a caller is, for runs.
pub(crate) fn voice(caller: &Caller) -> Voice {
    Voice { connection: caller.connection.clone(), device: caller.device.clone() }
}

/// A run of which nothing is told until its request is answered.
pub(crate) struct Hold<'a> {
    shared: &'a Shared,
    run: String,
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        let mut state = self.shared.runs.state();
        let Held { taken, events } = state.held.remove(&self.run).unwrap_or_default();
        if let Some(Taken { session, text }) = taken {
            tell::taken(self.shared, &session, &text);
        }
        for event in events {
            tell::event(self.shared, &mut state, &event);
        }
    }
}

impl Runs {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the events of a run wait until the hold is dropped.
    pub(crate) fn hold<'a>(shared: &'a Shared, run: &str) -> Hold<'a> {
        shared.runs.state().held.entry(run.to_owned()).or_default();
        Hold { shared, run: run.to_owned() }
    }

    /// Notes who asks for a run. One that is known stays as it is.
    pub(crate) fn begin(&self, run: &str, caller: &Caller, asked: (Kind, &str, &str)) {
        let (kind, spelled, session) = asked;
        let mut state = self.state();
        let mut talk = Talk::new(session);
        talk.kind = kind;
        spelled.clone_into(&mut talk.spelled);
        talk.owner = Some(voice(caller));
        state.talks.entry(run.to_owned()).or_insert(talk);
        if caller.hears_tools {
            // Whoever speaks in a session hears of all that runs in it.
            let here = state.talks.values_mut().filter(|talk| talk.session == session);
            for talk in here.filter(|talk| talk.end.is_none()) {
                talk.watchers.insert(caller.connection.clone());
            }
        }
    }

    /// Notes a run that the gateway itself asks for.
    pub(crate) fn begin_beat(&self, run: &str, session: &str, ack_characters: usize) {
        let mut talk = Talk::new(session);
        talk.kind = Kind::Heartbeat { ack_characters };
        self.state().talks.insert(run.to_owned(), talk);
    }

    /// Makes a name free that the runner does not know any more.
    pub(crate) fn free(&self, run: &str) {
        let mut state = self.state();
        if state.talks.get(run).is_some_and(|talk| talk.end.is_some()) {
            state.talks.remove(run);
        }
    }

    /// Notes a message that was taken; those who follow its session hear of it once its sender was answered.
    pub(crate) fn took(&self, run: &str, session: &str, text: &str) {
        let taken = Taken { session: session.to_owned(), text: text.to_owned() };
        if let Some(held) = self.state().held.get_mut(run) {
            held.taken = Some(taken);
        }
    }

    /// Takes back what [`Runs::begin`] noted of a run that did not begin.
    pub(crate) fn forget(&self, run: &str) {
        self.state().talks.remove(run);
    }

    /// How a run ended; `None` if it goes on or is not known.
    pub(crate) fn end(&self, run: &str) -> Option<End> {
        self.state().talks.get(run).and_then(|talk| talk.end.clone())
    }

    /// Ends runs of a session that this caller may end. Everybody is told at once, before the commands are dead.
    pub(crate) fn abort(shared: &Shared, ender: &Ender<'_>) -> Result<Vec<String>, NotEnded> {
        let Ender { caller, session, run } = ender;
        if let Some(run) = run
            && shared.runner.session_of(run).is_some_and(|of| of != *session)
        {
            return Err(NotEnded::OtherSession);
        }
        let power = if caller.is_admin() { Power::Admin } else { Power::Plain };
        let voice = voice(caller);
        let active = shared.runner.active(session);
        let wanted: Vec<String> =
            active.into_iter().filter(|one| run.is_none_or(|run| one == run)).collect();
        let mut state = shared.runs.state();
        let may_end = |one: &String| {
            let owner = state.talks.get(one).and_then(|talk| talk.owner.as_ref());
            run::decide(owner, &voice, power) == MayEnd::Yes
        };
        let (own, others): (Vec<String>, Vec<String>) = wanted.into_iter().partition(may_end);
        if own.is_empty() && !others.is_empty() {
            return Err(NotEnded::NotYours);
        }
        if run.is_none() && others.is_empty() {
            // Whoever stops a session does not want to hear of what it left behind either.
            shared.runner.hush(session);
        }
        let mut stopped = Vec::new();
        for one in own {
            if !shared.runner.abort(session, Some(&one), AbortReason::Rpc).is_empty() {
                tell::aborted_now(shared, &mut state, &one);
                stopped.push(one);
            }
        }
        Ok(stopped)
    }
}

impl Talk {
    const fn is_beat(&self) -> bool {
        matches!(self.kind, Kind::Heartbeat { .. })
    }

    fn new(session: &str) -> Self {
        Self {
            spelled: session.to_owned(),
            session: session.to_owned(),
            owner: None,
            kind: Kind::Agent,
            watchers: BTreeSet::new(),
            all: String::new(),
            message: String::new(),
            told: 0,
            told_newer: 0,
            told_at: None,
            begun_ms: None,
            seq: 0,
            end: None,
        }
    }
}

impl State {
    /// Notes that a run is over, and forgets the oldest.
    fn note_end(&mut self, run: &str, error: Option<String>) {
        let Some(talk) = self.talks.get_mut(run) else { return };
        let ended_ms = now_ms();
        talk.end = Some(End { kind: talk.kind, begun_ms: talk.begun_ms, ended_ms, error });
        talk.all = String::new();
        talk.message = String::new();
        talk.watchers.clear();
        self.ended.push_back(run.to_owned());
        while self.ended.len() > REMEMBERED
            && let Some(oldest) = self.ended.pop_front()
        {
            // The name may have been given again since.
            if self.talks.get(&oldest).is_some_and(|talk| talk.end.is_some()) {
                self.talks.remove(&oldest);
            }
        }
    }
}

/// Hears the runner for a gateway; what it hears after the gateway's end is for nobody.
pub(crate) struct Ears(pub(crate) Weak<Shared>);

impl Listener for Ears {
    fn event(&self, event: RunEvent) {
        let Some(shared) = self.0.upgrade() else { return };
        let mut state = shared.runs.state();
        if let Some(held) = state.held.get_mut(&event.run)
            && held.events.len() < MOST_HELD
        {
            held.events.push(event);
            return;
        }
        // Whatever waited comes first.
        if let Some(held) =
            state.held.get_mut(&event.run).map(|held| std::mem::take(&mut held.events))
        {
            for earlier in held {
                tell::event(&shared, &mut state, &earlier);
            }
        }
        tell::event(&shared, &mut state, &event);
    }

    fn kept(&self, session: &str, id: &str, message: &Value) {
        let Some(shared) = self.0.upgrade() else { return };
        tell::kept(&shared, session, (id, message));
    }
}

/// The error of a run that failed, as it is answered to who asks again.
pub(crate) fn failure(ended: &Ended) -> Option<&str> {
    match ended {
        Ended::Failed { error } => Some(error),
        Ended::Done { .. } | Ended::Replied { .. } | Ended::Aborted { .. } => None,
    }
}
