//! Pseudo terminals from the devpts instance in sight.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

/// A pair; the secondary is what the command gets as terminal.
#[derive(Debug)]
pub struct Pty {
    /// Our end.
    pub primary: OwnedFd,
    /// The command's end.
    pub secondary: OwnedFd,
}

/// Size in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Lines.
    pub rows: u16,
    /// Columns.
    pub columns: u16,
}

/// Opens a pair through `/dev/ptmx`. The secondary end is opened by the kernel, not by a path.
pub fn open(size: Size) -> io::Result<Pty> { todo!() }
/// Changes the size; the foreground group gets SIGWINCH.
pub fn resize(terminal: BorrowedFd<'_>, size: Size) -> io::Result<()> { todo!() }
/// Reads the size.
pub fn size(terminal: BorrowedFd<'_>) -> io::Result<Size> { todo!() }
/// Whether this is a terminal.
pub fn is_terminal(fd: BorrowedFd<'_>) -> bool { todo!() }
/// Makes it the controlling terminal of this session leader.
pub fn make_controlling(terminal: BorrowedFd<'_>) -> io::Result<()> { todo!() }

/// A terminal in raw mode; put back when dropped.
#[derive(Debug)]
pub struct RawMode<'a> { _terminal: BorrowedFd<'a> }
impl<'a> RawMode<'a> {
    /// Switches the user's terminal to raw mode (for `exec -t`).
    pub fn enter(terminal: BorrowedFd<'a>) -> io::Result<Self> { todo!() }
}
