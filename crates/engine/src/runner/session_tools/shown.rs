//! What is shown of sessions, in the reference's shapes: lists, histories, how one stands, sub-agents and agents.
//!
//! A model reads the same as a program, except for what names places of the host.

use clawpen_rules::session::Session;
use clawpen_rules::session::key::{ChatType, SessionKey};
use clawpen_rules::tools::sessions as rules;
use serde_json::{Map, Value, json};

use super::{Asker, Kinship, Known, NotTold, Reach, Reader, Told, failed, nobody, refused, word};
use crate::runner::directives::status_text;
use crate::runner::events::AbortReason;
use crate::runner::{entry, now};
use crate::session_entries::{Entry, MessageKind};

/// Messages of each session that a list shows at most.
const MOST_SHOWN: u64 = 20;
/// Characters of one text of a history, and bytes of all of it.
const MOST_CHARACTERS: usize = 4_000;
const MOST_BYTES: usize = 80 * 1024;
/// How far back ended sub-agents are shown, unless the call says.
const RECENT_MINUTES: u64 = 30;
/// Characters of a sub-agent's task, and of new directions for it.
const TASK: usize = 72;
const DIRECTIONS: usize = 4_000;

/// What a list says of a session besides what is worked out.
const COPIED: &[&str] = &[
    "label",
    "displayName",
    "updatedAt",
    "sessionId",
    "model",
    "contextTokens",
    "totalTokens",
    "estimatedCostUsd",
    "status",
    "startedAt",
    "endedAt",
    "runtimeMs",
    "thinkingLevel",
    "fastMode",
    "verboseLevel",
    "reasoningLevel",
    "elevatedLevel",
    "responseUsage",
    "systemSent",
    "abortedLastRun",
    "sendPolicy",
    "lastTo",
    "lastAccountId",
    "spawnedBy",
    "parentSessionKey",
];

/// A history as it is shown, and what was left out of it.
struct Fitted {
    messages: Vec<Value>,
    is_cut: bool,
    is_dropped: bool,
    bytes: usize,
}

impl Asker<'_> {
    pub(super) fn list(&self, arguments: &Value) -> Result<Value, NotTold> {
        let known = self.known()?;
        let limit = arguments["limit"].as_u64().unwrap_or(50).clamp(1, 200);
        let shown = arguments["messageLimit"].as_u64().unwrap_or_default().min(MOST_SHOWN);
        let kinds: Vec<&str> =
            arguments["kinds"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let since = arguments["activeMinutes"]
            .as_u64()
            .map(|minutes| now().as_millis().saturating_sub(minutes.saturating_mul(60_000)));
        let updated =
            |entry: &Entry| entry.get("updatedAt").and_then(Value::as_u64).unwrap_or_default();
        let mut rows = Vec::new();
        for (key, (_, entry)) in &known {
            if self.reach(&known, key)? != Reach::Open
                || since.is_some_and(|since| updated(entry) < since)
            {
                continue;
            }
            let row = self.row(&known, (key, entry))?;
            if kinds.is_empty() || kinds.iter().any(|kind| row["kind"] == **kind) {
                rows.push((updated(entry), key, row));
            }
        }
        rows.sort_by_key(|(updated, ..)| std::cmp::Reverse(*updated));
        rows.truncate(usize::try_from(limit).unwrap_or(200));
        let mut sessions = Vec::new();
        for (_, key, mut row) in rows {
            if shown > 0 {
                let messages = self.messages_of(&known, key)?.into_iter().filter(is_spoken);
                let mut messages = fit(messages.collect()).messages;
                let from = messages.len().saturating_sub(usize::try_from(shown).unwrap_or(20));
                row["messages"] = Value::Array(messages.split_off(from));
            }
            sessions.push(row);
        }
        Ok(json!({ "count": sessions.len(), "sessions": sessions }))
    }

    fn row(&self, known: &Known, (key, entry): (&str, &Entry)) -> Result<Value, NotTold> {
        let session =
            self.inner.desk.look(self.who, |view| Session::resolve(&view.store.loaded.config, key));
        let session = session.map_err(refused)?;
        let kind = kind(&session);
        let text = |field: &str| entry.get(field).and_then(Value::as_str);
        let part = |field: &str, name: &str| entry.get(field)?.get(name)?.as_str();
        let last = part("deliveryContext", "channel").or_else(|| text("lastChannel"));
        let channel = match kind {
            "cron" | "hook" | "node" => Some("internal"),
            _ => text("channel").or_else(|| part("origin", "provider")).or(last),
        };
        let mut row = Map::new();
        row.insert("key".to_owned(), json!(key));
        row.insert("kind".to_owned(), json!(kind));
        row.insert("channel".to_owned(), json!(channel.unwrap_or("unknown")));
        if let Some(provider) = part("origin", "provider") {
            row.insert("origin".to_owned(), json!({ "provider": provider }));
        }
        if let Some(context) = entry.get("deliveryContext").filter(|context| context.is_object()) {
            row.insert("deliveryContext".to_owned(), context.clone());
        }
        for field in COPIED {
            if let Some(value) = entry.get(*field).filter(|value| !value.is_null()) {
                row.insert((*field).to_owned(), value.clone());
            }
        }
        if let Some(last) = last {
            row.insert("lastChannel".to_owned(), json!(last));
        }
        let is_child = |entry: &Entry| entry.get("spawnedBy").and_then(Value::as_str) == Some(key);
        let children = known.iter().filter(|(_, (_, entry))| is_child(entry));
        let children: Vec<&String> = children.map(|(key, _)| key).collect();
        if !children.is_empty() {
            row.insert("childSessions".to_owned(), json!(children));
        }
        if let (Reader::Program, Some(id)) = (self.reader, entry::session_id(entry)) {
            let place = self.runner().place(&nobody(key, self.who)).map_err(refused)?;
            if let Some(path) = place.sessions.transcript(id) {
                row.insert("transcriptPath".to_owned(), json!(path.to_string_lossy()));
            }
        }
        Ok(Value::Object(row))
    }

    pub(super) fn history(&self, arguments: &Value) -> Result<Value, NotTold> {
        let known = self.known()?;
        let key = self.meant(&known, word(arguments, "sessionKey")?)?;
        let limit = arguments["limit"].as_u64().unwrap_or(200).clamp(1, 1000);
        let with_tools = arguments["includeTools"] == true;
        let mut messages = self.messages_of(&known, &key)?;
        let from = messages.len().saturating_sub(usize::try_from(limit).unwrap_or(1000));
        messages.drain(..from);
        messages.retain(|message| with_tools || is_spoken(message));
        let Fitted { messages, is_cut, is_dropped, bytes } = fit(messages);
        Ok(json!({
            "sessionKey": key,
            "messages": messages,
            "truncated": is_cut || is_dropped,
            "droppedMessages": is_dropped,
            "contentTruncated": is_cut,
            // Nothing is taken out of a text because of what it says.
            "contentRedacted": false,
            "bytes": bytes,
        }))
    }

    /// A session by key, by label, or by a word for this one.
    fn meant(&self, known: &Known, named: &str) -> Result<String, NotTold> {
        let named = match named {
            "current" => self.place.key.clone(),
            "main" => {
                let session = self.inner.desk.look(self.who, |view| {
                    let config = &view.store.loaded.config;
                    Session::of_agent(config, "main", self.place.agent.clone())
                });
                session.map_err(refused)?.store_key().as_str().to_owned()
            }
            other => other.to_owned(),
        };
        // A session in which nothing was said yet has no entry, and is still itself.
        if named == self.place.key { Ok(named) } else { self.target(known, &named) }
    }

    fn messages_of(&self, known: &Known, key: &str) -> Result<Vec<Value>, NotTold> {
        let Some((_, found)) = known.get(key) else { return Ok(Vec::new()) };
        let Some(id) = entry::session_id(found) else { return Ok(Vec::new()) };
        let place = self.runner().place(&nobody(key, self.who)).map_err(refused)?;
        let messages = place.sessions.messages(id).map_err(failed)?;
        let said = messages.into_iter().filter(|message| message.kind == MessageKind::Said);
        Ok(said.map(|message| Value::Object(message.body)).collect())
    }

    pub(super) fn session_status(&self, arguments: &Value) -> Result<Told, NotTold> {
        if arguments["model"].as_str().is_some_and(|model| !model.trim().is_empty()) {
            let what = "`model` is not set by this tool; `sessions.patch` sets a session's model";
            return Err(NotTold::Arguments(what.to_owned()));
        }
        let named = arguments["sessionKey"].as_str().map(str::trim).filter(|key| !key.is_empty());
        let key = match named {
            None => self.place.key.clone(),
            Some(named) => self.meant(&self.known()?, named)?,
        };
        let status = if key == self.place.key {
            self.inner.status(self.who, self.place)
        } else {
            let who = nobody(&key, self.who);
            let place = self.runner().place(&who).map_err(refused)?;
            self.inner.status(&who, &place)
        };
        let text = status_text(&status.map_err(NotTold::Failed)?);
        let details = json!({
            "ok": true, "sessionKey": key, "changedModel": false, "statusText": text,
        });
        Ok(Told { text: Some(text), details })
    }

    pub(super) fn agents(&self) -> Result<Value, NotTold> {
        let own = &self.place.agent;
        let found =
            self.inner.desk.look(self.who, |view| rules::startable(&view.store.loaded.config, own));
        let (agents, is_any) = found.map_err(refused)?;
        let shown = |agent: rules::Startable| {
            let mut row = json!({ "id": agent.id.as_str(), "configured": agent.is_configured });
            if let Some(name) = agent.name {
                row["name"] = json!(name);
            }
            row
        };
        let agents: Vec<Value> = agents.into_iter().map(shown).collect();
        Ok(json!({ "requester": own.as_str(), "allowAny": is_any, "agents": agents }))
    }

    pub(super) fn subagents(&self, arguments: &Value) -> Result<Value, NotTold> {
        let known = self.known()?;
        let below: Vec<&String> =
            known.keys().filter(|key| self.kinship(&known, key) == Kinship::Descendant).collect();
        match arguments["action"].as_str().map_or("list", str::trim) {
            "list" => self.list_below(&known, &below, &arguments["recentMinutes"]),
            "kill" => self.kill_below(&known, &below, word(arguments, "target")?),
            "steer" => {
                let named = word(arguments, "target")?;
                let message = word(arguments, "message")?;
                if message.chars().count() > DIRECTIONS {
                    let what = format!("`message` is longer than {DIRECTIONS} characters");
                    return Err(NotTold::Arguments(what));
                }
                let key = self.descendant(&known, named)?;
                self.runner().abort(&key, None, AbortReason::Stop);
                let run = self.tell(&key, message)?;
                self.inner.hand_back(&run, &key, named, self.back());
                Ok(json!({
                    "status": "accepted", "action": "steer", "target": named, "runId": run,
                    "sessionKey": key, "sessionId": field(&known, &key, "sessionId"),
                    "mode": "restart", "label": label(&known, &key),
                    "text": format!("{} has new directions", label(&known, &key)),
                }))
            }
            other => {
                let what = format!("`{other}` is no action; use list, kill or steer");
                Err(NotTold::Arguments(what))
            }
        }
    }

    fn kill_below(&self, known: &Known, below: &[&String], named: &str) -> Result<Value, NotTold> {
        let end = |key: &str| self.runner().abort(key, None, AbortReason::Stop);
        if matches!(named, "all" | "*") {
            let ended: Vec<&String> =
                below.iter().copied().filter(|key| !end(key).is_empty()).collect();
            let labels: Vec<String> = ended.iter().map(|key| label(known, key)).collect();
            let text = format!("ended {} sub-agents", labels.len());
            return Ok(json!({
                "status": "ok", "action": "kill", "target": "all", "killed": labels.len(),
                "labels": labels, "text": text,
            }));
        }
        let key = self.descendant(known, named)?;
        let runs = end(&key);
        let (status, text) = match runs.first() {
            Some(_) => ("ok", "is ended"),
            None => ("done", "was not at work"),
        };
        Ok(json!({
            "status": status, "action": "kill", "target": named, "runId": runs.first(),
            "sessionKey": key, "label": label(known, &key),
            "text": format!("{} {text}", label(known, &key)),
        }))
    }

    fn list_below(
        &self,
        known: &Known,
        below: &[&String],
        minutes: &Value,
    ) -> Result<Value, NotTold> {
        let minutes = minutes.as_u64().unwrap_or(RECENT_MINUTES).clamp(1, 24 * 60);
        let since = now().as_millis().saturating_sub(minutes * 60_000);
        let (mut active, mut recent) = (Vec::new(), Vec::new());
        for key in below {
            let row = self.below(known, key)?;
            if row["status"] == "running" {
                active.push(row);
            } else if row["endedAt"].as_u64().is_some_and(|ended| ended >= since) {
                recent.push(row);
            }
        }
        for (index, row) in active.iter_mut().chain(&mut recent).enumerate() {
            row["index"] = json!(index + 1);
        }
        let line = |row: &Value| {
            let word = |name: &str| row[name].as_str().unwrap_or_default();
            format!("{}. {} ({}) {}", row["index"], word("label"), word("runtime"), word("status"))
        };
        let lines: Vec<String> = active.iter().chain(&recent).map(line).collect();
        let text = if lines.is_empty() { "no sub-agents".to_owned() } else { lines.join("\n") };
        Ok(json!({
            "status": "ok",
            "action": "list",
            "requesterSessionKey": self.place.key,
            "callerSessionKey": self.place.key,
            "callerIsSubagent": self.place.is_sub_agent,
            "total": below.len(),
            "active": active,
            "recent": recent,
            "text": text,
        }))
    }

    /// A sub-agent, as a list shows it.
    fn below(&self, known: &Known, key: &str) -> Result<Value, NotTold> {
        let number = |name: &str| field(known, key, name).and_then(|value| value.as_u64());
        let runs = self.runner().active(key);
        let started = number("startedAt").unwrap_or_default();
        let so_far = || now().as_millis().saturating_sub(started);
        let is_active = !runs.is_empty();
        let took = if is_active { so_far() } else { number("runtimeMs").unwrap_or_default() };
        let status = field(known, key, "status");
        let status = status.as_ref().and_then(Value::as_str).unwrap_or("done");
        let messages = self.messages_of(known, key)?;
        let task = messages.iter().find(|message| message["role"] == "user").map(said);
        let task: String = task.unwrap_or_default().chars().take(TASK).collect();
        let mut row = json!({
            "sessionKey": key,
            "label": label(known, key),
            "task": task,
            "status": if is_active { "running" } else { status },
            "pendingDescendants": 0,
            "runtime": format!("{}s", took / 1000),
            "runtimeMs": took,
            "startedAt": started,
        });
        if let Some(run) = runs.first() {
            row["runId"] = json!(run);
        }
        for name in ["model", "totalTokens"] {
            if let Some(value) = field(known, key, name) {
                row[name] = value;
            }
        }
        if let Some(ended) = number("endedAt").filter(|_| !is_active) {
            row["endedAt"] = json!(ended);
        }
        Ok(row)
    }
}

/// What kind of session it is, in the reference's words.
fn kind(session: &Session) -> &'static str {
    let key = session.store_key();
    let rest = key.split().map_or_else(|| key.as_str().to_owned(), |parts| parts.rest);
    if session.canonical_key() == Some(session.main_key()) || rest == "main" {
        "main"
    } else if rest.starts_with("cron:") {
        "cron"
    } else if rest.starts_with("hook:") {
        "hook"
    } else if rest.starts_with("node-") || rest.starts_with("node:") {
        "node"
    } else {
        match SessionKey::chat_type(&key) {
            ChatType::Group | ChatType::Channel => "group",
            ChatType::Direct | ChatType::Unknown => "other",
        }
    }
}

fn field(known: &Known, key: &str, name: &str) -> Option<Value> {
    known.get(key)?.1.get(name).cloned()
}

fn label(known: &Known, key: &str) -> String {
    let label = field(known, key, "label").and_then(|label| label.as_str().map(str::to_owned));
    label.unwrap_or_else(|| "sub-agent".to_owned())
}

/// Not what a tool gave.
fn is_spoken(message: &Value) -> bool {
    !matches!(message["role"].as_str(), Some("toolResult" | "tool"))
}

/// The first text of a message, on one line.
fn said(message: &Value) -> String {
    let text = match &message["content"] {
        Value::String(text) => text.as_str(),
        Value::Array(blocks) => {
            blocks.iter().find_map(|block| block["text"].as_str()).unwrap_or_default()
        }
        _ => "",
    };
    // What tells where it comes from stands on a line of its own.
    let text = text.split_once("]\n").filter(|_| text.starts_with('[')).map_or(text, |(_, it)| it);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Messages without what is for accounts and screens, with long texts cut, and no more of the oldest than fit.
fn fit(messages: Vec<Value>) -> Fitted {
    let mut is_cut = false;
    let count = messages.len();
    let mut kept = Vec::new();
    let mut bytes = 2;
    for mut message in messages.into_iter().rev() {
        for part in ["details", "usage", "cost"] {
            let gone = message.as_object_mut().and_then(|message| message.remove(part));
            is_cut |= gone.is_some();
        }
        match &mut message["content"] {
            Value::String(text) => is_cut |= shorten(text),
            Value::Array(blocks) => {
                for block in blocks {
                    is_cut |= cut_block(block);
                }
            }
            _ => {}
        }
        let size = message.to_string().len() + 1;
        if bytes + size > MOST_BYTES {
            break;
        }
        bytes += size;
        kept.push(message);
    }
    kept.reverse();
    let is_dropped = kept.len() < count;
    if kept.is_empty() && is_dropped {
        kept.push(
            json!({ "role": "assistant", "content": "[left out: the message is too large]" }),
        );
    }
    Fitted { messages: kept, is_cut, is_dropped, bytes }
}

fn cut_block(block: &mut Value) -> bool {
    let Some(block) = block.as_object_mut() else { return false };
    let mut is_cut = false;
    for part in ["text", "thinking", "partialJson"] {
        if let Some(Value::String(text)) = block.get_mut(part) {
            is_cut |= shorten(text);
        }
    }
    is_cut |= block.remove("thinkingSignature").is_some();
    if block.get("type").and_then(Value::as_str) == Some("image") {
        let data = block.remove("data");
        if let Some(data) = data.as_ref().and_then(Value::as_str) {
            block.insert("bytes".to_owned(), json!(data.len()));
        }
        is_cut |= data.is_some();
        block.insert("omitted".to_owned(), json!(true));
    }
    is_cut
}

fn shorten(text: &mut String) -> bool {
    let Some((end, _)) = text.char_indices().nth(MOST_CHARACTERS) else { return false };
    text.truncate(end);
    text.push_str("\n[cut here]");
    true
}

#[cfg(test)]
mod tests {
    use clawpen_rules::config::Config;

    use super::*;

    #[test]
    fn a_history_is_cut_to_what_fits_and_shows_no_images() {
        let long = "ä".repeat(MOST_CHARACTERS + 1);
        let fitted = fit(vec![
            json!({ "role": "user", "content": "hi" }),
            json!({ "role": "assistant", "usage": { "input": 1 }, "content": [
                { "type": "text", "text": long },
                { "type": "image", "data": "aGk=" },
                { "type": "thinking", "thinking": "t", "thinkingSignature": "s" }] }),
        ]);
        assert!(fitted.is_cut && !fitted.is_dropped);
        let expected = json!([
            { "role": "user", "content": "hi" },
            { "role": "assistant", "content": [
                { "type": "text", "text": format!("{}\n[cut here]", "ä".repeat(MOST_CHARACTERS)) },
                { "type": "image", "bytes": 4, "omitted": true },
                { "type": "thinking", "thinking": "t" }] },
        ]);
        assert_eq!(Value::Array(fitted.messages), expected);
        let many = vec![json!({ "role": "user", "content": "x".repeat(3_000) }); 60];
        let fitted = fit(many);
        assert!(fitted.is_dropped && fitted.bytes <= MOST_BYTES);
        assert_eq!(fitted.messages.len(), 27);
        let huge = json!({ "role": "user", "odd": "x".repeat(MOST_BYTES) });
        let fitted = fit(vec![huge]);
        assert_eq!((fitted.messages.len(), fitted.is_dropped), (1, true));
    }

    #[test]
    fn sessions_are_of_the_references_kinds() {
        for (key, expected) in [
            ("main", "main"),
            ("agent:bot:main", "main"),
            ("agent:main:cron:j:run:1", "cron"),
            ("agent:main:hook:x", "hook"),
            ("agent:main:node-1", "node"),
            ("agent:main:telegram:group:1", "group"),
            ("agent:main:subagent:x", "other"),
        ] {
            let session = Session::resolve(&Config::empty(), key);
            assert_eq!(kind(&session), expected, "{key}");
        }
    }
}
