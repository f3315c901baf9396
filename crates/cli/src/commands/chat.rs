//! `clawpen chat`: a conversation with an agent whose every tool call is penned.
//!
//! Answers are printed as they come, what tools do beside them. Ctrl-C ends the run, and at the prompt the conversation.
//! Whatever a model, a tool or a file says is made harmless before a terminal sees it.

mod prompt;
mod show;

use std::collections::HashSet;
use std::io::{self, IsTerminal as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use clawpen_engine::audit::Door;
use clawpen_engine::broker::Approval;
use clawpen_engine::call::{Attachment, Desk, ToolCallError, Who};
use clawpen_engine::runner::{
    AbortReason, Answers, Approvals, Ended, Listener, Origin, Request, RunEvent, Runner,
    StartError, What, Wishes,
};
use clawpen_rules::directives::Authority;
use clawpen_rules::tools::image::Image;
use clawpen_rules::workspace::media::MAX_BYTES;
use serde_json::{Value, json};

use super::CommandError;
use super::approvals::pending::details;
use crate::args::Format;
use crate::args::chat::ChatArgs;
use crate::exit::Outcome;
use crate::output::Output;
use prompt::{Prompt, Typed};
use show::Screen;

/// The channel of `tools.elevated.allowFrom` for this door.
const PROVIDER: &str = "cli";
/// Ended by Ctrl-C, as shells count it.
const INTERRUPTED: u8 = 130;
/// How long runs have to end when the conversation is over.
const LAST_MOMENTS: Duration = Duration::from_secs(10);
/// How often it is looked whether something waits for an answer.
const LOOK: Duration = Duration::from_millis(300);
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
    /// A line was typed; `None`: there are no more.
    Line(io::Result<Option<String>>),
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
    prompt: Prompt,
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
    let prompt = Prompt::new(sender.clone());
    let runner = Runner::new(desk, threads.handle().clone(), Arc::new(Ears(sender)));
    let mut who = Who {
        session: args.subject.session.clone(),
        agent: args.subject.agent.clone(),
        backend: args.backend.clone(),
        ..Who::default()
    };
    who.provider = PROVIDER;
    who.sender.id = Some(format!("uid:{}", super::mcp::own_user()));
    let place = runner.place(&who).map_err(|error| match error {
        // With its file, line and what to do.
        ToolCallError::Config(error) => error.into(),
        error => failed(&error.for_model()),
    })?;
    let chat = Chat {
        runner: runner.clone(),
        who,
        session: place.key,
        happenings,
        prompt,
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
            let sign = if is_person { self.output.bold("> ") } else { String::new() };
            let line = match self.line(&sign)? {
                Typed::Line(line) => line,
                Typed::End | Typed::Interrupt => {
                    if is_person {
                        self.output.text("\n")?;
                    }
                    return Ok(last);
                }
            };
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

    /// The next line. What happens meanwhile, such as the end of a sub-agent or of a command in the background, is shown.
    fn line(&self, sign: &str) -> Result<Typed, CommandError> {
        self.output.text(sign)?;
        let mut screen = Screen::new(self.output, self.format);
        if !sign.is_empty() {
            screen.mid_line();
        }
        if let Some(typed) = self.prompt.ask() {
            return typed_in(typed);
        }
        loop {
            match self.happenings.recv() {
                // Nothing can be typed any more.
                Err(_gone) => return Ok(Typed::End),
                Ok(Happening::Interrupt) => return Ok(Typed::Interrupt),
                Ok(Happening::Line(line)) => {
                    self.prompt.came();
                    return typed_in(line);
                }
                Ok(Happening::Run(event)) => {
                    if screen.beside(&event, &self.session)? == show::Shown::Something {
                        self.output.text(sign)?;
                        screen.mid_line();
                    }
                }
            }
        }
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
            wishes: Wishes::default(),
        });
        let started = started.map_err(not_started)?;
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
                // Typed at a question that was left; the next prompt takes it.
                Ok(Happening::Line(line)) => self.prompt.keep(line),
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
        if self.format == Format::Json {
            return Ok(());
        }
        let waiting = self.runner.waiting(&self.session);
        for approval in waiting.map_err(|error| failed(&error.for_model()))? {
            if !shown.insert(approval.id.to_string()) {
                continue;
            }
            if io::stdin().is_terminal() {
                self.ask_about(&approval)?;
            } else {
                self.output.note(&format!(
                    "  waits for your answer: `clawpen approvals watch` in a terminal, or `clawpen approvals resolve {} allow-once`",
                    approval.id.slug()
                ));
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
        let typed = self.line("run it? [o]nce, [a]lways, [d]eny, anything else: not now: ")?;
        let line = match typed {
            Typed::Line(line) => line,
            Typed::End => String::new(),
            Typed::Interrupt => {
                self.runner.abort(&self.session, None, AbortReason::Stop);
                return Ok(());
            }
        };
        let answer = match line.trim() {
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
            wishes: Wishes::default(),
        };
        // Its reply comes as an event of its own.
        self.runner.start(request).map_err(not_started)?;
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

/// Why a message was not taken.
fn not_started(error: StartError) -> CommandError {
    match error {
        StartError::Session(ToolCallError::Config(error)) => error.into(),
        StartError::Session(error) => failed(&error.for_model()),
        error @ (StartError::Empty | StartError::ZeroByte | StartError::Closed) => {
            failed(&error.to_string())
        }
    }
}

fn typed_in(line: io::Result<Option<String>>) -> Result<Typed, CommandError> {
    let read = |cause| CommandError::Read { path: "standard input".to_owned(), cause };
    Ok(line.map_err(read)?.map_or(Typed::End, Typed::Line))
}

/// A file as it is sent along.
fn attachment(path: &Path) -> Result<Attachment, CommandError> {
    use std::io::Read as _;
    let shown = || path.to_string_lossy().into_owned();
    let read = |cause| CommandError::Read { path: shown(), cause };
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(read)?;
    // One more, so that a file that is too large can be told from one that just fits.
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(read)?;
    if bytes.len() as u64 > MAX_BYTES {
        let most = clawpen_rules::tools::size(MAX_BYTES);
        return Err(failed(&format!(
            "`{}` cannot be attached: it has more than {most}; put it into the sandbox with `clawpen fs cp FILE pen:FILE`",
            shown()
        )));
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let extension = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
    let mime_type = match (Image::sniff(&bytes), extension.as_str()) {
        (Some(image), _) => image.mime_type(),
        (None, "pdf") => "application/pdf",
        (None, "json") => "application/json",
        (None, "txt" | "md" | "log" | "csv") => "text/plain",
        (None, _) => "application/octet-stream",
    };
    Ok(Attachment { name, mime_type: mime_type.to_owned(), bytes })
}
