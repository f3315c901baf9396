//! Who is in: strangers for a moment, known clients for as long as they like, never too many of either.
//!
//! ```text
//! accepted ─► stranger ──── token shown ────► known
//!                └ its time is over, or newer ones came: sent away
//! ```
//!
//! A stranger has shown no token yet. When there are too many, the one that has waited longest goes: whoever has the
//! token shows it with the first bytes, so a crowd of silent ones cannot keep it out.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// Connections that have shown the token.
pub(super) const KNOWN: usize = 256;
/// Connections that have not.
pub(super) const STRANGERS: usize = 64;
/// Of these, from one other machine.
const FROM_ONE_PEER: usize = 16;
/// Time to show the token.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);

/// The room behind the door.
#[derive(Debug)]
pub(super) struct Room {
    strangers: Mutex<Strangers>,
    known: Arc<Semaphore>,
}

#[derive(Debug, Default)]
struct Strangers {
    next: u64,
    /// The one that has waited longest comes first.
    waiting: VecDeque<Stranger>,
}

#[derive(Debug)]
struct Stranger {
    id: u64,
    peer: IpAddr,
    out: CancellationToken,
}

/// One connection's stay.
#[derive(Debug)]
pub(super) struct Visit {
    room: Arc<Room>,
    id: u64,
    out: CancellationToken,
    place: OnceLock<OwnedSemaphorePermit>,
}

impl Room {
    pub(super) fn new() -> Arc<Self> {
        let known = Arc::new(Semaphore::new(KNOWN));
        Arc::new(Self { strangers: Mutex::default(), known })
    }

    /// A new connection comes in; an older stranger may have to go for it.
    pub(super) fn enter(self: &Arc<Self>, peer: IpAddr) -> Visit {
        let peer = network(peer);
        let out = CancellationToken::new();
        let mut strangers = self.strangers();
        let id = strangers.next;
        strangers.next += 1;
        strangers.waiting.push_back(Stranger { id, peer, out: out.clone() });
        let same = strangers.waiting.iter().filter(|one| one.peer == peer).count();
        // All clients of this machine have one address: for them there is only the whole room.
        let oldest = if !peer.is_loopback() && same > FROM_ONE_PEER {
            strangers.waiting.iter().position(|one| one.peer == peer)
        } else {
            (strangers.waiting.len() > STRANGERS).then_some(0)
        };
        if let Some(gone) = oldest.and_then(|at| strangers.waiting.remove(at)) {
            gone.out.cancel();
        }
        Visit { room: Arc::clone(self), id, out, place: OnceLock::new() }
    }

    fn strangers(&self) -> std::sync::MutexGuard<'_, Strangers> {
        self.strangers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn forget(&self, id: u64) {
        self.strangers().waiting.retain(|one| one.id != id);
    }
}

/// One customer of a carrier has a whole network of IPv6 addresses.
const fn network(peer: IpAddr) -> IpAddr {
    match peer {
        IpAddr::V4(_) => peer,
        IpAddr::V6(six) if six.is_loopback() => peer,
        IpAddr::V6(six) => IpAddr::V6(Ipv6Addr::from_bits(six.to_bits() >> 64 << 64)),
    }
}

impl Visit {
    /// The token was shown: stays, if there is room for one more.
    pub(super) fn stay(&self) -> bool {
        if self.place.get().is_some() {
            return true;
        }
        let Ok(place) = Arc::clone(&self.room.known).try_acquire_owned() else { return false };
        // A second request at the same moment may have been faster; its place is as good.
        let _kept = self.place.set(place);
        self.room.forget(self.id);
        true
    }

    /// Comes to its end when a stranger must go; never for who stays.
    pub(super) async fn sent_away(&self) {
        tokio::select! {
            () = self.out.cancelled() => {}
            () = tokio::time::sleep(PATIENCE) => {}
        }
        if self.place.get().is_some() {
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.room.forget(self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_out(visit: &Visit) -> bool {
        visit.out.is_cancelled()
    }

    fn here() -> IpAddr {
        IpAddr::from([127, 0, 0, 1])
    }

    #[test]
    fn the_stranger_that_waited_longest_makes_room() {
        let room = Room::new();
        let visits: Vec<Visit> = (0..STRANGERS).map(|_| room.enter(here())).collect();
        assert!(visits[0].stay());
        // The first is known by now, so there is room for one more.
        let one_more = room.enter(here());
        assert!(!visits.iter().any(is_out) && !is_out(&one_more));
        let last = room.enter(here());
        assert_eq!(
            visits.iter().map(is_out).collect::<Vec<_>>(),
            [vec![false, true], vec![false; STRANGERS - 2]].concat()
        );
        drop(visits);
        drop((one_more, last));
        assert!(room.strangers().waiting.is_empty());
    }

    #[test]
    fn another_machine_takes_only_its_share() {
        let room = Room::new();
        let ours = room.enter(here());
        let peer = |last: u16| IpAddr::from([0x2a00, 0, 0, 1, 0, 0, 0, last]);
        let theirs: Vec<Visit> = (0..=16).map(|last| room.enter(peer(last))).collect();
        assert_eq!(theirs.iter().filter(|visit| is_out(visit)).count(), 1);
        assert!(is_out(&theirs[0]) && !is_out(&ours));
    }

    #[test]
    fn not_even_known_clients_fill_the_machine() {
        let room = Room::new();
        let visits: Vec<Visit> = (0..KNOWN).map(|_| room.enter(here())).collect();
        assert!(visits.iter().all(Visit::stay));
        let one_more = room.enter(here());
        assert!(!one_more.stay());
        drop(visits);
        assert!(one_more.stay());
    }
}
