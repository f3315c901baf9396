//! One run of a planned job, as a run of the engine's runner.
//!
//! A job for the main session says something there at once, or queues a line for its next heartbeat. Any other has a session of its own for each run,
//! `agent:<id>:cron:<job>:run:<run>`: penned as any session is that is not the main one. Nobody has sent it: no directive
//! is read, nothing is elevated, and nobody waits to answer an approval.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use clawpen_engine::call::Who;
use clawpen_engine::models::talk::Usage;
use clawpen_engine::random;
use clawpen_engine::runner::{
    AbortReason, Answers, Approvals, Ended, Origin, Queued, Request, StartError, Wishes,
};
use clawpen_engine::session_entries::{Entry, Sessions};
use clawpen_rules::cron::Ran;
use clawpen_rules::directives::Authority;
use clawpen_rules::ids::AgentId;
use clawpen_rules::session::entry::{decide_model, default_model};
use clawpen_rules::system_line::SystemLine;
use serde_json::{Map, Value, json};

use super::Claim;
use super::settle::{self, Outcome};
use crate::journal::Level;
use crate::methods::{agents, sessions};
use crate::runs::SILENCE;
use crate::shared::Shared;

/// How long a turn may take if its job does not say.
const TURN_TIME: Duration = Duration::from_secs(60 * 60);
/// How long the main session's answer is waited for. What takes longer goes on, and other jobs get their turn.
const MAIN_TIME: Duration = Duration::from_secs(120);
/// Nobody waits longer for a run that may take as long as it likes.
const LONGEST: Duration = Duration::from_secs(48 * 60 * 60);
/// Sessions of runs are kept so long, and so many of each job.
const KEPT_MS: u64 = 24 * 60 * 60 * 1000;
const KEPT_RUNS: usize = 100;

/// Why a run did not come to an outcome.
enum Stopped {
    /// The gateway ends; the job was not begun.
    NotBegun,
    Failed(String),
}

/// A run that has begun.
struct Begun {
    /// `None` if the text waits for the next turn of the main session.
    run: Option<String>,
    patience: Duration,
    /// Of a run in a session of its own.
    own: Option<Own>,
}

/// A session of one run.
#[derive(Clone)]
struct Own {
    id: String,
    key: String,
    /// The session that stands for the job: the last run's.
    base: String,
    sessions: Sessions,
}

/// Runs a job and writes down what came of it.
pub(super) async fn carry_out(shared: Arc<Shared>, claim: Claim) {
    let claim = Arc::new(claim);
    let (door, job) = (shared.clone(), claim.clone());
    let begun = tokio::task::spawn_blocking(move || begin(&door, &job)).await;
    let begun = begun.unwrap_or_else(|_panic| Err(Stopped::Failed("internal error".to_owned())));
    let ended = match &begun {
        Ok(Begun { run: Some(run), patience, .. }) => shared.runner.wait(run, *patience).await,
        Ok(Begun { run: None, .. }) | Err(_) => None,
    };
    let (door, job) = (shared.clone(), claim.clone());
    let settled = tokio::task::spawn_blocking(move || {
        let outcome = match begun {
            Err(Stopped::NotBegun) => return settle::release(&job),
            Err(Stopped::Failed(error)) => Outcome::failed(error),
            Ok(begun) => outcome(&job, begun, ended),
        };
        settle::settle(&door, &job, &outcome)
    });
    if let Ok(Err(error)) = settled.await {
        let about = json!({ "job": claim.job.id(), "why": error.message });
        shared.journal.note(Level::Warn, "what came of a planned job is not kept", &about);
    }
    shared.cron.over(claim.job.id());
}

fn begin(shared: &Shared, claim: &Claim) -> Result<Begun, Stopped> {
    let failed = |error: clawpen_wire::gateway::ErrorShape| Stopped::Failed(error.message);
    let sound = shared.sound().map_err(failed)?;
    let payload = claim.job.0.get("payload").unwrap_or(&Value::Null);
    let words = |key: &str| payload[key].as_str().unwrap_or_default().to_owned();
    if claim.job.text("sessionTarget") == "main" {
        let found = sessions::meant(&sound, "main").map_err(failed)?;
        let run = if claim.job.text("wakeMode") == "next-heartbeat" {
            queue(shared, &found.key, &words("text"))?;
            None
        } else {
            Some(start(shared, (claim, &found.key), (words("text"), None))?)
        };
        return Ok(Begun { run, patience: MAIN_TIME, own: None });
    }
    let config = &sound.store.loaded.config;
    let agent = match claim.job.text("agentId") {
        "" => config.default_agent(),
        id => AgentId::normalize(id),
    };
    if !agents::all(&sound).contains(&agent) {
        return Err(Stopped::Failed(format!("there is no agent `{agent}` any more")));
    }
    let default = default_model(config, &agent);
    let model = match payload["model"].as_str() {
        Some(text) => {
            let decided = decide_model(config, default.as_ref(), text);
            let decided = decided.map_err(|why| Stopped::Failed(why.to_string()))?;
            Some(decided).filter(|model| Some(model) != default.as_ref())
        }
        None => None,
    };
    let id = random::uuid();
    let base = format!("agent:{agent}:cron:{}", claim.job.id());
    let found = sessions::meant(&sound, &format!("{base}:run:{id}")).map_err(failed)?;
    let base = sessions::meant(&sound, &base).map_err(failed)?.key;
    let own = Own { id: id.clone(), key: found.key.clone(), base, sessions: found.sessions };
    let mut entry = Map::new();
    entry.insert("sessionId".to_owned(), json!(id));
    entry.insert("label".to_owned(), json!(format!("Cron: {}", claim.job.text("name"))));
    if let Some(model) = model {
        entry.insert("providerOverride".to_owned(), json!(model.provider));
        entry.insert("modelOverride".to_owned(), json!(model.model));
    }
    let made = own.sessions.change(|store| {
        store.insert(own.key.clone(), Value::Object(entry));
        Ok::<_, Infallible>(())
    });
    made.map_err(|error| Stopped::Failed(error.to_string()))?;
    let time = match payload["timeoutSeconds"].as_u64() {
        Some(0) => LONGEST,
        Some(seconds) => Duration::from_secs(seconds).min(LONGEST),
        None => TURN_TIME,
    };
    let run = start(shared, (claim, &own.key), (words("message"), Some(time)))?;
    Ok(Begun { run: Some(run), patience: LONGEST, own: Some(own) })
}

/// Lets a text wait for the session's next turn.
fn queue(shared: &Shared, session: &str, text: &str) -> Result<(), Stopped> {
    let line = SystemLine::of(text, Shared::now());
    let line = line.ok_or_else(|| Stopped::Failed("the text is blank".to_owned()))?;
    match shared.runner.queue_line(session, line) {
        Queued::Yes | Queued::Known => Ok(()),
        Queued::Full => Err(Stopped::Failed("too many lines wait already".to_owned())),
    }
}

fn start(
    shared: &Shared,
    (claim, session): (&Claim, &str),
    (message, timeout): (String, Option<Duration>),
) -> Result<String, Stopped> {
    let name: String =
        claim.job.text("name").chars().filter(|c| !c.is_control()).take(100).collect();
    let request = Request {
        who: Who { session: Some(session.to_owned()), ..Who::default() },
        authority: Authority::Writer,
        answers: Answers::Nobody,
        message: format!("{}\n\nIt is {} now.", message.trim_end(), claim.started),
        attachments: Vec::new(),
        run: None,
        timeout,
        origin: Origin::Session(format!("the planned job \"{name}\"")),
        approvals: Approvals::FollowUp,
        wishes: Wishes::default(),
    };
    match shared.runner.start(request) {
        Ok(started) => Ok(started.run),
        Err(StartError::Closed) => Err(Stopped::NotBegun),
        Err(error @ (StartError::Empty | StartError::ZeroByte | StartError::Session(_))) => {
            Err(Stopped::Failed(error.to_string()))
        }
    }
}

/// What came of a run, as far as it has come.
fn outcome(claim: &Claim, begun: Begun, ended: Option<Ended>) -> Outcome {
    let Begun { own, .. } = begun;
    let is_main = own.is_none();
    let mut outcome = match ended {
        // It was handed over, and goes on by itself.
        None if is_main => Outcome::default(),
        None => Outcome::failed("the run has not ended".to_owned()),
        Some(Ended::Done { text, usage, .. }) => {
            let said = text.trim();
            let summary = (!said.is_empty() && said != SILENCE).then(|| said.to_owned());
            Outcome { summary, usage: Some(took(usage)), ..Outcome::default() }
        }
        Some(Ended::Replied { text }) => Outcome { summary: Some(text), ..Outcome::default() },
        Some(Ended::Failed { error }) => Outcome::failed(error),
        Some(Ended::Aborted { why: AbortReason::Timeout, .. }) => {
            Outcome::failed("the run took too long and was ended".to_owned())
        }
        Some(Ended::Aborted { why: AbortReason::Rpc, .. }) => {
            Outcome::failed("somebody ended the run".to_owned())
        }
        Some(Ended::Aborted { why: AbortReason::Stop, .. }) => Outcome {
            ran: Ran::Unknown,
            ..Outcome::failed("the gateway stopped in the middle of the run".to_owned())
        },
    };
    if is_main {
        let text = claim.job.0.get("payload").and_then(|payload| payload["text"].as_str());
        outcome.summary = text.map(str::to_owned);
        outcome.usage = None;
    }
    if let Some(own) = own {
        outcome.model = keep(&own);
        outcome.session = Some((own.id, own.key));
    }
    outcome
}

fn took(usage: Usage) -> Value {
    let total = usage.input.saturating_add(usage.output);
    json!({
        "input_tokens": usage.input, "output_tokens": usage.output, "total_tokens": total,
    })
}

/// Lets the job's own session show its last run, and drops what is too old. Gives provider and model of the run.
fn keep(own: &Own) -> Option<(String, String)> {
    let now = Shared::now();
    let changed = own.sessions.change(|store| {
        let entry = store.get(&own.key).and_then(Value::as_object).cloned().unwrap_or_default();
        store.insert(own.base.clone(), Value::Object(entry.clone()));
        let prefix = format!("{}:run:", own.base);
        let age = |entry: &Value| entry["updatedAt"].as_u64().unwrap_or_default();
        let mut runs: Vec<(u64, String)> = store
            .iter()
            .filter(|(key, _)| key.starts_with(&prefix) && **key != own.key)
            .map(|(key, entry)| (age(entry), key.clone()))
            .collect();
        runs.sort_unstable_by(|one, other| other.cmp(one));
        let is_old = |updated: u64| now.as_millis().saturating_sub(updated) > KEPT_MS;
        let gone = runs
            .into_iter()
            .enumerate()
            .filter(|(rank, (updated, _))| *rank + 1 >= KEPT_RUNS || is_old(*updated));
        let gone: Vec<Value> = gone.filter_map(|(_, (_, key))| store.shift_remove(&key)).collect();
        Ok::<(Entry, Vec<Value>), Infallible>((entry, gone))
    });
    let (entry, gone) = changed.ok()?;
    for entry in gone {
        // A transcript that stays is untidy and harmless.
        let id = entry["sessionId"].as_str().unwrap_or_default();
        let _ = own.sessions.archive(id, "deleted", now);
    }
    let text = |key: &str| entry.get(key).and_then(Value::as_str).map(str::to_owned);
    Some((text("modelProvider")?, text("model")?))
}
