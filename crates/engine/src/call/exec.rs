//! `exec`: one command, in the session's sandbox, or on the host where the rules send it there (`host.rs`).
//!
//! In the sandbox a command is started as one that outlives its connection, then followed: whoever waits too long gets a
//! name to come back with, and whoever leaves takes the command with them. Where `process` is closed, the command is
//! tied to its connection instead.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clawpen_rules::approval::in_sandbox::InSandbox;
use clawpen_rules::approval::settings::ExecSettings;
use clawpen_rules::container::exec::{Elevation as Unelevated, ExecPlace, ExecRequest, ExecSpec};
use clawpen_rules::container::workdir::Fallback;
use clawpen_rules::elevated;
use clawpen_rules::elevated::level::{self, CallWish, ChosenLevel, Elevation};
use clawpen_rules::posix;
use clawpen_rules::tools::BuiltTool;
use clawpen_rules::tools::arguments::{self, ExecCall, Terminal};
use clawpen_rules::tools::exec::{self as rules, Background, Ended, Times, Timing};
use clawpen_rules::tools::output::{self, AGGREGATED, Extent, TAIL, Tail};
use clawpen_wire::supervisor::{
    End, EnvVar, Exited, ProcessId, Reach, Started, StderrMode, StdinMode, Stream, TtySize,
};
use serde_json::json;

use super::desk::{RecordDoor, ToolRequest, Turn, Watch, Who};
use super::failure::ToolCallError;
use super::runs::{EndSeen, Run};
use super::stop::{Bell, Rung, Stop};
use super::{Prepared, Tally, ask, host, policy};
use crate::channel::{AttachEnd, Channel, Command, ExecIo, Order};
use crate::config_store::Store;
use crate::exec_question::{self, CallFacts, CommandQuestion, DoorSandbox, Outcome};
use crate::explain::Question;
use crate::host_files::RealFiles;
use crate::registry::Identity;
use crate::session_store;
use crate::tools::{Answer, json as tools_json};

/// Bytes that the supervisor keeps of a command's output: the most characters that are shown, at four bytes each.
pub(super) const KEPT_BYTES: u32 = 1 << 20;
/// A command that is told to end may tidy up for so long.
pub(super) const GRACE: Duration = Duration::from_secs(3);
/// How long a killed command is waited for.
const LAST_MOMENTS: Duration = Duration::from_secs(5);
pub(super) const SIGKILL: i32 = 9;
const SCREEN: TtySize = TtySize { rows: 30, columns: 120 };
/// What a shell finds its programs by before profile and config add to it.
const USUAL_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

pub(super) fn run(turn: &Turn<'_>, request: &mut ToolRequest<'_>) -> Result<Answer, ToolCallError> {
    let arguments = request.arguments;
    let refused = |error: ToolCallError| match turn.stopped_quoting("exec", &error, arguments) {
        Ok(()) => error,
        Err(unrecorded) => unrecorded,
    };
    let call = arguments::parse_exec(&tools_json::arguments(request.arguments))
        .map_err(|error| refused(error.into()))?;
    let view = (turn.store, turn.prepared);
    let elevation =
        elevation(view, turn.who, call.aim.elevated).map_err(|error| refused(error.into()))?;
    let explanation = turn.prepared.explanation.clone();
    let question = CommandQuestion {
        text: &call.command,
        cwd: call.workdir.as_deref(),
        who: Question {
            agent: turn.who.agent.as_deref(),
            session: turn.who.session.as_deref(),
            channels: &[],
        },
        call: CallFacts {
            wishes: call.aim.wishes,
            elevation: &elevation,
            overrides: &call.env,
            door: match turn.who.record {
                RecordDoor::Another => DoorSandbox::Always,
                RecordDoor::This => DoorSandbox::UnlessSet,
            },
        },
    };
    let answer = exec_question::ask_about(turn.store, explanation, &question)
        .map_err(|error| refused(error.into()))?;
    match &answer.outcome {
        Outcome::Sandbox { asks: InSandbox::Run { .. }, .. } => {
            let planned = plan(turn, &call).map_err(refused)?;
            in_sandbox(turn, (&call, &planned), request)
        }
        Outcome::Sandbox { asks: asks @ InSandbox::Ask { .. }, .. } => {
            // Planned before anybody is asked: another directory than the one asked for may be used, and then it is
            // that one which a person must see.
            let planned = plan(turn, &call).map_err(&refused)?;
            // The broker records what came of its question; what it could not ask is recorded here.
            let asked = (asks, planned.cwd.as_str());
            let id = match ask::in_sandbox(turn, (&call, question), request, asked) {
                Ok(id) => id,
                Err(error @ (ToolCallError::NotApproved(_) | ToolCallError::Cancelled)) => {
                    return Err(error);
                }
                Err(error) => return Err(refused(error)),
            };
            let done = in_sandbox(turn, (&call, &planned), request);
            let code = done.as_ref().ok().and_then(|done| done.details["exitCode"].as_i64());
            let code = code.and_then(|code| i32::try_from(code).ok());
            ask::ended(turn, &id, code.map(crate::audit::Ending::Exit))?;
            done
        }
        Outcome::ToolClosed { reason, changes } => {
            Err(refused(ToolCallError::Denied(with_changes(reason.clone(), changes))))
        }
        Outcome::Refused { refusal, change } => {
            let changes = std::slice::from_ref(change);
            Err(refused(ToolCallError::Denied(with_changes(refusal.to_string(), changes))))
        }
        Outcome::Host(_) => host::run(turn, (&call, question), answer, request),
    }
}

pub(super) fn with_changes(reason: String, changes: &[String]) -> String {
    let changes: Vec<&str> =
        changes.iter().map(String::as_str).filter(|change| !change.is_empty()).collect();
    if changes.is_empty() {
        reason
    } else {
        format!("{reason}; to change that: {}", changes.join(", or "))
    }
}

/// Whether the call leaves the sandbox because a person let its session out. The door says who speaks; what the caller
/// says of itself opens nothing. What a session's record says may hold back, and lets out only at the door where it
/// was set.
pub(super) fn elevation(
    (store, prepared): (&Store, &Prepared),
    who: &Who,
    wish: CallWish,
) -> Result<Elevation, level::ElevationRefused> {
    let config = &store.loaded.config;
    let session = &prepared.explanation.session;
    let record = store.locations.session_store(config, session.agent());
    let stored = session
        .key()
        .and_then(|key| session_store::elevated_level(std::path::Path::new(&record), key));
    let gates = elevated::decide(config, session.agent(), who.provider, &who.sender);
    let configured = ChosenLevel::resolve(config, None, None);
    let chosen = match (stored, who.record) {
        (Some(_), RecordDoor::This) => ChosenLevel::resolve(config, stored, None),
        (Some(level), RecordDoor::Another) if level < configured.level => {
            ChosenLevel::resolve(config, stored, None)
        }
        (Some(_) | None, _) => configured,
    };
    level::decide(&gates, &chosen, wish)
}

/// A command for the sandbox, with what its caller should know.
struct Planned {
    command: Command,
    cwd: String,
    warnings: Vec<String>,
    timing: Timing,
}

fn plan(turn: &Turn<'_>, call: &ExecCall) -> Result<Planned, ToolCallError> {
    let explanation = &turn.prepared.explanation;
    let layout = &explanation.runtime.layout;
    let workdir = call.workdir.as_deref().map(|asked| posix::resolve(layout.workdir(), asked));
    let request = ExecRequest {
        command: &call.command,
        workdir: workdir.as_deref(),
        env: call.env.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect(),
        host: None,
        elevation: Unelevated::NotAsked,
    };
    let settings = ExecSettings::resolve(turn.config(), turn.agent());
    let configured = &explanation.sandbox.docker.env;
    let place = ExecPlace {
        layout,
        env: configured.iter().map(|(name, value)| (name.as_str(), value.value.as_str())).collect(),
        filter: &turn.prepared.filter,
        path: USUAL_PATH,
        path_prepend: settings.path_prepend.iter().map(String::as_str).collect(),
    };
    let spec = ExecSpec::plan(&request, &place, &RealFiles)?;
    let background = if policy::is_open(turn.layers, BuiltTool::Process) {
        Background::Possible
    } else {
        Background::Closed
    };
    let times = Times::resolve(turn.config(), turn.agent());
    let timing = rules::decide_timing(call, &times, background);
    let mut warnings: Vec<String> = timing.warning.iter().map(|text| (*text).to_owned()).collect();
    let fallback = spec.workdir().fallback().cloned();
    warnings.extend(fallback.map(|fallback| {
        // As the command sees it: where that lies on the host is nothing that a model should know.
        let used = spec.workdir().container().to_owned();
        format!("Warning: {}", Fallback { used, ..fallback })
    }));
    let blocked = spec.blocked().iter();
    warnings.extend(blocked.map(|(name, reason)| {
        format!(
            "Warning: the variable `{}` was left out: {reason}",
            clawpen_rules::command::escape(name)
        )
    }));
    let mut command = Command::new(["/bin/sh", "-lc", spec.script().as_str()]);
    command.cwd = Some(spec.workdir().container().into());
    command.env = spec.variables().map(|(name, value)| variable(name, value)).collect();
    command.stderr = StderrMode::Merged;
    command.timeout = timing.timeout;
    command.grace = GRACE;
    if call.terminal == Terminal::Wanted {
        command.tty = Some(SCREEN);
        command.stdin = StdinMode::Pipe;
        command.env.push(variable("TERM", "xterm-256color"));
    }
    Ok(Planned { command, cwd: spec.workdir().container().to_owned(), warnings, timing })
}

fn variable(name: &str, value: &str) -> EnvVar {
    EnvVar { name: name.into(), value: value.into() }
}

fn in_sandbox(
    turn: &Turn<'_>,
    (call, planned): (&ExecCall, &Planned),
    request: &mut ToolRequest<'_>,
) -> Result<Answer, ToolCallError> {
    if planned.timing.wait.is_some() && turn.runs.is_full() {
        let error = ToolCallError::Process(
            "too many commands are in the background already; end some with `process`, then call again"
                .to_owned(),
        );
        turn.stopped("exec", &error)?;
        return Err(error);
    }
    let done = super::run(turn.yard, turn.prepared, &turn.about("exec"), |open, tally| {
        let identity = open.identity().cloned();
        let channel =
            open.sandbox().channel().map_err(ToolCallError::sandbox("reach the sandbox"))?;
        let running = Running { turn, call, planned };
        request.watch.begun(&planned.cwd);
        match (planned.timing.wait, identity) {
            (Some(wait), Some(identity)) => {
                running.in_background(channel, (wait, identity), (request, tally))
            }
            (None, _) | (_, None) => running.to_its_end(channel, request, tally),
        }
    })?;
    done.value.map(|answer| answer.noting(done.how.as_ref()))
}

/// A command on its way.
struct Running<'a> {
    turn: &'a Turn<'a>,
    call: &'a ExecCall,
    planned: &'a Planned,
}

impl Running<'_> {
    /// Ties the command to its connection.
    fn to_its_end(
        &self,
        channel: &mut Channel,
        request: &mut ToolRequest<'_>,
        tally: &mut Tally,
    ) -> Result<Answer, ToolCallError> {
        let bell = Bell::new(request.stop, None).map_err(ToolCallError::Watch)?;
        let mut follow = Follow::new(&bell, request.watch);
        // Nobody types, so a terminal would wait for ever.
        let command = Command { stdin: StdinMode::Null, tty: None, ..self.planned.command.clone() };
        let exited = channel.exec(&command, &mut follow);
        let exited = exited.map_err(ToolCallError::sandbox("run the command"))?;
        self.ended(exited, follow, tally)
    }

    fn in_background(
        &self,
        channel: &mut Channel,
        (wait, identity): (Duration, Identity),
        (request, tally): (&mut ToolRequest<'_>, &mut Tally),
    ) -> Result<Answer, ToolCallError> {
        // Before the command: what cannot be watched is not started.
        let bell = Bell::new(request.stop, Some(wait)).map_err(ToolCallError::Watch)?;
        let started = channel
            .start(&self.planned.command, KEPT_BYTES)
            .map_err(ToolCallError::sandbox("start the command"))?;
        if wait.is_zero() {
            return Ok(self.goes_on(started, identity, ("", 0)));
        }
        let mut follow = Follow::new(&bell, request.watch);
        let end = match channel.attach(started.process, 0, StdinMode::Null, &mut follow) {
            Ok(end) => end,
            Err(error) => {
                // Nobody has its name yet. If it cannot be ended either, its time-out does it.
                let _unreachable = channel.kill(started.process, SIGKILL, Reach::Tree);
                return Err(ToolCallError::sandbox("follow the command")(error));
            }
        };
        match end {
            AttachEnd::Exited(exited) => {
                let _kept = channel.forget(started.process);
                self.ended(exited, follow, tally)
            }
            AttachEnd::Detached if follow.why == Some(Rung::Stopped) => {
                end_now(channel, started.process)?;
                tally.ending = Some(crate::audit::Ending::Signal(SIGKILL));
                Err(ToolCallError::Cancelled)
            }
            AttachEnd::Detached => {
                tally.bytes_out = follow.bytes;
                let seen = follow.bytes;
                let (tail, _) = follow.tail.finish();
                Ok(self.goes_on(started, identity, (&tail, seen)))
            }
        }
    }

    /// The command outlives the call; its caller gets a name for it.
    fn goes_on(&self, started: Started, identity: Identity, (tail, seen): (&str, u64)) -> Answer {
        let Started { process, pid } = started;
        let started_ms = now_ms();
        let id = self.turn.runs.add(Run {
            id: String::new(),
            owner: self.turn.owner(),
            sandbox: self.turn.prepared.name().to_owned(),
            identity,
            process,
            pid,
            command: self.call.command.clone(),
            cwd: self.planned.cwd.clone(),
            started_ms,
            terminal: self.call.terminal,
            seen,
            empty_polls: 0,
            end: EndSeen::No,
        });
        let text = rules::still_running(&id, pid, tail);
        let details = json!({
            "status": "running",
            "sessionId": id,
            "pid": pid,
            "startedAt": started_ms,
            "cwd": self.planned.cwd,
            "tail": output::last(tail, TAIL),
        });
        Answer::text(self.warned(text), details)
    }

    fn ended(
        &self,
        exited: Exited,
        follow: Follow<'_>,
        tally: &mut Tally,
    ) -> Result<Answer, ToolCallError> {
        tally.bytes_out = follow.bytes;
        tally.ending = Some(super::ending(&exited));
        if follow.why == Some(Rung::Stopped) {
            return Err(ToolCallError::Cancelled);
        }
        let (output, is_cut) = follow.tail.finish();
        let extent = if is_cut { Extent::End } else { Extent::Whole };
        let ended = ended(&exited, self.planned.timing.timeout);
        let report = rules::report(ended, &output, extent);
        let details = json!({
            "status": report.status,
            "exitCode": report.exit_code,
            "durationMs": exited.usage.wall_us / 1000,
            "aggregated": output,
            "truncated": is_cut,
            "cwd": self.planned.cwd,
        });
        Ok(Answer::text(self.warned(report.text), details))
    }

    fn warned(&self, text: String) -> String {
        let warnings = self.planned.warnings.iter().map(|warning| format!("{warning}\n\n"));
        warnings.chain([text]).collect()
    }
}

/// How a command ended, as it is told.
pub(super) fn ended(exited: &Exited, timeout: Option<Duration>) -> Ended {
    match (exited.timed_out, exited.end) {
        (true, _) => Ended::TimedOut(timeout),
        (false, End::Code(code)) => Ended::Code(code),
        (false, End::Signal(signal)) => Ended::Signal(signal),
    }
}

/// Kills a command with all it started, waits until it is gone and forgets it.
pub(super) fn end_now(channel: &mut Channel, process: ProcessId) -> Result<(), ToolCallError> {
    let killed = channel.kill(process, SIGKILL, Reach::Tree);
    killed.map_err(ToolCallError::sandbox("end the command"))?;
    let never = Stop::new().map_err(ToolCallError::Watch)?;
    let bell = Bell::new(&never, Some(LAST_MOMENTS)).map_err(ToolCallError::Watch)?;
    let mut quiet = super::Quiet;
    let mut follow = Follow::new(&bell, &mut quiet);
    let gone = channel.attach(process, 0, StdinMode::Null, &mut follow);
    gone.map_err(ToolCallError::sandbox("wait for the command's end"))?;
    let _kept = channel.forget(process);
    Ok(())
}

pub(super) fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

/// Collects a command's output until a bell rings.
pub(super) struct Follow<'a> {
    bell: &'a Bell<'a>,
    watch: &'a mut dyn Watch,
    pub(super) tail: Tail,
    pub(super) bytes: u64,
    /// So much and no more; `None`: until the end.
    pub(super) left: Option<u64>,
    pub(super) why: Option<Rung>,
}

impl<'a> Follow<'a> {
    pub(super) fn new(bell: &'a Bell<'a>, watch: &'a mut dyn Watch) -> Self {
        Self { bell, watch, tail: Tail::new(AGGREGATED), bytes: 0, left: None, why: None }
    }
}

impl ExecIo for Follow<'_> {
    fn output(&mut self, _stream: Stream, bytes: &[u8]) -> io::Result<()> {
        self.tail.push(bytes);
        self.bytes += bytes.len() as u64;
        self.watch.output(bytes);
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(bytes.len() as u64);
            if *left == 0 {
                self.bell.ring()?;
            }
        }
        Ok(())
    }

    fn orders(&self) -> Option<BorrowedFd<'_>> {
        Some(self.bell.as_fd())
    }

    fn next_order(&mut self) -> io::Result<Option<Order>> {
        let rung = match (self.bell.rung()?, self.left) {
            (Some(Rung::TimeUp), Some(0)) => Some(Rung::Done),
            (rung, _) => rung,
        };
        self.why = self.why.or(rung);
        Ok(rung.map(|_| Order::Stop))
    }
}
