//! Runs agents: a message in, a model asked, its tool calls carried out, until it has nothing more to call.
//!
//! ```text
//! message ─► lane of its session ─► lane of all ─► sandbox ─► model ─► tool calls ─► model ─► … ─► the end
//!              one run at a time     a few at once    │          │         └ engine::call, in parallel
//!              └ directives: no model is asked        │          └ deltas, as they come
//!                                                     └ before the model, every time
//! ```
//!
//! Takes who speaks and what was said, from any door; gives events to one [`Listener`]. Everything that was said stands
//! in the transcript before the next step is taken. Decides nothing: whether a tool runs, and where, is
//! [`crate::call`]'s to find out, who may give a directive is `rules::directives`, which model is `rules::models`.
//!
//! A model's words are never an order to the runner: what it wants done, it has to call, and every call goes the way that
//! any other client's goes.

mod directives;
mod entry;
mod events;
mod history;
mod image;
mod lanes;
mod lines;
mod notice;
mod run;
mod session_tools;
mod tools;

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clawpen_rules::config::Config;
use clawpen_rules::directives::Authority;
use clawpen_rules::heartbeat::Context;
use clawpen_rules::models::ModelRef;
use clawpen_rules::tools::schema::Schema;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::broker::{Approval, Which};
use crate::call::{Attachment, Desk, Stop, ToolCallError, Who};
use crate::config_store::Store;
use crate::models::Client;
use crate::random;

pub use directives::Answers;
use directives::Next;
pub use entry::SessionPlace;
use events::Emitter;
pub use events::{AbortReason, Ended, Listener, RunEvent, What};
use lanes::Lanes;
use lines::Lines;
pub use lines::Queued;
pub use session_tools::{NotTold, Told};

/// How many ended runs are remembered, for whoever asks late.
const REMEMBERED: usize = 1000;
/// Nobody waits for a run longer than this, unless the config says otherwise.
const LONGEST: Duration = Duration::from_secs(48 * 60 * 60);

/// A message for an agent.
#[derive(Debug, Clone)]
pub struct Request {
    /// Whose session, and what the door knows of whoever speaks.
    pub who: Who,
    pub authority: Authority,
    /// As whom `/approve` answers.
    pub answers: Answers,
    pub message: String,
    pub attachments: Vec<Attachment>,
    /// The run's name. Whoever gives the same one twice gets one run.
    pub run: Option<String>,
    pub timeout: Option<Duration>,
    pub origin: Origin,
    pub approvals: Approvals,
    pub wishes: Wishes,
}

/// What holds for one run and for no other. Whoever fills it in has asked whether the sender may.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wishes {
    /// Asked instead of the session's model.
    pub model: Option<ModelRef>,
    /// Stands at the end of the instructions.
    pub instructions: Option<String>,
    /// What a session is called that has no name yet.
    pub label: Option<String>,
}

/// Where a message comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A person: directives are read.
    Person,
    /// Another session, or a command that was waited for: never a directive.
    Session(String),
    /// Another system, by a webhook: never a directive, and what it calls itself is no part of our words.
    Hook,
    /// The gateway, which asks by itself: never a directive.
    Heartbeat(Context),
}

/// What becomes of a call that a person must agree to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Approvals {
    /// The run waits for the answer: whoever could give it is here.
    Wait,
    /// The run goes on with `approval-pending`; what came of the call is told to the session in a turn of its own.
    FollowUp,
}

/// A message that was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Started {
    pub run: String,
    /// The session's key in its store.
    pub session: String,
    pub status: StartStatus,
}

/// Whether a run is new.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartStatus {
    Started,
    /// A run of this name was there already; nothing was added.
    Known,
}

/// A message that was not taken.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("write a message or attach a file")]
    Empty,
    #[error("a message cannot hold a zero byte")]
    ZeroByte,
    #[error(transparent)]
    Session(#[from] ToolCallError),
    #[error("no run is begun any more: this process ends")]
    Closed,
}

/// The agents of one state directory, at work. Cheap to clone.
#[derive(Clone)]
pub struct Runner(Arc<Inner>);

impl std::fmt::Debug for Runner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runner").finish_non_exhaustive()
    }
}

struct Inner {
    desk: Arc<Desk>,
    client: Client,
    handle: Handle,
    listener: Arc<dyn Listener>,
    lanes: Lanes,
    runs: Mutex<Runs>,
    /// One change of a session store at a time: a hundred runs would otherwise wait for a file's lock by turns.
    stores: Mutex<()>,
    /// One sub-agent is counted and started at a time, or several at once would all be the last that is allowed.
    spawning: Mutex<()>,
    /// How many ends of commands each session was told of since anything else was said there.
    told_in_a_row: Mutex<HashMap<String, u32>>,
    /// What waits for the next turn of a session.
    lines: Lines,
    closed: AtomicBool,
}

#[derive(Default)]
struct Runs {
    known: HashMap<String, Arc<Active>>,
    /// The ended ones, oldest first.
    ended: VecDeque<String>,
}

/// A run, from its message to its end.
struct Active {
    run: String,
    session: String,
    cancelled: CancellationToken,
    stops: Mutex<Stops>,
    why: Mutex<Option<AbortReason>>,
    /// It was ended, or what it left behind is not to be heard of any more.
    unheard: AtomicBool,
    end: watch::Sender<Option<Ended>>,
}

/// What ends a run's calls.
#[derive(Default)]
struct Stops {
    last: u64,
    open: Vec<(u64, Stop)>,
}

impl Active {
    fn abort(&self, why: AbortReason) -> bool {
        self.unheard.store(true, Ordering::Relaxed);
        if self.end.borrow().is_some() {
            return false;
        }
        self.why.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
        // What is begun from here on sees that the run is over; what was begun before is ended now.
        self.cancelled.cancel();
        let stops = self.stops.lock().unwrap_or_else(PoisonError::into_inner);
        stops.open.iter().for_each(|(_, stop)| stop.pull());
        true
    }

    /// Something to end a call by. It is pulled with the run, until the call is let go.
    fn open_stop(&self) -> std::io::Result<(u64, Stop)> {
        let stop = Stop::new()?;
        let number = {
            let mut stops = self.stops.lock().unwrap_or_else(PoisonError::into_inner);
            stops.last += 1;
            let number = stops.last;
            stops.open.push((number, stop.clone()));
            number
        };
        if self.is_aborted() {
            stop.pull();
        }
        Ok((number, stop))
    }

    /// The run's end does not end this call any more.
    fn let_go(&self, number: u64) {
        let mut stops = self.stops.lock().unwrap_or_else(PoisonError::into_inner);
        stops.open.retain(|(known, _)| *known != number);
    }

    fn is_aborted(&self) -> bool {
        self.cancelled.is_cancelled()
    }

    fn is_unheard(&self) -> bool {
        self.unheard.load(Ordering::Relaxed)
    }

    fn why(&self) -> AbortReason {
        self.why.lock().unwrap_or_else(PoisonError::into_inner).unwrap_or(AbortReason::Rpc)
    }
}

impl Runner {
    /// Agents whose tools go through `desk`. Models are asked on the threads of `handle`.
    pub fn new(desk: Arc<Desk>, handle: Handle, listener: Arc<dyn Listener>) -> Self {
        let config = desk.config().ok();
        let lanes = Lanes::new(config.as_ref().map(|store| &store.loaded.config));
        let inner = Inner {
            desk,
            client: Client::default(),
            handle,
            listener,
            lanes,
            runs: Mutex::default(),
            stores: Mutex::default(),
            spawning: Mutex::default(),
            told_in_a_row: Mutex::default(),
            lines: Lines::default(),
            closed: AtomicBool::new(false),
        };
        Self(Arc::new(inner))
    }

    /// Takes a message. Its run begins when its turn comes; what becomes of it is told to the listener.
    pub fn start(&self, request: Request) -> Result<Started, StartError> {
        if request.message.contains('\0') {
            return Err(StartError::ZeroByte);
        }
        if request.message.trim().is_empty() && request.attachments.is_empty() {
            return Err(StartError::Empty);
        }
        let place = self.place(&request.who)?;
        let run = request.run.clone().unwrap_or_else(random::uuid);
        let active = {
            let mut runs = self.0.runs.lock().unwrap_or_else(PoisonError::into_inner);
            // Asked under the lock: whoever closes sees every run that was begun before.
            if self.0.closed.load(Ordering::Relaxed) {
                return Err(StartError::Closed);
            }
            if let Some(known) = runs.known.get(&run) {
                let session = known.session.clone();
                return Ok(Started { run, session, status: StartStatus::Known });
            }
            let active = Arc::new(Active {
                run: run.clone(),
                session: place.key.clone(),
                cancelled: CancellationToken::new(),
                stops: Mutex::default(),
                why: Mutex::default(),
                unheard: AtomicBool::new(false),
                end: watch::Sender::new(None),
            });
            runs.known.insert(run.clone(), Arc::clone(&active));
            active
        };
        let session = active.session.clone();
        // The gateway by itself is nobody who speaks.
        if !run.starts_with(notice::NAME) && !matches!(request.origin, Origin::Heartbeat(_)) {
            let told = self.0.told_in_a_row.lock();
            told.unwrap_or_else(PoisonError::into_inner).remove(&session);
        }
        let inner = Arc::clone(&self.0);
        drop(self.0.handle.spawn(async move { inner.drive(active, request, place).await }));
        Ok(Started { run, session, status: StartStatus::Started })
    }

    /// The tools that a model would be offered in a session now, where `own` is asked.
    pub fn offered(
        &self,
        who: &Who,
        own: Option<&ModelRef>,
    ) -> Result<Vec<&'static Schema>, ToolCallError> {
        self.0.desk.look(who, |view| run::offered(view, own))
    }

    /// Ends the runs of a session, or one of them: what a model says is not heard any more, and what a tool has started is
    /// killed with all its children. Ends of commands that they left in the background are not told. Gives the runs that
    /// were ended.
    pub fn abort(&self, session: &str, run: Option<&str>, why: AbortReason) -> Vec<String> {
        let wanted: Vec<Arc<Active>> = {
            let runs = self.0.runs.lock().unwrap_or_else(PoisonError::into_inner);
            let all = runs.known.values();
            let is_wanted = |active: &&Arc<Active>| {
                active.session == session && run.is_none_or(|run| active.run == run)
            };
            all.filter(is_wanted).cloned().collect()
        };
        wanted
            .into_iter()
            .filter(|active| active.abort(why))
            .map(|active| active.run.clone())
            .collect()
    }

    /// Nothing more is told of what the runs of a session have left behind. Those that go on do.
    pub fn hush(&self, session: &str) {
        let runs = self.0.runs.lock().unwrap_or_else(PoisonError::into_inner);
        for active in runs.known.values().filter(|active| active.session == session) {
            active.unheard.store(true, Ordering::Relaxed);
        }
    }

    /// The runs of a session that have not ended, waiting ones included.
    pub fn active(&self, session: &str) -> Vec<String> {
        let runs = self.0.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let open = runs.known.values().filter(|active| active.end.borrow().is_none());
        open.filter(|active| active.session == session).map(|active| active.run.clone()).collect()
    }

    /// How many runs have not ended, waiting ones included.
    pub fn count(&self) -> usize {
        let runs = self.0.runs.lock().unwrap_or_else(PoisonError::into_inner);
        runs.known.len().saturating_sub(runs.ended.len())
    }

    /// How a run ended; `None` if it goes on or is not known.
    pub fn ended(&self, run: &str) -> Option<Ended> {
        let runs = self.0.runs.lock().unwrap_or_else(PoisonError::into_inner);
        runs.known.get(run).and_then(|active| active.end.borrow().clone())
    }

    /// Which session a run is of, ended or not.
    pub fn session_of(&self, run: &str) -> Option<String> {
        let runs = self.0.runs.lock().unwrap_or_else(PoisonError::into_inner);
        runs.known.get(run).map(|active| active.session.clone())
    }

    /// Waits for a run's end; `None` if there is no such run or it takes longer.
    pub async fn wait(&self, run: &str, time: Duration) -> Option<Ended> {
        let active = {
            let runs = self.0.runs.lock().unwrap_or_else(PoisonError::into_inner);
            runs.known.get(run).cloned()
        }?;
        let mut end = active.end.subscribe();
        let ended = tokio::time::timeout(time, end.wait_for(Option::is_some)).await.ok()?.ok()?;
        ended.clone()
    }

    /// The same, for a thread that may block.
    pub fn wait_blocking(&self, run: &str, time: Duration) -> Option<Ended> {
        self.0.handle.block_on(self.wait(run, time))
    }

    /// Where a session's entry and transcript are.
    pub fn place(&self, who: &Who) -> Result<SessionPlace, ToolCallError> {
        self.0.desk.look(who, |view| SessionPlace::of(view.store, &view.explanation.session))
    }

    /// What waits for a person's answer in a session.
    pub fn waiting(&self, session: &str) -> Result<Vec<Approval>, ToolCallError> {
        let listed = self.0.desk.with_broker(|broker| broker.list(Which::Pending))?;
        // What cannot be listed is listed by nobody; the call waits until its time is over.
        let pending = listed.unwrap_or_default();
        let is_here = |approval: &Approval| approval.session.as_deref() == Some(session);
        Ok(pending.into_iter().filter(is_here).collect())
    }

    /// Ends everything, begins nothing more, and waits until it has ended or the time is over.
    pub async fn close(&self, time: Duration) {
        let all: Vec<Arc<Active>> = {
            let runs = self.0.runs.lock().unwrap_or_else(PoisonError::into_inner);
            self.0.closed.store(true, Ordering::Relaxed);
            runs.known.values().cloned().collect()
        };
        for active in &all {
            active.abort(AbortReason::Stop);
        }
        let ended = async {
            for active in &all {
                // An error means that the sender is gone, and with it the run.
                let _gone = active.end.subscribe().wait_for(Option::is_some).await.map(drop);
            }
        };
        // Whoever has not ended by now is ended with the process.
        let _late = tokio::time::timeout(time, ended).await;
    }
}

impl Inner {
    async fn drive(self: Arc<Self>, active: Arc<Active>, request: Request, place: SessionPlace) {
        let emitter = Emitter::new(Arc::clone(&self.listener), &active.run, &active.session);
        let ended = self.in_turn(&active, request, place, &emitter).await;
        emitter.emit(What::Ended(ended.clone()));
        active.end.send_replace(Some(ended));
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        runs.ended.push_back(active.run.clone());
        while runs.ended.len() > REMEMBERED
            && let Some(oldest) = runs.ended.pop_front()
        {
            runs.known.remove(&oldest);
        }
    }

    /// Waits for the run's turn and carries it out on a thread that may block.
    async fn in_turn(
        self: &Arc<Self>,
        active: &Arc<Active>,
        request: Request,
        place: SessionPlace,
        emitter: &Emitter,
    ) -> Ended {
        let unexpected = || Ended::Failed { error: "the run ended unexpectedly".to_owned() };
        let (inner, own, at) = (Arc::clone(self), Arc::clone(active), place.clone());
        let read = tokio::task::spawn_blocking(move || inner.at_once(&own, request, &at)).await;
        let (request, task) = match read {
            Ok(Next::Run(request, task)) => (*request, task),
            Ok(Next::Reply(ended)) => return ended,
            Err(_panic) => return unexpected(),
        };
        let aborted = || Ended::Aborted { why: active.why(), text: String::new() };
        let turn = tokio::select! {
            biased;
            () = active.cancelled.cancelled() => return aborted(),
            turn = self.lanes.enter(&place, &request.origin) => turn,
        };
        let time = if let Some(time) = request.timeout {
            time
        } else {
            let inner = Arc::clone(self);
            let read = tokio::task::spawn_blocking(move || inner.longest()).await;
            read.unwrap_or(LONGEST)
        };
        let (inner, own, sender) = (Arc::clone(self), Arc::clone(active), emitter.clone());
        let mut work = tokio::task::spawn_blocking(move || {
            let ended = inner.perform(&own, (request, task), &place, &sender);
            drop(turn);
            ended
        });
        let done = tokio::select! {
            done = &mut work => done,
            () = tokio::time::sleep(time) => {
                active.abort(AbortReason::Timeout);
                work.await
            }
        };
        done.unwrap_or_else(|_panic| unexpected())
    }
}

impl Inner {
    /// How long a run may take when its message does not say.
    fn longest(&self) -> Duration {
        let store = self.desk.config().ok();
        let config = store.as_ref().map(|store| &store.loaded.config);
        let at = config.and_then(|config| config.at(&["agents", "defaults", "timeoutSeconds"]));
        let seconds = at.and_then(|at| at.node.as_number()).filter(|number| *number > 0.0);
        let written = seconds.and_then(|number| Duration::try_from_secs_f64(number).ok());
        written.map_or(LONGEST, |time| time.min(LONGEST))
    }
}

/// How many runs go on at once.
fn lane_sizes(config: Option<&Config>) -> (usize, usize) {
    let main = config.and_then(|config| config.at(&["agents", "defaults", "maxConcurrent"]));
    let main = main.and_then(|at| at.node.as_number()).filter(|number| *number >= 1.0);
    // Beyond this it is the machine that limits.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "at least 1, and capped"
    )]
    let main = main.map_or(4, |number| number.min(256.0) as usize);
    let below = config.map(clawpen_rules::tools::sessions::SpawnLimits::resolve);
    (main, below.map_or(8, |limits| usize::try_from(limits.at_once).unwrap_or(8)))
}

/// A text for the time.
fn now() -> clawpen_rules::timestamp::Timestamp {
    use crate::clock::{Clock as _, SystemClock};
    SystemClock.now().wall
}

/// The model that a session was set to by hand.
fn model_override(
    store: &Store,
    entry: &crate::session_entries::Entry,
) -> Option<clawpen_rules::models::ModelRef> {
    let text = |key: &str| entry.get(key).and_then(serde_json::Value::as_str);
    let (provider, id) = (text("providerOverride"), text("modelOverride")?);
    match provider {
        Some(provider) => clawpen_rules::models::ModelRef::parse(&format!("{provider}/{id}")),
        None => clawpen_rules::models::named(&store.loaded.config, "modelOverride", id).ok(),
    }
}
