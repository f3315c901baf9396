//! How a run of an agent is heard by a request that waits for its words, and who such a request speaks for.
//!
//! A client that leaves before the end ends its run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clawpen_engine::random;
use clawpen_engine::runner::AbortReason;
use clawpen_rules::access::{Role, Scope, Scopes};
use serde_json::Value;
use tokio::task::JoinError;

use crate::dispatch::Caller as Asker;
use crate::hub::{Follows, Inbox, Member, Out, Speaks, queue};
use crate::shared::Shared;
use crate::socket::Caller;

/// Whoever comes by this door may write, and nothing more.
pub(super) fn asker(caller: &Caller, connection: &str) -> Asker {
    Asker {
        role: Role::Operator,
        scopes: Scopes::of([Scope::Write.as_str()]),
        client_id: "openai-http".to_owned(),
        client_mode: "backend".to_owned(),
        display_name: None,
        device: None,
        connection: connection.to_owned(),
        address: caller.address.ip(),
        hears_tools: false,
    }
}

/// What is heard of a run.
pub(super) enum Heard {
    Piece(String),
    End,
    Failed(String),
}

/// How a run is ended whose listener has gone, also where it begins only then.
#[derive(Clone)]
struct Ending {
    shared: Arc<Shared>,
    run: String,
    session: String,
    is_gone: Arc<AtomicBool>,
}

impl Ending {
    /// May block.
    fn carry_out(&self) {
        let runner = &self.shared.runner;
        let spelled = runner.session_of(&self.run).unwrap_or_else(|| self.session.clone());
        runner.abort(&spelled, Some(&self.run), AbortReason::Rpc);
    }
}

/// Hears of one run. Gone before the run's end, it ends it.
pub(super) struct Listener {
    pub(super) connection: String,
    inbox: Inbox,
    ending: Ending,
    /// How much of the text was heard.
    heard: usize,
    is_over: bool,
}

impl Listener {
    pub(super) fn new(shared: &Arc<Shared>, run: &str, session: &str) -> Self {
        let (outbox, inbox) = queue();
        let connection = random::uuid();
        let member = Member {
            outbox,
            role: Role::Operator,
            scopes: Scopes::of([Scope::Read.as_str()]),
            device: None,
            follows: Follows::default(),
            speaks: Speaks::Newer,
        };
        shared.hub.join(&connection, member);
        let ending = Ending {
            shared: shared.clone(),
            run: run.to_owned(),
            session: session.to_owned(),
            is_gone: Arc::default(),
        };
        Self { connection, inbox, ending, heard: 0, is_over: false }
    }

    /// Sends the message whose run is heard. Whoever leaves while it is sent ends it all the same.
    pub(super) async fn send<T: Send + 'static>(
        &self,
        start: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, JoinError> {
        let ending = self.ending.clone();
        let sent = tokio::task::spawn_blocking(move || {
            let sent = start();
            // Either this sees that the listener has gone, or the listener finds the run.
            if ending.is_gone.load(Ordering::SeqCst) {
                ending.carry_out();
            }
            sent
        });
        sent.await
    }

    pub(super) async fn next(&mut self) -> Heard {
        loop {
            if self.is_over {
                return Heard::End;
            }
            let text = match self.inbox.receiver.recv().await {
                Some(Out::Text(text)) => text,
                Some(Out::Close(..)) | None => {
                    self.is_over = true;
                    return Heard::Failed("the gateway stops".to_owned());
                }
            };
            self.inbox.sent(text.len());
            if !text.contains(&self.ending.run) {
                continue;
            }
            let Ok(frame) = serde_json::from_str::<Value>(&text) else { continue };
            let payload = &frame["payload"];
            if frame["event"] != "chat" || payload["runId"] != *self.ending.run {
                continue;
            }
            let all = payload["message"]["content"][0]["text"].as_str().unwrap_or_default();
            let piece = all.get(self.heard..).unwrap_or_default().to_owned();
            self.heard = self.heard.max(all.len());
            match payload["state"].as_str() {
                Some("error") => {
                    self.is_over = true;
                    let why = payload["errorMessage"].as_str().unwrap_or("the run failed");
                    return Heard::Failed(why.to_owned());
                }
                Some("aborted") => {
                    self.is_over = true;
                    return Heard::Failed("the run was ended".to_owned());
                }
                Some("final") => self.is_over = true,
                _ => {}
            }
            if !piece.is_empty() {
                return Heard::Piece(piece);
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.ending.shared.hub.leave(&self.connection);
        if !self.is_over {
            self.ending.is_gone.store(true, Ordering::SeqCst);
            let ending = self.ending.clone();
            // Ending takes locks that must not be waited for here.
            drop(tokio::task::spawn_blocking(move || ending.carry_out()));
        }
    }
}
