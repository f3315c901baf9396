//! Follows one command to its end, in both directions at once.
//!
//! ```text
//! foreground:  opening ──Started──►  running ──Exited──► over
//! background:  opening ──Attached──► running ──Exited or, after Stop, Done──► over
//!              any ──Failed──► over
//! ```
//!
//! Output is handed to the caller as it comes, then credited. Input is read only when it may be
//! sent. When the caller fails or has enough, the other side is told to stop and what is still
//! under way is read off, so that the connection can carry the next call.

use std::io;
use std::time::Duration;

use clawpen_wire::supervisor::{
    End, Event, Exited, Output, Reach, Request, Signal, StdinMode, limits,
};

use super::super::error::{CallError, Violation, unexpected};
use super::super::link::{Deadline, Link};
use super::super::transport::{Ready, Wish};
use super::{AttachEnd, ExecIo, Input, Order};

/// Input read at once: small beside the window, so that sending and reading overlap.
const INPUT_CHUNK: usize = 64 * 1024;
/// Orders taken before the connection is looked at again.
const ORDERS_AT_ONCE: usize = 32;
/// The highest signal number.
const LAST_SIGNAL: i32 = 64;
const SIGKILL: i32 = 9;

/// Whose output is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Foreground,
    Background { offset: u64 },
}

impl Kind {
    /// A background command may not have taken all that an earlier watcher sent; the supervisor
    /// says how much it has room for.
    const fn first_input_window(self) -> u32 {
        match self {
            Self::Foreground => limits::FIRST_INPUT_WINDOW,
            Self::Background { .. } => 0,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Opening,
    Running,
}

/// What an event asks of us once it has been read.
enum Step {
    Next,
    /// The command runs: its own time starts.
    Begun,
    /// The caller could not take it.
    CallerFailed(io::Error),
    Over(AttachEnd),
}

/// A watched command.
#[derive(Debug)]
pub(super) struct Watch<'l> {
    link: &'l mut Link,
    channel: u32,
    flow: Flow,
    /// Where input is read into; empty until some is.
    buffer: Vec<u8>,
    longest_run: Option<Duration>,
    deadline: Deadline,
    /// What went wrong on our side. The call ends with it.
    cause: Option<io::Error>,
}

impl<'l> Watch<'l> {
    pub(super) fn new(link: &'l mut Link, channel: u32, kind: Kind, window: u32) -> Self {
        let offset = match kind {
            Kind::Foreground => 0,
            Kind::Background { offset } => offset,
        };
        let deadline = link.soon();
        Self {
            link,
            channel,
            flow: Flow {
                kind,
                state: State::Opening,
                window,
                credit: window,
                consumed: 0,
                offset,
                input: None,
                stopping: false,
            },
            buffer: Vec::new(),
            longest_run: None,
            deadline,
            cause: None,
        }
    }

    /// Says whether the command takes input.
    pub(super) fn feed(mut self, stdin: StdinMode) -> Self {
        self.flow.input = match stdin {
            StdinMode::Null => None,
            StdinMode::Pipe => Some(self.flow.kind.first_input_window()),
        };
        self
    }

    /// Says how long the command may run. A little later we no longer wait for its end.
    pub(super) fn until(mut self, longest_run: Option<Duration>) -> Self {
        self.longest_run = longest_run;
        self
    }

    pub(super) fn run(mut self, io: &mut dyn ExecIo) -> Result<AttachEnd, CallError> {
        loop {
            while let Some(event) = self.link.next_event(self.channel)? {
                match self.flow.take(event, io) {
                    Ok(Step::Next) => {}
                    // One that was told to stop meanwhile keeps its short time.
                    Ok(Step::Begun) if self.flow.stopping => {}
                    Ok(Step::Begun) => self.deadline = self.run_deadline(),
                    Ok(Step::CallerFailed(error)) => self.give_up(error)?,
                    Ok(Step::Over(end)) => return self.end(Ok(end)),
                    Err(error @ CallError::Failed(_)) => return self.end(Err(error)),
                    Err(error) => return Err(error),
                }
                if let Some(credit) = self.flow.credit_due() {
                    self.link.queue(self.channel, &Request::Credit(credit))?;
                }
            }
            let ready = self.wait(io)?;
            if ready.orders
                && let Err(error) = self.pass_orders(io)?
            {
                self.give_up(error)?;
            }
            if ready.input
                && let Err(error) = self.pass_input(io)?
            {
                self.give_up(error)?;
            }
        }
    }

    fn run_deadline(&self) -> Deadline {
        let patience = self.link.patience.answer;
        self.longest_run
            .map_or(Deadline::NEVER, |run| Deadline::after(run.saturating_add(patience)))
    }

    /// Waits for the next thing to do. Input that is there already is not waited for.
    fn wait(&mut self, io: &mut dyn ExecIo) -> Result<Ready, CallError> {
        self.link.send()?;
        let orders = if self.flow.stopping { None } else { io.orders() };
        let input = match self.flow.input {
            // While the other side takes nothing, input stays where it is.
            Some(window) if window > 0 && self.link.unsent() == 0 => Some(io.input()),
            _ => None,
        };
        match input {
            Some(Input::Ready) => {
                self.link.pass()?;
                Ok(Ready { receive: true, input: true, orders: orders.is_some() })
            }
            Some(Input::Closed) => {
                self.flow.input = None;
                self.link.queue(self.channel, &Request::StdinEof)?;
                self.link.wait(Wish { send: false, input: None, orders }, self.deadline)
            }
            Some(Input::Wait(fd)) => {
                self.link.wait(Wish { send: false, input: Some(fd), orders }, self.deadline)
            }
            None => self.link.wait(Wish { send: false, input: None, orders }, self.deadline),
        }
    }

    /// Sends what the caller wants of the command. The inner result is the caller's.
    fn pass_orders(&mut self, io: &mut dyn ExecIo) -> Result<io::Result<()>, CallError> {
        for _ in 0..ORDERS_AT_ONCE {
            match io.next_order() {
                Ok(None) => break,
                Ok(Some(Order::Resize(size))) => {
                    self.link.queue(self.channel, &Request::Resize(size))?;
                }
                Ok(Some(Order::Signal { signal, reach })) => {
                    let signal = Request::Signal(Signal { signal, reach });
                    self.link.queue(self.channel, &signal)?;
                }
                Ok(Some(Order::Stop)) => {
                    self.stop()?;
                    break;
                }
                Err(error) => return Ok(Err(error)),
            }
        }
        Ok(Ok(()))
    }

    /// Sends one piece of input. The inner result is the caller's.
    fn pass_input(&mut self, io: &mut dyn ExecIo) -> Result<io::Result<()>, CallError> {
        let Some(window) = self.flow.input.filter(|window| *window > 0) else { return Ok(Ok(())) };
        self.buffer.resize(INPUT_CHUNK, 0);
        let most = INPUT_CHUNK.min(usize::try_from(window).unwrap_or(usize::MAX));
        let count = match io.read_input(self.buffer.get_mut(..most).unwrap_or_default()) {
            Ok(count) => count.min(most),
            // A signal's or a spurious wake's doing: it will be asked again.
            Err(error) if is_later(&error) => return Ok(Ok(())),
            Err(error) => return Ok(Err(error)),
        };
        if count == 0 {
            self.flow.input = None;
            self.link.queue(self.channel, &Request::StdinEof)?;
            return Ok(Ok(()));
        }
        let bytes = self.buffer.get(..count).unwrap_or_default();
        self.link.queue(self.channel, &Request::Stdin(bytes))?;
        let sent = u32::try_from(count).unwrap_or(u32::MAX);
        self.flow.input = Some(window.saturating_sub(sent));
        Ok(Ok(()))
    }

    /// Stops because of an error on our side; the first one is what the call ends with.
    fn give_up(&mut self, error: io::Error) -> Result<(), CallError> {
        self.cause.get_or_insert(error);
        self.stop()
    }

    /// Tells the other side to end this. What is under way is still read, but not for long.
    fn stop(&mut self) -> Result<(), CallError> {
        if self.flow.stopping {
            return Ok(());
        }
        self.flow.stopping = true;
        self.flow.input = None;
        self.deadline = self.link.soon();
        let request = match self.flow.kind {
            Kind::Foreground => Request::Signal(Signal { signal: SIGKILL, reach: Reach::Tree }),
            Kind::Background { .. } => Request::Detach,
        };
        self.link.queue(self.channel, &request)
    }

    fn end(self, result: Result<AttachEnd, CallError>) -> Result<AttachEnd, CallError> {
        self.cause.map_or(result, |cause| Err(CallError::Local(cause)))
    }
}

/// Where the exchange stands: what may come next, and how much of it.
#[derive(Debug)]
struct Flow {
    kind: Kind,
    state: State,
    window: u32,
    /// Bytes of output that may still come.
    credit: u32,
    /// Bytes of output taken and not yet credited.
    consumed: u32,
    /// Where the next output has to start.
    offset: u64,
    /// Bytes of input that may be sent now; `None` when no more will be.
    input: Option<u32>,
    /// Whether the other side was told to end this.
    stopping: bool,
}

impl Flow {
    /// Checks an event against all that came before and hands its contents to the caller.
    fn take(&mut self, event: Event<'_>, io: &mut dyn ExecIo) -> Result<Step, CallError> {
        match (self.state, self.kind, event) {
            (_, _, Event::Failed(failed)) => Err(CallError::Failed(failed.into())),
            (State::Opening, Kind::Foreground, Event::Started(started)) => {
                self.state = State::Running;
                Ok(io.started(started).map_or_else(Step::CallerFailed, |()| Step::Begun))
            }
            (State::Opening, Kind::Background { .. }, Event::Attached(attached)) => {
                self.skip_to(attached.offset)?;
                self.state = State::Running;
                Ok(Step::Begun)
            }
            (State::Running, _, Event::Output(output)) => self.output(&output, io),
            // Input may be sent at once, so credit for it may overtake the start.
            (State::Running, _, Event::Credit(credit))
            | (State::Opening, Kind::Foreground, Event::Credit(credit)) => self.more_input(credit),
            (State::Running, _, Event::Exited(exited)) => {
                check_end(exited)?;
                Ok(Step::Over(AttachEnd::Exited(exited)))
            }
            (_, Kind::Background { .. }, Event::Done) if self.stopping => {
                Ok(Step::Over(AttachEnd::Detached))
            }
            (_, _, other) => Err(unexpected(&other)),
        }
    }

    fn output(&mut self, output: &Output<'_>, io: &mut dyn ExecIo) -> Result<Step, CallError> {
        let Output { stream, offset, bytes } = *output;
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        if length == 0 {
            return Err(Violation::Empty.into());
        }
        self.credit = self.credit.checked_sub(length).ok_or(Violation::OverCredit)?;
        self.consumed = self.consumed.saturating_add(length);
        match self.kind {
            Kind::Foreground if offset != self.offset => {
                return Err(Violation::Offset { expected: self.offset, found: offset }.into());
            }
            Kind::Foreground => {}
            // The kept part may have moved on while we were slow.
            Kind::Background { .. } => self.skip_to(offset)?,
        }
        self.offset = self.offset.checked_add(u64::from(length)).ok_or(Violation::Range)?;
        if self.stopping {
            return Ok(Step::Next);
        }
        Ok(io.output(stream, bytes).map_or_else(Step::CallerFailed, |()| Step::Next))
    }

    fn skip_to(&mut self, offset: u64) -> Result<(), Violation> {
        if offset < self.offset {
            return Err(Violation::Offset { expected: self.offset, found: offset });
        }
        self.offset = offset;
        Ok(())
    }

    fn more_input(&mut self, credit: u32) -> Result<Step, CallError> {
        if credit == 0 {
            return Err(Violation::Credit.into());
        }
        // After the end of the input, credit for the last of it may still be on its way.
        if let Some(window) = &mut self.input {
            *window = window
                .checked_add(credit)
                .filter(|sum| *sum <= limits::WINDOW)
                .ok_or(Violation::Credit)?;
        }
        Ok(Step::Next)
    }

    /// Credit to give, once enough of the window is used up to be worth a frame.
    fn credit_due(&mut self) -> Option<u32> {
        if self.consumed < self.window / 4 {
            return None;
        }
        let credit = std::mem::take(&mut self.consumed);
        self.credit = self.credit.saturating_add(credit);
        Some(credit)
    }
}

fn check_end(exited: Exited) -> Result<(), Violation> {
    let in_range = match exited.end {
        End::Code(code) => (0..=255).contains(&code),
        End::Signal(signal) => (1..=LAST_SIGNAL).contains(&signal),
    };
    if in_range { Ok(()) } else { Err(Violation::Range) }
}

fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
