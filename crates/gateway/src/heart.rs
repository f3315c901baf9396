//! Asks agents by themselves, now and then, whether something needs attention.
//!
//! ```text
//! config ──► look: whose beat is due, who was asked for ──► beat: a run of the engine's runner ──► event `heartbeat`
//!   ▲         │ the earliest of the others                                                            │
//!   └─────────┴── woken by `wake`, a change, an end, a moment; at least every five seconds ◄───────────┘
//! ```
//!
//! When a beat is due, whether it begins and what its answer means is decided in `rules::heartbeat`. Times are counted by
//! a clock that nobody can set. Of several gateways of one state directory, the one that runs the planned jobs asks; one
//! that is told to wake somebody does so itself.

mod beat;

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use clawpen_engine::config_file::Sound;
use clawpen_rules::heartbeat::{Cause, Due, Every, Heartbeat, Planned, Skip, Switch, decide_due};
use clawpen_rules::ids::AgentId;
use clawpen_wire::gateway::ErrorShape;
use futures_util::FutureExt as _;
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};

use crate::hub::Slow;
use crate::journal::Level;
use crate::methods::{agents, sessions};
use crate::rounds::{self, Look};
use crate::shared::Shared;

/// The heartbeats of this gateway.
#[derive(Default)]
pub(crate) struct Heart {
    state: Mutex<State>,
    woken: Notify,
}

#[derive(Default)]
struct State {
    switch: Switch,
    /// What was told last.
    last: Option<Value>,
    agents: BTreeMap<AgentId, Agent>,
}

#[derive(Default)]
struct Agent {
    planned: Option<Planned>,
    asked: Option<Asked>,
    /// One of its beats goes on.
    is_busy: bool,
    /// The keys that mean nothing here, as they were last written down.
    unheeded: Vec<&'static str>,
}

/// Somebody wants an agent woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    Anew,
    /// While a beat went on, which may have brought the lines already.
    Meanwhile,
}

impl Heart {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something has changed.
    pub(crate) fn wake(&self) {
        self.woken.notify_one();
    }

    /// Asks for a beat of an agent. However often before it begins, it is one.
    pub(crate) fn ask(&self, agent: &AgentId) {
        {
            let mut state = self.state();
            let agent = state.agents.entry(agent.clone()).or_default();
            let how = if agent.is_busy { Asked::Meanwhile } else { Asked::Anew };
            agent.asked.get_or_insert(how);
        }
        self.wake();
    }

    /// Switches all of them on or off, until the gateway ends.
    pub(crate) fn turn(&self, switch: Switch) {
        self.state().switch = switch;
        self.wake();
    }

    pub(crate) fn switch(&self) -> Switch {
        self.state().switch
    }

    /// What was told last; `null` if nothing was.
    pub(crate) fn last(&self) -> Value {
        self.state().last.clone().unwrap_or_default()
    }

    fn over(&self, agent: &AgentId) {
        if let Some(agent) = self.state().agents.get_mut(agent) {
            agent.is_busy = false;
        }
        self.wake();
    }
}

/// Asks agents until the gateway stops, and then waits for those that answer.
pub(crate) async fn run(shared: Arc<Shared>, stopped: watch::Receiver<bool>) {
    let door = shared.clone();
    // A config that is not sound wakes nobody; whoever asks for it is told why.
    let look = move || look(&door).unwrap_or_else(|_unsound| Look::idle());
    rounds::run(stopped, &shared.heart.woken, look).await;
}

/// Whose beat begins now, and when to look again.
fn look(shared: &Arc<Shared>) -> Result<Look, ErrorShape> {
    let mut look = Look::idle();
    if !shared.is_ready.load(Ordering::Relaxed) {
        return Ok(look);
    }
    let sound = shared.sound()?;
    let is_ours = shared.cron.runs_jobs();
    let all = agents::all(&sound);
    let now = shared.started.elapsed();
    let mut left_out = 0;
    {
        let mut state = shared.heart.state();
        let may_beat = is_ours && state.switch == Switch::On;
        state.agents.retain(|id, _| all.contains(id));
        for id in all {
            let heartbeat = Heartbeat::of(&sound.store.loaded.config, &id);
            let agent = state.agents.entry(id.clone()).or_default();
            agent.report(shared, &id, &heartbeat);
            let is_due = agent.plan(&heartbeat.every, now) && may_beat;
            if let Some(planned) = agent.planned {
                look.pause = look.pause.min(planned.at.saturating_sub(now));
            }
            if agent.is_busy {
                left_out += usize::from(is_due);
                continue;
            }
            let asked = agent.asked.take().is_some_and(|asked| match asked {
                Asked::Anew => true,
                Asked::Meanwhile => waiting(shared, &sound, &id) > 0,
            });
            let cause = asked.then_some(Cause::Wake).or(is_due.then_some(Cause::Interval));
            agent.is_busy = cause.is_some();
            let beat = |cause| beat::carry_out(shared.clone(), id, cause).boxed();
            look.begin.extend(cause.map(beat));
        }
    }
    for _ in 0..left_out {
        tell(shared, "skipped", json!({ "reason": Skip::RequestsInFlight.as_str() }));
    }
    Ok(look)
}

impl Agent {
    /// Says whether a beat is due, and plans the next.
    fn plan(&mut self, every: &Every, now: Duration) -> bool {
        let due = match every {
            Every::Off => None,
            Every::Each { time, .. } => Some(decide_due(self.planned, *time, now)),
        };
        let (planned, is_due) = match due {
            None => (None, false),
            Some(Due::Later(planned)) => (Some(planned), false),
            Some(Due::Now(planned)) => (Some(planned), true),
        };
        self.planned = planned;
        is_due
    }

    /// Writes down, once, which keys of its heartbeat mean nothing here.
    fn report(&mut self, shared: &Shared, id: &AgentId, heartbeat: &Heartbeat) {
        if self.unheeded == heartbeat.unheeded {
            return;
        }
        self.unheeded.clone_from(&heartbeat.unheeded);
        if !self.unheeded.is_empty() {
            let about = json!({ "agent": id.as_str(), "keys": self.unheeded });
            let what = "keys of a heartbeat mean nothing here: there are no channels to deliver to";
            shared.journal.note(Level::Warn, what, &about);
        }
    }
}

/// How many lines wait for the main session of an agent.
fn waiting(shared: &Shared, sound: &Sound, agent: &AgentId) -> usize {
    let main = sessions::meant(sound, &main_key(agent));
    main.map_or(0, |main| shared.runner.queued_lines(&main.key).len())
}

fn main_key(agent: &AgentId) -> String {
    format!("agent:{agent}:main")
}

/// Tells everybody who may read what became of a beat, and remembers it.
fn tell(shared: &Shared, status: &str, more: Value) {
    let mut payload = json!({ "ts": Shared::now().as_millis(), "status": status });
    for (key, value) in more.as_object().into_iter().flatten() {
        payload[key] = value.clone();
    }
    shared.heart.state().last = Some(payload.clone());
    shared.hub.broadcast("heartbeat", &payload, Slow::Drop);
}
