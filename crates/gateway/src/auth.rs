//! Compares secrets, and slows down whoever guesses them.
//!
//! Secrets are compared by their digests and in constant time: neither length nor content can be read
//! off the time. They have no `Display` and no `Debug`, so no log line can hold one.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use clawpen_rules::access::connect::SecretVerdict;
use clawpen_rules::access::listen::Secret;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

/// What a client must show, as a digest.
pub(crate) enum Guard {
    Token([u8; 32]),
    Password([u8; 32]),
    None,
}

/// Which of a client's secrets counts.
#[derive(Clone, Copy)]
pub(crate) struct Shown<'a> {
    pub(crate) token: Option<&'a str>,
    pub(crate) password: Option<&'a str>,
}

impl Guard {
    /// `None` if the mode wants a token and there is none.
    pub(crate) fn of(secret: &Secret) -> Option<Self> {
        match secret {
            Secret::Token(token) => token.as_deref().map(|token| Self::Token(digest(token))),
            Secret::Password(password) => Some(Self::Password(digest(password))),
            Secret::None => Some(Self::None),
        }
    }

    pub(crate) const fn mode(&self) -> &'static str {
        match self {
            Self::Token(_) => "token",
            Self::Password(_) => "password",
            Self::None => "none",
        }
    }

    /// Says how a client's secret compares with ours.
    pub(crate) fn check(&self, shown: Shown<'_>) -> SecretVerdict {
        let (wanted, given) = match self {
            Self::None => return SecretVerdict::Right,
            Self::Token(wanted) => (wanted, shown.token),
            Self::Password(wanted) => (wanted, shown.password),
        };
        match given.filter(|given| !given.is_empty()) {
            None => SecretVerdict::Absent,
            Some(given) if digest(given).ct_eq(wanted).into() => SecretVerdict::Right,
            Some(_) => SecretVerdict::Wrong,
        }
    }
}

/// Says whether two secrets are the same, in constant time.
pub(crate) fn is_same(one: &str, other: &str) -> bool {
    digest(one).ct_eq(&digest(other)).into()
}

fn digest(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

/// How many wrong secrets are put up with, and for how long nobody listens then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Patience {
    pub(crate) attempts: u32,
    pub(crate) window: Duration,
    pub(crate) lockout: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { attempts: 10, window: Duration::from_secs(60), lockout: Duration::from_secs(300) }
    }
}

/// Who is guessing. Pages are counted by themselves, and those of this machine together: any page that
/// is open in a browser here could be one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Guesser {
    Page(Option<IpAddr>),
    Program(IpAddr),
}

impl Guesser {
    /// `None` for programs of this machine: they can read the config anyway.
    pub(crate) fn of(address: Option<IpAddr>, origin: Option<&str>) -> Option<Self> {
        let address = address.map(|address| address.to_canonical());
        let is_local = address.is_some_and(|address| address.is_loopback());
        match (origin, address) {
            (Some(_), _) => Some(Self::Page(address.filter(|_| !is_local))),
            (None, Some(address)) if !is_local => Some(Self::Program(address)),
            (None, _) => None,
        }
    }
}

struct Count {
    failures: u32,
    since: Instant,
    locked_until: Option<Instant>,
}

/// Counts wrong secrets.
pub(crate) struct Throttle {
    patience: Patience,
    counts: Mutex<HashMap<Guesser, Count>>,
}

/// More guessers than this are not told apart; the oldest are forgotten first.
const MAX_GUESSERS: usize = 10_000;

impl Throttle {
    pub(crate) fn new(patience: Patience) -> Self {
        Self { patience, counts: Mutex::new(HashMap::new()) }
    }

    /// How long a guesser must still wait; `None` if he may try.
    pub(crate) fn wait(&self, guesser: Option<Guesser>, now: Instant) -> Option<Duration> {
        let counts = self.counts.lock().ok()?;
        let until = counts.get(&guesser?)?.locked_until?;
        until.checked_duration_since(now).filter(|left| !left.is_zero())
    }

    /// Notes a wrong secret.
    pub(crate) fn failed(&self, guesser: Option<Guesser>, now: Instant) {
        let (Some(guesser), Ok(mut counts)) = (guesser, self.counts.lock()) else { return };
        if counts.len() >= MAX_GUESSERS && !counts.contains_key(&guesser) {
            let is_over = |count: &Count| {
                now.duration_since(count.since) > self.patience.window
                    && count.locked_until.is_none_or(|until| until <= now)
            };
            counts.retain(|_, count| !is_over(count));
        }
        let count =
            counts.entry(guesser).or_insert(Count { failures: 0, since: now, locked_until: None });
        let is_unlocked = count.locked_until.is_some_and(|until| until <= now);
        if is_unlocked || now.duration_since(count.since) > self.patience.window {
            *count = Count { failures: 0, since: now, locked_until: None };
        }
        count.failures += 1;
        if count.failures >= self.patience.attempts {
            count.locked_until = Some(now + self.patience.lockout);
        }
    }

    /// Forgets the wrong secrets of somebody who knows the right one.
    pub(crate) fn succeeded(&self, guesser: Option<Guesser>) {
        if let (Some(guesser), Ok(mut counts)) = (guesser, self.counts.lock()) {
            counts.remove(&guesser);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_secret_of_the_mode_counts() {
        let guard = Guard::of(&Secret::Token(Some("right".to_owned()))).unwrap();
        let check = |token, password| guard.check(Shown { token, password });
        assert_eq!(check(Some("right"), None), SecretVerdict::Right);
        assert_eq!(check(Some("Right"), None), SecretVerdict::Wrong);
        assert_eq!(check(None, Some("right")), SecretVerdict::Absent);
        assert_eq!(check(Some(""), None), SecretVerdict::Absent);
        assert!(Guard::of(&Secret::Token(None)).is_none());
    }

    #[test]
    fn who_guesses_is_not_listened_to_for_a_while() {
        let throttle = Throttle::new(Patience::default());
        let page = Guesser::of(Some([127, 0, 0, 1].into()), Some("http://a"));
        let other_page = Guesser::of(Some([127, 0, 0, 2].into()), Some("http://b"));
        assert_eq!(page, other_page);
        let start = Instant::now();
        for _ in 0..10 {
            assert_eq!(throttle.wait(page, start), None);
            throttle.failed(page, start);
        }
        assert_eq!(throttle.wait(page, start), Some(Duration::from_secs(300)));
        assert_eq!(throttle.wait(page, start + Duration::from_secs(301)), None);
        let program = Guesser::of(Some([10, 0, 0, 1].into()), None);
        assert_eq!(throttle.wait(program, start), None);
        assert_eq!(Guesser::of(Some([127, 0, 0, 1].into()), None), None);
    }

    #[test]
    fn old_failures_and_a_success_are_forgotten() {
        let throttle = Throttle::new(Patience::default());
        let program = Guesser::of(Some([10, 0, 0, 1].into()), None);
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
}
