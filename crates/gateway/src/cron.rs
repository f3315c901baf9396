//! Runs planned jobs when they are due.
//!
//! ```text
//! store ──► look: what is due, what was asked for by hand ──► claim (`runningAtMs`) ──► turn ──► settle ──► store
//!   ▲        │ the earliest of the others                                                          │
//!   └────────┴── woken by a change, an end, a moment; at least every five seconds ◄─────────────────┘
//! ```
//!
//! One process at a time runs the jobs of a store: it holds a lock beside it. When a job is due and what becomes of it
//! after a run is decided in `rules::cron`; a run is an ordinary run of the engine's runner.

mod settle;
mod turn;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::convert::Infallible;
use std::fs::File;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use clawpen_engine::approvals_file::now_ms;
use clawpen_engine::config_file::Sound;
use clawpen_engine::cron_store::{CronStore, Job, Stamp, local_zone};
use clawpen_rules::cron::{Asked, Ran, Zone};
use clawpen_rules::timestamp::Timestamp;
use clawpen_wire::gateway::ErrorShape;
use futures_util::FutureExt as _;
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};

use crate::hub::Slow;
use crate::journal::Level;
use crate::rounds::{self, LONGEST_PAUSE, Look};
use crate::shared::{Shared, unavailable};

/// How long next moments are searched for in one look; the store is locked meanwhile. The rest comes soon after.
const SEARCH: Duration = Duration::from_millis(200);
/// A clock that goes back further than this was set.
const SET_BACK_MS: u64 = 60_000;
/// Runs that were asked for by hand and wait.
const MOST_ASKED: usize = 100;
/// More runs at once than this are not useful to anybody.
const MOST_AT_ONCE: f64 = 16.0;

/// What `cron` of the config says.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) is_on: bool,
    at_once: usize,
    pub(crate) store: CronStore,
    /// The zone of jobs that name none.
    pub(crate) zone: Zone,
}

impl Settings {
    pub(crate) fn of(shared: &Shared, sound: &Sound) -> Self {
        let config = &sound.store.loaded.config;
        let written = config.at(&["cron", "enabled"]).and_then(|at| at.node.as_bool());
        let skipped = shared.around.variable("OPENCLAW_SKIP_CRON");
        let is_skipped =
            skipped.is_some_and(|text| matches!(text.trim(), "1" | "true" | "yes" | "on"));
        let at_once = config.at(&["cron", "maxConcurrentRuns"]);
        let at_once = at_once.and_then(|at| at.node.as_number()).filter(|number| *number >= 1.0);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "at least 1, and capped"
        )]
        let at_once = at_once.map_or(1, |number| number.min(MOST_AT_ONCE) as usize);
        Self {
            is_on: written != Some(false) && !is_skipped,
            at_once,
            store: CronStore::at(&sound.store.locations.cron_store(config)),
            zone: local_zone(shared.around.variable("TZ")),
        }
    }
}

/// The planned jobs of this gateway.
#[derive(Default)]
pub(crate) struct Planner {
    state: Mutex<State>,
    woken: Notify,
}

#[derive(Default)]
struct State {
    /// Asked for by hand, in their order.
    asked: VecDeque<String>,
    running: BTreeSet<String>,
    last_number: u64,
    /// Which store we run the jobs of, and what keeps others from it.
    own: Option<(PathBuf, File)>,
    known: Option<(Stamp, Arc<Vec<Job>>)>,
    /// Jobs without a next moment, with the schedules that have none: to search for one is dear.
    hopeless: HashMap<String, Value>,
    last_look_ms: u64,
    /// What was last wrong; it is told once.
    trouble: Option<String>,
}

/// A job that is about to run.
pub(super) struct Claim {
    pub(super) job: Job,
    pub(super) asked: Asked,
    pub(super) started: Timestamp,
    pub(super) store: CronStore,
    pub(super) zone: Zone,
}

impl Planner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something has changed.
    pub(crate) fn wake(&self) {
        self.woken.notify_one();
    }

    /// Says whether this gateway runs the jobs of its state directory.
    pub(crate) fn runs_jobs(&self) -> bool {
        self.state().own.is_some()
    }

    /// Asks for a run; gives its name.
    pub(crate) fn ask(&self, settings: &Settings, job: &str) -> Result<String, ErrorShape> {
        let mut state = self.state();
        // If nobody runs them, we are about to: the lock is tried and let go.
        if !state.owns(&settings.store) && !matches!(settings.store.own(), Ok(Some(_))) {
            let what =
                "another gateway of this state directory runs the planned jobs; ask that one";
            return Err(ErrorShape::unavailable(what));
        }
        if state.asked.len() >= MOST_ASKED {
            return Err(ErrorShape::unavailable("too many runs wait already; try again later"));
        }
        state.asked.push_back(job.to_owned());
        state.last_number += 1;
        let number = state.last_number;
        drop(state);
        self.wake();
        Ok(format!("manual:{job}:{}:{number}", now_ms()))
    }

    /// A run is over.
    pub(super) fn over(&self, job: &str) {
        self.state().running.remove(job);
        self.wake();
    }

    fn complain(shared: &Shared, error: &ErrorShape) {
        let mut state = shared.cron.state();
        if state.trouble.as_ref() != Some(&error.message) {
            state.trouble = Some(error.message.clone());
            let about = json!({ "why": error.message });
            shared.journal.note(Level::Warn, "planned jobs do not run", &about);
        }
    }
}

impl State {
    fn owns(&self, store: &CronStore) -> bool {
        self.own.as_ref().is_some_and(|(path, _)| path == store.path())
    }
}

/// Runs planned jobs until the gateway stops.
pub(crate) async fn run(shared: Arc<Shared>, stopped: watch::Receiver<bool>) {
    let door = shared.clone();
    let look = move || {
        look(&door).unwrap_or_else(|error| {
            Planner::complain(&door, &error);
            Look::idle()
        })
    };
    rounds::run(stopped, &shared.cron.woken, look).await;
}

/// Claims what is due and may run now.
fn look(shared: &Arc<Shared>) -> Result<Look, ErrorShape> {
    if !shared.is_ready.load(Ordering::Relaxed) {
        return Ok(Look::idle());
    }
    let sound = shared.sound()?;
    let settings = Settings::of(shared, &sound);
    if !own(shared, &settings)? {
        return Ok(Look::idle());
    }
    let now = Shared::now();
    // Asked before the file is read: what ends meanwhile is no longer marked in it, or known here.
    let busy = shared.cron.state().running.clone();
    let mut jobs = plan(shared, &settings, now)?;
    if settle_lost(shared, &settings, (&jobs, &busy))? {
        jobs = plan(shared, &settings, now)?;
    }
    let mut claims = Vec::new();
    for (id, asked) in wanted(shared, &settings, (&jobs, now)) {
        match claim(shared, &settings, (&id, asked, now)) {
            Ok(claimed) => claims.extend(claimed),
            // Those before it are claimed, and run.
            Err(error) => {
                Planner::complain(shared, &error);
                break;
            }
        }
    }
    // What is due by now and was not claimed waits for room, or can never run.
    let ahead = jobs.iter().filter(|job| job.is_enabled()).filter_map(Job::next_run);
    let next = ahead.filter(|next| *next > now).min().filter(|_| settings.is_on);
    let pause = next.map_or(LONGEST_PAUSE, |next| {
        Duration::from_millis(next.as_millis().saturating_sub(now_ms())).min(LONGEST_PAUSE)
    });
    let is_whole = jobs.is_empty() || shared.cron.state().known.is_some();
    let pause = if is_whole { pause } else { pause.min(SEARCH) };
    let turn = |claim| turn::carry_out(shared.clone(), claim).boxed();
    Ok(Look { begin: claims.into_iter().map(turn).collect(), pause })
}

/// Sees to it that nobody else runs these jobs. False if somebody does.
fn own(shared: &Shared, settings: &Settings) -> Result<bool, ErrorShape> {
    let mut state = shared.cron.state();
    if state.owns(&settings.store) {
        return Ok(true);
    }
    // What runs belongs to the store that it was claimed in.
    if !state.running.is_empty() {
        return Ok(false);
    }
    let lock = settings.store.own().map_err(|error| unavailable(&error))?;
    state.known = None;
    state.own = lock.map(|lock| (settings.store.path().to_owned(), lock));
    Ok(state.own.is_some())
}

/// Settles what is marked as running and does not run: its process was killed in the middle. Says whether there was any.
fn settle_lost(
    shared: &Shared,
    settings: &Settings,
    (jobs, busy): (&[Job], &BTreeSet<String>),
) -> Result<bool, ErrorShape> {
    let mut has_lost = false;
    for job in jobs.iter().filter(|job| !busy.contains(job.id())) {
        let Some(started) = job.running_since() else { continue };
        has_lost = true;
        let (store, zone) = (settings.store.clone(), settings.zone.clone());
        let claim = Claim { job: job.clone(), asked: Asked::Due, started, store, zone };
        let lost = settle::Outcome {
            ran: Ran::Unknown,
            error: Some("the gateway ended in the middle of the run".to_owned()),
            ..settle::Outcome::default()
        };
        settle::settle(shared, &claim, &lost)?;
    }
    Ok(has_lost)
}

/// The jobs as they are now, each that can have one with its next moment.
fn plan(shared: &Shared, settings: &Settings, now: Timestamp) -> Result<Arc<Vec<Job>>, ErrorShape> {
    let stamp = settings.store.stamp();
    let is_set_back = {
        let mut state = shared.cron.state();
        let is_set_back = now.as_millis().saturating_add(SET_BACK_MS) < state.last_look_ms;
        state.last_look_ms = now.as_millis();
        if is_set_back {
            state.hopeless.clear();
        }
        if let (Some((known, jobs)), false) = (&state.known, is_set_back)
            && Some(*known) == stamp
        {
            return Ok(Arc::clone(jobs));
        }
        is_set_back
    };
    let Some(stamp) = stamp else { return Ok(Arc::default()) };
    let mut search = Search::new(shared);
    let jobs = settings.store.change(|jobs| {
        for job in jobs.iter_mut().filter(|job| job.is_enabled()) {
            let known = job.next_run();
            // A moment that was planned before the clock was set back may be years away.
            let is_stale = is_set_back && known.is_some_and(|next| next > now);
            if known.is_some() && !is_stale {
                continue;
            }
            if !is_stale && !search.is_worth_it(job) {
                continue;
            }
            let last = job.last_run().filter(|_| !is_stale);
            let next = job.schedule(&settings.zone).ok();
            let next = next.and_then(|schedule| schedule.next(job.id(), now, last));
            if next.is_none() {
                search.give_up(job);
            }
            if next != known {
                job.plan(next);
                search.is_whole = false;
            }
        }
        Ok::<_, Infallible>(jobs.clone())
    });
    let jobs = Arc::new(jobs.map_err(|error| unavailable(&error))?);
    let mut state = shared.cron.state();
    state.trouble = None;
    state.hopeless = search.hopeless;
    // What we have written has a stamp that may be somebody else's by now: it is read once more.
    state.known = search.is_whole.then(|| (stamp, Arc::clone(&jobs)));
    Ok(jobs)
}

/// The search for next moments in one look.
struct Search {
    begun: Instant,
    /// Those of the last look, and of this one.
    known: HashMap<String, Value>,
    hopeless: HashMap<String, Value>,
    /// Nothing was left for later, and nothing changed.
    is_whole: bool,
}

impl Search {
    fn new(shared: &Shared) -> Self {
        let known = std::mem::take(&mut shared.cron.state().hopeless);
        Self { begun: Instant::now(), known, hopeless: HashMap::new(), is_whole: true }
    }

    /// Whether a job may have a next moment, and there is time to find it.
    fn is_worth_it(&mut self, job: &Job) -> bool {
        let schedule = job.0.get("schedule").unwrap_or(&Value::Null);
        if self.known.get(job.id()) == Some(schedule) {
            self.give_up(job);
            return false;
        }
        let has_time = self.begun.elapsed() < SEARCH;
        self.is_whole &= has_time;
        has_time
    }

    fn give_up(&mut self, job: &Job) {
        let schedule = job.0.get("schedule").cloned().unwrap_or_default();
        self.hopeless.insert(job.id().to_owned(), schedule);
    }
}

/// Which jobs may begin now: those that were asked for by hand, then those that are due, the longest first.
fn wanted(
    shared: &Shared,
    settings: &Settings,
    (jobs, now): (&[Job], Timestamp),
) -> Vec<(String, Asked)> {
    let mut state = shared.cron.state();
    let mut room = settings.at_once.saturating_sub(state.running.len());
    let mut wanted: Vec<(String, Asked)> = Vec::new();
    let mut waiting = VecDeque::new();
    while let Some(id) = state.asked.pop_front() {
        let is_busy = state.running.contains(&id) || wanted.iter().any(|(other, _)| *other == id);
        if room == 0 || is_busy {
            waiting.push_back(id);
        } else {
            room -= 1;
            wanted.push((id, Asked::ByHand));
        }
    }
    state.asked = waiting;
    if !settings.is_on {
        return wanted;
    }
    let is_due = |job: &&Job| {
        job.is_enabled()
            && job.next_run().is_some_and(|next| next <= now)
            && !state.running.contains(job.id())
            && !wanted.iter().any(|(other, _)| other == job.id())
            && job.has_plain_id()
            && job.schedule(&settings.zone).is_ok()
    };
    let mut due: Vec<&Job> = jobs.iter().filter(is_due).collect();
    due.sort_by_key(|job| job.next_run());
    let due: Vec<_> =
        due.into_iter().take(room).map(|job| (job.id().to_owned(), Asked::Due)).collect();
    wanted.extend(due);
    wanted
}

/// Writes down that a job runs, and tells it. `None` if it is gone, or was changed meanwhile.
fn claim(
    shared: &Shared,
    settings: &Settings,
    (id, asked, started): (&str, Asked, Timestamp),
) -> Result<Option<Claim>, ErrorShape> {
    let claimed = settings.store.change(|jobs| {
        let job = jobs.iter_mut().find(|job| job.id() == id && job.running_since().is_none());
        let Some(job) = job else { return Ok::<_, Infallible>(None) };
        let is_due = job.is_enabled() && job.next_run().is_some_and(|next| next <= started);
        if asked == Asked::Due && !is_due {
            return Ok(None);
        }
        job.note("runningAtMs", Some(json!(started.as_millis())));
        Ok(Some(job.clone()))
    });
    let Some(job) = claimed.map_err(|error| unavailable(&error))? else { return Ok(None) };
    shared.cron.state().running.insert(id.to_owned());
    let (store, zone) = (settings.store.clone(), settings.zone.clone());
    tell(shared, id, "started", json!({ "runAtMs": started.as_millis() }));
    Ok(Some(Claim { job, asked, started, store, zone }))
}

/// Tells everybody who may read what became of a job.
pub(crate) fn tell(shared: &Shared, job: &str, action: &str, more: Value) {
    let mut payload = json!({ "jobId": job, "action": action });
    for (key, value) in more.as_object().into_iter().flatten() {
        payload[key] = value.clone();
    }
    shared.hub.broadcast("cron", &payload, Slow::Drop);
}
