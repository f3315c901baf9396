//! What a person types: read on a thread of its own, one line at a time and only when one is wanted.
//!
//! A read from a terminal cannot be given up, so whoever waits for a line waits for everything else too: Ctrl-C at a
//! prompt leaves at once, and what happens in the background is shown. A line that was asked for and not waited for is
//! kept for whoever asks next.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io::{self, BufRead as _};
use std::sync::mpsc::{self, Receiver, Sender};

use super::Happening;

/// What came of a prompt.
pub(super) enum Typed {
    Line(String),
    /// Nothing more comes.
    End,
    /// Ctrl-C.
    Interrupt,
}

/// A line as it was read; `None`: there are no more.
type Line = io::Result<Option<String>>;

/// Where lines are asked for. They come as [`Happening::Line`].
pub(super) struct Prompt {
    wanted: Sender<()>,
    /// A line was asked for and has not come.
    is_due: Cell<bool>,
    kept: RefCell<VecDeque<Line>>,
}

impl Prompt {
    pub(super) fn new(to: Sender<Happening>) -> Self {
        let (wanted, asked) = mpsc::channel();
        // It ends with the process; a read of a terminal cannot be ended earlier.
        drop(std::thread::spawn(move || read(&asked, &to)));
        Self { wanted, is_due: Cell::new(false), kept: RefCell::default() }
    }

    /// Asks for a line. Gives one that came when nobody waited.
    pub(super) fn ask(&self) -> Option<Line> {
        let kept = self.kept.borrow_mut().pop_front();
        if kept.is_none() && !self.is_due.replace(true) && self.wanted.send(()).is_err() {
            return Some(Ok(None));
        }
        kept
    }

    /// The line that was asked for is here.
    pub(super) fn came(&self) {
        self.is_due.set(false);
    }

    /// It is here, and nobody waits for it now.
    pub(super) fn keep(&self, line: Line) {
        self.came();
        self.kept.borrow_mut().push_back(line);
    }
}

fn read(wanted: &Receiver<()>, to: &Sender<Happening>) {
    while wanted.recv().is_ok() {
        let mut line = String::new();
        let read = io::stdin().lock().read_line(&mut line);
        let read = read.map(|count| (count > 0).then_some(line));
        if to.send(Happening::Line(read)).is_err() {
            return;
        }
    }
}
