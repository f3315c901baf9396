//! Unix sockets: made in an open directory, with the peer's credentials, carrying descriptors.

use std::ffi::OsStr;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt as _;

use rustix::fs::Mode;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};

use crate::beneath::valid_name;
use crate::syscall::{check, errno};

/// Most descriptors in one message (the kernel's own limit is 253).
pub const MAX_DESCRIPTORS: usize = 64;

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 128;

/// How bytes travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// As a stream.
    Stream,
    /// As whole messages.
    Messages,
}

/// A connected pair.
pub fn pair(kind: Kind) -> io::Result<(OwnedFd, OwnedFd)> {
    let kind = match kind {
        Kind::Stream => SocketType::STREAM,
        Kind::Messages => SocketType::SEQPACKET,
    };
    Ok(rustix::net::socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?)
}

/// Binds and listens at `name` in an open directory, as a stream with mode 0600. The path may be
/// longer than the 108 bytes of an address. Needs `/proc`.
pub fn listen(directory: BorrowedFd<'_>, name: &OsStr) -> io::Result<OwnedFd> {
    let socket = stream()?;
    // Of a socket that is not bound yet this is the mode of the file that bind makes.
    rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    rustix::net::bind(&socket, &address(directory, name)?)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// Makes the caller the one whom [`peer`] shows to everyone who connects from now on: the kernel notes
/// who called listen last. For a process that was handed a listening socket.
pub fn listen_again(listener: BorrowedFd<'_>) -> io::Result<()> {
    Ok(rustix::net::listen(listener, BACKLOG)?)
}

/// Whether a socket waits for connections; else it is one.
pub fn is_listening(socket: BorrowedFd<'_>) -> io::Result<bool> {
    Ok(rustix::net::sockopt::socket_acceptconn(socket)?)
}

/// Connects to `name` in an open directory. Needs `/proc`.
pub fn connect(directory: BorrowedFd<'_>, name: &OsStr) -> io::Result<OwnedFd> {
    let socket = stream()?;
    rustix::net::connect(&socket, &address(directory, name)?)?;
    Ok(socket)
}

fn stream() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC;
    Ok(rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?)
}

fn address(directory: BorrowedFd<'_>, name: &OsStr) -> io::Result<SocketAddrUnix> {
    let name = valid_name(name)?;
    let mut path = format!("/proc/self/fd/{}/", directory.as_raw_fd()).into_bytes();
    path.extend_from_slice(name.as_bytes());
    Ok(SocketAddrUnix::new(path)?)
}

/// Accepts a connection; `None` if none waits (on a non-blocking listener) or it was gone again.
pub fn accept(listener: BorrowedFd<'_>) -> io::Result<Option<OwnedFd>> {
    use rustix::io::Errno;
    match rustix::net::accept_with(listener, SocketFlags::CLOEXEC) {
        Ok(socket) => Ok(Some(socket)),
        Err(Errno::AGAIN | Errno::CONNABORTED | Errno::INTR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

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
pub fn peer(socket: BorrowedFd<'_>) -> io::Result<Peer> {
    let mut credentials = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length =
        libc::socklen_t::try_from(size_of::<libc::ucred>()).map_err(io::Error::other)?;
    // Not through rustix: its process number cannot be 0, which is what we look for.
    // SAFETY: `credentials` is as long as `length` says; both outlive the call.
    let ret = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut credentials).cast(),
            &raw mut length,
        )
    };
    check(ret.into())?;
    let libc::ucred { pid, uid, gid } = credentials;
    Ok(Peer { pid, uid, gid })
}

/// A handle to the process at the other end, which stays right when its number is reused.
///
/// # Errors
/// `ENOPROTOOPT` before Linux 6.5; `EINVAL` or `ESRCH` if that process is gone.
pub fn peer_pidfd(socket: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    const SO_PEERPIDFD: libc::c_int = 77;
    let mut pidfd: RawFd = -1;
    let mut length = libc::socklen_t::try_from(size_of::<RawFd>()).map_err(io::Error::other)?;
    // SAFETY: the option writes one integer, for which there is room; both outlive the call.
    let ret = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_PEERPIDFD,
            (&raw mut pidfd).cast(),
            &raw mut length,
        )
    };
    check(ret.into())?;
    // SAFETY: the call succeeded, so the kernel has put a new descriptor into `pidfd`.
    Ok(unsafe { OwnedFd::from_raw_fd(pidfd) })
}

/// Sends bytes with descriptors (at most [`MAX_DESCRIPTORS`]) attached to the first byte; gives the
/// number of bytes sent. A closed peer is an error, never a signal.
pub fn send(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fits = descriptors.len() <= MAX_DESCRIPTORS
        && (descriptors.is_empty() || control.push(SendAncillaryMessage::ScmRights(descriptors)));
    // Descriptors travel with a byte: without one a stream would drop them.
    if !fits || (bytes.is_empty() && !descriptors.is_empty()) {
        return Err(errno(libc::EINVAL));
    }
    loop {
        let bytes = [IoSlice::new(bytes)];
        match rustix::net::sendmsg(socket, &bytes, &mut control, SendFlags::NOSIGNAL) {
            Err(rustix::io::Errno::INTR) => {}
            other => return Ok(other?),
        }
    }
}

/// What came in.
#[derive(Debug)]
pub struct Message {
    /// Bytes put into the buffer; 0 is the end of the stream.
    pub bytes: usize,
    /// Descriptors, close-on-exec.
    pub descriptors: Vec<OwnedFd>,
}

/// Receives bytes and at most `max_descriptors`.
///
/// # Errors
/// `InvalidData` if more descriptors came, or more bytes than fit into the buffer of a message: all
/// descriptors are closed.
pub fn receive(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
    max_descriptors: usize,
) -> io::Result<Message> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC;
    let received = loop {
        let mut buffers = [IoSliceMut::new(buffer)];
        match rustix::net::recvmsg(socket, &mut buffers, &mut control, flags) {
            Err(rustix::io::Errno::INTR) => {}
            other => break other?,
        }
    };
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    let cut = ReturnFlags::CTRUNC | ReturnFlags::TRUNC;
    if descriptors.len() > max_descriptors || received.flags.intersects(cut) {
        let what = "more bytes or descriptors came than were asked for";
        return Err(io::Error::new(io::ErrorKind::InvalidData, what));
    }
    Ok(Message { bytes: received.bytes, descriptors })
}

#[cfg(test)]
mod tests;
