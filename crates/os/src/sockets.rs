//! Unix sockets: made in an open directory, with the peer's credentials, carrying descriptors.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

/// Most descriptors in one message (the kernel's own limit is 253).
pub const MAX_DESCRIPTORS: usize = 64;

/// How bytes travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// As a stream.
    Stream,
    /// As whole messages.
    Messages,
}

/// A connected pair.
pub fn pair(kind: Kind) -> io::Result<(OwnedFd, OwnedFd)> { todo!() }
/// Binds and listens at `name` in an open directory: no limit of 108 bytes on its path. Mode 0600.
pub fn listen(directory: BorrowedFd<'_>, name: &OsStr) -> io::Result<OwnedFd> { todo!() }
/// Connects to `name` in an open directory.
pub fn connect(directory: BorrowedFd<'_>, name: &OsStr) -> io::Result<OwnedFd> { todo!() }
/// Accepts a connection; `None` if none waits (on a non-blocking listener) or it was gone again.
pub fn accept(listener: BorrowedFd<'_>) -> io::Result<Option<OwnedFd>> { todo!() }

/// Who is at the other end: who connected, or who called listen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// Process number; 0 if it is outside our pid namespace.
    pub pid: i32,
    /// User, as our user namespace sees it.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}
/// Asks the kernel (`SO_PEERCRED`).
pub fn peer(socket: BorrowedFd<'_>) -> io::Result<Peer> { todo!() }

/// Sends bytes with descriptors (at most [`MAX_DESCRIPTORS`]) attached to the first byte; gives the bytes sent.
pub fn send(socket: BorrowedFd<'_>, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<usize> { todo!() }
/// What came in.
#[derive(Debug)]
pub struct Message {
    /// Bytes put into the buffer; 0 is the end of the stream.
    pub bytes: usize,
    /// Descriptors, close-on-exec.
    pub descriptors: Vec<OwnedFd>,
}
/// Receives bytes and at most `max_descriptors`; more are closed and the message is an error.
pub fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8], max_descriptors: usize) -> io::Result<Message> { todo!() }
