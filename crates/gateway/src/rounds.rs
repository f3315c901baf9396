//! Looks now and then at what is due and carries it out beside, until the gateway stops.
//!
//! What is due, and when to look again, says whoever looks; this waits, and is told when something has changed.

use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

/// How long nobody looks if nothing happens: a file that was changed by hand is noticed by then.
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// What a look found.
pub(crate) struct Look {
    pub(crate) begin: Vec<BoxFuture<'static, ()>>,
    pub(crate) pause: Duration,
}

impl Look {
    /// Nothing is due.
    pub(crate) const fn idle() -> Self {
        Self { begin: Vec::new(), pause: LONGEST_PAUSE }
    }
}

/// Looks and carries out until the gateway stops, and then until what runs has ended. `look` may wait for files.
pub(crate) async fn run(
    mut stopped: watch::Receiver<bool>,
    woken: &Notify,
    look: impl Fn() -> Look + Clone + Send + 'static,
) {
    let mut work: JoinSet<()> = JoinSet::new();
    loop {
        // A look that panicked found nothing.
        let looked = tokio::task::spawn_blocking(look.clone()).await;
        let Look { begin, pause } = looked.unwrap_or_else(|_panic| Look::idle());
        for job in begin {
            work.spawn(job);
        }
        tokio::select! {
            // Told to stop, or nobody is left who could tell us.
            _ = stopped.wait_for(|stop| *stop) => break,
            () = woken.notified() => {}
            Some(_) = work.join_next(), if !work.is_empty() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
    while work.join_next().await.is_some() {}
}
