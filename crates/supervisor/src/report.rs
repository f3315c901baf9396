//! What the engine orders, and what the maker and process 1 tell it before the first frame, on descriptor 3.
//!
//! ```text
//! P                  make this: the pen spec comes along, and a socket: one that listens, or the only
//!                    connection that the pen will ever have                        to the maker
//! M <pid, 4 bytes>   process 1 exists; its pidfd comes along         from the maker
//! R                  the pen is built and serves                     from process 1
//! F <text>           it cannot be built: what failed, and why        from either
//! ```
//!
//! One message each, on a socket that keeps messages apart. The engine reads until `R` or `F`; the end
//! of the stream before either means that process 1 was killed.

use std::cell::RefCell;
use std::fmt;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use clawpen_os::process::Child;
use clawpen_os::sockets;

/// A step that did not work. Ends the process that took it.
#[derive(Debug)]
pub(crate) struct Failure {
    what: String,
    cause: Option<io::Error>,
}

impl Failure {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), cause: None }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cause {
            Some(cause) => write!(f, "{}: {cause}", self.what),
            None => f.write_str(&self.what),
        }
    }
}

/// Says which step an error of the kernel belongs to.
pub(crate) trait Step<T> {
    fn step(self, what: &str) -> Result<T, Failure>;
    fn step_with(self, what: impl FnOnce() -> String) -> Result<T, Failure>;
}

impl<T> Step<T> for io::Result<T> {
    fn step(self, what: &str) -> Result<T, Failure> {
        self.step_with(|| what.to_owned())
    }

    fn step_with(self, what: impl FnOnce() -> String) -> Result<T, Failure> {
        self.map_err(|cause| Failure { what: what(), cause: Some(cause) })
    }
}

/// The engine's ear. Closed after the last word, so that a serving process 1 holds nothing of the host but
/// its listening socket.
#[derive(Debug)]
pub(crate) struct Report(RefCell<Option<OwnedFd>>);

impl Report {
    pub(crate) fn new(socket: OwnedFd) -> Self {
        Self(RefCell::new(Some(socket)))
    }

    /// Waits for the order; `None` if the engine has no use for this maker.
    pub(crate) fn order(&self) -> Result<Option<[OwnedFd; 2]>, Failure> {
        let socket = self.0.borrow();
        let Some(socket) = &*socket else { return Ok(None) };
        let mut kind = [0_u8; 1];
        let message = sockets::receive(socket.as_fd(), &mut kind, 2).step("wait for the order")?;
        if message.bytes == 0 {
            return Ok(None);
        }
        let broken = |_few| Failure::new("the order holds no pen spec");
        <[OwnedFd; 2]>::try_from(message.descriptors).map(Some).map_err(broken)
    }

    pub(crate) fn made(&self, child: &Child) -> Result<(), Failure> {
        let mut message = vec![b'M'];
        message.extend_from_slice(&child.pid().get().to_le_bytes());
        self.say(&message, &[child.pidfd()]).step("report the pen's first process")
    }

    pub(crate) fn ready(&self) -> Result<(), Failure> {
        self.say(b"R", &[]).step("report that the pen is ready")?;
        self.0.take();
        Ok(())
    }

    /// Tells the engine if it still listens; what is told is also returned to `main`.
    pub(crate) fn failed(&self, failure: &Failure) {
        let mut message = format!("F{failure}").into_bytes();
        message.truncate(1000);
        let _ = self.say(&message, &[]);
        self.0.take();
    }

    fn say(&self, message: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        match &*self.0.borrow() {
            Some(socket) => sockets::send(socket.as_fd(), message, descriptors).map(drop),
            None => Ok(()),
        }
    }
}
