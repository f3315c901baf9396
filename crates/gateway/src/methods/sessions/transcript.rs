//! What was said in a session: the whole of it, or a glance.

use clawpen_engine::approvals_file::now_ms;
use clawpen_engine::session_entries::{Compacted, Message, MessageKind};
use clawpen_rules::chat_message;
use clawpen_wire::gateway::ErrorShape;
use serde_json::{Map, Value, json};

use super::{change_error, meant, tell};
use crate::methods::text;
use crate::shared::{Shared, unavailable};

const HISTORY_DEFAULT: u64 = 200;
/// More is not refused but cut: pages ask for thousands.
const HISTORY_MOST: u64 = 1000;
const MAX_TEXT: usize = 12_000;
const MAX_MESSAGE: usize = 128 * 1024;
const MAX_HISTORY: usize = 6 * 1024 * 1024;
const PREVIEW_KEYS: usize = 64;
const COMPACT_LINES: u64 = 400;

/// The messages of a session, the newest ones that fit.
pub(crate) fn history(shared: &Shared, params: &Value) -> Result<Value, ErrorShape> {
    let sound = shared.sound()?;
    let key = text(params, "sessionKey");
    let found = meant(&sound, key)?;
    let entry = found.entry()?.unwrap_or_default();
    let id = entry.get("sessionId").and_then(Value::as_str);
    let messages = match id {
        Some(id) => found.sessions.messages(id).map_err(|error| unavailable(&error))?,
        None => Vec::new(),
    };
    let limit = params["limit"].as_u64().unwrap_or(HISTORY_DEFAULT).min(HISTORY_MOST);
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let numbered = messages.iter().enumerate();
    let mut shown: Vec<Value> = numbered
        .filter(|(_, message)| !says_nothing(message))
        .map(|(index, message)| display(message, index + 1))
        .collect();
    for message in &mut shown {
        if let Some(cost) = message.pointer_mut("/usage/cost").filter(|cost| cost.is_object()) {
            *cost = json!({ "total": cost["total"] });
        }
    }
    shown.drain(..shown.len().saturating_sub(limit));
    let mut size: usize = shown.iter().map(|message| message.to_string().len()).sum();
    while size > MAX_HISTORY && !shown.is_empty() {
        size -= shown.remove(0).to_string().len();
    }
    let mut answer = json!({ "sessionKey": key });
    if let Some(id) = id {
        answer["sessionId"] = json!(id);
    }
    answer["messages"] = json!(shown);
    answer["thinkingLevel"] = entry.get("thinkingLevel").cloned().unwrap_or(json!("off"));
    for key in ["fastMode", "verboseLevel"] {
        if let Some(value) = entry.get(key) {
            answer[key] = value.clone();
        }
    }
    Ok(answer)
}

/// A part of a history, read backwards.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Page {
    pub(crate) limit: usize,
    /// Only what came before this one.
    pub(crate) before: Option<usize>,
}

/// A part of what was said in a session; `None` if there is no such session.
pub(crate) fn page(shared: &Shared, key: &str, page: Page) -> Result<Option<Value>, ErrorShape> {
    let sound = shared.sound()?;
    let found = meant(&sound, key)?;
    let Some(entry) = found.entry()? else { return Ok(None) };
    let id = entry.get("sessionId").and_then(Value::as_str).unwrap_or_default();
    let messages = found.sessions.messages(id).map_err(|error| unavailable(&error))?;
    let end =
        page.before.map_or(messages.len(), |before| before.saturating_sub(1).min(messages.len()));
    let start = end.saturating_sub(page.limit);
    let numbered = messages.iter().enumerate().skip(start).take(end - start);
    let shown: Vec<Value> = numbered.map(|(index, one)| display(one, index + 1)).collect();
    let mut answer = json!({
        "sessionKey": found.key,
        "items": shown,
        "messages": shown,
        "hasMore": start > 0,
    });
    if start > 0 {
        answer["nextCursor"] = json!((start + 1).to_string());
    }
    Ok(Some(answer))
}

/// The messages of a session as they are stored.
pub(crate) fn messages(shared: &Shared, params: &Value) -> Result<Value, ErrorShape> {
    let sound = shared.sound()?;
    let found = meant(&sound, text(params, "key"))?;
    let entry = found.entry()?.unwrap_or_default();
    let id = entry.get("sessionId").and_then(Value::as_str).unwrap_or_default();
    let all = found.sessions.messages(id).map_err(|error| unavailable(&error))?;
    let limit = params["limit"].as_u64().unwrap_or(HISTORY_DEFAULT).min(HISTORY_MOST);
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let left_out = all.len().saturating_sub(limit);
    let shown = all.into_iter().enumerate().skip(left_out).map(|(index, one)| {
        let mark = mark(&one, index + 1);
        let mut body = one.body;
        body.insert("__openclaw".into(), mark);
        Value::Object(body)
    });
    Ok(json!({ "messages": shown.collect::<Vec<_>>() }))
}

/// Leaves only the end of a transcript; the whole of it is kept beside.
pub(crate) fn compact(shared: &Shared, params: &Value) -> Result<Value, ErrorShape> {
    let sound = shared.sound()?;
    let found = meant(&sound, text(params, "key"))?;
    let entry = found.entry()?.unwrap_or_default();
    let Some(id) = entry.get("sessionId").and_then(Value::as_str) else {
        let key = &found.key;
        return Ok(json!({ "ok": true, "key": key, "compacted": false, "reason": "no sessionId" }));
    };
    let keep = params["maxLines"].as_u64().unwrap_or(COMPACT_LINES);
    let keep = usize::try_from(keep).unwrap_or(usize::MAX);
    let done =
        found.sessions.compact(id, keep, Shared::now()).map_err(|error| unavailable(&error))?;
    let mut answer = json!({ "ok": true, "key": found.key, "compacted": false });
    match done {
        Compacted::NoTranscript => answer["reason"] = json!("no transcript"),
        Compacted::ShortEnough { kept } => answer["kept"] = json!(kept),
        Compacted::Cut { whole, kept } => {
            // What was counted is no longer there.
            let uncounted = found.sessions.change(|store| {
                if let Some(Value::Object(entry)) = store.get_mut(&found.key) {
                    for key in ["inputTokens", "outputTokens", "totalTokens", "totalTokensFresh"] {
                        entry.remove(key);
                    }
                    entry.insert("updatedAt".into(), json!(now_ms()));
                }
                Ok(())
            });
            uncounted.map_err(change_error)?;
            tell(shared, &sound, &found, "compact");
            answer["compacted"] = json!(true);
            answer["archived"] = json!(whole.to_string_lossy());
            answer["kept"] = json!(kept);
        }
    }
    Ok(answer)
}

/// A message that was just kept, as clients see it.
pub(crate) fn displayed(message: &Value, (id, seq): (&str, usize)) -> Value {
    let body = message.as_object().cloned().unwrap_or_default();
    let (id, kind) = (id.to_owned(), MessageKind::Said);
    display(&Message { id, body, written: None, kind }, seq)
}

/// Where a message stands, beside what it says.
fn mark(message: &Message, seq: usize) -> Value {
    match message.kind {
        MessageKind::Said => json!({ "id": message.id, "seq": seq }),
        MessageKind::Compaction => {
            json!({ "kind": "compaction", "id": message.id, "seq": seq })
        }
    }
}

/// Says whether a model answered with the word that stands for no answer.
fn says_nothing(message: &Message) -> bool {
    message.body.get("role").and_then(Value::as_str) == Some("assistant")
        && words(message).is_some_and(|words| chat_message::is_silent(&words))
}

/// Frees a message of a person of the head that the reference puts before it.
fn without_head(body: &mut Map<String, Value>) {
    if body.get("role").and_then(Value::as_str) != Some("user") {
        return;
    }
    let text = match body.get_mut("content") {
        Some(Value::String(text)) => Some(text),
        Some(Value::Array(blocks)) => {
            blocks.iter_mut().find_map(|block| match &mut block["text"] {
                Value::String(text) => Some(text),
                _ => None,
            })
        }
        _ => None,
    };
    let Some(text) = text else { return };
    let (label, rest) = chat_message::split_head(text);
    *text = rest.to_owned();
    if let Some(label) = label {
        body.insert("senderLabel".into(), json!(label));
    }
}

/// A message as clients see it: without the details of tools and the bytes of images, long texts cut.
fn display(message: &Message, seq: usize) -> Value {
    let mut body = message.body.clone();
    body.remove("details");
    if body.get("role").and_then(Value::as_str) != Some("assistant") {
        body.remove("usage");
        body.remove("cost");
    }
    without_head(&mut body);
    match body.get_mut("content") {
        Some(Value::String(text)) => *text = shortened(&chat_message::without_signs(text)),
        Some(Value::Array(blocks)) => blocks.iter_mut().for_each(display_block),
        _ => {}
    }
    body.insert("__openclaw".into(), mark(message, seq));
    let shown = Value::Object(body);
    if shown.to_string().len() <= MAX_MESSAGE {
        return shown;
    }
    json!({
        "role": shown["role"],
        "timestamp": shown["timestamp"],
        "content": [{ "type": "text", "text": "[this message is too large to show]" }],
        "__openclaw": { "truncated": true, "reason": "oversized" },
    })
}

fn display_block(block: &mut Value) {
    let Value::Object(block) = block else { return };
    if let Some(Value::String(text)) = block.get_mut("text") {
        *text = shortened(&chat_message::without_signs(text));
    }
    for key in ["thinking", "arguments", "partialJson"] {
        if let Some(Value::String(text)) = block.get_mut(key) {
            *text = shortened(text);
        }
    }
    block.remove("thinkingSignature");
    let is_image = block.get("type").and_then(Value::as_str) == Some("image");
    if let Some(data) = block.get("data").and_then(Value::as_str).filter(|_| is_image) {
        let bytes = data.len();
        block.remove("data");
        block.insert("omitted".into(), json!(true));
        block.insert("bytes".into(), json!(bytes));
    }
}

/// A text as histories show it: the start of a long one, and that it goes on.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_TEXT) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}\n...(truncated)...", text.get(..end).unwrap_or_default()),
    }
}

pub(super) fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let kept: String = text.chars().take(most.saturating_sub(3)).collect();
    kept + "..."
}

/// The last few messages of several sessions.
pub(crate) fn preview(shared: &Shared, params: &Value) -> Result<Value, ErrorShape> {
    let sound = shared.sound()?;
    let number = |key: &str, default: u64, most: u64| {
        let wanted = params[key].as_u64().unwrap_or(default).min(most);
        usize::try_from(wanted).unwrap_or(usize::MAX)
    };
    let (limit, chars) = (number("limit", 12, 50), number("maxChars", 240, 2000));
    let keys = params["keys"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let mut previews = Vec::new();
    let keys = keys.map(str::trim).filter(|key| !key.is_empty());
    for key in keys.take(PREVIEW_KEYS) {
        let found = meant(&sound, key)?;
        let entry = found.entry()?;
        let id = entry.as_ref().and_then(|entry| entry.get("sessionId")).and_then(Value::as_str);
        let read = id.map(|id| found.sessions.messages(id)).transpose();
        let (status, items) = match (id.is_some(), read) {
            (false, _) => ("missing", Vec::new()),
            (true, Err(_)) => ("error", Vec::new()),
            (true, Ok(messages)) => {
                let mut items: Vec<Value> = messages
                    .unwrap_or_default()
                    .iter()
                    .filter(|message| message.kind == MessageKind::Said)
                    .filter_map(|message| glance(message, chars))
                    .collect();
                items.drain(..items.len().saturating_sub(limit));
                (if items.is_empty() { "empty" } else { "ok" }, items)
            }
        };
        previews.push(json!({ "key": key, "status": status, "items": items }));
    }
    Ok(json!({ "ts": now_ms(), "previews": previews }))
}

/// One line of a preview; `None` if the message says nothing.
fn glance(message: &Message, chars: usize) -> Option<Value> {
    let role = message.body.get("role").and_then(Value::as_str).unwrap_or_default();
    let blocks = message.body.get("content");
    let is_call = |block: &Value| block["type"] == "toolCall";
    let has_call = blocks.and_then(Value::as_array).is_some_and(|list| list.iter().any(is_call));
    let role = match role {
        "assistant" if has_call => "tool",
        "toolResult" | "tool" => "tool",
        "user" | "assistant" | "system" => role,
        _ => "other",
    };
    words(message).map(|text| json!({ "role": role, "text": cut(&text, chars) }))
}

/// What a message says in words; `None` if it says nothing.
pub(super) fn words(message: &Message) -> Option<String> {
    let mut body = message.body.clone();
    without_head(&mut body);
    let text = match body.get("content") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(list)) => {
            let texts: Vec<&str> = list.iter().filter_map(|block| block["text"].as_str()).collect();
            texts.join("\n")
        }
        _ => String::new(),
    };
    let text = chat_message::without_signs(&text);
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}
