//! One request after the other: checks that it may come now, does it, answers.

use std::os::fd::AsFd as _;

use clawpen_os::events;
use clawpen_os::process::{self, Dumpable, Signal};
use clawpen_os::pty::{self, Size};
use clawpen_wire::supervisor::frame::Inbox;
use clawpen_wire::supervisor::{
    CONTROL, ErrorCode, Event, Failed, Hello, OLDEST_VERSION, ProcessId, ProcessList, Reach,
    Request, TtySize, Welcome, Written, limits,
};

use super::connection::Channel;
use super::programs::Incoming;
use super::watch::ConnectionId;
use super::{Server, would_block};
use crate::exec::{From, failed};
use crate::facts::identify;
use crate::faults;
use crate::files::{self, CHUNK, Writing};
use crate::processes::Owner;

impl Server {
    /// Reads once, and handles every whole frame that is there.
    pub(super) fn read_requests(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if connection.leaving {
            // Only reached by a hang-up: whoever is told goodbye has gone already.
            return self.close(id);
        }
        match events::read(connection.socket.as_fd(), connection.inbox.room()) {
            Ok(0) => return self.close(id),
            Ok(count) => {
                self.heard += 1;
                connection.heard = self.heard;
                connection.inbox.filled(count);
            }
            Err(error) if would_block(&error) => {}
            Err(_) => return self.close(id),
        }
        self.handle_frames(id);
    }

    /// Handles whole frames as long as the host takes the answers; [`Server::resume`] goes on with the rest.
    pub(super) fn handle_frames(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        // Taken out, so that frames can be read from it while the rest of the connection changes.
        let mut inbox = std::mem::replace(&mut connection.inbox, Inbox::of_requests());
        while self.connections.get(&id).is_some_and(|host| !host.leaving && !host.is_full()) {
            match inbox.next_frame() {
                Ok(None) => break,
                Ok(Some(frame)) => match frame.decode::<Request<'_>>() {
                    Ok(request) => self.request(id, frame.channel, request),
                    Err(error) => self.break_off(id, &format!("a frame cannot be read: {error}")),
                },
                Err(error) => self.break_off(id, &format!("a frame cannot be read: {error}")),
            }
        }
        inbox.settle();
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.inbox = inbox;
        }
    }

    fn request(&mut self, id: ConnectionId, channel: u32, request: Request<'_>) {
        let Some(connection) = self.connections.get(&id) else { return };
        if !connection.greeted {
            return match request {
                Request::Hello(hello) if channel == CONTROL => self.hello(id, &hello),
                _ => self.break_off(id, "the first request must be a hello on channel 0"),
            };
        }
        if belongs_to_call(&request) {
            return self.continue_call(id, channel, request);
        }
        if connection.channels.contains_key(&channel) {
            return self.break_off(id, &format!("channel {channel} is in use"));
        }
        let outcome = if connection.channels.len() >= limits::OPEN_CHANNELS {
            Err(failed(ErrorCode::Busy, "too many calls are open on this connection"))
        } else {
            self.new_call(id, channel, request)
        };
        let Some(connection) = self.connections.get_mut(&id) else { return };
        match outcome {
            Ok(Some(answer)) => connection.say(channel, &answer),
            Ok(None) => {}
            Err(failed) => connection.fail(channel, failed),
        }
    }

    fn hello(&mut self, id: ConnectionId, hello: &Hello) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let newest = if self.sealed { faults::sealed_version() } else { faults::open_version() };
        let version = hello.newest.min(newest);
        if version < hello.oldest || version < OLDEST_VERSION {
            let what = format!(
                "this supervisor speaks {OLDEST_VERSION} to {newest}, the host {} to {}",
                hello.oldest, hello.newest
            );
            return connection.fail(CONTROL, failed(ErrorCode::Version, what));
        }
        connection.greeted = true;
        let build = concat!(env!("CARGO_PKG_NAME"), " ", env!("CARGO_PKG_VERSION")).to_owned();
        let welcome = Welcome { version, build, sealed: self.sealed, instance: self.instance };
        connection.say(CONTROL, &Event::Welcome(welcome));
    }

    /// Starts a call. An answer ends it; without one it goes on by itself.
    fn new_call(
        &mut self,
        id: ConnectionId,
        channel: u32,
        request: Request<'_>,
    ) -> Result<Option<Event<'static>>, Failed> {
        if needs_seal(&request) && !self.sealed {
            return Err(failed(ErrorCode::NotSealed, "the host has not sealed this sandbox yet"));
        }
        let files = &mut self.files;
        let job = match request {
            Request::Hello(_) => return Err(failed(ErrorCode::Protocol, "a second hello")),
            Request::Facts => return self.observe(id, channel).map(|()| None),
            Request::Identify(asked) => return Ok(Some(Event::Identified(identify(&asked)))),
            Request::Seal => return self.seal().map(Some),
            Request::Ping => return Ok(Some(Event::Done)),
            Request::Shutdown => {
                self.over = true;
                return Ok(Some(Event::Done));
            }
            Request::Exec(exec) => {
                return self.exec(id, channel, &exec, From::Sandbox).map(|()| None);
            }
            Request::ProgramOpen(open) => {
                self.keep(id, channel, Channel::Program(Incoming::open(open.name)?));
                return Ok(None);
            }
            Request::ExecProgram(of) => {
                let from = self.brought(of.name)?;
                return self.exec(id, channel, &of.exec, from).map(|()| None);
            }
            Request::ListProcesses => return Ok(Some(self.list_processes())),
            Request::Attach(attach) => return self.attach(id, channel, attach).map(|()| None),
            Request::Kill(kill) => {
                return self
                    .kill(kill.process, kill.signal, kill.reach)
                    .map(|()| Some(Event::Done));
            }
            Request::Forget(process) => return self.forget(process).map(|()| Some(Event::Done)),
            Request::Read(read) => {
                let reading = files.read(&read)?;
                self.keep(id, channel, Channel::Read(reading));
                self.pump_read(id, channel);
                return Ok(None);
            }
            Request::WriteOpen(open) => {
                let writing = files.write(&open)?;
                self.keep(id, channel, Channel::Write(Box::new(writing)));
                return Ok(None);
            }
            Request::Stat(stat) => {
                return files.stat(&stat).map(|result| Some(Event::StatResult(result)));
            }
            Request::List(list) => return files.list(&list).map(|page| Some(Event::Entries(page))),
            Request::Mkdir(mkdir) => return files.mkdir(&mkdir).map(|()| Some(Event::Done)),
            Request::Rename(rename) => return files.rename(&rename).map(|()| Some(Event::Done)),
            Request::Remove(remove) => files.remove(&remove)?,
            Request::Copy(copy) => files.copy(&copy)?,
            Request::Hash(hash) => files.hash(&hash)?,
            Request::Stdin(_)
            | Request::StdinEof
            | Request::Resize(_)
            | Request::Signal(_)
            | Request::Credit(_)
            | Request::Detach
            | Request::ReadStop
            | Request::WriteChunk(_)
            | Request::WriteCommit
            | Request::WriteAbort => return Ok(None),
        };
        self.keep(id, channel, Channel::Job(Box::new(job)));
        Ok(None)
    }

    fn keep(&mut self, id: ConnectionId, channel: u32, call: Channel) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.channels.insert(channel, call);
        }
    }

    /// Closes process 1 to observers, for good. Only then may foreign code run beside it.
    fn seal(&mut self) -> Result<Event<'static>, Failed> {
        if !faults::is_off("seal") {
            process::set_dumpable(Dumpable::No)
                .map_err(|error| files::io_failed(&error, "seal"))?;
        }
        self.sealed = true;
        Ok(Event::Done)
    }

    fn list_processes(&self) -> Event<'static> {
        let shown = self
            .commands
            .values()
            .filter(|command| matches!(command.owner, Owner::Stream { .. } | Owner::Background(_)));
        let most = limits::PROCESSES + limits::FINISHED_PROCESSES;
        let processes = shown.take(most).map(crate::processes::Command::entry).collect();
        Event::ProcessList(ProcessList { processes })
    }

    fn kill(&mut self, process: ProcessId, signal: i32, reach: Reach) -> Result<(), Failed> {
        let signal = Signal::new(signal)
            .ok_or_else(|| failed(ErrorCode::Invalid, format!("there is no signal {signal}")))?;
        let command = self
            .commands
            .get_mut(&process)
            .filter(|command| {
                command.is_running() && !matches!(command.owner, Owner::Observer { .. })
            })
            .ok_or_else(|| {
                failed(ErrorCode::NoProcess, format!("no command {process} is running"))
            })?;
        match reach {
            Reach::Process => command.signal(signal),
            Reach::Tree => command.signal_tree(signal),
        }
        Ok(())
    }

    fn forget(&mut self, process: ProcessId) -> Result<(), Failed> {
        match self.commands.get(&process) {
            Some(command) if command.is_running() => Err(failed(
                ErrorCode::Busy,
                format!("command {process} is still running; kill it first"),
            )),
            Some(_) => {
                self.commands.remove(&process);
                Ok(())
            }
            None => Err(failed(ErrorCode::NoProcess, format!("there is no command {process}"))),
        }
    }

    /// A request that belongs to an open call. One for a call that has ended is dropped: the two crossed.
    fn continue_call(&mut self, id: ConnectionId, channel: u32, request: Request<'_>) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        match (connection.channels.get_mut(&channel), request) {
            (Some(Channel::Command(process)), request) => {
                let process = *process;
                self.continue_command(id, process, request);
            }
            (Some(Channel::Attach { process, credit, .. }), Request::Credit(more)) => {
                *credit = credit.saturating_add(more).min(limits::WINDOW);
                let process = *process;
                self.pump_attached(process);
            }
            (Some(Channel::Attach { .. }), Request::Detach)
            | (Some(Channel::Read(_)), Request::ReadStop) => {
                connection.channels.remove(&channel);
                connection.say(channel, &Event::Done);
            }
            (Some(Channel::Attach { process, input, .. }), request) => {
                let process = *process;
                if let Request::Stdin(bytes) = request {
                    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
                    let Some(left) = input.checked_sub(length) else {
                        return self.break_off(id, "more input than there was credit for");
                    };
                    *input = left;
                }
                self.continue_command(id, process, request);
                self.share_input(process);
            }
            (Some(Channel::Read(reading)), Request::Credit(more)) => {
                reading.credit = reading.credit.saturating_add(more).min(limits::WINDOW);
                self.pump_read(id, channel);
            }
            (Some(Channel::Write(_)), request) => self.continue_write(id, channel, request),
            (Some(Channel::Program(_)), request) => self.continue_program(id, channel, request),
            (Some(_), _) => {
                self.break_off(id, &format!("a request that makes no sense on channel {channel}"));
            }
            (None, _) => {}
        }
    }

    fn continue_command(&mut self, id: ConnectionId, process: ProcessId, request: Request<'_>) {
        let Some(command) = self.commands.get_mut(&process) else { return };
        match request {
            Request::Stdin(bytes) => {
                if command.feed(bytes, &self.epoll) {
                    self.give_credit(process);
                } else {
                    self.break_off(id, "more input than there was credit for");
                }
            }
            Request::StdinEof => command.end_input(&self.epoll),
            Request::Resize(TtySize { rows, columns }) => {
                if let Some(terminal) = command.terminal() {
                    let _ = pty::resize(terminal.as_fd(), Size { rows, columns });
                }
            }
            Request::Signal(signal) => {
                // No answer: it may have ended, and then there is nobody to signal.
                let _ = self.kill(process, signal.signal, signal.reach);
            }
            Request::Credit(more) => {
                if let Owner::Stream { credit, .. } = &mut command.owner {
                    *credit = credit.saturating_add(more).min(limits::WINDOW);
                }
                self.resume_command(process);
            }
            _ => self.break_off(id, "a request that makes no sense for a command"),
        }
    }

    fn continue_write(&mut self, id: ConnectionId, channel: u32, request: Request<'_>) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let Some(Channel::Write(writing)) = connection.channels.get_mut(&channel) else { return };
        match request {
            Request::WriteChunk(bytes) => match writing.write(bytes) {
                Ok(Some(credit)) => connection.say(channel, &Event::Credit(credit)),
                Ok(None) => {}
                Err(failed) => {
                    if let Some(Channel::Write(writing)) = connection.channels.remove(&channel) {
                        writing.abort();
                    }
                    connection.fail(channel, failed);
                }
            },
            Request::WriteCommit => {
                let Some(Channel::Write(writing)) = connection.channels.remove(&channel) else {
                    return;
                };
                match Writing::commit(*writing) {
                    Ok((bytes, created)) => {
                        connection.say(channel, &Event::Written(Written { bytes, created }));
                    }
                    Err(failed) => connection.fail(channel, failed),
                }
            }
            Request::WriteAbort => {
                let Some(Channel::Write(writing)) = connection.channels.remove(&channel) else {
                    return;
                };
                writing.abort();
                connection.say(channel, &Event::Done);
            }
            _ => self.break_off(id, "a request that makes no sense for a write"),
        }
    }

    /// Sends a file as far as credit and room go.
    pub(super) fn pump_read(&mut self, id: ConnectionId, channel: u32) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        while !connection.is_full() {
            let Some(Channel::Read(reading)) = connection.channels.get_mut(&channel) else {
                return;
            };
            if reading.is_done() {
                connection.channels.remove(&channel);
                return connection.say(channel, &Event::Done);
            }
            if self.buffer.len() < CHUNK {
                self.buffer.resize(CHUNK, 0);
            }
            match reading.next(&mut self.buffer) {
                Ok(0) if reading.is_done() => {}
                Ok(0) => return,
                Ok(count) => {
                    let bytes = self.buffer.get(..count).unwrap_or_default();
                    connection.say(channel, &Event::Data(bytes));
                }
                Err(failed) => return connection.fail(channel, failed),
            }
        }
    }
}

/// Requests that only make sense on an open call.
fn belongs_to_call(request: &Request<'_>) -> bool {
    matches!(
        request,
        Request::Stdin(_)
            | Request::StdinEof
            | Request::Resize(_)
            | Request::Signal(_)
            | Request::Credit(_)
            | Request::Detach
            | Request::ReadStop
            | Request::WriteChunk(_)
            | Request::WriteCommit
            | Request::WriteAbort
    )
}

/// What touches files or runs code waits for the host to have looked.
fn needs_seal(request: &Request<'_>) -> bool {
    !matches!(
        request,
        Request::Hello(_)
            | Request::Facts
            | Request::Identify(_)
            | Request::Seal
            | Request::Ping
            | Request::Shutdown
            | Request::ListProcesses
    )
}
