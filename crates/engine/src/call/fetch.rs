//! `web_fetch`: the one tool that acts outside the sandbox by itself. Policy has let it through by the time it is here.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use clawpen_rules::timestamp::Timestamp;
use clawpen_rules::tools::BuiltTool;
use clawpen_rules::tools::arguments::{FetchCall, parse_fetch};
use clawpen_rules::web::limits::{self, Limits};
use clawpen_rules::web::target;
use serde_json::{Value, json};
use tokio::net::unix::pipe::Receiver;

use super::desk::{ToolRequest, Turn};
use super::failure::ToolCallError;
use super::stop::Stop;
use super::{Tally, record};
use crate::audit::{Reason, Verdict};
use crate::tools::{Answer, json as arguments};
use crate::web::{self, FetchError, Fetched};

const NAME: &str = BuiltTool::WebFetch.as_str();

pub(super) fn run(turn: &Turn<'_>, request: &ToolRequest<'_>) -> Result<Answer, ToolCallError> {
    let call = match parse_fetch(&arguments::arguments(request.arguments)) {
        Ok(call) => call,
        Err(bad) => {
            let error = ToolCallError::Arguments(bad);
            turn.stopped(NAME, &error)?;
            return Err(error);
        }
    };
    let limits = limits::resolve(turn.config());
    let key = (turn.owner(), call.clone());
    let begun = Instant::now();
    if let Some(page) = turn.pages.get(&key, limits.kept) {
        note(turn, &page, (begun, "from what was fetched before"))?;
        return Ok(answer(&call, &page, Origin::Kept));
    }
    // What is not recorded is not asked for.
    if let Ok(target) = target::decide(&call.url) {
        let reason = format!("asks `{}`", target.host_text());
        let elapsed = super::desk::since(begun, Tally::default());
        record::beside(turn.yard, turn.prepared, &turn.about(NAME), (&reason, elapsed))?;
    }
    match fetch(&call, &limits, request.stop) {
        Ok(page) => {
            note(turn, &page, (begun, "fetched"))?;
            let answer = answer(&call, &page, Origin::Fresh);
            if !limits.kept.is_zero() {
                turn.pages.put(key, page);
            }
            Ok(answer)
        }
        Err(error) => {
            let verdict = if error.is_refusal() { Verdict::Refused } else { Verdict::Failed };
            let reason = Reason::new(&error.for_record());
            record::stopped(turn.yard, turn.prepared, &turn.about(NAME), (verdict, reason))?;
            Err(match error {
                FetchError::Stopped => ToolCallError::Cancelled,
                error => ToolCallError::Fetch(error),
            })
        }
    }
}

/// Waits for a page on this thread. What may still be looking a name up is left behind.
fn fetch(call: &FetchCall, limits: &Limits, stop: &Stop) -> Result<Fetched, FetchError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(FetchError::Runtime)?;
    let done = runtime.block_on(web::fetch(call, limits, pulled(stop)));
    runtime.shutdown_background();
    done
}

/// Comes to its end when nobody waits for the answer any more.
async fn pulled(stop: &Stop) {
    let line = stop.as_fd().try_clone_to_owned().and_then(Receiver::from_owned_fd);
    let Ok(line) = line else {
        // Then the page's own time limit ends it.
        return std::future::pending().await;
    };
    let _readable = line.readable().await;
}

/// A record at the end: the host, never the rest of the address.
fn note(
    turn: &Turn<'_>,
    page: &Fetched,
    (begun, how): (Instant, &str),
) -> Result<(), ToolCallError> {
    let tally = Tally { bytes_out: page.text.len() as u64, ..Tally::default() };
    let reason = format!("{how}: `{}`", page.host);
    let elapsed = super::desk::since(begun, tally);
    record::beside(turn.yard, turn.prepared, &turn.about(NAME), (&reason, elapsed))?;
    Ok(())
}

/// Where a page comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    Fresh,
    Kept,
}

fn answer(call: &FetchCall, page: &Fetched, origin: Origin) -> Answer {
    let Fetched {
        url,
        final_url,
        host: _,
        status,
        content_type,
        title,
        extractor,
        text,
        length,
        whole_length,
        is_cut,
        warning,
        took,
    } = page;
    let mut details = json!({
        "url": url,
        "finalUrl": final_url,
        "status": status,
        "contentType": content_type,
        "title": title,
        "extractMode": call.mode.as_str(),
        "extractor": extractor,
        "externalContent": { "untrusted": true, "source": NAME, "wrapped": true },
        "truncated": is_cut,
        "length": length,
        "rawLength": whole_length,
        "wrappedLength": text.chars().count(),
        "fetchedAt": now().to_string(),
        "tookMs": u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        "text": text,
        "warning": warning,
    });
    if let Value::Object(members) = &mut details {
        members.retain(|_, value| !value.is_null());
        if origin == Origin::Kept {
            members.insert("cached".to_owned(), Value::Bool(true));
        }
    }
    let mut shown = vec![text.clone()];
    if *is_cut {
        shown.push(format!(
            "[Showing {length} of {whole_length} characters. For more, call again with a larger maxChars.]"
        ));
    }
    shown.extend(warning.iter().map(|warning| format!("[Incomplete: {warning}.]")));
    Answer::text(shown.join("\n"), details)
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
