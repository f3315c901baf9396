//! `clawpen exec` and `clawpen shell`: one command in a sandbox.
//!
//! The exit code is the command's. What is ours to say goes to standard error and ends with a code
//! that no ordinary command uses (124 to 127, as `env`, `timeout` and `docker` do).

use std::ffi::{OsStr, OsString};
use std::io::{self, Read as _};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clawpen_engine::audit::{Door, Ending};
use clawpen_engine::backend::Sandbox;
use clawpen_engine::call::{self, About, Done, Keeping, Open, OpenError, Prepared, Tally, Target};
use clawpen_engine::channel::{CallError, Captured, Command};
use clawpen_engine::config_store::{self, Store};
use clawpen_engine::lifecycle::How;
use clawpen_engine::terminal::{self, RawMode, Source, Streams, Tty};
use clawpen_engine::yard::Yard;
use clawpen_wire::supervisor::{End, EnvVar, ErrorCode, Exited, StdinMode};
use serde_json::json;

use super::CommandError;
use crate::args::{ExecArgs, Format, ShellArgs, TargetArgs};
use crate::exit::{self, Outcome};
use crate::output::{Output, safe};

/// Output kept for `--json`, of each stream.
const JSON_BYTES: usize = 16 << 20;
/// Input taken for `--json`.
const JSON_INPUT: u64 = 64 << 20;
/// Output kept of a background command.
const KEPT_BYTES: u32 = 1 << 20;
/// A command that times out may tidy up for so long.
const GRACE: Duration = Duration::from_millis(500);

pub(crate) fn run(args: &ExecArgs, output: &Output) -> Outcome {
    let input = if args.interactive { Wants::Input } else { Wants::Nothing };
    let job = Job {
        argv: args.command.clone(),
        env: &args.env,
        cwd: args.cwd.as_deref(),
        timeout: args.timeout,
        input,
        terminal: if args.tty { Wants::Input } else { Wants::Nothing },
    };
    let done = if args.background.background {
        in_background(
            &job,
            &args.target,
            if args.json { Format::Json } else { Format::Text },
            output,
        )
    } else if args.json {
        as_json(&job, &args.target, output)
    } else {
        in_sandbox(&job, &args.target, output)
    };
    done.unwrap_or_else(|error| failed(&error, output))
}

/// A login shell: bash where there is one.
pub(crate) fn shell(args: &ShellArgs, output: &Output) -> Outcome {
    let is_terminal = terminal::is_terminal(io::stdin().as_fd());
    let script = "if [ -x /bin/bash ]; then exec /bin/bash -l; fi; exec /bin/sh -l";
    let job = Job {
        argv: ["/bin/sh", "-c", script].map(OsString::from).into(),
        env: &args.env,
        cwd: args.cwd.as_deref(),
        timeout: None,
        input: Wants::Input,
        terminal: if is_terminal { Wants::Input } else { Wants::Nothing },
    };
    in_sandbox(&job, &args.target, output).unwrap_or_else(|error| failed(&error, output))
}

/// What to run.
struct Job<'a> {
    argv: Vec<OsString>,
    env: &'a [String],
    cwd: Option<&'a Path>,
    timeout: Option<f64>,
    input: Wants,
    terminal: Wants,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wants {
    Nothing,
    Input,
}

/// A failure of ours, told and turned into a code.
fn failed(error: &CommandError, output: &Output) -> Outcome {
    output.note(&error.report());
    Outcome::Code(exit::NO_SANDBOX)
}

/// A session's sandbox, decided, and the state directory it belongs to.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) store: Store,
    pub(crate) prepared: Prepared,
    pub(crate) yard: Yard,
}

/// Finds the session's sandbox and whether it may be made; touches nothing.
pub(crate) fn without_yard(
    args: &TargetArgs,
    output: &Output,
) -> Result<(Store, Result<Prepared, OpenError>), CommandError> {
    let store = config_store::open()?;
    let files = store.loaded.config.files();
    for warning in store.warnings() {
        let text = crate::config_report::warning_text(warning, files, &store.locations);
        output.note(&format!("warning: {text}"));
    }
    let prepared = call::prepare(&store, &target(args));
    Ok((store, prepared))
}

fn target(args: &TargetArgs) -> Target<'_> {
    Target {
        session: args.subject.session.as_deref(),
        agent: args.subject.agent.as_deref(),
        backend: args.backend.as_deref(),
    }
}

/// The same, ready to run a call. What is refused is recorded too.
pub(crate) fn prepare(args: &TargetArgs, output: &Output) -> Result<Opened, CommandError> {
    let (store, prepared) = without_yard(args, output)?;
    let yard = Yard::open(&store.locations.state_dir)?;
    match prepared {
        Ok(prepared) => Ok(Opened { store, prepared, yard }),
        Err(error) => {
            call::record_refusal(&yard, &target(args), &about(args, "exec"), &error)?;
            Err(error.into())
        }
    }
}

/// What kind of call this is.
pub(crate) fn about<'a>(args: &TargetArgs, tool: &'a str) -> About<'a> {
    let keeping = if args.fresh { Keeping::Fresh } else { Keeping::Scope };
    About { door: Door::Cli, tool, keeping }
}

impl Opened {
    /// Runs one call, tells what is worth telling of its sandbox, and tidies up now and then.
    pub(crate) fn run<T>(
        &self,
        about: &About<'_>,
        output: &Output,
        job: impl FnOnce(&mut Open<'_>, &mut Tally) -> T,
    ) -> Result<Done<T>, CommandError> {
        let done = call::run(&self.yard, &self.prepared, about, job)?;
        if let Some(How::KeptStale(stale)) = &done.how {
            output.note(&format!("note: {}", safe(&stale.to_string())));
        }
        for note in done.notes.iter().chain(&call::tidy_now_and_then(&self.yard, &self.store)) {
            output.note(&format!("warning: {}", safe(note)));
        }
        Ok(done)
    }
}

/// A path of the sandbox as it was typed; a relative one begins at the working directory.
pub(crate) fn inside(prepared: &Prepared, path: &Path) -> PathBuf {
    Path::new(prepared.workdir()).join(path)
}

fn command(job: &Job<'_>, prepared: &Prepared, output: &Output) -> Result<Command, CommandError> {
    let mut command = Command::new(job.argv.iter().cloned());
    command.cwd = job.cwd.map(|cwd| inside(prepared, cwd));
    command.stdin = match job.input {
        Wants::Nothing => StdinMode::Null,
        Wants::Input => StdinMode::Pipe,
    };
    command.grace = GRACE;
    command.timeout = match job.timeout {
        None => None,
        Some(seconds) => Some(Duration::try_from_secs_f64(seconds).map_err(|_odd| {
            CommandError::Question { what: format!("--timeout {seconds} is no time") }
        })?),
    };
    let mut pairs = Vec::new();
    for entry in job.env {
        let pair = entry.split_once('=').ok_or_else(|| CommandError::Question {
            what: format!("--env {entry} is no variable; write it as NAME=VALUE"),
        })?;
        pairs.push(pair);
    }
    let filtered = prepared.environment(pairs);
    for (name, reason) in &filtered.blocked {
        output.note(&format!("note: variable {} stays outside: {reason}", safe(name)));
    }
    if job.terminal == Wants::Input {
        command.tty = Some(terminal::size(io::stdout().as_fd()));
        let kind = std::env::var_os("TERM").unwrap_or_else(|| "xterm-256color".into());
        command.env.push(EnvVar { name: "TERM".into(), value: kind });
    }
    let variable = |(name, value): (&str, &str)| EnvVar { name: name.into(), value: value.into() };
    command.env.extend(filtered.kept.iter().map(variable));
    Ok(command)
}

fn in_sandbox(
    job: &Job<'_>,
    target: &TargetArgs,
    output: &Output,
) -> Result<Outcome, CommandError> {
    let opened = prepare(target, output)?;
    let command = command(job, &opened.prepared, output)?;
    let done = opened.run(&about(target, "exec"), output, |open, tally| {
        attended(job, &command, open.sandbox(), tally)
    })?;
    outcome(done.value, &command, output)
}

/// Leaves the command running in the scope's sandbox.
fn in_background(
    job: &Job<'_>,
    target: &TargetArgs,
    format: Format,
    output: &Output,
) -> Result<Outcome, CommandError> {
    let opened = prepare(target, output)?;
    let command = command(job, &opened.prepared, output)?;
    let done = opened.run(&about(target, "exec"), output, |open, _| {
        open.sandbox().channel().and_then(|channel| channel.start(&command, KEPT_BYTES))
    })?;
    let started = match done.value {
        Ok(started) => started,
        Err(error) => return not_run(error, &command, output),
    };
    match format {
        Format::Text => output.lines(&[started.process.to_string()])?,
        Format::Json => output.json(&json!({
            "process": started.process,
            "pid": started.pid,
            "sandbox": { "backend": done.backend.as_str(), "name": opened.prepared.name() },
        }))?,
    }
    Ok(Outcome::Done)
}

/// Runs the command with our streams; the terminal is as it was when this returns, however it does.
fn attended(
    job: &Job<'_>,
    command: &Command,
    sandbox: &mut Sandbox,
    tally: &mut Tally,
) -> Result<Exited, CallError> {
    let (stdin, stdout) = (io::stdin(), io::stdout());
    let (mut out, mut err) = (io::stdout().lock(), io::stderr().lock());
    let source = match job.input {
        Wants::Nothing => Source::Nothing,
        Wants::Input => Source::Descriptor(stdin.as_fd()),
    };
    let tty = match command.tty {
        None => Tty::None,
        Some(_) => Tty::Follows(stdout.as_fd()),
    };
    // Signals are ours before the terminal is raw: none can end us in between.
    let mut streams = Streams::new(&mut out, &mut err, source, tty).map_err(CallError::Local)?;
    let is_raw =
        job.input == Wants::Input && command.tty.is_some() && terminal::is_terminal(stdin.as_fd());
    let raw = if is_raw { RawMode::enter(stdin.as_fd()).ok() } else { None };
    let channel = sandbox.channel()?;
    let ended = channel.exec(command, &mut tally.count(&mut streams));
    drop(raw);
    note_end(&ended, tally);
    ended
}

/// How it ended, for the record.
fn note_end(ended: &Result<Exited, CallError>, tally: &mut Tally) {
    tally.ending = match ended {
        Ok(exited) => Some(call::ending(exited)),
        // It did not start, and said so.
        Err(error) if error.failure().is_some() => None,
        Err(_) => Some(Ending::Lost),
    };
}

fn outcome(
    ended: Result<Exited, CallError>,
    command: &Command,
    output: &Output,
) -> Result<Outcome, CommandError> {
    let exited = match ended {
        Ok(exited) => exited,
        Err(error) => return not_run(error, command, output),
    };
    if exited.timed_out {
        let seconds = command.timeout.unwrap_or_default().as_secs_f64();
        output.note(&format!("note: killed after {seconds} seconds"));
        return Ok(Outcome::Code(exit::TIMED_OUT));
    }
    Ok(Outcome::Code(code(exited.end)))
}

/// 128 and the signal's number, as shells say it.
fn code(end: End) -> u8 {
    match end {
        End::Code(code) => u8::try_from(code).unwrap_or(u8::MAX),
        End::Signal(signal) => u8::try_from(signal).unwrap_or(0).saturating_add(128),
    }
}

fn not_run(error: CallError, command: &Command, output: &Output) -> Result<Outcome, CommandError> {
    let program = command.argv.first().map_or(OsStr::new(""), OsString::as_os_str);
    let program = safe(&program.to_string_lossy());
    let code = match error.failure().map(|failure| failure.code) {
        Some(ErrorCode::CommandNotFound) => exit::NOT_FOUND,
        Some(ErrorCode::NotExecutable) => exit::NOT_EXECUTABLE,
        _ if is_broken_pipe(&error) => return Ok(Outcome::Code(128 + 13)),
        _ => return Err(CommandError::Call { what: format!("run `{program}`"), cause: error }),
    };
    let error = CommandError::Call { what: format!("run `{program}`"), cause: error };
    output.note(&error.report());
    Ok(Outcome::Code(code))
}

/// Whoever read our output has left, as after `| head`.
fn is_broken_pipe(error: &CallError) -> bool {
    matches!(error, CallError::Local(cause) if cause.kind() == io::ErrorKind::BrokenPipe)
}

fn as_json(job: &Job<'_>, target: &TargetArgs, output: &Output) -> Result<Outcome, CommandError> {
    let opened = prepare(target, output)?;
    let command = command(job, &opened.prepared, output)?;
    let mut captured = Captured::new(JSON_BYTES);
    if job.input == Wants::Input {
        let mut input = Vec::new();
        io::stdin().lock().take(JSON_INPUT).read_to_end(&mut input)?;
        captured = captured.with_input(input);
    }
    let done = opened.run(&about(target, "exec"), output, |open, tally| {
        let channel = open.sandbox().channel()?;
        let ended = channel.exec(&command, &mut tally.count(&mut captured));
        note_end(&ended, tally);
        ended
    })?;
    let exited = match done.value {
        Ok(exited) => exited,
        Err(error) => return not_run(error, &command, output),
    };
    let signal = match exited.end {
        End::Code(_) => None,
        End::Signal(signal) => Some(signal),
    };
    let code = if exited.timed_out { exit::TIMED_OUT } else { code(exited.end) };
    output.json(&json!({
        "exitCode": code,
        "signal": signal,
        "timedOut": exited.timed_out,
        "stdout": String::from_utf8_lossy(&captured.stdout),
        "stderr": String::from_utf8_lossy(&captured.stderr),
        "droppedBytes": captured.dropped,
        "usage": {
            "wallMs": millis(exited.usage.wall_us),
            "userMs": millis(exited.usage.user_us),
            "systemMs": millis(exited.usage.system_us),
            "maxRssKib": exited.usage.max_rss_kib,
        },
        "sandbox": {
            "backend": done.backend.as_str(),
            "name": opened.prepared.name(),
        },
    }))?;
    Ok(Outcome::Code(code))
}

fn millis(micros: u64) -> f64 {
    Duration::from_micros(micros).as_secs_f64() * 1000.0
}
