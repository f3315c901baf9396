//! Frames over a transport: what waits to be sent, what has arrived, how long to wait.

use std::io;
use std::ops::Range;
use std::time::{Duration, Instant};

use clawpen_wire::supervisor::frame::{self, Inbox};
use clawpen_wire::supervisor::{CONTROL, Event, Request};

use super::error::{CallError, Violation};
use super::transport::{Ready, Transport, Wish};

/// Memory that an idle connection keeps for sending.
const KEPT: usize = 64 * 1024;

/// Until when an answer is waited for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deadline(Option<Instant>);

impl Deadline {
    /// Waits for ever: a command without a time-out may take as long as it likes.
    pub(super) const NEVER: Self = Self(None);

    /// Waits this long, from now on.
    pub(super) fn after(patience: Duration) -> Self {
        Self(Instant::now().checked_add(patience))
    }

    /// What is left of the wait; `NoAnswer` if nothing is.
    fn remaining(self) -> Result<Option<Duration>, CallError> {
        let Some(end) = self.0 else { return Ok(None) };
        match end.checked_duration_since(Instant::now()) {
            Some(left) if !left.is_zero() => Ok(Some(left)),
            _ => Err(CallError::NoAnswer),
        }
    }
}

/// How long answers may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// One that needs no work worth the name, and each piece of one that comes in pieces.
    pub answer: Duration,
    /// One that has a whole tree or a huge file behind it.
    pub work: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { answer: Duration::from_secs(30), work: Duration::from_secs(15 * 60) }
    }
}

/// One connection's two directions.
#[derive(Debug)]
pub(super) struct Link {
    /// For the calls made over this link.
    pub(super) patience: Patience,
    transport: Box<dyn Transport>,
    inbox: Inbox,
    outbox: Vec<u8>,
    /// How much of `outbox` has been sent.
    sent: usize,
}

impl Link {
    pub(super) fn new(transport: Box<dyn Transport>, patience: Patience) -> Self {
        Self { patience, transport, inbox: Inbox::of_events(), outbox: Vec::new(), sent: 0 }
    }

    /// The deadline of an answer that needs no work.
    pub(super) fn soon(&self) -> Deadline {
        Deadline::after(self.patience.answer)
    }

    /// Puts a request behind those that wait to be sent. Nothing moves before the next wait.
    pub(super) fn queue(&mut self, channel: u32, request: &Request<'_>) -> Result<(), CallError> {
        frame::append(&mut self.outbox, channel, request).map_err(CallError::TooLarge)
    }

    /// Bytes that wait to be sent.
    pub(super) const fn unsent(&self) -> usize {
        self.outbox.len() - self.sent
    }

    /// Sends a request and waits for the next event, which must belong to it. A reported failure
    /// is an error.
    pub(super) fn ask(
        &mut self,
        channel: u32,
        request: &Request<'_>,
        deadline: Deadline,
    ) -> Result<Event<'_>, CallError> {
        self.queue(channel, request)?;
        self.answer(channel, deadline)
    }

    /// Waits for the next event. A reported failure is an error.
    pub(super) fn answer(
        &mut self,
        channel: u32,
        deadline: Deadline,
    ) -> Result<Event<'_>, CallError> {
        while !self.has_event()? {
            self.wait(Wish::default(), deadline)?;
        }
        match self.next_event(channel)? {
            Some(Event::Failed(failed)) => Err(CallError::Failed(failed.into())),
            Some(event) => Ok(event),
            None => Err(CallError::Closed),
        }
    }

    /// Whether a whole event has arrived.
    pub(super) fn has_event(&self) -> Result<bool, CallError> {
        self.inbox.has_frame().map_err(|error| Violation::Malformed(error).into())
    }

    /// Takes the next event that has arrived, which must be for `channel`.
    pub(super) fn next_event(&mut self, channel: u32) -> Result<Option<Event<'_>>, CallError> {
        let next = self.next_event_of(channel..channel.saturating_add(1))?;
        Ok(next.map(|(_, event)| event))
    }

    /// Takes the next event that has arrived, which must be for one of these channels; says for which.
    fn next_event_of(
        &mut self,
        channels: Range<u32>,
    ) -> Result<Option<(u32, Event<'_>)>, CallError> {
        let frame = match self.inbox.next_frame() {
            Ok(Some(frame)) => frame,
            Ok(None) => return Ok(None),
            Err(error) => return Err(Violation::Malformed(error).into()),
        };
        let found = frame.channel;
        if channels.contains(&found) {
            return frame
                .decode()
                .map(|event| Some((found, event)))
                .map_err(|error| Violation::Malformed(error).into());
        }
        // A supervisor that gives up on the connection says so on the connection's own channel.
        if found == CONTROL
            && let Ok(Event::Failed(failed)) = frame.decode()
        {
            return Err(CallError::Ended(failed.into()));
        }
        Err(Violation::WrongChannel { expected: channels.start, found }.into())
    }

    /// Waits for the next event of any of these channels; a reported failure is an event here. Says which
    /// channel it was.
    pub(super) fn event_of(
        &mut self,
        channels: Range<u32>,
        deadline: Deadline,
    ) -> Result<(u32, Event<'_>), CallError> {
        while !self.has_event()? {
            self.wait(Wish::default(), deadline)?;
        }
        self.next_event_of(channels)?.ok_or(CallError::Closed)
    }

    /// Sends what can be sent, waits until something happens, takes in what has come.
    pub(super) fn wait(&mut self, wish: Wish<'_>, deadline: Deadline) -> Result<Ready, CallError> {
        self.send()?;
        let wish = Wish { send: self.unsent() > 0, ..wish };
        let left = deadline.remaining();
        // Time may be over because we did not run, and the answer may have come meanwhile: one last look.
        // Only a whole event counts, or somebody could hold us with a byte now and then.
        let timeout = left.as_ref().map_or(Some(Duration::ZERO), |left| *left);
        let ready = self.transport.wait(wish, timeout).map_err(CallError::Connection)?;
        if ready.receive {
            self.receive()?;
        }
        match left {
            Err(over) if !self.has_event()? => Err(over),
            Ok(_) | Err(_) => Ok(ready),
        }
    }

    /// Whether nothing is on its way in either direction, and the other side is still there.
    pub(super) fn is_silent(&mut self) -> bool {
        let now = Some(Duration::ZERO);
        let is_quiet = |ready: Ready| !ready.receive;
        self.unsent() == 0
            && self.inbox.is_empty()
            && self.transport.wait(Wish::default(), now).is_ok_and(is_quiet)
    }

    /// Sends and takes in what is possible at once.
    pub(super) fn pass(&mut self) -> Result<(), CallError> {
        self.send()?;
        self.receive()
    }

    /// Gives the memory of long frames back.
    pub(super) fn settle(&mut self) {
        self.inbox.settle();
        if self.unsent() == 0 {
            self.outbox.clear();
            self.outbox.shrink_to(KEPT);
            self.sent = 0;
        }
    }

    /// Sends what the other side takes at once.
    pub(super) fn send(&mut self) -> Result<(), CallError> {
        while let Some(rest) = self.outbox.get(self.sent..).filter(|rest| !rest.is_empty()) {
            match self.transport.send(rest) {
                Ok(0) => return Err(CallError::Closed),
                Ok(count) => self.sent += count,
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => break,
                    io::ErrorKind::Interrupted => {}
                    // What the other side said before it went is still worth reading.
                    io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => {
                        self.sent = self.outbox.len();
                    }
                    _ => return Err(CallError::Connection(error)),
                },
            }
        }
        // What was sent goes now, or an input that never pauses would keep all of it.
        self.outbox.drain(..self.sent);
        self.sent = 0;
        Ok(())
    }

    fn receive(&mut self) -> Result<(), CallError> {
        match self.transport.receive(self.inbox.room()) {
            Ok(0) => Err(CallError::Closed),
            Ok(count) => {
                self.inbox.filled(count);
                Ok(())
            }
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(()),
                io::ErrorKind::ConnectionReset => Err(CallError::Closed),
                _ => Err(CallError::Connection(error)),
            },
        }
    }
}
