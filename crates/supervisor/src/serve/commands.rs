//! Commands on the loop: started, heard, drained, attached to, and ended.

use std::os::fd::{AsFd as _, OwnedFd};
use std::time::Duration;

use clawpen_os::events::{self, Interest};
use clawpen_os::process::Child;
use clawpen_os::spawn::Step;
use clawpen_wire::supervisor::{Attach, ErrorCode};
use clawpen_wire::supervisor::{
    Attached, Event, Exec, ExecOutput, Failed, Output, ProcessId, Started, Stream, limits,
};

use super::connection::Channel;
use super::watch::{ConnectionId, Token, Watched};
use super::{PIECE, Server, would_block};
use crate::exec::{self, From, failed};
use crate::facts;
use crate::processes::ring::Ring;
use crate::processes::{Command, Owner, Terms, Tree};
use crate::shim::{self, Said};

/// What one who is attached may send at once: several can be, and all share one window.
const INPUT_SHARE: u32 = limits::FIRST_INPUT_WINDOW / 8;
/// Credit goes back in pieces of at least this size, so that a small input costs no frame.
const CREDIT_PIECE: u32 = limits::FIRST_INPUT_WINDOW / 2;

impl Server {
    /// Prepares a command; it is started at the end of the turn.
    pub(super) fn exec(
        &mut self,
        id: ConnectionId,
        channel: u32,
        exec: &Exec,
        from: From,
    ) -> Result<(), Failed> {
        let owner = match exec.output {
            ExecOutput::Stream { window } => {
                let credit = window.min(limits::WINDOW);
                Owner::Stream { connection: id, channel, credit }
            }
            ExecOutput::Background { buffer } => {
                Owner::Background(Ring::new(self.buffer_for(buffer)?))
            }
        };
        if exec.timeout_ms > limits::TIMEOUT_MS {
            return Err(failed(ErrorCode::Invalid, "the time-out is longer than 30 days"));
        }
        let (prepared, ends) = exec::prepare(&self.plan, exec, from)?;
        let timeout = (exec.timeout_ms > 0).then(|| Duration::from_millis(exec.timeout_ms));
        let grace = Duration::from_millis(exec.grace_ms.into());
        let process = self.reserve()?;
        let command = Command::new(process, &exec.argv, ends, Terms { owner, timeout, grace });
        self.queue(command, prepared);
        self.open(id, channel, Channel::Command(process));
        Ok(())
    }

    /// Starts the observer, whose report becomes the answer on `channel`.
    pub(super) fn observe(&mut self, id: ConnectionId, channel: u32) -> Result<(), Failed> {
        let (prepared, ends) = facts::observer(&self.plan)?;
        let process = self.reserve()?;
        let owner = Owner::Observer { connection: id, channel, report: Vec::new(), view: None };
        let timeout = Some(facts::PATIENCE);
        let terms = Terms { owner, timeout, grace: Duration::ZERO };
        let command = Command::new(process, &["observe".into()], ends, terms);
        self.queue(command, prepared);
        self.open(id, channel, Channel::Facts);
        Ok(())
    }

    fn queue(&mut self, command: Command, prepared: crate::confine::Prepared) {
        self.starts.push_back((command.id, prepared));
        self.commands.insert(command.id, command);
    }

    fn open(&mut self, id: ConnectionId, channel: u32, call: Channel) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.channels.insert(channel, call);
        }
    }

    /// A number for one more command, if there may be one.
    fn reserve(&mut self) -> Result<ProcessId, Failed> {
        let running = self.commands.values().filter(|command| command.is_running()).count();
        let most = usize::try_from(self.plan.caps.processes)
            .unwrap_or(limits::PROCESSES)
            .min(limits::PROCESSES);
        if running >= most {
            return Err(failed(
                ErrorCode::Busy,
                format!("{running} commands are running; wait for one or kill it"),
            ));
        }
        let process = self.next_process;
        self.next_process += 1;
        Ok(process)
    }

    /// Room for the output of a background command. Old output makes room for new; that of running
    /// commands does not.
    fn buffer_for(&mut self, wanted: u32) -> Result<usize, Failed> {
        let wanted = wanted.min(self.plan.caps.background_buffer).min(limits::BACKGROUND_BUFFER);
        loop {
            let rings = || {
                self.commands.values().filter_map(|command| match &command.owner {
                    Owner::Background(ring) => Some((command, ring.cap() as u64)),
                    Owner::Stream { .. } | Owner::Observer { .. } | Owner::Nobody => None,
                })
            };
            let used: u64 = rings().map(|(_, cap)| cap).sum();
            let finished = rings().filter(|(command, _)| !command.is_running());
            let oldest = finished.clone().map(|(command, _)| command.id).next();
            let too_many = finished.count() >= limits::FINISHED_PROCESSES;
            if !too_many && used + u64::from(wanted) <= self.plan.caps.background_total {
                return Ok(usize::try_from(wanted).unwrap_or_default());
            }
            let oldest = oldest.ok_or_else(|| {
                failed(
                    ErrorCode::Busy,
                    "the background commands that run hold all buffers; ask for less or kill one",
                )
            })?;
            self.commands.remove(&oldest);
        }
    }

    /// The shim exists.
    pub(super) fn is_starting(&mut self, id: ProcessId, shim: Child, status: OwnedFd) {
        let Some(command) = self.commands.get_mut(&id) else { return };
        let mut status = Watched::new(status, Token::Status(id));
        let watched = status.watch(&self.epoll, Interest::Read);
        command.status = Some(status);
        command.shim = Some(shim);
        self.ahead.pause();
        if watched.is_err() {
            command.kill_tree();
        }
    }

    /// The observer is being forked; its report ends with its pipe.
    pub(super) fn is_observing(&mut self, id: ProcessId) {
        let Some(command) = self.commands.get_mut(&id) else { return };
        if let Owner::Observer { view, .. } = &mut command.owner {
            *view = Some(Box::new(facts::View::take()));
        }
        self.watch_outputs(id);
    }

    /// The observer has not ended in time: somebody has stopped it. What it may still write is not waited for.
    pub(super) fn give_observer_up(&mut self, id: ProcessId) {
        if let Some(command) = self.commands.get_mut(&id) {
            command.close_streams(&self.epoll);
            command.gone = Some(Tree::Gone);
        }
        self.finish(id);
    }

    /// It was killed before it was started: it never runs. The host hears what it hears of one that was killed.
    pub(super) fn was_called_off(&mut self, id: ProcessId) {
        let Some(command) = self.commands.get_mut(&id) else { return };
        command.gone = Some(Tree::Gone);
        self.tell_start(id);
        self.drain(id);
    }

    /// No shim could be made.
    pub(super) fn cannot_start(&mut self, id: ProcessId, error: &std::io::Error) {
        if let Some(mut command) = self.commands.remove(&id) {
            let errno = error.raw_os_error().unwrap_or_default();
            let failed = exec::start_failure(Step::Clone, errno, &command.name);
            command.close_streams(&self.epoll);
            self.tell_failure(&command, failed);
        }
    }

    fn tell_failure(&mut self, command: &Command, failed: Failed) {
        let told = match command.owner {
            Owner::Stream { connection, channel, .. }
            | Owner::Observer { connection, channel, .. } => Some((connection, channel)),
            // Its channel is still open: it ends with `Started`, which never came.
            Owner::Background(_) => self.channel_of(command.id),
            Owner::Nobody => None,
        };
        if let Some((connection, channel)) = told
            && let Some(connection) = self.connections.get_mut(&connection)
        {
            connection.fail(channel, failed);
        }
    }

    fn channel_of(&self, process: ProcessId) -> Option<(ConnectionId, u32)> {
        self.connections.iter().find_map(|(id, connection)| {
            let mut channels = connection.channels.iter();
            let found =
                channels.find(|(_, call)| matches!(call, Channel::Command(of) if *of == process));
            found.map(|(channel, _)| (*id, *channel))
        })
    }

    /// Takes everything that the shim has said so far.
    pub(super) fn hear(&mut self, id: ProcessId) {
        loop {
            let Some(command) = self.commands.get_mut(&id) else { return };
            let Some(status) = &command.status else { return };
            match shim::hear(status.as_fd()) {
                Some(Said::Failed { step, errno }) => {
                    let failed = exec::start_failure(step, errno, &command.name);
                    // It stays in the table, owned by nobody, until its shim is reaped.
                    let Some(mut command) = self.commands.remove(&id) else { return };
                    command.close_streams(&self.epoll);
                    self.tell_failure(&command, failed);
                    command.owner = Owner::Nobody;
                    command.kill_shim();
                    self.commands.insert(id, command);
                    return;
                }
                Some(Said::NotTaken) => {
                    if let Some(status) = command.status.take() {
                        status.close(&self.epoll);
                    }
                    // Whoever killed the shim while it stood by does not get its command too. One that is to
                    // be killed has no order any more, and ends with its shim.
                    if let Some(order) = command.order.take() {
                        self.retiring.extend(command.shim.take());
                        self.starts.push_back((id, order));
                    }
                    return;
                }
                Some(Said::Started(start)) => {
                    command.has_started(start);
                    self.tell_start(id);
                    self.watch_outputs(id);
                }
                Some(Said::Ended(ending)) => {
                    command.has_ended(&ending);
                    // The host need not wait until the shim itself is gone.
                    if command.gone == Some(Tree::Gone) {
                        return self.is_over(id);
                    }
                }
                Some(Said::RanThrough { pid, ending }) => {
                    command.runs_as(pid);
                    command.has_ended(&ending);
                    let is_over = command.gone == Some(Tree::Gone);
                    self.tell_start(id);
                    if is_over {
                        return self.is_over(id);
                    }
                    self.watch_outputs(id);
                }
                None => {
                    // Nothing more now. If it was the end, the kernel would tell so for ever.
                    if (command.shim.is_none() || !shim::is_connected(status.as_fd()))
                        && let Some(status) = command.status.take()
                    {
                        status.close(&self.epoll);
                    }
                    return;
                }
            }
        }
    }

    /// Nothing is left of its tree: the shim is free, and what the pipes still hold is all.
    fn is_over(&mut self, id: ProcessId) {
        let Some(command) = self.commands.get_mut(&id) else { return };
        if let (Some(shim), Some(status)) = (command.shim.take(), command.status.take()) {
            self.comes_back(shim, status);
        }
        self.drain(id);
    }

    pub(super) fn tell_start(&mut self, id: ProcessId) {
        let Some(command) = self.commands.get(&id) else { return };
        let started = Event::Started(Started { process: id, pid: command.pid });
        let told = match command.owner {
            Owner::Stream { connection, channel, .. } => Some((connection, channel)),
            Owner::Background(_) => self.channel_of(id),
            Owner::Observer { .. } | Owner::Nobody => None,
        };
        let is_background = matches!(command.owner, Owner::Background(_));
        let Some((connection, channel)) = told else { return };
        if let Some(connection) = self.connections.get_mut(&connection) {
            connection.say(channel, &started);
            if is_background {
                connection.channels.remove(&channel);
            }
        }
    }

    /// Waits for output where there is room for it.
    pub(super) fn watch_outputs(&mut self, id: ProcessId) {
        let Some(command) = self.commands.get_mut(&id) else { return };
        if command.pid == 0 && command.shim.is_some() {
            // Not before the word that it runs: no output overtakes that.
            return;
        }
        let wanted = match &command.owner {
            // A quick command writes before its shim can say that it runs; the host must hear that
            // first.
            Owner::Stream { .. } if !command.is_told() => false,
            Owner::Stream { connection, credit, .. } => {
                *credit > 0 && self.connections.get(connection).is_some_and(|host| !host.is_full())
            }
            Owner::Background(_) | Owner::Observer { .. } | Owner::Nobody => true,
        };
        let interest = if wanted { Interest::Read } else { Interest::None };
        for stream in [&mut command.stdout, &mut command.stderr].into_iter().flatten() {
            let _ = stream.watch(&self.epoll, interest);
        }
    }

    /// Moves one piece of output.
    pub(super) fn pump(&mut self, id: ProcessId, stream: Stream) {
        let Some(command) = self.commands.get_mut(&id) else { return };
        let room = match &command.owner {
            Owner::Stream { .. } if !command.is_told() => 0,
            Owner::Stream { connection, credit, .. } => match self.connections.get(connection) {
                Some(host) if !host.is_full() => {
                    PIECE.min(usize::try_from(*credit).unwrap_or(PIECE))
                }
                Some(_) => 0,
                None => PIECE,
            },
            Owner::Background(_) | Owner::Observer { .. } | Owner::Nobody => PIECE,
        };
        if room == 0 {
            return self.watch_outputs(id);
        }
        let tree_is_gone = command.shim.is_none() && command.gone == Some(Tree::Gone);
        let output = command.output(stream);
        let Some(pipe) = output else { return };
        let Some(buffer) = self.buffer.get_mut(..room) else { return };
        match events::read(pipe.as_fd(), buffer) {
            Ok(count) if count > 0 => self.deliver(id, stream, count),
            Err(error) if would_block(&error) && !tree_is_gone => {}
            // The end, a terminal that was hung up (EIO), or nothing more from a tree that is gone.
            Ok(_) | Err(_) => {
                if let Some(pipe) = output.take() {
                    pipe.close(&self.epoll);
                }
                if matches!(command.owner, Owner::Observer { .. }) {
                    // It has no shim of its own that would say so.
                    command.gone = Some(Tree::Gone);
                }
                self.finish(id);
            }
        }
    }

    /// Gives the first `count` bytes of the buffer to whom they belong.
    fn deliver(&mut self, id: ProcessId, stream: Stream, count: usize) {
        let Some(command) = self.commands.get_mut(&id) else { return };
        let bytes = self.buffer.get(..count).unwrap_or_default();
        let offset = command.written;
        command.written += count as u64;
        match &mut command.owner {
            Owner::Stream { connection, channel, credit } => {
                *credit = credit.saturating_sub(u32::try_from(count).unwrap_or(u32::MAX));
                if let Some(connection) = self.connections.get_mut(connection) {
                    connection.say(*channel, &Event::Output(Output { stream, offset, bytes }));
                }
                self.watch_outputs(id);
            }
            Owner::Background(ring) => {
                ring.push(stream, bytes);
                self.pump_attached(id);
            }
            Owner::Observer { report, .. } => {
                let room = facts::LONGEST.saturating_sub(report.len());
                report.extend_from_slice(bytes.get(..count.min(room)).unwrap_or_default());
            }
            Owner::Nobody => {}
        }
    }

    /// The tree is gone: what its pipes still hold is all there will ever be.
    pub(super) fn drain(&mut self, id: ProcessId) {
        for stream in [Stream::Stdout, Stream::Stderr] {
            loop {
                let Some(command) = self.commands.get_mut(&id) else { return };
                let before = (command.written, command.output(stream).is_some());
                if !before.1 {
                    break;
                }
                self.pump(id, stream);
                let Some(command) = self.commands.get_mut(&id) else { return };
                if (command.written, command.output(stream).is_some()) == before {
                    // No room: goes on with the next credit.
                    break;
                }
            }
        }
        self.finish(id);
    }

    /// Ends a command whose tree is gone and whose output is out.
    fn finish(&mut self, id: ProcessId) {
        let Some(command) = self.commands.get(&id) else { return };
        let has_output = command.stdout.is_some() || command.stderr.is_some();
        if command.shim.is_some()
            || command.gone != Some(Tree::Gone)
            || has_output
            || !command.is_running()
        {
            return;
        }
        let Some(mut command) = self.commands.remove(&id) else { return };
        command.close_streams(&self.epoll);
        command.due = None;
        let exited = command.outcome();
        command.exited = Some(exited);
        match &mut command.owner {
            Owner::Stream { connection, channel, .. } => {
                if let Some(connection) = self.connections.get_mut(connection) {
                    connection.channels.remove(channel);
                    connection.say(*channel, &Event::Exited(exited));
                }
            }
            Owner::Observer { connection, channel, report, view } => {
                let missing = || exec::failed(ErrorCode::Io, "process 1 did not look at itself");
                let report = view.take().ok_or_else(missing).and_then(|view| view.report(report));
                if let Some(connection) = self.connections.get_mut(connection) {
                    connection.channels.remove(channel);
                    match report {
                        Ok(report) => {
                            connection.say(*channel, &Event::FactsReport(Box::new(report)));
                        }
                        Err(failed) => connection.fail(*channel, failed),
                    }
                }
            }
            Owner::Background(_) => {
                self.commands.insert(id, command);
                self.pump_attached(id);
            }
            Owner::Nobody => {}
        }
    }

    /// The connection of a foreground command is gone.
    pub(super) fn abandon(&mut self, id: ProcessId) {
        let Some(command) = self.commands.get_mut(&id) else { return };
        if matches!(command.owner, Owner::Background(_)) {
            return;
        }
        command.close_streams(&self.epoll);
        command.owner = Owner::Nobody;
        command.kill_tree();
    }

    pub(super) fn push_input(&mut self, id: ProcessId) {
        let Some(command) = self.commands.get_mut(&id) else { return };
        command.push_input(&self.epoll);
        self.give_credit(id);
        self.share_input(id);
    }

    /// Lets everyone who is attached send input, as far as there is room that nobody else was promised.
    pub(super) fn share_input(&mut self, process: ProcessId) {
        let Some(mut room) = self.commands.get(&process).and_then(Command::input_room) else {
            return;
        };
        let attached = |call: &mut Channel| match call {
            Channel::Attach { process: of, input, .. } if *of == process => Some(*input),
            _ => None,
        };
        let promised = self.connections.values_mut().flat_map(|host| host.channels.values_mut());
        let promised: u32 = promised.filter_map(attached).sum();
        room = room.saturating_sub(usize::try_from(promised).unwrap_or(usize::MAX));
        for connection in self.connections.values_mut() {
            let mut given = Vec::new();
            for (channel, call) in &mut connection.channels {
                let Channel::Attach { process: of, input, .. } = call else { continue };
                let more = INPUT_SHARE.saturating_sub(*input);
                // Not for a few bytes: every credit is a frame.
                if *of == process
                    && more >= INPUT_SHARE / 2
                    && room >= usize::try_from(more).unwrap_or(usize::MAX)
                {
                    *input += more;
                    room -= usize::try_from(more).unwrap_or_default();
                    given.push((*channel, more));
                }
            }
            for (channel, more) in given {
                connection.say(channel, &Event::Credit(more));
            }
        }
    }

    /// Lets the host send more input for what the command has taken.
    pub(super) fn give_credit(&mut self, id: ProcessId) {
        let Some(command) = self.commands.get_mut(&id) else { return };
        let Owner::Stream { connection, channel, .. } = command.owner else { return };
        let Some(input) = command.input.as_mut().filter(|input| input.taken >= CREDIT_PIECE) else {
            return;
        };
        let credit = std::mem::take(&mut input.taken);
        if let Some(connection) = self.connections.get_mut(&connection) {
            connection.say(channel, &Event::Credit(credit));
        }
    }

    pub(super) fn attach(
        &mut self,
        id: ConnectionId,
        channel: u32,
        attach: Attach,
    ) -> Result<(), Failed> {
        let owner = self.commands.get(&attach.process).map(|command| &command.owner);
        let Some(Owner::Background(ring)) = owner else {
            let what = format!("there is no background command {}", attach.process);
            return Err(failed(ErrorCode::NoProcess, what));
        };
        let next = attach.offset.max(ring.start());
        let credit = attach.window.min(limits::WINDOW);
        let call = Channel::Attach { process: attach.process, next, credit, input: 0 };
        self.open(id, channel, call);
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.say(channel, &Event::Attached(Attached { offset: next }));
        }
        self.share_input(attach.process);
        self.pump_attached(attach.process);
        Ok(())
    }

    /// Sends kept output to everyone who is attached, as far as credit and room go.
    pub(super) fn pump_attached(&mut self, process: ProcessId) {
        let Some(command) = self.commands.get(&process) else { return };
        let Owner::Background(ring) = &command.owner else { return };
        for connection in self.connections.values_mut() {
            let is_it = |call: &Channel| matches!(call, Channel::Attach { process: of, .. } if *of == process);
            let channels: Vec<u32> = connection
                .channels
                .iter()
                .filter(|(_, call)| is_it(call))
                .map(|(channel, _)| *channel)
                .collect();
            for channel in channels {
                while !connection.is_full() {
                    let Some(Channel::Attach { next, credit, .. }) =
                        connection.channels.get_mut(&channel)
                    else {
                        break;
                    };
                    let room = PIECE.min(usize::try_from(*credit).unwrap_or(PIECE));
                    let piece = ring.read(*next, room).filter(|(_, _, bytes)| !bytes.is_empty());
                    let Some((offset, stream, bytes)) = piece else { break };
                    *next = offset + bytes.len() as u64;
                    *credit = credit.saturating_sub(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
                    connection
                        .say(channel, &Event::Output(Output { stream, offset, bytes: &bytes }));
                }
                let at_end = matches!(connection.channels.get(&channel), Some(Channel::Attach { next, .. }) if *next >= ring.end());
                if let Some(exited) = command.exited.filter(|_| at_end) {
                    connection.channels.remove(&channel);
                    connection.say(channel, &Event::Exited(exited));
                }
            }
        }
    }

    /// The host reads again: goes on with everything that waited for it.
    pub(super) fn resume(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let mut commands = Vec::new();
        let mut attached = Vec::new();
        let mut reads = Vec::new();
        for (channel, call) in &connection.channels {
            match call {
                Channel::Command(process) => commands.push(*process),
                Channel::Attach { process, .. } => attached.push(*process),
                Channel::Read(_) => reads.push(*channel),
                Channel::Write(_) | Channel::Program(_) | Channel::Job(_) | Channel::Facts => {}
            }
        }
        for process in commands {
            self.resume_command(process);
        }
        for process in attached {
            self.pump_attached(process);
        }
        for channel in reads {
            self.pump_read(id, channel);
        }
        self.handle_frames(id);
    }

    /// There is room again for a command's output.
    pub(super) fn resume_command(&mut self, id: ProcessId) {
        self.watch_outputs(id);
        let Some(command) = self.commands.get(&id) else { return };
        if command.shim.is_none() && command.gone == Some(Tree::Gone) {
            self.drain(id);
        }
    }
}
