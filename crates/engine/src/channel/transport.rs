//! A stream of bytes to a supervisor, and how to wait for it.

use std::fmt;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, SendFlags, recv, send, sockopt};

use super::error::ConnectError;

/// A stream that never blocks but in [`Transport::wait`].
pub trait Transport: fmt::Debug + Send {
    /// Sends what fits; `WouldBlock` if nothing does.
    fn send(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// Receives what is there; 0 is the end, `WouldBlock` is nothing yet.
    fn receive(&mut self, room: &mut [u8]) -> io::Result<usize>;

    /// Waits until bytes have come, or one of the wishes comes true, or the time is up (nothing
    /// is ready then). `None` waits for ever. A signal handler's run may end it early.
    fn wait(&mut self, wish: Wish<'_>, timeout: Option<Duration>) -> io::Result<Ready>;
}

/// What to wait for, besides bytes from the other side.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wish<'a> {
    /// Room to send.
    pub send: bool,
    /// The caller's input has something.
    pub input: Option<BorrowedFd<'a>>,
    /// The caller has an order.
    pub orders: Option<BorrowedFd<'a>>,
}

/// What has come true.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ready {
    /// Bytes, or the end, from the other side.
    pub receive: bool,
    /// [`Wish::input`].
    pub input: bool,
    /// [`Wish::orders`].
    pub orders: bool,
}

impl Transport for UnixStream {
    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // The flags make this one call non-blocking, and keep a peer that left from killing us.
        Ok(send(&*self, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?)
    }

    fn receive(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let (received, _) = recv(&*self, room, RecvFlags::DONTWAIT)?;
        Ok(received)
    }

    fn wait(&mut self, wish: Wish<'_>, timeout: Option<Duration>) -> io::Result<Ready> {
        let own = self.as_fd();
        let stream = if wish.send { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        let mut entries = [
            PollFd::from_borrowed_fd(own, stream),
            entry(wish.input, own),
            entry(wish.orders, own),
        ];
        let timeout = timeout.map(timespec);
        match poll(&mut entries, timeout.as_ref()) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(Ready::default()),
            Err(error) => return Err(error.into()),
        }
        let [stream, input, orders] = entries.map(|entry| entry.revents());
        let gone = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
        let readable = PollFlags::IN | gone;
        Ok(Ready {
            receive: stream.intersects(readable),
            input: wish.input.is_some() && input.intersects(readable),
            orders: wish.orders.is_some() && orders.intersects(readable),
        })
    }
}

/// One place in the list. The stream stands in for what is not wished for, with nothing to wait
/// for there: the list keeps its length, and nothing is allocated on the way of every call.
fn entry<'a>(wished: Option<BorrowedFd<'a>>, own: BorrowedFd<'a>) -> PollFd<'a> {
    match wished {
        Some(fd) => PollFd::from_borrowed_fd(fd, PollFlags::IN),
        None => PollFd::from_borrowed_fd(own, PollFlags::empty()),
    }
}

/// A time that the kernel takes; one too long for it is as long as it takes.
fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(duration.subsec_nanos()),
    }
}

/// Refuses a stream whose other end is not `first_process`.
///
/// Inside the sandbox anyone may share the supervisor's user id and put a socket of their own in
/// a path; nobody there can have the process number that the host knows process 1 by.
pub(super) fn check_peer(stream: &UnixStream, first_process: u32) -> Result<(), ConnectError> {
    let peer = match sockopt::socket_peercred(stream) {
        Ok(peer) => peer,
        Err(error) => return Err(ConnectError::Peer(error.into())),
    };
    let found = peer.pid.as_raw_nonzero().get();
    if u32::try_from(found) == Ok(first_process) {
        return Ok(());
    }
    Err(ConnectError::WrongPeer { expected: first_process, found })
}
