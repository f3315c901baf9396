//! What is written down, and told, when a run of a planned job has ended.

use std::convert::Infallible;

use clawpen_engine::cron_store::Job;
use clawpen_rules::cron::{self, Ran, Run, Then};
use clawpen_rules::timestamp::Timestamp;
use clawpen_wire::gateway::ErrorShape;
use serde_json::{Map, Value, json};

use super::{Claim, tell};
use crate::journal::Level;
use crate::shared::{Shared, unavailable};

/// How much of an answer or of an error is kept.
const LONGEST_TEXT: usize = 2000;

/// What came of a run.
pub(super) struct Outcome {
    pub(super) ran: Ran,
    pub(super) error: Option<String>,
    pub(super) summary: Option<String>,
    /// The id and the key of the session it ran in, if it had one of its own.
    pub(super) session: Option<(String, String)>,
    /// Provider, model and what it took.
    pub(super) model: Option<(String, String)>,
    pub(super) usage: Option<Value>,
}

impl Default for Outcome {
    fn default() -> Self {
        let (error, summary, session) = (None, None, None);
        Self { ran: Ran::Well, error, summary, session, model: None, usage: None }
    }
}

impl Outcome {
    pub(super) fn failed(error: String) -> Self {
        Self { ran: Ran::Badly, error: Some(error), ..Self::default() }
    }

    const fn status(&self) -> &'static str {
        match self.ran {
            Ran::Well => "ok",
            Ran::Badly | Ran::Unknown => "error",
        }
    }

    /// Nothing is delivered anywhere: there are no channels here. What happens in the main session is said there.
    fn delivery(&self, job: &Job) -> &'static str {
        match (job.text("sessionTarget"), self.ran) {
            ("main", _) => "not-requested",
            (_, Ran::Well) => "not-delivered",
            (_, Ran::Badly | Ran::Unknown) => "unknown",
        }
    }

    fn is_delivered(&self, job: &Job) -> Option<Value> {
        (self.delivery(job) == "not-delivered").then_some(json!(false))
    }
}

fn short(text: &str) -> String {
    text.trim().chars().take(LONGEST_TEXT).collect()
}

/// Writes down what came of a run and what becomes of the job; tells it.
pub(super) fn settle(shared: &Shared, claim: &Claim, outcome: &Outcome) -> Result<(), ErrorShape> {
    let ended = Shared::now();
    let id = claim.job.id();
    let settled = claim.store.change(|jobs| {
        let place = jobs.iter().position(|job| job.id() == id);
        let Some(place) = place else { return Ok::<_, Infallible>((None, Then::Off)) };
        let Some(job) = jobs.get_mut(place) else { return Ok((None, Then::Off)) };
        let then = note(job, claim, (outcome, ended));
        if then == Then::Remove {
            jobs.remove(place);
        }
        Ok((Some(place), then))
    });
    let (was_there, then) = settled.map_err(|error| unavailable(&error))?;
    let event = finished(claim, outcome, (ended, then));
    let mut line = json!({ "ts": ended.as_millis(), "jobId": id, "action": "finished" });
    for (key, value) in event.as_object().into_iter().flatten() {
        line[key] = value.clone();
    }
    if let Err(error) = claim.store.log().add(id, &line) {
        let about = json!({ "job": id, "why": error.to_string() });
        shared.journal.note(Level::Warn, "a run of a planned job is not in its log", &about);
    }
    tell(shared, id, "finished", event);
    if was_there.is_some() && then == Then::Remove {
        tell(shared, id, "removed", json!({}));
    }
    Ok(())
}

/// Notes a run in its job; says what becomes of it.
fn note(job: &mut Job, claim: &Claim, (outcome, ended): (&Outcome, Timestamp)) -> Then {
    let failures = match outcome.ran {
        Ran::Well => 0,
        Ran::Badly | Ran::Unknown => job.failures().saturating_add(1),
    };
    let run = Run {
        ran: outcome.ran,
        asked: claim.asked,
        started: claim.started,
        ended,
        failures,
        planned: job.next_run(),
    };
    let then = match job.schedule(&claim.zone) {
        Ok(schedule) => cron::decide(&schedule, job.id(), &run, job.deletes()),
        // It was run by hand; by itself it never will.
        Err(_) => Then::Off,
    };
    let took = ended.as_millis().saturating_sub(claim.started.as_millis());
    let (status, delivery) = (outcome.status(), outcome.delivery(job));
    let delivered = outcome.is_delivered(job);
    job.note("runningAtMs", None);
    job.note("lastRunAtMs", Some(json!(claim.started.as_millis())));
    job.note("lastRunStatus", Some(json!(status)));
    job.note("lastStatus", Some(json!(status)));
    job.note("lastDurationMs", Some(json!(took)));
    job.note("lastError", outcome.error.as_deref().map(|error| json!(short(error))));
    job.note("lastDelivered", delivered);
    job.note("lastDeliveryStatus", Some(json!(delivery)));
    job.note("consecutiveErrors", Some(json!(failures)));
    match then {
        // Somebody may have switched it off while it ran.
        Then::Again(next) => job.plan(job.is_enabled().then_some(next)),
        Then::Off | Then::Remove => {
            job.plan(None);
            job.0.insert("enabled".to_owned(), json!(false));
        }
    }
    job.0.insert("updatedAtMs".to_owned(), json!(ended.as_millis()));
    then
}

/// What the event `cron` and the log say of a run.
fn finished(claim: &Claim, outcome: &Outcome, (ended, then): (Timestamp, Then)) -> Value {
    let mut event = Map::new();
    let mut set = |key: &str, value: Option<Value>| {
        event.extend(value.map(|value| (key.to_owned(), value)));
    };
    set("status", Some(json!(outcome.status())));
    set("error", outcome.error.as_deref().map(|error| json!(short(error))));
    set("summary", outcome.summary.as_deref().map(|text| json!(short(text))));
    set("delivered", outcome.is_delivered(&claim.job));
    set("deliveryStatus", Some(json!(outcome.delivery(&claim.job))));
    if let Some((id, key)) = &outcome.session {
        set("sessionId", Some(json!(id)));
        set("sessionKey", Some(json!(key)));
    }
    let took = ended.as_millis().saturating_sub(claim.started.as_millis());
    set("runAtMs", Some(json!(claim.started.as_millis())));
    set("durationMs", Some(json!(took)));
    if let Then::Again(next) = then {
        set("nextRunAtMs", Some(json!(next.as_millis())));
    }
    if let Some((provider, model)) = &outcome.model {
        set("model", Some(json!(model)));
        set("provider", Some(json!(provider)));
    }
    set("usage", outcome.usage.clone());
    Value::Object(event)
}

/// Takes back that a job runs: it did not begin.
pub(super) fn release(claim: &Claim) -> Result<(), ErrorShape> {
    let released = claim.store.change(|jobs| {
        if let Some(job) = jobs.iter_mut().find(|job| job.id() == claim.job.id()) {
            job.note("runningAtMs", None);
        }
        Ok::<_, Infallible>(())
    });
    released.map_err(|error| unavailable(&error))
}
