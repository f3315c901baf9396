//! Agents at work: a scripted model, real sandboxes. Needs user namespaces.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a test without its set-up cannot go on")]

mod approvals;
mod attacks;
mod chat;
mod flow;
mod image;
mod many;
mod notice;
mod sessions;
mod stop;

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use clawpen_engine::audit::Door;
use clawpen_engine::call::{Desk, Who};
use clawpen_engine::runner::{
    Answers, Approvals, Ended, Listener, Origin, Request, RunEvent, Runner, What, Wishes,
};
use clawpen_rules::directives::Authority;
use clawpen_rules::elevated::Sender as Speaker;
use clawpen_tests::home::Home;
use clawpen_tests::model_server::{ModelServer, Wire};
use serde_json::Value;

/// Long enough for a slow machine; nothing waits for it unless something is broken.
const LONG: Duration = Duration::from_secs(120);

struct Ears(Sender<RunEvent>);

impl Listener for Ears {
    fn event(&self, event: RunEvent) {
        let _over = self.0.send(event);
    }
}

/// A home with an agent, and everything that its runs tell.
struct Stage {
    runner: Runner,
    events: Receiver<RunEvent>,
    threads: Option<tokio::runtime::Runtime>,
    home: Home,
}

impl Stage {
    fn new(server: &ModelServer, wire: Wire, more: &str) -> Self {
        Self::with_config(&server.config(wire, more))
    }

    fn with_config(config: &str) -> Self {
        let home = Home::with_config(config);
        let threads = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let state = home.path(".openclaw");
        let desk = Arc::new(Desk::of_state_dir(state.to_str().unwrap(), Door::Cli));
        let (sender, events) = mpsc::channel();
        let runner = Runner::new(desk, threads.handle().clone(), Arc::new(Ears(sender)));
        Self { runner, events, threads: Some(threads), home }
    }

    /// Sends a message and waits for the end of its run.
    fn say(&self, session: &str, message: &str) -> Ended {
        self.send(request(session, message))
    }

    fn send(&self, request: Request) -> Ended {
        let started = self.runner.start(request).unwrap();
        self.runner.wait_blocking(&started.run, LONG).unwrap()
    }

    /// The next event that this finds something in.
    #[track_caller]
    fn event<T>(&self, mut find: impl FnMut(&RunEvent) -> Option<T>) -> T {
        loop {
            let event = self.events.recv_timeout(LONG).unwrap();
            if let Some(found) = find(&event) {
                return found;
            }
        }
    }

    fn transcript(&self, session: &str) -> Vec<Value> {
        let place = self.runner.place(&request(session, "").who).unwrap();
        let entry = place.entry().unwrap();
        let path = place.sessions.transcript(entry["sessionId"].as_str().unwrap()).unwrap();
        let text = std::fs::read_to_string(path).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn audit(&self) -> Vec<Value> {
        let run = self.home.run(&["audit", "--json"]);
        let text = run.stdout.trim();
        let parsed: Value = serde_json::from_str(text).unwrap_or_else(|_| {
            Value::Array(text.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
        });
        match parsed {
            Value::Array(records) => records,
            other => other["records"].as_array().cloned().unwrap_or_else(|| vec![other]),
        }
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if let Some(threads) = self.threads.take() {
            threads.block_on(self.runner.close(LONG));
            threads.shutdown_timeout(LONG);
        }
    }
}

fn request(session: &str, message: &str) -> Request {
    Request {
        who: Who {
            session: Some(session.to_owned()),
            provider: "cli",
            sender: Speaker { id: Some("uid:0".into()), ..Speaker::default() },
            ..Who::default()
        },
        authority: Authority::Owner,
        answers: Answers::Nobody,
        message: message.to_owned(),
        attachments: Vec::new(),
        run: None,
        timeout: None,
        origin: Origin::Person,
        approvals: Approvals::Wait,
        wishes: Wishes::default(),
    }
}

#[track_caller]
fn done(ended: Ended) -> String {
    match ended {
        Ended::Done { text, .. } | Ended::Replied { text } => text,
        other => panic!("{other:?}"),
    }
}

/// What a tool said, by the call's place in the talk.
fn results(transcript: &[Value]) -> Vec<&Value> {
    transcript
        .iter()
        .map(|line| &line["message"])
        .filter(|message| message["role"] == "toolResult")
        .collect()
}

fn result_text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_default()
}

fn is_output(event: &RunEvent, needle: &str) -> Option<()> {
    match &event.what {
        What::ToolOutput { tail, .. } if tail.contains(needle) => Some(()),
        _ => None,
    }
}
