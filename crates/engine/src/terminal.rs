//! The streams and signals of the person who waits for a command: input, output, terminal, Ctrl-C.
//!
//! Without a terminal of its own the command gets our signals: an interrupt goes to its whole tree,
//! as a terminal would send it to a whole group. Whoever insists (three signals) gets it killed.
//! With a terminal, keys go in as they are and only the size is forwarded.

mod screen;

use std::io::{self, Write};
use std::os::fd::{AsFd as _, BorrowedFd};

use clawpen_os::events::{self, SignalFd};
use clawpen_os::process::Signal;
use clawpen_os::pty;
use clawpen_wire::supervisor::{Reach, Stream, TtySize};

use crate::channel::{ExecIo, Input, Order};

pub use clawpen_os::pty::{RawMode, is_terminal};
pub use screen::{Happened, Keyboard};

/// So many signals mean: now.
const INSISTS: u32 = 3;
/// What a terminal that does not say has.
const USUAL: TtySize = TtySize { rows: 24, columns: 80 };

/// Where the input of a command comes from.
#[derive(Debug, Clone, Copy)]
pub enum Source<'a> {
    Nothing,
    /// An open file of ours, read when something is there.
    Descriptor(BorrowedFd<'a>),
}

/// Whether the command has a terminal.
#[derive(Debug, Clone, Copy)]
pub enum Tty<'a> {
    None,
    /// The terminal whose size it follows.
    Follows(BorrowedFd<'a>),
}

/// Our side of one command.
pub struct Streams<'a> {
    out: &'a mut dyn Write,
    err: &'a mut dyn Write,
    source: Source<'a>,
    tty: Tty<'a>,
    signals: SignalFd,
    /// Signals that asked for an end so far.
    asked: u32,
}

impl std::fmt::Debug for Streams<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Streams")
            .field("source", &self.source)
            .field("tty", &self.tty)
            .finish_non_exhaustive()
    }
}

impl<'a> Streams<'a> {
    /// From here on signals come through [`ExecIo::next_order`] and no longer end this process.
    pub fn new(
        out: &'a mut dyn Write,
        err: &'a mut dyn Write,
        source: Source<'a>,
        tty: Tty<'a>,
    ) -> io::Result<Self> {
        let quit = Signal::new(libc::SIGQUIT);
        let wanted =
            [Some(Signal::INT), Some(Signal::TERM), Some(Signal::HUP), quit, Some(Signal::WINCH)];
        let wanted: Vec<Signal> = wanted.into_iter().flatten().collect();
        Ok(Self { out, err, source, tty, signals: SignalFd::new(&wanted)?, asked: 0 })
    }
}

/// The size of a terminal; the usual one if it does not say.
pub fn size(terminal: BorrowedFd<'_>) -> TtySize {
    match pty::size(terminal) {
        Ok(size) if size.rows > 0 && size.columns > 0 => {
            TtySize { rows: size.rows, columns: size.columns }
        }
        Ok(_) | Err(_) => USUAL,
    }
}

impl ExecIo for Streams<'_> {
    fn output(&mut self, stream: Stream, bytes: &[u8]) -> io::Result<()> {
        let sink = match stream {
            Stream::Stdout => &mut self.out,
            Stream::Stderr => &mut self.err,
        };
        sink.write_all(bytes)?;
        sink.flush()
    }

    fn input(&self) -> Input<'_> {
        match self.source {
            Source::Nothing => Input::Closed,
            Source::Descriptor(fd) => Input::Wait(fd),
        }
    }

    fn read_input(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let Source::Descriptor(fd) = self.source else { return Ok(0) };
        let count = events::read(fd, room)?;
        if count == 0 {
            self.source = Source::Nothing;
        }
        Ok(count)
    }

    fn orders(&self) -> Option<BorrowedFd<'_>> {
        Some(self.signals.as_fd())
    }

    fn next_order(&mut self) -> io::Result<Option<Order>> {
        let Some(received) = self.signals.read()? else { return Ok(None) };
        if received.signal == Signal::WINCH {
            return Ok(match self.tty {
                Tty::Follows(terminal) => Some(Order::Resize(size(terminal))),
                Tty::None => None,
            });
        }
        self.asked += 1;
        // A terminal that hung up takes its command along.
        if self.asked >= INSISTS || received.signal == Signal::HUP {
            return Ok(Some(Order::Stop));
        }
        Ok(Some(Order::Signal { signal: received.signal.get(), reach: Reach::Tree }))
    }
}
