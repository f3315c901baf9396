//! What a command writes, as progress of its call, and the question that may come before it.
//!
//! A client that does not take its notifications in time loses some of them, never the command's result: the command
//! does not wait for whoever watches it.

use std::time::{Duration, Instant};

use clawpen_engine::call::{Pending, Watch};
use clawpen_rules::tools::output::Tail;
use tokio::sync::mpsc;

/// Not more often than this.
const PAUSE: Duration = Duration::from_millis(100);
/// Characters of one notification.
const MOST: usize = 2_000;
/// Notifications on their way.
pub(super) const ROOM: usize = 16;

/// How far a command is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Piece {
    /// Bytes written so far.
    pub(super) written: u64,
    /// The newest of what was written since the last piece.
    pub(super) text: String,
}

/// Passes output on as it comes.
#[derive(Debug)]
pub(super) struct Progress {
    to: mpsc::Sender<Piece>,
    ask: mpsc::Sender<Pending>,
    /// The client wants to hear of it.
    watched: bool,
    written: u64,
    tail: Tail,
    last: Option<Instant>,
}

impl Progress {
    pub(super) fn new(to: mpsc::Sender<Piece>, ask: mpsc::Sender<Pending>) -> Self {
        Self { to, ask, watched: true, written: 0, tail: Tail::new(MOST), last: None }
    }

    /// For a client that wants no progress.
    pub(super) fn unwatched(self) -> Self {
        Self { watched: false, ..self }
    }
}

impl Watch for Progress {
    fn asked(&mut self, pending: &Pending) {
        let _taken = self.ask.try_send(pending.clone());
    }

    fn output(&mut self, bytes: &[u8]) {
        if !self.watched {
            return;
        }
        self.written += bytes.len() as u64;
        self.tail.push(bytes);
        if self.last.is_some_and(|last| last.elapsed() < PAUSE) {
            return;
        }
        self.last = Some(Instant::now());
        let (text, _) = std::mem::replace(&mut self.tail, Tail::new(MOST)).finish();
        let _taken = self.to.try_send(Piece { written: self.written, text });
    }
}
