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
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use clawpen_rules::ahead::{self, Ahead, DoorUse};

use super::ready::Ready;
use super::{Keeping, Prepared};
use crate::backend::Engines;
use crate::yard::Yard;

/// Makers that wait.
const MAKERS: usize = 1;
/// Pens that wait for all sessions together.
const MOST_PENS: usize = 4;
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
        let thread = thread.spawn(move || work(&engines, &received)).ok()?;
        Some(Self { orders, thread })
    }
}

impl Drop for Stock {
    fn drop(&mut self) {
        let worker = self.worker.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Worker { orders, thread }) = worker {
            drop(orders);
            // It has nothing to tell.
            let _ended = thread.join();
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
