//! The tools about sessions: what an agent sees of others, what it starts, and what it tells them.
//!
//! A sub-agent runs in a session of its own, in a sandbox of its scope, under the policy of sub-agents, and nobody speaks
//! for it: it has no sender, so nothing lets it out. Its result comes back as a message to whoever started it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use clawpen_rules::directives::Authority;
use clawpen_rules::ids::AgentId;
use clawpen_rules::models;
use clawpen_rules::session::key::SessionKey;
use clawpen_rules::tools::sessions::{self as rules, Kinship, Reach, Reached, SessionTool};
use serde_json::{Value, json};

use super::directives::Answers;
use super::events::{AbortReason, Ended};
use super::run::Run;
use super::tools::ANSWER_WAIT;
use super::{Approvals, Inner, Origin, Request, Runner, entry, now};
use crate::call::Who;
use crate::error_text::chain;
use crate::models::talk::Part;
use crate::random;
use crate::session_entries::{Entry, MessageKind, Sessions};

/// Generations that are followed to find an ancestor.
const MOST_GENERATIONS: usize = 16;
/// The longest wait for another session.
const LONGEST_WAIT: u64 = 600;
/// Characters of a sub-agent's result that are handed back.
const RESULT: usize = 20_000;

/// Every session of the agents that there are.
type Known = BTreeMap<String, (AgentId, Entry)>;

impl Run<'_> {
    /// Carries out a tool about sessions; gives what the model sees, or why not.
    pub(super) fn about_sessions(
        &self,
        tool: SessionTool,
        arguments: &Value,
    ) -> Result<Value, String> {
        match tool {
            SessionTool::List => self.list(arguments),
            SessionTool::History => self.history(arguments),
            SessionTool::Send => self.send(arguments),
            SessionTool::Spawn => self.spawn(arguments),
            SessionTool::Status => self.session_status(arguments),
            SessionTool::Subagents => self.subagents(arguments),
        }
    }

    fn runner(&self) -> Runner {
        Runner(Arc::clone(self.inner))
    }

    /// This session, for what comes back to it.
    fn back(&self) -> (Who, Approvals) {
        (nobody(&self.place.key, &self.request.who), self.request.approvals)
    }

    fn known(&self) -> Result<Known, String> {
        let stores = self.inner.desk.look(&self.request.who, |view| {
            let config = &view.store.loaded.config;
            let mut agents: Vec<AgentId> = config.agents().into_iter().map(|(id, _)| id).collect();
            agents.push(self.place.agent.clone());
            agents.sort_unstable_by(|a, b| a.as_str().cmp(b.as_str()));
            agents.dedup();
            let path = |agent: &AgentId| view.store.locations.session_store(config, agent);
            agents.iter().map(|agent| (agent.clone(), path(agent))).collect::<Vec<_>>()
        });
        let mut known = Known::new();
        for (agent, path) in stores.map_err(|error| error.for_model())? {
            let entries = Sessions::at(&path).read().map_err(|error| chain(&error))?;
            known.extend(entries.into_iter().map(|(key, entry)| (key, (agent.clone(), entry))));
        }
        Ok(known)
    }

    fn kinship(&self, known: &Known, key: &str) -> Kinship {
        if key == self.place.key {
            return Kinship::Itself;
        }
        let mut at = key.to_owned();
        for _ in 0..MOST_GENERATIONS {
            let parent = known.get(&at).and_then(|(_, entry)| entry.get("spawnedBy"));
            match parent.and_then(Value::as_str) {
                Some(parent) if parent == self.place.key => return Kinship::Descendant,
                Some(parent) => at = parent.to_owned(),
                None => break,
            }
        }
        Kinship::Stranger
    }

    fn reach(&self, known: &Known, key: &str) -> Result<Reach, String> {
        let Some((agent, _)) = known.get(key) else {
            return Ok(Reach::Closed("there is no such session"));
        };
        let other = Reached { agent, kinship: self.kinship(known, key) };
        let decided = self.inner.desk.look(&self.request.who, |view| {
            rules::decide(&view.store.loaded.config, &self.place.agent, other)
        });
        decided.map_err(|error| error.for_model())
    }

    /// A session by key or label, if it may be reached.
    fn target(&self, known: &Known, named: &str) -> Result<String, String> {
        let by_label = || {
            let is_it = |entry: &Entry| entry.get("label").and_then(Value::as_str) == Some(named);
            known.iter().find(|(_, (_, entry))| is_it(entry)).map(|(key, _)| key.clone())
        };
        let key = if known.contains_key(named) { Some(named.to_owned()) } else { by_label() };
        let key = key.ok_or_else(|| format!("there is no session `{named}`"))?;
        match self.reach(known, &key)? {
            Reach::Open => Ok(key),
            Reach::Closed(why) => {
                Err(format!("the session `{named}` is closed to this one: {why}"))
            }
        }
    }

    fn list(&self, arguments: &Value) -> Result<Value, String> {
        let known = self.known()?;
        let limit =
            usize::try_from(arguments["limit"].as_u64().unwrap_or(50)).unwrap_or(50).min(200);
        let since = arguments["activeMinutes"]
            .as_u64()
            .map(|minutes| now().as_millis().saturating_sub(minutes.saturating_mul(60_000)));
        let updated =
            |entry: &Entry| entry.get("updatedAt").and_then(Value::as_u64).unwrap_or_default();
        let mut rows = Vec::new();
        for (key, (agent, entry)) in &known {
            if self.reach(&known, key)? != Reach::Open
                || since.is_some_and(|since| updated(entry) < since)
            {
                continue;
            }
            let mut row = json!({ "key": key, "agent": agent.as_str(), "active": self.runner().active(key).len() });
            for field in
                ["label", "sessionId", "updatedAt", "status", "model", "totalTokens", "spawnedBy"]
            {
                if let Some(value) = entry.get(field) {
                    row[field] = value.clone();
                }
            }
            rows.push((updated(entry), row));
        }
        rows.sort_by_key(|(updated, _)| std::cmp::Reverse(*updated));
        let rows: Vec<Value> = rows.into_iter().take(limit).map(|(_, row)| row).collect();
        Ok(json!({ "count": rows.len(), "sessions": rows }))
    }

    fn history(&self, arguments: &Value) -> Result<Value, String> {
        let known = self.known()?;
        let key = self.target(&known, word(arguments, "sessionKey")?)?;
        let limit =
            usize::try_from(arguments["limit"].as_u64().unwrap_or(50)).unwrap_or(50).min(500);
        let with_tools = arguments["includeTools"] == true;
        let messages = self.messages_of(&known, &key)?;
        let mut shown: Vec<Value> = messages
            .into_iter()
            .filter(|message| with_tools || message["role"] != "toolResult")
            .map(|message| json!({ "role": message["role"], "text": text_of(&message["content"]) }))
            .collect();
        shown.drain(..shown.len().saturating_sub(limit));
        Ok(json!({ "sessionKey": key, "messages": shown }))
    }

    fn messages_of(&self, known: &Known, key: &str) -> Result<Vec<Value>, String> {
        let Some((_, found)) = known.get(key) else { return Ok(Vec::new()) };
        let Some(id) = entry::session_id(found) else { return Ok(Vec::new()) };
        let who = nobody(key, &self.request.who);
        let place = self.runner().place(&who).map_err(|error| error.for_model())?;
        let messages = place.sessions.messages(id).map_err(|error| chain(&error))?;
        let said = messages.into_iter().filter(|message| message.kind == MessageKind::Said);
        Ok(said.map(|message| Value::Object(message.body)).collect())
    }

    fn send(&self, arguments: &Value) -> Result<Value, String> {
        let known = self.known()?;
        let key = self.target(&known, word(arguments, "sessionKey")?)?;
        if key == self.place.key {
            return Err("a session does not write to itself".to_owned());
        }
        let seconds =
            arguments["timeoutSeconds"].as_u64().unwrap_or(ANSWER_WAIT.as_secs()).min(LONGEST_WAIT);
        let run = self.tell(&key, word(arguments, "message")?)?;
        Ok(self.answer_of(&key, &run, seconds))
    }

    /// Sends a message to a session, in the name of this one.
    fn tell(&self, key: &str, message: &str) -> Result<String, String> {
        let request = Request {
            who: nobody(key, &self.request.who),
            authority: Authority::Writer,
            answers: Answers::Nobody,
            message: message.to_owned(),
            attachments: Vec::new(),
            run: None,
            timeout: None,
            origin: Origin::Session(self.place.key.clone()),
            approvals: self.request.approvals,
        };
        let started = self.runner().start(request).map_err(|error| chain(&error))?;
        Ok(started.run)
    }

    fn answer_of(&self, key: &str, run: &str, seconds: u64) -> Value {
        let answer = |status: &str| json!({ "sessionKey": key, "runId": run, "status": status });
        if seconds == 0 {
            return answer("accepted");
        }
        let wait = async {
            tokio::select! {
                biased;
                () = self.active.cancelled.cancelled() => None,
                ended = async { self.runner().wait(run, Duration::from_secs(seconds)).await } => ended,
            }
        };
        match self.inner.handle.block_on(wait) {
            None => answer("timeout"),
            Some(Ended::Done { text, .. } | Ended::Replied { text }) => {
                let mut answer = answer("ok");
                answer["reply"] = json!(text);
                answer
            }
            Some(Ended::Failed { error }) => {
                let mut answer = answer("error");
                answer["error"] = json!(error);
                answer
            }
            Some(Ended::Aborted { .. }) => answer("aborted"),
        }
    }

    fn spawn(&self, arguments: &Value) -> Result<Value, String> {
        let task = word(arguments, "task")?;
        let own = &self.place.agent;
        let agent = arguments["agentId"].as_str().filter(|text| !text.trim().is_empty());
        let agent = agent.map_or_else(|| own.clone(), AgentId::normalize);
        let parent = SessionKey::parse(&self.place.key);
        let depth = parent.as_ref().map_or(0, SessionKey::subagent_depth) as u64;
        let _one = self.inner.spawning.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let known = self.known()?;
        let is_child =
            |entry: &Entry| entry.get("spawnedBy").and_then(Value::as_str) == Some(&self.place.key);
        let at_work = known
            .iter()
            .filter(|(key, (_, entry))| is_child(entry) && !self.runner().active(key).is_empty());
        let children = at_work.count() as u64;
        let model = self.inner.desk.look(&self.request.who, |view| {
            let config = &view.store.loaded.config;
            rules::decide_spawn(config, (own, &agent), depth, children)
                .map_err(|why| why.to_string())?;
            let named =
                arguments["model"].as_str().map(|text| models::named(config, "model", text));
            let named = named.transpose().map_err(|error| error.to_string())?;
            if let Some(model) = &named {
                models::decide_choice(config, own, model).map_err(|error| error.to_string())?;
            }
            Ok::<_, String>(named)
        });
        let model = model.map_err(|error| error.for_model())??;
        // A sub-agent of another agent is as deep as one of its own would be.
        let rest = parent.as_ref().filter(|key| key.is_subagent()).and_then(SessionKey::split);
        let above = rest.map(|parts| format!("{}:", parts.rest)).unwrap_or_default();
        let key = format!("agent:{agent}:{above}subagent:{}", random::uuid());
        let who = nobody(&key, &self.request.who);
        let place = self.runner().place(&who).map_err(|error| error.for_model())?;
        let label =
            arguments["label"].as_str().map(|text| text.chars().take(100).collect::<String>());
        let written = self.inner.change_entry(&place, |entry| {
            entry.insert("spawnedBy".to_owned(), json!(self.place.key));
            entry.insert("spawnDepth".to_owned(), json!(depth + 1));
            if let Some(label) = &label {
                entry.insert("label".to_owned(), json!(label));
            }
            if let Some(model) = &model {
                entry.insert("providerOverride".to_owned(), json!(model.provider));
                entry.insert("modelOverride".to_owned(), json!(model.id));
            }
        });
        written.map_err(|error| chain(&error))?;
        let request = Request {
            who,
            authority: Authority::Writer,
            answers: Answers::Nobody,
            message: task.to_owned(),
            attachments: Vec::new(),
            run: None,
            timeout: arguments["runTimeoutSeconds"].as_u64().map(Duration::from_secs),
            origin: Origin::Session(self.place.key.clone()),
            approvals: self.request.approvals,
        };
        let started = self.runner().start(request).map_err(|error| chain(&error))?;
        self.inner.hand_back(
            &started.run,
            &key,
            label.as_deref().unwrap_or("sub-agent"),
            self.back(),
        );
        Ok(json!({ "status": "accepted", "childSessionKey": place.key, "runId": started.run }))
    }

    fn session_status(&self, arguments: &Value) -> Result<Value, String> {
        let Some(named) = arguments["sessionKey"].as_str().filter(|key| !key.is_empty()) else {
            return self.inner.status(&self.request.who, self.place);
        };
        let key = self.target(&self.known()?, named)?;
        let who = nobody(&key, &self.request.who);
        let place = self.runner().place(&who).map_err(|error| error.for_model())?;
        self.inner.status(&who, &place)
    }

    fn subagents(&self, arguments: &Value) -> Result<Value, String> {
        let known = self.known()?;
        let below: Vec<&String> =
            known.keys().filter(|key| self.kinship(&known, key) == Kinship::Descendant).collect();
        let named = arguments["target"].as_str().unwrap_or_default();
        match arguments["action"].as_str().unwrap_or_default() {
            "list" => {
                let row = |key: &&String| {
                    let entry = known.get(*key).map(|(_, entry)| entry);
                    let field = |name: &str| entry.and_then(|entry| entry.get(name)).cloned();
                    json!({ "key": key, "label": field("label"), "status": field("status"), "active": self.runner().active(key).len() })
                };
                Ok(json!({ "subagents": below.iter().map(row).collect::<Vec<_>>() }))
            }
            "kill" => {
                let wanted: Vec<String> = if named == "all" {
                    below.into_iter().cloned().collect()
                } else {
                    vec![self.descendant(&known, named)?]
                };
                let runs =
                    wanted.iter().flat_map(|key| self.runner().abort(key, None, AbortReason::Stop));
                Ok(json!({ "status": "ok", "ended": runs.collect::<Vec<_>>() }))
            }
            "steer" => {
                let key = self.descendant(&known, named)?;
                self.runner().abort(&key, None, AbortReason::Stop);
                let run = self.tell(&key, word(arguments, "message")?)?;
                self.inner.hand_back(&run, &key, named, self.back());
                Ok(json!({ "status": "accepted", "sessionKey": key, "runId": run }))
            }
            other => Err(format!("`{other}` is no action; use list, kill or steer")),
        }
    }

    fn descendant(&self, known: &Known, named: &str) -> Result<String, String> {
        let key = self.target(known, named)?;
        match self.kinship(known, &key) {
            Kinship::Descendant => Ok(key),
            Kinship::Itself | Kinship::Stranger => {
                Err(format!("`{named}` is no sub-agent of this session"))
            }
        }
    }
}

impl Inner {
    /// Hands the result of a run to the session that wanted it, when it is there.
    fn hand_back(
        self: &Arc<Self>,
        run: &str,
        child: &str,
        label: &str,
        (who, approvals): (Who, Approvals),
    ) {
        let runner = Runner(Arc::clone(self));
        let (run, child, label) = (run.to_owned(), child.to_owned(), label.to_owned());
        drop(self.handle.spawn(async move {
            let Some(ended) = runner.wait(&run, super::LONGEST).await else { return };
            let outcome = match ended {
                Ended::Done { text, .. } | Ended::Replied { text } => {
                    format!("has finished:\n{}", text.chars().take(RESULT).collect::<String>())
                }
                Ended::Failed { error } => format!("failed: {error}"),
                // Whoever ended it knows.
                Ended::Aborted { why: AbortReason::Stop | AbortReason::Rpc, .. } => return,
                Ended::Aborted { why: AbortReason::Timeout, .. } => {
                    "took too long and was ended".to_owned()
                }
            };
            let request = Request {
                who,
                authority: Authority::Writer,
                answers: Answers::Nobody,
                message: format!("The sub-agent {label} {outcome}"),
                attachments: Vec::new(),
                run: Some(format!("subagent-followup:{run}")),
                timeout: None,
                origin: Origin::Session(child),
                approvals,
            };
            // The files of a session look-up are read here, so this may block.
            drop(tokio::task::spawn_blocking(move || runner.start(request)).await);
        }));
    }
}

/// A session in which nobody speaks: no sender, so no gate opens.
pub(super) fn nobody(key: &str, like: &Who) -> Who {
    Who { session: Some(key.to_owned()), backend: like.backend.clone(), ..Who::default() }
}

fn word<'a>(arguments: &'a Value, name: &str) -> Result<&'a str, String> {
    let text = arguments[name].as_str().map(str::trim).filter(|text| !text.is_empty());
    text.ok_or_else(|| format!("`{name}` is missing"))
}

/// The text of a message's content.
fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let parts = blocks.iter().filter_map(|block| match block["type"].as_str() {
                Some("text") => block["text"].as_str().map(|text| Part::Text(text.to_owned())),
                Some("toolCall") => Some(Part::Text(format!(
                    "[calls {}]",
                    block["name"].as_str().unwrap_or_default()
                ))),
                _ => None,
            });
            Part::texts(&parts.collect::<Vec<_>>())
        }
        _ => String::new(),
    }
}
