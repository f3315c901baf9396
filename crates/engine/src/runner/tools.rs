//! A model's calls, carried out side by side: each goes the way of every other client's.

use std::thread;
use std::time::Duration;

use base64::Engine as _;
use clawpen_rules::compaction;
use clawpen_rules::models::Images;
use clawpen_rules::tools::output::{TAIL, Tail};
use clawpen_rules::tools::sessions::SessionTool;
use serde_json::{Value, json};

use super::events::{Emitter, What};
use super::run::Run;
use crate::call::{ToolRequest, Watch};
use crate::models::talk::{Call, Part, Success, ToolResult};
use crate::tools::{Answer, Block};

/// Calls of one run that are carried out at once.
const AT_ONCE: usize = 16;

/// What became of a call.
pub(super) struct Done {
    pub(super) result: ToolResult,
    pub(super) details: Value,
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
        let Done { result, details } = &done;
        self.emitter.emit(What::ToolEnded {
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
                Ok(Ok(value)) => {
                    let text = serde_json::to_string_pretty(&value).unwrap_or_default();
                    self.answered(call, Answer { content: vec![Block::Text(text)], details: value })
                }
                Ok(Err(what)) => failed(call, what, "tool"),
                Err(error) => failed(call, error.for_model(), error.code()),
            };
        }
        let mut watch = Shown::new(&self.emitter, call);
        let mut request = ToolRequest {
            tool: &call.name,
            arguments: &call.arguments,
            stop: &self.active.stop,
            watch: &mut watch,
        };
        match self.inner.desk.call(&self.request.who, &mut request) {
            Ok(answer) => self.answered(call, answer),
            Err(error) => failed(call, error.for_model(), error.code()),
        }
    }

    /// What the model sees of an answer.
    fn answered(&self, call: &Call, answer: Answer) -> Done {
        let model = &self.models.first().model;
        let part = |block: Block| match block {
            Block::Text(text) => {
                Part::Text(compaction::fit_result(&text, model.context_window).unwrap_or(text))
            }
            Block::Image { mime_type, bytes } => match model.images {
                Images::Seen => Part::Image {
                    mime_type: mime_type.to_owned(),
                    data: base64::engine::general_purpose::STANDARD.encode(bytes),
                },
                Images::Unseen => {
                    Part::Text("[an image, which this model does not see]".to_owned())
                }
            },
        };
        let content = answer.content.into_iter().map(part).collect();
        let success = match answer.details["status"].as_str() {
            Some("failed") => Success::No,
            _ => Success::Yes,
        };
        let result =
            ToolResult { call: call.id.clone(), tool: call.name.clone(), content, success };
        Done { result, details: answer.details }
    }
}

fn failed(call: &Call, what: String, code: &str) -> Done {
    let content = vec![Part::Text(what)];
    let (id, tool) = (call.id.clone(), call.name.clone());
    let result = ToolResult { call: id, tool, content, success: Success::No };
    // Nobody can be asked here; where somebody can, the call waits.
    let status = if code == "needs-approval" { "approval-unavailable" } else { "error" };
    Done { result, details: json!({ "status": status, "code": code }) }
}

/// Shows the end of what a command writes, now and then.
struct Shown<'a> {
    emitter: &'a Emitter,
    call: &'a Call,
    tail: Vec<u8>,
}

impl<'a> Shown<'a> {
    fn new(emitter: &'a Emitter, call: &'a Call) -> Self {
        Self { emitter, call, tail: Vec::new() }
    }
}

impl Watch for Shown<'_> {
    fn output(&mut self, bytes: &[u8]) {
        self.tail.extend_from_slice(bytes);
        let extra = self.tail.len().saturating_sub(2 * TAIL);
        self.tail.drain(..extra);
        if self.emitter.may_show_output() {
            let mut tail = Tail::new(TAIL);
            tail.push(&self.tail);
            self.emitter.emit(What::ToolOutput {
                call: self.call.id.clone(),
                tool: self.call.name.clone(),
                tail: tail.finish().0,
            });
        }
    }
}

/// How long a message to another session is waited for, unless the model says otherwise.
pub(super) const ANSWER_WAIT: Duration = Duration::from_secs(30);
