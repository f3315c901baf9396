//! `process`: commands that `exec` left in the background.
//!
//! A session sees its own only, also where it shares a sandbox with others. No sandbox is made or started here: what
//! does not run has no commands.

use std::cell::Cell;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use clawpen_rules::tools::arguments::{self, Keys, ProcessAction, ProcessCall, Terminal};
use clawpen_rules::tools::exec::{self as rules, Ended, Times};
use clawpen_rules::tools::output::{self, AGGREGATED, PENDING, TAIL, Tail};
use clawpen_rules::tools::process::keys::{self, CursorKeys};
use clawpen_rules::tools::process::{self as process_rules, POLL_MOST_MS};
use clawpen_wire::supervisor::{ProcessEntry, ProcessState, Reach, StdinMode, Stream};
use serde_json::{Value, json};

use super::desk::{ToolRequest, Turn, since};
use super::exec::{Follow, GRACE, end_now, ended};
use super::failure::ToolCallError;
use super::runs::Run;
use super::stop::{Bell, Rung, Stop};
use super::{OpenError, Quiet, Tally, record};
use crate::channel::{AttachEnd, Channel, ExecIo, Input, Order};
use crate::lifecycle::{Caller, EnsureError};
use crate::tools::{Answer, json as tools_json};

const SIGTERM: i32 = 15;
/// How long a program that does not read is waited for.
const TYPING: Duration = Duration::from_secs(2);

pub(super) fn run(turn: &Turn<'_>, request: &mut ToolRequest<'_>) -> Result<Answer, ToolCallError> {
    let start = Instant::now();
    let mut tally = Tally::default();
    let done = act(turn, request, &mut tally);
    match &done {
        Ok(_) => {
            let reason = "the session's own commands";
            let elapsed = since(start, tally);
            record::beside(turn.yard, turn.prepared, &turn.about("process"), (reason, elapsed))?;
        }
        Err(error) => turn.stopped_quoting("process", error, request.arguments)?,
    }
    done
}

fn act(
    turn: &Turn<'_>,
    request: &mut ToolRequest<'_>,
    tally: &mut Tally,
) -> Result<Answer, ToolCallError> {
    match arguments::parse_process(&tools_json::arguments(request.arguments))? {
        ProcessCall::List => list(turn),
        ProcessCall::On { id, action } => {
            let id = id.trim();
            let run = turn.runs.find(&turn.owner(), id);
            let run = run.ok_or_else(|| ToolCallError::NoProcess { id: id.to_owned() })?;
            let answer = reach(turn, &run, |channel| {
                let entry = entry(turn, channel, &run)?;
                let mut one = One { turn, run: &run, entry, channel, stop: request.stop };
                one.act(action)
            })?;
            tally.bytes_out = answer.details.to_string().len() as u64;
            Ok(answer)
        }
    }
}

/// Does something in the sandbox that a command runs in, if it is still there.
pub(super) fn reach<T>(
    turn: &Turn<'_>,
    run: &Run,
    job: impl FnOnce(&mut Channel) -> Result<T, ToolCallError>,
) -> Result<T, ToolCallError> {
    let gone = || {
        turn.runs.remove(&run.id);
        ToolCallError::Process(format!(
            "the sandbox of `{}` was removed or replaced, and the command with it",
            run.id
        ))
    };
    let row = turn.yard.database.registry().get(&run.sandbox);
    let row = row.map_err(|error| OpenError::Ensure(EnsureError::from(error)))?;
    let row = row.ok_or_else(gone)?;
    let caller = Caller { call: "process", session: turn.session() };
    let held = turn.yard.lifecycle().visit(&row, &caller).map_err(OpenError::Ensure)?;
    let mut held = held.ok_or_else(gone)?;
    if held.identity != run.identity {
        return Err(gone());
    }
    job(held.sandbox.channel().map_err(ToolCallError::sandbox("reach the sandbox"))?)
}

/// What the supervisor knows of a command.
pub(super) fn entry(
    turn: &Turn<'_>,
    channel: &mut Channel,
    run: &Run,
) -> Result<ProcessEntry, ToolCallError> {
    let listed = channel.processes().map_err(ToolCallError::sandbox("list the commands"))?;
    listed.into_iter().find(|entry| entry.process == run.process).ok_or_else(|| {
        turn.runs.remove(&run.id);
        ToolCallError::NoProcess { id: run.id.clone() }
    })
}

/// What is told of a command: status, exit code and signal.
fn standing(entry: &ProcessEntry) -> (&'static str, Option<i32>, Option<String>) {
    match &entry.state {
        ProcessState::Running => ("running", None, None),
        ProcessState::Exited(exited) => match ended(exited, None) {
            Ended::Code(code @ (126 | 127)) => ("failed", Some(code), None),
            Ended::Code(code) => ("completed", Some(code), None),
            Ended::Signal(signal) => ("failed", None, Some(rules::signal_name(signal))),
            Ended::TimedOut(_) => ("failed", None, Some("SIGKILL".to_owned())),
        },
    }
}

fn timed_out(entry: &ProcessEntry) -> bool {
    match &entry.state {
        ProcessState::Running => false,
        ProcessState::Exited(exited) => exited.timed_out,
    }
}

fn ran(entry: &ProcessEntry) -> Duration {
    Duration::from_micros(match &entry.state {
        ProcessState::Running => entry.age_us,
        ProcessState::Exited(exited) => exited.usage.wall_us,
    })
}

fn list(turn: &Turn<'_>) -> Result<Answer, ToolCallError> {
    let cleanup = Times::resolve(turn.config(), turn.agent()).cleanup;
    let (mut lines, mut sessions) = (Vec::new(), Vec::new());
    for run in turn.runs.of(&turn.owner()) {
        let looked = reach(turn, &run, |channel| {
            let entry = entry(turn, channel, &run)?;
            if is_old(&entry, cleanup) {
                let _kept = channel.forget(run.process);
                return Err(ToolCallError::NoProcess { id: run.id.clone() });
            }
            let (text, is_cut) = kept(channel, &run, &entry)?;
            Ok((entry, text, is_cut))
        });
        let (entry, text, is_cut) = match looked {
            Ok(found) => found,
            // Gone with its sandbox, or old: not there any more.
            Err(ToolCallError::NoProcess { .. } | ToolCallError::Process(_)) => {
                turn.runs.remove(&run.id);
                continue;
            }
            Err(error) => return Err(error),
        };
        let (status, code, signal) = standing(&entry);
        if status != "running" {
            turn.runs.end_seen(&run.id);
        }
        let name = process_rules::name_of(&run.command);
        lines.push(process_rules::list_line(&run.id, status, ran(&entry), &name));
        let runtime = u64::try_from(ran(&entry).as_millis()).unwrap_or(u64::MAX);
        sessions.push(json!({
            "sessionId": run.id,
            "status": status,
            "pid": run.pid,
            "startedAt": run.started_ms,
            "endedAt": (status != "running").then(|| run.started_ms.saturating_add(runtime)),
            "runtimeMs": runtime,
            "cwd": run.cwd,
            "command": run.command,
            "name": name,
            "tail": output::last(&text, TAIL),
            "truncated": is_cut,
            "exitCode": code,
            "exitSignal": signal,
        }));
    }
    let text = if lines.is_empty() {
        "No commands are running or were left in the background.".to_owned()
    } else {
        lines.join("\n")
    };
    Ok(Answer::text(text, json!({ "status": "completed", "sessions": sessions })))
}

fn is_old(entry: &ProcessEntry, cleanup: Duration) -> bool {
    match &entry.state {
        ProcessState::Running => false,
        ProcessState::Exited(exited) => {
            Duration::from_micros(entry.age_us.saturating_sub(exited.usage.wall_us)) > cleanup
        }
    }
}

/// All that is kept of a command's output, as text, and whether that is only a part.
pub(super) fn kept(
    channel: &mut Channel,
    run: &Run,
    entry: &ProcessEntry,
) -> Result<(String, bool), ToolCallError> {
    let mut tail = Tail::new(AGGREGATED);
    read_from(channel, run, (entry.kept_from, entry), &mut |bytes| tail.push(bytes))?;
    let (text, is_cut) = tail.finish();
    Ok((text, is_cut || entry.kept_from > 0))
}

/// Reads what was written from `offset` up to now.
fn read_from(
    channel: &mut Channel,
    run: &Run,
    (offset, entry): (u64, &ProcessEntry),
    take: &mut dyn FnMut(&[u8]),
) -> Result<u64, ToolCallError> {
    let from = offset.max(entry.kept_from);
    let left = entry.written.saturating_sub(from);
    if left == 0 {
        return Ok(from);
    }
    let mut upto = UpTo { left, take };
    match channel.attach(run.process, from, StdinMode::Null, &mut upto) {
        Ok(_) => {}
        // All that there was when we looked.
        Err(crate::channel::CallError::Local(_)) if upto.left == 0 => {}
        Err(cause) => return Err(ToolCallError::Sandbox { what: "read the output", cause }),
    }
    Ok(entry.written)
}

/// Takes so many bytes and then stops the call.
struct UpTo<'a> {
    left: u64,
    take: &'a mut dyn FnMut(&[u8]),
}

impl ExecIo for UpTo<'_> {
    fn output(&mut self, _stream: Stream, bytes: &[u8]) -> io::Result<()> {
        let room = usize::try_from(self.left).unwrap_or(usize::MAX);
        let part = bytes.get(..room.min(bytes.len())).unwrap_or_default();
        (self.take)(part);
        self.left -= part.len() as u64;
        if self.left == 0 { Err(io::ErrorKind::ConnectionAborted.into()) } else { Ok(()) }
    }
}

/// One command, and the way to it.
struct One<'a> {
    turn: &'a Turn<'a>,
    run: &'a Run,
    entry: ProcessEntry,
    channel: &'a mut Channel,
    stop: &'a Stop,
}

impl One<'_> {
    fn act(&mut self, action: ProcessAction) -> Result<Answer, ToolCallError> {
        match action {
            ProcessAction::Poll { timeout_ms } => self.poll(timeout_ms),
            ProcessAction::Log { offset, limit } => self.log(offset, limit),
            ProcessAction::Write { data, ends } => {
                let after = if ends { After::End } else { After::GoOn };
                self.type_in("Wrote", data.into_bytes(), after)
            }
            ProcessAction::SendKeys(keys) => {
                let bytes = self.keys(&keys)?;
                self.type_in("Sent", bytes, After::GoOn)
            }
            ProcessAction::Submit => self.type_in("Submitted", b"\r".to_vec(), After::GoOn),
            ProcessAction::Paste { text, bracketed } => {
                let text = if bracketed { format!("\x1b[200~{text}\x1b[201~") } else { text };
                self.type_in("Pasted", text.into_bytes(), After::GoOn)
            }
            ProcessAction::Kill => self.kill(),
            ProcessAction::Clear => self.clear(),
            ProcessAction::Remove => self.remove(),
        }
    }

    fn is_running(&self) -> bool {
        matches!(self.entry.state, ProcessState::Running)
    }

    fn poll(&mut self, timeout_ms: u64) -> Result<Answer, ToolCallError> {
        let from = self.run.seen.max(self.entry.kept_from);
        let mut tail = Tail::new(PENDING);
        let was_over = !self.is_running();
        let seen = if self.is_running() && timeout_ms > 0 {
            let wait = Duration::from_millis(timeout_ms.min(POLL_MOST_MS));
            let bell = Bell::new(self.stop, Some(wait)).map_err(ToolCallError::Watch)?;
            let mut quiet = Quiet;
            let mut follow = Follow::new(&bell, &mut quiet);
            follow.tail = tail;
            let end = self.channel.attach(self.run.process, from, StdinMode::Null, &mut follow);
            match end.map_err(ToolCallError::sandbox("follow the command"))? {
                // The command goes on; only the question is over.
                AttachEnd::Detached if follow.why == Some(Rung::Stopped) => {
                    return Err(ToolCallError::Process("the poll was cancelled".to_owned()));
                }
                AttachEnd::Detached | AttachEnd::Exited(_) => {}
            }
            let seen = from.saturating_add(follow.bytes);
            tail = follow.tail;
            self.entry = entry(self.turn, self.channel, self.run)?;
            seen
        } else {
            read_from(self.channel, self.run, (from, &self.entry), &mut |bytes| tail.push(bytes))?
        };
        let (mut text, is_cut) = tail.finish();
        if was_over && text.trim().is_empty() {
            // Nothing new comes any more, so whoever asks wants to see how it ended.
            let (all, _) = kept(self.channel, self.run, &self.entry)?;
            return self.polled(output::last(&all, TAIL), seen);
        }
        if is_cut {
            let note = "[Only the end of the new output is shown; the action `log` shows more.]";
            text = format!("{note}\n\n{text}");
        }
        self.polled(&text, seen)
    }

    fn polled(&mut self, new: &str, seen: u64) -> Result<Answer, ToolCallError> {
        let (status, code, signal) = standing(&self.entry);
        let shown = if new.trim().is_empty() { "(no new output)" } else { new.trim_end() };
        let last = match (status, code, &signal) {
            ("running", _, _) => "Process still running.".to_owned(),
            (_, Some(code), _) => format!("Process exited with code {code}."),
            (_, None, Some(signal)) if timed_out(&self.entry) => {
                format!("Process exited with signal {signal}: its `timeout` was over.")
            }
            (_, None, Some(signal)) => format!("Process exited with signal {signal}."),
            (_, None, None) => "Process exited.".to_owned(),
        };
        let empty = if new.trim().is_empty() { self.run.empty_polls + 1 } else { 0 };
        self.turn.runs.read(&self.run.id, seen, empty);
        if status != "running" {
            self.turn.runs.end_seen(&self.run.id);
        }
        let (aggregated, _) = kept(self.channel, self.run, &self.entry)?;
        let mut details = json!({
            "status": status,
            "sessionId": self.run.id,
            "exitCode": code,
            "exitSignal": signal,
            "aggregated": aggregated,
            "name": process_rules::name_of(&self.run.command),
        });
        if status == "running" && empty > 0 {
            details["retryInMs"] = json!(process_rules::retry_in_ms(empty));
        }
        Ok(Answer::text(format!("{shown}\n\n{last}"), details))
    }

    fn log(&mut self, offset: Option<u64>, limit: Option<u64>) -> Result<Answer, ToolCallError> {
        let (text, is_cut) = kept(self.channel, self.run, &self.entry)?;
        let page = process_rules::log_page(&text, offset, limit);
        let (status, code, _) = standing(&self.entry);
        let shown = if page.text.is_empty() { "(no output)".to_owned() } else { page.text };
        Ok(Answer::text(
            shown,
            json!({
                "status": status,
                "sessionId": self.run.id,
                "exitCode": code,
                "total": page.total_lines,
                "totalLines": page.total_lines,
                "totalChars": text.chars().count(),
                "truncated": is_cut || page.is_cut,
            }),
        ))
    }

    fn keys(&mut self, keys: &Keys) -> Result<Vec<u8>, ToolCallError> {
        let mut bytes = keys.literal.clone().into_bytes();
        bytes.extend(keys::hex_bytes(&keys.hex)?);
        let mode = if keys.keys.is_empty() { CursorKeys::Unknown } else { self.cursor_keys()? };
        for key in &keys.keys {
            bytes.extend(keys::key_bytes(key, mode)?);
        }
        if bytes.is_empty() {
            let text = "there is nothing to send; give `keys`, `hex` or `literal`";
            return Err(ToolCallError::Process(text.to_owned()));
        }
        Ok(bytes)
    }

    /// What the program last said about cursor keys, as far as its output is kept.
    fn cursor_keys(&mut self) -> Result<CursorKeys, ToolCallError> {
        let mut raw = Vec::new();
        let from = (self.entry.kept_from, &self.entry);
        read_from(self.channel, self.run, from, &mut |bytes| raw.extend_from_slice(bytes))?;
        Ok(keys::cursor_keys(&raw))
    }

    fn type_in(
        &mut self,
        did: &str,
        bytes: Vec<u8>,
        after: After,
    ) -> Result<Answer, ToolCallError> {
        let id = &self.run.id;
        if !self.is_running() {
            return Err(ToolCallError::Process(format!(
                "`{id}` is over and reads nothing any more"
            )));
        }
        if self.run.terminal == Terminal::None {
            return Err(ToolCallError::Process(format!(
                "`{id}` has no input; start a command that reads with `pty`"
            )));
        }
        let count = bytes.len();
        let bell = Bell::new(self.stop, Some(TYPING)).map_err(ToolCallError::Watch)?;
        let typed = Cell::new(0);
        let mut typing = Typing { bell: &bell, bytes: &bytes, typed: &typed, after };
        let from = self.entry.written;
        let end = self.channel.attach(self.run.process, from, StdinMode::Pipe, &mut typing);
        end.map_err(ToolCallError::sandbox("type into the command"))?;
        if typed.get() < count {
            return Err(ToolCallError::Process(format!(
                "`{id}` took {} of {count} bytes and reads no more for now",
                typed.get()
            )));
        }
        let text = format!("{did} {count} bytes to session {id}.");
        Ok(Answer::text(text, json!({ "status": "running", "sessionId": id, "bytes": count })))
    }

    /// Asks the command to end, and makes it end if it does not.
    fn kill(&mut self) -> Result<Answer, ToolCallError> {
        let id = &self.run.id;
        if !self.is_running() {
            return Err(ToolCallError::Process(format!("`{id}` is over already")));
        }
        let told = self.channel.kill(self.run.process, SIGTERM, Reach::Tree);
        told.map_err(ToolCallError::sandbox("end the command"))?;
        let bell = Bell::new(self.stop, Some(GRACE)).map_err(ToolCallError::Watch)?;
        let mut quiet = Quiet;
        let mut follow = Follow::new(&bell, &mut quiet);
        let from = self.entry.written;
        let end = self.channel.attach(self.run.process, from, StdinMode::Null, &mut follow);
        match end.map_err(ToolCallError::sandbox("wait for the command's end"))? {
            AttachEnd::Exited(_) => {}
            AttachEnd::Detached => {
                let killed = self.channel.kill(self.run.process, super::exec::SIGKILL, Reach::Tree);
                killed.map_err(ToolCallError::sandbox("end the command"))?;
            }
        }
        self.turn.runs.end_seen(id);
        Ok(self.failed(format!("Killed session {id}.")))
    }

    fn failed(&self, text: String) -> Answer {
        Answer::text(text, json!({ "status": "failed", "sessionId": self.run.id }))
    }

    fn clear(&mut self) -> Result<Answer, ToolCallError> {
        let id = &self.run.id;
        if self.is_running() {
            return Err(ToolCallError::Process(format!(
                "`{id}` is still running; use remove to end and forget it"
            )));
        }
        let forgot = self.channel.forget(self.run.process);
        forgot.map_err(ToolCallError::sandbox("forget the command"))?;
        self.turn.runs.remove(id);
        Ok(done(format!("Cleared session {id}.")))
    }

    fn remove(&mut self) -> Result<Answer, ToolCallError> {
        let id = &self.run.id;
        if self.is_running() {
            end_now(self.channel, self.run.process)?;
        } else {
            let forgot = self.channel.forget(self.run.process);
            forgot.map_err(ToolCallError::sandbox("forget the command"))?;
        }
        self.turn.runs.remove(id);
        Ok(done(format!("Removed session {id}.")))
    }
}

fn done(text: String) -> Answer {
    let details: Value = json!({ "status": "completed" });
    Answer::text(text, details)
}

/// What comes after what is typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum After {
    GoOn,
    /// The input ends.
    End,
}

/// Types bytes into a command and leaves.
struct Typing<'a> {
    bell: &'a Bell<'a>,
    bytes: &'a [u8],
    typed: &'a Cell<usize>,
    after: After,
}

impl ExecIo for Typing<'_> {
    fn output(&mut self, _stream: Stream, _bytes: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn input(&self) -> Input<'_> {
        match (self.typed.get() < self.bytes.len(), self.after) {
            (true, _) => Input::Ready,
            (false, After::End) => Input::Closed,
            // Nothing more comes from us, and the input stays open for the next call.
            (false, After::GoOn) => Input::Wait(self.bell.as_fd()),
        }
    }

    fn read_input(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let rest = self.bytes.get(self.typed.get()..).unwrap_or_default();
        let count = rest.len().min(room.len());
        if count == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        for (to, from) in room.iter_mut().zip(rest) {
            *to = *from;
        }
        self.typed.set(self.typed.get() + count);
        if count == rest.len() {
            self.bell.ring()?;
        }
        Ok(count)
    }

    fn orders(&self) -> Option<BorrowedFd<'_>> {
        Some(self.bell.as_fd())
    }

    fn next_order(&mut self) -> io::Result<Option<Order>> {
        Ok(self.bell.rung()?.map(|_| Order::Stop))
    }
}
