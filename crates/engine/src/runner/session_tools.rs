//! The tools about sessions: what an agent sees of others, what it starts, and what it tells them.
//!
//! A sub-agent runs in a session of its own, in a sandbox of its scope, under the policy of sub-agents, and nobody speaks
//! for it: it has no sender, so nothing lets it out. Its result comes back as a message to whoever started it.

mod shown;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use clawpen_rules::directives::Authority;
use clawpen_rules::ids::AgentId;
use clawpen_rules::models;
use clawpen_rules::session::key::SessionKey;
use clawpen_rules::tools::sessions::{self as rules, Kinship, Reach, Reached, SessionTool};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::directives::Answers;
use super::entry::SessionPlace;
use super::events::{AbortReason, Ended};
use super::run::Run;
use super::tools::ANSWER_WAIT;
use super::{Approvals, Inner, Origin, Request, Runner, Wishes};
use crate::call::{ToolCallError, Who};
use crate::error_text::chain;
use crate::random;
use crate::session_entries::{Entry, Sessions};

/// Generations that are followed to find an ancestor.
const MOST_GENERATIONS: usize = 16;
/// The longest wait for another session.
const LONGEST_WAIT: u64 = 600;
/// Characters of a sub-agent's result that are handed back.
const RESULT: usize = 20_000;

/// Every session of the agents that there are.
type Known = BTreeMap<String, (AgentId, Entry)>;

/// What a tool about sessions gives.
#[derive(Debug, Clone, PartialEq)]
pub struct Told {
    /// For people and models; the details as JSON if there is none.
    pub text: Option<String>,
    /// For programs, with the reference's names.
    pub details: Value,
}

impl From<Value> for Told {
    fn from(details: Value) -> Self {
        Self { text: None, details }
    }
}

impl Told {
    /// The text that stands for it.
    pub fn text(&self) -> String {
        let written = || serde_json::to_string_pretty(&self.details).unwrap_or_default();
        self.text.clone().unwrap_or_else(written)
    }
}

/// Why it gives nothing.
#[derive(Debug, thiserror::Error)]
pub enum NotTold {
    /// The arguments make no sense.
    #[error("{0}")]
    Arguments(String),
    /// The session is closed to this one.
    #[error("{0}")]
    Closed(String),
    /// There is no such session, or nothing that can be done to it.
    #[error("{0}")]
    Absent(String),
    #[error("{0}")]
    Failed(String),
}

impl NotTold {
    /// The reference's word for it.
    pub const fn status(&self) -> &'static str {
        match self {
            Self::Closed(_) => "forbidden",
            Self::Arguments(_) | Self::Absent(_) | Self::Failed(_) => "error",
        }
    }
}

/// Who reads what is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reader {
    /// A model: it is told nothing of the host.
    Model,
    /// A program that shows the gateway's secret.
    Program,
}

/// A session that looks at others, or a program that speaks for it.
pub(super) struct Asker<'a> {
    inner: &'a Arc<Inner>,
    who: &'a Who,
    place: &'a SessionPlace,
    approvals: Approvals,
    /// Ends a wait for another session.
    over: &'a CancellationToken,
    reader: Reader,
}

impl Runner {
    /// Carries out a tool about sessions for a program that speaks for the session of `who`. Policy is asked, and it is
    /// recorded, as for an agent's call.
    pub fn about_sessions(
        &self,
        who: &Who,
        tool: SessionTool,
        arguments: &Value,
    ) -> Result<Result<Told, NotTold>, ToolCallError> {
        let place = self.place(who)?;
        let asker = Asker {
            inner: &self.0,
            who,
            place: &place,
            approvals: Approvals::FollowUp,
            over: &CancellationToken::new(),
            reader: Reader::Program,
        };
        self.0.desk.beside(who, tool, || asker.carry_out(tool, arguments))
    }
}

impl Run<'_> {
    /// Carries out a tool about sessions; gives what the model sees, or why not.
    pub(super) fn about_sessions(
        &self,
        tool: SessionTool,
        arguments: &Value,
    ) -> Result<Told, NotTold> {
        let asker = Asker {
            inner: self.inner,
            who: &self.request.who,
            place: self.place,
            approvals: self.request.approvals,
            over: &self.active.cancelled,
            reader: Reader::Model,
        };
        asker.carry_out(tool, arguments)
    }
}

impl Asker<'_> {
    fn carry_out(&self, tool: SessionTool, arguments: &Value) -> Result<Told, NotTold> {
        match tool {
            SessionTool::List => self.list(arguments).map(Told::from),
            SessionTool::History => self.history(arguments).map(Told::from),
            SessionTool::Send => self.send(arguments).map(Told::from),
            SessionTool::Spawn => self.spawn(arguments).map(Told::from),
            SessionTool::Status => self.session_status(arguments),
            SessionTool::Subagents => self.subagents(arguments).map(Told::from),
            SessionTool::Agents => self.agents().map(Told::from),
        }
    }

    fn runner(&self) -> Runner {
        Runner(Arc::clone(self.inner))
    }

    /// This session, for what comes back to it.
    fn back(&self) -> (Who, Approvals) {
        (nobody(&self.place.key, self.who), self.approvals)
    }

    fn known(&self) -> Result<Known, NotTold> {
        let stores = self.inner.desk.look(self.who, |view| {
            let config = &view.store.loaded.config;
            let mut agents: Vec<AgentId> = config.agents().into_iter().map(|(id, _)| id).collect();
            agents.push(self.place.agent.clone());
            agents.sort_unstable_by(|a, b| a.as_str().cmp(b.as_str()));
            agents.dedup();
            let path = |agent: &AgentId| view.store.locations.session_store(config, agent);
            agents.iter().map(|agent| (agent.clone(), path(agent))).collect::<Vec<_>>()
        });
        let mut known = Known::new();
        for (agent, path) in stores.map_err(refused)? {
            let entries = Sessions::at(&path).read().map_err(failed)?;
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

    fn reach(&self, known: &Known, key: &str) -> Result<Reach, NotTold> {
        let Some((agent, _)) = known.get(key) else {
            return Ok(Reach::Closed("there is no such session"));
        };
        let other = Reached { agent, kinship: self.kinship(known, key) };
        let decided = self.inner.desk.look(self.who, |view| {
            rules::decide(&view.store.loaded.config, &self.place.agent, other)
        });
        decided.map_err(refused)
    }

    /// A session by key or label, if it may be reached.
    fn target(&self, known: &Known, named: &str) -> Result<String, NotTold> {
        let by_label = || {
            let is_it = |entry: &Entry| entry.get("label").and_then(Value::as_str) == Some(named);
            known.iter().find(|(_, (_, entry))| is_it(entry)).map(|(key, _)| key.clone())
        };
        let key = if known.contains_key(named) { Some(named.to_owned()) } else { by_label() };
        let key = key.ok_or_else(|| NotTold::Absent(format!("there is no session `{named}`")))?;
        match self.reach(known, &key)? {
            Reach::Open => Ok(key),
            Reach::Closed(why) => {
                let what = format!("the session `{named}` is closed to this one: {why}");
                Err(NotTold::Closed(what))
            }
        }
    }

    fn send(&self, arguments: &Value) -> Result<Value, NotTold> {
        let known = self.known()?;
        let key = self.target(&known, word(arguments, "sessionKey")?)?;
        if key == self.place.key {
            let what = "a session does not write to itself".to_owned();
            return Err(NotTold::Arguments(what));
        }
        let seconds =
            arguments["timeoutSeconds"].as_u64().unwrap_or(ANSWER_WAIT.as_secs()).min(LONGEST_WAIT);
        let run = self.tell(&key, word(arguments, "message")?)?;
        Ok(self.answer_of(&key, &run, seconds))
    }

    /// Sends a message to a session, in the name of this one.
    fn tell(&self, key: &str, message: &str) -> Result<String, NotTold> {
        let request = Request {
            who: nobody(key, self.who),
            authority: Authority::Writer,
            answers: Answers::Nobody,
            message: message.to_owned(),
            attachments: Vec::new(),
            run: None,
            timeout: None,
            origin: Origin::Session(self.place.key.clone()),
            approvals: self.approvals,
            wishes: Wishes::default(),
        };
        let started = self.runner().start(request).map_err(failed)?;
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
                () = self.over.cancelled() => None,
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

    fn spawn(&self, arguments: &Value) -> Result<Value, NotTold> {
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
        let model = self.inner.desk.look(self.who, |view| {
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
        let model = model.map_err(refused)?.map_err(NotTold::Closed)?;
        // A sub-agent of another agent is as deep as one of its own would be.
        let rest = parent.as_ref().filter(|key| key.is_subagent()).and_then(SessionKey::split);
        let above = rest.map(|parts| format!("{}:", parts.rest)).unwrap_or_default();
        let key = format!("agent:{agent}:{above}subagent:{}", random::uuid());
        let who = nobody(&key, self.who);
        let place = self.runner().place(&who).map_err(refused)?;
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
        written.map_err(failed)?;
        let request = Request {
            who,
            authority: Authority::Writer,
            answers: Answers::Nobody,
            message: task.to_owned(),
            attachments: Vec::new(),
            run: None,
            timeout: arguments["runTimeoutSeconds"].as_u64().map(Duration::from_secs),
            origin: Origin::Session(self.place.key.clone()),
            approvals: self.approvals,
            wishes: Wishes::default(),
        };
        let started = self.runner().start(request).map_err(failed)?;
        self.inner.hand_back(
            &started.run,
            &key,
            label.as_deref().unwrap_or("sub-agent"),
            self.back(),
        );
        Ok(json!({ "status": "accepted", "childSessionKey": place.key, "runId": started.run }))
    }

    fn descendant(&self, known: &Known, named: &str) -> Result<String, NotTold> {
        let key = self.target(known, named)?;
        match self.kinship(known, &key) {
            Kinship::Descendant => Ok(key),
            Kinship::Itself | Kinship::Stranger => {
                Err(NotTold::Closed(format!("`{named}` is no sub-agent of this session")))
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
                wishes: Wishes::default(),
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

fn word<'a>(arguments: &'a Value, name: &str) -> Result<&'a str, NotTold> {
    let text = arguments[name].as_str().map(str::trim).filter(|text| !text.is_empty());
    text.ok_or_else(|| NotTold::Arguments(format!("`{name}` is missing")))
}

fn refused(error: ToolCallError) -> NotTold {
    NotTold::Failed(error.for_model())
}

fn failed(error: impl std::error::Error) -> NotTold {
    NotTold::Failed(chain(&error))
}
