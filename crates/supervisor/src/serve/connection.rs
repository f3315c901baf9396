//! One connection of a host: bytes in, bytes out, and the calls that are open on it.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd as _;
use std::time::Duration;

use clawpen_os::events::{self, Epoll, Interest};
use clawpen_wire::supervisor::frame::{self, Inbox};
use clawpen_wire::supervisor::{CONTROL, Event, Failed, ProcessId};

use super::programs::Incoming;
use super::watch::Watched;
use crate::exec;
use crate::files::{Job, Reading, Writing};

/// Bytes waiting for the host past which nothing new is produced for it.
const FULL: usize = 1024 * 1024;
/// Bytes that were sent past which they are let go of, though others still wait.
const SENT: usize = 256 * 1024;
/// What an idle connection keeps.
const KEPT: usize = 64 * 1024;

/// A call that is not over with its first answer.
#[derive(Debug)]
pub(crate) enum Channel {
    /// A command whose output goes here.
    Command(ProcessId),
    /// The output of a background command, from `next` on; and its input, as far as `input` goes.
    Attach {
        process: ProcessId,
        next: u64,
        credit: u32,
        input: u32,
    },
    Read(Reading),
    Write(Box<Writing>),
    Program(Incoming),
    /// Hash, copy or remove: done piece by piece, so that nothing else waits for it.
    Job(Box<Job>),
    /// The inside report is being made.
    Facts,
}

#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) socket: Watched,
    pub(crate) inbox: Inbox,
    pub(crate) channels: BTreeMap<u32, Channel>,
    pub(crate) greeted: bool,
    /// Nothing more is read; closed when the rest is sent.
    pub(crate) leaving: bool,
    /// When the host last said something, in [`super::Server`]'s count.
    pub(crate) heard: u64,
    outbox: Vec<u8>,
    sent: usize,
}

impl Connection {
    pub(crate) fn new(socket: Watched) -> Self {
        Self {
            socket,
            inbox: Inbox::of_requests(),
            channels: BTreeMap::new(),
            greeted: false,
            leaving: false,
            heard: 0,
            outbox: Vec::new(),
            sent: 0,
        }
    }

    /// Queues an event. One that breaks the caps is our own mistake; the host gets a failure instead of it.
    pub(crate) fn say(&mut self, channel: u32, event: &Event<'_>) {
        if let Err(error) = frame::append(&mut self.outbox, channel, event) {
            let failed = exec::failed(
                clawpen_wire::supervisor::ErrorCode::TooLong,
                format!("the answer is too long to be sent: {error}"),
            );
            self.fail(channel, failed);
        }
    }

    /// Queues a failure, which ends its channel.
    pub(crate) fn fail(&mut self, channel: u32, failed: Failed) {
        self.channels.remove(&channel);
        // A message within its cap always fits.
        let _ = frame::append(&mut self.outbox, channel, &Event::Failed(failed));
        if channel == CONTROL {
            self.leaving = true;
        }
    }

    /// Whether the host takes what is sent: if not, nothing more is produced.
    pub(crate) fn is_full(&self) -> bool {
        self.outbox.len() - self.sent >= FULL
    }

    /// Whether nothing is going on: no call, nothing half read or not read yet, nothing to be sent.
    pub(crate) fn is_at_rest(&self) -> bool {
        let is_idle = self.channels.is_empty() && self.inbox.is_empty() && !self.has_output();
        self.greeted && is_idle && !self.has_input()
    }

    /// Whether the host has sent something that was not read yet, and is there to hear what becomes of it.
    fn has_input(&self) -> bool {
        let seen = events::poll(&[(self.socket.as_fd(), Interest::Read)], Some(Duration::ZERO));
        seen.is_ok_and(|seen| seen.iter().any(|event| event.readable && !event.hung_up))
    }

    pub(crate) fn has_output(&self) -> bool {
        self.sent < self.outbox.len()
    }

    /// Sends what it can. An error means that the host is gone.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        while self.has_output() {
            let rest = self.outbox.get(self.sent..).unwrap_or_default();
            match events::write(self.socket.as_fd(), rest) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        if !self.has_output() {
            self.sent = 0;
            self.outbox.clear();
            self.outbox.shrink_to(KEPT);
        } else if self.sent >= SENT {
            // A host that nearly keeps up never lets it run empty: what is sent would pile up for ever.
            self.outbox.drain(..self.sent);
            self.sent = 0;
        }
        Ok(())
    }

    /// Waits for what makes sense now. A host that does not read is not listened to either.
    pub(crate) fn watch(&mut self, epoll: &Epoll) -> io::Result<()> {
        let interest = match (self.leaving || self.is_full(), self.has_output()) {
            (false, false) => Interest::Read,
            (false, true) => Interest::Both,
            (true, _) => Interest::Write,
        };
        self.socket.watch(epoll, interest)
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;

    use clawpen_os::sockets::{self, Kind};
    use clawpen_wire::supervisor::{Output, Stream};

    use super::*;
    use crate::serve::watch::Token;

    #[test]
    fn a_host_that_nearly_keeps_up_costs_no_memory() {
        let (ours, theirs) = sockets::pair(Kind::Stream).unwrap();
        events::set_nonblocking(ours.as_fd()).unwrap();
        events::set_nonblocking(theirs.as_fd()).unwrap();
        let mut connection = Connection::new(Watched::new(ours, Token::Connection(1)));
        let bytes = [7_u8; 16 * 1024];
        let mut read = vec![0; 15 * 1024];
        let mut total = 0;
        while total < 64 * 1024 * 1024 {
            if !connection.is_full() {
                let output = Output { stream: Stream::Stdout, offset: 0, bytes: &bytes };
                connection.say(2, &Event::Output(output));
            }
            connection.flush().unwrap();
            total += events::read(theirs.as_fd(), &mut read).unwrap_or_default();
            assert!(connection.outbox.capacity() < 8 * 1024 * 1024, "after {total} bytes");
        }
        assert!(connection.has_output(), "it never ran empty");
    }
}
