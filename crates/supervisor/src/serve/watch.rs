//! A descriptor that the loop waits on, and the tokens by which the loop knows them.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use clawpen_os::events::{Epoll, Interest};
use clawpen_wire::supervisor::ProcessId;

/// Numbers a connection; never used twice.
pub(crate) type ConnectionId = u64;

/// What an event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Token {
    Listener,
    Signals,
    Connection(ConnectionId),
    /// What a shim says.
    Status(ProcessId),
    Stdout(ProcessId),
    Stderr(ProcessId),
    Stdin(ProcessId),
}

/// The kind stands in the upper byte. Ids count up from 1 and do not reach there.
const SHIFT: u32 = 56;

impl Token {
    pub(crate) fn number(self) -> u64 {
        let (kind, id) = match self {
            Self::Listener => (0, 0),
            Self::Signals => (1, 0),
            Self::Connection(id) => (2, id),
            Self::Status(id) => (3, id),
            Self::Stdout(id) => (4, id),
            Self::Stderr(id) => (5, id),
            Self::Stdin(id) => (6, id),
        };
        kind << SHIFT | id
    }

    pub(crate) fn of(number: u64) -> Option<Self> {
        let id = number & ((1 << SHIFT) - 1);
        match number >> SHIFT {
            0 => Some(Self::Listener),
            1 => Some(Self::Signals),
            2 => Some(Self::Connection(id)),
            3 => Some(Self::Status(id)),
            4 => Some(Self::Stdout(id)),
            5 => Some(Self::Stderr(id)),
            6 => Some(Self::Stdin(id)),
            _ => None,
        }
    }
}

/// A descriptor and what the loop is told about it.
///
/// Must be [`Watched::close`]d, not dropped, by process 1: a shim may hold a copy for a moment, and the
/// kernel goes on telling about a descriptor until the last copy is gone. The shim itself just drops.
#[derive(Debug)]
pub(crate) struct Watched {
    fd: OwnedFd,
    token: Token,
    interest: Interest,
}

impl Watched {
    /// Nothing is told about it yet.
    pub(crate) fn new(fd: OwnedFd, token: Token) -> Self {
        Self { fd, token, interest: Interest::None }
    }

    /// With `None` not even a hang-up is told: a peer that hung up while we have no room for more would
    /// otherwise keep the loop spinning.
    pub(crate) fn watch(&mut self, epoll: &Epoll, interest: Interest) -> io::Result<()> {
        let token = self.token.number();
        match (self.interest, interest) {
            (old, new) if old == new => {}
            (Interest::None, new) => epoll.add(self.fd.as_fd(), token, new)?,
            (_, Interest::None) => epoll.remove(self.fd.as_fd())?,
            (_, new) => epoll.modify(self.fd.as_fd(), token, new)?,
        }
        self.interest = interest;
        Ok(())
    }

    /// Gives the descriptor back; nothing is told about it any more.
    pub(crate) fn release(mut self, epoll: &Epoll) -> OwnedFd {
        // Only fails if it is not there, which is what is wanted.
        let _ = self.watch(epoll, Interest::None);
        self.fd
    }

    pub(crate) fn close(mut self, epoll: &Epoll) {
        // Only fails if it is not there, which is what is wanted.
        let _ = self.watch(epoll, Interest::None);
    }
}

impl AsFd for Watched {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_survives_the_trip_through_the_kernel() {
        for token in [
            Token::Listener,
            Token::Signals,
            Token::Connection(7),
            Token::Status(1),
            Token::Stdout(u64::MAX >> 8),
            Token::Stderr(3),
            Token::Stdin(0),
        ] {
            assert_eq!(Token::of(token.number()), Some(token));
        }
        assert_eq!(Token::of(u64::MAX), None);
    }
}
