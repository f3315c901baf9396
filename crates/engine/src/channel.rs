//! The host's end of the connection to a supervisor.
//!
//! Takes a connected stream whose other end must be the sandbox's first process; gives commands,
//! background commands, files and facts as plain calls. One call at a time, on the caller's
//! thread; whoever wants two at once connects twice.
//!
//! The supervisor is not trusted. Whatever it sends is capped before room is made for it, has to
//! come in the order of the protocol, on the channel of the call in progress, within the credit
//! given and within a time. Anything else breaks the connection for good, and every later call
//! says so. Texts and names that it chose are cleaned or checked before they are handed on.
//!
//! Never decides what may be run or touched: by the time a call arrives here, that was decided.

mod batch;
mod error;
mod exec;
mod files;
mod link;
mod transport;

use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use clawpen_wire::supervisor::{
    CONTROL, Event, FactsReport, FileIdentity, Hello, IDENTIFY_VERSION, Identify, OLDEST_VERSION,
    PROGRAM_VERSION, Request, VERSION, Welcome,
};

pub use batch::{BatchOutcome, FileWrite, Move};
pub use error::{CallError, ConnectError, Failure, Violation};
pub use exec::{AttachEnd, Captured, Command, ExecIo, Input, Order, Program};
pub use files::{Listed, WriteOptions};
pub use link::Patience;
use link::{Deadline, Link};
pub use transport::{Ready, Transport, Wish};

/// A connection to the supervisor of one sandbox.
#[derive(Debug)]
pub struct Channel {
    link: Link,
    welcome: Welcome,
    /// The number of the next call. Never used twice, so a late frame fits no newer call.
    next: u32,
    /// Set when the two sides may no longer agree on where they are.
    broken: bool,
    /// Set when a call ended by something that only this side knows of.
    cut_short: bool,
}

impl Channel {
    /// Checks who is at the other end of `stream`, then says hello.
    ///
    /// `first_process` is the sandbox's process 1 as this process sees it. The kernel notes who
    /// called `listen`, so process 1 must do that itself, even on a socket it inherited.
    pub fn connect(stream: UnixStream, first_process: u32) -> Result<Self, ConnectError> {
        transport::check_peer(&stream, first_process)?;
        Self::over(Box::new(stream), Patience::default())
    }

    /// The same with a supervisor that can say which files are mounted ([`Channel::identify`]); one of an
    /// older release is refused as one of another protocol.
    pub fn connect_to_identify(
        stream: UnixStream,
        first_process: u32,
    ) -> Result<Self, ConnectError> {
        transport::check_peer(&stream, first_process)?;
        Self::greet(Box::new(stream), Patience::default(), IDENTIFY_VERSION)
    }

    /// Says hello over a stream whose other end is known to be the supervisor by construction.
    pub fn over(transport: Box<dyn Transport>, patience: Patience) -> Result<Self, ConnectError> {
        Self::greet(transport, patience, OLDEST_VERSION)
    }

    fn greet(
        transport: Box<dyn Transport>,
        patience: Patience,
        oldest: u16,
    ) -> Result<Self, ConnectError> {
        let mut link = Link::new(transport, patience);
        link.queue(CONTROL, &hello(oldest)).map_err(ConnectError::Hello)?;
        Self::welcomed(link, oldest)
    }

    /// Waits for the answer to a hello that was sent.
    fn welcomed(mut link: Link, oldest: u16) -> Result<Self, ConnectError> {
        let deadline = link.soon();
        let answer = link.answer(CONTROL, deadline);
        let welcome = match answer.map_err(ConnectError::Hello)? {
            Event::Welcome(welcome) => welcome,
            other => return Err(ConnectError::Hello(error::unexpected(&other))),
        };
        if !(oldest..=VERSION).contains(&welcome.version) {
            return Err(ConnectError::Version { theirs: welcome.version, oldest });
        }
        Ok(Self { link, welcome, next: CONTROL + 1, broken: false, cut_short: false })
    }

    /// What the supervisor said of itself. Its build name is for people only.
    pub const fn welcome(&self) -> &Welcome {
        &self.welcome
    }

    /// As if the supervisor were of another release.
    #[cfg(test)]
    pub(crate) const fn pretend_version(&mut self, version: u16) {
        self.welcome.version = version;
    }

    /// Whether it can run programs of ours ([`Channel::exec_program`]); one of an older release cannot.
    pub const fn takes_programs(&self) -> bool {
        self.welcome.version >= PROGRAM_VERSION
    }

    /// Whether an earlier call has broken the connection.
    pub const fn is_broken(&self) -> bool {
        self.broken
    }

    /// Whether every call was carried to its end, and the other side is there and silent. Only then the next
    /// caller may go on where the last one stopped.
    pub fn is_at_rest(&mut self) -> bool {
        !self.broken && !self.cut_short && self.link.is_silent()
    }

    /// Asks for the inside report.
    pub fn facts(&mut self) -> Result<FactsReport, CallError> {
        self.ask(&Request::Facts, |event| match event {
            Event::FactsReport(report) => Ok(*report),
            other => Err(error::unexpected(&other)),
        })
    }

    /// Asks which files stand at some places inside, in their order.
    pub fn identify(
        &mut self,
        places: Vec<PathBuf>,
    ) -> Result<Vec<Option<FileIdentity>>, CallError> {
        let count = places.len();
        self.ask(&Request::Identify(Identify { places }), |event| match event {
            Event::Identified(found) if found.files.len() == count => Ok(found.files),
            Event::Identified(_) => Err(Violation::Range.into()),
            other => Err(error::unexpected(&other)),
        })
    }

    /// Closes process 1 to observers and opens the sandbox to commands and files.
    pub fn seal(&mut self) -> Result<(), CallError> {
        self.ask(&Request::Seal, done)
    }

    /// Asks for a sign of life.
    pub fn ping(&mut self) -> Result<(), CallError> {
        self.ask(&Request::Ping, done)
    }

    /// Whether a sign of life comes in time. If not, the connection is of no use any more.
    pub(crate) fn answers_within(&mut self, patience: Duration) -> bool {
        self.ask_within(patience, &Request::Ping, done).is_ok()
    }

    /// Ends the supervisor, and with it the sandbox. The connection is of no use afterwards.
    pub fn shutdown(mut self) -> Result<(), CallError> {
        self.ask(&Request::Shutdown, done)
    }

    /// A call with one answer that needs no work.
    fn ask<T>(
        &mut self,
        request: &Request<'_>,
        read: impl FnOnce(Event<'_>) -> Result<T, CallError>,
    ) -> Result<T, CallError> {
        self.ask_within(self.link.patience.answer, request, read)
    }

    /// A call with one answer that may take as long as the work takes.
    fn ask_work<T>(
        &mut self,
        request: &Request<'_>,
        read: impl FnOnce(Event<'_>) -> Result<T, CallError>,
    ) -> Result<T, CallError> {
        self.ask_within(self.link.patience.work, request, read)
    }

    fn ask_within<T>(
        &mut self,
        patience: Duration,
        request: &Request<'_>,
        read: impl FnOnce(Event<'_>) -> Result<T, CallError>,
    ) -> Result<T, CallError> {
        self.run(|link, channel| read(link.ask(channel, request, Deadline::after(patience))?))
    }

    /// Gives a call its own number, and remembers whether the connection survived it.
    fn run<T>(
        &mut self,
        call: impl FnOnce(&mut Link, u32) -> Result<T, CallError>,
    ) -> Result<T, CallError> {
        self.run_several(1, call)
    }

    /// The same for a call that needs `count` numbers, the first of which it is given.
    fn run_several<T>(
        &mut self,
        count: u32,
        call: impl FnOnce(&mut Link, u32) -> Result<T, CallError>,
    ) -> Result<T, CallError> {
        if self.broken {
            return Err(CallError::Broken);
        }
        let channel = self.next;
        // Four thousand million calls later the numbers are used up; a new connection has more.
        self.next = channel.checked_add(count).ok_or(CallError::Broken)?;
        let result = call(&mut self.link, channel);
        self.broken = result.as_ref().is_err_and(CallError::breaks_connection);
        self.cut_short |= result.as_ref().is_err_and(|error| error.failure().is_none());
        self.link.settle();
        result
    }
}

/// A connection to a supervisor that was asked for its facts together with the hello: it may begin to look
/// before anybody is there to wait for it, even before it serves.
#[derive(Debug)]
pub struct FactsAsked(Link);

impl FactsAsked {
    /// Asks over a stream whose other end is, or will be, the supervisor by construction.
    pub fn over(transport: Box<dyn Transport>, patience: Patience) -> Result<Self, ConnectError> {
        let mut link = Link::new(transport, patience);
        link.queue(CONTROL, &hello(OLDEST_VERSION))
            .and_then(|()| link.queue(CONTROL + 1, &Request::Facts))
            .and_then(|()| link.send())
            .map_err(ConnectError::Hello)?;
        Ok(Self(link))
    }

    /// Checks who is at the other end of `stream`, as [`Channel::connect`] does, and asks.
    pub fn connect(stream: UnixStream, first_process: u32) -> Result<Self, ConnectError> {
        transport::check_peer(&stream, first_process)?;
        Self::over(Box::new(stream), Patience::default())
    }

    /// Waits for the welcome, then for the facts.
    pub fn answers(self) -> Result<(Channel, Result<FactsReport, CallError>), ConnectError> {
        let mut channel = Channel::welcomed(self.0, OLDEST_VERSION)?;
        let report = channel.run(|link, number| {
            let deadline = link.soon();
            match link.answer(number, deadline)? {
                Event::FactsReport(report) => Ok(*report),
                other => Err(error::unexpected(&other)),
            }
        });
        Ok((channel, report))
    }
}

fn hello(oldest: u16) -> Request<'static> {
    Request::Hello(Hello { oldest, newest: VERSION })
}

/// Reads the answer that tells nothing.
fn done(event: Event<'_>) -> Result<(), CallError> {
    match event {
        Event::Done => Ok(()),
        other => Err(error::unexpected(&other)),
    }
}

#[cfg(test)]
mod tests;
