//! Pseudo terminals from the devpts instance in sight, and the user's own terminal.

use std::fmt;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::pty::OpenptFlags;
use rustix::termios::{OptionalActions, Termios, Winsize};

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

/// Opens a pair through `/dev/ptmx`.
///
/// The secondary end is opened by the kernel, not by a path: a workload that replaces `/dev/pts/N`
/// gains nothing.
pub fn open(size: Size) -> io::Result<Pty> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let primary = rustix::pty::openpt(flags)?;
    rustix::pty::unlockpt(&primary)?;
    let secondary = rustix::pty::ioctl_tiocgptpeer(&primary, flags)?;
    let pty = Pty { primary, secondary };
    rustix::termios::tcsetwinsize(&pty.primary, size.to_kernel())?;
    Ok(pty)
}

/// Changes the size; the foreground group gets SIGWINCH.
pub fn resize(terminal: BorrowedFd<'_>, size: Size) -> io::Result<()> {
    Ok(rustix::termios::tcsetwinsize(terminal, size.to_kernel())?)
}

/// Reads the size.
pub fn size(terminal: BorrowedFd<'_>) -> io::Result<Size> {
    let Winsize { ws_row: rows, ws_col: columns, .. } = rustix::termios::tcgetwinsize(terminal)?;
    Ok(Size { rows, columns })
}

impl Size {
    fn to_kernel(self) -> Winsize {
        Winsize { ws_row: self.rows, ws_col: self.columns, ws_xpixel: 0, ws_ypixel: 0 }
    }
}

/// Whether this is a terminal.
pub fn is_terminal(fd: BorrowedFd<'_>) -> bool {
    rustix::termios::isatty(fd)
}

/// Makes it the controlling terminal of this session leader.
pub fn make_controlling(terminal: BorrowedFd<'_>) -> io::Result<()> {
    Ok(rustix::process::ioctl_tiocsctty(terminal)?)
}

/// A terminal in raw mode; put back when dropped.
pub struct RawMode<'a> {
    terminal: BorrowedFd<'a>,
    before: Termios,
}

impl<'a> RawMode<'a> {
    /// Switches the user's terminal to raw mode.
    pub fn enter(terminal: BorrowedFd<'a>) -> io::Result<Self> {
        let before = rustix::termios::tcgetattr(terminal)?;
        let mut raw = before.clone();
        raw.make_raw();
        rustix::termios::tcsetattr(terminal, OptionalActions::Now, &raw)?;
        Ok(Self { terminal, before })
    }
}

impl Drop for RawMode<'_> {
    fn drop(&mut self) {
        // If the terminal is gone there is nothing to put back.
        let _gone = rustix::termios::tcsetattr(self.terminal, OptionalActions::Now, &self.before);
    }
}

impl fmt::Debug for RawMode<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawMode").field("terminal", &self.terminal).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;

    use rustix::termios::LocalModes;

    use super::*;

    #[test]
    fn a_pair_carries_bytes_and_its_size() {
        let pty = open(Size { rows: 24, columns: 80 }).unwrap();
        assert!(is_terminal(pty.secondary.as_fd()));
        assert_eq!(size(pty.secondary.as_fd()).unwrap(), Size { rows: 24, columns: 80 });
        resize(pty.primary.as_fd(), Size { rows: 50, columns: 132 }).unwrap();
        assert_eq!(size(pty.secondary.as_fd()).unwrap(), Size { rows: 50, columns: 132 });
        rustix::io::write(&pty.secondary, b"hello").unwrap();
        let mut buffer = [0; 16];
        let length = rustix::io::read(&pty.primary, &mut buffer).unwrap();
        assert_eq!(&buffer[..length], b"hello");
    }

    #[test]
    fn raw_mode_ends_when_dropped() {
        let pty = open(Size { rows: 24, columns: 80 }).unwrap();
        let echoes = || {
            let modes = rustix::termios::tcgetattr(&pty.secondary).unwrap().local_modes;
            modes.contains(LocalModes::ECHO)
        };
        assert!(echoes());
        let raw = RawMode::enter(pty.secondary.as_fd()).unwrap();
        assert!(!echoes());
        drop(raw);
        assert!(echoes());
    }
}
