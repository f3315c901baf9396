//! A person's keys, one at a time, for as long as a program has the whole terminal.
//!
//! Signals come as values, so that nothing can end the process while the terminal is raw; it is put
//! back when the [`Keyboard`] goes out of scope, however that comes about. Prints nothing.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::Duration;

use clawpen_os::events::{self, Interest, SignalFd};
use clawpen_os::process::Signal;
use clawpen_os::pty::RawMode;

/// What happened while we waited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Happened {
    /// Bytes of keys, as the terminal sends them.
    Keys(Vec<u8>),
    /// The terminal has another size, or was given back to us.
    Resized,
    /// Somebody ends us, or the terminal is gone.
    Ended,
    /// The other descriptor has something, or the time is over.
    Nothing,
}

/// The keys of a terminal in raw mode.
#[derive(Debug)]
pub struct Keyboard<'a> {
    terminal: BorrowedFd<'a>,
    signals: SignalFd,
    _raw: RawMode<'a>,
}

impl<'a> Keyboard<'a> {
    /// Takes the terminal. To be called before any thread is started that shall not get our signals.
    pub fn take(terminal: BorrowedFd<'a>) -> io::Result<Self> {
        let quit = Signal::new(libc::SIGQUIT);
        let wanted =
            [Some(Signal::INT), Some(Signal::TERM), Some(Signal::HUP), quit, Some(Signal::WINCH)];
        let wanted: Vec<Signal> = wanted.into_iter().flatten().collect();
        // Signals are ours before the terminal is raw: none can end us in between.
        let signals = SignalFd::new(&wanted)?;
        Ok(Self { terminal, signals, _raw: RawMode::enter(terminal)? })
    }

    /// Waits for keys, a signal, or the other descriptor.
    pub fn next(&self, other: BorrowedFd<'_>, at_most: Duration) -> io::Result<Happened> {
        let waited = [
            (self.terminal, Interest::Read),
            (self.signals.as_fd(), Interest::Read),
            (other, Interest::Read),
        ];
        let happened = events::poll(&waited, Some(at_most))?;
        if happened.iter().any(|event| event.token == 1) {
            return Ok(match self.signals.read()? {
                Some(received) if received.signal == Signal::WINCH => Happened::Resized,
                Some(_) => Happened::Ended,
                None => Happened::Nothing,
            });
        }
        let Some(event) = happened.iter().find(|event| event.token == 0) else {
            return Ok(Happened::Nothing);
        };
        if !event.readable {
            return Ok(Happened::Ended);
        }
        let mut room = [0; 64];
        match events::read(self.terminal, &mut room) {
            Ok(0) => Ok(Happened::Ended),
            Ok(count) => Ok(Happened::Keys(room.get(..count).unwrap_or_default().to_vec())),
            // A terminal that hung up.
            Err(error) if error.raw_os_error() == Some(libc::EIO) => Ok(Happened::Ended),
            Err(error) => Err(error),
        }
    }
}
