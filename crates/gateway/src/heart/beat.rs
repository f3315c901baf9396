//! One beat, as a run of the engine's runner.
//!
//! It speaks in the agent's main session, or where its `heartbeat` says, and is sandboxed as that session is. Nobody has
//! sent it: no directive is read, nothing is elevated, and nobody waits to answer an approval. The workspace is the
//! agent's, so `HEARTBEAT.md` is read as any file that somebody hostile may have put there.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clawpen_engine::agents::files;
use clawpen_engine::call::Who;
use clawpen_engine::config_file::Sound;
use clawpen_engine::cron_store::local_zone;
use clawpen_engine::random;
use clawpen_engine::runner::{
    AbortReason, Answers, Approvals, Ended, Origin, Request, StartError, Wishes,
};
use clawpen_rules::directives::Authority;
use clawpen_rules::heartbeat::{
    self, Cause, FoundFile, Heartbeat, Hours, HoursZone, Meaning, Moment, Skip, Talk, Verdict,
};
use clawpen_rules::ids::AgentId;
use clawpen_rules::models;
use clawpen_wire::gateway::ErrorShape;
use serde_json::{Map, Value, json};

use super::{main_key, tell};
use crate::methods::sessions::{self, Meant};
use crate::shared::Shared;

/// Nobody waits longer for a run than it may take.
const LONGEST: Duration = Duration::from_secs(48 * 60 * 60);
/// So much of an answer is shown beside the event.
const PREVIEW: usize = 200;

/// A beat that has begun.
struct Begun {
    run: String,
    ack_characters: usize,
}

/// Why a beat did not begin, or came to nothing.
enum Stopped {
    Skipped(Skip),
    Failed(String),
    /// The gateway ends.
    Closed,
}

/// Carries out one beat and tells what became of it.
pub(super) async fn carry_out(shared: Arc<Shared>, agent: AgentId, cause: Cause) {
    let begun_at = Instant::now();
    let (door, id) = (shared.clone(), agent.clone());
    let begun = tokio::task::spawn_blocking(move || begin(&door, &id, cause)).await;
    let begun = begun.unwrap_or_else(|_panic| Err(Stopped::Failed("internal error".to_owned())));
    let done = match begun {
        Ok(begun) => {
            let ended = shared.runner.wait(&begun.run, LONGEST).await;
            outcome(ended, begun.ack_characters)
        }
        Err(stopped) => Err(stopped),
    };
    let took = u64::try_from(begun_at.elapsed().as_millis()).unwrap_or(u64::MAX);
    let quiet = || {
        json!({ "reason": cause.as_str(), "durationMs": took, "silent": true,
                "indicatorType": "ok" })
    };
    match done {
        Ok(Meaning::Empty) => tell(&shared, "ok-empty", quiet()),
        Ok(Meaning::Ack) => tell(&shared, "ok-token", quiet()),
        Ok(Meaning::News(text)) => {
            let preview: String = text.chars().take(PREVIEW).collect();
            let more = json!({ "reason": cause.as_str(), "durationMs": took, "preview": preview,
                               "hasMedia": false, "indicatorType": "alert" });
            tell(&shared, "sent", more);
        }
        Err(Stopped::Skipped(why)) => {
            tell(&shared, "skipped", json!({ "reason": why.as_str(), "durationMs": took }));
        }
        Err(Stopped::Failed(why)) => {
            let more = json!({ "reason": why, "durationMs": took, "indicatorType": "error" });
            tell(&shared, "failed", more);
        }
        Err(Stopped::Closed) => {}
    }
    shared.heart.over(&agent);
}

/// Begins a beat, if nothing speaks against it.
fn begin(shared: &Shared, agent: &AgentId, cause: Cause) -> Result<Begun, Stopped> {
    let sound = shared.sound().map_err(failed)?;
    let config = &sound.store.loaded.config;
    let heartbeat = Heartbeat::of(config, agent);
    let main = sessions::meant(&sound, &main_key(agent)).map_err(failed)?;
    let place = place(&sound, agent, &heartbeat)?;
    let workspace = sound.store.locations.agent_workspace(config, agent).value;
    let read = files::read(Path::new(&workspace), heartbeat::FILE);
    let moment = Moment {
        cause,
        switch: shared.heart.switch(),
        minute: minute(shared, &heartbeat.hours),
        runs: shared.runner.active(&place.key).len(),
        lines: waiting(shared, [&main.key, &place.key]),
        file: match &read {
            Ok(None) => FoundFile::Missing,
            Ok(Some(found)) => FoundFile::Text(&found.content),
            Err(_) => FoundFile::Unread,
        },
    };
    match heartbeat::decide(&heartbeat, &moment) {
        Verdict::Beat => {}
        Verdict::Skip(why) => return Err(Stopped::Skipped(why)),
    }
    let model = heartbeat.model.as_deref();
    let model = model.map(|text| models::named(config, "heartbeat.model", text)).transpose();
    let model = model.map_err(|why| Stopped::Failed(why.to_string()))?;
    if heartbeat.talk == Talk::Own {
        renew(&place)?;
    }
    // What waits for the main session goes wherever its agent is asked.
    shared.runner.move_lines(&main.key, &place.key);
    let wishes = Wishes { model, ..Wishes::default() };
    let run = start(shared, &heartbeat, (&place.key, wishes))?;
    Ok(Begun { run, ack_characters: heartbeat.ack_characters })
}

/// How many lines wait for any of these sessions.
fn waiting(shared: &Shared, sessions: [&str; 2]) -> usize {
    let sessions = BTreeSet::from(sessions);
    sessions.into_iter().map(|session| shared.runner.queued_lines(session).len()).sum()
}

fn failed(error: ErrorShape) -> Stopped {
    Stopped::Failed(error.message)
}

/// The session in which an agent is asked: one of its own.
fn place(sound: &Sound, agent: &AgentId, heartbeat: &Heartbeat) -> Result<Meant, Stopped> {
    let key = match heartbeat.session.as_deref() {
        None => main_key(agent),
        Some(key) if key.starts_with("agent:") => key.to_owned(),
        Some(name) => format!("agent:{agent}:{name}"),
    };
    let key = match heartbeat.talk {
        Talk::Shared => key,
        Talk::Own => format!("{key}:heartbeat"),
    };
    let found = sessions::meant(sound, &key).map_err(failed)?;
    if found.session.agent() == agent {
        return Ok(found);
    }
    let why = format!("`heartbeat.session` names a session of another agent: `{key}`");
    Err(Stopped::Failed(why))
}

/// What the clocks show where the hours count.
fn minute(shared: &Shared, hours: &Hours) -> Option<u16> {
    let now = Shared::now();
    match hours.zone()? {
        HoursZone::Named(zone) => zone.minute_of_day(now),
        HoursZone::Local => local_zone(shared.around.variable("TZ")).minute_of_day(now),
    }
}

/// Begins a new talk in a session; the old one is put aside.
fn renew(place: &Meant) -> Result<(), Stopped> {
    let changed = place.sessions.change(|store| {
        let mut entry = Map::new();
        let old = store.get(&place.key);
        // What was set for the session holds for its next talk too: it may be what keeps it in.
        for key in sessions::KEPT {
            let kept = old.and_then(|old| old.get(*key));
            entry.extend(kept.map(|value| ((*key).to_owned(), value.clone())));
        }
        entry.insert("sessionId".to_owned(), json!(random::uuid()));
        entry.insert("label".to_owned(), json!("Heartbeat"));
        Ok::<_, Infallible>(store.insert(place.key.clone(), Value::Object(entry)))
    });
    let old = changed.map_err(|error| Stopped::Failed(error.to_string()))?;
    if let Some(id) = old.as_ref().and_then(|old| old["sessionId"].as_str()) {
        // A transcript that stays is untidy and harmless.
        let _ = place.sessions.archive(id, "reset", Shared::now());
    }
    Ok(())
}

fn start(
    shared: &Shared,
    heartbeat: &Heartbeat,
    (session, wishes): (&str, Wishes),
) -> Result<String, Stopped> {
    let run = random::uuid();
    let request = Request {
        who: Who { session: Some(session.to_owned()), ..Who::default() },
        authority: Authority::Writer,
        answers: Answers::Nobody,
        message: format!("{}\n\nIt is {} now.", heartbeat.prompt, Shared::now()),
        attachments: Vec::new(),
        run: Some(run.clone()),
        timeout: heartbeat.timeout,
        origin: Origin::Heartbeat(heartbeat.context),
        approvals: Approvals::FollowUp,
        wishes,
    };
    shared.runs.begin_beat(&run, session, heartbeat.ack_characters);
    match shared.runner.start(request) {
        Ok(_) => Ok(run),
        Err(error) => {
            shared.runs.forget(&run);
            Err(match error {
                StartError::Closed => Stopped::Closed,
                error @ (StartError::Empty | StartError::ZeroByte | StartError::Session(_)) => {
                    Stopped::Failed(error.to_string())
                }
            })
        }
    }
}

fn outcome(ended: Option<Ended>, ack_characters: usize) -> Result<Meaning, Stopped> {
    let failed = |why: &str| Err(Stopped::Failed(why.to_owned()));
    match ended {
        None => failed("the run has not ended"),
        Some(Ended::Done { text, .. } | Ended::Replied { text }) => {
            Ok(heartbeat::decide_answer(&text, ack_characters))
        }
        Some(Ended::Failed { error }) => Err(Stopped::Failed(error)),
        Some(Ended::Aborted { why: AbortReason::Timeout, .. }) => {
            failed("it took too long and was ended")
        }
        Some(Ended::Aborted { why: AbortReason::Rpc, .. }) => failed("somebody ended it"),
        Some(Ended::Aborted { why: AbortReason::Stop, .. }) => Err(Stopped::Closed),
    }
}
