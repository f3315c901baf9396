//! How runs ended, for whoever waits or asks again.

use std::sync::Arc;
use std::time::Duration;

use clawpen_engine::call::Who;
use clawpen_engine::models::talk::Usage;
use clawpen_engine::runner::{Ended, StartStatus};
use clawpen_wire::gateway::ErrorShape;
use serde_json::{Value, json};

use super::blocking;
use crate::methods::text;
use crate::runs::{self, End, Kind, SILENCE};
use crate::shared::Shared;

/// How long `agent.wait` waits unless it is told.
const WAIT_MS: u64 = 30_000;
/// Nobody waits longer than a run may take.
const LONGEST: Duration = Duration::from_secs(48 * 60 * 60);

/// What `chat.send` answers: a run begins, goes on, or has ended.
pub(super) fn status(shared: &Shared, run: &str, status: StartStatus) -> Result<Value, ErrorShape> {
    match (status, shared.runner.ended(run)) {
        (StartStatus::Started, _) => Ok(json!({ "runId": run, "status": "started" })),
        (StartStatus::Known, None) => Ok(json!({ "runId": run, "status": "in_flight" })),
        (StartStatus::Known, Some(ended)) => match runs::failure(&ended) {
            None => Ok(json!({ "runId": run, "status": "ok" })),
            Some(error) => Err(failed(run, error)),
        },
    }
}

fn failed(run: &str, error: &str) -> ErrorShape {
    let payload = json!({ "runId": run, "status": "error", "summary": error });
    ErrorShape { payload: Some(Box::new(payload)), ..ErrorShape::unavailable(error) }
}

/// Waits for a run's end. A run that nobody knows has not ended.
pub(crate) async fn wait(shared: &Arc<Shared>, params: &Value) -> Result<Value, ErrorShape> {
    let run = text(params, "runId").trim().to_owned();
    let time = params["timeoutMs"].as_u64().unwrap_or(WAIT_MS);
    let time = Duration::from_millis(time).min(LONGEST);
    let asked = tokio::time::Instant::now();
    if let Some(end) = shared.runs.end(&run) {
        return Ok(ended(&run, &end));
    }
    if shared.runner.session_of(&run).is_none() {
        // It may come yet.
        tokio::time::sleep(time).await;
    }
    let _ended = shared.runner.wait(&run, time.saturating_sub(asked.elapsed())).await;
    let end = shared.runs.end(&run);
    Ok(end.map_or_else(|| json!({ "runId": run, "status": "timeout" }), |end| ended(&run, &end)))
}

fn ended(run: &str, end: &End) -> Value {
    let mut answer = json!({ "runId": run, "status": "ok", "endedAt": end.ended_ms });
    // Who chats is told of a failure in an event, and the turn itself has come to its end.
    if end.kind != Kind::Chat {
        if let Some(begun) = end.begun_ms {
            answer["startedAt"] = json!(begun);
        }
        if let Some(error) = &end.error {
            answer["status"] = json!("error");
            answer["error"] = json!(error);
        }
    }
    answer
}

/// Waits for a run to the end; what `agent` answers at last.
pub(super) async fn result(shared: &Arc<Shared>, run: &str) -> Result<Value, ErrorShape> {
    let Some(ended) = shared.runner.wait(run, LONGEST).await else {
        return Err(failed(run, "the run has not ended"));
    };
    let (texts, usage, how) = match ended {
        Ended::Failed { error } => return Err(failed(run, &error)),
        Ended::Done { text, usage, last } => (text, Some((usage, last)), How::Completed),
        Ended::Replied { text } => (text, None, How::Completed),
        Ended::Aborted { text, .. } => (text, None, How::Aborted),
    };
    let (shared, run) = (shared.clone(), run.to_owned());
    blocking(move || {
        let meta = meta(&shared, &run, usage, how);
        let said = texts.trim();
        let payloads: Vec<Value> = Some(json!({ "text": texts, "mediaUrl": null }))
            .filter(|_| !said.is_empty() && said != SILENCE)
            .into_iter()
            .collect();
        Ok(json!({
            "runId": run,
            "status": "ok",
            "summary": how.summary(),
            "result": { "payloads": payloads, "meta": meta },
        }))
    })
    .await
}

/// How a run that did not fail came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    Completed,
    Aborted,
}

impl How {
    const fn summary(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Aborted => "aborted",
        }
    }

    const fn stop_reason(self) -> &'static str {
        match self {
            Self::Completed => "stop",
            Self::Aborted => "aborted",
        }
    }
}

/// What a run took, and by which model.
fn meta(shared: &Shared, run: &str, usage: Option<(Usage, Usage)>, how: How) -> Value {
    let session = shared.runner.session_of(run);
    let place = shared.runner.place(&Who { session, ..Who::default() }).ok();
    let entry = place.and_then(|place| place.entry().ok()).unwrap_or_default();
    let end = shared.runs.end(run);
    let took = end.and_then(|end| Some(end.ended_ms.saturating_sub(end.begun_ms?)));
    let mut agent = json!({
        "sessionId": entry.get("sessionId"),
        "provider": entry.get("modelProvider"),
        "model": entry.get("model"),
    });
    if let Some((all, last)) = usage {
        let sum = |usage: Usage| usage.input.saturating_add(usage.output);
        agent["usage"] = json!({ "input": all.input, "output": all.output, "total": sum(all) });
        agent["lastCallUsage"] = json!({
            "input": last.input, "output": last.output, "cacheRead": last.cache_read,
            "cacheWrite": last.cache_write, "total": last.total(),
        });
        agent["promptTokens"] =
            json!(last.input.saturating_add(last.cache_read).saturating_add(last.cache_write));
    }
    let mut meta = json!({
        "durationMs": took.unwrap_or_default(),
        "agentMeta": agent,
        "aborted": how == How::Aborted,
        "stopReason": how.stop_reason(),
    });
    if let Some(report) = entry.get("systemPromptReport") {
        meta["systemPromptReport"] = report.clone();
    }
    meta
}
