//! What a person wants of the session itself: carried out at once, without a model and without waiting for a turn.

use std::sync::Arc;
use std::time::Duration;

use clawpen_rules::approval::answer::Word;
use clawpen_rules::approval::resolver::{GatewayScope, Place, Resolver, Speaker};
use clawpen_rules::directives::{self, Answer, Directive, ExecChange, Input, Verdict};
use clawpen_rules::elevated;
use clawpen_rules::elevated::level::Level;
use clawpen_rules::exec_host::{Ask, Security};
use clawpen_rules::session::entry::decide_host;
use serde_json::{Value, json};

use super::entry::SessionPlace;
use super::events::{AbortReason, Ended};
use super::{Active, Inner, Origin, Request, Runner, model_override};
use crate::broker::{Resolved, Taken};
use crate::error_text::chain;

/// How long a run that is in the way has to end.
const LAST_MOMENTS: Duration = Duration::from_secs(15);

/// What a run is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Task {
    Message,
    Compact,
}

/// What becomes of a message.
pub(super) enum Next {
    Reply(Ended),
    Run(Box<Request>, Task),
}

/// Who answers approvals, if this request does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answers {
    Nobody,
    /// The user who started this process.
    PersonHere,
    Client {
        client: String,
        scope: GatewayScope,
    },
}

impl Inner {
    /// Carries a directive out, or says that there is none. May block.
    pub(super) fn at_once(
        self: &Arc<Self>,
        active: &Active,
        mut request: Request,
        place: &SessionPlace,
    ) -> Next {
        let reply = |text: String| Next::Reply(Ended::Replied { text });
        let directive = match (&request.origin, directives::read(&request.message)) {
            (Origin::Session(_) | Origin::Hook | Origin::Heartbeat(_), _)
            | (Origin::Person, Input::Message) => {
                return Next::Run(Box::new(request), Task::Message);
            }
            (Origin::Person, Input::Bad(why)) => return reply(why),
            (Origin::Person, Input::Directive(directive)) => directive,
        };
        if let Verdict::Refused(why) = directives::decide(&directive, request.authority) {
            return reply(why.to_string());
        }
        let done = match directive {
            Directive::Compact => return Next::Run(Box::new(request), Task::Compact),
            Directive::New(first) => match (self.begin_anew(active, place), first) {
                (Ok(()), Some(message)) => {
                    request.message = message;
                    return Next::Run(Box::new(request), Task::Message);
                }
                (Ok(()), None) => Ok("A new session has begun; the old one is kept.".to_owned()),
                (Err(error), _) => Err(error),
            },
            Directive::Stop => Ok(self.stop_others(active)),
            Directive::Help => Ok(directives::HELP.to_owned()),
            Directive::Status => {
                self.status(&request.who, place).map(|status| status_text(&status))
            }
            Directive::Exec(change) => self.exec(&request, place, change),
            Directive::Elevated(level) => self.elevated(&request, place, level),
            Directive::Approve { id, answer } => self.approve(&request, &id, answer),
        };
        match done {
            Ok(text) => reply(text),
            Err(error) => Next::Reply(Ended::Failed { error }),
        }
    }

    fn stop_others(self: &Arc<Self>, active: &Active) -> String {
        Runner(Arc::clone(self)).hush(&active.session);
        let ended = self.abort_others(active);
        match ended.len() {
            0 => "Nothing was running.".to_owned(),
            1 => "Stopped.".to_owned(),
            count => format!("Stopped {count} runs."),
        }
    }

    fn abort_others(self: &Arc<Self>, active: &Active) -> Vec<String> {
        let runner = Runner(Arc::clone(self));
        let others = runner.active(&active.session).into_iter().filter(|run| *run != active.run);
        others
            .flat_map(|run| runner.abort(&active.session, Some(&run), AbortReason::Stop))
            .collect()
    }

    fn begin_anew(self: &Arc<Self>, active: &Active, place: &SessionPlace) -> Result<(), String> {
        let runner = Runner(Arc::clone(self));
        for run in self.abort_others(active) {
            if runner.wait_blocking(&run, LAST_MOMENTS).is_none() {
                return Err("the session is still active; try again in a moment".to_owned());
            }
        }
        self.renew(place).map_err(|error| chain(&error))
    }

    fn exec(
        &self,
        request: &Request,
        place: &SessionPlace,
        change: ExecChange,
    ) -> Result<String, String> {
        let placement = self.desk.look(&request.who, |view| view.explanation.placement.clone());
        let placement = placement.map_err(|error| error.for_model())?;
        let host = change.host.map(|host| decide_host(host.as_str(), &placement));
        let is_kept_in = change.host.is_some_and(|asked| host != Some(asked.as_str()));
        let set = self.change_entry(place, |entry| {
            let words = [
                ("execHost", host),
                ("execSecurity", change.security.map(Security::as_str)),
                ("execAsk", change.ask.map(Ask::as_str)),
            ];
            for (key, word) in words {
                if let Some(word) = word {
                    entry.insert(key.to_owned(), json!(word));
                }
            }
            words.map(|(key, _)| entry.get(key).and_then(Value::as_str).map(str::to_owned))
        });
        let [host, security, ask] = set.map_err(|error| chain(&error))?;
        let word = |set: Option<String>| set.unwrap_or_else(|| "as configured".to_owned());
        let why = if is_kept_in {
            " This session works in a sandbox, and no setting of a session leads out of it; `/elevated` does, where \
             `tools.elevated` lets you, or `tools.exec.host` in the config."
        } else {
            ""
        };
        Ok(format!(
            "exec: host {}, security {}, ask {}.{why}",
            word(host),
            word(security),
            word(ask)
        ))
    }

    fn elevated(
        &self,
        request: &Request,
        place: &SessionPlace,
        level: Option<Level>,
    ) -> Result<String, String> {
        let who = &request.who;
        let gates = self.desk.look(who, |view| {
            elevated::decide(&view.store.loaded.config, &place.agent, who.provider, &who.sender)
        });
        let gates = gates.map_err(|error| error.for_model())?;
        let shut: Vec<String> = gates.failures().iter().map(elevated::GateFailure::key).collect();
        // Off is always granted.
        if !shut.is_empty() && level != Some(Level::Off) {
            return Ok(format!(
                "elevated is not available here; shut: {}. `clawpen sandbox explain --session '{}'` says more.",
                shut.join(", "),
                place.key
            ));
        }
        let Some(level) = level else {
            let entry = place.entry().map_err(|error| chain(&error))?;
            let word =
                entry.get("elevatedLevel").and_then(Value::as_str).unwrap_or("as configured");
            return Ok(format!("elevated: {word}."));
        };
        self.change_entry(place, |entry| {
            entry.insert("elevatedLevel".to_owned(), json!(level.as_str()))
        })
        .map_err(|error| chain(&error))?;
        Ok(format!("elevated: {}.", level.as_str()))
    }

    fn approve(&self, request: &Request, id: &str, answer: Answer) -> Result<String, String> {
        let word = match answer {
            Answer::AllowOnce => Word::AllowOnce,
            Answer::AllowAlways => Word::AllowAlways,
            Answer::Deny => Word::Deny,
        };
        let resolved = self.desk.with_broker(|broker| {
            let resolver = match &request.answers {
                Answers::Nobody => return Err("nobody who may answer speaks here".to_owned()),
                Answers::PersonHere => broker.person_here().map_err(|error| chain(&error))?,
                Answers::Client { client, scope } => Resolver {
                    speaker: Speaker::GatewayClient { client: client.clone(), scope: *scope },
                    place: Place::Connection,
                },
            };
            broker.resolve(id, word, &resolver).map_err(|error| chain(&error))
        });
        let resolved: Resolved = resolved.map_err(|error| error.for_model())??;
        let slug = resolved.id.slug();
        Ok(match &resolved.what {
            Taken::Counts { .. } => format!("{}: {slug}", resolved.word.as_str()),
            Taken::Late { .. } => format!("too late, nothing changed: {slug}"),
            Taken::Refused(why) => format!("not accepted, nothing changed: {slug}: {why}"),
        })
    }

    /// How a session stands, for people, programs and models.
    pub(super) fn status(
        self: &Arc<Self>,
        who: &crate::call::Who,
        place: &SessionPlace,
    ) -> Result<Value, String> {
        let entry = place.entry().map_err(|error| chain(&error))?;
        let active = Runner(Arc::clone(self)).active(&place.key);
        let looked = self.desk.look(who, |view| {
            let config = &view.store.loaded.config;
            let set = model_override(view.store, &entry);
            let model = clawpen_rules::models::decide(config, &place.agent, set.as_ref());
            let explanation = view.explanation;
            json!({
                "sessionKey": place.key,
                "agent": place.agent.as_str(),
                "sessionId": entry.get("sessionId"),
                "model": model.as_ref().map(|chosen| chosen.model.name.to_string()).ok(),
                "problem": model.as_ref().err().map(ToString::to_string),
                "contextTokens": model.as_ref().map(|chosen| chosen.model.context_window).ok(),
                "totalTokens": entry.get("totalTokens"),
                "inputTokens": entry.get("inputTokens"),
                "outputTokens": entry.get("outputTokens"),
                "sandbox": explanation.runtime.name.as_str(),
                "backend": explanation.sandbox.backend.value,
                "workspaceAccess": explanation.runtime.layout.access().as_str(),
                "elevatedLevel": entry.get("elevatedLevel"),
                "execHost": entry.get("execHost"),
                "execSecurity": entry.get("execSecurity"),
                "execAsk": entry.get("execAsk"),
                "activeRuns": active.len(),
            })
        });
        looked.map_err(|error| error.for_model())
    }
}

/// A status for people.
pub(super) fn status_text(status: &Value) -> String {
    let text = |key: &str| match &status[key] {
        Value::String(text) => text.clone(),
        Value::Null => "-".to_owned(),
        other => other.to_string(),
    };
    let model = match &status["problem"] {
        Value::String(problem) => problem.clone(),
        _ => format!(
            "{} ({} of {} tokens)",
            text("model"),
            text("totalTokens"),
            text("contextTokens")
        ),
    };
    [
        format!("session: {}", text("sessionKey")),
        format!("model: {model}"),
        format!(
            "sandbox: {} ({}, workspace {})",
            text("sandbox"),
            text("backend"),
            text("workspaceAccess")
        ),
        format!(
            "exec: host {}, security {}, ask {}; elevated {}",
            text("execHost"),
            text("execSecurity"),
            text("execAsk"),
            text("elevatedLevel")
        ),
        format!("tokens: {} in, {} out", text("inputTokens"), text("outputTokens")),
    ]
    .join("\n")
}
