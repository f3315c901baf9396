//! Makes pens ahead for a door that lives long, on a thread that no call waits for.
//!
//! ```text
//! a call was given a pen ──┐
//! a session begins ────────┴─► one order waits at most ─► the thread ─► a maker and one pen, or the sandbox itself
//! ```
//!
//! What is made is decided by `rules::ahead`. One pen waits for a session, [`MOST_PENS`] in all. A client that only
//! names sessions and never calls is not guessed for more than [`MOST_GUESSES`] times. What cannot be made is left:
//! the call that needs it tries again, and hears why. The pens end with [`Engines`]; this thread ends before.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use clawpen_rules::ahead::{self, Ahead, DoorUse};

use super::ready::Ready;
use super::{Keeping, Prepared};
use crate::backend::Engines;
use crate::yard::Yard;

/// Makers that wait.
const MAKERS: usize = 1;
/// Pens that wait for all sessions together.
const MOST_PENS: usize = 4;
/// How long a door that closes waits for what is being made. A setup command may take minutes; what is half made then
/// is ended by whoever looks next, as after any other end of this process.
const LAST_MOMENTS: Duration = Duration::from_secs(2);
/// Sessions for which something is made although nobody has called in them, while nobody does.
const MOST_GUESSES: usize = 8;

/// What a door has made ahead.
#[derive(Debug, Default)]
pub(super) struct Stock {
    engines: Arc<Engines>,
    worker: Mutex<Option<Worker>>,
    is_used: AtomicBool,
    guesses: AtomicUsize,
}

/// The thread, and how it gets its orders.
#[derive(Debug)]
struct Worker {
    orders: SyncSender<Arc<Ready>>,
    /// Closed when the thread has ended.
    ended: Receiver<()>,
    thread: JoinHandle<()>,
}

impl Stock {
    pub(super) fn engines(&self) -> &Engines {
        &self.engines
    }

    /// A call has ended. If a pen was given to its session, the next one is made.
    pub(super) fn called(&self, ready: &Arc<Ready>) {
        let is_first = !self.is_used.swap(true, Ordering::Relaxed);
        if self.engines.was_given(ready.prepared.name()) {
            self.guesses.store(0, Ordering::Relaxed);
        } else if !is_first {
            return;
        }
        if self.decide(&ready.prepared) == Ahead::Stock {
            self.order(ready);
        }
    }

    /// A session begins: it is likely to call.
    pub(super) fn begins(&self, ready: &Arc<Ready>) {
        match self.decide(&ready.prepared) {
            Ahead::Open | Ahead::Stock => {}
            Ahead::Nothing(_) => return,
        }
        if self.guesses.fetch_add(1, Ordering::Relaxed) < MOST_GUESSES {
            self.order(ready);
        }
    }

    fn decide(&self, prepared: &Prepared) -> Ahead {
        let used =
            if self.is_used.load(Ordering::Relaxed) { DoorUse::Called } else { DoorUse::None };
        ahead::decide(&prepared.own, prepared.plan.backend(), used)
    }

    /// Hands an order over if the thread has room for it; a call never waits.
    fn order(&self, ready: &Arc<Ready>) {
        let mut worker = self.worker.lock().unwrap_or_else(PoisonError::into_inner);
        if worker.is_none() {
            *worker = Worker::start(&self.engines);
        }
        let Some(running) = &*worker else { return };
        match running.orders.try_send(Arc::clone(ready)) {
            Ok(()) | Err(TrySendError::Full(_)) => {}
            // It should never end by itself; the next order starts another.
            Err(TrySendError::Disconnected(_)) => *worker = None,
        }
    }
}

impl Worker {
    fn start(engines: &Arc<Engines>) -> Option<Self> {
        let engines = Arc::clone(engines);
        let (orders, received) = mpsc::sync_channel(1);
        let thread = std::thread::Builder::new().name("ahead".to_owned());
        let (alive, ended) = mpsc::sync_channel(0);
        let work = move || {
            work(&engines, &received);
            drop((engines, alive));
        };
        let thread = thread.spawn(work).ok()?;
        Some(Self { orders, ended, thread })
    }

    /// Takes no order more and waits for the thread's end, but not longer than this. Says whether it came.
    fn end(self, patience: Duration) -> Ended {
        let Self { orders, ended, thread } = self;
        drop(orders);
        match ended.recv_timeout(patience) {
            Err(RecvTimeoutError::Timeout) => Ended::NotYet,
            Ok(()) | Err(RecvTimeoutError::Disconnected) => {
                // It has nothing to tell.
                let _nothing = thread.join();
                Ended::Yes
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    Yes,
    /// It goes on by itself, and ends with this process.
    NotYet,
}

impl Drop for Stock {
    fn drop(&mut self) {
        let worker = self.worker.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(worker) = worker {
            let _either = worker.end(LAST_MOMENTS);
        }
    }
}

/// Until the door is shut.
fn work(engines: &Engines, orders: &Receiver<Arc<Ready>>) {
    while let Ok(ready) = orders.recv() {
        let prepared = &ready.prepared;
        match ahead::decide(&prepared.own, prepared.plan.backend(), DoorUse::Called) {
            Ahead::Open => {
                if let Ok(yard) = Yard::open_beside(prepared.state_dir(), engines) {
                    drop(prepared.open(&yard, Keeping::Scope, "ahead"));
                }
            }
            Ahead::Stock => {
                engines.keep_ready(MAKERS);
                drop(prepared.stock(engines, Keeping::Scope, 1));
                engines.trim(MOST_PENS);
                // The pen took the maker.
                engines.keep_ready(MAKERS);
            }
            Ahead::Nothing(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_door_that_closes_waits_a_moment_for_its_thread_and_no_longer() {
        let (orders, received) = mpsc::sync_channel::<Arc<Ready>>(1);
        let (alive, ended) = mpsc::sync_channel::<()>(0);
        let thread = std::thread::spawn(move || {
            let _closed = received.recv();
            drop(alive);
        });
        let worker = Worker { orders, ended, thread };
        assert_eq!(worker.end(Duration::from_secs(60)), Ended::Yes);

        let (orders, _received) = mpsc::sync_channel::<Arc<Ready>>(1);
        let (alive, ended) = mpsc::sync_channel::<()>(0);
        let (over, until) = mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            let _over = until.recv();
            drop(alive);
        });
        let start = Instant::now();
        let worker = Worker { orders, ended, thread };
        assert_eq!(worker.end(Duration::from_millis(50)), Ended::NotYet);
        assert!(start.elapsed() < Duration::from_secs(30));
        drop(over);
    }
}
