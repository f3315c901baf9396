//! Slows down whoever guesses secrets.
//!
//! Guesses are counted by where they come from: an IPv4 address, or a whole network of IPv6, of which one
//! machine has as many addresses as it likes. Pages are counted apart from programs, and the pages of this
//! machine together: any page that is open in a browser here could be one of them. Whoever guesses from
//! very many places meets a second count of all of them; while that is full, only places are listened to
//! from which somebody has logged in before.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use clawpen_rules::access::connect::Peer;

/// How many wrong secrets are put up with, and for how long nobody listens then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Patience {
    pub(crate) attempts: u32,
    pub(crate) window: Duration,
    pub(crate) lockout: Duration,
    pub(crate) own_programs: OwnPrograms,
}

/// Whether programs of this machine are counted: they can read the config anyway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OwnPrograms {
    Exempt,
    /// `gateway.auth.rateLimit.exemptLoopback: false`.
    Counted,
}

impl Patience {
    /// For the token of the webhooks: programs of this machine are counted like others.
    pub(crate) const HOOKS: Self = Self {
        attempts: 20,
        window: Duration::from_secs(60),
        lockout: Duration::from_secs(60),
        own_programs: OwnPrograms::Counted,
    };
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            attempts: 10,
            window: Duration::from_secs(60),
            lockout: Duration::from_secs(300),
            own_programs: OwnPrograms::Exempt,
        }
    }
}

/// What is guessed. A device that shows an old token does not lock its user's secret out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum What {
    Secret,
    DeviceToken,
    /// The token of the webhooks.
    HookToken,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Who {
    OwnPage,
    Page(IpAddr),
    OwnProgram,
    Program(IpAddr),
}

/// Who is guessing what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Guesser {
    who: Who,
    what: What,
}

/// The place that is counted: one machine has a whole /64 of IPv6 to itself.
pub(crate) fn place(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64)).into(),
    }
}

#[derive(Clone, Copy)]
struct Count {
    failures: u32,
    since: Instant,
    locked_until: Option<Instant>,
}

impl Count {
    const fn new(now: Instant) -> Self {
        Self { failures: 0, since: now, locked_until: None }
    }

    fn is_over(&self, now: Instant, window: Duration) -> bool {
        match self.locked_until {
            Some(until) => until <= now,
            None => now.duration_since(self.since) > window,
        }
    }

    /// One more; `most` of them close the door for `lockout`.
    fn add(&mut self, now: Instant, (most, window, lockout): (u32, Duration, Duration)) {
        if self.is_over(now, window) {
            *self = Self::new(now);
        }
        self.failures = self.failures.saturating_add(1);
        if self.failures >= most {
            self.locked_until = Some(now + lockout);
        }
    }

    fn left(&self, now: Instant) -> Option<Duration> {
        let left = self.locked_until?.checked_duration_since(now);
        left.filter(|left| !left.is_zero())
    }
}

#[derive(Default)]
struct Counts {
    by_guesser: HashMap<Guesser, Count>,
    /// All guesses of other machines.
    crowd: Option<Count>,
    /// Where somebody has logged in from.
    known: HashSet<IpAddr>,
}

/// Counts wrong secrets.
pub(crate) struct Throttle {
    patience: Patience,
    counts: Mutex<Counts>,
}

/// More guessers than this are not told apart, and not listened to.
const MAX_GUESSERS: usize = 10_000;
/// So many times what one guesser may try, all together may: far more than people mistype.
const CROWD: u32 = 50;

impl Throttle {
    pub(crate) fn new(patience: Patience) -> Self {
        Self { patience, counts: Mutex::default() }
    }

    /// Who a guess is counted for; `None` if it is not. Whoever comes through a proxy is never counted as
    /// of this machine, whatever a header says.
    pub(crate) fn guesser(&self, peer: &Peer, what: What) -> Option<Guesser> {
        let address = peer.address.unwrap_or(Ipv4Addr::UNSPECIFIED.into());
        let is_own = address.to_canonical().is_loopback() && !peer.is_forwarded;
        let who = match (peer.origin.is_some(), is_own) {
            (true, true) => Who::OwnPage,
            (true, false) => Who::Page(place(address)),
            (false, true) => match self.patience.own_programs {
                OwnPrograms::Exempt => return None,
                OwnPrograms::Counted => Who::OwnProgram,
            },
            (false, false) => Who::Program(place(address)),
        };
        Some(Guesser { who, what })
    }

    /// How long a guesser must still wait; `None` if he may try.
    pub(crate) fn wait(&self, guesser: Option<Guesser>, now: Instant) -> Option<Duration> {
        let guesser = guesser?;
        let Ok(counts) = self.counts.lock() else { return Some(self.patience.window) };
        let own = counts.by_guesser.get(&guesser).and_then(|count| count.left(now));
        let crowd = || {
            let is_known = guesser.stranger().is_none_or(|place| counts.known.contains(&place));
            counts.crowd.filter(|_| !is_known)?.left(now)
        };
        own.or_else(crowd)
    }

    /// Notes a wrong secret.
    pub(crate) fn failed(&self, guesser: Option<Guesser>, now: Instant) {
        let (Some(guesser), Ok(mut counts)) = (guesser, self.counts.lock()) else { return };
        let Patience { attempts, window, lockout, .. } = self.patience;
        if guesser.stranger().is_some() {
            let most = attempts.saturating_mul(CROWD);
            let crowd = counts.crowd.get_or_insert(Count::new(now));
            crowd.add(now, (most, window, window));
        }
        if counts.by_guesser.len() >= MAX_GUESSERS && !counts.by_guesser.contains_key(&guesser) {
            counts.by_guesser.retain(|_, count| !count.is_over(now, window));
            if counts.by_guesser.len() >= MAX_GUESSERS {
                return;
            }
        }
        let count = counts.by_guesser.entry(guesser).or_insert(Count::new(now));
        count.add(now, (attempts, window, lockout));
    }

    /// Forgets the wrong secrets of somebody who knows the right one.
    pub(crate) fn succeeded(&self, guesser: Option<Guesser>) {
        let (Some(guesser), Ok(mut counts)) = (guesser, self.counts.lock()) else { return };
        counts.by_guesser.remove(&guesser);
        if let Some(place) = guesser.stranger().filter(|_| counts.known.len() < MAX_GUESSERS) {
            counts.known.insert(place);
        }
    }
}

impl Guesser {
    /// The place of another machine.
    const fn stranger(self) -> Option<IpAddr> {
        match self.who {
            Who::Page(place) | Who::Program(place) => Some(place),
            Who::OwnPage | Who::OwnProgram => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(address: &str, origin: Option<&str>) -> Peer {
        Peer {
            address: Some(address.parse().unwrap()),
            origin: origin.map(str::to_owned),
            ..Peer::default()
        }
    }

    fn throttle() -> Throttle {
        Throttle::new(Patience::default())
    }

    #[test]
    fn who_guesses_is_not_listened_to_for_a_while() {
        let throttle = throttle();
        let of = |address, origin| throttle.guesser(&peer(address, origin), What::Secret);
        let page = of("127.0.0.1", Some("http://a"));
        assert_eq!(page, of("127.0.0.2", Some("http://b")));
        let start = Instant::now();
        for _ in 0..10 {
            assert_eq!(throttle.wait(page, start), None);
            throttle.failed(page, start);
        }
        assert_eq!(throttle.wait(page, start), Some(Duration::from_secs(300)));
        assert_eq!(throttle.wait(page, start + Duration::from_secs(301)), None);
        assert_eq!(throttle.wait(of("10.0.0.1", None), start), None);
        assert_eq!(of("127.0.0.1", None), None);
    }

    #[test]
    fn old_failures_and_a_success_are_forgotten() {
        let throttle = throttle();
        let program = throttle.guesser(&peer("10.0.0.1", None), What::Secret);
        let start = Instant::now();
        for second in 0..30 {
            throttle.failed(program, start + Duration::from_secs(second * 10));
        }
        assert_eq!(throttle.wait(program, start + Duration::from_secs(290)), None);
        for _ in 0..9 {
            throttle.failed(program, start);
        }
        throttle.succeeded(program);
        throttle.failed(program, start);
        assert_eq!(throttle.wait(program, start), None);
    }

    #[test]
    fn a_header_makes_nobody_a_program_of_this_machine() {
        let throttle = throttle();
        let spoofed = Peer { is_forwarded: true, ..peer("127.0.0.1", None) };
        assert!(throttle.guesser(&spoofed, What::Secret).is_some());
        let counted = Patience { own_programs: OwnPrograms::Counted, ..Patience::default() };
        let strict = Throttle::new(counted);
        assert!(strict.guesser(&peer("127.0.0.1", None), What::Secret).is_some());
    }

    #[test]
    fn a_network_of_addresses_is_one_guesser_and_tokens_are_counted_apart() {
        let throttle = throttle();
        let start = Instant::now();
        for number in 0..10 {
            let address = format!("2001:db8::{number:x}");
            throttle.failed(throttle.guesser(&peer(&address, None), What::Secret), start);
        }
        let wait =
            |address, what| throttle.wait(throttle.guesser(&peer(address, None), what), start);
        assert!(wait("2001:db8::ffff", What::Secret).is_some());
        assert!(wait("2001:db8:0:1::1", What::Secret).is_none());
        assert!(wait("2001:db8::ffff", What::DeviceToken).is_none());
    }

    #[test]
    fn many_places_together_are_not_listened_to_and_known_ones_are() {
        let throttle = throttle();
        let start = Instant::now();
        let of = |address: &str| throttle.guesser(&peer(address, None), What::Secret);
        throttle.succeeded(of("192.0.2.7"));
        for number in 0..500_u32 {
            let address = Ipv4Addr::from_bits(0x0a00_0000 + number).to_string();
            assert_eq!(throttle.wait(of(&address), start), None, "{number}");
            throttle.failed(of(&address), start);
        }
        assert_eq!(throttle.wait(of("198.51.100.1"), start), Some(Duration::from_secs(60)));
        assert_eq!(throttle.wait(of("192.0.2.7"), start), None);
        let own = throttle.guesser(&peer("127.0.0.1", Some("http://localhost")), What::Secret);
        assert_eq!(throttle.wait(own, start), None);
        assert_eq!(throttle.wait(of("198.51.100.1"), start + Duration::from_secs(61)), None);
    }

    #[test]
    fn what_is_remembered_has_an_end() {
        let patience = Patience { attempts: 1_000_000, ..Patience::default() };
        let throttle = Throttle::new(patience);
        let start = Instant::now();
        for number in 0..20_000_u32 {
            let address = Ipv4Addr::from_bits(0x0a00_0000 + number).to_string();
            throttle.failed(throttle.guesser(&peer(&address, None), What::Secret), start);
        }
        assert_eq!(throttle.counts.lock().unwrap().by_guesser.len(), MAX_GUESSERS);
    }
}
