//! One event of a run, turned into frames.

use std::time::{Duration, Instant};

use clawpen_engine::approvals_file::now_ms;
use clawpen_engine::models::talk::{Part, Success};
use clawpen_engine::runner::{AbortReason, Ended, RunEvent, What};
use clawpen_rules::heartbeat::{self, Meaning};
use serde_json::{Value, json};

use super::{Kind, SILENCE, State, Talk};
use crate::hub::Slow;
use crate::methods::sessions;
use crate::shared::Shared;

/// The text so far is told at most so often.
const PAUSE: Duration = Duration::from_millis(150);

/// Tells one event. What a run tells after its end is told nobody.
pub(super) fn event(shared: &Shared, state: &mut State, event: &RunEvent) {
    let talk = state.talks.entry(event.run.clone()).or_insert_with(|| Talk::new(&event.session));
    if talk.end.is_some() {
        if matches!(event.what, What::Ended(_)) {
            changed(shared, &event.session, ("end", &event.run));
        }
        return;
    }
    talk.seq = event.seq;
    match &event.what {
        What::Started => {
            talk.begun_ms = Some(event.at_ms);
            let data = json!({ "phase": "start", "startedAt": event.at_ms });
            agent(shared, event, "lifecycle", &data);
            changed(shared, &event.session, ("start", &event.run));
        }
        What::Text(delta) => {
            talk.message.push_str(delta);
            talk.all.push_str(delta);
            if talk.is_beat() {
                return;
            }
            let data = json!({ "text": talk.message, "delta": delta });
            agent(shared, event, "assistant", &data);
            if talk.told_at.is_none_or(|at| at.elapsed() >= PAUSE) {
                flush(shared, talk, (&event.run, event.seq));
            }
        }
        // Only for who turned it on, which nobody can yet.
        What::Thinking(_) => {}
        What::ToolStarted { call, tool, arguments } => {
            flush(shared, talk, (&event.run, event.seq));
            talk.message.clear();
            let data =
                json!({ "phase": "start", "name": tool, "toolCallId": call, "args": arguments });
            about_tool(shared, talk, event, data);
        }
        What::ToolOutput { .. } | What::ToolEnded { .. } => tool(shared, talk, event),
        What::Compacting => agent(shared, event, "compaction", &json!({ "phase": "start" })),
        What::Compacted { success } => {
            let is_done = *success == Success::Yes;
            let data = json!({ "phase": "end", "willRetry": false, "completed": is_done });
            agent(shared, event, "compaction", &data);
        }
        What::Ended(ended) => end(shared, state, event, ended),
    }
}

/// Tells the end of a run, and notes it.
fn end(shared: &Shared, state: &mut State, event: &RunEvent, ended: &Ended) {
    let Some(talk) = state.talks.get_mut(&event.run) else { return };
    let at = (event.run.as_str(), event.seq);
    let has_begun = talk.begun_ms.is_some();
    let over = json!({ "phase": "end", "endedAt": event.at_ms });
    match ended {
        Ended::Done { .. } => {
            agent(shared, event, "lifecycle", &over);
            flush(shared, talk, at);
            done(shared, talk, at);
        }
        Ended::Replied { text } => {
            if has_begun {
                agent(shared, event, "lifecycle", &over);
            }
            chat(shared, talk, at, ("final", Some(sessions::injected(text))));
        }
        Ended::Failed { error } => {
            if has_begun {
                let data = json!({ "phase": "error", "error": error, "endedAt": event.at_ms });
                agent(shared, event, "lifecycle", &data);
            }
            let payload = json!({
                "runId": at.0, "sessionKey": talk.spelled, "seq": at.1, "state": "error",
                "errorMessage": error,
            });
            spread(shared, talk, &payload);
        }
        Ended::Aborted { why, .. } => aborted(shared, talk, at, *why),
    }
    state.note_end(&event.run, super::failure(ended).map(str::to_owned));
    shared.health.forget();
    if has_begun {
        changed(shared, &event.session, ("end", &event.run));
    }
}

/// Tells the last word of a run. A heartbeat that has nothing to say says nothing.
fn done(shared: &Shared, talk: &Talk, at: (&str, u64)) {
    let said = match talk.kind {
        Kind::Heartbeat { ack_characters } => {
            match heartbeat::decide_answer(&talk.all, ack_characters) {
                Meaning::Empty | Meaning::Ack => return,
                Meaning::News(text) => Some(message(&text)),
            }
        }
        Kind::Chat | Kind::Agent => {
            let text = talk.all.trim();
            (!text.is_empty() && text != SILENCE).then(|| message(&talk.all))
        }
    };
    chat(shared, talk, at, ("final", said));
}

/// Tells that a run was ended by a client, before it has come to its end.
pub(super) fn aborted_now(shared: &Shared, state: &mut State, run: &str) {
    let Some(talk) = state.talks.get(run) else { return };
    if talk.end.is_some() {
        return;
    }
    // The number that comes next, as far as is known here.
    let seq = talk.seq.saturating_add(1);
    aborted(shared, talk, (run, seq), AbortReason::Rpc);
    state.note_end(run, None);
}

fn aborted(shared: &Shared, talk: &Talk, (run, seq): (&str, u64), why: AbortReason) {
    let mut payload = json!({
        "runId": run, "sessionKey": talk.spelled, "seq": seq, "state": "aborted",
        "stopReason": why.as_str(),
    });
    if !talk.all.trim().is_empty() {
        payload["message"] = message(&talk.all);
    }
    spread(shared, talk, &payload);
}

/// Tells the text so far, if there is more of it than was told.
fn flush(shared: &Shared, talk: &mut Talk, (run, seq): (&str, u64)) {
    if talk.told >= talk.all.len() || talk.is_beat() {
        return;
    }
    let piece = talk.all.get(talk.told_newer..).unwrap_or_default().to_owned();
    talk.told = talk.all.len();
    talk.told_at = Some(Instant::now());
    // A model may be about to say that it says nothing.
    if SILENCE.starts_with(talk.all.trim()) {
        return;
    }
    let payload = json!({
        "runId": run, "sessionKey": talk.spelled, "seq": seq, "state": "delta",
        "message": message(&talk.all),
    });
    talk.told_newer = talk.all.len();
    let more = json!({ "deltaText": piece, "agentId": agent_of(&talk.session) });
    shared.hub.broadcast_more("chat", &payload, more, Slow::Drop);
}

/// Whose session it is.
fn agent_of(session: &str) -> &str {
    session.split(':').nth(1).unwrap_or("main")
}

/// Tells of a run; the newer protocol names its agent, too.
fn spread(shared: &Shared, talk: &Talk, payload: &Value) {
    let more = json!({ "agentId": agent_of(&talk.session) });
    shared.hub.broadcast_more("chat", payload, more, Slow::Close);
}

fn chat(
    shared: &Shared,
    talk: &Talk,
    (run, seq): (&str, u64),
    (state, message): (&str, Option<Value>),
) {
    let mut payload =
        json!({ "runId": run, "sessionKey": talk.spelled, "seq": seq, "state": state });
    if let Some(message) = message {
        payload["message"] = message;
    }
    spread(shared, talk, &payload);
}

fn message(text: &str) -> Value {
    json!({ "role": "assistant", "content": [{ "type": "text", "text": text }], "timestamp": now_ms() })
}

fn agent(shared: &Shared, event: &RunEvent, stream: &str, data: &Value) {
    shared.hub.broadcast("agent", &payload(event, stream, data), Slow::Close);
}

fn payload(event: &RunEvent, stream: &str, data: &Value) -> Value {
    json!({
        "runId": event.run, "stream": stream, "data": data, "sessionKey": event.session,
        "seq": event.seq, "ts": event.at_ms,
    })
}

/// What a command writes, and what came of a call.
fn tool(shared: &Shared, talk: &Talk, event: &RunEvent) {
    let data = match &event.what {
        What::ToolOutput { call, tool, tail, details } => json!({
            "phase": "update", "name": tool, "toolCallId": call,
            "partialResult": {
                "content": [{ "type": "text", "text": tail }], "details": details,
            },
        }),
        What::ToolEnded { call, tool, label, success, content, details } => {
            let mut data = json!({
                "phase": "result", "name": tool, "toolCallId": call,
                "isError": *success == Success::No,
                "result": { "content": blocks(content), "details": told(details) },
            });
            if let Some(label) = label {
                data["meta"] = json!(label);
            }
            data
        }
        What::Started
        | What::Text(_)
        | What::Thinking(_)
        | What::ToolStarted { .. }
        | What::Compacting
        | What::Compacted { .. }
        | What::Ended(_) => return,
    };
    about_tool(shared, talk, event, data);
}

/// The details of a call as clients of the reference know them: of a command that has ended, how and where.
fn told(details: &Value) -> Value {
    let mut details = details.clone();
    let Some(members) = details.as_object_mut() else { return details };
    if members.contains_key("exitCode") {
        for key in ["host", "approvalId"] {
            members.remove(key);
        }
        if members.get("truncated") == Some(&json!(false)) {
            members.remove("truncated");
        }
        let all = members.get("aggregated").and_then(Value::as_str).map(str::trim_end);
        let all = all.map(str::to_owned);
        members.extend(all.map(|all| ("aggregated".to_owned(), json!(all))));
    }
    details
}

fn blocks(content: &[Part]) -> Value {
    let block = |part: &Part| match part {
        Part::Text(text) => json!({ "type": "text", "text": text }),
        Part::Image { mime_type, data } => {
            json!({ "type": "image", "mimeType": mime_type, "data": data })
        }
    };
    content.iter().map(block).collect()
}

/// Tells of a tool: those who asked for it and want to know, and those who follow sessions. Results are for sessions
/// that are set to show them.
fn about_tool(shared: &Shared, talk: &Talk, event: &RunEvent, mut data: Value) {
    if talk.watchers.is_empty() && !shared.hub.has_followers() {
        return;
    }
    let (row, shows_all) = sessions::shown(shared, &event.session);
    if !shows_all && let Some(data) = data.as_object_mut() {
        data.remove("result");
        data.remove("partialResult");
    }
    let mut payload = payload(event, "tool", &data);
    sessions::add_row(&mut payload, row);
    for connection in &talk.watchers {
        shared.hub.send(connection, "agent", &payload);
    }
    shared.hub.tell("session.tool", &event.session, &payload);
}

/// Tells those who follow sessions that a run begins or ends.
fn changed(shared: &Shared, session: &str, (phase, run): (&str, &str)) {
    if !shared.hub.has_followers() {
        shared.hub.note_news(session);
        return;
    }
    let mut payload =
        json!({ "sessionKey": session, "phase": phase, "runId": run, "ts": now_ms() });
    sessions::add_row(&mut payload, sessions::shown(shared, session).0);
    shared.hub.tell("sessions.changed", session, &payload);
}

/// Tells those who follow sessions of a message that waits for its turn. It has a number and no id yet; one that begins a
/// session is told when it is kept.
pub(super) fn taken(shared: &Shared, session: &str, text: &str) {
    if !shared.hub.has_followers() {
        return;
    }
    let (row, _) = sessions::shown(shared, session);
    if !row.is_object() {
        return;
    }
    let seq = sessions::count(shared, session).saturating_add(1);
    let mut payload = json!({
        "sessionKey": session,
        "message": {
            "role": "user", "content": text, "timestamp": now_ms(), "__openclaw": { "seq": seq },
        },
        "messageSeq": seq,
    });
    sessions::add_row(&mut payload, row.clone());
    shared.hub.tell("session.message", session, &payload);
    let mut payload = json!({
        "sessionKey": session, "phase": "message", "ts": now_ms(), "messageSeq": seq,
    });
    sessions::add_row(&mut payload, row);
    shared.hub.tell("sessions.changed", session, &payload);
}

/// Tells those who follow sessions of a message that was kept.
pub(super) fn kept(shared: &Shared, session: &str, (id, message): (&str, &Value)) {
    if !shared.hub.has_followers() {
        shared.hub.note_news(session);
        return;
    }
    let seq = sessions::count(shared, session);
    let (row, _) = sessions::shown(shared, session);
    let mut payload = json!({
        "sessionKey": session,
        "message": sessions::displayed(message, (id, seq)),
        "messageId": id,
        "messageSeq": seq,
    });
    sessions::add_row(&mut payload, row.clone());
    shared.hub.tell("session.message", session, &payload);
    let mut payload = json!({
        "sessionKey": session, "phase": "message", "ts": now_ms(), "messageId": id,
        "messageSeq": seq,
    });
    sessions::add_row(&mut payload, row);
    shared.hub.tell("sessions.changed", session, &payload);
}
