//! A model's calls, carried out side by side: each goes the way of every other client's.

use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::Duration;

use base64::Engine as _;
use clawpen_rules::compaction;
use clawpen_rules::directives::Authority;
use clawpen_rules::models::{Images, Model};
use clawpen_rules::tools::output::{TAIL, Tail};
use clawpen_rules::tools::schema::IMAGE;
use clawpen_rules::tools::sessions::SessionTool;
use clawpen_rules::tools::{BuiltTool, label};
use serde_json::{Value, json};

use super::directives::Answers;
use super::events::{Emitter, What};
use super::notice::Watched;
use super::run::Run;
use super::session_tools::nobody;
use super::{Active, Approvals, Inner, Origin, Request, Runner, Wishes};
use crate::call::{Pending, RecordDoor, ToolCallError, ToolRequest, Watch, Who};
use crate::models::talk::{Call, Part, Success, ToolResult, Usage};
use crate::tools::{Answer, Block};

/// Calls of one run that are carried out at once.
const AT_ONCE: usize = 16;

/// What became of a call.
pub(super) struct Done {
    pub(super) result: ToolResult,
    pub(super) details: Value,
    pub(super) spent: Spent,
}

/// What another model took for it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Spent {
    pub(super) usage: Usage,
    /// Dollars, by the config's prices.
    pub(super) cost: f64,
}

impl Run<'_> {
    /// Carries calls out, several at once, and gives their results in the order of the calls.
    pub(super) fn carry_out(&self, calls: &[Call]) -> Vec<Done> {
        let mut done = Vec::with_capacity(calls.len());
        for some in calls.chunks(AT_ONCE) {
            thread::scope(|scope| {
                let running: Vec<_> =
                    some.iter().map(|call| (call, scope.spawn(move || self.one(call)))).collect();
                for (call, thread) in running {
                    done.push(thread.join().unwrap_or_else(|_panic| {
                        failed(call, "the call ended unexpectedly".to_owned(), "internal")
                    }));
                }
            });
        }
        done
    }

    fn one(&self, call: &Call) -> Done {
        let (id, tool) = (call.id.clone(), call.name.clone());
        let arguments = call.arguments.clone();
        self.emitter.emit(What::ToolStarted { call: id.clone(), tool: tool.clone(), arguments });
        let done = self.carried_out(call);
        let Done { result, details, spent: _ } = &done;
        self.emitter.emit(What::ToolEnded {
            label: call.arguments["command"]
                .as_str()
                .filter(|_| tool == "exec")
                .map(label::of_command),
            call: id,
            tool,
            success: result.success,
            content: result.content.clone(),
            details: details.clone(),
        });
        done
    }

    fn carried_out(&self, call: &Call) -> Done {
        if !call.arguments.is_object() {
            let what = "the arguments are no JSON object; write them again".to_owned();
            return failed(call, what, "arguments");
        }
        if let Some(tool) = SessionTool::parse(&call.name) {
            let answered = self
                .inner
                .desk
                .beside(&self.request.who, tool, || self.about_sessions(tool, &call.arguments));
            return match answered {
                Ok(Ok(told)) => {
                    let content = vec![Block::Text(told.text())];
                    self.answered(call, Answer { content, details: told.details })
                }
                Ok(Err(why)) => failed(call, why.to_string(), "tool"),
                Err(error) => failed(call, error.for_model(), error.code()),
            };
        }
        if call.name == IMAGE.name {
            return self.look_at(call);
        }
        self.in_desk(call)
    }

    /// On a thread of its own: a call that waits for a person may outlive the run that made it.
    fn in_desk(&self, call: &Call) -> Done {
        let (tell, first) = mpsc::channel();
        let work = Work {
            inner: Arc::clone(self.inner),
            active: Arc::clone(self.active),
            // What a person has set on the session was set here: it takes the owner, or `operator.admin`.
            who: Who { record: RecordDoor::This, ..self.request.who.clone() },
            approvals: self.request.approvals,
            session: self.place.key.clone(),
            call: call.clone(),
            emitter: self.emitter.clone(),
            model: self.models.first().model.clone(),
        };
        let gone = || failed(call, "the call ended unexpectedly".to_owned(), "internal");
        if thread::Builder::new().spawn(move || work.run(tell)).is_err() {
            return gone();
        }
        match first.recv() {
            Ok(First::Done(done)) => *done,
            Ok(First::Asked(pending, cwd)) => waits(call, &pending, &cwd),
            Err(_gone) => gone(),
        }
    }

    pub(super) fn answered(&self, call: &Call, answer: Answer) -> Done {
        answered(&self.models.first().model, call, answer)
    }
}

/// What comes first of a call: its end, or that a person is asked.
enum First {
    Done(Box<Done>),
    /// A person is asked, about a command in this directory.
    Asked(Pending, String),
}

/// A call with all it needs to go on by itself.
struct Work {
    inner: Arc<Inner>,
    active: Arc<Active>,
    who: Who,
    approvals: Approvals,
    session: String,
    call: Call,
    emitter: Emitter,
    model: Model,
}

impl Work {
    fn run(self, tell: Sender<First>) {
        let (number, stop) = match self.active.open_stop() {
            Ok(opened) => opened,
            Err(error) => {
                let what = format!("the call cannot be watched: {error}");
                let _there = tell.send(First::Done(Box::new(failed(&self.call, what, "internal"))));
                return;
            }
        };
        let mut watch = Shown {
            work: &self,
            tell: &tell,
            asked: None,
            tail: Vec::new(),
            begun: (super::now().as_millis(), String::new()),
            number,
        };
        let mut request = ToolRequest {
            tool: &self.call.name,
            arguments: &self.call.arguments,
            stop: &stop,
            watch: &mut watch,
        };
        let called = self.inner.desk.call(&self.who, &mut request);
        self.active.let_go(number);
        if let Some(id) = watch.asked.take() {
            self.follow_up(&id, called);
            return;
        }
        self.watch_end(&called);
        let done = match called {
            Ok(answer) => answered(&self.model, &self.call, answer),
            Err(error) => failed(&self.call, error.for_model(), error.code()),
        };
        // The run waits for this, so it is there.
        let _there = tell.send(First::Done(Box::new(done)));
    }

    /// A command that goes on in the background is told of when it ends.
    fn watch_end(&self, called: &Result<Answer, ToolCallError>) {
        let Ok(answer) = called else { return };
        if answer.details["status"] != "running" || self.call.name == BuiltTool::Process.as_str() {
            return;
        }
        if let Some(id) = answer.details["sessionId"].as_str() {
            self.inner.tell_of_end(Watched {
                left_by: Arc::clone(&self.active),
                who: self.who.clone(),
                session: self.session.clone(),
                id: id.to_owned(),
                approvals: self.approvals,
            });
        }
    }

    /// Tells the session what came of a call that it did not wait for.
    fn follow_up(&self, id: &str, called: Result<Answer, ToolCallError>) {
        let message = match called {
            Ok(answer) => {
                let done = answered(&self.model, &self.call, answer);
                let text = Part::texts(&done.result.content);
                let from = text.chars().count().saturating_sub(FOLLOW_UP);
                let tail: String = text.chars().skip(from).collect();
                let code = &done.details["exitCode"];
                format!("Exec finished (gateway id={id}, code {code})\n{tail}")
            }
            // Whoever took it back knows.
            Err(ToolCallError::Cancelled) => return,
            Err(error) => {
                let command = self.call.arguments["command"].as_str().unwrap_or_default();
                let (code, why) = (error.code(), error.for_model());
                format!("Exec denied (gateway id={id}, {code}): {command}\n{why}")
            }
        };
        let request = Request {
            who: nobody(&self.session, &self.who),
            authority: Authority::Writer,
            answers: Answers::Nobody,
            message,
            attachments: Vec::new(),
            run: Some(format!("exec-approval-followup:{id}")),
            timeout: None,
            origin: Origin::Session(format!("the approval {id}")),
            approvals: self.approvals,
            wishes: Wishes::default(),
        };
        // A session that cannot be found any more is told nothing.
        let _gone = Runner(Arc::clone(&self.inner)).start(request);
    }
}

/// A call that waits for a person, as the model sees it.
fn waits(call: &Call, pending: &Pending, cwd: &str) -> Done {
    let slug: String = pending.id.chars().take(8).collect();
    let command = call.arguments["command"].as_str().unwrap_or_default();
    let text = format!(
        "A person must agree first (id {slug}, full {}); this has not run.\nHost: gateway\nCWD: {cwd}\nCommand:\n\
         ```sh\n{command}\n```\nWhoever may answer writes /approve {slug} allow-once, allow-always or deny. What comes \
         of it is told in a later message; do not call it again meanwhile.",
        pending.id
    );
    let expires =
        super::now().as_millis() + u64::try_from(pending.timeout.as_millis()).unwrap_or(u64::MAX);
    let details = json!({
        "status": "approval-pending",
        "approvalId": pending.id,
        "approvalSlug": slug,
        "expiresAtMs": expires,
        "host": "gateway",
        "command": call.arguments["command"],
        "cwd": cwd,
    });
    let (id, tool) = (call.id.clone(), call.name.clone());
    let content = vec![Part::Text(text)];
    Done {
        result: ToolResult { call: id, tool, content, success: Success::Yes },
        details,
        spent: Spent::default(),
    }
}

/// What the model sees of an answer.
fn answered(model: &Model, call: &Call, answer: Answer) -> Done {
    let part = |block: Block| match block {
        Block::Text(text) => {
            Part::Text(compaction::fit_result(&text, model.context_window).unwrap_or(text))
        }
        Block::Image { mime_type, bytes } => match model.images {
            Images::Seen => Part::Image {
                mime_type: mime_type.to_owned(),
                data: base64::engine::general_purpose::STANDARD.encode(bytes),
            },
            Images::Unseen => Part::Text("[an image, which this model does not see]".to_owned()),
        },
    };
    let content = answer.content.into_iter().map(part).collect();
    let success = match answer.details["status"].as_str() {
        Some("failed") => Success::No,
        _ => Success::Yes,
    };
    let result = ToolResult { call: call.id.clone(), tool: call.name.clone(), content, success };
    Done { result, details: answer.details, spent: Spent::default() }
}

pub(super) fn failed(call: &Call, what: String, code: &str) -> Done {
    let content = vec![Part::Text(what)];
    let (id, tool) = (call.id.clone(), call.name.clone());
    let result = ToolResult { call: id, tool, content, success: Success::No };
    let details = json!({ "status": "error", "code": code });
    Done { result, details, spent: Spent::default() }
}

/// Shows the end of what a command writes, now and then.
struct Shown<'a> {
    work: &'a Work,
    tell: &'a Sender<First>,
    /// The approval that the run did not wait for.
    asked: Option<String>,
    tail: Vec<u8>,
    /// When the command began, and where.
    begun: (u64, String),
    /// What the run's end ends the call by.
    number: u64,
}

impl Watch for Shown<'_> {
    fn begun(&mut self, cwd: &str) {
        self.begun = (super::now().as_millis(), cwd.to_owned());
    }

    fn output(&mut self, bytes: &[u8]) {
        // The run is told in another way what came of it.
        if self.asked.is_some() {
            return;
        }
        self.tail.extend_from_slice(bytes);
        let extra = self.tail.len().saturating_sub(2 * TAIL);
        self.tail.drain(..extra);
        if self.work.emitter.may_show_output() {
            let mut tail = Tail::new(TAIL);
            tail.push(&self.tail);
            let tail = tail.finish().0;
            let (started, cwd) = &self.begun;
            let details =
                json!({ "status": "running", "startedAt": started, "cwd": cwd, "tail": tail });
            self.work.emitter.emit(What::ToolOutput {
                call: self.work.call.id.clone(),
                tool: self.work.call.name.clone(),
                tail,
                details,
            });
        }
    }

    fn asked(&mut self, pending: &Pending) {
        match self.work.approvals {
            Approvals::Wait => {}
            Approvals::FollowUp => {
                self.asked = Some(pending.id.clone());
                // A question that people were asked stays theirs to answer, whatever becomes of the run.
                self.work.active.let_go(self.number);
                let _there = self.tell.send(First::Asked(pending.clone(), self.begun.1.clone()));
            }
        }
    }
}

/// Characters of a result that a session is told later.
const FOLLOW_UP: usize = 400;
/// How long a message to another session is waited for, unless the model says otherwise.
pub(super) const ANSWER_WAIT: Duration = Duration::from_secs(30);
