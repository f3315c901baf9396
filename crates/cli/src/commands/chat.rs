//! `clawpen chat`: a conversation with an agent whose every tool call is penned.
//!
//! Answers are printed as they come, what tools do beside them. Ctrl-C ends the run, and at the prompt the conversation.
//! Whatever a model, a tool or a file says is made harmless before a terminal sees it.

mod show;

use std::collections::HashSet;
use std::io::{self, BufRead as _, IsTerminal as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use clawpen_engine::audit::Door;
use clawpen_engine::broker::Approval;
use clawpen_engine::call::{Attachment, Desk, Who};
use clawpen_engine::runner::{
    AbortReason, Answers, Approvals, Ended, Listener, Origin, Request, RunEvent, Runner, What,
};
use clawpen_rules::directives::Authority;
use serde_json::{Value, json};

use super::CommandError;
use super::approvals::pending::details;
use crate::args::Format;
use crate::args::chat::ChatArgs;
use crate::exit::Outcome;
use crate::output::Output;
use show::Screen;

/// The channel of `tools.elevated.allowFrom` for this door.
const PROVIDER: &str = "cli";
/// Ended by Ctrl-C, as shells count it.
const INTERRUPTED: u8 = 130;
/// How long runs have to end when the conversation is over.
const LAST_MOMENTS: Duration = Duration::from_secs(10);
/// How often it is looked whether something waits for an answer.
const LOOK: Duration = Duration::from_millis(300);
/// A file that is too large anyway is not read to its end.
const MAX_ATTACHMENT: u64 = 64 << 20;
const HELP: &str = "/attach FILE   send a file with the next message\n\
    /history [N]   what was said before\n\
    /new           begin anew\n\
    /status        model, sandbox, limits, tokens\n\
    /stop          end what runs (or Ctrl-C)\n\
    /compact       sum up what was said so far\n\
    /exec …        host=, security= and ask= of this session\n\
    /elevated …    on, ask, full or off\n\
    /approve …     answer what waits: /approve ID allow-once\n\
    /quit          leave (or Ctrl-D)";

/// What happens to a conversation.
enum Happening {
    Run(Box<RunEvent>),
    Interrupt,
}

struct Ears(Sender<Happening>);

impl Listener for Ears {
    fn event(&self, event: RunEvent) {
        // Nobody is there any more when the conversation is over.
        let _over = self.0.send(Happening::Run(Box::new(event)));
    }
}

/// A conversation.
struct Chat<'a> {
    runner: Runner,
    who: Who,
    session: String,
    happenings: Receiver<Happening>,
    output: &'a Output,
    timeout: Option<Duration>,
    format: Format,
}

pub(crate) fn run(args: &ChatArgs, output: &Output) -> Result<Outcome, CommandError> {
    let threads =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let threads = threads.map_err(|cause| CommandError::Question {
        what: format!("cannot start threads: {cause}"),
    })?;
    let desk = Arc::new(Desk::new(Door::Cli));
    let (sender, happenings) = mpsc::channel();
    let interrupts = sender.clone();
    drop(threads.spawn(async move {
        while tokio::signal::ctrl_c().await.is_ok() && interrupts.send(Happening::Interrupt).is_ok()
        {
        }
    }));
    let runner = Runner::new(desk, threads.handle().clone(), Arc::new(Ears(sender)));
    let mut who = Who {
        session: args.subject.session.clone(),
        agent: args.subject.agent.clone(),
        backend: args.backend.clone(),
        ..Who::default()
    };
    who.provider = PROVIDER;
    who.sender.id = Some(format!("uid:{}", super::mcp::own_user()));
    let place = runner.place(&who).map_err(|error| failed(&error.for_model()))?;
    let chat = Chat {
        runner: runner.clone(),
        who,
        session: place.key,
        happenings,
        output,
        timeout: args.timeout.map(Duration::from_secs),
        format: args.format.format(),
    };
    let outcome = chat.talk(args);
    threads.block_on(runner.close(LAST_MOMENTS));
    threads.shutdown_timeout(LAST_MOMENTS);
    outcome
}

fn failed(what: &str) -> CommandError {
    CommandError::Question { what: what.to_owned() }
}

impl Chat<'_> {
    fn talk(&self, args: &ChatArgs) -> Result<Outcome, CommandError> {
        let mut files = Vec::new();
        for path in &args.attach {
            files.push(attachment(path)?);
        }
        if args.history > 0 {
            self.history(args.history)?;
        }
        if let Some(message) = &args.message {
            return self.exchange(message, files);
        }
        let is_person = io::stdin().is_terminal() && self.format == Format::Text;
        if is_person {
            self.output.note(&format!(
                "{} (/help shows what can be said)",
                crate::output::safe(&self.session)
            ));
        }
        let mut last = Outcome::Done;
        loop {
            if is_person {
                self.output.text(&self.output.bold("> "))?;
            }
            let Some(line) = self.line()? else { return Ok(last) };
            let line = line.trim();
            let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
            match word {
                "" if files.is_empty() => {}
                "/quit" | "/exit" => return Ok(last),
                "/help" => self.output.note(HELP),
                "/history" => self.history(rest.trim().parse().unwrap_or(20))?,
                "/attach" => match attachment(Path::new(rest.trim())) {
                    Ok(file) => files.push(file),
                    Err(error) => self.output.note(&error.report()),
                },
                _ => match self.exchange(line, std::mem::take(&mut files)) {
                    Ok(outcome) => last = outcome,
                    Err(error) if is_person => self.output.note(&error.report()),
                    Err(error) => return Err(error),
                },
            }
        }
    }

    /// The next line; `None` at the end, or when a person wants to leave.
    fn line(&self) -> Result<Option<String>, CommandError> {
        let mut line = String::new();
        let count = io::stdin().lock().read_line(&mut line);
        let count = count
            .map_err(|cause| CommandError::Read { path: "standard input".to_owned(), cause })?;
        // Ctrl-C at the prompt ends the line as well.
        let is_interrupted =
            self.happenings.try_iter().any(|happening| matches!(happening, Happening::Interrupt));
        Ok((count > 0 && !is_interrupted).then_some(line))
    }

    /// Sends a message and shows what comes of it.
    fn exchange(
        &self,
        message: &str,
        attachments: Vec<Attachment>,
    ) -> Result<Outcome, CommandError> {
        let started = self.runner.start(Request {
            who: self.who.clone(),
            authority: Authority::Owner,
            answers: Answers::PersonHere,
            message: message.to_owned(),
            attachments,
            run: None,
            timeout: self.timeout,
            origin: Origin::Person,
            approvals: Approvals::Wait,
        });
        let started = started.map_err(|error| failed(&crate::config_report::chain(&error)))?;
        let mut screen = Screen::new(self.output, self.format);
        let mut shown = HashSet::new();
        loop {
            match self.happenings.recv_timeout(LOOK) {
                Err(RecvTimeoutError::Disconnected) => return Err(failed("the runner is gone")),
                // Nothing happens: perhaps a command waits for the person here.
                Err(RecvTimeoutError::Timeout) => self.ask(&mut shown)?,
                Ok(Happening::Interrupt) => {
                    self.runner.abort(&self.session, None, AbortReason::Stop);
                }
                Ok(Happening::Run(event)) if event.run != started.run => {
                    screen.beside(&event, &self.session)?;
                }
                Ok(Happening::Run(event)) => match event.what {
                    What::Ended(ended) => {
                        screen.ended(&ended)?;
                        return self.outcome(&started.run, &ended, &screen);
                    }
                    what => screen.show(&what)?,
                },
            }
        }
    }

    /// Asks the person here about commands of this session that wait for one; about each once.
    fn ask(&self, shown: &mut HashSet<String>) -> Result<(), CommandError> {
        if !io::stdin().is_terminal() || self.format == Format::Json {
            return Ok(());
        }
        let waiting = self.runner.waiting(&self.session);
        for approval in waiting.map_err(|error| failed(&error.for_model()))? {
            if shown.insert(approval.id.to_string()) {
                self.ask_about(&approval)?;
            }
        }
        Ok(())
    }

    fn ask_about(&self, approval: &Approval) -> Result<(), CommandError> {
        let id = approval.id.to_string();
        self.output.note("");
        for line in details(approval) {
            self.output.note(&line);
        }
        self.output.text("run it? [o]nce, [a]lways, [d]eny, anything else: not now: ")?;
        let answer = match self.line()?.unwrap_or_default().trim() {
            "o" | "once" => "allow-once",
            "a" | "always" => "allow-always",
            "d" | "deny" => "deny",
            _ => return Ok(()),
        };
        let request = Request {
            who: self.who.clone(),
            authority: Authority::Owner,
            answers: Answers::PersonHere,
            message: format!("/approve {id} {answer}"),
            attachments: Vec::new(),
            run: None,
            timeout: None,
            origin: Origin::Person,
            approvals: Approvals::Wait,
        };
        // Its reply comes as an event of its own.
        self.runner.start(request).map_err(|error| failed(&crate::config_report::chain(&error)))?;
        Ok(())
    }

    fn outcome(
        &self,
        run: &str,
        ended: &Ended,
        screen: &Screen<'_>,
    ) -> Result<Outcome, CommandError> {
        if self.format == Format::Json {
            self.output.json(&self.result(run, ended, screen))?;
        }
        match ended {
            Ended::Done { .. } | Ended::Replied { .. } => Ok(Outcome::Done),
            Ended::Aborted { .. } => Ok(Outcome::Code(INTERRUPTED)),
            Ended::Failed { .. } if self.format == Format::Json => {
                Ok(Outcome::Code(crate::exit::ERROR))
            }
            Ended::Failed { error } => Err(failed(error)),
        }
    }

    fn result(&self, run: &str, ended: &Ended, screen: &Screen<'_>) -> Value {
        let mut result =
            json!({ "runId": run, "sessionKey": self.session, "tools": screen.tools() });
        match ended {
            Ended::Done { text, usage, .. } => {
                result["status"] = json!("ok");
                result["text"] = json!(text);
                result["usage"] = json!({
                    "input": usage.input,
                    "output": usage.output,
                    "cacheRead": usage.cache_read,
                    "cacheWrite": usage.cache_write,
                    "totalTokens": usage.total(),
                });
            }
            Ended::Replied { text } => {
                result["status"] = json!("ok");
                result["text"] = json!(text);
            }
            Ended::Failed { error } => {
                result["status"] = json!("error");
                result["error"] = json!(error);
            }
            Ended::Aborted { why, text } => {
                result["status"] = json!("aborted");
                result["stopReason"] = json!(why.as_str());
                result["text"] = json!(text);
            }
        }
        result
    }

    /// Shows what was said before.
    fn history(&self, count: usize) -> Result<(), CommandError> {
        let place = self.runner.place(&self.who).map_err(|error| failed(&error.for_model()))?;
        let entry = place.entry().map_err(|error| failed(&error.to_string()))?;
        let id = entry.get("sessionId").and_then(Value::as_str).unwrap_or_default();
        let messages = place.sessions.messages(id).map_err(|error| failed(&error.to_string()))?;
        let lines: Vec<String> =
            messages.iter().filter_map(|message| show::line(&message.body)).collect();
        let from = lines.len().saturating_sub(count);
        for line in lines.iter().skip(from) {
            self.output.note(line);
        }
        Ok(())
    }
}

/// A file as it is sent along.
fn attachment(path: &Path) -> Result<Attachment, CommandError> {
    use std::io::Read as _;
    let read = |cause| CommandError::Read { path: path.to_string_lossy().into_owned(), cause };
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(read)?;
    file.take(MAX_ATTACHMENT).read_to_end(&mut bytes).map_err(read)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let extension = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
    let mime_type = match extension.as_str() {
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "pdf" => "application/pdf",
        "json" => "application/json",
        "txt" | "md" | "log" | "csv" => "text/plain",
        _ => "application/octet-stream",
    };
    Ok(Attachment { name, mime_type: mime_type.to_owned(), bytes })
}
