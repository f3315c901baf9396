//! `clawpen ps|attach|kill|logs`: commands that were left running in a sandbox.
//!
//! None of these makes a sandbox: what does not run has no processes.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::Duration;

use clawpen_engine::audit::Ending;
use clawpen_engine::call;
use clawpen_engine::channel::{AttachEnd, CallError, Channel, ExecIo, Input, Order};
use clawpen_engine::lifecycle::{Caller, Held};
use clawpen_engine::terminal::{Source, Streams, Tty};
use clawpen_rules::session::key::SessionKey;
use clawpen_wire::supervisor::{End, ProcessEntry, ProcessState, Reach, StdinMode, Stream};
use serde_json::{Value, json};

use super::CommandError;
use super::exec::{Opened, prepare};
use super::gateway_logs::Reading;
use super::sandboxes::duration;
use crate::args::Format;
use crate::args::lifecycle::{AttachArgs, KillArgs, LogsArgs, ProcessArgs, ProcessCommand, PsArgs};
use crate::exit::{self, Outcome};
use crate::output::{Output, safe};

pub(crate) fn run(command: ProcessCommand, output: &Output) -> Result<Outcome, CommandError> {
    match command {
        ProcessCommand::Ps(args) => ps(&args, output),
        ProcessCommand::Attach(args) => attach(&args, output),
        ProcessCommand::Kill(args) => kill(&args, output),
        ProcessCommand::Logs(args) => logs(args, output),
    }
}

/// One command and where it runs.
struct Shown {
    sandbox: String,
    entry: ProcessEntry,
}

fn ps(args: &PsArgs, output: &Output) -> Result<Outcome, CommandError> {
    let opened = prepare(&args.target, output)?;
    let lifecycle = opened.yard.lifecycle();
    let mut shown = Vec::new();
    let own = opened.prepared.name();
    for row in opened.yard.database.registry().list()? {
        if !args.all && row.name != own {
            continue;
        }
        let caller = Caller { call: "ps", session: None };
        let listed = match lifecycle.visit(&row, &caller) {
            Ok(Some(mut held)) => held.sandbox.channel().and_then(Channel::processes),
            Ok(None) => continue,
            Err(error) => {
                output.note(&format!("warning: {}", crate::config_report::chain(&error)));
                continue;
            }
        };
        let what = format!("list the commands in `{}`", safe(&row.name));
        let entries = listed.map_err(|cause| CommandError::Call { what, cause })?;
        let sandbox = row.name;
        shown.extend(entries.into_iter().map(|entry| Shown { sandbox: sandbox.clone(), entry }));
    }
    match args.format.format() {
        Format::Json => output.json(&shown.iter().map(as_json).collect::<Vec<_>>())?,
        Format::Text => output.lines(&table(&shown))?,
    }
    Ok(Outcome::Done)
}

fn state(entry: &ProcessEntry) -> String {
    match entry.state {
        ProcessState::Running => "running".to_owned(),
        ProcessState::Exited(exited) => match exited.end {
            End::Code(code) => format!("exited {code}"),
            End::Signal(signal) => format!("signal {signal}"),
        },
    }
}

fn as_json(shown: &Shown) -> Value {
    let Shown { sandbox, entry } = shown;
    let (running, code, signal) = match entry.state {
        ProcessState::Running => (true, None, None),
        ProcessState::Exited(exited) => match exited.end {
            End::Code(code) => (false, Some(code), None),
            End::Signal(signal) => (false, None, Some(signal)),
        },
    };
    json!({
        "sandbox": sandbox,
        "process": entry.process,
        "pid": entry.pid,
        "command": entry.command.to_string_lossy(),
        "background": entry.background,
        "running": running,
        "exitCode": code,
        "signal": signal,
        "ageMs": entry.age_us / 1000,
        "writtenBytes": entry.written,
        "keptFromByte": entry.kept_from,
    })
}

fn table(shown: &[Shown]) -> Vec<String> {
    let mut lines = vec![format!(
        "{:>6}  {:10}  {:>8}  {:>10}  {:34}  COMMAND",
        "ID", "STATE", "AGE", "WRITTEN", "SANDBOX"
    )];
    for Shown { sandbox, entry } in shown {
        lines.push(format!(
            "{:>6}  {:10}  {:>8}  {:>10}  {:34}  {}",
            entry.process,
            state(entry),
            duration(Duration::from_micros(entry.age_us)),
            entry.written,
            safe(sandbox),
            safe(&entry.command.to_string_lossy()),
        ));
    }
    lines
}

/// The session's sandbox if it runs.
fn reach(opened: &Opened) -> Result<Held<'_>, CommandError> {
    let name = opened.prepared.name();
    let nothing = || CommandError::Question {
        what: format!("the sandbox `{}` does not run; start something with exec", safe(name)),
    };
    let row = opened.yard.database.registry().get(name)?.ok_or_else(nothing)?;
    let session = opened.prepared.explanation.session.key().map(SessionKey::as_str);
    let caller = Caller { call: "process", session };
    opened.yard.lifecycle().visit(&row, &caller)?.ok_or_else(nothing)
}

fn failed(what: &str, args: &ProcessArgs) -> impl FnOnce(CallError) -> CommandError {
    let what = format!("{what} process {}", args.process);
    move |cause| CommandError::Call { what, cause }
}

fn attach(args: &AttachArgs, output: &Output) -> Result<Outcome, CommandError> {
    let stdin = if args.interactive { StdinMode::Pipe } else { StdinMode::Null };
    follow(&args.process, stdin, output)
}

fn follow(args: &ProcessArgs, stdin: StdinMode, output: &Output) -> Result<Outcome, CommandError> {
    let opened = prepare(&args.target, output)?;
    let mut held = reach(&opened)?;
    let input = io::stdin();
    let (mut out, mut err) = (io::stdout().lock(), io::stderr().lock());
    let source = match stdin {
        StdinMode::Null => Source::Nothing,
        StdinMode::Pipe => Source::Descriptor(input.as_fd()),
    };
    let streams = Streams::new(&mut out, &mut err, source, Tty::None)?;
    let mut leaving = Leaving(streams);
    let channel = held.sandbox.channel().map_err(failed("reach", args))?;
    let ended = channel.attach(args.process, 0, stdin, &mut leaving);
    drop(leaving);
    drop((out, err));
    match ended {
        Ok(AttachEnd::Exited(exited)) => Ok(Outcome::Code(match call::ending(&exited) {
            Ending::Exit(code) => u8::try_from(code).unwrap_or(u8::MAX),
            Ending::Signal(signal) => u8::try_from(signal).unwrap_or(0).saturating_add(128),
            Ending::TimedOut => exit::TIMED_OUT,
            Ending::Lost => exit::NO_SANDBOX,
        })),
        Ok(AttachEnd::Detached) => Ok(Outcome::Done),
        Err(error) => Err(failed("follow", args)(error)),
    }
}

/// A signal means: enough seen. The command goes on.
struct Leaving<'a>(Streams<'a>);

impl ExecIo for Leaving<'_> {
    fn output(&mut self, stream: Stream, bytes: &[u8]) -> io::Result<()> {
        self.0.output(stream, bytes)
    }

    fn input(&self) -> Input<'_> {
        self.0.input()
    }

    fn read_input(&mut self, room: &mut [u8]) -> io::Result<usize> {
        self.0.read_input(room)
    }

    fn orders(&self) -> Option<BorrowedFd<'_>> {
        self.0.orders()
    }

    fn next_order(&mut self) -> io::Result<Option<Order>> {
        Ok(match self.0.next_order()? {
            Some(Order::Signal { .. } | Order::Stop) => Some(Order::Stop),
            other => other,
        })
    }
}

fn kill(args: &KillArgs, output: &Output) -> Result<Outcome, CommandError> {
    let opened = prepare(&args.process.target, output)?;
    let mut held = reach(&opened)?;
    let reach = if args.one { Reach::Process } else { Reach::Tree };
    let channel = held.sandbox.channel().map_err(failed("reach", &args.process))?;
    let killed = channel.kill(args.process.process, args.signal, reach);
    killed.map_err(failed("signal", &args.process))?;
    Ok(Outcome::Done)
}

fn logs(args: LogsArgs, output: &Output) -> Result<Outcome, CommandError> {
    let LogsArgs { process, target, follow: goes_on, journal } = args;
    let Some(process) = process else {
        let reading = if goes_on { Reading::Follow } else { Reading::Once };
        return super::gateway_logs::run(&journal, reading, output);
    };
    let args = ProcessArgs { process, target };
    if goes_on {
        return follow(&args, StdinMode::Null, output).map(|_| Outcome::Done);
    }
    kept(&args, output)
}

/// What is kept of a command's output.
fn kept(args: &ProcessArgs, output: &Output) -> Result<Outcome, CommandError> {
    let ProcessArgs { process, target } = args;
    let opened = prepare(target, output)?;
    let mut held = reach(&opened)?;
    let channel = held.sandbox.channel().map_err(failed("reach", args))?;
    let listed = channel.processes().map_err(failed("look for", args))?;
    let Some(entry) = listed.into_iter().find(|entry| entry.process == *process) else {
        return Err(CommandError::Question { what: format!("there is no process {process}") });
    };
    if entry.kept_from > 0 {
        output.note(&format!("note: the first {} bytes are no longer kept", entry.kept_from));
    }
    let (out, err) = (io::stdout().lock(), io::stderr().lock());
    let left = entry.written - entry.kept_from;
    let mut until = Until { out, err, left };
    if left == 0 {
        return Ok(Outcome::Done);
    }
    match channel.attach(*process, 0, StdinMode::Null, &mut until) {
        Ok(_) => Ok(Outcome::Done),
        // All that there was when we looked.
        Err(CallError::Local(_)) if until.left == 0 => Ok(Outcome::Done),
        Err(error) => Err(failed("read", args)(error)),
    }
}

/// Prints so many bytes and then stops the call.
struct Until<'a> {
    out: io::StdoutLock<'a>,
    err: io::StderrLock<'a>,
    left: u64,
}

impl ExecIo for Until<'_> {
    fn output(&mut self, stream: Stream, bytes: &[u8]) -> io::Result<()> {
        let room = usize::try_from(self.left).unwrap_or(usize::MAX);
        let part = bytes.get(..room.min(bytes.len())).unwrap_or_default();
        let sink: &mut dyn io::Write = match stream {
            Stream::Stdout => &mut self.out,
            Stream::Stderr => &mut self.err,
        };
        sink.write_all(part)?;
        sink.flush()?;
        self.left -= part.len() as u64;
        if self.left == 0 { Err(io::ErrorKind::ConnectionAborted.into()) } else { Ok(()) }
    }
}
